"""The code that runs in a worker: one row, from bytes to bytes. Knows nothing of the map but how it tells its stop."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.events.clock import SystemClock
from ensemble_notebook.engine.limits.budget_account import open_account
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.interrupt_guard import InterruptGuard
from ensemble_notebook.ensemble.many_runs.serialization import pack, unpack
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import EnsembleError, RunInterrupted
from ensemble_notebook.errors.pickling import set_state

_ENSEMBLES: Final = 8
_stops_heard: Final[set[str]] = set()


class GrantUsedError(EnsembleError, RuntimeError):
    """The grant of this row was used before, by a worker that died, which may have spent it (E36)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """A row as it is sent to a worker.

    Attributes:
        run_id: of its run.
        stop: the name of the map's stop: of a file that is there from then on, or of an event of Dask.
        home: id of the process of the map.
        values: of all template variables.
        only: name of the only task to run; None: all.
        grant: what it may spend; None: no limit.
    """

    run_id: str
    stop: str
    home: int
    values: Mapping[str, Any]
    only: str | None = None
    grant: Budget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReport:
    """The result of a row as it is sent back.

    Attributes:
        status: of the run.
        output: complete or partial, with all events; None if the run did not begin.
        raw: the text of the final task.
        error: what it failed with.
        declared_roles: taken from the task outputs by `release_texts`; `withhold_texts` gives them back.
    """

    status: RunStatus
    output: EnsembleOutput | None = None
    raw: str = ""
    error: BaseException | None = None
    declared_roles: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker sends back.

    Attributes:
        report: a packed `RowReport`; a failure of the run is in it.
        spent: what was taken of the grant, with the worst case of requests whose usage never arrived.
    """

    report: bytes
    spent: Spending


def release_texts(report: RowReport) -> RowReport:
    """Let the texts of a run that keeps none go home: task outputs are live there (T6a)."""
    outputs = list(_list_outputs(report))
    roles = [each.declared_role for each in outputs]
    for each in outputs:
        set_state(each, {"declared_role": None})
    return replace(report, declared_roles=roles)


def withhold_texts(report: RowReport) -> None:
    """Have the task outputs keep their texts out of ``repr`` and pickles again."""
    for each, role in zip(_list_outputs(report), report.declared_roles, strict=True):
        set_state(each, {"declared_role": role})


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
    with InterruptGuard() as guard:  # Ctrl-C and Jupyter's interrupt reach the processes of an executor, too
        report = _run(ensemble, asked, grant, guard, lambda: _is_stopped(asked) or is_forgotten())
    account = None if grant is None else open_account(grant)
    return Reply(pack(release_texts(report)), Spending() if account is None else account.booked + account.held)


def _run(
    ensemble: bytes, asked: RowRequest, grant: Budget | None, guard: InterruptGuard, is_stopped: Callable[[], bool]
) -> RowReport:
    if is_stopped():
        return RowReport(status=RunStatus.INTERRUPTED)
    setting = RunSettings(only=asked.only, is_row=True)
    try:
        definition, prepared = _prepare(ensemble, asked.only)
        spec = replace(prepared.make_spec(asked.values), budget=grant)
        source = make_source(setting)
    except EnsembleError as error:
        return RowReport(status=RunStatus.FAILED, error=error)
    handle = RunHandle(definition, spec, source, SystemClock(), asked.run_id, setting)

    def look() -> None:
        if is_stopped():
            handle.cancel()

    handle.begin()
    guard.call(handle.cancel)
    try:
        output = handle.result(while_waiting=look)
    except (RunInterrupted, KeyboardInterrupt):
        return RowReport(status=RunStatus.INTERRUPTED, output=handle.output)
    except Exception as error:  # noqa: BLE001 - whatever the run raises goes home with its output
        return RowReport(status=RunStatus.FAILED, output=handle.output, error=error)
    failed = output.failures[0].error if output.status is RunStatus.FAILED else None
    return RowReport(status=output.status, output=output, raw=output.raw, error=failed)


@functools.lru_cache(_ENSEMBLES)
def _prepare(ensemble: bytes, only: str | None) -> tuple[RunnableEnsemble, PreparedEnsemble]:
    """Unpickle and check the ensemble once per worker, not for each row."""
    setting = RunSettings(only=only, is_row=True)
    definition: RunnableEnsemble = unpack(ensemble)
    return definition, PreparedEnsemble(definition, setting, make_source(setting))


def _is_stopped(asked: RowRequest) -> bool:
    return asked.stop in _stops_heard or Path(asked.stop).exists() or _is_orphaned(asked.home)


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

    So either this start is seen there, or the stop here. A grant is good for one start, and Dask resubmits a task by
    itself if its worker dies.

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
    if asked.grant is not None and start.is_set():
        raise GrantUsedError("The worker that had this row is gone, with the grant that it had for it.")
    start.set()
    if distributed.Event(asked.stop, client=client).is_set():
        hear_stop(asked.stop)
    return lambda: getattr(worker.state.tasks.get(key), "state", "cancelled") == "cancelled"
