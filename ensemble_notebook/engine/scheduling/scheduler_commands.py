"""What the scheduler wants done. Commands are carried out in order, each before the next one."""

from __future__ import annotations

from dataclasses import dataclass

from ensemble_notebook.domain.definitions.enums import PhaseStatus


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
    """The phase is over; `is_cancelled` where it was cut short, which is no failure of its own."""

    phase: int
    status: PhaseStatus
    is_cancelled: bool


@dataclass(frozen=True, slots=True)
class SkipPhase:
    """The phase will not run."""

    phase: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """Everything is resolved; always the last one."""


NodeCommand = (
    StartTask
    | QueueTask
    | GrantPlace
    | DenyPlaces
    | CancelTask
    | SkipTask
    | StartPhase
    | QueueReview
    | ReviewPhase
    | CancelReview
    | RetryPhase
    | EndRounds
    | EndPhase
    | SkipPhase
)

Command = NodeCommand | EndRun
