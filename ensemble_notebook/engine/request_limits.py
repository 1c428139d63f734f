"""What stands before each physical model request: its budget (E36), its rate limits (E37), a connection (E76).

The budget first: a place in a line is only for requests that are paid for, and when its turn comes, a request goes. The
connection last: nobody holds one while waiting for something else.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.limits import CostConfiguration, Pricing, RateLimit
from ensemble_notebook.domain.events import BudgetWarning, RateLimitWaited, WaitEnded, WaitStarted
from ensemble_notebook.domain.seams.chat_port import ChatPort, Conversation
from ensemble_notebook.engine.budget_reservation import (
    Admission,
    BudgetAccount,
    BudgetAdmission,
    ConnectionAdmission,
    JointAdmission,
)
from ensemble_notebook.engine.events.event_stream import Clock, SpanEmitter, SystemClock, find_status
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.errors import RateLimitTimeoutError


class RequestLimits:
    """The limits of the requests of one agent on one task; without arguments, none.

    Args:
        accounts: what the run spends from; none where neither it nor a run around it has a budget.
        rate_limits: all that apply, None for one that there is not; a request passes each of them.
        pricing: what a request costs; nothing has a known price without it.
        clock: of the run.
        gate: closed once the run may send nothing more.
    """

    def __init__(
        self,
        accounts: Sequence[BudgetAccount] = (),
        rate_limits: Iterable[RateLimit | None] = (),
        pricing: Pricing | None = None,
        clock: Clock | None = None,
        gate: SendGate | None = None,
    ) -> None:
        self._accounts = tuple(accounts)
        self._rate_limits = tuple(limit for limit in rate_limits if limit is not None)
        self._pricing = pricing
        self._clock = clock or SystemClock()
        self._gate = gate or SendGate()
        self._rate_limiter = RateLimiter(self._rate_limits, self._clock)

    def with_rate_limits(self, *rate_limits: RateLimit | None) -> RequestLimits:
        """The same with further rate limits: those of a task or an agent."""
        if not any(rate_limits):
            return self
        return RequestLimits(self._accounts, (*self._rate_limits, *rate_limits), self._pricing, self._clock, self._gate)

    def check_sending(self) -> None:
        """Whether a request that was admitted may still be sent.

        Raises:
            CancelledError: the run was stopped meanwhile.
        """
        self._gate.check()

    async def admit(
        self,
        port: ChatPort,
        conversation: Conversation,
        call: SpanEmitter,
        rates: CostConfiguration | None = None,
    ) -> Admission:
        """Wait until the next request of a conversation may be sent.

        It must be sent at once then, and its admission be settled when it is over, whatever comes of it.

        Args:
            port: who is asked.
            conversation: with all that will be sent.
            call: the span of the model call; waits are spans in it.
            rates: what the model costs; None: by the public price list.

        Raises:
            BudgetExceededError: it can never fit into what the budget leaves, or has no price under `max_cost`.
            RateLimitTimeoutError: its turn would come too late.
            CancelledError: the run was stopped, before or meanwhile.
        """
        self._gate.check()
        admissions: list[Admission] = []
        try:
            for account in self._accounts:  # those of outer runs first, so that nobody waits in a ring
                admission = await self._reserve(account, port, conversation, call, rates)
                admissions.append(admission)  # one by one: what is reserved by now is given back
            if not self._rate_limiter.try_pass():
                with _span_of_wait(call, "rate_limit", RateLimitWaited):
                    await self._rate_limiter.wait()
            if port.places is not None:
                if not port.places.try_take():
                    with _span_of_wait(call, "connection", WaitEnded):
                        await port.places.take()
                admissions.append(ConnectionAdmission(port.places))
            self._gate.check()
        except BaseException:
            JointAdmission(admissions).withdraw()
            raise
        admission = admissions[0] if len(admissions) == 1 else JointAdmission(admissions)
        admission.mark_sent()
        return admission

    async def _reserve(
        self,
        account: BudgetAccount,
        port: ChatPort,
        conversation: Conversation,
        call: SpanEmitter,
        rates: CostConfiguration | None,
    ) -> Admission:
        admission = BudgetAdmission(account, self._pricing, port, conversation, self._clock.now(), rates)
        decision = admission.reserve()
        if decision is None:
            admission.raise_if_refused()
        else:
            try:
                with _span_of_wait(call, "budget", WaitEnded):
                    await decision
                    admission.raise_if_refused()
            except BaseException:
                admission.withdraw()
                raise
        if admission.warning is not None:
            budget, spent = account.budget, admission.warning
            parts = [
                f"{spent.get_amount(each):,f} of {Decimal(most):,f} ({each})" for each, most in budget.limits.items()
            ]
            message = f"The budget is running low. Spent, or held for requests under way: {', '.join(parts)}."
            call.emit(BudgetWarning, message=message, spent=spent, budget=budget)
        return admission


@contextmanager
def _span_of_wait(call: SpanEmitter, cause: str, ended: type[WaitEnded]) -> Iterator[None]:
    """The span of a wait."""
    span, began = call.child(), call.stream.offset_s()
    error: BaseException | None = None
    span.emit(WaitStarted, cause=cause)
    try:
        yield
    except (asyncio.CancelledError, Exception) as raised:
        error = raised
        raise
    finally:
        span.emit(ended, cause=cause, waited_s=call.stream.offset_s() - began, status=find_status(error), error=error)


# --- Rate limits ------------------------------------------------------------------------------------------------------
#
# Each `RateLimit` object is one token bucket of this process, shared by all loops and threads: a bucket that holds one
# token and gets a new one each interval, and a queue before it. A request that several limits apply to goes through all
# of them at the same moment, so each limit holds for what is really sent.


# Sums of intervals are not exact; a wait of just the timeout is no longer than the timeout.
_ROUNDING_S: Final = 1e-6

# Re-entrant, since a coroutine that nobody runs any more may be collected, and leave its queue, at any place.
_lock: Final = threading.RLock()
_buckets: Final[WeakKeyDictionary[RateLimit, TokenBucket]] = WeakKeyDictionary()


@dataclass(slots=True, eq=False)
class TokenBucket:
    """One limit's token bucket, and the queue of those who wait for its next token.

    Only code that holds the lock of this module may touch it.
    """

    interval_s: float
    number: int = field(default_factory=count().__next__, init=False)
    next_token_at: float = field(default=float("-inf"), init=False)
    queue: deque[CrossThreadEvent] = field(default_factory=deque, init=False)

    def take_token(self, now: float) -> None:
        """One request goes; a timer that was early by a hair does not move the schedule."""
        self.next_token_at = max(now, self.next_token_at) + self.interval_s

    def leave(self, turn: CrossThreadEvent) -> None:
        """Give up one's place, or make room after going through; whoever is first then is called."""
        if turn not in self.queue:  # its loop was closed before it was called
            return
        was_first = self.queue[0] is turn
        self.queue.remove(turn)
        while was_first and self.queue and not self.queue[0].set():
            self.queue.popleft()


