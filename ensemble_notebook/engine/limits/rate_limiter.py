"""Rate limits: who may send a model request, and when (E37). Knows requests and time; no models and no events.

Each `RateLimit` object is one token bucket of this process, shared by all loops and threads: a bucket that holds one
token and gets a new one each interval, and a queue before it. A request that several limits apply to goes through all
of them at the same moment, so each limit holds for what is really sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.threads.cross_thread_event import CrossThreadEvent
from ensemble_notebook.errors import RateLimitTimeoutError

# Sums of intervals are not exact; a wait of just the timeout is no longer than the timeout.
_ROUNDING_S: Final = 1e-6

# Re-entrant, since a coroutine that nobody runs any more may be collected, and leave its queue, at any place.
_lock: Final = threading.RLock()
_numbers: Final = count()


class TokenBucket:
    """One limit's token bucket, and the queue of those who wait for its next token.

    Only code that holds the lock of this module may touch it.
    """

    __slots__ = ("interval_s", "next_token_at", "number", "queue")

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.number = next(_numbers)
        self.next_token_at = float("-inf")
        self.queue: deque[CrossThreadEvent] = deque()

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
        each_once = [(limit, _get_bucket(limit)) for limit in dict.fromkeys(limits)]
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
            await _await_turn(turn, limit)
        next_token_at = bucket.next_token_at
        if next_token_at > latest:
            raise RateLimitTimeoutError(limit, limit.wait_timeout)
        if (delay := next_token_at - self._clock.monotonic()) > 0:
            await asyncio.sleep(delay)


async def _await_turn(turn: CrossThreadEvent, limit: RateLimit) -> None:
    deadline = asyncio.timeout(limit.wait_timeout)
    try:
        async with deadline:
            await turn
    except TimeoutError:
        raise RateLimitTimeoutError(limit, limit.wait_timeout) from None


_buckets: Final[WeakKeyDictionary[RateLimit, TokenBucket]] = WeakKeyDictionary()


def _get_bucket(limit: RateLimit) -> TokenBucket:
    """Made at first use; the object is the identity, and both end together."""
    with _lock:
        bucket = _buckets.get(limit)
        if bucket is None:
            bucket = _buckets[limit] = TokenBucket(limit.interval_s)
        return bucket
