"""Runs rows in this process: each is a run of its own, nested in the map's task for the row (E52)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewHandler, ReviewRequest
from ensemble_notebook.engine.events.clock import SystemClock
from ensemble_notebook.engine.limits.parent_run import find_parent_run
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import BudgetExceededError, RunInterrupted

_ID_BYTES: Final = 6
_IDS_AT_A_TIME: Final = 256


@dataclass(slots=True)
class RowOutcome:
    """The state of a row's run.

    Attributes:
        run_id: of the run.
        status: of the run; RUNNING until it has ended.
        output: complete or partial; None if there is none.
        error: what it failed with; None if it did not fail.
    """

    run_id: str
    status: RunStatus = RunStatus.RUNNING
    output: EnsembleOutput | None = None
    error: BaseException | None = None


class RowRunner(Protocol):
    """Runs rows, in this process or elsewhere."""

    async def run(self, row: Row, outcome: RowOutcome) -> str:
        """Run the ensemble with this row, and record the result in `outcome`, whatever it is.

        Returns:
            The text of the final task.

        Raises:
            Exception: what the run failed with.
            BudgetExceededError: the budget of the map is used up.
            CancelledError: the map was stopped.
        """


class LocalRows:
    """Runs rows on the loop of the map.

    Args:
        ensemble: what runs.
        prepared: of it.
        settings: of each run.
        common: values that hold for all rows; a row's own come before them.
    """

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        prepared: PreparedEnsemble,
        settings: RunSettings,
        common: Mapping[str, Any],
    ) -> None:
        self._ensemble = ensemble
        self._prepared = prepared
        self._settings = settings
        self._common = common
        self._clock = SystemClock()

    async def run(self, row: Row, outcome: RowOutcome) -> str:
        """As `RowRunner.run`; on the loop of the map, inside the task of the row."""
        parent = find_parent_run()
        assert parent is not None
        spec = self._prepared.make_spec({**self._common, **row.values})
        handle = RunHandle(self._ensemble, spec, parent.source, self._clock, outcome.run_id, self._settings)
        try:
            await handle.drive()
            output = await handle
        except asyncio.CancelledError:
            outcome.status, outcome.output = RunStatus.INTERRUPTED, handle.output
            raise
        except RunInterrupted as stopped:
            outcome.status, outcome.output = RunStatus.INTERRUPTED, handle.output
            raise asyncio.CancelledError from stopped
        except Exception as error:
            is_unpaid = isinstance(error, BudgetExceededError)
            outcome.status = RunStatus.BUDGET_EXCEEDED if is_unpaid else RunStatus.FAILED
            outcome.output, outcome.error = handle.output, error
            raise
        outcome.status, outcome.output = output.status, output
        if output.status is RunStatus.FAILED:  # under PARTIAL a run tells its failure by its status alone (E34)
            outcome.error = output.failures[0].error
            raise outcome.error
        return output.raw


class ReviewLine:
    """Serializes reviews over all rows, so that one question is asked at a time (E27)."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def queue(self, handler: ReviewHandler) -> ReviewHandler:
        """Wrap a review handler so that it is called with one request at a time."""

        async def ask(request: ReviewRequest) -> ReviewDecision:
            async with self._lock:
                caller = FunctionCaller()
                try:
                    decision: ReviewDecision = await caller.call("review", handler, request)
                finally:
                    caller.close()
                return decision

        return ask


def make_run_ids() -> Iterator[str]:
    """Make ids that no other run has, many at a time: while the system draws one, other threads take their turn."""
    while True:
        drawn = os.urandom(_ID_BYTES * _IDS_AT_A_TIME)
        yield from (drawn[at : at + _ID_BYTES].hex() for at in range(0, len(drawn), _ID_BYTES))
