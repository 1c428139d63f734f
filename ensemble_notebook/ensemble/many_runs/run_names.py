"""The names of the runs of a map, by which traces, results and a map that goes on know them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.outputs.secrets import mask_named
from ensemble_notebook.domain.value_text import is_table
from ensemble_notebook.ensemble.many_runs.rows import Row, Rows
from ensemble_notebook.trace.execution_trace import ExecutionTrace

_SHOWN_VALUE: Final = 60
_SHOWN_ROW: Final = 200


def name_runs(
    variants: Sequence[str | None], rows: Rows, *, hides_labels: bool = False
) -> Iterator[tuple[str, int, Row]]:
    """Name each row under each variant.

    Args:
        variants: their names; None: of a map without variants.
        rows: all of them.
        hides_labels: whether variants are named by position, because their names are texts that are not kept (T6a).

    Returns:
        The name, which is unique in the map, the position of the variant, and the row; in order.
    """
    taken = set()
    for place, variant in enumerate(variants):
        prefix = f"variant {place}" if hides_labels and variant is not None else variant
        for row in rows.rows:
            name = "/".join(each for each in (prefix, row.name) if each)
            while name in taken:  # what is "a/b" and "c" together, may be "a" and "b/c"
                name += "'"
            taken.add(name)
            yield name, place, row


def list_remaining(variants: Sequence[str | None], rows: Rows, earlier: Iterable[ExecutionTrace]) -> list[list[Row]]:
    """List the rows that an earlier map has not done, for each variant. A row is the same by its name and description.

    Args:
        variants: their names.
        rows: all of them.
        earlier: the map, and those that it went on with itself.
    """
    done = {
        (span.name, span.description)
        for trace in earlier
        for span in trace.fold.spans.values()
        if span.is_planned and span.nested_in is None and span.status is SpanStatus.OK
    }
    remaining: list[list[Row]] = [[] for _ in variants]
    for name, place, row in name_runs(variants, rows):
        if (name, describe_row(row) or name) not in done:
            remaining[place].append(row)
    return remaining


def describe_row(row: Row) -> str:
    """The row in a few words, for views."""
    parts = (f"{name}: {mask_named(name, _shorten(value))}" for name, value in row.values.items())
    text = "; ".join(parts)
    return text if len(text) <= _SHOWN_ROW else f"{text[:_SHOWN_ROW]}..."


def _shorten(value: Any) -> str:
    if is_table(value):
        return f"a table of {len(value)} rows"
    try:
        text = "" if value is None else " ".join(str(value)[: 2 * _SHOWN_VALUE].split())
    except Exception:  # noqa: BLE001 - it is anybody's `__str__`
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}..."
