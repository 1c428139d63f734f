"""Rate limits: token buckets, the queues before them (E37), and the parts that rows elsewhere are given (E137).

Each `RateLimit` object is one token bucket of this process, shared by all loops and threads: a bucket that holds one
token and gets a new one each interval, and a queue before it. A request that several limits apply to goes through all
of them at the same moment, so each limit holds for what is really sent.

Another process can't reach a bucket, so a row that runs there leaves with a part of it: a bucket of its own, that fills
so much slower. All parts that are out at a time make one limit, and what is sent here meanwhile takes such a part, too,
for one request. A part goes on where the row before left it, so it never has a token that was not waited for.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.engine.events.event_stream import Clock, SystemClock
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.errors import RateLimitTimeoutError

# Sums of intervals are not exact; a wait of just the timeout is no longer than the timeout.
_ROUNDING_S: Final = 1e-6

# Re-entrant, since a coroutine that nobody runs any more may be collected, and leave its queue, at any place.
_lock: Final = threading.RLock()
_buckets: Final[WeakKeyDictionary[RateLimit, TokenBucket]] = WeakKeyDictionary()
_parts_here: Final[ContextVar[Mapping[RateLimit, TokenBucket]]] = ContextVar("ensemble_rate_parts")


@dataclass(slots=True, eq=False)
class TokenBucket:
    """One limit's token bucket, the queue of those who wait for its next token, and which parts of it are lent.

    Only code that holds the lock of this module may touch it.

    Attributes:
        lent: how much of it is out.
        returned: of each part that is back, while others are out, when it has its next token, and when it sent its last
            request; a heap.
        borrowers: how many parts each has that borrows, or waits to, with the most that it has at a time.
    """

    interval_s: float
    next_token_at: float = float("-inf")
    number: int = field(default_factory=count().__next__, init=False)
    queue: deque[CrossThreadEvent] = field(default_factory=deque, init=False)
    lent: Fraction = field(default=Fraction(0), init=False)
    returned: list[tuple[float, float]] = field(default_factory=list, init=False)
    borrowers: Counter[tuple[Hashable, int]] = field(default_factory=Counter, init=False)
    _next_unlent_at: float = field(default=float("-inf"), init=False)
    _given_back: CrossThreadEvent | None = field(default=None, init=False)

    @property
    def part(self) -> Fraction:
        """What whoever is next would be lent: as much as each other one that may borrow."""
        return Fraction(1, max(1, sum(most for _, most in self.borrowers)))

    def find_next(self, now: float) -> float:
        """When whoever is next has a token."""
        while self.returned and self.returned[0][0] <= now:
            heapq.heappop(self.returned)  # it is as good as one that has never been out
        return self.returned[0][0] if self.returned else self.next_token_at

    def take_token(self, now: float) -> None:
        """One request goes; a timer that was early by a hair does not move the schedule."""
        if not self.lent:
            self.next_token_at = max(now, self.next_token_at) + self.interval_s
            return
        sent_at = max(now, self._take_turn(now))
        heapq.heappush(self.returned, (sent_at + self.interval_s / self.part, sent_at))

    def lend(self, now: float) -> tuple[Fraction, float]:
        """A part leaves.

        Returns:
            How much it is, and when it has its first token.
        """
        if not self.lent:
            self._next_unlent_at = self.next_token_at
        part = self.part
        self.lent += part
        return part, self._take_turn(now)

    def _take_turn(self, now: float) -> float:
        """When whoever is next has a token, which is that of a part that is back, else one more of all."""
        found = self.find_next(now)
        if self.returned:
            heapq.heappop(self.returned)
        else:
            self.next_token_at = max(now, found) + self.interval_s
        return found

    async def wait_for_part(self) -> None:
        """Wait until enough is back for whoever is first in the queue. Called without the lock."""
        while True:
            with _lock:
                if self.lent + self.part <= 1:
                    return
                given_back = self._given_back = CrossThreadEvent()
            await given_back

    def take_back(self, part: Fraction, next_token_at: float, *, is_used: bool) -> None:
        """A part is back; once all are, what they have sent counts as sent here."""
        self.lent -= part
        last = next_token_at - self.interval_s / part if is_used else float("-inf")
        heapq.heappush(self.returned, (next_token_at, last))
        if not self.lent:
            last = max(last for _, last in self.returned)
            self.next_token_at = max(self._next_unlent_at, last + self.interval_s)
            self.returned.clear()
        if self._given_back is not None:
            self._given_back.set()

    def leave(self, turn: CrossThreadEvent) -> None:
        """Give up one's place, or make room after going through; whoever is first then is called."""
        if turn not in self.queue:  # its loop was closed before it was called
            return
        was_first = self.queue[0] is turn
        self.queue.remove(turn)
        while was_first and self.queue and not self.queue[0].set():
            self.queue.popleft()


