"""A comparison of two runs as lines of text: one for each phase and task, and one for the whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from ensemble_notebook.domain.wording import UNKNOWN, format_count, format_duration, format_money
from ensemble_notebook.trace.comparison.row_diffs import RowDiff, RowStatus, measure_amounts
from ensemble_notebook.trace.spans.span_kinds import SpanKind

SIGNS: Final[dict[RowStatus, str]] = {"same": "=", "changed": "≠", "added": "+", "removed": "\N{MINUS SIGN}"}
HEADS: Final = ("output", "time", "", "tokens", "", "cost", "")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A phase or task in both runs.

    Attributes:
        name: of the phase or task.
        depth: level of indentation, from 0.
        status: same, changed, added or removed.
        is_whole: whether it stands for several tasks: a phase, or the run.
        cells: one for each of `HEADS`: the values of the second run, and the differences.
    """

    name: str
    depth: int
    status: RowStatus
    is_whole: bool
    cells: tuple[str, ...]

    @property
    def sign(self) -> str:
        """The status as a character."""
        return SIGNS[self.status]


def make_diff_lines(rows: Iterable[RowDiff], currency: str) -> list[DiffLine]:
    """The lines of these rows, in order. Delegated work is part of the task that delegated it."""
    return [
        _make_line(row, currency)
        for row in rows
        if row.span.kind in (SpanKind.RUN, SpanKind.PHASE) or row.span.is_own_task
    ]


def render_diff_lines(lines: Sequence[DiffLine]) -> list[str]:
    """The lines as aligned text, below a line of headers."""
    names = [f"{line.sign} {'  ' * line.depth}{line.name}" for line in lines]
    cells = [HEADS, *(line.cells for line in lines)]
    width = max(map(len, names), default=0)
    columns = [max(len(each[place]) for each in cells) for place in range(len(HEADS))]
    texts = ["  task", *names]
    return [
        "  ".join([text.ljust(width), *(cell.rjust(size) for cell, size in zip(row, columns, strict=True))]).rstrip()
        for text, row in zip(texts, cells, strict=True)
    ]


def format_difference(value: Any, write: Callable[[Any], str]) -> str:
    r"""A difference with its sign: ``+1.2 s``, ``\N{MINUS SIGN}$0.002``, ``±0``, ``<$0.00001``; a dash if unknown."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "±0"
    told = write(abs(value))
    return told if told.startswith("<") else f"{'+' if value > 0 else SIGNS['removed']}{told}"


def format_deltas(row: RowDiff, currency: str) -> tuple[str, str, str]:
    """The differences in time, tokens and cost, each with its sign."""
    return (
        format_difference(row.delta_ms, format_duration),
        format_difference(row.delta_tokens, format_count),
        format_difference(row.delta_cost, partial(format_money, currency=currency)),
    )


def _make_line(row: RowDiff, currency: str) -> DiffLine:
    span = row.span
    is_whole = span.kind is not SpanKind.TASK
    amounts = measure_amounts(row.after)
    values = (
        format_duration(amounts.ms),
        format_count(amounts.tokens),
        format_money(amounts.cost, currency),
    )
    pairs = zip(values if row.after is not None else ("", "", ""), format_deltas(row, currency), strict=True)
    cells = ({None: "", True: "changed", False: "same"}[row.output_changed], *chain.from_iterable(pairs))
    depth = 1 if span.kind is SpanKind.TASK and span.phase is not None else 0
    return DiffLine("the whole run" if span.kind is SpanKind.RUN else span.name, depth, row.status, is_whole, cells)
