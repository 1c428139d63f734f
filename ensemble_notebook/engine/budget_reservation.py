"""The accounts of budgets: one for each run, or for each shared `Budget`, used from many loops and threads (E4, E36).

Knows how to wait and wake; what fits and what does not is the ledger's.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Final
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.amounts import DOLLARS
from ensemble_notebook.domain.definitions.limits import (
    Budget,
    CostConfiguration,
    Price,
    Pricing,
    Spending,
    register_spending_finder,
)
from ensemble_notebook.domain.kernel_limits import ASK, name_setter
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import ChatPort, Conversation, RequestPlaces
from ensemble_notebook.domain.wording import format_money, pluralize
from ensemble_notebook.engine.budget_ledger import BudgetLedger, Reservation, ReservationState
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.errors import BudgetExceededError


class _Books:
    """A ledger behind a lock, and those who wait for it. Knows no `Budget`, with which it is to end."""

    def __init__(self, budget: Budget) -> None:
        # Re-entrant, since a coroutine that nobody runs any more may be collected, and withdraw, at any place.
        self.lock = threading.RLock()
        self.ledger = BudgetLedger(budget)
        self.decisions: dict[Reservation, CrossThreadEvent] = {}
        self.passed: Counter[tuple[str | None, str]] = Counter()


class BudgetAccount:
    """What a run spends from. Those of one shared budget have the same books.

    Attributes:
        budget: what it is the account of.
        currency: of its money.
    """

    def __init__(self, budget: Budget, books: _Books, currency: str = DOLLARS) -> None:
        self.budget = budget
        self.currency = currency
        self._lock, self._ledger, self._decisions = books.lock, books.ledger, books.decisions
        self._passed = books.passed

    @property
    def booked(self) -> Spending:
        """What is spent for good."""
        with self._lock:
            return self._ledger.booked

    @property
    def held(self) -> Spending:
        """What is reserved for requests that are not over."""
        with self._lock:
            return self._ledger.held

    def get_remaining(self, limit: str) -> Decimal:
        """What is not spent for good of a limit."""
        with self._lock:
            return self._ledger.get_remaining(limit)

    def book_elsewhere(self, spent: Spending) -> None:
        """Count what other processes have spent of it by now, in all."""
        with self._lock:
            self._ledger.book_elsewhere(spent)

    def get_passed(self, port: ChatPort) -> int:
        """The longest reply of a model that was limited to less, in tokens; 0 where there was none."""
        return self._passed[port.provider, port.name]

    def note_passed(self, port: ChatPort, output_tokens: int) -> None:
        """Remember a reply that was longer than its limit: the server does not keep to it."""
        with self._lock:
            self._passed[port.provider, port.name] = max(output_tokens, self.get_passed(port))

    def reserve(self, reservation: Reservation) -> CrossThreadEvent | None:
        """Ask the ledger. Where the reservation has to wait, whom to await; it is decided then."""
        with self._lock:
            self._ledger.reserve(reservation)
            if reservation.state is not ReservationState.WAITING:
                return None
            decision = self._decisions[reservation] = CrossThreadEvent()
            return decision

    def mark_sent(self, reservation: Reservation) -> None:
        """The request goes out."""
        with self._lock:
            self._ledger.mark_sent(reservation)

    def settle(self, reservation: Reservation, taken: Spending | None) -> None:
        """The request is over; None where nobody knows what it took."""
        with self._lock:
            self._wake(self._ledger.settle(reservation, taken))

    def withdraw(self, reservation: Reservation) -> None:
        """The request will not be sent, whether it still waits or has its place by now."""
        with self._lock:
            self._decisions.pop(reservation, None)
            self._wake(self._ledger.withdraw(reservation))

    def _wake(self, decided: Iterable[Reservation]) -> None:
        for reservation in decided:
            if not self._decisions.pop(reservation).set():
                self._wake(self._ledger.withdraw(reservation))


_shared_books: Final[WeakKeyDictionary[Budget, _Books]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def open_account(budget: Budget, currency: str = DOLLARS) -> BudgetAccount:
    """The account that a run spends from: a new one, or for a shared budget one more with the books of that object."""
    if not budget.is_shared:
        return BudgetAccount(budget, _Books(budget), currency)
    with _lock:
        books = _shared_books.get(budget)
        if books is None:
            books = _shared_books[budget] = _Books(budget)
    return BudgetAccount(budget, books, currency)


def _find_spending(budget: Budget) -> Spending | None:
    with _lock:
        books = _shared_books.get(budget)
    return None if books is None else BudgetAccount(budget, books).booked


register_spending_finder(_find_spending)


# --- The right to send one model request, and how it is paid for. Knows budgets and prices ----------------------------


_UNCOUNTED: Final = Price(Decimal(0), Decimal(0))
# So many tokens of output are priced to know what one costs; dividing by it is exact.
_SAMPLE_TOKENS: Final = 1000


class Admission:
    """What every request needs. This one is free, and limits nothing.

    Attributes:
        max_tokens: what the request must limit its output to; None where it need not.
    """

    max_tokens: int | None = None

    def mark_sent(self) -> None:
        """The request goes out."""

    def withdraw(self) -> None:
        """The request will not be sent."""

    def settle(self, usage: TokenUsage, model: str | None = None) -> None:
        """The request is over.

        Args:
            usage: nothing where it was refused; unknown where nobody knows what it took.
            model: who answered, where the provider says.
        """


class JointAdmission(Admission):
    """Paid from several accounts: a nested run's own, and those of the runs around it."""

    def __init__(self, admissions: Sequence[Admission]) -> None:
        self._admissions = admissions
        limits = [each.max_tokens for each in admissions if each.max_tokens is not None]
        self.max_tokens = min(limits, default=None)

    def mark_sent(self) -> None:
        """The request goes out."""
        for each in self._admissions:
            each.mark_sent()

    def withdraw(self) -> None:
        """The request will not be sent."""
        for each in self._admissions:
            each.withdraw()

    def settle(self, usage: TokenUsage, model: str | None = None) -> None:
        """Book what it took, in each account."""
        for each in self._admissions:
            each.settle(usage, model)


