"""Where connections are kept: one for each key and event loop, closed when nobody holds them or the loop ends.

A connection belongs to the loop that opened it, and a run may be on any loop: the one of our thread, or a user's own.
Knows no clients: what is held has an ``aclose``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    """Something with connections."""

    def aclose(self) -> Awaitable[None]:
        """Close them; on the loop that they belong to."""


C = TypeVar("C", bound=Closable)


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionHandle(Generic[C]):
    """Keeps `connections` open for as long as somebody holds this.

    An asynchronous generator, `closer`, does it: asyncio finishes one on its own loop when nobody holds it any more,
    and all of them when the loop shuts down. There is no other hook by which a loop tells that it is about to end.
    """

    connections: C
    closer: AsyncGenerator[None, None]


@dataclass(frozen=True, slots=True, eq=False)
class _ConnectionsOfLoop(Generic[C]):
    """What is open on one loop.

    Attributes:
        handles: by key, on what may be handed out again.
        open: all that is not closed yet. A handle in a cycle of garbage takes nothing with it: the collector would
            close the sockets one by one, with a warning each, before the closer had its turn.
    """

    handles: dict[Hashable, ConnectionHandle[C]] = field(default_factory=dict)
    open: set[C] = field(default_factory=set)


class ConnectionsByLoop(Generic[C]):
    """The connections that are open, by loop and key. Loops of several threads may share it."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _ConnectionsOfLoop[C]] = WeakKeyDictionary()
        self._lock = threading.RLock()  # a finalizer may call `drop` in the middle of anything

    async def get(self, key: Hashable, make: Callable[[], C]) -> ConnectionHandle[C]:
        """Get the handle on what `make` made for this key on the running loop, now or before."""
        kept = self._connections_of_running_loop()
        if key not in kept.handles:
            closer = _close_at_end(made := make(), kept, key)
            kept.handles[key] = ConnectionHandle(made, closer)
            await anext(closer)
        return kept.handles[key]

    def drop(self, key: Hashable) -> None:
        """Let go of a key on every loop; its connections are closed where nobody else holds their handle."""
        with self._lock:
            for kept in self._by_loop.values():
                kept.handles.pop(key, None)

    def close(self) -> None:
        """Close what belongs to loops that nobody runs any more, when the process ends."""
        with self._lock:
            idle = [(loop, list(kept.handles.values())) for loop, kept in self._by_loop.items() if _is_idle(loop)]
        for loop, handles in idle:
            for handle in handles:
                loop.run_until_complete(handle.closer.aclose())

    def _connections_of_running_loop(self) -> _ConnectionsOfLoop[C]:
        with self._lock:
            # A loop that was closed without being shut down: its connections would keep it in memory for ever.
            for loop in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[loop]
            return self._by_loop.setdefault(asyncio.get_running_loop(), _ConnectionsOfLoop())


def _is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    return not loop.is_closed() and not loop.is_running()


async def _close_at_end(connections: C, kept: _ConnectionsOfLoop[C], key: Hashable) -> AsyncGenerator[None, None]:
    """Wait for the end, of the loop or of all handles; then close."""
    kept.open.add(connections)
    try:
        yield
    finally:
        if key in kept.handles and kept.handles[key].connections is connections:
            del kept.handles[key]
        try:
            await connections.aclose()
        finally:
            kept.open.discard(connections)
