"""Budgets shared by many: one ledger for each `Budget` object, used from several loops and threads at once (E36).

Knows how to wait and wake; what fits and what does not is the ledger's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from decimal import Decimal
from typing import Final
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.engine.limits.budget_ledger import Claim, Ledger, Stage
from ensemble_notebook.engine.threads.cross_thread_event import Waiter


class Account:
    """A `Ledger` behind a lock, and those who wait for it."""

    def __init__(self, budget: Budget) -> None:
        # Re-entrant, since a coroutine that nobody runs any more may be collected, and withdraw, at any place.
        self._lock = threading.RLock()
        self._ledger = Ledger(budget)
        self._waiters: dict[Claim, Waiter] = {}

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

    def left(self, limit: str) -> Decimal:
        """What is not spent for good of a limit."""
        with self._lock:
            return self._ledger.left(limit)

    def ask(self, claim: Claim) -> Waiter | None:
        """Ask the ledger. Where the claim has to wait, whom to await; it is decided then."""
        with self._lock:
            self._ledger.ask(claim)
            if claim.stage is not Stage.WAITING:
                return None
            waiter = self._waiters[claim] = Waiter()
            return waiter

    def send(self, claim: Claim) -> None:
        """The request goes out."""
        with self._lock:
            self._ledger.send(claim)

    def settle(self, claim: Claim, taken: Spending | None) -> None:
        """The request is over; None where nobody knows what it took."""
        with self._lock:
            self._wake(self._ledger.settle(claim, taken))

    def withdraw(self, claim: Claim) -> None:
        """The request will not be sent, whether it still waits or has its place by now."""
        with self._lock:
            self._waiters.pop(claim, None)
            self._wake(self._ledger.withdraw(claim))

    def _wake(self, decided: Iterable[Claim]) -> None:
        for claim in decided:
            if not self._waiters.pop(claim).call():
                self._wake(self._ledger.withdraw(claim))


_accounts: Final[WeakKeyDictionary[Budget, Account]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def account_of(budget: Budget) -> Account:
    """The account of a budget, opened at first use; the object is the identity, and both end together."""
    with _lock:
        account = _accounts.get(budget)
        if account is None:
            account = _accounts[budget] = Account(budget)
        return account
