"""How a task ends that is not to go on: not with an output, and not as a failure either (E27, E36)."""

from __future__ import annotations

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.errors import BudgetExceededError


class TaskAbandoned(Exception):  # noqa: N818 - no error
    """Ends a running task that is not to go on, because a person chose to leave the run. It is never a failure.

    Code that turns the faults of tools and delegated work into answers for a model lets this, and
    `BudgetExceededError`, through.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PreviousOutputKept(Exception):  # noqa: N818 - no error
    """Ends a task that was sent back and could not be redone. Its cause says why; the earlier output counts."""

    def __init__(self, output: TaskOutput) -> None:
        super().__init__(f"the earlier output of {output.name!r} is kept")
        self.output = output


class PartialOutputKept(Exception):  # noqa: N818 - no error
    """Ends a task that runs for each item before all of them were done (E53). Its cause says why.

    Attributes:
        output: what the items that are done put out.
    """

    def __init__(self, output: TaskOutput) -> None:
        super().__init__(f"the finished items of {output.name!r} are kept")
        self.output = output


def abandonment_in(error: BaseException) -> TaskAbandoned | BudgetExceededError | None:
    """What in the chain of causes of an error ended the task without being a failure; None where it is a failure."""
    seen: set[int] = set()  # a chain of causes may be a ring
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, TaskAbandoned | BudgetExceededError):
            return link
        seen.add(id(link))
        link = link.__cause__
    return None
