"""Runs rows in other processes. Each is sent with its ensemble and a grant; its events are merged when it returns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.definitions.memory import is_vector_store
from ensemble_notebook.domain.kernel_limits import name_setter
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.planning.ensemble_rules import list_known_items
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
from ensemble_notebook.engine.budget_ledger import Reservation, ReservationState
from ensemble_notebook.engine.budget_reservation import BudgetAccount
from ensemble_notebook.engine.events.nested_events import NestedEvents, find_calling_span
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.engine.rate_limiter import RateLoan
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.cost_estimation import estimate
from ensemble_notebook.ensemble.earlier_runs.run_journal import RowPlace
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.executors import Pool
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome, leave_row
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.many_runs.worker import (
    GrantUsedError,
    Reply,
    RowReport,
    RowRequest,
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
from ensemble_notebook.models.recording.recorder import ExchangeLog

_MOST_STARTS: Final = 3
_STOP_LIMIT_S: Final = 0.4
"""How long a stopped row is waited for: less than until a task is left to itself."""


NOT_ELSEWHERE: Final = {
    "replay": "Rows on an executor would ask models, and pay, for what the recording has.",
    "reuse": "Workers don't have the run store: what earlier runs have done would be done, and paid, again.",
    "resume": "Workers don't have the run store: what was done in rows that have no end would be done again, and paid.",
}
"""What would be lost where rows run on an executor, by the argument of a map."""


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
        problems = []
        parent = find_parent_run()
        if parent is not None and parent.spec.replayed_from is not None:
            problems.append(Problem(f"{NOT_ELSEWHERE['replay']} Leave out executor=."))
        for each in _list_ensembles(ensemble):
            if _is_memory_whole(each.memory, pool):
                continue
            text = "Each worker would have a copy of the memory: what a row stores would be lost with it, and no other "
            text += "row would find it. Leave out executor=, give a memory that is only read, or, on an executor of "
            text += "processes or threads of this machine, one in a file: SqliteMemory(path)."
            problems.append(Problem(text, each, "memory"))
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
        around = () if parent is None else parent.rate_limits
        heard = (*ensemble.listeners, ensemble.trace_exporter)
        self._packed, self._rate_limits = pack_ensemble(travelling, around, heard)

    async def run(self, row: Row, outcome: RowOutcome) -> str:
        """As a `RunRow`. Called on the map's loop, inside the task of the row."""
        values, place = {**self._common, **row.values}, find_calling_span()
        assert place is not None
        began_s, row_name = place.span.stream.offset_s(), place.span.task or ""
        try:
            report = await self._send(row_name, values, outcome.run_id)
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

    async def _send(self, row_name: str, values: Mapping[str, Any], run_id: str) -> RowReport:
        """Submit the row; submit it again if its worker died and may have spent the grant."""
        parent, graph = find_parent_run(), self._prepared.graph
        accounts = () if parent is None else parent.accounts
        written, _ = write_inputs(self._prepared.written, values)
        for _ in range(_MOST_STARTS):
            grant = Grant(loan=RateLoan(self._rate_limits, self._pool, self._pool.most_rows))
            if accounts:
                items = list_known_items(graph, values)
                taken = estimate(self._ensemble, graph, written, datetime.now(UTC), items)
                grant = await reserve_grant(accounts, taken, grant.loan)
            try:
                await grant.loan.take()
            except BaseException:
                grant.withdraw()
                raise
            request = RowRequest(
                run_id=run_id,
                stop=self._pool.stop_name,
                home=os.getpid(),
                row=row_name,
                values=values,
                only=self._only,
                grant=grant.budget,
                rates=grant.loan.send(),
                scorers=self._pool.scorers,
                is_recorded=_find_recording() is not None,
            )
            try:
                return await self._ask(request, grant)
            except GrantUsedError:
                continue
        raise LostRowError(f"The row was started {_MOST_STARTS} times, and its worker died each time.")

    async def _ask(self, request: RowRequest, grant: Grant) -> RowReport:
        """Send the row, and wait for it. What it was granted is settled when it is back, whoever waits for it then.

        Raises:
            LostRowError: it can't be sent, or did not come back.
        """
        try:
            call: Future[Reply] = self._pool.submit(run_row, self._packed, pack(request))
        except Exception as error:
            grant.withdraw()
            raise LostRowError(f"The row could not be sent: {type(error).__name__}: {error}") from error
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
        if (recording := _find_recording()) is not None:
            recording.add_all(report.exchanges)
        return report


