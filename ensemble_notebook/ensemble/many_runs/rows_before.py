"""The rows of the map that another one goes on with: what they took, and calls in them of no known end (E72, C33)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from ensemble_notebook.domain.definitions.enums import CaptureMode, SpanStatus
from ensemble_notebook.domain.planning.map_design import SpentBefore
from ensemble_notebook.domain.planning.row_pairs import KnownRows
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.earlier_runs.resuming import (
    ResumedRows,
    ResumedRun,
    find_resumable,
    refuse_to_repeat,
)
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.same_rows import RowRun, get_place, pair_here
from ensemble_notebook.ensemble.run_settings import RunSettings, resolve_capture_mode
from ensemble_notebook.trace.analysis.map_rows import get_design, list_map_rows
from ensemble_notebook.trace.analysis.map_rows import list_known_rows as list_planned_rows
from ensemble_notebook.trace.analysis.row_table import RowSpending
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span_kinds import SpanKind


def find_answers_of(earlier: MapResult, settings: RunSettings, capture_mode: CaptureMode | str | None) -> str | None:
    """The id of the map that gave a result, where what was answered in it can be had from the store; else None.

    Args:
        earlier: the result.
        settings: of the map that goes on with it.
        capture_mode: of its ensemble, as declared.
    """
    if settings.record is not None or settings.replay is not None or find_parent_run() is not None:
        return None
    if resolve_capture_mode(capture_mode) is CaptureMode.METADATA or earlier.last_output is None:
        return None
    return find_resumable(earlier.last_output.run_id)


@dataclass(frozen=True, slots=True)
class RowBefore:
    """A row in the map that is gone on with: its name there, whether it was done, and what it took by then."""

    name: str
    is_done: bool
    spent: SpentBefore


def list_rows_before(
    runs: Iterable[RowRun], known: KnownRows, earlier: MapResult | ExecutionTrace, currency: str | None
) -> dict[str, RowBefore]:
    """The same rows as far as they ran there, by their names in this map; a cost in another currency is left out.

    Args:
        runs: of this map.
        known: its rows.
        earlier: the map that it goes on with.
        currency: of this map.
    """
    before: dict[tuple[str | None, str | None, int], tuple[str, bool, RowSpending]]
    if isinstance(earlier, MapResult):
        rows, own = earlier.list_known_rows(), earlier.metrics.currency
        before = {get_place(r): (r.name, r.is_done, earlier.get_spending(r)) for r in earlier if r.run_id is not None}
    else:
        rows, own = list_planned_rows(get_design(earlier.fold), keeps_values=True), earlier.fold.currency
        listed = [each for each in list_map_rows(earlier.fold, earlier.events) if each.run_id is not None]
        before = {get_place(each.planned): (each.planned.name, each.is_done, each.spending) for each in listed}
    pairs = pair_here(rows, known)
    unknown = {} if own == currency else {"cost": None, "cost_complete": False}
    found = {}
    for run in runs:
        partner = None if run.row.name in pairs.changed else pairs.partners.get(run.row.name)
        if (there := before.get((run.variant.name, partner, run.repeat or 1))) is not None:
            name, is_done, spending = there
            spent = {each.name: getattr(spending, each.name) for each in fields(SpentBefore)}
            found[run.name] = RowBefore(name, is_done, SpentBefore(**spent | unknown))
    return found


def take_up(
    resumed: ResumedRun | None,
    earlier: MapResult | None,
    before: Mapping[str, RowBefore],
    kept: Collection[str],
    *,
    redo: Sequence[str],
    can_ask: bool,
) -> ResumedRun | None:
    """The run of a map that is gone on with, and what its rows are to this one.

    Args:
        resumed: of the store; None where that can't tell what was answered in it.
        earlier: the result whose rows are taken over; None where an id was given.
        before: its rows, by the names of these.
        kept: the names of those that are taken over.
        redo: the tools whose calls are made again without asking.
        can_ask: whether somebody can be asked in a row.

    Raises:
        ValidationError: calls of no known end would be made again, and the store can't tell what to ask about.
    """
    unfinished = {each.name for each in before.values() if not each.is_done}
    if resumed is not None:
        taken_over = {each.name for name, each in before.items() if name in kept}
        return replace(resumed, rows=ResumedRows(taken_over=taken_over, unfinished=unfinished, can_ask=can_ask))
    if earlier is not None and (output := earlier.last_output) is not None:
        calls = [each for each in _list_unknown_calls(output.trace, unfinished) if each[0] not in redo]
        refuse_to_repeat(output.run_id, calls, "what was answered by then is not at hand here to ask about them")
    return None


def _list_unknown_calls(trace: ExecutionTrace, rows: Collection[str]) -> Iterator[tuple[str, str]]:
    """The tool and the arguments of each call in these rows of a map of which its trace tells no end."""
    spans = trace.fold.spans
    for call in spans.values():
        if call.kind is not SpanKind.TOOL or call.status is not SpanStatus.INTERRUPTED:
            continue
        around = call
        while not around.is_own_task and around.parent_id in spans:
            around = spans[around.parent_id]
        if around.name in rows:
            yield call.tool or call.name, call.input or ""
