"""One row in another process, from bytes to bytes: how it is packed, run and told to stop. Knows nothing of the map."""

from __future__ import annotations

import functools
import io
import marshal
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import Any, Final, NamedTuple

import cloudpickle

from ensemble_notebook.domain.definitions.definition import Definition, list_given
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit, Spending
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
from ensemble_notebook.engine.budget_reservation import open_account
from ensemble_notebook.engine.events.listeners import leave_out_heard
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.engine.rate_limiter import RatePart, RatePartsHere, RatePartsLeft
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.person import InterruptGuard
from ensemble_notebook.ensemble.run_handle import SLICE_S, RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.ensemble.scoring import RowCalls, make_subject
from ensemble_notebook.errors import EnsembleError, Problem, RunInterrupted, ValidationError, summarize_error
from ensemble_notebook.errors.pickling import get_state, make_blank, make_view, set_state
from ensemble_notebook.evaluation.scorer import Scoring, score_run
from ensemble_notebook.models.recording.recorder import ExchangeList, ExchangeLog, RecordingSource

_ENSEMBLES: Final = 8
_stops_heard: Final[set[str]] = set()


class GrantUsedError(EnsembleError, RuntimeError):
    """The grant of this row was used before, by a worker that died, which may have spent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """A row as it is sent to a worker.

    Attributes:
        run_id: of its run.
        stop: the name of the map's stop: of a file that is there from then on, or of an event of Dask.
        home: id of the process of the map.
        row: the name of its task in the map.
        values: of all template variables.
        only: name of the only task to run; None: all.
        grant: what it may spend; None: no limit.
        rates: a part of each rate limit that `pack_ensemble` has found.
        scorers: functions that look at it there, packed; empty: none.
        is_recorded: whether its exchanges are to come home, for a recording there.
    """

    run_id: str
    stop: str
    home: int
    row: str
    values: Mapping[str, Any]
    only: str | None = None
    grant: Budget | None = None
    rates: Sequence[RatePart] = ()
    scorers: bytes = b""
    is_recorded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReport:
    """The result of a row as it is sent back.

    Attributes:
        status: of the run.
        output: complete or partial, with all events; None if the run did not begin.
        raw: the text of the final task.
        error: what it failed with.
        scores: of the run.
        declared_roles: taken from the task outputs by `release_texts`; `withhold_texts` gives them back.
        exchanges: with models, tools and reviewers, for `ExchangeLog.add_all`.
    """

    status: RunStatus
    output: EnsembleOutput | None = None
    raw: str = ""
    error: BaseException | None = None
    scores: Sequence[ScoreRecord] = ()
    declared_roles: Sequence[str | None] = ()
    exchanges: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker sends back.

    Attributes:
        report: a packed `RowReport`; a failure of the run is in it.
        spent: what was taken of the grant, with the worst case of requests whose usage never arrived.
        rates: what is left of its parts of rate limits.
    """

    report: bytes
    spent: Spending
    rates: RatePartsLeft


def release_texts(report: RowReport) -> RowReport:
    """Let the texts of a run that keeps none go home: task outputs are live there."""
    outputs = list(_list_outputs(report))
    roles = [each._declared_role for each in outputs]
    for each in outputs:
        set_state(each, {"_declared_role": None})
    return replace(report, declared_roles=roles)


def withhold_texts(report: RowReport) -> None:
    """Have the task outputs keep their texts out of ``repr`` and pickles again."""
    for each, role in zip(_list_outputs(report), report.declared_roles, strict=True):
        set_state(each, {"_declared_role": role})


def _list_outputs(report: RowReport) -> Iterator[TaskOutput]:
    for each in () if report.output is None else report.output.completed_outputs:
        yield each
        yield from each.item_outputs


def name_start(key: str) -> str:
    """The name of the event of Dask that is set before the row with this key is begun."""
    return f"ensemble-start-{key}"


def hear_stop(stop: str) -> None:
    """Rows of this map that run in this process are to stop. Called by Dask while they run."""
    _stops_heard.add(stop)