def _open_buckets(limits: Iterable[RateLimit]) -> list[tuple[RateLimit, TokenBucket]]:
    """The bucket of each limit, made at first use; the object is the identity, and both end together.

    In one order for all, so that nobody waits in a circle; the slowest first, so that no faster one is held up.
    """
    parts = _parts_here.get(None) or {}
    with _lock:
        each_once = [
            (each, parts.get(each) or _buckets.setdefault(each, TokenBucket(each.interval_s)))
            for each in dict.fromkeys(limits)
        ]
    return sorted(each_once, key=lambda pair: (-pair[1].interval_s, pair[1].number))


class RateLimiter:
    """All that the requests of one agent on one task go through, on one loop."""

    def __init__(self, limits: Iterable[RateLimit], clock: Clock) -> None:
        self._all = _open_buckets(limits)
        self._clock = clock

    def try_pass(self) -> bool:
        """Go through, if all are open and nobody stands in a queue."""
        with _lock:
            now = self._clock.monotonic()
            if any(bucket.queue or bucket.lent or bucket.next_token_at > now for _, bucket in self._all):
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
            if max(began, bucket.find_next(began)) + ahead * bucket.interval_s > latest:
                raise RateLimitTimeoutError(limit, limit.wait_timeout)
            bucket.queue.append(turn)
            places.append((bucket, turn))
            is_next = not ahead and not bucket.lent
        if not is_next:
            try:
                async with asyncio.timeout(limit.wait_timeout):
                    if ahead:
                        await turn
                    await bucket.wait_for_part()
            except TimeoutError:
                raise RateLimitTimeoutError(limit, limit.wait_timeout) from None
        with _lock:
            next_token_at = bucket.find_next(self._clock.monotonic())
        if next_token_at > latest:
            raise RateLimitTimeoutError(limit, limit.wait_timeout)
        if (delay := next_token_at - self._clock.monotonic()) > 0:
            await asyncio.sleep(delay)


# --- Parts of limits, for rows that run in other processes ------------------------------------------------------------
#
# Between processes only durations are told, since clocks of machines differ.


@dataclass(frozen=True, slots=True)
class RatePart:
    """A part of a rate limit, as it goes to another process.

    Attributes:
        interval_s: seconds between two requests there.
        wait_s: seconds until the first may go, from when it has come there.
    """

    interval_s: float
    wait_s: float


