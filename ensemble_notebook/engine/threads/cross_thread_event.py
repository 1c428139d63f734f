"""Somebody who waits on one event loop for a word from another thread. Knows not what for."""

from __future__ import annotations

import asyncio
from collections.abc import Generator


class CrossThreadEvent:
    """Await it on the loop that it was made on; call it from anywhere, once."""

    __slots__ = ("_future", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def __await__(self) -> Generator[object, None, None]:
        return self._future.__await__()

    def set(self) -> bool:
        """Let it go on. False when its loop is closed and nobody will."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        return True

    def _wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)
