"""What the scheduler is told, in the past tense, and what it wants done, as commands. Pure, as it is."""

from __future__ import annotations

from dataclasses import dataclass

from ensemble_notebook.domain.definitions.enums import PhaseStatus


@dataclass(frozen=True, slots=True)
class RunStartRequested:
    """The run is to begin."""


@dataclass(frozen=True, slots=True)
class TaskSucceeded:
    """A running task has its output.

    Attributes:
        task: its index.
        met_conditions: numbers of the conditions that hold for its output, or whose test broke.
        broken_conditions: numbers of the latter alone.
    """

    task: int
    met_conditions: frozenset[int] = frozenset()
    broken_conditions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TaskEndedWithoutOutput:
    """A running task ended without output, failed or cancelled."""

    task: int


@dataclass(frozen=True, slots=True)
class RunningTaskSkipped:
    """A running task is not to go on, and that is no failure; `has_worked` unless that was known before its work."""

    task: int
    has_worked: bool = True


@dataclass(frozen=True, slots=True)
class PlacesWanted:
    """A running task has so many items that could begin, beside those at work; it counts anew each time."""

    task: int
    count: int


@dataclass(frozen=True, slots=True)
class PlaceReturned:
    """An item of a running task is done, and its place is free."""

    task: int


@dataclass(frozen=True, slots=True)
class PhaseApproved:
    """The review of a phase is content with it."""

    phase: int


@dataclass(frozen=True, slots=True)
class PhaseSentBack:
    """The review of a phase wants it done once more: all of it, or these tasks and what depends on them."""

    phase: int
    tasks: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class PhaseRejected:
    """The review of a phase rejects it, or broke."""

    phase: int


@dataclass(frozen=True, slots=True)
class PhaseReviewAborted:
    """The review of a phase ended without an answer: it was cancelled, or not to go on."""

    phase: int


@dataclass(frozen=True, slots=True)
class RunClosed:
    """Nothing new starts any more, in any phase, and what runs goes on.

    Attributes:
        reason: is told by all that is skipped.
        is_exit: a person has left the run, or could not be asked.
    """

    reason: str
    is_exit: bool = False


@dataclass(frozen=True, slots=True)
class RunStopRequested:
    """Somebody wants the run to stop; what was already asked to stop is not asked again."""


PhaseReviewEnded = PhaseApproved | PhaseSentBack | PhaseRejected | PhaseReviewAborted
TaskEnded = TaskSucceeded | TaskEndedWithoutOutput | RunningTaskSkipped
SchedulerInput = (
    RunStartRequested | TaskEnded | PlacesWanted | PlaceReturned | PhaseReviewEnded | RunClosed | RunStopRequested
)


@dataclass(frozen=True, slots=True)
class StartTask:
    """The task has a place and begins."""

    task: int


@dataclass(frozen=True, slots=True)
class QueueTask:
    """The task is ready and waits for a free place; the engine notes since when."""

    task: int


@dataclass(frozen=True, slots=True)
class GrantPlace:
    """The running task has a place more: another one of its items begins."""

    task: int


@dataclass(frozen=True, slots=True)
class DenyPlaces:
    """The running task begins no more items; those at work go on."""

    task: int
    reason: str


@dataclass(frozen=True, slots=True)
class CancelTask:
    """The task is running; it is to end at once, and will be reported as lost."""

    task: int


@dataclass(frozen=True, slots=True)
class SkipTask:
    """The task will not run."""

    task: int
    reason: str


@dataclass(frozen=True, slots=True)
class StartPhase:
    """Nothing holds the phase any more."""

    phase: int


@dataclass(frozen=True, slots=True)
class QueueReview:
    """The phase is to be reviewed, and its reviewer waits for a free place."""

    phase: int


@dataclass(frozen=True, slots=True)
class ReviewPhase:
    """Every task of the phase is resolved, none failed, and its review has a place."""

    phase: int


@dataclass(frozen=True, slots=True)
class CancelReview:
    """The review is to end at once, and will be reported as lost."""

    phase: int


@dataclass(frozen=True, slots=True)
class RetryPhase:
    """These tasks of the phase are to be resolved once more; what came of them before no longer counts."""

    phase: int
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndRounds:
    """No condition of the phase holds, and it is not done again: no round is left, or a condition is broken."""

    phase: int


@dataclass(frozen=True, slots=True)
class EndPhase:
    """The phase is over; `is_cancelled` where it was cut short, which is no failure of its own.

    `reason` says why a person has left it.
    """

    phase: int
    status: PhaseStatus
    is_cancelled: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SkipPhase:
    """The phase will not run."""

    phase: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """Everything is resolved; always the last one."""


TaskCommand = StartTask | QueueTask | GrantPlace | DenyPlaces | CancelTask | SkipTask
PhaseCommand = StartPhase | QueueReview | ReviewPhase | CancelReview | RetryPhase | EndRounds | EndPhase | SkipPhase
NodeCommand = TaskCommand | PhaseCommand
Command = NodeCommand | EndRun
