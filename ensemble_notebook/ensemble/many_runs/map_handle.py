"""The handle of a map: watch it, stop it, wait for it. Has the methods of `RunHandle`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.errors import (
    EnsembleError,
    RunInterrupted,
    ScoringError,
    TaskExecutionError,
    add_origin,
    summarize_error,
)
from ensemble_notebook.evaluation.scoring import find_useless

MakeResult = Callable[[EnsembleOutput | None], MapResult]


class MapHandle:
    """A map that has been started. Thread-safe, and awaitable on any event loop.

    Args:
        run: the run of the map, with a task for each row; None if there are no rows to run.
        make_result: makes the result from the output of that run.
        name: of the ensemble; None if it has none.
    """

    def __init__(self, run: RunHandle | None, make_result: MakeResult, name: str | None) -> None:
        self.run = run
        self.name = name
        self._make_result = make_result
        self._result: MapResult | None = make_result(None) if run is None else None

    @property
    def run_id(self) -> str | None:
        """The id of the map; None if there are no rows to run."""
        return None if self.run is None else self.run.run_id

    @property
    def status(self) -> RunStatus:
        """The current status of the map."""
        return RunStatus.COMPLETED if self.run is None else self.run.status

    @property
    def is_done(self) -> bool:
        """Whether the map has ended, so that `result` does not wait."""
        return self.run is None or self.run.is_done

    @property
    def events(self) -> Sequence[Event]:
        """The events so far. Read only; grows while the map goes on."""
        return () if self.run is None else self.run.events

    @property
    def output(self) -> MapResult | None:
        """The result, once the map has ended, failed or been interrupted; None until then."""
        if self._result is None and self.run is not None and self.run.output is not None:
            self._result = self._make_result(self.run.output)
        return self._result

    def _begin(self) -> None:
        """Start the map on the loop thread of the process."""
        if self.run is not None:
            self.run._begin()

    def _run_to_end(self) -> MapResult:
        """Begin, and wait for the end as `result` does. A `KeyboardInterrupt` of this thread stops the map.

        Raises:
            EnsembleError: this is the loop thread, which the map needs.
        """
        if loop_thread().is_current():
            raise EnsembleError("This would block the loop that it needs; call it from a plain function.")
        try:
            self._begin()
            return self.result()
        except KeyboardInterrupt:
            return self.interrupted()

    def cancel(self) -> None:
        """Stop the map; returns at once. Completed rows are kept. Does nothing after the end."""
        if self.run is not None:
            self.run.cancel()

    def result(self, timeout: float | None = None, *, while_waiting: Callable[[], object] | None = None) -> MapResult:
        """Wait for the end and return the result.

        Args:
            timeout: seconds to wait; the map goes on after that. None: no limit.
            while_waiting: called several times a second on this thread.

        Raises:
            TimeoutError: the map has not ended yet.
            TaskExecutionError: a row failed, under ``on_error="raise"``; has the partial result as ``output``.
            DeadlineExceededError, RunInterrupted: the map was stopped; likewise.
            ScoringError: the score function failed for each row.
        """
        if self.run is not None:
            try:
                self.run.result(timeout, while_waiting=while_waiting)
            except (EnsembleError, RunInterrupted) as error:
                raise self._explain(error) from error.__cause__
        return self._get_result()

    def interrupted(self) -> MapResult:
        """Stop the map after a `KeyboardInterrupt`, as `RunHandle.interrupted` does.

        Raises:
            RunInterrupted: always, with the partial result as ``output``.
        """
        if self.run is None:
            return self._get_result()
        try:
            self.run.interrupted()
        except RunInterrupted as error:
            raise self._explain(error) from None
        raise AssertionError("unreachable")

    def __await__(self) -> Generator[Any, None, MapResult]:
        """Wait for the result, on any loop."""
        if self.run is not None:
            try:
                yield from self.run.__await__()
            except (EnsembleError, RunInterrupted) as error:
                raise self._explain(error) from error.__cause__
        return self._get_result()

    def __repr__(self) -> str:
        """Id and status."""
        return f"<MapHandle {self.name or self.run_id}: {self.status.value}>"

    def _get_result(self) -> MapResult:
        """The result.

        Raises:
            ScoringError: the score function failed for each row.
        """
        result = self.output
        assert result is not None
        useless = find_useless(result.score_records)
        if useless is None:
            return result
        name, reason, count = useless
        runs = "the only run" if count == 1 else f"each of {count:,} runs"
        raise ScoringError(
            f"The scorer {name} failed for {runs}: {reason.removesuffix('.')}. The runs are done and kept, in `result` "
            f"of this error. Mend it, and score them without running them again: "
            f"ERROR.result.score({name}, replace=True).",
            result=result,
        ) from (vars(result).get("_score_fault") if result._shows_texts else None)

    def _explain(self, error: EnsembleError | RunInterrupted) -> EnsembleError | RunInterrupted:
        """The error in terms of rows, with the result as its ``output``."""
        result = self.output
        if result is None:  # it has not begun
            return error
        done = sum(each.is_done for each in result)
        made: EnsembleError | RunInterrupted = error
        if isinstance(error, RunInterrupted) and self.is_done:
            made = RunInterrupted(f"{done} of {len(result)} {'runs' if result.variants else 'rows'} are done and kept.")
        elif isinstance(error, TaskExecutionError) and result.failures:
            first = result.failures[0]
            cause = first.error
            assert cause is not None
            made = TaskExecutionError(
                f"Row {first.name!r} failed: {add_origin(summarize_error(cause), cause)}",
                task_description=getattr(cause, "task_description", error.task_description),
                agent_role=getattr(cause, "agent_role", error.agent_role),
                completed_task_outputs=error.completed_task_outputs,
            )
            made.__cause__ = cause
        made.output = result
        return made