def run_row(ensemble: bytes, request: bytes) -> Reply:
    """Run one row. The process may have run other rows of the same ensemble.

    Args:
        ensemble: from `pack_ensemble`.
        request: a packed `RowRequest`.

    Raises:
        GrantUsedError: another worker has begun with this grant.
        Exception: the worker lacks something that is needed to unpickle the ensemble.
    """
    asked: RowRequest = unpack(request)
    is_forgotten = _claim(asked)
    grant = None if asked.grant is None else asked.grant.shared()  # so that its account can be read
    rates = RatePartsHere(_unpack_once(ensemble).rate_limits, asked.rates)

    def is_stopped() -> bool:
        return asked.stop in _stops_heard or Path(asked.stop).exists() or _is_orphaned(asked.home) or is_forgotten()

    # Ctrl-C and Jupyter's interrupt reach the processes of an executor, too.
    with rates.hold(), InterruptGuard() as guard:
        exchanges = ExchangeList()
        report = replace(_run(ensemble, asked, grant, exchanges, guard, is_stopped), exchanges=exchanges.documents)
    account = None if grant is None else open_account(grant)
    spent = Spending() if account is None else account.booked + account.held
    return Reply(pack(release_texts(report)), spent, rates.leave())


def _run(
    ensemble: bytes,
    asked: RowRequest,
    grant: Budget | None,
    exchanges: ExchangeList,
    guard: InterruptGuard,
    is_stopped: Callable[[], bool],
) -> RowReport:
    if is_stopped():
        return RowReport(status=RunStatus.INTERRUPTED)
    setting = RunSettings(only=asked.only, is_row=True)
    try:
        definition, prepared = _prepare(ensemble, asked.only)
        around = _unpack_once(ensemble).around
        spec = replace(prepared.make_spec(asked.values), budget=grant, rate_limits=around, row=asked.row)
        source = make_source(setting)
        if asked.is_recorded:
            source = RecordingSource(source, ExchangeLog(exchanges))
    except EnsembleError as error:
        return RowReport(status=RunStatus.FAILED, error=error)
    handle = RunHandle(definition, spec, source, asked.run_id, setting)

    def look() -> None:
        if is_stopped():
            handle.cancel()

    handle._begin()
    guard.call(handle.cancel)
    try:
        output = handle.result(while_waiting=look)
    except (RunInterrupted, KeyboardInterrupt):
        return RowReport(status=RunStatus.INTERRUPTED, output=handle.output)
    except Exception as error:  # noqa: BLE001 - whatever the run raises goes home with its output
        return RowReport(status=RunStatus.FAILED, output=handle.output, error=error)
    failed = output.failures[0].error if output.status is RunStatus.FAILED else None
    scores = _score(output, asked, is_stopped) if asked.scorers else ()
    return RowReport(status=output.status, output=output, raw=output.raw, error=failed, scores=scores)


def _score(output: EnsembleOutput, asked: RowRequest, is_stopped: Callable[[], bool]) -> Sequence[ScoreRecord]:
    """Call the functions that score a row; a stop ends that, and leaves what was scored by then."""
    scorers, expected = _unpack_once(asked.scorers)
    subject = make_subject(output, asked.values, expected)
    if subject is None:
        return ()
    scoring, calls, place = Scoring(), RowCalls(), {"run_id": output.run_id}
    keeps_texts = output.capture_mode is not CaptureMode.METADATA
    scored = loop_thread().submit(score_run(scorers, subject, place, calls, {}, scoring, keeps_texts=keeps_texts))
    while not scored.done():
        wait([scored], timeout=SLICE_S)
        if is_stopped():
            scored.cancel()
    calls.close()
    return tuple(scoring.records)


@functools.lru_cache(_ENSEMBLES)
def _prepare(ensemble: bytes, only: str | None) -> tuple[RunnableEnsemble, PreparedEnsemble]:
    """Unpickle and check the ensemble once per worker, not for each row."""
    definition = _unpack_once(ensemble).ensemble
    setting = RunSettings(only=only, is_row=True, review_handler=definition.review_handler)
    return definition, PreparedEnsemble(definition, setting, make_source(setting))


