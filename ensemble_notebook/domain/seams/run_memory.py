"""The seam between the engine and what remembers runs: what counts for a task, and the tasks of earlier runs.

The engine asks before a task starts and tells when one is done. Where that is kept, and how a key is made, it does not
know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from ensemble_notebook.domain.outputs.task_output import TaskOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """What counts for a task: equal keys, equal work.

    Attributes:
        key: hex digest of `parts`.
        parts: short digests by what they are of (``"description"``, ``"agent.goal"``, ``"model"``, ``"tool search"``,
            ``"context gather"``, ``"memory"``), to say what has changed.
        obstacle: why the task can't be compared, in words; then it is never reused. None where it can.
    """

    key: str
    parts: Mapping[str, str]
    obstacle: str | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTask:
    """A task that was done in an earlier run.

    Attributes:
        run_id: of the run that did it.
        path: ``"phase/task"`` or ``"task"``.
        output: without trace and metrics; a typed output without its value, which is read from the text again.
        delegated: what its workers completed, for the task of a manager (E22).
        tokens, cost: what it took then, input and output together; None where that is unknown.
        currency: of the cost.
        duration_ms: its duration then (E50).
        attempt, feedback: how often it was done by then, and what reviews and guardrails had said to it, oldest first,
            where this run goes on with the one that did it: its phase may still be sent back (E46).
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


class KeptTasks(Protocol):
    """The tasks of earlier runs, as one run sees them, and where its own are kept. Neither method ever raises."""

    def find(self, path: str, key: TaskKey, *, is_asked_for: bool = False) -> tuple[KeptTask | None, str]:
        """The kept task that serves in place of this one, or None; and why it does or does not, in words.

        Args:
            path: of the task that is about to start, as of a `KeptTask`.
            key: of it.
            is_asked_for: whether somebody wants this very task to run (``only``): then it serves only where this run
                goes on with the one that did it.
        """

    def keep(
        self,
        path: str,
        key: PendingKey,
        output: TaskOutput,
        delegated: Sequence[TaskOutput] = (),
        *,
        obstacle: str | None = None,
        attempt: int = 1,
        feedback: Sequence[str] = (),
    ) -> None:
        """A task is done.

        Args:
            path: as of a `KeptTask`; that of a phase, which ends in a slash, for the approval of its outputs.
            key: where it has an obstacle, the output is for whoever goes on with this very run.
            output: of the task; one that was reused itself says so.
            delegated: as of a `KeptTask`.
            obstacle: why the output can't be given back; then it is kept only to say why the task runs again.
            attempt: as of a `KeptTask`.
            feedback: likewise.
        """
