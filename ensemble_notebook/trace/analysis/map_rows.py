"""The rows of a map as its events tell them: what each was given, what came of it, and their table (V10)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import DONE, CaptureMode, RunStatus, SpanStatus
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.map_design import (
    NOT_NEEDED,
    SETTLED,
    KnownRows,
    MapDesign,
    PlannedRow,
    RowIdentity,
    RowSpending,
    make_row_keys,
    write_value,
)
from ensemble_notebook.errors import BudgetExceededError, TaskExecutionError, find_origin
from ensemble_notebook.trace.analysis.row_table import (
    NOTHING_SPENT,
    RowFailure,
    find_free_name,
    make_input_values,
    make_spending_columns,
    sum_spending,
)
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.folding.event_handlers import EventFold, on
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.shared_columns import HTTP_STATUS, arrange
from ensemble_notebook.trace.tables.table import Column, Table, make_known

if TYPE_CHECKING:
    import pandas as pd

_NO_TURN: Final = "the map ended before its turn"
_TEXT: Final = ""
"""The name of an output that has no fields."""


@dataclass(slots=True, kw_only=True)
class MapRow(RowFailure):
    """One run of a row of a map.

    Attributes:
        planned: what it was given.
        map_run_id: of the map.
        status: a `RunStatus` value; ``"skipped"`` where it has no run, ``"pending"`` where that may still come.
        run_id: of its own run; None where it has none.
        error: what it failed with; None where it did not.
        reason: why it was skipped.
        outputs: of the tasks of its run that were completed, by name, in order; each with those of its items.
        spending: what it took; of a row that was taken over, then.
        is_left: nobody could be asked in it, so it is not done.
    """

    planned: PlannedRow
    map_run_id: str
    status: str
    run_id: str | None = None
    error: BaseException | None = None
    reason: str = ""
    outputs: dict[str, TaskOutput] = field(default_factory=dict)
    spending: RowSpending = NOTHING_SPENT
    is_left: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it is completed."""
        return self.status in DONE and not self.is_left

    @property
    def final(self) -> TaskOutput | None:
        """The output of its final task; None where it is not completed."""
        return [*self.outputs.values()][-1] if self.outputs and self.is_done else None

    @property
    def is_reused(self) -> bool:
        """Whether nothing of it was run in this map."""
        if self.planned.earlier is not None:
            return True
        parts = [part for each in self.outputs.values() for part in each.item_outputs or (each,)]
        return self.is_done and bool(parts) and all(each.reused for each in parts)


def get_design(fold: TraceFold) -> MapDesign:
    """The design of a map; of one in a file of an older version, what its tasks are called."""
    plan = fold.plan
    if plan is None or not fold.task_noun.is_run:
        return MapDesign(rows=())
    return plan.design or MapDesign(rows=tuple(PlannedRow(name=each.name, row=each.name) for each in plan.tasks))


def list_map_rows(fold: TraceFold, events: Iterable[ev.Event]) -> list[MapRow]:
    """The rows of a map, in order, as far as it has come; none of another run.

    Args:
        fold: of these events.
        events: of the whole run.
    """
    with fold.lock:
        design = get_design(fold)
        if not design.rows:
            return []
        reader = _RowReader(fold, design)
        for event in events:
            reader.take_in(event)
        return reader.finish()


