"""Calls what is not ours, on the loop or on a thread, so that nothing it does can hurt the loop (E2, E15)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.run_context import give_context
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.engine.task_timer import TaskTimer
from ensemble_notebook.errors import summarize_error

T = TypeVar("T")


class FunctionCaller:
    """Runs user functions for one run: sync ones on threads of a pool, async ones on the loop."""

    def __init__(self) -> None:
        self._threads: ThreadPool | None = None  # most runs call no sync function

    def call(
        self,
        label: str,
        function: Callable[..., Any],
        *args: Any,
        timer: TaskTimer | None = None,
        on_left: Callable[[ThreadCall], object] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """The result of ``function(*args)``, awaited if it is awaitable; with the `RunContext` if it asks for it.

        A generator, or any other iterator, is run to its end: texts are joined, other things are a list.

        Args:
            label: what it is called where it is told that it still runs.
            function: of the user.
            args: that it is given.
            timer: hears when a function that is not async was at work; None: nobody does.
            on_left: is told of a call on a thread for which nobody waits any more: it goes on, or never begins.

        Raises:
            Exception: what the function raised; `SystemExit` and its like come wrapped in a `RuntimeError`.
        """
        function = give_context(function)
        if is_async(function):
            return call_safely(_call_async, function, *args)
        return self._call_on_thread(label, function, args, timer, on_left)

    def list_abandoned(self) -> list[str]:
        """Labels of the sync functions that still run though nobody waits for them any more."""
        return [] if self._threads is None else self._threads.list_abandoned()

    def close(self) -> None:
        """Release the threads; does not wait."""
        if self._threads is not None:
            self._threads.close()

    async def _call_on_thread(
        self,
        label: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        timer: TaskTimer | None,
        on_left: Callable[[ThreadCall], object] | None,
    ) -> Any:
        if self._threads is None:
            self._threads = ThreadPool()
        times: list[float] = []  # when it began and ended on its thread

        def call_timed(*given: Any) -> Any:
            assert timer is not None
            times.append(timer.clock())
            try:
                return _call_whole(*given)
            finally:
                times.append(timer.clock())

        label = "" if getattr(function, "_ends_with_its_run", False) else label
        call = self._threads.call(label, _call_whole if timer is None else call_timed, (function, *args))
        try:
            result = await call
        except asyncio.CancelledError:
            if on_left is not None:
                on_left(call)
            raise
        finally:
            if timer is not None:
                now_s = timer.clock()
                timer.add_work(*(*times, now_s, now_s)[:2])
        return await call_safely(_await_whole, result) if is_unfinished(result) else result


_F = TypeVar("_F", bound=Callable[..., Any])


def ends_with_its_run(function: _F) -> _F:
    """Mark a function of ours that looks whether its run was stopped and then ends, so that nobody is warned of it."""
    function._ends_with_its_run = True  # type: ignore[attr-defined]
    return function


async def _call_async(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return await _await_whole(await function(*args))


async def _await_whole(result: Any) -> Any:
    """What a function gave, once nothing of it is to come."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        return _join([each async for each in result])
    return _read_whole(result)


def is_unfinished(result: Any) -> bool:
    """Whether the loop has to wait for what a function gave."""
    return inspect.isawaitable(result) or isinstance(result, AsyncIterator)


def _call_whole(function: Callable[..., Any], *args: Any) -> Any:
    return _read_whole(function(*args))


def _read_whole(result: Any) -> Any:
    """What a function gave, with all that it yields; where that is nothing, what it returns in the end."""
    if not isinstance(result, Iterator):
        return result
    items: list[Any] = []
    while True:
        try:
            items.append(next(result))
        except StopIteration as end:
            return _join(items) if items else end.value


def _join(items: list[Any]) -> Any:
    """What was yielded: texts as one, and other things as they came; None for nothing."""
    if not items:
        return None
    return "".join(items) if all(isinstance(each, str) for each in items) else items


