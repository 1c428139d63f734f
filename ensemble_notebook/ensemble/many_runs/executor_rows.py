"""Runs rows in other processes. Each is sent with its ensemble and a grant; its events are merged when it returns."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.planning.ensemble_rules import list_known_items
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
from ensemble_notebook.engine.budget_ledger import Reservation, ReservationState
from ensemble_notebook.engine.budget_reservation import BudgetAccount
from ensemble_notebook.engine.events.nested_events import NestedEvents, find_calling_span
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.cost_estimation import estimate
from ensemble_notebook.ensemble.earlier_runs.run_journal import RowPlace
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome, leave_row
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.many_runs.worker import (
    GrantUsedError,
    Reply,
    RowReport,
    RowRequest,
    hear_stop,
    name_start,
    pack,
    pack_ensemble,
    run_row,
    unpack,
    withhold_texts,
)
from ensemble_notebook.ensemble.review_handlers import AutoReview
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble
from ensemble_notebook.ensemble.run_settings import write_inputs
from ensemble_notebook.errors import BudgetExceededError, EnsembleError, Problem, ValidationError, summarize_error
from ensemble_notebook.evaluation.scorer import Scorer

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
        self, ensemble: RunnableEnsemble, prepared: PreparedEnsemble, common: Mapping[str, Any], pool: Pool
    ) -> None:
        tasks = list_tasks(ensemble)
        agents = (agent for task in tasks for agent in (task.agent, task.fallback))
        text = "A rate limit can't hold across processes: leave out executor=, or the rate limit."
        problems = [
            Problem(text, owner, "rate_limit")
            for owner in dict.fromkeys((ensemble, *ensemble.agents, *agents, *tasks))
            if owner is not None and owner.rate_limit is not None
        ]
        if ensemble.memory is not None:
            problems.append(Problem("A memory can't be shared by processes: leave out executor=.", ensemble, "memory"))
        if not isinstance(ensemble.review_handler, AutoReview | None):
            text = "Nobody can be asked from another process: leave out executor=, or the review handler."
            problems.append(Problem(text, ensemble, "review_handler"))
        if problems:
            raise ValidationError(problems)
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
        """As a `RunRow`. Called on the map's loop, inside the task of the row."""
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
            # Its events join the map's stream, below the task of the row. Clocks of machines differ: that it ended now
            # is the best that is known, and it has not begun before it was sent.
            events = NestedEvents(place)
            events.begin_at(max(began_s, place.span.stream.offset_s() - report.output.events[-1].offset_s))
            for event in report.output.events:
                events.put(event)
            row_name = place.span.task or ""
            kept = RowPlace(map_run_id=place.span.stream.run_id, row=row_name, prefix="", is_kept=False)
            vars(report.output)["_row_place"] = kept
        outcome.status, outcome.output, outcome.error = report.status, report.output, report.error
        outcome.scores += report.scores
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
        if report.output is not None:
            leave_row(report.output)
        return report.raw

    async def _send(self, values: Mapping[str, Any], run_id: str) -> RowReport:
        """Submit the row; submit it again if its worker died and may have spent the grant."""
        parent, graph = find_parent_run(), self._prepared.graph
        accounts = () if parent is None else parent.accounts
        written, _ = write_inputs(self._prepared.written, values)
        for _ in range(_MOST_STARTS):
            grant = None
            if accounts:
                items = list_known_items(graph, values)
                taken = estimate(self._ensemble, graph, written, datetime.now(UTC), items)
                grant = await reserve_grant(accounts, taken)
            request = RowRequest(
                run_id=run_id,
                stop=self._pool.stop_name,
                home=os.getpid(),
                values=values,
                only=self._only,
                grant=None if grant is None else grant.budget,
                scorers=self._pool.scorers,
            )
            try:
                return await self._ask(request, grant)
            except GrantUsedError:
                continue
        raise LostRowError(f"The row was started {_MOST_STARTS} times, and its worker died each time.")

    async def _ask(self, request: RowRequest, grant: Grant | None) -> RowReport:
        """Send the row, and wait for it. Its grant is settled when it is back, whoever waits for it then.

        Raises:
            LostRowError: it can't be sent, or did not come back.
        """
        try:
            call: Future[Reply] = self._pool.submit(run_row, self._packed, pack(request))
        except Exception as error:
            if grant is not None:
                grant.withdraw()
            raise LostRowError(f"The row could not be sent: {type(error).__name__}: {error}") from error
        if grant is not None:
            call.add_done_callback(partial(_settle, grant, knows_beginnings=self._pool.knows_beginnings))
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


def pack_scorers(functions: Sequence[Scorer], expected: str | None) -> bytes:
    """Pickle the functions that score rows, and the column of what a row should come to.

    Raises:
        ValidationError: some of them can't be pickled; names each.
    """
    problems = []
    for each in functions:
        try:
            pack(each)
        except Exception as error:  # noqa: BLE001 - it is anybody's
            told = f"The scorer {each.shown} can't go to another process: {summarize_error(error)}."
            problems.append(Problem(f"{told} Leave out executor=, or score the result: result.score(...)."))
    if problems:
        raise ValidationError(problems)
    return pack((tuple(functions), expected))


# --- Grants: the part of a budget that a row takes along to another process, where it can't spend more ----------------
#
# A grant is reserved before the row is sent, and settled with what it took when it comes back, be that after the end of
# the map. If nothing comes back, the whole grant stays booked, so the budget is never exceeded, whatever happens to the
# worker.


