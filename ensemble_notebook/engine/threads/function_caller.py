"""Calls what is not ours, sync or async, so that nothing it raises can hurt the loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import FunctionType
from typing import Any, TypeVar

from ensemble_notebook.engine.threads.thread_pool import ThreadPool, to_runtime_error

T = TypeVar("T")


class FunctionCaller:
    """Runs user functions for one run: sync ones on threads of a pool, async ones on the loop."""

    def __init__(self) -> None:
        self._threads: ThreadPool | None = None  # most runs call no sync function

    def call(self, label: str, function: Callable[..., Any], *args: Any) -> Coroutine[Any, Any, Any]:
        """The result of ``function(*args)``, awaited if it is awaitable.

        Raises:
            Exception: what the function raised; `SystemExit` and its like come wrapped in a `RuntimeError`.
        """
        return call_safely(function, *args) if is_async(function) else self._call_on_thread(label, function, args)

    def list_abandoned(self) -> list[str]:
        """Labels of the sync functions that still run though nobody waits for them any more."""
        return [] if self._threads is None else self._threads.list_abandoned()

    def close(self) -> None:
        """Release the threads; does not wait."""
        if self._threads is not None:
            self._threads.close()

    async def _call_on_thread(self, label: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._threads is None:
            self._threads = ThreadPool()
        result = await self._threads.call(label, function, args)
        return await call_safely(lambda: result) if inspect.isawaitable(result) else result


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
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # most of those that are; the whole question costs more than running a small task
    if not callable(function):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