async def call_safely(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call and await, and keep inside whatever would else end the loop; a cancellation nobody asked for is an error."""
    try:
        return await function(*args)
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise to_runtime_error(raised) from raised
    except (Exception, GeneratorExit):  # the latter closes a coroutine that nobody awaits any more
        raise
    except BaseException as raised:
        raise to_runtime_error(raised) from raised


def is_async(function: Any) -> bool:
    """True for async functions, also behind partials, methods and callable objects."""
    if not callable(function):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


# --- Daemon threads for the sync functions of users: reused within a run, gone with it --------------------------------
#
# asyncio's default executor won't do: it has few threads, so one hanging tool starves others, and the interpreter joins
# it at exit.


_handing_over: Final = threading.Lock()  # one for all, since it is held for a moment and calls are many
EAGER_THREADS: Final = 32
GROWTH_INTERVAL_S: Final = 0.1


class ThreadCall(CrossThreadEvent):
    """One call on its way through a thread; set once it is over."""

    def __init__(self, label: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__()
        self.label = label
        self._function = function
        self._args = args
        self._context_of_caller = contextvars.copy_context()
        self.has_begun = False
        self._is_over = False
        self._hear_end: list[Callable[[Callable[[], Any]], object]] = []
        self._result: Any = None
        self._error: Exception | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether the function still runs though nobody waits for it any more."""
        return self.has_begun and self.is_cancelled

    def hear_end(self, hear: Callable[[Callable[[], Any]], object]) -> None:
        """Have `hear` called once the function has ended after all, on whatever thread, with what gives its result."""
        with _handing_over:
            self._hear_end.append(hear)
            is_over = self._is_over
        if is_over:
            hear(self._give_result)

    def run(self) -> None:
        """Call the function, unless nobody waits for it any more; never raises."""
        with _handing_over:  # whoever is cancelled now sees that it has begun, or it does not begin
            if self.is_cancelled:
                return
            self.has_begun = True
        try:
            self._result = self._context_of_caller.run(self._function, *self._args)
        except StopIteration as raised:
            self._error = to_runtime_error(raised)  # It would end whoever awaits this as if nothing were wrong.
        except Exception as raised:  # noqa: BLE001 - it belongs to whoever awaits the call
            self._error = raised
        except BaseException as raised:  # noqa: BLE001 - SystemExit in a tool must not end the thread
            self._error = to_runtime_error(raised)
        with _handing_over:
            self._is_over = True
        for hear in self._hear_end:  # a row of a map is written down with the map, and by itself
            hear(self._give_result)

    def __await__(self) -> Generator[Any, None, Any]:
        """What the function gave.

        Raises:
            Exception: what it raised.
        """
        yield from super().__await__()
        return self._give_result()

    def _give_result(self) -> Any:
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # its traceback has this frame, and so would be a part of a ring


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
        self._unfinished: set[ThreadCall] = set()  # that wait for a thread or run on one
        self._lock = threading.Lock()
        self._growth: asyncio.TimerHandle | None = None

    def call(self, label: str, function: Callable[..., Any], args: tuple[Any, ...] = ()) -> ThreadCall:
        """Have ``function(*args)`` called on a thread, with the caller's context variables; to be awaited at once.

        Cancelled, it is left to itself.
        """
        call = ThreadCall(label, function, args)
        with self._lock:
            self._unfinished.add(call)
        self._queue.put(call)
        self._ensure_thread()
        return call

    def list_abandoned(self) -> list[str]:
        """Labels of the functions that still run though nobody waits for them any more."""
        with self._lock:
            return [call.label for call in self._unfinished if call.is_abandoned and call.label]

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
        return len(self._unfinished) > self._thread_count

    def _add_thread(self) -> None:
        self._thread_count += 1
        threading.Thread(target=self._work, name="ensemble-call", daemon=True).start()

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            call.run()
            # Free before the loop knows, so that whoever calls next finds this thread.
            with self._lock:
                self._unfinished.discard(call)
            call.set()