class _RowReader(EventFold):
    """Reads what became of each row from the events of the map."""

    def __init__(self, fold: TraceFold, design: MapDesign) -> None:
        self._fold = fold
        pending = SpanStatus.PENDING if fold.status is RunStatus.RUNNING else SpanStatus.SKIPPED
        self._rows = {
            each.name: MapRow(planned=each, map_run_id=fold.run_id, status=pending.value) for each in design.rows
        }
        self._spans = {each.span_id: each.name for each in fold.spans.values() if each.is_own_task}
        self._items: dict[str, dict[str, TaskOutput]] = {}

    def _find_row(self, span_id: str | None) -> MapRow | None:
        return self._rows.get(self._spans.get(span_id or "", ""))

    @on(ev.NestedRunStarted)
    def _start(self, event: ev.NestedRunStarted) -> None:
        if (row := self._find_row(event.parent_id)) is not None:
            row.run_id, row.status = event.nested_run_id, RunStatus.RUNNING.value

    @on(ev.NestedRunEnded)
    def _end(self, event: ev.NestedRunEnded) -> None:
        if (row := self._find_row(event.parent_id)) is not None:
            row.status, row.error = (event.run_status or RunStatus.INTERRUPTED).value, event.error

    @on(ev.TaskFailed)
    def _fail(self, event: ev.TaskFailed) -> None:
        """The row has failed: its error says which task it was; that of its run, which came before, is the cause."""
        row = self._find_row(event.span_id)
        if row is not None and row.run_id is None:
            row.status = (RunStatus.FAILED if event.status is SpanStatus.ERROR else RunStatus.INTERRUPTED).value
        if row is not None and event.status is SpanStatus.ERROR:
            row.error = _join_errors(event.error, row.error)

    @on(ev.TaskSkipped)
    def _skip(self, event: ev.TaskSkipped) -> None:
        """The row never ran, or did not end: the budget was used up, or nobody could be asked."""
        if (row := self._find_row(event.span_id)) is None:
            return
        if row.run_id is None:
            row.reason = event.reason
            row.status = SETTLED if event.reason == NOT_NEEDED else row.status
        elif row.status != RunStatus.BUDGET_EXCEEDED:
            row.is_left = True
        elif self._fold.budget is not None:
            limit = next((each for each in self._fold.budget.limits if each in event.reason), "")
            row.error = BudgetExceededError(event.reason, budget=self._fold.budget, limit=limit)

    @on(ev.TaskCompleted, ev.TaskReused)
    def _add_output(self, event: ev.TaskCompleted) -> None:
        span, output = self._fold.spans.get(event.span_id), event.output
        if span is None or span.row is None or span.parent is None:
            return
        if span.item_of is not None:
            self._items.setdefault(span.parent.span_id, {})[span.name] = output
        elif span.parent.kind in (SpanKind.NESTED, SpanKind.PHASE) and (row := self._rows.get(span.row)) is not None:
            if (items := self._items.get(span.span_id)) is not None:
                output = replace(output, item_outputs=tuple(items[name] for name in sorted(items, key=_get_place)))
            row.outputs.pop(span.name, None)  # one that was sent back is done again, and comes last
            row.outputs[span.name] = output

    def finish(self) -> list[MapRow]:
        spent = sum_spending(self._fold, self._rows.keys())
        finals = {each.name: each.output for each in self._fold.spans.values() if each.is_own_task}
        for name, row in self._rows.items():
            row.spending = spent.get(name, NOTHING_SPENT)
            if row.status == RunStatus.RUNNING and self._fold.status is not RunStatus.RUNNING:
                row.status = RunStatus.INTERRUPTED.value
            if row.status == SpanStatus.SKIPPED and not row.reason:
                row.reason = _NO_TURN
            if row.is_done:  # the text of the row is that of its final task, which is to be the last one
                texts = ((each, clean_text(output.raw)) for each, output in reversed(row.outputs.items()))
                final = next((each for each, text in texts if text == finals.get(name)), None)
                row.outputs |= {} if final is None else {final: row.outputs.pop(final)}
            if (earlier := row.planned.earlier) is not None:
                row.status, row.run_id, row.reason = earlier.status, earlier.own_run_id, ""
                row.outputs = {} if earlier.output is None else {earlier.output.name: earlier.output}
                row.spending = RowSpending(**{each.name: getattr(earlier, each.name) for each in fields(RowSpending)})
        return [*self._rows.values()]


def _join_errors(error: BaseException, cause: BaseException | None) -> BaseException:
    """The error of a row, with that of its run as the cause, where a file has told of both."""
    if isinstance(error, TaskExecutionError) or type(error).__name__ not in _TASK_ERRORS or cause is None:
        return error
    made = TaskExecutionError(str(error), task_description="", agent_role="")
    made.__cause__ = cause
    vars(made)["origin"] = find_origin(error)
    return made


_TASK_ERRORS: Final = frozenset({"TaskExecutionError", "PhaseExecutionError", "ParallelExecutionError"})


def _get_place(name: str) -> int:
    """The place of an item, from its name: ``find[3]``."""
    found = re.search(r"\[(\d+)\]$", name)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledRow:
    """A row of the table.

    Attributes:
        row: what it is of.
        row_key: as `make_row_keys` has it.
        inputs, outputs: as JSON has them, by name; the text of an output without fields has an empty name.
        currency: of its cost.
    """

    row: MapRow
    row_key: str | None
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    currency: str | None


def _spread(prefix: str, meaning: str, value: Any = None) -> Column:
    """What stands for many columns, which `spread_columns` puts in its place."""
    return Column(f"{prefix}_NAME", "object", meaning, value or (lambda _: None))


