"""When something was at work in a run, and when it only waited: the run in numbers.

At work is what does something by itself: requests to models, tools, handlers, guardrails, memory. A span that contains
another one is not at work meanwhile, so that nothing counts twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.usage_totals import UsageTotals

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActivity:
    """How a run spent its time, in milliseconds; ``wall_ms = active_ms + human_wait_ms + idle_ms``.

    Attributes:
        fold: of the run. run: its span. totals: its sums.
        wall_ms: from start to end, or to the latest event.
        active_ms: something was at work.
        human_wait_ms: nothing was, and a review was open.
        idle_ms: neither: waits for rate limits, back-off, the engine itself.
        work_ms: of all that was at work; side by side adds up.
    """

    fold: TraceFold
    run: Span
    totals: UsageTotals
    wall_ms: float
    active_ms: float
    human_wait_ms: float
    idle_ms: float
    work_ms: float

    @property
    def parallelism(self) -> float | None:
        """How many were at work on average while something was; None where nothing ever was."""
        return self.work_ms / self.active_ms if self.active_ms else None

    @property
    def currency(self) -> str:
        """The currency of the cost."""
        return self.fold.currency


def measure_activity(fold: TraceFold) -> list[RunActivity]:
    """The activity of a run until it ended, or until the latest event; empty where nothing has started."""
    run = fold.run
    if run is None or run.totals is None:
        return []
    now_ms = find_latest_ms(fold)
    work: list[Interval] = []
    reviews: list[Interval] = []
    for span, times in iterate_own_times(fold, now_ms):
        if is_working(span):
            work += times
        elif span.kind is SpanKind.REVIEW:
            reviews += times
    active_ms, either_ms = _measure_covered_ms(work), _measure_covered_ms([*work, *reviews])
    return [
        RunActivity(
            fold=fold,
            run=run,
            totals=run.totals,
            wall_ms=now_ms,
            active_ms=active_ms,
            human_wait_ms=either_ms - active_ms,
            idle_ms=now_ms - either_ms,
            work_ms=sum(end_ms - start_ms for start_ms, end_ms in work),
        )
    ]


def find_latest_ms(fold: TraceFold) -> float:
    """When the latest event that is known of came, since the run started."""
    return max((span.end_ms or span.start_ms or 0.0 for span in fold.spans.values()), default=0.0)


def is_working(span: Span) -> bool:
    """True for what does something by itself."""
    return span.kind.traits.is_work or (span.kind is SpanKind.TASK and span.agent == HANDLER_ROLE)


def list_times(span: Span, now_ms: float) -> Sequence[Interval]:
    """When a span ran; what has not ended runs until now."""
    if span.start_ms is None:
        return []
    if not span.inactive_intervals:
        return [(span.start_ms, now_ms if span.end_ms is None else span.end_ms)]
    return [(each.start_ms, now_ms if each.end_ms is None else each.end_ms) for each in span.active_intervals]


def iterate_own_times(fold: TraceFold, now_ms: float) -> Iterator[tuple[Span, Sequence[Interval]]]:
    """Each span with the times in which nothing ran inside it."""
    inside: defaultdict[str | None, list[Interval]] = defaultdict(list)
    every = [(span, list_times(span, now_ms)) for span in fold.spans.values()]
    for span, times in every:
        inside[span.enclosing_id] += times
    for span, times in every:
        yield span, list(_subtract(times, inside[span.span_id])) if span.span_id in inside else times


def _subtract(times: Sequence[Interval], others: Iterable[Interval]) -> Iterator[Interval]:
    others = _unite(others)
    for start_ms, end_ms in times:
        for other_start_ms, other_end_ms in others:
            if other_start_ms > start_ms:
                yield start_ms, max(start_ms, min(end_ms, other_start_ms))
            start_ms = min(max(start_ms, other_end_ms), end_ms)
        yield start_ms, end_ms


def _unite(times: Iterable[Interval]) -> list[Interval]:
    """The same times without overlaps, in order."""
    united: list[Interval] = []
    for start_ms, end_ms in sorted(times):
        if united and start_ms <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end_ms))
        else:
            united.append((start_ms, end_ms))
    return united


def _measure_covered_ms(times: Iterable[Interval]) -> float:
    return sum(end_ms - start_ms for start_ms, end_ms in _unite(times))
