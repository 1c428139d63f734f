"""The accounts of budgets: one for each run, or for each shared `Budget`, used from many loops and threads (E4, E36).

Knows how to wait and wake; what fits and what does not is the ledger's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from decimal import Decimal
from typing import Final
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.limits import Budget, Spending, register_spending_finder
from ensemble_notebook.engine.limits.budget_ledger import BudgetLedger, Reservation, ReservationState
from ensemble_notebook.engine.threads.cross_thread_event import CrossThreadEvent


class _Books:
    """A ledger behind a lock, and those who wait for it. Knows no `Budget`, with which it is to end."""

    def __init__(self, budget: Budget) -> None:
        # Re-entrant, since a coroutine that nobody runs any more may be collected, and withdraw, at any place.
        self.lock = threading.RLock()
        self.ledger = BudgetLedger(budget)
        self.decisions: dict[Reservation, CrossThreadEvent] = {}


class BudgetAccount:
    """What a run spends from. Those of one shared budget have the same books.

    Attributes:
        budget: what it is the account of.
    """

    def __init__(self, budget: Budget, books: _Books) -> None:
        self.budget = budget
        self._lock, self._ledger, self._decisions = books.lock, books.ledger, books.decisions

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


def open_account(budget: Budget) -> BudgetAccount:
    """The account that a run spends from: a new one, or for a shared budget one more with the books of that object."""
    if not budget.is_shared:
        return BudgetAccount(budget, _Books(budget))
    with _lock:
        books = _shared_books.get(budget)
        if books is None:
            books = _shared_books[budget] = _Books(budget)
    return BudgetAccount(budget, books)


def _find_spending(budget: Budget) -> Spending | None:
    with _lock:
        books = _shared_books.get(budget)
    return None if books is None else BudgetAccount(budget, books).booked


register_spending_finder(_find_spending)
