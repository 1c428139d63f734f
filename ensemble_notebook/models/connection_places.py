"""The places for connections of this process: so many may be open at once, first come, first served (E76).

Each connection takes a descriptor, and where none is left, nothing in the process can open a file. Knows descriptors
and who waits for one; nothing of clients, addresses or models.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

_MOST: Final = 256


class KeptConnections(Protocol):
    """Connections that stay open for further requests."""

    def count_idle(self) -> int:
        """Count those that no request is on."""

    def close_one(self) -> None:
        """Close one of those, if there is any; may be called on any thread."""


class ConnectionPlaces:
    """So many places as may be taken at once, and the line before them. Thread-safe, for all loops.

    How many there are is found when the first one is taken, and again after `forget_limit`: what else is open by then
    counts.

    Args:
        find_limit: tells how many there are.
    """

    def __init__(self, find_limit: Callable[[], int]) -> None:
        self._find_limit = find_limit
        self._kept: WeakSet[KeptConnections] = WeakSet()
        self.reset()

    def reset(self) -> None:
        """Begin anew, in a forked child: what its parent has under way is not under way here."""
        # Re-entrant, since a request that nobody waits for any more may be collected, and give back, at any place.
        self._lock = threading.RLock()
        self._limit: int | None = None
        self._taken = 0
        self._line: deque[_Waiter] = deque()

    def forget_limit(self) -> None:
        """Find the limit again for whoever comes next."""
        with self._lock:
            self._limit = None

    def try_take(self, count: int) -> bool:
        """Take so many places, if they are free and nobody stands in line."""
        with self._lock:
            return not self._find_first() and self._grant(count)

    async def take(self, count: int) -> None:
        """Take so many places when it is this one's turn."""
        waiter = _Waiter(count, asyncio.get_running_loop(), Future())
        with self._lock:
            self._line.append(waiter)
            self._call_next()
        try:
            await asyncio.wrap_future(waiter.turn)
        except BaseException:
            if not waiter.turn.cancelled():  # it was called at the very moment
                self.give_back(count)
            raise

    def give_back(self, count: int) -> None:
        """So many places are free again."""
        with self._lock:
            self._taken -= count
            self._call_next()

    def add_kept(self, kept: KeptConnections) -> None:
        """Count these connections as open, too, as long as they are there."""
        with self._lock:
            self._kept.add(kept)

    def make_room(self) -> None:
        """Close an idle connection, if there must be one less, for one that is about to be opened in a taken place."""
        with self._lock:
            free = (self._limit or _MOST) - self._taken
            idle = {each: count for each in self._kept if (count := each.count_idle())}
        if idle and sum(idle.values()) > free:
            max(idle, key=idle.__getitem__).close_one()

    def _grant(self, count: int) -> bool:
        if self._limit is None:
            self._limit = self._find_limit()
        # One who needs more than there are gets them when nobody else has any.
        if self._taken and self._taken + count > self._limit:
            return False
        self._taken += count
        return True

    def _find_first(self) -> _Waiter | None:
        """Find who is next in line; those who have left it are taken out."""
        while self._line and (self._line[0].turn.cancelled() or self._line[0].loop.is_closed()):
            self._line.popleft()
        return self._line[0] if self._line else None

    def _call_next(self) -> None:
        while (first := self._find_first()) is not None and self._grant(first.count):
            self._line.popleft()
            if first.turn.set_running_or_notify_cancel():
                first.turn.set_result(None)
            else:
                self._taken -= first.count


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    count: int
    loop: asyncio.AbstractEventLoop
    turn: Future[None]


@dataclass(frozen=True, slots=True)
class PlacesOfModel:
    """What the requests to one model take of the places (`RequestPlaces`).

    Attributes:
        count: for each request.
    """

    places: ConnectionPlaces
    count: int = 1

    def try_take(self) -> bool:
        """Take what one request needs, if it need not wait."""
        return self.places.try_take(self.count)

    async def take(self) -> None:
        """Wait in line for what one request needs."""
        await self.places.take(self.count)

    def give_back(self) -> None:
        """The request is over."""
        self.places.give_back(self.count)


def find_limit() -> int:
    """Find how many connections may be open: half of the descriptors that are free now, at least 1, at most 256."""
    try:
        import resource
    except ImportError:  # on Windows, where sockets are no descriptors
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    try:
        free = soft - sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:  # none is left to look with
        free = 0
    return max(1, min(_MOST, free // 2))


connection_places: Final = ConnectionPlaces(find_limit)
"""Those of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=connection_places.reset)
