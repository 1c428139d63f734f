"""An event loop whose time is virtual: waits cost nothing, and durations come out exact."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class _SkippingSelector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the time to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("Deadlock: everything waits, and no timer is set.")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that jumps to its next timer. For code without threads or sockets."""

    def __init__(self) -> None:
        self._virtual = _SkippingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now


class LoopClock:
    """The engine's clock on a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        """UTC, from a fixed day on."""
        return _EPOCH + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._loop.time()


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """Run a coroutine to its end on a virtual loop, and close the loop."""
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
