"""The code that runs in a worker: one row, from bytes to bytes. Knows nothing of the map."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.events.clock import SystemClock
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.serialization import pack, unpack
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import EnsembleError, RunInterrupted
from ensemble_notebook.errors.pickling import set_state

_ENSEMBLES: Final = 8


class GrantUsedError(EnsembleError, RuntimeError):
    """The grant of this row was used before, by a worker that died, which may have spent it (E36)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """A row as it is sent to a worker.

    Attributes:
        run_id: of its run.
        values: of all template variables.
        only: name of the only task to run; None: all.
        grant: what it may spend; None: no limit.
    """

    run_id: str
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


def run_row(ensemble: bytes, request: bytes) -> bytes:
    """Run one row. The process may have run other rows of the same ensemble.

    Args:
        ensemble: from `pack_ensemble`.
        request: a packed `RowRequest`.

    Returns:
        A packed `RowReport`; a failure of the run is in it.

    Raises:
        GrantUsedError: another worker has begun with this grant.
        Exception: the worker lacks something that is needed to unpickle the ensemble.
    """
    asked: RowRequest = unpack(request)
    if asked.grant is not None:
        _claim(asked.run_id)
    return pack(release_texts(_run(ensemble, asked)))


def _run(ensemble: bytes, asked: RowRequest) -> RowReport:
    setting = RunSettings(only=asked.only, is_row=True)
    try:
        definition, prepared = _prepare(ensemble, asked.only)
        spec = replace(prepared.make_spec(asked.values), budget=asked.grant)
        source = make_source(setting)
    except EnsembleError as error:
        return RowReport(status=RunStatus.FAILED, error=error)
    handle = RunHandle(definition, spec, source, SystemClock(), asked.run_id, setting)
    handle.begin()
    try:
        output = handle.result()
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


def _claim(grant: str) -> None:
    """Mark a grant as used; it is good for one start. Dask resubmits a task by itself if its worker dies.

    Raises:
        GrantUsedError: it has been used.
    """
    if "distributed" not in sys.modules:
        return
    distributed: Any = sys.modules["distributed"]

    try:
        client = distributed.get_client()
    except ValueError:  # no worker of Dask
        return
    mark = distributed.Event(f"ensemble-grant-{grant}", client=client)
    if mark.is_set():
        raise GrantUsedError("The worker that had this row is gone, with the grant that it had for it.")
    mark.set()
