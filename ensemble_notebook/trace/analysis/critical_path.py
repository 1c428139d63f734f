"""The longest chain as a sequence of segments: at each moment of the run, the innermost span that held it up.

Which spans are on the chain is computed in `folding.milestones`; here the time of the run is divided among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import ActiveInterval, Span
from ensemble_notebook.trace.tables.shared_columns import make_table
from ensemble_notebook.trace.tables.table import Column, make_known


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the longest chain, in milliseconds since the run started; `share` is its part of the run, 0 to 1."""

    span: Span
    start_ms: float
    end_ms: float
    share: float

    @property
    def duration_ms(self) -> float:
        """The length of the segment."""
        return self.end_ms - self.start_ms


CRITICAL_PATH: Final = make_table(
    "segment of the longest chain; together they are the run from start to end. A segment belongs to the innermost "
    "critical span: to an attempt, a tool call or a review where one made the run wait, to a model call where that "
    "backed off, to a task or the run for what lies between",
    None,
    (
        make_known("span_id", "string", "of the span", "span.span_id"),
        make_known("kind", "category", "of the span", "span.kind.value"),
        make_known("name", "category", "of the span", "span.name"),
        Column("phase", "category", "name of the phase", "span.phase"),
        Column("task", "category", "name of the task", "span.task"),
        Column("agent", "category", "role of the agent", "span.agent"),
        make_known("start_ms", "Float64", "start, since the run started"),
        make_known("duration_ms", "Float64", "length"),
        make_known("share", "Float64", "length as a part of the run"),
    ),
)


def list_segments(fold: TraceFold) -> list[Segment]:
    """The segments, in order of time; none before the run has ended."""
    run = fold.run
    if run is None or run.end_ms is None or run.start_ms is None:
        return []
    inside: defaultdict[str | None, list[ActiveInterval]] = defaultdict(list)
    in_chain = {id(interval.span) for interval in fold.chain}
    for span in fold.spans.values():
        if span.critical and id(span) not in in_chain:
            inside[span.enclosing_id] += span.active_intervals
    inside[run.span_id] = fold.chain
    wall_ms = run.end_ms - run.start_ms
    parts = (part for part in _divide(run, run.start_ms, run.end_ms, inside) if part[2] > part[1])
    return [
        Segment(span=span, start_ms=start_ms, end_ms=end_ms, share=(end_ms - start_ms) / wall_ms)
        for span, start_ms, end_ms in parts
    ]


def _divide(
    span: Span, start_ms: float, end_ms: float, inside: dict[str | None, list[ActiveInterval]]
) -> Iterator[tuple[Span, float, float]]:
    """A time, told by the critical spans inside a span, and by the span itself where there are none."""
    for each in sorted(inside.get(span.span_id, ()), key=lambda interval: interval.seq):
        child_start_ms = max(start_ms, each.start_ms)
        child_end_ms = min(end_ms, end_ms if each.end_ms is None else each.end_ms)
        if child_start_ms <= child_end_ms:
            yield span, start_ms, child_start_ms
            yield from _divide(each.span, child_start_ms, child_end_ms, inside)
            start_ms = child_end_ms
    yield span, start_ms, end_ms
