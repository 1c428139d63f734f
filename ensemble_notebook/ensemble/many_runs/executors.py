"""The executors on which rows can run: how rows are submitted there, and told to stop."""

from __future__ import annotations

import concurrent.futures
import inspect
import logging
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from ensemble_notebook.ensemble.many_runs.worker import Reply, hear_stop, name_start
from ensemble_notebook.errors import ValidationError

T = TypeVar("T")

logger = logging.getLogger(__name__)


def find_pool(executor: Any) -> Pool:
    """Wrap an executor.

    Raises:
        ValidationError: rows can't be submitted to it.
    """
    if isinstance(executor, concurrent.futures.Executor):
        return FuturesPool(executor)
    name = type(executor).__name__
    if isinstance(executor, type):
        raise ValidationError(f"executor must be an object, and {executor.__name__} is a class: {executor.__name__}().")
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "nthreads"):
        if executor.asynchronous:
            raise ValidationError(
                "executor: an asynchronous Dask client can't be used; make it with Client(...) alone."
            )
        return DaskPool(executor)
    submit = getattr(executor, "submit", None)
    if inspect.iscoroutinefunction(submit):
        raise ValidationError(f"executor: {name}.submit is async; give one whose submit(...) returns at once.")
    if callable(submit):
        return SubmitPool(executor)
    raise ValidationError(
        "executor must be a concurrent.futures executor, such as ProcessPoolExecutor(), a Dask distributed Client, or "
        f"an object with submit(function, *arguments) whose result has result(); got {name}, which has no submit."
    )


class FuturesPool:
    """An executor of `concurrent.futures`. A file tells the stop, to all workers that see the files of this machine.

    Attributes:
        slots: how many rows it runs at the same time; None: that is not known.
        most_rows: how many of the map are under way at most, where a rate limit is divided among them.
        stop_name: what workers know the stop of the map by.
        is_here: whether all of its workers are on this machine.
        knows_beginnings: whether a call that is cancelled has certainly not begun, and never will.
        scorers: functions that look at each row where it runs, packed; empty: none.
    """

    scorers = b""
    most_rows = 1

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self.slots: int | None = getattr(executor, "_max_workers", None)
        # Others may allow to cancel a call that runs.
        self.knows_beginnings = self.is_here = isinstance(
            executor, concurrent.futures.ThreadPoolExecutor | concurrent.futures.ProcessPoolExecutor
        )
        file = Path(tempfile.gettempdir(), f"ensemble-stop-{uuid.uuid4().hex}")
        self.stop_name = str(file)
        self._stop = file.touch
        weakref.finalize(self, file.unlink, missing_ok=True)

    def submit(self, function: Callable[..., T], *arguments: bytes) -> concurrent.futures.Future[T]:
        """Run a function."""
        call: concurrent.futures.Future[T] = self._executor.submit(function, *arguments)
        self._calls.add(call)
        call.add_done_callback(self._forget)  # a method of ours, so that the file outlives the calls
        return call

    def stop(self) -> None:
        """Cancel the calls that have not begun, and tell the others to stop. Returns at once.

        Before it is run, a call that can't be cancelled any more sees the file.
        """
        self._stop()
        for call in tuple(self._calls):
            call.cancel()

    def _forget(self, call: concurrent.futures.Future[Any]) -> None:
        self._calls.discard(call)


class SubmitPool(FuturesPool):
    """Anything with ``submit(function, *arguments)`` whose result has ``result()``, which waits.

    A thread waits for each row, since nothing else is known of what was given. None of them is cancelled: those that
    begin after a stop see its file, as those that run do, and come home with what they have spent.
    """

    def submit(self, function: Callable[..., T], *arguments: bytes) -> concurrent.futures.Future[T]:
        """As of a `FuturesPool`."""
        call: concurrent.futures.Future[T] = concurrent.futures.Future()
        call.set_running_or_notify_cancel()
        self._calls.add(call)
        call.add_done_callback(self._forget)

        def wait() -> None:
            try:
                call.set_result(self._get_result(function, arguments))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the call
                call.set_exception(error)

        threading.Thread(target=wait, name="ensemble-row", daemon=True).start()
        return call

    def _get_result(self, function: Callable[..., T], arguments: tuple[bytes, ...]) -> T:
        name = f"{type(self._executor).__name__}.submit(...)"
        given = self._executor.submit(function, *arguments)
        if not callable(getattr(given, "result", None)):
            raise TypeError(f"{name} must give an object with result(), got {type(given).__name__}")
        returned = given.result()
        if not isinstance(returned, Reply):
            raise TypeError(f"{name}.result() must give what the function returned, got {type(returned).__name__}")
        return cast(T, returned)


class DaskPool:
    """A cluster of Dask, behind its client. An event tells the stop to rows that begin, a call to those that run."""

    is_here = False
    knows_beginnings = True
    scorers = b""
    most_rows = 1

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls: dict[concurrent.futures.Future[Any], Any] = {}
        self._is_stopped = False
        self.slots: int | None = sum(client.nthreads().values()) or None  # workers may be on their way
        self.stop_name = f"ensemble-stop-{uuid.uuid4().hex}"

    def submit(self, function: Callable[..., T], *arguments: bytes) -> concurrent.futures.Future[T]:
        """As of a `FuturesPool`."""
        call: concurrent.futures.Future[T] = concurrent.futures.Future()
        remote = self._client.submit(function, *arguments, pure=False)
        self._calls[call] = remote

        def take(done: Any) -> None:  # on a thread of Dask
            self._calls.pop(call, None)
            if call.set_running_or_notify_cancel():
                try:
                    call.set_result(done.result())
                except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the call
                    call.set_exception(error)
            with suppress(Exception):  # the cluster may be gone
                self._get_event(name_start(done.key)).clear()

        remote.add_done_callback(take)
        return call

    def stop(self) -> None:
        """As of a `FuturesPool`; on a thread, since Dask blocks until it has an answer."""
        if not self._is_stopped:
            self._is_stopped = True
            threading.Thread(target=self._stop, name="ensemble-stop", daemon=True).start()

    def _stop(self) -> None:
        try:
            self._get_event(self.stop_name).set()
            self._client.run(hear_stop, self.stop_name, on_error="ignore")
            for call, remote in tuple(self._calls.items()):
                if not self._get_event(name_start(remote.key)).is_set() and call.cancel():
                    remote.cancel()
        except Exception as error:  # noqa: BLE001 - the cluster may be gone
            logger.warning("Rows that run on the cluster could not be told to stop: %s", error)

    def _get_event(self, name: str) -> Any:
        import distributed

        make: Any = distributed.Event  # it has no types
        return make(name, client=self._client)


Pool = FuturesPool | DaskPool
"""Runs the rows of one map in other threads or processes."""
