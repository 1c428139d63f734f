"""Runs rows in other processes. Each is sent with its ensemble and a grant; its events are merged when it returns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
from ensemble_notebook.domain.planning.known_items import list_known_items
from ensemble_notebook.engine.events.nested_events import CallingSpan, NestedEvents, find_calling_span
from ensemble_notebook.engine.limits.parent_run import find_parent_run
from ensemble_notebook.engine.threads.cross_thread_event import CrossThreadEvent
from ensemble_notebook.ensemble.cost_estimation import estimate
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.grants import Grant, reserve_grant
from ensemble_notebook.ensemble.many_runs.pools import Pool
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.many_runs.serialization import pack, pack_ensemble, unpack
from ensemble_notebook.ensemble.many_runs.worker import (
    GrantUsedError,
    Reply,
    RowReport,
    RowRequest,
    run_row,
    withhold_texts,
)
from ensemble_notebook.ensemble.run_checks import make_pricing
from ensemble_notebook.ensemble.run_inputs import write_inputs
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble
from ensemble_notebook.errors import EnsembleError, Problem, ValidationError

_MOST_STARTS: Final = 3
_STOP_LIMIT_S: Final = 0.4
"""How long a stopped row is waited for: less than until a task is left to itself."""


class LostRowError(EnsembleError, RuntimeError):
    """The result of a row did not come back from its worker."""


class ExecutorRows:
    """Runs rows on an executor or a cluster.

    Args:
        ensemble: what runs.
        prepared: the ensemble, checked here, so that every mistake is found before the first row is sent.
        common: inputs of all rows; a row's own values override them.
        pool: where the rows run.

    Raises:
        ValidationError: a part of the ensemble can't be sent to another process.
    """

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        prepared: PreparedEnsemble,
        common: Mapping[str, Any],
        pool: Pool,
    ) -> None:
        _refuse_what_stays(ensemble)
        self._ensemble = ensemble
        self._prepared = prepared
        self._common = common
        self._pool = pool
        self._only = None if prepared.only is None else prepared.graph.tasks[prepared.only.task].name
        # What belongs to the map as a whole stays here; a worker has no settings of its own.
        travelling = replace(
            ensemble, budget=None, listeners=(), trace_exporter=None, capture_mode=prepared.capture_mode, verbose=False
        )
        self._packed = pack_ensemble(travelling)

    async def run(self, row: Row, outcome: RowOutcome) -> str:
        """As `RowRunner.run`. Called on the map's loop, inside the task of the row."""
        values, place = {**self._common, **row.values}, find_calling_span()
        assert place is not None
        began_s = place.span.stream.offset_s()
        try:
            report = await self._send(values, outcome.run_id)
        except asyncio.CancelledError:
            outcome.status = RunStatus.INTERRUPTED
            raise
        except Exception as error:
            outcome.status, outcome.error = RunStatus.FAILED, error
            raise
        if report.output is not None:
            _bring_home(report.output, place, began_s)
        outcome.status, outcome.output, outcome.error = report.status, report.output, report.error
        if report.status is RunStatus.BUDGET_EXCEEDED:
            outcome.error = EnsembleError(
                "The row used up what it was granted of the budget: its estimate, or what was left."
            )
        if report.status is RunStatus.INTERRUPTED:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError
            outcome.error = LostRowError("Its worker was interrupted.")
        if outcome.error is not None:
            raise outcome.error
        return report.raw

    async def _send(self, values: Mapping[str, Any], run_id: str) -> RowReport:
        """Submit the row; submit it again if its worker died and may have spent the grant."""
        parent = find_parent_run()
        accounts = () if parent is None else parent.accounts
        for _ in range(_MOST_STARTS):
            grant = await reserve_grant(accounts, self._estimate(values)) if accounts else None
            request = RowRequest(
                run_id=run_id,
                stop=self._pool.stop_name,
                home=os.getpid(),
                values=values,
                only=self._only,
                grant=None if grant is None else grant.budget,
            )
            try:
                return await self._ask(request, grant)
            except GrantUsedError:
                continue
        raise LostRowError(f"The row was started {_MOST_STARTS} times, and its worker died each time.")

    async def _ask(self, request: RowRequest, grant: Grant | None) -> RowReport:
        call = self._submit(request, grant)
        try:
            await _wait_for(call)
        except asyncio.CancelledError:
            self._pool.stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_LIMIT_S):
                    await _wait_for(call)
            if not call.done() or call.cancelled() or call.exception() is not None:
                raise
        try:
            report = unpack(call.result().report)
        except GrantUsedError:
            raise
        except BaseException as error:  # such as the KeyboardInterrupt of a worker
            raise LostRowError(f"The row did not come back from its worker: {type(error).__name__}: {error}") from error
        assert isinstance(report, RowReport)
        withhold_texts(report)
        return report

    def _submit(self, request: RowRequest, grant: Grant | None) -> Future[Reply]:
        """Send the row. Its grant is settled when it is back, whoever waits for it then.

        Raises:
            LostRowError: it can't be sent.
        """
        try:
            call = self._pool.submit(run_row, self._packed, pack(request))
        except Exception as error:
            if grant is not None:
                grant.withdraw()
            raise LostRowError(f"The row could not be sent: {type(error).__name__}: {error}") from error
        if grant is not None:
            call.add_done_callback(partial(_settle, grant, knows_beginnings=self._pool.knows_beginnings))
        return call

    def _estimate(self, values: Mapping[str, Any]) -> CostEstimate:
        graph = self._prepared.graph
        written, _ = write_inputs(self._prepared.texts, values)
        items = list_known_items(graph, values)
        return estimate(self._ensemble, graph, written, make_pricing(self._ensemble), datetime.now(UTC), items)


def _settle(grant: Grant, call: Future[Reply], *, knows_beginnings: bool) -> None:
    if call.cancelled() and knows_beginnings:
        grant.withdraw()
    elif call.cancelled() or call.exception() is not None:
        grant.settle(None)  # nobody knows what a row took that does not come back
    else:
        grant.settle(call.result().spent)


async def _wait_for(call: Future[Any]) -> None:
    back = CrossThreadEvent()
    call.add_done_callback(lambda _: back.set())
    await back


def _refuse_what_stays(ensemble: RunnableEnsemble) -> None:
    """Refuse what processes can't share.

    Raises:
        ValidationError: with all such fields.
    """
    tasks = list_tasks(ensemble)
    agents = (agent for task in tasks for agent in (task.agent, task.fallback))
    owners: list[Any] = [
        each for each in dict.fromkeys((ensemble, *ensemble.agents, *agents, *tasks)) if each is not None
    ]
    problems = [
        Problem(
            "A rate limit can't hold across processes: leave out executor=, or the rate limit.", owner, "rate_limit"
        )
        for owner in owners
        if owner.rate_limit is not None
    ]
    if ensemble.memory is not None:
        problems.append(Problem("A memory can't be shared by processes: leave out executor=.", ensemble, "memory"))
    if ensemble.review_handler is not None:
        text = "Nobody can be asked from another process: leave out executor=, or the review handler."
        problems.append(Problem(text, ensemble, "review_handler"))
    if problems:
        raise ValidationError(problems)


def _bring_home(output: EnsembleOutput, place: CallingSpan, began_s: float) -> None:
    """Add the events of a run in another process to the map's stream, below the task of its row."""
    events = NestedEvents(place)
    # Clocks of machines differ: that it ended now is the best that is known, and it has not begun before it was sent.
    events.begin_at(max(began_s, place.span.stream.offset_s() - output.events[-1].offset_s))
    for event in output.events:
        events.put(event)
