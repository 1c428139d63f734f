"""What a run came to, and which word fits it (E34)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason, RunStatus
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.errors import BudgetExceededError

_STATUS: Final = {
    ExitReason.COMPLETED: RunStatus.COMPLETED,
    ExitReason.USER_EXIT_EARLY: RunStatus.EXITED_EARLY,
    ExitReason.BUDGET_EXCEEDED: RunStatus.BUDGET_EXCEEDED,
    ExitReason.INTERRUPTED: RunStatus.INTERRUPTED,
    ExitReason.TIMEOUT: RunStatus.FAILED,
    ExitReason.ERROR: RunStatus.FAILED,
}


@dataclass(slots=True)
class RunResult:
    """What a run came to, so far.

    Attributes:
        status: RUNNING until `conclude`.
        exit_reason: why nothing more was to start; COMPLETED unless something else happened.
        outputs: by task index, in completion order.
        failures: in order of failure.
        skipped: in the order in which that was decided.
        cancelled: indices of the tasks that were running when the run was stopped.
        is_doubtful: a phase went on although its review would have sent it back (E28).
        delegated: what the workers of a manager completed, in that order; all of it before the manager's own (E22).
        budget_error: what was refused first because a budget is used up, of this run or of one around it (E52).
    """

    status: RunStatus = RunStatus.RUNNING
    exit_reason: ExitReason = ExitReason.COMPLETED
    outputs: dict[int, TaskOutput] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    is_doubtful: bool = False
    delegated: tuple[TaskOutput, ...] = ()
    budget_error: BudgetExceededError | None = None

    @property
    def completed(self) -> tuple[TaskOutput, ...]:
        """All outputs, in the order in which they were completed."""
        return (*self.delegated, *self.outputs.values())

    @property
    def error(self) -> BaseException | None:
        """What the run failed with; None where it did not fail, be it with failures."""
        is_bearable = self.status is RunStatus.COMPLETED_WITH_WARNINGS
        return None if is_bearable or not self.failures else self.failures[0].error

    def forget(self, tasks: Mapping[int, str]) -> None:
        """Forget what came of the tasks of a phase that are done once more, given as names by index."""
        names = set(tasks.values())
        for index in tasks:
            self.outputs.pop(index, None)
        self.skipped = [each for each in self.skipped if each.kind != "task" or each.name not in names]
        self.failures = [each for each in self.failures if each.item_of not in names]

    def conclude(self, strategy: ErrorStrategy) -> None:
        """Find the status. Where failures are borne (PARTIAL), a run fails only if nothing useful came of it (E34).

        All roots failed is a case of that: what depends on them does not run.
        """
        if self.failures and self.exit_reason is ExitReason.COMPLETED:
            is_useful = any(output.raw.strip() for output in self.outputs.values())
            if strategy is not ErrorStrategy.PARTIAL or not is_useful:
                self.exit_reason = ExitReason.ERROR
        self.status = _STATUS[self.exit_reason]
        fell_back = any(output.from_fallback for output in self.outputs.values())
        if self.status is RunStatus.COMPLETED and (self.failures or fell_back or self.is_doubtful):
            self.status = RunStatus.COMPLETED_WITH_WARNINGS
