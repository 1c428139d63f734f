"""The rows that a map has in common with an earlier one: what tells them apart (V12), which `resume` takes over (E72).

Also what they took there, and calls in them of no known end (C33).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from ensemble_notebook.domain.attachments import find_mark
from ensemble_notebook.domain.definitions.enums import CaptureMode, SpanStatus
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.domain.planning.map_design import (
    NOT_READ,
    EarlierRow,
    KnownRows,
    PlannedRow,
    RowIdentity,
    RowPairs,
    RowSpending,
    digest_id,
    pair_rows,
    write_value,
)
from ensemble_notebook.domain.value_text import is_equal
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.earlier_runs.resuming import ResumedRows, ResumedRun, refuse_to_repeat
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.rows import Row, Rows, find_id_column, name_runs, to_kept_value
from ensemble_notebook.ensemble.run_settings import RunSettings, resolve_capture_mode
from ensemble_notebook.errors import StoreError
from ensemble_notebook.evaluation.scored_runs import group_by_run
from ensemble_notebook.trace.analysis.map_rows import get_design, list_map_rows
from ensemble_notebook.trace.analysis.map_rows import list_known_rows as list_planned_rows
from ensemble_notebook.trace.analysis.row_table import NOTHING_SPENT
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_store import RunStore


def identify_rows(
    rows: Rows, readers: Iterable[Any], *, id_column: str | None, expected: str | None, hides_values: bool
) -> RowIdentity:
    """What tells the rows of a map apart.

    Args:
        rows: all of them.
        readers: the variants, each with its `name`, the `variables` of its texts, and whether it `has_handlers`, which
            are given all columns.
        id_column: that a person has named; None: the usual one.
        expected: the column of what a row should come to; None where there is none.
        hides_values: whether the trace keeps no values of them.

    Raises:
        ValidationError: an id stands twice, or its column is not there.
    """
    column = find_id_column(rows, id_column)
    read: set[str] = set()
    for each in readers:
        read |= {*each.variables}
        read |= {*rows.columns} - NOT_READ - {expected} if each.has_handlers else set()
    digests: dict[str, str | None] = {}
    if hides_values and column is not None:
        digests = {each.name: digest_id(_write(each.values.get(column))) for each in rows.rows}
    return RowIdentity(
        id=column,
        read=tuple(each for each in rows.columns if each in read),
        digests=digests,
        keeps_values=not hides_values,
    )


def list_known_rows(rows: Rows, identity: RowIdentity) -> KnownRows:
    """The rows of a map that is yet to run, to be paired with those of another one."""
    return KnownRows(
        names=[each.name for each in rows.rows],
        values=[{name: _write(value) for name, value in each.values.items()} for each in rows.rows],
        columns=rows.columns,
        identity=identity,
    )


def find_done(
    runs: Iterable[Any], known: KnownRows, resumed: MapResult, expected: str | None
) -> Iterator[tuple[RowResult, list[ScoreRecord]]]:
    """The rows that an earlier result has done with the same inputs, as rows of this map, each with its scores.

    Where only what a row should come to is another, judges have been told otherwise, and their scores are left out.
    """
    partners = pair_here(resumed._list_known_rows(), known).partners
    done = {get_place(each): each for each in resumed if each.is_done}
    scores = group_by_run(resumed.score_records)
    for run in runs:
        earlier = done.get((run.variant.name, partners.get(run.row.name), run.repeat or 1))
        inputs = run.variant.get_inputs(run.row)
        if earlier is None:
            continue
        now, before = _mark_files(inputs), _mark_files(earlier.inputs, earlier.output)
        if not _reads_the_same(run.variant, now, before, NOT_READ | {expected or ""}):
            continue
        judged = scores.get(earlier.run_id or "", [])
        if not is_equal(dict(now), dict(before)):
            judged = [each for each in judged if each.kind is not ScoreKind.JUDGE]
        kept = replace(
            earlier,
            index=run.row.label,
            inputs=inputs,
            name=run.name,
            row=run.row.name,
            _spending=resumed._get_spending(earlier),
            repeat=run.repeat,
        )
        yield kept, judged


def _mark_files(inputs: Mapping[str, Any], output: EnsembleOutput | None = None) -> dict[str, Any]:
    """The inputs with marks for pictures and PDFs, as they are now, or were in the run of this output."""
    marked = {name: find_mark(value) for name, value in inputs.items()}
    then = marked if output is None else output.inputs
    return {name: value if marked[name] is None else then.get(name) for name, value in inputs.items()}


def pair_here(earlier: KnownRows, later: KnownRows) -> RowPairs:
    """Pair rows by values that no trace keeps, too: they are here as long as a result lives, or are like none."""
    here = [replace(each, identity=replace(each.identity, keeps_values=True)) for each in (earlier, later)]
    return pair_rows(*here)


def get_place(row: RowResult | PlannedRow) -> tuple[str | None, str | None, int]:
    """The variant, the row and the repeat."""
    return row.variant, row.row, row.repeat or 1


def _reads_the_same(
    reader: Any, inputs: Mapping[str, Any], earlier: Mapping[str, Any], unread: Collection[str]
) -> bool:
    """Whether a run would read what an earlier one was given."""
    now, before = ({name for name in side if name not in unread} for side in (inputs, earlier))
    named = {*reader.variables} & inputs.keys()  # a text may name what a row should come to
    if not named <= earlier.keys() or (reader.has_handlers and now != before):
        return False
    names = named | (now & before)
    return is_equal({each: inputs[each] for each in names}, {each: earlier[each] for each in names})


def list_remaining(
    variants: Sequence[str | None],
    rows: Rows,
    repeats: int | None,
    id_column: str | None,
    earlier: Iterable[ExecutionTrace],
) -> list[list[Row]]:
    """List the rows that an earlier map has not done with the same inputs, for each variant.

    Args:
        variants: their names.
        rows: all of them.
        repeats: how often each runs; None: once.
        id_column: as for `identify_rows`.
        earlier: the map, and those that it went on with itself.
    """
    here = list_known_rows(rows, RowIdentity(id=find_id_column(rows, id_column)))
    done = {each for trace in earlier for each in _list_ended(trace, here)}
    remaining: list[list[Row]] = [[] for _ in variants]
    for _, place, row, repeat in name_runs(variants, rows, repeats):
        if (variants[place], row.name, repeat or 1) not in done:
            remaining[place].append(row)
    return remaining


def _list_ended(trace: ExecutionTrace, rows: KnownRows) -> Iterator[tuple[str | None, str, int]]:
    """The variant, the row and the repeat of what a map has done, by the names that these rows have."""
    spans = (each for each in trace._fold.spans.values() if each.is_planned and each.nested_in is None)
    ended = {each.name for each in spans if each.status is SpanStatus.OK}
    design = get_design(trace._fold)
    pairs = pair_rows(list_planned_rows(design, keeps_values=trace.capture_mode is not CaptureMode.METADATA), rows)
    same = {theirs: mine for mine, theirs in pairs.partners.items() if mine not in pairs.changed}
    for each in design.rows:
        if each.name in ended and each.row in same:
            yield each.variant, same[each.row], each.repeat or 1


def describe_done(row: RowResult, resumed: MapResult | None) -> EarlierRow:
    """A row that was taken over, for the trace of the map that did so."""
    spending = row._spending or NOTHING_SPENT
    return EarlierRow(
        own_run_id=row.run_id,
        map_run_id=None if resumed is None or resumed._last_output is None else resumed._last_output.run_id,
        status=row.status,
        output=None if row.output is None else row.output.get_final_output(),
        **{each.name: getattr(spending, each.name) for each in fields(RowSpending)},
    )


def _write(value: Any) -> str | None:
    return write_value(to_kept_value(value))


def find_answers_of(earlier: MapResult, settings: RunSettings, capture_mode: CaptureMode | str | None) -> str | None:
    """The id of the map that gave a result, where what was answered in it can be had from the store; else None.

    Args:
        earlier: the result.
        settings: of the map that goes on with it.
        capture_mode: of its ensemble, as declared.
    """
    if settings.record is not None or settings.replay is not None or find_parent_run() is not None:
        return None
    if resolve_capture_mode(capture_mode) is CaptureMode.METADATA or earlier._last_output is None:
        return None
    store, run_id = RunStore.find(), earlier._last_output.run_id
    with suppress(StoreError):
        return run_id if store is not None and store.find_run(run_id).facts.keeps_texts else None
    return None


@dataclass(frozen=True, slots=True)
class RowBefore:
    """A row in the map that is gone on with: its name there, whether it was done, and what it took by then."""

    name: str
    is_done: bool
    spent: RowSpending


def list_rows_before(
    runs: Iterable[Any], known: KnownRows, earlier: MapResult | ExecutionTrace, currency: str | None
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
        rows, own = earlier._list_known_rows(), earlier.metrics.currency
        before = {get_place(r): (r.name, r.is_done, earlier._get_spending(r)) for r in earlier if r.run_id is not None}
    else:
        rows, own = list_planned_rows(get_design(earlier._fold), keeps_values=True), earlier._fold.currency
        listed = [each for each in list_map_rows(earlier._fold, earlier.events) if each.run_id is not None]
        before = {get_place(each.planned): (each.planned.name, each.is_done, each.spending) for each in listed}
    pairs = pair_here(rows, known)
    unknown: dict[str, Any] = {} if own == currency else {"cost": None, "cost_complete": False}
    found = {}
    for run in runs:
        partner = None if run.row.name in pairs.changed else pairs.partners.get(run.row.name)
        if (there := before.get((run.variant.name, partner, run.repeat or 1))) is not None:
            name, is_done, spending = there
            found[run.name] = RowBefore(name, is_done, replace(spending, **unknown))
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
    if earlier is not None and (output := earlier._last_output) is not None:
        calls = [each for each in _list_unknown_calls(output.trace, unfinished) if each[0] not in redo]
        refuse_to_repeat(output.run_id, calls, "what was answered by then is not at hand here to ask about them")
    return None


def _list_unknown_calls(trace: ExecutionTrace, rows: Collection[str]) -> Iterator[tuple[str, str]]:
    """The tool and the arguments of each call in these rows of a map of which its trace tells no end."""
    spans = trace._fold.spans
    for call in spans.values():
        if call.kind is not SpanKind.TOOL or call.status is not SpanStatus.INTERRUPTED:
            continue
        around = call
        while not around.is_own_task and around.parent_id in spans:
            around = spans[around.parent_id]
        if around.name in rows:
            yield call.tool or call.name, call.input or ""