class ConnectionAdmission(Admission):
    """Holds the place of one request among the connections of this process."""

    def __init__(self, places: RequestPlaces) -> None:
        self._places = places

    def withdraw(self) -> None:
        """The request will not be sent."""
        self._places.give_back()

    def settle(self, usage: TokenUsage, model: str | None = None) -> None:  # noqa: ARG002 - whatever it took
        """The request is over."""
        self._places.give_back()


class BudgetAdmission(Admission):
    """Paid from the account of a budget: the worst case of the next request of a conversation.

    Raises:
        BudgetExceededError: under `max_cost`, a price that nobody knows.
    """

    def __init__(
        self,
        account: BudgetAccount,
        pricing: Pricing | None,
        port: ChatPort,
        conversation: Conversation,
        at: datetime,
        rates: CostConfiguration | None = None,
    ) -> None:
        self._account = account
        self._rates = rates
        self._budget = budget = account.budget
        self._pricing = pricing
        self._port = port
        self._at = at
        input_tokens = conversation.input_bound()
        # The price of the input at its dearest, since writing a cache costs more with some, and of a sample of output.
        sample = TokenUsage(input_tokens=input_tokens, output_tokens=_SAMPLE_TOKENS)
        used = (sample, replace(sample, cache_write_tokens=input_tokens))
        prices = [price for each in used if (price := self._find_price(each, port.name)) is not None]
        price = Price(max(each.input for each in prices), max(each.output for each in prices)) if prices[1:] else None
        if price is None:
            if budget.max_cost is not None and not budget.allow_unknown_cost:
                message = describe_unknown_price(port.name, port.provider, budget.set_by)
                raise BudgetExceededError(message, budget=budget, limit="max_cost")
            price = _UNCOUNTED
        self._reservation = Reservation(
            input_tokens, port.max_tokens, price.input, price.output / _SAMPLE_TOKENS, account.get_passed(port)
        )

    def reserve(self) -> CrossThreadEvent | None:
        """Reserve it, or say whom to await first; then `raise_if_refused`."""
        return self._account.reserve(self._reservation)

    def raise_if_refused(self) -> None:
        """Whether it was granted.

        Raises:
            BudgetExceededError: it can never fit into what the budget leaves.
        """
        reservation = self._reservation
        if reservation.state is ReservationState.REFUSED and reservation.exceeded is not None:
            name, limit = reservation.exceeded, self._budget.limits[reservation.exceeded]
            set_by = self._budget.set_by
            if name == "max_llm_calls":  # it is used up, to the last of them
                message = f"The budget's requests are used up: {limit} of {limit}. "
                message += _advise(set_by) if set_by else "Raise its max_llm_calls."
                shortfall = f"0 of {pluralize(int(limit), 'call')} are left; {name_setter(set_by)}" if set_by else ""
                raise BudgetExceededError(message, budget=self._budget, limit=name, shortfall=shortfall)
            needed, left = reservation.needed.get_amount(name), max(self._account.get_remaining(name), Decimal(0))
            if name == "max_tokens":
                has, whole = "is" if left == 1 else "are", pluralize(int(limit), "token")
                shortfall = f"{pluralize(int(left), 'token')} {has} left; the next call may need {needed:,}"
            else:
                currency = self._account.currency
                amounts = [format_money(each, currency) for each in (left, needed)]
                shortfall = f"{amounts[0]} is left; the next call may need {amounts[1]}"
                whole = format_money(limit, currency)
            raises = _advise(set_by) if set_by else f"Raise the budget's {name},"
            message = (
                f"{shortfall}. The budget of {whole} leaves too little to ask {self._port.name}. {raises} or let the "
                f"model write less in one reply: its own max_tokens."
            )
            shortfall += f"; {name_setter(set_by)}" if set_by else ""
            raise BudgetExceededError(message, budget=self._budget, limit=name, shortfall=shortfall)
        self.max_tokens = reservation.max_tokens

    @property
    def warning(self) -> Spending | None:
        """What is spent or held, where this admission is the one that came near a limit."""
        return self._reservation.warning

    def mark_sent(self) -> None:
        """The request goes out."""
        self._account.mark_sent(self._reservation)

    def withdraw(self) -> None:
        """The request will not be sent."""
        self._account.withdraw(self._reservation)

    def settle(self, usage: TokenUsage, model: str | None = None) -> None:
        """Book what it took; its worst case where that is unknown."""
        if usage.input_tokens is None or usage.output_tokens is None:
            self._account.settle(self._reservation, None)
            return
        limit = self._port.max_tokens or self._reservation.max_tokens
        if limit is not None and usage.output_tokens > limit:
            self._account.note_passed(self._port, usage.output_tokens)
        # By the name of the model that answered, else by the one that was asked for, as the trace does it.
        price = (self._find_price(usage, model) if model else None) or self._find_price(usage, self._port.name)
        cost = self._reservation.held.cost if price is None else price.total
        self._account.settle(self._reservation, Spending(cost=cost, tokens=usage.input_tokens + usage.output_tokens))

    def _find_price(self, usage: TokenUsage, model: str) -> Price | None:
        if self._pricing is None:
            return None
        return self._pricing(
            usage,
            provider=self._port.provider,
            model=model,
            at=self._at,
            rates=self._rates,
            currency=self._account.currency,
        )


def _advise(set_by: str) -> str:
    return f"It is set by {set_by}: {ASK},"


def describe_unknown_price(model: str, provider: str | None, set_by: str = "") -> str:
    """Why a model can't be used under `max_cost`, and what to do.

    Args:
        model: its name.
        provider: who serves it.
        set_by: who has set the budget for all runs of a kernel; empty where it is the run's own.
    """
    owner = f" by {provider}" if provider else ""
    if set_by:
        return (
            f"The price of {model}{owner} is unknown, so that the budget that {set_by} sets can't be held. Take a "
            f"model with a known price, give its ensemble own rates with cost=CostConfiguration(...), or {ASK}."
        )
    return (
        f"The price of {model}{owner} is unknown, so that max_cost can't be held. Give its ensemble own rates with "
        f"cost=CostConfiguration(...), or the model alone, as 'cost' beside it; limit max_tokens instead, or set "
        f"allow_unknown_cost=True."
    )