def _is_orphaned(home: int) -> bool:
    """Whether the map's process started this one, and is gone: nobody would get the row, and it would still cost."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid != home:
        return False
    # Either alone misses some: forked siblings keep the parent's sentinel open, and on Windows a parent never changes.
    return os.getppid() != _find_parent(os.getpid()) or not parent.is_alive()


@functools.cache
def _find_parent(_pid: int) -> int:
    """The parent that this process had when it was first asked; a fork inherits the answer of another one."""
    return os.getppid()


def _claim(asked: RowRequest) -> Callable[[], bool]:
    """Tell Dask's scheduler that the row begins, then ask it for a stop; the map asks in the opposite order.

    So either this start is seen there, or the stop here. What is granted is good for one start, and Dask resubmits a
    task by itself if its worker dies.

    Returns:
        Whether the scheduler has forgotten the row meanwhile, since the map's process is gone.

    Raises:
        GrantUsedError: the grant has been used.
    """
    if "distributed" not in sys.modules:
        return bool
    distributed: Any = sys.modules["distributed"]

    try:
        worker = distributed.get_worker()
    except ValueError:  # no worker of Dask
        return bool
    client = distributed.get_client()
    key = worker.get_current_task()
    start = distributed.Event(name_start(key), client=client)
    if (asked.grant is not None or asked.rates) and start.is_set():
        raise GrantUsedError("The worker that had this row is gone, with what it had been granted.")
    start.set()
    if distributed.Event(asked.stop, client=client).is_set():
        hear_stop(asked.stop)
    return lambda: getattr(worker.state.tasks.get(key), "state", "cancelled") == "cancelled"


# --- Pickles what is sent to other processes --------------------------------------------------------------------------
#
# Elsewhere, pickles of definitions leave live objects out (E63); here those are what is sent. Functions and classes
# defined in cells are pickled by value (cloudpickle).


_FAULTS = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError, OSError, ImportError)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
    def __init__(self, stream: io.BytesIO, rate_limits: list[RateLimit], heard: Sequence[Any]) -> None:
        super().__init__(stream)
        self._rate_limits = rate_limits
        self._heard = heard

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, RateLimit):  # wherever it is, in a tool or a function, too
            self._rate_limits.append(value)
        if isinstance(value, Definition):
            return make_blank, (type(value),), get_state(value), None, None, set_state
        if hasattr(type(value), "sends_to") and not leave_out_heard([value], self._heard):
            return type(None), ()
        if isinstance(value, MappingProxyType):
            return make_view, (dict(value),)
        if isinstance(value, CodeType):  # cloudpickle takes its file away, and with it where an error came from
            return marshal.loads, (marshal.dumps(value),)
        return super().reducer_override(value)


def pack(value: Any) -> bytes:
    """Pickle a value, so that `unpack` can restore it in any process with the same packages.

    Raises:
        Exception: something in it can't be pickled.
    """
    return _pack(value, [], ())


def _pack(value: Any, rate_limits: list[RateLimit], heard: Sequence[Any]) -> bytes:
    """As `pack`; the list gets all rate limits that are met on the way, once each.

    Left out are exporters of what one of `heard` exports, too (T125).
    """
    stream = io.BytesIO()
    _Pickler(stream, rate_limits, heard).dump(value)
    return stream.getvalue()


def unpack(data: bytes) -> Any:
    """Restore a packed value. Only for bytes from this user's own workers: pickles can run code."""
    return pickle.loads(data)


_unpack_once: Final = functools.lru_cache(_ENSEMBLES)(unpack)


class SentEnsemble(NamedTuple):
    """What each row is sent with.

    Attributes:
        ensemble: with its live objects.
        around: rate limits that all its requests pass beside its own.
        rate_limits: all that there are, those inside the ensemble included, once each.
    """

    ensemble: RunnableEnsemble
    around: tuple[RateLimit, ...]
    rate_limits: list[RateLimit]


def pack_ensemble(
    ensemble: RunnableEnsemble, around: tuple[RateLimit, ...], heard: Sequence[Any]
) -> tuple[bytes, list[RateLimit]]:
    """Pickle an ensemble as a `SentEnsemble`.

    Args:
        ensemble: what runs.
        around: rate limits that all its requests pass beside its own.
        heard: who hears of the rows when they are back.

    Returns:
        The bytes, and all rate limits that there are, in the order in which the worker has them.

    Raises:
        ValidationError: lists every object in it that can't be pickled.
    """
    found: list[RateLimit] = []
    try:
        return _pack(SentEnsemble(ensemble, around, found), found, heard), found  # the list itself is written last
    except _FAULTS as error:
        reason = summarize_error(error)

    def find_fault(value: Any) -> str | None:
        try:
            pack(value)
        except _FAULTS as error:
            return summarize_error(error)
        return None

    tasks = list_tasks(ensemble)
    agents = [each for task in tasks for each in (task.agent, task.fallback)]
    problems = [
        Problem(
            f"{field} can't go to another process: {fault}. Give a model as a spec, or leave out executor=.",
            owner,
            field,
        )
        for owner in dict.fromkeys((*tasks, *agents, *ensemble.agents, ensemble))
        if owner is not None
        for field, value in list_given(owner)
        if not isinstance(value, Definition) and field not in ("tasks", "phases", "agents", "context", "when", "until")
        if (fault := find_fault(value)) is not None
    ]
    raise ValidationError(problems or [Problem(f"The ensemble can't go to another process: {reason}.", ensemble)])
