"""A row of the timeline for each candidate: a run with one task, on whose thread all of its work is done (W178).

gepa calls us where it wants, on one thread; what belongs to a candidate is handed to that candidate's own task, so that
its rewriting and its rows are inside one span.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.engine.function_caller import ends_with_its_run
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.errors import EnsembleError, RunInterrupted

T = TypeVar("T")
_END_S: Final = 5.0
_LOOK_S: Final = 0.2


class TimelineRow:
    """A row, from now until it is closed.

    Args:
        around: the ensemble whose texts are improved.
        name: of the row.
        about: what it is, in words.

    Raises:
        RunInterrupted: the run around all was stopped.
    """

    def __init__(self, around: RunnableEnsemble, name: str, about: str) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | str] = SimpleQueue()
        if find_parent_run() is None:
            raise RunInterrupted("stopped")
        task = Task(
            name=name,
            description=escape_variables(about),
            expected_output="What came of it",
            handler=self._serve,
            reuse="never",
        )
        one: Any = around._with_rows([task], error_strategy=ErrorStrategy.FAIL_FAST, concurrency=1)
        self._handle = one.replace(name=name, budget=None, listeners=(), trace_exporter=None).start()

    @ends_with_its_run
    def _serve(self, _given: TaskInput) -> str:
        while not isinstance(given := self._work.get(), str):
            work, done = given
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                done.set_exception(error)
        return given

    def do(self, work: Callable[[], T]) -> T:
        """Do something on the thread of its task; gives what that gives, and raises what that raises.

        Raises:
            RunInterrupted: the task is over, since all was stopped.
        """
        done: Future[T] = Future()
        self._work.put((work, done))
        while not done.done():
            try:
                return done.result(timeout=_LOOK_S)
            except TimeoutError:
                if self._handle.is_done:
                    raise RunInterrupted("stopped") from None
        return done.result()

    def close(self, said: str) -> None:
        """End it, with what came of it, and wait until it has: what nobody waits for ends as cancelled."""
        self._work.put(said)
        with suppress(TimeoutError, EnsembleError, RunInterrupted):
            self._handle.result(timeout=_END_S)
