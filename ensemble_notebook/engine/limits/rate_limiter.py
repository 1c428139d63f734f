"""Rate limits: who may send a model request, and when (E37). Knows requests and time; no models and no events.

Each `RateLimit` object is one turnstile of this process, shared by all loops and threads: a bucket that holds one
token and gets a new one each interval, and a line before it. A request that several limits apply to goes through all
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
from ensemble_notebook.engine.threads.cross_thread_event import Waiter
from ensemble_notebook.errors import RateLimitTimeoutError

# Sums of intervals are not exact; a wait of just the timeout is no longer than the timeout.
_ROUNDING_S: Final = 1e-6

# Re-entrant, since a coroutine that nobody runs any more may be collected, and leave its line, at any place.
_lock: Final = threading.RLock()
_numbers: Final = count()


class Turnstile:
    """The bucket of one limit and the line before it. Touched under the lock of this module only."""

    __slots__ = ("interval_s", "line", "number", "opens_at")

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.number = next(_numbers)
        self.opens_at = float("-inf")
        self.line: deque[Waiter] = deque()

    def pass_through(self, now: float) -> None:
        """One request goes; a timer that was early by a hair does not move the schedule."""
        self.opens_at = max(now, self.opens_at) + self.interval_s

    def leave(self, waiter: Waiter) -> None:
        """Give up one's place, or make room after going through; whoever is first then is called."""
        if waiter not in self.line:  # its loop was closed before it was called
            return
        was_first = self.line[0] is waiter
        self.line.remove(waiter)
        while was_first and self.line and not self.line[0].call():
            self.line.popleft()


class Turnstiles:
    """All that the requests of one agent on one task go through, on one loop."""

    def __init__(self, limits: Iterable[RateLimit], clock: Clock) -> None:
        each_once = [(limit, _turnstile_of(limit)) for limit in dict.fromkeys(limits)]
        # One order for all, so that nobody waits in a circle; the slowest first, so that no faster one is held up.
        self._all = sorted(each_once, key=lambda pair: (-pair[1].interval_s, pair[1].number))
        self._clock = clock

    def pass_at_once(self) -> bool:
        """Go through, if all are open and nobody stands in line."""
        with _lock:
            now = self._clock.monotonic()
            if any(turnstile.line or turnstile.opens_at > now for _, turnstile in self._all):
                return False
            for _, turnstile in self._all:
                turnstile.pass_through(now)
        return True

    async def wait(self) -> None:
        """Stand in line, then go through.

        Raises:
            RateLimitTimeoutError: at once where those ahead, if none of them gives up, make the wait longer than the
                limit's `wait_timeout`; else when so much time has passed.
        """
        places: list[tuple[Turnstile, Waiter]] = []
        try:
            for limit, turnstile in self._all:
                await self._reach(limit, turnstile, places)
            with _lock:
                now = self._clock.monotonic()
                for turnstile, _ in places:
                    turnstile.pass_through(now)
        finally:
            with _lock:
                for turnstile, waiter in places:
                    turnstile.leave(waiter)

    async def _reach(self, limit: RateLimit, turnstile: Turnstile, places: list[tuple[Turnstile, Waiter]]) -> None:
        """Become the first in a line, and have the turnstile open."""
        began = self._clock.monotonic()
        latest = began + limit.wait_timeout + _ROUNDING_S
        waiter = Waiter()
        with _lock:
            ahead = len(turnstile.line)
            if max(began, turnstile.opens_at) + ahead * turnstile.interval_s > latest:
                raise RateLimitTimeoutError(limit, limit.wait_timeout)
            turnstile.line.append(waiter)
            places.append((turnstile, waiter))
        if ahead:
            await _in_time(waiter, limit)
        opens_at = turnstile.opens_at
        if opens_at > latest:
            raise RateLimitTimeoutError(limit, limit.wait_timeout)
        if (delay := opens_at - self._clock.monotonic()) > 0:
            await asyncio.sleep(delay)


async def _in_time(waiter: Waiter, limit: RateLimit) -> None:
    deadline = asyncio.timeout(limit.wait_timeout)
    try:
        async with deadline:
            await waiter
    except TimeoutError:
        raise RateLimitTimeoutError(limit, limit.wait_timeout) from None


_turnstiles: Final[WeakKeyDictionary[RateLimit, Turnstile]] = WeakKeyDictionary()


def _turnstile_of(limit: RateLimit) -> Turnstile:
    """Made at first use; the object is the identity, and both end together."""
    with _lock:
        turnstile = _turnstiles.get(limit)
        if turnstile is None:
            turnstile = _turnstiles[limit] = Turnstile(limit.interval_s)
        return turnstile
