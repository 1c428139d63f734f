"""What can happen in a run, as the scheduler is told: its inputs, each named in the past tense."""

from __future__ import annotations

from dataclasses import dataclass


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
    """A running task is not to go on, and that is no failure."""

    task: int


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
    """Nothing new starts any more, in any phase, and what runs goes on; `reason` is told by all that is skipped."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunStopRequested:
    """Somebody wants the run to stop; what was already asked to stop is not asked again."""


SchedulerInput = (
    RunStartRequested
    | TaskSucceeded
    | TaskEndedWithoutOutput
    | RunningTaskSkipped
    | PlacesWanted
    | PlaceReturned
    | PhaseApproved
    | PhaseSentBack
    | PhaseRejected
    | PhaseReviewAborted
    | RunClosed
    | RunStopRequested
)
