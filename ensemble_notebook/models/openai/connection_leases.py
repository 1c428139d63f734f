"""Connections belong to the event loop that opened them: one holding per thing and loop, closed when its time is over.

Knows no clients: what is held has an ``aclose``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    """Something with connections."""

    def aclose(self) -> Awaitable[None]:
        """Close them; on the loop that they belong to."""


C = TypeVar("C", bound=Closable)


@dataclass(frozen=True, slots=True, eq=False)
class Lease(Generic[C]):
    """Keeps `thing` open for as long as somebody holds this.

    An asynchronous generator does it: asyncio finishes one on its own loop when nobody holds it any more, and all of
    them when the loop shuts down. There is no other hook by which a loop tells that it is about to end.
    """

    thing: C
    keeper: AsyncGenerator[None, None]


class Leases(Generic[C]):
    """The things that are open, by loop and key. Loops of several threads may share it."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Lease[C]]] = WeakKeyDictionary()
        self._lock = threading.RLock()  # a finalizer may call `drop` in the middle of anything

    async def get(self, key: Hashable, make: Callable[[], C]) -> Lease[C]:
        """The lease on what `make` made for this key on the running loop, now or before."""
        leases = self._of_running_loop()
        if key not in leases:
            keeper = _keep(thing := make(), leases, key)
            leases[key] = Lease(thing, keeper)
            await anext(keeper)
        return leases[key]

    def drop(self, key: Hashable) -> None:
        """Let go of a thing on every loop; it is closed where nobody else holds its lease."""
        with self._lock:
            for leases in self._by_loop.values():
                leases.pop(key, None)

    def close(self) -> None:
        """Close what belongs to loops that nobody runs any more, when the process ends."""
        with self._lock:
            idle = [(loop, list(leases.values())) for loop, leases in self._by_loop.items() if _is_idle(loop)]
        for loop, leases in idle:
            for lease in leases:
                loop.run_until_complete(lease.keeper.aclose())

    def _of_running_loop(self) -> dict[Hashable, Lease[C]]:
        with self._lock:
            # A loop that was closed without being shut down: its connections would keep it in memory for ever.
            for loop in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[loop]
            return self._by_loop.setdefault(asyncio.get_running_loop(), {})


def _is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    return not loop.is_closed() and not loop.is_running()


async def _keep(thing: C, leases: dict[Hashable, Lease[C]], key: Hashable) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if key in leases and leases[key].thing is thing:
            del leases[key]
        await thing.aclose()
