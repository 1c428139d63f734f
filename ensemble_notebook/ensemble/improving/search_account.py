"""What improving texts may spend, and has spent: really, and as if nothing had been there to reuse (V69).

Pure. The search ends by the second figure, so that a seed gives the same search whether replies are reused or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.events import Event, TaskReused
from ensemble_notebook.domain.wording import format_count, format_money

NOTHING = Spending()


class SearchOver(BaseException):
    """The search ends, in the middle of whatever it does; says why. No `Exception`, since gepa goes on after those."""


class SearchAccount:
    """The account of all that is run.

    Args:
        budget: of all of it.
        currency: of its costs.

    Attributes:
        paid: what was really spent.
        charged: the same, with what earlier runs had paid for and this one reused.
    """

    def __init__(self, budget: Budget, currency: str) -> None:
        self.budget = budget
        self.currency = currency
        self.paid = NOTHING
        self.charged = NOTHING
        self._known: set[tuple[str, str]] = set()

    def book(self, metrics: Any, events: Iterable[Event], own_id: str) -> Spending:
        """Book what a run took; gives what it is charged.

        Args:
            metrics: of the run.
            events: of it, the runs inside it included.
            own_id: of the run around all, whose own replies are not charged again where they are reused.
        """
        paid = Spending(cost=metrics.cost or Decimal(0), tokens=metrics.total_tokens, llm_calls=metrics.llm_call_count)
        charged = paid
        for each in events:
            saving = each.output.saving if isinstance(each, TaskReused) else None
            if saving is None or saving.run_id == own_id or (saving.run_id, saving.path) in self._known:
                continue
            self._known.add((saving.run_id, saving.path))
            cost = saving.cost or Decimal(0)
            charged += Spending(cost=cost, tokens=saving.tokens or 0, llm_calls=1 if saving.tokens else 0)
        self.paid += paid
        self.charged += charged
        return charged

    def has_room(self, needed: Spending) -> bool:
        """Whether so much more may be charged."""
        whole = self.charged + needed
        return all(whole.get_amount(name) <= Decimal(limit) for name, limit in self.budget.limits.items())

    def find_rest(self, reserved: Spending = NOTHING) -> Budget | None:
        """The budget of what runs next, without what is reserved; None where nothing is left."""
        spent = self.paid + reserved
        left: dict[str, Any] = {
            name: limit.__class__(Decimal(limit) - spent.get_amount(name)) for name, limit in self.budget.limits.items()
        }
        if any(each <= 0 for each in left.values()):
            return None
        return Budget(**left, allow_unknown_cost=self.budget.allow_unknown_cost)

    def describe(self, spending: Spending) -> str:
        """An amount in the unit of the budget: ``$0.31``, ``12k tokens`` or ``40 calls``."""
        if "max_cost" in self.budget.limits:
            return format_money(spending.cost, self.currency)
        if "max_tokens" in self.budget.limits:
            return f"{format_count(spending.tokens)} tokens"
        return f"{spending.llm_calls:,} calls"

    @property
    def limit(self) -> str:
        """The budget, as amounts of it are described."""
        limits = self.budget.limits
        whole = Spending(
            cost=Decimal(limits.get("max_cost", 0)),
            tokens=int(limits.get("max_tokens", 0)),
            llm_calls=int(limits.get("max_llm_calls", 0)),
        )
        return self.describe(whole)


def scale(spending: Spending, factor: float) -> Spending:
    """So many times as much, tokens and calls rounded up: a third of three calls is one, whatever 1/3 is as a float."""
    return Spending(
        cost=spending.cost * Decimal(str(factor)),
        tokens=math.ceil(round(spending.tokens * factor, 6)),
        llm_calls=math.ceil(round(spending.llm_calls * factor, 6)),
    )
