"""The seam between the engine and what remembers runs: the keys of tasks, and what is kept of those of earlier runs.

The engine asks before a task starts and tells when one is done. Where that is kept, and how a key is made, it does not
know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, Literal, NamedTuple, Protocol

from ensemble_notebook.domain.outputs.task_output import TaskOutput


class InputRead(NamedTuple):
    """Something that the code of a task has read of the inputs of its run.

    Attributes:
        kind: the value of the input of this name, whether there is one of this name, the number of inputs, or all.
        name: of the input; empty where it is about no single one.
    """

    kind: Literal["value", "presence", "number", "all"]
    name: str = ""


Reads = frozenset[InputRead]
EVERY_INPUT: Final[Reads] = frozenset({InputRead("all")})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """What counts for a task: equal keys, equal work.

    What the code of a task reads of the inputs is known when it is done. Until then the key is without inputs, and
    `with_reads` completes it.

    Attributes:
        key: hex digest of `parts`; of a completed one three of them, of which the first is that of what counts beside
            the inputs, the second that of what was read, the third that of all `parts`.
        parts: short digests by what they are of (``"description"``, ``"agent.goal"``, ``"model"``, ``"tool search"``,
            ``"context gather"``, ``"memory"``), to say what has changed.
        obstacle: why the task can't be compared, in words; then it is never reused. None where it can.
        complete: gives the key with those inputs that were read; None where no code sees any, or all count anyway.
        older_reads: what was taken to be read by runs that did not note it, the most likely first.
    """

    key: str
    parts: Mapping[str, str]
    obstacle: str | None = None
    complete: Callable[[Reads], TaskKey] | None = field(default=None, compare=False)
    older_reads: tuple[Reads, ...] = field(default=(), compare=False)

    def with_reads(self, reads: Reads) -> TaskKey:
        """The key of the task if its code reads this."""
        if self.complete is None:
            return self
        whole = self.complete(reads)
        return whole if self.obstacle is None else replace(whole, obstacle=self.obstacle)


NO_KEY: Final = TaskKey(key="", parts={}, obstacle="no run is remembered")
"""Of the tasks of a run that nobody compares."""


class PendingKey:
    """A `TaskKey` that is made when it is first wanted, on whatever thread: all that it is made of stays as it is.

    Args:
        make: makes it; never raises.
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], TaskKey]) -> None:
        self._make = make
        self._made: TaskKey | None = None

    def get(self) -> TaskKey:
        """The key."""
        if self._made is None:
            self._made = self._make()
        return self._made


@dataclass(frozen=True, slots=True)
class Approval:
    """A gate that let a task pass.

    Attributes:
        gate: ``"before"`` or ``"after"``.
        by: who decided, in words.
        reviewer: the same for who counts as the same: ``"person"``, or a digest of the handler's content; None where
            that is not known.
        run_id: of the run in which that was; None for the present one.
    """

    gate: str
    by: str
    reviewer: str | None
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTask:
    """A task that was done in an earlier run.

    Attributes:
        run_id: of the run that did it.
        path: of the task in that run: ``"phase/task"`` or ``"task"``.
        output: without trace and metrics; a typed output without its value, which is read from the text again.
        delegated: what its workers completed, for the task of a manager.
        tokens, cost: what it took then, input and output together; None where that is unknown.
        currency: of the cost.
        duration_ms: its duration then.
        attempt, feedback: how often it was done by then, and what reviews and guardrails had said to it, oldest first,
            where this run goes on with the one that did it: its phase may still be sent back.
        reads: what its code has read of the inputs.
        approvals: the gates that let it pass, in that run or, where that one had reused it, in those before.
        is_given: whether somebody gives the output in its place, and guardrails and reviews are still to judge it.
        warning: what is to be told of it, where it is kept although the task has changed since; mostly empty.
    """

    run_id: str
    path: str
    output: TaskOutput
    delegated: tuple[TaskOutput, ...] = ()
    tokens: int | None = None
    cost: Decimal | None = None
    currency: str | None = None
    duration_ms: float = 0.0
    attempt: int = 1
    feedback: tuple[str, ...] = ()
    reads: Reads = frozenset()
    approvals: tuple[Approval, ...] = ()
    is_given: bool = False
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneTask:
    """A task that is done, with what later runs are to know of it.

    Attributes:
        path: as of a `KeptTask`; that of a phase, or of a task for each item, and a slash for the approval of its
            outputs.
        key: where it has an obstacle, the output is for whoever goes on with this very run.
        output: of the task; one that was reused itself says so.
        delegated, attempt, feedback, approvals: as of a `KeptTask`.
        obstacle: why the output can't be given back; then it is kept only to say why the task runs again.
    """

    path: str
    key: PendingKey
    output: TaskOutput
    delegated: tuple[TaskOutput, ...] = ()
    obstacle: str | None = None
    attempt: int = 1
    feedback: Sequence[str] = ()
    approvals: tuple[Approval, ...] = ()


class KeptTasks(Protocol):
    """The tasks of earlier runs, as one run sees them, and where its own are kept. Neither method ever raises."""

    def find(
        self, path: str, key: TaskKey, *, attempt: int = 1, is_asked_for: bool = False
    ) -> tuple[KeptTask | None, str]:
        """The kept task that serves in place of this one, or None; and why it does or does not, in words.

        Args:
            path: of the task that is about to start, as of a `KeptTask`.
            key: of it.
            attempt: with which it starts, from 1.
            is_asked_for: whether somebody wants this very task to run (``only``): then it serves only where this run
                goes on with the one that did it.
        """

    def is_given(self, path: str) -> bool:
        """Whether somebody gives the output of the task at this path, and no part of it is to run."""

    def keep(self, done: DoneTask) -> None:
        """A task is done."""
