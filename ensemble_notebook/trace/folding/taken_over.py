"""A row that a map took over from an earlier one (E72), as views show it: reused, with what it came to (W169)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ensemble_notebook.domain.definitions.enums import DONE, RunStatus, SpanStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED, SETTLED, PlannedRow
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.span_tree import to_ms
from ensemble_notebook.trace.spans.usage_totals import UsageTotals

_STATUS: Final[Mapping[str, SpanStatus]] = {
    **dict.fromkeys(DONE, SpanStatus.OK),
    RunStatus.FAILED: SpanStatus.ERROR,
    RunStatus.INTERRUPTED: SpanStatus.INTERRUPTED,
}
"""How its run ended; what else there is never ran, or did not come to its end."""


def make_taken_over(event: Event, row: PlannedRow, *, parent: Span | None, position: int, line: int) -> Span:
    """The row as a task of the map that is over as it begins.

    Args:
        event: that tells of the plan of the map.
        row: with what the earlier map has done of it.
        parent: the span of the map.
        position: among all that views show of the map.
        line: the number of the row there.
    """
    earlier = row.earlier
    assert earlier is not None
    status = _STATUS.get(earlier.status, SpanStatus.SKIPPED)
    is_done, at_ms = status is SpanStatus.OK, to_ms(event.offset_s)
    tokens = [each for each in (earlier.input_tokens, earlier.output_tokens) if each is not None]
    span = Span(
        span_id=earlier.own_run_id or f"{event.run_id}/{row.name}",
        run_id=event.run_id,
        parent_id=event.span_id,
        parent=parent,
        kind=SpanKind.TASK,
        name=row.name,
        task=row.name,
        position=position,
        seq=event.seq,
        depth=1,
        status=status,
        planned_row=row,
        line=line,
        totals=UsageTotals(),
        resolved_ms=at_ms,
        reuse_reason="an earlier map has done it" if is_done else None,
        error_message="It failed in an earlier map." if status is SpanStatus.ERROR else None,
        reason=NOT_NEEDED if earlier.status == SETTLED else None,
        output=None if earlier.output is None else clean_text(earlier.output.raw),
    )
    span.task_id = span.span_id
    if status is not SpanStatus.SKIPPED:
        span.start_ms = span.end_ms = at_ms
        span.start_time = span.end_time = event.time
    if is_done:
        span.reused, span.saved_cost, span.saved_ms = True, earlier.cost, earlier.duration_ms
        span.saved_tokens = sum(tokens) if tokens else None
    return span