_OWN: Final = arrange(
    (
        make_known("map_run_id", "string", "of the map", "row.map_run_id"),
        Column(
            "run_id",
            "string",
            "of the row's own run; in `spans` of the map, that run is the span of this id",
            "row.run_id",
        ),
        Column("variant", "category", "that it ran under", "row.planned.variant"),
        Column("row", "category", "label of the row, as the map calls it", lambda each: each.row.planned.row or None),
        Column(
            "row_key",
            "string",
            "the same for the same row of another map of the same columns, wherever it stands: of its id, else "
            "of what its run read, numbered where rows are equal; NA where nothing of it is kept",
        ),
        Column("repeat", "Int64", "number of the repeat, from 1", "row.planned.repeat"),
        make_known("status", "category", "how its run ended; skipped where it has none", "row.status"),
        Column("error_type", "category", "class of what it failed with", "row.error_type"),
        Column("error", "string", "what it failed with, or why it was skipped", "row.error_text"),
        replace(HTTP_STATUS, value="row.http_status"),
        Column("currency", "category", "of the cost"),
        *make_spending_columns("row.spending"),
        make_known("reused", "boolean", "an earlier map or run has done it", "row.is_reused"),
    )
)
MAP_ROWS: Final = Table(
    "run of a row of a map, in the order of the rows; none of other runs",
    None,
    (
        *_OWN,
        _spread("input", "what it was given: a column for each input, with its name", "inputs"),
        _spread(
            "output", "what came of it: a column for each field of a typed output, else `output`, the text", "outputs"
        ),
        _spread("score", "its scores: a column for each, with its name"),
    ),
)
_SPREAD: Final = ("input_NAME", "output_NAME", "score_NAME")


def list_tabled_rows(fold: TraceFold, events: Iterable[ev.Event]) -> list[TabledRow]:
    """The rows of a map for its table; none of another run."""
    design, keeps_texts = get_design(fold), fold.capture_mode is not CaptureMode.METADATA
    keys = make_row_keys(list_known_rows(design, keeps_values=keeps_texts))
    return [
        TabledRow(
            row=each,
            row_key=keys[each.planned.row],
            inputs=to_plain(each.planned.inputs) if keeps_texts else dict.fromkeys(each.planned.inputs),
            outputs=_read_outputs(each, design) if keeps_texts else {_TEXT: None},
            currency=None if each.spending.cost is None else fold.currency,
        )
        for each in list_map_rows(fold, events)
    ]


def list_known_rows(design: MapDesign, *, keeps_values: bool) -> KnownRows:
    """What tells the rows of a map apart.

    Args:
        design: of the map.
        keeps_values: whether the values of the rows are kept.
    """
    firsts: dict[str, PlannedRow] = {}
    for each in design.rows:
        firsts.setdefault(each.row, each)
    return KnownRows(
        names=[*firsts],
        values=[{name: write_value(value) for name, value in each.inputs.items()} for each in firsts.values()],
        columns=design.inputs,
        identity=RowIdentity(
            id=design.id,
            read=design.read,
            digests={name: each.id_digest for name, each in firsts.items()},
            keeps_values=keeps_values,
        ),
    )


def _read_outputs(row: MapRow, design: MapDesign) -> Mapping[str, Any]:
    if not design.fields:
        return {_TEXT: None if row.final is None else clean_text(row.final.raw)}
    plain = None if row.final is None else to_plain(row.final.parsed_output)
    values = plain if isinstance(plain, Mapping) else {}
    return {name: values.get(name) for name in design.fields}


def spread_columns(frame: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """The table with a column for each input, output and score, in place of the one that stands for them.

    Args:
        frame: of `MAP_ROWS`, of one map or many.
        scores: of the same runs, as `SCORES` has them.
    """
    import pandas as pd

    columns: dict[str, Any] = {}
    for prefix in ("input", "output"):
        values = frame[f"{prefix}_NAME"].tolist()
        names = dict.fromkeys(name for each in values if each is not None for name in each)
        for name in names:
            column = find_free_name(f"{prefix}_{name}" if name else prefix, f"{prefix}_", {*frame.columns, *columns})
            columns[column] = make_input_values([None if each is None else each.get(name) for each in values])
    whole = scores[scores.span_id.isna() & scores.run_id.isin(frame.run_id)]
    whole = whole.drop_duplicates(["run_id", "name"], keep="last")
    for name, group in whole.groupby("name", sort=False, observed=True):
        by_run = _pick_measure(group.set_index("run_id"))
        columns[find_free_name(f"score_{name!s}", "score_", {*frame.columns, *columns})] = (
            frame.run_id.map(by_run).astype(by_run.dtype).array
        )
    return pd.concat([frame.drop(columns=[*_SPREAD]), pd.DataFrame(columns, index=frame.index)], axis=1)


def _pick_measure(scores: pd.DataFrame) -> pd.Series[Any]:
    """The values of one score: whether it passed, else numbers, else words."""
    if scores.label.notna().any():
        return scores.label.where(scores.label.notna(), scores.value.astype("string"))
    is_pass = scores.passed.notna().any() and (scores.passed.notna() | scores.value.isna()).all()
    return scores.passed if is_pass else scores.value
