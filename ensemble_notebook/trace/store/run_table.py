"""The table of remembered runs: what each was, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.store.loaded_trace import summarize_trace
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunSummary
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with its summary, None where its events can't be read, and the known cost of all that it goes on with."""

    run: RememberedRun
    summary: RunSummary | None
    total_cost: Decimal | None = None


def _read(name: str) -> Any:
    return lambda row: None if row.summary is None else getattr(row.summary, name)


def _read_origin(name: str) -> Any:
    return lambda row: row.run.facts.origin and (getattr(row.run.facts.origin, name) or None)


REMEMBERED_RUNS: Final = Table(
    "remembered run, newest first",
    Column("run_id", "string", "unique", "run.run_id", is_nullable=False),
    (
        Column("name", "category", "of the ensemble, else of the variable that has its output", "run.facts.name"),
        Column("status", "category", "how it ended, or stands", "run.status.value"),
        Column("start_time", UTC_TIME, "when it started", "run.facts.started_at"),
        Column("tasks_done", "Int64", "tasks of the plan that completed", _read("tasks_done")),
        Column("tasks", "Int64", "tasks of the plan", _read("tasks")),
        Column("wall_ms", "Float64", "from start to end, or to its last event", _read("wall_ms")),
        Column("input_tokens", "Int64", "known part", _read("input_tokens")),
        Column("output_tokens", "Int64", "known part", _read("output_tokens")),
        Column("cost", "Float64", "known part, in currency", _read("cost")),
        Column("total_cost", "Float64", "with that of the runs that it goes on with; known part, in currency"),
        Column("currency", "category", "of the cost", _read("currency")),
        Column("inputs", "object", "dict of the template variables, as text", _read("inputs")),
        Column("notebook", "category", "file of the notebook", _read_origin("notebook")),
        Column("cell", "category", "what the notebook calls the cell", _read_origin("cell")),
        Column("resumed_from", "string", "the run that it goes on with", "run.facts.resumed_from"),
        Column("capture_mode", "category", "metadata, off, standard or full", "run.facts.capture_mode.value"),
    ),
)


def make_run_table(store: RunStore) -> pd.DataFrame:
    """The runs in a store as a frame.

    Raises:
        StoreError: the store can't be read.
    """
    return REMEMBERED_RUNS.to_frame(list_runs(store))


def list_runs(store: RunStore) -> list[ListedRun]:
    """The runs in a store with what they came to, newest first.

    A summary is made of the trace when it is first asked for, by the same fold as all else, and kept.
    """
    summaries = store.load_summaries()
    made: dict[str, RunSummary] = {}
    listed = []
    for run in store.list_runs():
        summary = summaries.get(run.run_id)
        if summary is None:
            summary = _summarize(store, run)
            if summary is not None and run.status is not RunStatus.RUNNING:
                made[run.run_id] = summary
        listed.append(ListedRun(run, summary))
    store.keep_summaries(made)
    known = {each.run.run_id: each for each in listed}
    return [replace(each, total_cost=_sum_costs(each, known)) for each in listed]


def _sum_costs(listed: ListedRun, known: Mapping[str, ListedRun]) -> Decimal | None:
    """What a run and those that it goes on with cost, as far as that is known, and in its currency."""
    costs, currency, seen = [], listed.summary and listed.summary.currency, set[str]()
    run: ListedRun | None = listed
    while run is not None and run.run.run_id not in seen:  # a file may say anything (E71)
        seen.add(run.run.run_id)
        if run.summary is not None and run.summary.cost is not None and run.summary.currency == currency:
            costs.append(run.summary.cost)
        run = known.get(run.run.facts.resumed_from or "")
    return sum(costs[1:], costs[0]) if costs else None


def _summarize(store: RunStore, run: RememberedRun) -> RunSummary | None:
    try:
        return summarize_trace(store.load_trace(run))
    except StoreError:  # it is damaged, or has not begun
        return None
