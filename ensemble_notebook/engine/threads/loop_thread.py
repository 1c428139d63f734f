"""The one long-lived event loop of the process, on a daemon thread: where every run without a loop of its own runs.

One loop, not one per run: HTTP clients belong to the loop that they were first used on.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

EXIT_LIMIT_S: Final = 1.0

_lock = threading.Lock()


class LoopThread:
    """A running event loop on a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ensemble-loop", daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop, with the caller's context variables."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def is_current(self) -> bool:
        """True on the loop's own thread, where blocking would stop everything."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop and its thread, at exit; runs that are still going are stopped first."""
        if self.loop.is_running():
            with contextlib.suppress(TimeoutError):
                self.submit(_end_all()).result(EXIT_LIMIT_S)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout=EXIT_LIMIT_S)
        if not self.loop.is_running():
            self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        is_over = False
        while not is_over:
            # asyncio lets these two out of a task and through the loop; other runs need it, so it goes on.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
                is_over = True


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=EXIT_LIMIT_S)
    # What is kept open for as long as the loop lives is closed by it.
    await asyncio.get_running_loop().shutdown_asyncgens()


def loop_thread() -> LoopThread:
    """The process's loop thread, started at first use."""
    with _lock:
        return _loop_thread_of(os.getpid())


@functools.cache
def _loop_thread_of(_pid: int) -> LoopThread:
    """One per process: a forked child has the parent's objects, but none of its threads."""
    thread = LoopThread()
    atexit.register(thread.stop)
    return thread
