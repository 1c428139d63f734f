"""What a task is given when it starts, beside its definition; and how it may end without an output or a fault."""

from __future__ import annotations

from dataclasses import dataclass

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.errors import BudgetExceededError


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingOutput:
    """An output that the task reads and that is not there (E32, E33): whose, and why in a few words."""

    name: str
    agent_role: str
    description: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a review wants to be done better; `attempt` counts from 1, so a revision begins with 2 (E28, E45)."""

    attempt: int
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTask:
    """One start of a task.

    Attributes:
        description: resolved.
        context: the outputs that the task reads and that are there, in the order of its ``context``.
        missing: those that are not there.
        revision: where a phase was sent back by its review.
        is_last: whether `ReviewPolicy.AFTER_LAST_TASK` means this one.
    """

    description: str
    context: tuple[TaskOutput, ...] = ()
    missing: tuple[MissingOutput, ...] = ()
    revision: Revision | None = None
    is_last: bool = False


class TaskAbandoned(Exception):  # noqa: N818 - no error
    """Ends a running task that is not to go on: a person wished to leave, or the budget is used up. Never a failure.

    Whoever answers the faults of tools and workers lets it, and `BudgetExceededError`, through.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PreviousOutputKept(Exception):  # noqa: N818 - no error
    """Ends a task that was sent back and could not be redone: its cause says why, and the earlier output stays."""

    def __init__(self, output: TaskOutput) -> None:
        super().__init__(f"the earlier output of {output.name!r} is kept")
        self.output = output


def abandonment_in(error: BaseException) -> TaskAbandoned | BudgetExceededError | None:
    """What in the chain of causes of an error ended the task without being a failure; None where it is one."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, TaskAbandoned | BudgetExceededError):
            return link
        seen.add(id(link))
        link = link.__cause__
    return None