class RateLimiter:
    """All that the requests of one agent on one task go through, on one loop."""

    def __init__(self, limits: Iterable[RateLimit], clock: Clock) -> None:
        with _lock:  # each bucket is made at first use; the object is the identity, and both end together
            each_once = [
                (each, _buckets.setdefault(each, TokenBucket(each.interval_s))) for each in dict.fromkeys(limits)
            ]
        # One order for all, so that nobody waits in a circle; the slowest first, so that no faster one is held up.
        self._all = sorted(each_once, key=lambda pair: (-pair[1].interval_s, pair[1].number))
        self._clock = clock

    def try_pass(self) -> bool:
        """Go through, if all are open and nobody stands in a queue."""
        with _lock:
            now = self._clock.monotonic()
            if any(bucket.queue or bucket.next_token_at > now for _, bucket in self._all):
                return False
            for _, bucket in self._all:
                bucket.take_token(now)
        return True

    async def wait(self) -> None:
        """Wait in the queues, then go through.

        Raises:
            RateLimitTimeoutError: at once where those ahead, if none of them gives up, make the wait longer than the
                limit's `wait_timeout`; else when so much time has passed.
        """
        places: list[tuple[TokenBucket, CrossThreadEvent]] = []
        try:
            for limit, bucket in self._all:
                await self._wait_for_token(limit, bucket, places)
            with _lock:
                now = self._clock.monotonic()
                for bucket, _ in places:
                    bucket.take_token(now)
        finally:
            with _lock:
                for bucket, turn in places:
                    bucket.leave(turn)

    async def _wait_for_token(
        self, limit: RateLimit, bucket: TokenBucket, places: list[tuple[TokenBucket, CrossThreadEvent]]
    ) -> None:
        """Wait until this is the first in the queue of a bucket, and the bucket has a token."""
        began = self._clock.monotonic()
        latest = began + limit.wait_timeout + _ROUNDING_S
        turn = CrossThreadEvent()
        with _lock:
            ahead = len(bucket.queue)
            if max(began, bucket.next_token_at) + ahead * bucket.interval_s > latest:
                raise RateLimitTimeoutError(limit, limit.wait_timeout)
            bucket.queue.append(turn)
            places.append((bucket, turn))
        if ahead:
            try:
                async with asyncio.timeout(limit.wait_timeout):
                    await turn
            except TimeoutError:
                raise RateLimitTimeoutError(limit, limit.wait_timeout) from None
        next_token_at = bucket.next_token_at
        if next_token_at > latest:
            raise RateLimitTimeoutError(limit, limit.wait_timeout)
        if (delay := next_token_at - self._clock.monotonic()) > 0:
            await asyncio.sleep(delay)


class SendGate:
    """Open until the run is stopped or over; then for good closed. May be closed from any thread."""

    def __init__(self) -> None:
        self._is_closed = False

    def close(self) -> None:
        """Let no further request through."""
        self._is_closed = True

    def check(self) -> None:
        """Let a request through.

        Raises:
            CancelledError: the run was stopped, and a tool or a callback has kept that from whoever asks.
        """
        if self._is_closed:
            raise asyncio.CancelledError("the run was stopped")
