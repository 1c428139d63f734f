"""The table of the rows of a map: how each ended, what it gave and what it took, beside the index that it came with."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.json_schema import find_kind
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.domain.outputs.secrets import has_secret, mask
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED, IndexLevel, RowSpending
from ensemble_notebook.errors import TaskExecutionError, add_origin, find_http_status, summarize_error
from ensemble_notebook.trace.analysis.timeseries import OwnTime, measure_inner_runs
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.shared_columns import HTTP_STATUS
from ensemble_notebook.trace.tables.table import Column, Dtype, Table, make_known

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd

    RowFrame: TypeAlias = pd.DataFrame
    """The type of the table, for layers that know no pandas."""


NOTHING_SPENT: Final = RowSpending()


class RowFailure:
    """What tables tell of the error of a row, or of the reason for which it was skipped."""

    __slots__ = ()

    error: BaseException | None
    reason: str

    @property
    def error_text(self) -> str | None:
        """What it failed with, or why it was skipped; None where it was done."""
        if self.error is None:
            return clean_text(self.reason) or None
        return clean_text(add_origin(summarize_error(self.error), self.error))

    @property
    def error_type(self) -> str | None:
        """Class of what it failed with, not of the error that says which task it was; None where it did not fail."""
        error = self.error
        while isinstance(error, TaskExecutionError) and error.__cause__ is not None:
            error = error.__cause__
        return None if error is None else type(error).__name__

    @property
    def http_status(self) -> int | None:
        """With which a server refused it; None where none did."""
        return None if self.error is None else find_http_status(self.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord(RowFailure):
    """One row of the table.

    Attributes:
        status: how its run ended; ``"skipped"`` where it has none.
        raw: the text of the final task; None where there is none.
        fields: of a typed output, by name.
        error: what it failed with; None where it did not.
        reason: why it was skipped.
        run_id: of its own run.
        spending: what that took.
        reused: whether nothing of it was run in this map.
        inputs: its values, by name.
        scores: of its run, those that count.
    """

    status: str
    raw: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    reason: str = ""
    run_id: str | None = None
    spending: RowSpending = NOTHING_SPENT
    reused: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict)
    scores: Sequence[ScoreRecord] = ()


_TIMES: Final = {
    "duration_ms": "its run's own time, from start to end, without startups: the three that follow, together",
    "active_ms": "the part in which something was at work: a request, a tool, a handler, a guardrail or memory",
    "human_wait_ms": "nothing was at work, and a review was open",
    "idle_ms": "neither: waits for rate limits, places and threads, back-off, the engine itself",
}


def make_spending_columns(path: str) -> tuple[Column, ...]:
    """The columns of a table of rows that say what each took, read from a `RowSpending` at this path."""
    return (
        Column("input_tokens", "Int64", "cached ones included; known part", f"{path}.input_tokens"),
        Column("output_tokens", "Int64", "reasoning ones included; known part", f"{path}.output_tokens"),
        Column("cost", "Float64", "known part, in currency", f"{path}.cost"),
        *(Column(name, "Float64", meaning, f"{path}.{name}") for name, meaning in _TIMES.items()),
    )


_STATUS: Final = make_known("status", "category", "how its run ended; skipped where it has none")
_RAW: Final = Column("raw", "string", "text of the final task")
_LAST: Final = (
    Column("error", "string", "what it failed with, or why it was skipped", "error_text"),
    Column("error_type", "category", "class of what it failed with"),
    HTTP_STATUS,
    *make_spending_columns("spending"),
    Column("run_id", "string", "of its own run, as in the trace"),
    make_known("reused", "boolean", "an earlier map or run has done it: nothing of it was run"),
)

ROWS: Final = Table("row that was given, in the same order and with the same index", None, (_STATUS, _RAW, *_LAST))
_OWN_NAMES: Final = frozenset(each.name for each in ROWS.columns if each is not _RAW)


_DTYPES: Final[Mapping[str, Dtype]] = {
    "string": "string",
    "integer": "Int64",
    "number": "Float64",
    "boolean": "boolean",
}
NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})
_NUMBER: Final = {"type": "number"}
_TEXT: Final = {"type": "string"}
_SCHEMAS: Final = {
    frozenset({str}): _TEXT,
    frozenset({bool}): {"type": "boolean"},
    frozenset({int}): {"type": "integer"},
    frozenset({int, float}): _NUMBER,
}
"""By the classes that the values of an input are of."""


def sum_spending(fold: TraceFold, tasks: Collection[str]) -> dict[str, RowSpending]:
    """What each of these tasks of a run took, by name: without what scorers took to look at it."""
    with fold.lock:
        spans = {each.span_id: each for each in fold.spans.values() if each.is_own_task and each.name in tasks}
        runs = {
            each.parent_id: each
            for each in fold.spans.values()
            if each.kind is SpanKind.NESTED and each.parent_id in spans
        }
        own_ms: dict[str, float] = {}
        for row_id, run in runs.items():
            ms, row_ms = run.worked_ms, spans[row_id or ""].own_ms
            if ms is None and run.duration_ms is not None:
                # In older traces no event tells it. It is no longer than the task's own, which startups are no part of.
                ms = run.duration_ms if row_ms is None else min(run.duration_ms, row_ms)
            own_ms |= {} if ms is None else {run.span_id: ms}
        times = measure_inner_runs(fold, own_ms)
        design = None if fold.plan is None else fold.plan.design
        before = {} if design is None else {each.name: each.before for each in design.rows if each.before is not None}
        spent = {each.name: _read_spending(each, runs.get(span_id), times) for span_id, each in spans.items()}
    for name in spent.keys() & before.keys():  # in this map, and in those that it goes on with
        sums: dict[str, Any] = {}
        for each in fields(RowSpending):
            known = [got for one in (spent[name], before[name]) if (got := getattr(one, each.name)) is not None]
            sums[each.name] = sum(known[1:], known[0]) if known else None
        is_complete = spent[name].cost_complete and before[name].cost_complete
        spent[name] = RowSpending(**{**sums, "cost_complete": is_complete})
    return spent


def _read_spending(span: Span, run: Span | None, times: Mapping[str, OwnTime]) -> RowSpending:
    """What a task took: what its run did, where it has one, since whoever scores it looks at it beside that."""
    totals = span.totals if run is None or run.totals is None else run.totals
    if span.start_ms is None or totals is None or span.reason == NOT_NEEDED:
        return NOTHING_SPENT
    own = None if run is None else times.get(run.span_id)
    parts = {} if own is None else {name: getattr(own, name) for name in _TIMES}
    return RowSpending(
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cost=totals.cost,
        cost_complete=totals.cost_complete,
        **(parts if run is not None else {"duration_ms": span.own_ms}),
    )


def make_row_frame(
    records: Sequence[RowRecord],
    index: Any,
    fields: Mapping[str, Any] = NO_FIELDS,
    *,
    inputs: Sequence[str] = (),
    variants: Sequence[str | None] | None = None,
    repeats: Sequence[int | None] | None = None,
    notes: Sequence[str] = (),
) -> RowFrame:
    """Make the frame of these rows.

    Args:
        records: in order.
        index: of the frame, whose labels are masked; None: numbers from 0.
        fields: of the typed output, which stand in place of its text, each with its JSON schema. One that is called as
            another column is has ``output_`` before its name.
        inputs: names of the inputs, which are the last columns. One that is called as another column or a level of the
            index is has ``input_`` before its name.
        variants: of each record, for the first level of the index; all rows of one stand together.
        repeats: the number of each, for the last level of the index; all of one row stand together.
        notes: what is said below it where it is shown.
    """
    made, index = ROWS.to_frame(records), _mask_labels(index)
    place = list(made.columns).index(_RAW.name)
    if fields:
        made = made.drop(columns=_RAW.name)
        taken = _OWN_NAMES.union(fields)
        for number, (name, schema) in enumerate(fields.items()):
            column = find_free_name(f"output_{name}", "output_", taken) if name in _OWN_NAMES else name
            made.insert(place + number, column, _make_values([each.fields.get(name) for each in records], schema))
        place += len(fields) - 1
    for column, values in make_score_columns([each.scores for each in records], taken=made.columns).items():
        made.insert(place + 1, column, values)
        place += 1
    if variants is not None or repeats is not None:
        made.index = _make_run_index(len(records), variants, index, repeats)
    elif index is not None:
        made.index = index
    names = {*made.columns, *made.index.names}
    columns: dict[str, Any] = {}
    for name in inputs:
        columns[column := find_free_name(name, "input_", {*names, *columns})] = make_input_values(
            [each.inputs.get(name) for each in records]
        )
    if columns:
        import pandas as pd

        made = pd.concat([made, pd.DataFrame(columns, index=made.index)], axis=1)
    if not notes:
        return made
    from ensemble_notebook.trace.analysis.noted_frame import NotedFrame

    return NotedFrame.make(made, notes)


def find_free_name(name: str, prefix: str, taken: Container[str]) -> str:
    """The name of a column, with the prefix before it until no other column has it."""
    while name in taken:
        name = f"{prefix}{name}"
    return name


def make_score_columns(scores: Sequence[Sequence[ScoreRecord]], taken: Collection[str] = ()) -> dict[str, Any]:
    """The columns of scores: one for each name, then what judges cost and why scorers failed, where they did.

    Args:
        scores: of each row, those that count; of several with one name, the last one is taken.
        taken: names of other columns. A score of such a name has ``score_`` before it.
    """
    by_name: dict[str, list[ScoreRecord | None]] = {}
    for place, row in enumerate(scores):
        for each in row:
            by_name.setdefault(each.name, [None] * len(scores))[place] = each
    made = {}
    for name, found in by_name.items():
        column = find_free_name(clean_text(name), "score_", taken)
        made[column] = _make_score_values(found)
    costs = [[each.cost for each in row if each.cost is not None] for row in scores]
    if any(each.kind is ScoreKind.JUDGE for row in scores for each in row):
        made["score_cost"] = _make_values([float(sum(each)) if each else None for each in costs], _NUMBER)
    errors = [next((each.error for each in row if each.error is not None), None) for row in scores]
    if any(each is not None for each in errors):
        made["score_error"] = _make_values([each if each is None else clean_text(each) for each in errors], _TEXT)
    return made


def _make_score_values(scores: Sequence[ScoreRecord | None]) -> Any:
    """The values of one score: whether it passed, else numbers, else words."""
    measures = {each.measure for each in scores if each is not None} - {None}
    if measures == {"passed"}:
        return _make_values([None if each is None else each.passed for each in scores], {"type": "boolean"})
    if measures <= {"passed", "value"}:
        return _make_values([None if each is None else each.value for each in scores], _NUMBER)
    values = [None if each is None else each.value if each.label is None else clean_text(each.label) for each in scores]
    return _make_values(values, _TEXT if measures == {"label"} else {})


def make_index(levels: Sequence[IndexLevel], labels: Sequence[Any]) -> Any:
    """The index that rows came with; None where they had none.

    Args:
        levels: of the index.
        labels: of the rows, in order, as they were kept; a tuple each where there are several levels.
    """
    import pandas as pd

    is_fit = len(levels) == 1 or all(isinstance(each, tuple) and len(each) == len(levels) for each in labels)
    if not levels or not is_fit:  # a file may say anything (E71)
        return None
    columns = [labels] if len(levels) == 1 else [[each[place] for each in labels] for place in range(len(levels))]
    made = []
    for level, values in zip(levels, columns, strict=True):
        plain = pd.Index(values, name=level.name, tupleize_cols=False)
        try:
            made.append(plain.astype(level.dtype))
        except (TypeError, ValueError):  # a dtype that is not known here, or labels that were masked
            made.append(plain)
    return made[0] if len(made) == 1 else pd.MultiIndex.from_arrays(made, names=[each.name for each in levels])


def _mask_labels(index: Any) -> Any:
    """An index without secrets in its labels: itself where there is none."""
    import pandas as pd

    levels = [] if index is None else [index.get_level_values(level) for level in range(index.nlevels)]
    if not any(isinstance(label, str) and has_secret(label) for level in levels for label in level):
        return index
    masked = [level.map(lambda label: mask(label) if isinstance(label, str) else label) for level in levels]
    return masked[0] if len(masked) == 1 else pd.MultiIndex.from_arrays(masked, names=index.names)


def _make_run_index(
    count: int, variants: Sequence[str | None] | None, index: Any, repeats: Sequence[int | None] | None
) -> Any:
    """The labels of the rows between variants and repeats; without them, where there is one row without an index."""
    import pandas as pd

    again, forms = max((each or 1 for each in repeats or ()), default=1), len(set(variants or ("",)))
    rows = count // (again * forms)
    levels, names = [], []
    if index is not None or rows != 1:
        own = pd.RangeIndex(rows, name="row") if index is None else index
        places = [row for _ in range(forms) for row in range(rows) for _ in range(again)]
        levels, names = [own.get_level_values(level).take(places) for level in range(own.nlevels)], [*own.names]
    if variants is not None:
        levels, names = [list(variants), *levels], ["variant", *names]
    if repeats is not None:
        levels, names = [*levels, list(repeats)], [*names, "repeat"]
    return pd.Index(levels[0], name=names[0]) if len(levels) == 1 else pd.MultiIndex.from_arrays(levels, names=names)


def make_input_values(values: list[Any]) -> Any:
    """The values of an input; of the dtype that all of them fit, where there is one."""
    import pandas as pd

    kinds = frozenset(type(each) for each in values if each is not None)
    schema = next((schema for known, schema in _SCHEMAS.items() if kinds and kinds <= known), None)
    if schema is not None:
        return _make_values(values, schema)
    return pd.Series(values, dtype=object).infer_objects().array  # times, and objects of anybody


def _make_values(values: list[Any], schema: Any) -> Any:
    """The values of a field; of the dtype that its schema tells, where all of them are of that."""
    import pandas as pd

    dtype: Dtype = _DTYPES.get(find_kind(schema, {}) or "", "object")
    try:
        known = [None if each is None else _to_float(each) for each in values] if dtype == "Float64" else values
        return pd.array(known, dtype=dtype)
    except (TypeError, ValueError, OverflowError):  # an object of the user's own, or more digits than a float has
        return pd.Series(values, dtype=object).array


def _to_float(value: Any) -> float:
    """The number as a float.

    Raises:
        ValueError: that would be another number.
    """
    number = float(value)
    if number != value and value == value:  # NaN is not itself
        raise ValueError(value)
    return number
