"""Grants: the part of a budget that a row takes along to another process, where it can't spend more (E36).

A grant is reserved before the row is sent, and settled with what it took when it comes back, be that after the end of
the map. If nothing comes back, the whole grant stays booked, so the budget is never exceeded, whatever happens to the
worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.engine.limits.budget_account import BudgetAccount
from ensemble_notebook.engine.limits.budget_ledger import Reservation, ReservationState
from ensemble_notebook.errors import BudgetExceededError

_LIMITS: Final = ("max_cost", "max_tokens", "max_llm_calls")


class GrantReservation(Reservation):
    """A reservation of a fixed amount, for all requests of a row together."""

    __slots__ = ("_amount",)

    def __init__(self, amount: Spending) -> None:
        super().__init__(0, 0)
        self._amount = amount

    def worst_case(self, output_tokens: int) -> Spending:  # noqa: ARG002 - the amount is fixed
        """The amount."""
        return self._amount


@dataclass(frozen=True, slots=True)
class Grant:
    """What a row may spend, and the accounts where it is reserved.

    Attributes:
        budget: the budget of the run in the worker.
    """

    budget: Budget
    _held: Sequence[tuple[BudgetAccount, GrantReservation]]

    def settle(self, taken: Spending | None) -> None:
        """Book what the row took. With None, which means unknown, the whole grant stays booked."""
        for account, reservation in self._held:
            account.settle(reservation, taken)

    def withdraw(self) -> None:
        """Release the reservation of a row that was not sent, or not begun."""
        for account, reservation in self._held:
            account.withdraw(reservation)


async def reserve_grant(accounts: Sequence[BudgetAccount], estimate: CostEstimate) -> Grant | None:
    """Reserve the most that a row may take, or what is left if that is less. Waits while other rows hold it.

    Args:
        accounts: all accounts that pay for the row.
        estimate: of the row.

    Returns:
        None if there is no account.

    Raises:
        BudgetExceededError: less is left than the row takes at least.
    """
    if not accounts:
        return None
    while True:
        amount = _find_amount(accounts, estimate)
        held: list[tuple[BudgetAccount, GrantReservation]] = []
        grant = Grant(_make_budget(accounts, amount), held)
        try:
            for account in accounts:
                reservation = GrantReservation(amount)
                held.append((account, reservation))
                decision = account.reserve(reservation)
                if decision is not None:
                    await decision
                if reservation.state is ReservationState.REFUSED:  # others have spent what there was
                    break
            else:
                return grant
        except BaseException:
            grant.withdraw()
            raise
        grant.withdraw()


def _find_amount(accounts: Sequence[BudgetAccount], estimate: CostEstimate) -> Spending:
    """The most that a row may take, limited by what is left.

    Raises:
        BudgetExceededError: less is left than the row takes at least.
    """
    low, high = _read_estimate(estimate, is_high=False), _read_estimate(estimate, is_high=True)
    for account in accounts:
        for name in account.budget.limits:
            if low.get_amount(name) > (left := account.get_remaining(name)):
                raise BudgetExceededError(
                    f"The next row takes at least {low.get_amount(name):,} of {name}, and {left:,} is left.",
                    budget=account.budget,
                    limit=name,
                )
            high = _lower(high, name, left)
    return high


def _lower(amount: Spending, limit: str, most: Decimal) -> Spending:
    name = limit.removeprefix("max_")
    parts: dict[str, Any] = {"cost": amount.cost, "tokens": amount.tokens, "llm_calls": amount.llm_calls}
    parts[name] = min(parts[name], most if name == "cost" else int(most))
    return Spending(**parts)


def _make_budget(accounts: Sequence[BudgetAccount], amount: Spending) -> Budget:
    """A budget with the limits of the accounts, lowered to the amount.

    A limit must be above 0, so an amount of 0 becomes one so small that no request fits.
    """
    names = {name for account in accounts for name in account.budget.limits}
    limits: dict[str, Any] = {name: max(amount.get_amount(name), _LEAST[name]) for name in _LIMITS if name in names}
    counts = {name: value if name == "max_cost" else int(value) for name, value in limits.items()}
    return Budget(**counts, warn_at=1, allow_unknown_cost=any(each.budget.allow_unknown_cost for each in accounts))


_LEAST: Final = {"max_cost": Decimal("1e-12"), "max_tokens": Decimal(1), "max_llm_calls": Decimal(1)}


def _read_estimate(estimate: CostEstimate, *, is_high: bool) -> Spending:
    def end(of: Any) -> Any:
        return of.high if is_high else of.low

    cost = Decimal(0) if estimate.cost is None else end(estimate.cost)
    return Spending(cost=cost, tokens=end(estimate.total_tokens), llm_calls=end(estimate.llm_calls))
