"""What a run did not spend, since earlier runs had done the work of its tasks (C34). It counts in no sum of the run."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.trace.spans.span import Span


@dataclass(slots=True)
class Savings:
    """The sums over the reused tasks of one run: 0 where none was reused.

    Tokens and cost are the known part, None where nothing is known of any task that was.

    Attributes:
        currency: of the run; what was paid in another one is not in `cost`.
        task_count: how many tasks were reused.
    """

    currency: str
    task_count: int = 0
    tokens: int | None = 0
    cost: Decimal | None = Decimal(0)
    ms: float = 0.0

    def add(self, task: Span) -> None:
        """One more task was reused."""
        if self.task_count == 0:
            self.tokens = self.cost = None
        self.task_count += 1
        self.ms += task.saved_ms or 0.0
        if task.saved_tokens is not None:
            self.tokens = (self.tokens or 0) + task.saved_tokens
        if task.saved_cost is not None and task.currency == self.currency:
            self.cost = (self.cost or Decimal(0)) + task.saved_cost

    def describe(self, tasks: int) -> str:
        """What was reused of so many tasks, and what that saved; what costs nothing is not told of."""
        parts = [format_money(self.cost, self.currency)] if self.cost else []
        parts += [f"{format_count(self.tokens)} tokens"] if self.tokens else []
        parts += [format_duration(self.ms)] if self.ms >= 1 else []
        told = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
        saved = f": {told} saved" if told else ""
        return f"{self.task_count:,} of {pluralize(tasks, 'task')} reused{saved}"