def _find_recording() -> ExchangeLog | None:
    """The log of the recording of the map; None where there is none."""
    parent = find_parent_run()
    return None if parent is None else getattr(parent.source, "file_log", None)


def _list_ensembles(ensemble: EnsembleDefinition) -> Iterator[EnsembleDefinition]:
    """An ensemble, and those that do its tasks."""
    yield ensemble
    for task in list_tasks(ensemble):
        inner: Any = task.ensemble
        if inner is not None:
            yield from _list_ensembles(inner)


def _is_memory_whole(memory: Any, pool: Pool) -> bool:
    """Whether rows elsewhere lose nothing of a memory: it is only read, or a file that their processes share."""
    from ensemble_notebook.memory.full_text_store import SqliteMemory

    if memory is None or is_vector_store(memory) or getattr(memory, "read_only", False):
        return True
    return isinstance(memory, SqliteMemory) and pool.is_here


def _settle(grant: Grant, call: Future[Reply], *, knows_beginnings: bool) -> None:
    if call.cancelled() and knows_beginnings:
        grant.withdraw()
        return
    reply = None if call.cancelled() or call.exception() is not None else call.result()
    # Nobody knows what a row took that does not come back, or as something else than it was.
    grant.settle(reply if isinstance(reply, Reply) else None)


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


# --- Grants: what a row takes along to another process, where it can't take more --------------------------------------
#
# That is a part of each budget and of each rate limit. It is taken before the row is sent, and settled when it comes
# back, be that after the end of the map. If nothing comes back, what may be spent stays booked, so the budget is never
# exceeded, whatever happens to the worker.


class GrantReservation(Reservation):
    """A reservation of a fixed amount, for all requests of a row together."""

    __slots__ = ("_amount",)

    def __init__(self, amount: Spending) -> None:
        super().__init__(0, 0)
        self._amount = amount

    def worst_case(self, output_tokens: int) -> Spending:  # noqa: ARG002 - the amount is fixed
        """The amount."""
        return self._amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a row takes along.

    Attributes:
        loan: its parts of rate limits.
        budget: of the run in the worker; None: nothing limits what it spends.
    """

    loan: RateLoan
    budget: Budget | None = None
    _held: Sequence[tuple[BudgetAccount, GrantReservation]] = ()

    def settle(self, reply: Reply | None) -> None:
        """Book what the row took. With None, which means unknown, all that it might have spent stays booked."""
        self.loan.settle(None if reply is None else reply.rates)
        for account, reservation in self._held:
            account.settle(reservation, None if reply is None else reply.spent)

    def withdraw(self) -> None:
        """Give back what a row had that was not sent, or not begun."""
        self.loan.withdraw()
        for account, reservation in self._held:
            account.withdraw(reservation)


async def reserve_grant(accounts: Sequence[BudgetAccount], estimate: CostEstimate, loan: RateLoan) -> Grant:
    """Reserve the most that a row may spend, or what is left if that is less. Waits while other rows hold it.

    Args:
        accounts: all accounts that pay for the row.
        estimate: of the row.
        loan: its parts of rate limits.

    Raises:
        BudgetExceededError: less is left than the row takes at least.
    """
    while True:
        amount, budget = _find_amount(accounts, estimate)
        held: list[tuple[BudgetAccount, GrantReservation]] = []
        grant = Grant(loan=loan, budget=budget, _held=held)
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
                message = f"The next row takes at least {low.get_amount(name):,} of {name}, and {left:,} is left."
                set_by = account.budget.set_by
                shortfall = f"{left:,} of {name} is left; {name_setter(set_by)}" if set_by else ""
                message += f" T{name_setter(set_by)[1:]}." if set_by else ""
                raise BudgetExceededError(message, budget=account.budget, limit=name, shortfall=shortfall)
            most[name] = min(most[name], left if name == "max_cost" else int(left))
            names.add(name)
    amount = Spending(cost=most["max_cost"], tokens=most["max_tokens"], llm_calls=most["max_llm_calls"])
    # A limit must be above 0, so an amount of 0 becomes one so small that no request fits.
    limits = {name: max(most[name], least) for name, least in _LEAST.items() if name in names}
    priced = [each.budget for each in accounts if each.budget.max_cost is not None]
    allows_unknown = all(each.allow_unknown_cost for each in priced)
    return amount, Budget(**limits, warn_at=1, allow_unknown_cost=allows_unknown)


_LEAST: Final[dict[str, Any]] = {"max_cost": Decimal("1e-12"), "max_tokens": 1, "max_llm_calls": 1}
