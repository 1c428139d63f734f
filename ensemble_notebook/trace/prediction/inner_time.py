"""How long one piece of work would take, computed from the spans inside it.

Inside a task, each span begins once the spans that had ended before it have ended, after the same pause. So an
unchanged scenario gives the measured times, and shortening a span never makes the task longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ensemble_notebook.trace.folding.milestones import is_linked, is_startup
from ensemble_notebook.trace.prediction.scenario import BACKOFF, NO_TIME, Scenario
from ensemble_notebook.trace.spans.span import ActiveInterval, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind


class InnerTimes:
    """The spans of a run, by the span that they are inside.

    Args:
        spans: of a run that has ended.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        inside: defaultdict[str | None, list[Span]] = defaultdict(list)
        for span in spans:
            if span.start_ms is not None and span.end_ms is not None and not is_linked(span) and not is_startup(span):
                inside[span.enclosing_id].append(span)
        self._inside: Mapping[str | None, Sequence[Span]] = inside

    def predict_ms(self, interval: ActiveInterval, scenario: Scenario) -> float:
        """How long this part of a task or review would take, in milliseconds."""
        span, seq, start_ms, end_seq, end_ms = interval
        if end_ms is None or end_seq is None:
            return 0.0
        children = [each for each in self._inside.get(span.span_id, ()) if seq <= each.seq <= end_seq]
        pace, around = 1.0, span.parent
        while around is not None:
            pace, around = pace * scenario.get_task_factor(around), around.parent
        return self._predict(span, start_ms, end_ms, children, pace, scenario)

    def _predict(
        self, span: Span, start_ms: float, end_ms: float, children: Sequence[Span], pace: float, scenario: Scenario
    ) -> float:
        """The same for any span. Everything in it is `pace` times as fast, because of the spans around it."""
        pace *= scenario.get_task_factor(span)
        own_pace = NO_TIME if scenario.drops(span) else pace * scenario.get_own_factor(span)
        in_order = sorted(children, key=lambda each: each.seq)
        by_end = sorted(children, key=lambda each: each.end_seq or 0)
        ends: dict[str, float] = {}
        over = 0
        released_ms, new_released_ms, backoff_ms = start_ms, 0.0, 0.0
        latest_ms, new_latest_ms = start_ms, 0.0
        for child in in_order:
            while over < len(by_end) and (by_end[over].end_seq or 0) < child.seq:
                ended = by_end[over]
                released_ms = max(released_ms, min(ended.end_ms or 0.0, end_ms))
                new_released_ms = max(new_released_ms, ends[ended.span_id])
                backoff_ms = ended.backoff_ms or 0.0 if ended.kind is SpanKind.ATTEMPT else 0.0
                over += 1
            child_start_ms = min(child.start_ms or 0.0, end_ms)
            child_end_ms = min(child.end_ms or 0.0, end_ms)
            pause_ms = max(0.0, child_start_ms - released_ms)
            waited_ms = min(pause_ms, backoff_ms)
            new_pause_ms = (pause_ms - waited_ms) / own_pace
            new_pause_ms += 0.0 if BACKOFF in scenario.dropped else waited_ms / pace
            below = self._inside.get(child.span_id, ())
            length_ms = self._predict(child, child_start_ms, child_end_ms, below, pace, scenario)
            ends[child.span_id] = new_released_ms + new_pause_ms + length_ms
            latest_ms, new_latest_ms = max(latest_ms, child_end_ms), max(new_latest_ms, ends[child.span_id])
        return new_latest_ms + max(0.0, end_ms - latest_ms) / own_pace