class RateLoan:
    """Parts of several limits that are out together, with one row.

    Args:
        limits: that all or some requests of the row pass.
        borrower: who sends rows.
        most: how many rows it has under way at most.
        clock: None: the system's.
    """

    def __init__(self, limits: Sequence[RateLimit], borrower: Hashable, most: int, clock: Clock | None = None) -> None:
        self._limits = limits
        self._borrower = (borrower, most)
        self._clock = clock or SystemClock()
        self._buckets: list[tuple[RateLimit, TokenBucket]] = []
        self._taken: dict[RateLimit, tuple[TokenBucket, Fraction, float]] = {}
        self._sent_at = 0.0

    async def take(self) -> None:
        """Wait for a part of each limit, in the queue with all that is sent here."""
        self._buckets = _open_buckets(self._limits)
        with _lock:
            for _, bucket in self._buckets:
                bucket.borrowers[self._borrower] += 1
        try:
            for limit, bucket in self._buckets:
                await self._take_part(limit, bucket)
        except BaseException:
            self.withdraw()
            raise

    async def _take_part(self, limit: RateLimit, bucket: TokenBucket) -> None:
        turn = CrossThreadEvent()
        with _lock:
            is_first = not bucket.queue
            bucket.queue.append(turn)
        try:
            if not is_first:
                await turn
            await bucket.wait_for_part()
            with _lock:
                self._taken[limit] = bucket, *bucket.lend(self._clock.monotonic())
        finally:
            with _lock:
                bucket.leave(turn)

    def send(self) -> tuple[RatePart, ...]:
        """What goes along with the row, which leaves now: a part of each limit, in their order."""
        self._sent_at = self._clock.monotonic()
        taken = [self._taken[each] for each in self._limits]
        return tuple(RatePart(bucket.interval_s / part, max(0.0, at - self._sent_at)) for bucket, part, at in taken)

    def withdraw(self) -> None:
        """Give back what nobody has used."""
        self._give_back({})

    def settle(self, left: RatePartsLeft | None) -> None:
        """The row is back; with None, which means unknown, it may have sent its last request just now."""
        now, next_tokens_at = self._clock.monotonic(), {}
        for place, limit in enumerate(self._limits):
            bucket, part, _ = self._taken[limit]
            interval_s = bucket.interval_s / part
            if left is None:
                next_tokens_at[limit] = now + interval_s
                continue
            wait_s = left.waits_s[place]
            if wait_s is None:
                continue
            # When the row ended is not known, only how long the ways there and back took together. If it was as early
            # as can be, the next row is as late as this one was, and none is slowed down; but it is taken to be early
            # by no more than keeps a second from having one request too many (`test_rate.py` looks for one).
            rate = 1 / interval_s
            let_go_s = interval_s * (math.floor(rate) + 1 - rate) / 2
            next_tokens_at[limit] = max(self._sent_at + left.ran_s + wait_s, now + wait_s - let_go_s)
        self._give_back(next_tokens_at)

    def _give_back(self, next_tokens_at: Mapping[RateLimit, float]) -> None:
        """All parts are back; those that are not named have not been used."""
        with _lock:
            for limit, bucket in self._buckets:
                if limit in self._taken:
                    _, part, first_at = self._taken[limit]
                    bucket.take_back(part, next_tokens_at.get(limit, first_at), is_used=limit in next_tokens_at)
                bucket.borrowers[self._borrower] -= 1
                if not bucket.borrowers[self._borrower]:
                    del bucket.borrowers[self._borrower]
        self._taken, self._buckets = {}, []


@dataclass(frozen=True, slots=True)
class RatePartsLeft:
    """What a row leaves of its parts.

    Attributes:
        ran_s: seconds from when the row came to its end.
        waits_s: seconds from then until each part has its next token, below 0 where it has one; None where it has not
            been used.
    """

    ran_s: float
    waits_s: Sequence[float | None]


class RatePartsHere:
    """The parts that a row has brought along: buckets for its run, and for all that is begun inside."""

    def __init__(self, limits: Sequence[RateLimit], parts: Sequence[RatePart], clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._began = self._clock.monotonic()
        self._buckets = {
            limit: TokenBucket(part.interval_s, self._began + part.wait_s)
            for limit, part in zip(limits, parts, strict=True)
        }
        self._firsts = [each.next_token_at for each in self._buckets.values()]

    @contextmanager
    def hold(self) -> Iterator[None]:
        """What is begun in this context goes through these buckets."""
        token = _parts_here.set(self._buckets)
        try:
            yield
        finally:
            _parts_here.reset(token)

    def leave(self) -> RatePartsLeft:
        """What is left of them."""
        now = self._clock.monotonic()
        with _lock:
            times = [each.next_token_at for each in self._buckets.values()]
        waits_s = [None if at == first else at - now for at, first in zip(times, self._firsts, strict=True)]
        return RatePartsLeft(now - self._began, waits_s)