class GrantReservation(Reservation):
    """A reservation of a fixed amount, for all requests of a row together."""

    __slots__ = ("_amount",)

    def __init__(self, amount: Spending) -> None:
        super().__init__(0, 0)
        self._amount = amount

    def worst_case(self, output_tokens: int) -> Spending:  # noqa: ARG002 - the amount is fixed
        """The amount."""
        return self._amount


@dataclass(frozen=True, slots=True)
class Grant:
    """What a row may spend, and the accounts where it is reserved.

    Attributes:
        budget: the budget of the run in the worker.
    """

    budget: Budget
    _held: Sequence[tuple[BudgetAccount, GrantReservation]]

    def settle(self, taken: Spending | None) -> None:
        """Book what the row took. With None, which means unknown, the whole grant stays booked."""
        for account, reservation in self._held:
            account.settle(reservation, taken)

    def withdraw(self) -> None:
        """Release the reservation of a row that was not sent, or not begun."""
        for account, reservation in self._held:
            account.withdraw(reservation)


async def reserve_grant(accounts: Sequence[BudgetAccount], estimate: CostEstimate) -> Grant | None:
    """Reserve the most that a row may take, or what is left if that is less. Waits while other rows hold it.

    Args:
        accounts: all accounts that pay for the row.
        estimate: of the row.

    Returns:
        None if there is no account.

    Raises:
        BudgetExceededError: less is left than the row takes at least.
    """
    if not accounts:
        return None
    while True:
        amount, budget = _find_amount(accounts, estimate)
        held: list[tuple[BudgetAccount, GrantReservation]] = []
        grant = Grant(budget, held)
        try:
            for account in accounts:
                reservation = GrantReservation(amount)
                held.append((account, reservation))
                decision = account.reserve(reservation)
                if decision is not None:
                    await decision
                if reservation.state is ReservationState.REFUSED:  # others have spent what there was
                    break
            else:
                return grant
        except BaseException:
            grant.withdraw()
            raise
        grant.withdraw()


def _find_amount(accounts: Sequence[BudgetAccount], estimate: CostEstimate) -> tuple[Spending, Budget]:
    """The most that a row may take, limited by what is left, also as a budget with the limits of the accounts.

    Raises:
        BudgetExceededError: less is left than the row takes at least.
    """
    cost = estimate.cost
    low = Spending(
        cost=Decimal(0) if cost is None else cost.low,
        tokens=estimate.total_tokens.low,
        llm_calls=estimate.llm_calls.low,
    )
    most: dict[str, Any] = {
        "max_cost": Decimal(0) if cost is None else cost.high,
        "max_tokens": estimate.total_tokens.high,
        "max_llm_calls": estimate.llm_calls.high,
    }
    names = set()
    for account in accounts:
        for name in account.budget.limits:
            if low.get_amount(name) > (left := account.get_remaining(name)):
                raise BudgetExceededError(
                    f"The next row takes at least {low.get_amount(name):,} of {name}, and {left:,} is left.",
                    budget=account.budget,
                    limit=name,
                )
            most[name] = min(most[name], left if name == "max_cost" else int(left))
            names.add(name)
    amount = Spending(cost=most["max_cost"], tokens=most["max_tokens"], llm_calls=most["max_llm_calls"])
    # A limit must be above 0, so an amount of 0 becomes one so small that no request fits.
    limits = {name: max(most[name], least) for name, least in _LEAST.items() if name in names}
    allows_unknown = any(each.budget.allow_unknown_cost for each in accounts)
    return amount, Budget(**limits, warn_at=1, allow_unknown_cost=allows_unknown)


_LEAST: Final[dict[str, Any]] = {"max_cost": Decimal("1e-12"), "max_tokens": 1, "max_llm_calls": 1}


# --- The executors on which rows can run ------------------------------------------------------------------------------


T = TypeVar("T")

logger = logging.getLogger(__name__)


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
    """An executor of `concurrent.futures`. A file tells the stop, to all workers that see the files of this machine.

    Attributes:
        slots: how many rows it runs at the same time.
        stop_name: what workers know the stop of the map by.
        knows_beginnings: whether a call that is cancelled has certainly not begun, and never will.
        scorers: functions that look at each row where it runs, packed; empty: none.
    """

    scorers = b""

    def __init__(self, executor: concurrent.futures.Executor) -> None:
        self._executor = executor
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self.slots = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        # Others may allow to cancel a call that runs.
        self.knows_beginnings = isinstance(
            executor, concurrent.futures.ThreadPoolExecutor | concurrent.futures.ProcessPoolExecutor
        )
        file = Path(tempfile.gettempdir(), f"ensemble-stop-{uuid.uuid4().hex}")
        self.stop_name = str(file)
        self._stop = file.touch
        weakref.finalize(self, file.unlink, missing_ok=True)

    def submit(self, function: Callable[..., T], *arguments: bytes) -> concurrent.futures.Future[T]:
        """Run a function."""
        call = self._executor.submit(function, *arguments)
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


class DaskPool:
    """A cluster of Dask, behind its client. An event tells the stop to rows that begin, a call to those that run."""

    knows_beginnings = True
    scorers = b""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls: dict[concurrent.futures.Future[Any], Any] = {}
        self._is_stopped = False
        self.slots = sum(client.nthreads().values()) or 1
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
