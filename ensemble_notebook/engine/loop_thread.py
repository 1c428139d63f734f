"""The one long-lived event loop of the process, on a daemon thread: where runs without one of their own run.

One loop, not one per run: HTTP clients belong to the loop that they were first used on.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ensemble_notebook.errors import find_place

T = TypeVar("T")

EXIT_LIMIT_S: Final = 1.0

_lock = threading.Lock()
_threads: Final[dict[int, LoopThread]] = {}


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

    def is_responsive(self, limit_s: float) -> bool:
        """Whether the loop does what it is asked within so many seconds; False where something blocks it."""
        answered = threading.Event()
        try:
            self.loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return False  # it is closed
        return answered.wait(limit_s)

    def find_place(self) -> str | None:
        """``file:line in function`` of the user's own code that the thread is in; None where it is in none."""
        return find_place(sys._current_frames().get(self._thread.ident or 0))

    def stop(self) -> None:
        """End the loop and its thread, at exit; runs that are still going are stopped first."""
        if self.loop.is_running():
            with contextlib.suppress(TimeoutError):
                self.submit(_end_all()).result(2 * EXIT_LIMIT_S)  # which it takes half of, if nothing is stuck
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
        pid = os.getpid()  # a forked child has the parent's objects, but none of its threads
        thread = _threads.get(pid)
        if thread is None:
            thread = _threads[pid] = LoopThread()
            atexit.register(thread.stop)
        return thread


def replace_loop_thread(blocked: LoopThread) -> None:
    """Leave a blocked loop to itself: runs that begin from now on get another one."""
    with _lock:
        if _threads.get(os.getpid()) is blocked:
            del _threads[os.getpid()]


def call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """Call a function that belongs to a loop: at once where that runs on this thread, else as soon as it can."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        function(*args)
    else:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing on it goes on
            loop.call_soon_threadsafe(function, *args)


class CrossThreadEvent:
    """Await it on the loop that it was made on, in one task; set it from anywhere, once.

    Attributes:
        future: that is done once it is set.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.future.__await__()

    @property
    def is_cancelled(self) -> bool:
        """Whether whoever waited was cancelled before the word came."""
        return self.future.cancelled()

    def set(self) -> bool:
        """Let it go on. False when its loop is closed and nobody will."""

        def set_result() -> None:
            if not self.future.done():
                self.future.set_result(None)

        try:
            self.future.get_loop().call_soon_threadsafe(set_result)
        except RuntimeError:
            return False
        return True
