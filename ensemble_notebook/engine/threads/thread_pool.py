"""Daemon threads for the sync functions of users (E2, E15): reused within a run, gone with it.

asyncio's default executor won't do: it has few threads, so one hanging tool starves others, and the interpreter
joins it at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

from ensemble_notebook.errors import summarize_error

EAGER_THREADS: Final = 32
GROWTH_INTERVAL_S: Final = 0.1


class ThreadCall:
    """One call on its way through a thread."""

    __slots__ = ("_error", "_result", "context", "function", "future", "label", "loop")

    def __init__(self, label: str, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.label = label
        self.function = function
        self.loop = loop
        self.context = contextvars.copy_context()
        self.future: asyncio.Future[Any] = loop.create_future()
        self._result: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Call the function, unless nobody waits for it any more; never raises."""
        if self.future.cancelled():
            return
        try:
            self._result = self.context.run(self.function)
        except StopIteration as raised:
            self._error = to_runtime_error(raised)  # A future can't hold this one.
        except Exception as raised:  # noqa: BLE001 - it belongs to whoever awaits the future
            self._error = raised
        except BaseException as raised:  # noqa: BLE001 - SystemExit in a tool must not end the thread
            self._error = to_runtime_error(raised)

    def deliver(self) -> None:
        """Hand what came of it to whoever awaits the future."""
        try:
            self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            return  # The loop is closed: the run is over and nobody waits for this any more.

    def _settle(self) -> None:
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(self._result)
        else:
            self.future.set_exception(self._error)


def to_runtime_error(raised: BaseException) -> Exception:
    """An exception that stays inside the task that raised it, from one that would end the loop or the process."""
    error = RuntimeError(summarize_error(raised))
    error.__cause__ = raised
    return error


class ThreadPool:
    """Threads of one run.

    Up to 32 start at once; beyond that, one more each 0.1 s while calls are waiting, so that hanging functions never
    starve others and a thousand quick ones don't make a thousand threads.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._thread_count = 0
        self._unfinished = 0  # calls that wait for a thread or run on one
        self._lock = threading.Lock()
        self._growth: asyncio.TimerHandle | None = None
        self._busy: dict[int, ThreadCall] = {}

    async def call(self, label: str, function: Callable[[], Any]) -> Any:
        """Run `function` on a thread, with the caller's context variables. Cancelled, it is left to itself."""
        call = ThreadCall(label, function, self._loop)
        with self._lock:
            self._unfinished += 1
        self._queue.put(call)
        self._ensure_thread()
        return await call.future

    def list_abandoned(self) -> list[str]:
        """Labels of the functions that still run though nobody waits for them any more."""
        with self._lock:
            return [call.label for call in self._busy.values() if call.future.cancelled()]

    def close(self) -> None:
        """Let every thread end after its current function; does not wait for them."""
        if self._growth is not None:
            self._growth.cancel()
        for _ in range(self._thread_count):
            self._queue.put(None)

    def _ensure_thread(self) -> None:
        if not self._is_short_of_threads():
            return
        if self._thread_count < EAGER_THREADS:
            self._add_thread()
        elif self._growth is None:
            self._growth = self._loop.call_later(GROWTH_INTERVAL_S, self._grow)

    def _grow(self) -> None:
        self._growth = None
        if self._is_short_of_threads():
            self._add_thread()
            self._ensure_thread()

    def _is_short_of_threads(self) -> bool:
        with self._lock:
            return self._unfinished > self._thread_count

    def _add_thread(self) -> None:
        self._thread_count += 1
        threading.Thread(target=self._work, name="ensemble-call", daemon=True).start()

    def _work(self) -> None:
        number = threading.get_ident()
        while (call := self._queue.get()) is not None:
            with self._lock:
                self._busy[number] = call
            call.run()
            # Free before the loop knows, so that whoever calls next finds this thread.
            with self._lock:
                del self._busy[number]
                self._unfinished -= 1
            call.deliver()
