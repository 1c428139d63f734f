"""Somebody who waits on one event loop for a word from another thread. Knows not what for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Final

_lock: Final = threading.Lock()  # one for all, since it is held for a moment and events are many


class CrossThreadEvent:
    """Await it on the loop that it was made on, in one task; call it from anywhere, once.

    asyncio takes it for one of its futures (see `asyncio.isfuture`), which can't be set from another thread: with one
    of them, the loop would have to turn twice, once to set it and once to wake whoever waits.
    """

    __slots__ = ("_asyncio_future_blocking", "_cancellation", "_context", "_is_set", "_loop", "_wake")

    def __init__(self) -> None:
        self._asyncio_future_blocking = False
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._cancellation: asyncio.CancelledError | None = None
        self._wake: Callable[[Any], object] | None = None
        self._context: Context | None = None

    def __await__(self) -> Generator[object, None, Any]:
        # Also where the word has come already: who was called before goes on before.
        self._asyncio_future_blocking = True
        yield self
        return self.result()

    @property
    def is_cancelled(self) -> bool:
        """Whether whoever waited was cancelled before the word came."""
        return self._cancellation is not None

    def set(self) -> bool:
        """Let it go on. False when its loop is closed and nobody will."""
        with _lock:
            self._is_set = True
            wake, self._wake = self._wake, None
        if wake is None:
            return not self._loop.is_closed()
        try:
            self._loop.call_soon_threadsafe(wake, self, context=self._context)
        except RuntimeError:
            return False
        return True

    # --- What asyncio asks a future for that a task awaits ------------------------------------------------------------

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it was made on."""
        return self._loop

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Have the task that waits woken once the word has come."""
        with _lock:
            if not self._is_set:
                self._wake, self._context = wake, context
                return
        self._loop.call_soon(wake, self, context=context)

    def cancel(self, msg: str | None = None) -> bool:
        """The task that waits is cancelled, and goes on to hear it; False where the word has come before."""
        with _lock:
            wake, self._wake = self._wake, None
            if wake is None:
                return False
            self._cancellation = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._loop.call_soon(wake, self, context=self._context)
        return True

    def result(self) -> Any:
        """Nothing.

        Raises:
            CancelledError: for the task that waits, where it was cancelled.
        """
        if self._cancellation is not None:
            raise self._cancellation
