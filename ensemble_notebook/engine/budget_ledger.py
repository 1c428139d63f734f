"""The ledger of a budget: what is booked, what is held, who waits (E36). Pure: no loop, thread, clock or price list.

Before a request is sent, its worst case is held; when it is over, what it really took is booked in its place. Nothing
is ever granted past a limit, so the provider's count can't pass it either, however many requests run side by side.
Requests that don't fit now wait in the order of their arrival; nobody overtakes, so nobody starves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import Final

from ensemble_notebook.domain.definitions.limits import Budget, Spending

# The output of a model without a limit of its own: a quarter of what is left, so that one request can't take it all.
# Not less than a useful answer, which is waited for instead; not more than all models take for their `max_tokens`.
OUTPUT_SHARE_DIVISOR: Final = 4
MIN_OUTPUT_TOKENS: Final = 256
MAX_OUTPUT_TOKENS: Final = 4096

NOTHING: Final = Spending()
ONE_CALL: Final = Spending(llm_calls=1)


class ReservationState(Enum):
    """How far a reservation has come."""

    WAITING = auto()
    REFUSED = auto()
    HELD = auto()
    SENT = auto()
    OVER = auto()


@dataclass(slots=True, eq=False)
class Reservation:
    """One physical request: its worst case, and what becomes of it.

    Attributes:
        input_tokens: the most that it can read.
        output_tokens: the most that it can write; None where the model has no limit.
        input_cost: the highest price that this input can have.
        output_rate: the price of one token of output.
        passed: the most that the model has written although it was limited to less; 0 where it never did.
        state: changed by the ledger only, as everything below.
        max_tokens: the output that was granted to a model without a limit; None where nothing limits it.
        held: the worst case that is reserved.
        exceeded, needed: the limit for which it was refused, and the least that it would have taken.
        warning: what is spent or held, where this reservation is the first to come near a limit.
    """

    input_tokens: int
    output_tokens: int | None
    input_cost: Decimal = Decimal(0)
    output_rate: Decimal = Decimal(0)
    passed: int = 0
    state: ReservationState = field(default=ReservationState.WAITING, init=False)
    max_tokens: int | None = field(default=None, init=False)
    held: Spending = field(default=NOTHING, init=False)
    exceeded: str | None = field(default=None, init=False)
    needed: Spending = field(default=NOTHING, init=False)
    warning: Spending | None = field(default=None, init=False)

    def worst_case(self, output_tokens: int) -> Spending:
        """What it takes at most, when it is limited to write so much."""
        output_tokens = max(output_tokens, self.passed)
        cost = self.input_cost + output_tokens * self.output_rate
        return Spending(cost=cost, tokens=self.input_tokens + output_tokens, llm_calls=1)


class BudgetLedger:
    """The account of one budget. It keeps the limits, not the `Budget`, whose end is the ledger's end."""

    def __init__(self, budget: Budget) -> None:
        self._limits = {name: Decimal(limit) for name, limit in budget.limits.items()}
        self._warn_at: Decimal | None = Decimal(str(budget.warn_at))
        self._queue: deque[Reservation] = deque()
        self.booked = NOTHING
        self.held = NOTHING
        self._elsewhere = NOTHING

    def reserve(self, reservation: Reservation) -> None:
        """Hold the worst case of a reservation, refuse it, or let it wait; its state says which."""
        if not self._refuse_if_impossible(reservation) and (self._queue or not self._hold_if_it_fits(reservation)):
            self._queue.append(reservation)

    def mark_sent(self, reservation: Reservation) -> None:
        """The request goes out. From now on it counts as a call, whatever comes of it: the server counts it, too."""
        reservation.state = ReservationState.SENT
        reservation.held -= ONE_CALL
        self.held -= ONE_CALL
        self.booked += ONE_CALL

    def settle(self, reservation: Reservation, taken: Spending | None) -> list[Reservation]:
        """The request is over. None where nobody knows what it took: then its worst case stays booked.

        Returns:
            Reservations that waited and are decided now.
        """
        self.booked += reservation.held if taken is None else taken
        return self._release(reservation)

    def withdraw(self, reservation: Reservation) -> list[Reservation]:
        """The request will not be sent. Does nothing to a reservation that was refused, sent or withdrawn before.

        Returns:
            Reservations that waited and are decided now.
        """
        if reservation.state is ReservationState.WAITING:
            self._queue.remove(reservation)
        elif reservation.state is not ReservationState.HELD:
            return []
        return self._release(reservation)

    def book_elsewhere(self, spent: Spending) -> None:
        """What others have spent of it by now, in all: those who ask later find less."""
        self.booked += spent - self._elsewhere
        self._elsewhere = spent

    def get_remaining(self, name: str) -> Decimal:
        """What is left of a limit for reservations that wait until nothing is held any more."""
        return self._limits[name] - self.booked.get_amount(name)

    def _release(self, reservation: Reservation) -> list[Reservation]:
        reservation.state = ReservationState.OVER
        self.held -= reservation.held
        reservation.held = NOTHING
        decided = []
        while self._queue and (self._refuse_if_impossible(self._queue[0]) or self._hold_if_it_fits(self._queue[0])):
            decided.append(self._queue.popleft())
        return decided

    def _refuse_if_impossible(self, reservation: Reservation) -> bool:
        """Whether it can never fit, because the least that it needs is more than what is not yet booked."""
        least = reservation.worst_case(
            MIN_OUTPUT_TOKENS if self._is_output_shared(reservation) else reservation.output_tokens or 0
        )
        exceeded = next((name for name in self._limits if least.get_amount(name) > self.get_remaining(name)), None)
        if exceeded is None:
            return False
        reservation.state, reservation.exceeded, reservation.needed = ReservationState.REFUSED, exceeded, least
        return True

    def _hold_if_it_fits(self, reservation: Reservation) -> bool:
        """Whether it fits beside all that is held; then it is held, too."""
        reservation.max_tokens = None
        if self._is_output_shared(reservation):  # its part of the output that is still free
            free = []
            if "max_tokens" in self._limits:
                free.append(self.get_remaining("max_tokens") - self.held.tokens - reservation.input_tokens)
            if "max_cost" in self._limits and reservation.output_rate > 0:
                left = self.get_remaining("max_cost") - self.held.cost - reservation.input_cost
                free.append(left / reservation.output_rate)
            share = min(int(min(free)) // OUTPUT_SHARE_DIVISOR, MAX_OUTPUT_TOKENS)
            reservation.max_tokens = max(MIN_OUTPUT_TOKENS, share)
        worst_case = reservation.worst_case(reservation.max_tokens or reservation.output_tokens or 0)
        used = self.booked + self.held + worst_case
        if any(used.get_amount(name) > limit for name, limit in self._limits.items()):
            return False
        reservation.state, reservation.held = ReservationState.HELD, worst_case
        self.held += worst_case
        if self._warn_at is not None and any(
            used.get_amount(name) >= self._warn_at * limit for name, limit in self._limits.items()
        ):
            reservation.warning, self._warn_at = used, None
        return True

    def _is_output_shared(self, reservation: Reservation) -> bool:
        """Whether the budget must limit its output, because nothing else does and it counts."""
        has_price = "max_cost" in self._limits and reservation.output_rate > 0
        return reservation.output_tokens is None and (has_price or "max_tokens" in self._limits)
