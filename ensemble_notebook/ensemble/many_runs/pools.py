"""The executors on which rows can run: those of `concurrent.futures`, and Dask clusters. They do the scheduling."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ensemble_notebook.engine.threads.loop_thread import call_on_loop
from ensemble_notebook.errors import ValidationError


class Pool(Protocol):
    """Runs functions from bytes to bytes in other threads or processes.

    Attributes:
        slots: how many it runs at the same time.
    """

    slots: int

    def submit(self, function: Callable[..., bytes], *arguments: bytes) -> Awaitable[bytes]:
        """Run a function; the awaitable gives its result or raises its exception.

        Cancelling the awaitable drops a call that has not begun.
        """


def find_pool(executor: Any) -> Pool:
    """Wrap an executor.

    Raises:
        ValidationError: it is not an executor that we know.
    """
    if isinstance(executor, concurrent.futures.Executor):
        return FuturesPool(executor)
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "nthreads"):
        if executor.asynchronous:
            raise ValidationError(
                "executor: an asynchronous Dask client can't be used; make it with Client(...) alone."
            )
        return DaskPool(executor)
    raise ValidationError(
        "executor must be a concurrent.futures executor, such as ProcessPoolExecutor(), or a Dask distributed Client; "
        f"got {type(executor).__name__}."
    )


class FuturesPool:
    """An executor of `concurrent.futures`."""

    def __init__(self, executor: concurrent.futures.Executor) -> None:
        self._executor = executor
        self.slots = getattr(executor, "_max_workers", None) or os.cpu_count() or 1

    def submit(self, function: Callable[..., bytes], *arguments: bytes) -> Awaitable[bytes]:
        """As `Pool.submit`."""
        return asyncio.wrap_future(self._executor.submit(function, *arguments))


class DaskPool:
    """A cluster of Dask, behind its client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.slots = sum(client.nthreads().values()) or 1

    def submit(self, function: Callable[..., bytes], *arguments: bytes) -> Awaitable[bytes]:
        """As `Pool.submit`. Dask calls back on a thread of its own."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        remote = self._client.submit(function, *arguments, pure=False)

        def take(done: Any) -> None:
            call_on_loop(loop, _settle, answer, done)

        def give_up(waiting: asyncio.Future[bytes]) -> None:
            if waiting.cancelled():
                remote.cancel()

        remote.add_done_callback(take)
        answer.add_done_callback(give_up)
        return answer


def _settle(answer: asyncio.Future[bytes], done: Any) -> None:
    if answer.done():
        return
    if done.cancelled():
        answer.cancel()
    elif (error := done.exception()) is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
