"""The table of the rows of a map: how each ended, what it gave and what it took, beside the index that it came with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.tables.column_parts import Dtype
from ensemble_notebook.trace.tables.table import Column, Table

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd

    RowFrame: TypeAlias = pd.DataFrame
    """The type of the table, for layers that know no pandas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpending:
    """What a row took.

    Attributes:
        input_tokens, output_tokens, cost: the known part; None where nothing is known.
        duration_ms: the time that was its own (E50); None for what never ran.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Any = None
    duration_ms: float | None = None


NOTHING_SPENT: Final = RowSpending()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    """One row of the table.

    Attributes:
        status: how its run ended; ``"skipped"`` where it has none.
        raw: the text of the final task; None where there is none.
        fields: of a typed output, by name.
        error: what it failed with, or why it was skipped; None where it was done.
        run_id: of its own run.
        spending: what that took.
    """

    status: str
    raw: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    run_id: str | None = None
    spending: RowSpending = NOTHING_SPENT


_STATUS: Final = Column("status", "category", "how its run ended; skipped where it has none", is_nullable=False)
_RAW: Final = Column("raw", "string", "text of the final task")
_LAST: Final = (
    Column("error", "string", "what it failed with, or why it was skipped"),
    Column("input_tokens", "Int64", "cached ones included; known part", "spending.input_tokens"),
    Column("output_tokens", "Int64", "reasoning ones included; known part", "spending.output_tokens"),
    Column("cost", "Float64", "known part, in currency", "spending.cost"),
    Column("duration_ms", "Float64", "the time that was its own", "spending.duration_ms"),
    Column("run_id", "string", "of its own run, as in the trace"),
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


def sum_spending(fold: TraceFold, tasks: Collection[str]) -> dict[str, RowSpending]:
    """What each of these tasks of a run took, by name."""
    with fold.lock:
        spans = [each for each in fold.spans.values() if each.is_own_task and each.name in tasks]
        return {each.name: _read_spending(each) for each in spans}


def _read_spending(span: Span) -> RowSpending:
    totals = span.totals
    if span.start_ms is None or totals is None:
        return NOTHING_SPENT
    return RowSpending(
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cost=totals.cost,
        duration_ms=span.own_ms,
    )


def make_row_frame(
    records: Sequence[RowRecord],
    index: Any,
    fields: Mapping[str, Any] = NO_FIELDS,
    *,
    variants: Sequence[str | None] | None = None,
    scores: Sequence[Any] | None = None,
) -> RowFrame:
    """Make the frame of these rows.

    Args:
        records: in order.
        index: of the frame; None: numbers from 0.
        fields: of the typed output, which stand in place of its text, each with its JSON schema. One that is called as
            another column is has ``output_`` before its name.
        variants: of each record, for the first level of the index; all rows of one stand together.
        scores: of each record: a number, or numbers by name, which become columns ``score_NAME``.
    """
    made = ROWS.to_frame(records)
    place = list(made.columns).index(_RAW.name)
    if fields:
        made = made.drop(columns=_RAW.name)
        for number, (name, schema) in enumerate(fields.items()):
            column = f"output_{name}" if name in _OWN_NAMES else name
            made.insert(place + number, column, _make_values([each.fields.get(name) for each in records], schema))
        place += len(fields) - 1
    if scores is not None:
        for number, (column, values) in enumerate(_list_scores(scores).items()):
            made.insert(place + 1 + number, column, _make_values(values, _NUMBER), allow_duplicates=True)
    if variants is not None:
        made.index = _make_variant_index(variants, index)
    elif index is not None:
        made.index = index
    return made


def _list_scores(scores: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns of the scores: one, or one for each name."""
    names = dict.fromkeys(name for each in scores if isinstance(each, Mapping) for name in each)
    if not names:
        return {"score": list(scores)}
    return {
        f"score_{name}": [each.get(name) if isinstance(each, Mapping) else None for each in scores] for name in names
    }


def _make_variant_index(variants: Sequence[str | None], index: Any) -> Any:
    """The variants as the first level, before those of the rows; alone, where there is one row without an index."""
    import pandas as pd

    rows = len(variants) // len(set(variants)) if variants else 0
    if index is None and rows == 1:
        return pd.Index(list(variants), name="variant")
    own = pd.RangeIndex(rows, name="row") if index is None else index
    levels = [own.get_level_values(level) for level in range(own.nlevels)]
    repeated = [level.append([level] * (len(set(variants)) - 1)) for level in levels]
    return pd.MultiIndex.from_arrays([list(variants), *repeated], names=["variant", *own.names])


def _make_values(values: list[Any], schema: Any) -> Any:
    """The values of a field; of the dtype that its schema tells, where all of them are of that."""
    import pandas as pd

    kinds = [each.get("type") for each in (schema, *schema.get("anyOf", ())) if isinstance(each, Mapping)]
    dtypes: set[Dtype] = {_DTYPES.get(each, "object") for each in kinds if each is not None and each != "null"}
    try:
        dtype = dtypes.pop() if len(dtypes) == 1 else "object"
        known = [None if each is None else float(each) for each in values] if dtype == "Float64" else values
        return pd.array(known, dtype=dtype)
    except (TypeError, ValueError):  # an object of the user's own that is as good as a text
        return pd.Series(values, dtype=object).array
