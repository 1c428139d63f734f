"""A run over time, in bins of equal length: what was in flight, and the tokens and the money that it took."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from numbers import Real
from types import SimpleNamespace
from typing import Final

from ensemble_notebook.domain.planning.graph import HANDLER_ROLE
from ensemble_notebook.trace.folding.milestones import is_startup
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.usage_totals import UsageTotals
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table, make_known

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTime:
    """How a run spent the time that was its own, in milliseconds.

    Attributes:
        active_ms: something was at work.
        human_wait_ms: nothing was, and a review was open.
        idle_ms: neither: waits for rate limits, places and threads, back-off, the engine itself.
    """

    active_ms: float
    human_wait_ms: float
    idle_ms: float

    @property
    def duration_ms(self) -> float:
        """All of it."""
        return self.active_ms + self.human_wait_ms + self.idle_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActivity(OwnTime):
    """How a run spent its time, in milliseconds; ``wall_ms = active_ms + human_wait_ms + idle_ms``, startups included.

    Attributes:
        fold: of the run. run: its span. totals: its sums.
        wall_ms: from start to end, or to the latest event.
        work_ms: of all that was at work; side by side adds up.
        queue_ms: tasks were ready and waited for a free place; side by side adds up.
    """

    fold: TraceFold
    run: Span
    totals: UsageTotals
    wall_ms: float
    work_ms: float
    queue_ms: float

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
    work, reviews = (each[run.span_id] for each in _collect_times(fold, now_ms, dict.fromkeys(fold.spans, run.span_id)))
    return [
        RunActivity(
            fold=fold,
            run=run,
            totals=run.totals,
            wall_ms=now_ms,
            work_ms=sum(end_ms - start_ms for start_ms, end_ms in work),
            queue_ms=sum(span.queue_ms or 0.0 for span in fold.spans.values()),
            **asdict(_split_time(now_ms, work, reviews)),
        )
    ]


def measure_inner_runs(fold: TraceFold, own_ms: Mapping[str, float]) -> dict[str, OwnTime]:
    """How runs inside a run spent the time that was their own.

    Args:
        fold: of the run around them.
        own_ms: that time, by the ids of their spans, none of which is inside another one.
    """
    now_ms = find_latest_ms(fold)
    owners: dict[str | None, str] = {}
    for span in fold.spans.values():  # each after the one around it
        owner = span.span_id if span.span_id in own_ms else owners.get(span.enclosing_id)
        if owner is not None:
            owners[span.span_id] = owner
    work, reviews = _collect_times(fold, now_ms, owners)
    return {span_id: _split_time(each, work[span_id], reviews[span_id]) for span_id, each in own_ms.items()}


def _collect_times(
    fold: TraceFold, now_ms: float, owners: Mapping[str | None, str]
) -> tuple[Mapping[str, list[Interval]], Mapping[str, list[Interval]]]:
    """When something was at work, and when reviews were open, each by the owners of the spans."""
    work, reviews = (defaultdict[str, list[Interval]](list) for _ in range(2))
    for span, times in iterate_own_times(fold, now_ms):
        owner = owners.get(span.span_id)
        if owner is not None and is_working(fold, span):
            work[owner] += list_work(span, times)
        elif owner is not None and span.kind is SpanKind.REVIEW:
            reviews[owner] += times
    return work, reviews


def _split_time(own_ms: float, work: Sequence[Interval], reviews: Sequence[Interval]) -> OwnTime:
    active_ms, either_ms = _measure_covered_ms(work), _measure_covered_ms([*work, *reviews])
    return OwnTime(active_ms=active_ms, human_wait_ms=either_ms - active_ms, idle_ms=max(0.0, own_ms - either_ms))


def list_startup_times(fold: TraceFold) -> list[Interval]:
    """The times in which models were made ready and nothing was at work, in order."""
    now_ms = find_latest_ms(fold)
    startups = [times for span in fold.spans.values() if is_startup(span) for times in list_times(span, now_ms)]
    if not startups:
        return []
    own = iterate_own_times(fold, now_ms)
    work = [each for span, times in own if is_working(fold, span) for each in list_work(span, times)]
    return list(_subtract(_unite(startups), work))


def find_latest_ms(fold: TraceFold) -> float:
    """When the latest event that is known of came, since the run started."""
    return max((span.end_ms or span.start_ms or 0.0 for span in fold.spans.values()), default=0.0)


def is_working(fold: TraceFold, span: Span) -> bool:
    """True for what does something by itself: requests to models, tools, handlers, guardrails, memory.

    A span that contains another one is not at work meanwhile, so that nothing counts twice; a row of a map does nothing
    beside its run.
    """
    if span.kind is SpanKind.TASK:
        return span.agent == HANDLER_ROLE and not (fold.task_noun.is_run and span.is_own_task)
    return span.kind.traits.is_work


def list_work(span: Span, times: Sequence[Interval]) -> Sequence[Interval]:
    """The parts of its own times in which what is at work did not wait for a thread, or for its next attempt."""
    return list(_subtract(times, span.waits)) if span.waits else times


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


def iterate_places(fold: TraceFold, now_ms: float) -> Iterator[tuple[Span, Sequence[Interval]]]:
    """Each task of the run with the times in which it has one of the places that `max_concurrency` counts.

    A task that runs for each of a list has none while its items have theirs. Of a map, its rows are the tasks.
    """
    tasks = [(span, list_times(span, now_ms)) for span in fold.spans.values() if span.is_own_task]
    items: defaultdict[str | None, list[Interval]] = defaultdict(list)
    for span, times in tasks:
        if span.item_of is not None:
            items[span.enclosing_id] += times
    for span, times in tasks:
        yield span, list(_subtract(times, items[span.span_id])) if span.span_id in items else times


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


_BINS: Final = 100
_LEAST_MS: Final = 1.0
_MOST_BINS: Final = 1_000_000


TIMESERIES: Final = Table(
    "bin of equal length. In flight is the average over the bin. Tokens and cost of a request are spread evenly over "
    "the time that it took, so that sums over all bins are those of the run",
    Column("start_ms", "Float64", "start of the bin, since the run started"),
    (
        make_known("time", UTC_TIME, "start of the bin"),
        make_known(
            "tasks",
            "Float64",
            "tasks of the plan in flight, with all that they hand on; items in place of the task that runs for "
            "them; of a map, its rows",
        ),
        make_known("llm_requests", "Float64", "requests to models in flight"),
        make_known("tools", "Float64", "tool calls in flight, but for the time in which a worker or a person is asked"),
        make_known("reviews", "Float64", "reviews that waited for an answer"),
        make_known("input_tokens", "Float64", "cached ones included; known part"),
        make_known("cache_read_tokens", "Float64", "the part read from the provider's cache"),
        make_known("output_tokens", "Float64", "reasoning ones included; known part"),
        make_known("reasoning_tokens", "Float64", "the part spent on reasoning"),
        make_known("cost", "Float64", "in the run's currency; known part"),
        make_known("cumulative_cost", "Float64", "cost of this bin and all before"),
        make_known("currency", "category", "of the cost"),
    ),
)

_IN_FLIGHT: Final = {SpanKind.ATTEMPT: "llm_requests", SpanKind.TOOL: "tools", SpanKind.REVIEW: "reviews"}
_SPREAD: Final = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens", "cost")


def compute_timeseries(fold: TraceFold, dt: float | timedelta | None = None) -> list[SimpleNamespace]:
    """The bins of a run, by now, with the columns as attributes; empty where nothing has started.

    Args:
        fold: of the run.
        dt: length of a bin, in seconds or as a timedelta; None: a hundredth of the run, at least a millisecond.

    Raises:
        ValueError: the length is no time, or so short that there would be over a million bins.
    """
    run, wall_ms = fold.run, find_latest_ms(fold)
    if run is None or run.start_time is None:
        return []
    bin_ms = _to_bin_ms(dt, wall_ms)
    count = max(1, math.ceil(wall_ms / bin_ms))
    bins = [
        SimpleNamespace(  # amounts are added up by the names of their columns
            start_ms=number * bin_ms,
            time=run.start_time + timedelta(milliseconds=number * bin_ms),
            currency=fold.currency,
            **dict.fromkeys(("tasks", *_IN_FLIGHT.values(), *_SPREAD), 0.0),
        )
        for number in range(count)
    ]
    for span, times in iterate_own_times(fold, wall_ms):  # what hands work on is not in flight beside it
        if (name := _IN_FLIGHT.get(span.kind)) is not None:
            _spread_over_bins(bins, bin_ms, name, span, times)
    for span, times in iterate_places(fold, wall_ms):
        _spread_over_bins(bins, bin_ms, "tasks", span, times)
    spent = 0.0
    for each in bins:
        spent += each.cost
        each.cumulative_cost = spent
    return bins


def _to_bin_ms(dt: object, wall_ms: float) -> float:
    if dt is None:
        return max(_LEAST_MS, wall_ms / _BINS)
    if not isinstance(dt, Real | timedelta):  # such as "1s", which pandas would take
        raise ValueError(f"The length of a bin must be seconds, or a timedelta; got {dt!r}.")
    bin_ms = (dt.total_seconds() if isinstance(dt, timedelta) else float(dt)) * 1000
    if not (bin_ms > 0 and wall_ms / bin_ms <= _MOST_BINS):
        raise ValueError(f"The length of a bin must be > 0 seconds, with at most {_MOST_BINS:,} bins; got {dt!r}.")
    return bin_ms


def _spread_over_bins(
    bins: list[SimpleNamespace], bin_ms: float, name: str, span: Span, times: Iterable[tuple[float, float]]
) -> None:
    amounts = {name: float(amount) for name in _SPREAD if span.usage_leaf and (amount := getattr(span, name))}
    for start_ms, end_ms in times:
        first, last = (min(len(bins) - 1, int(each_ms / bin_ms)) for each_ms in (start_ms, end_ms))
        for place in range(first, last + 1):
            finish_ms = min(end_ms, (place + 1) * bin_ms) if place < last else end_ms
            part_ms, each = finish_ms - max(start_ms, place * bin_ms), bins[place]
            if part_ms <= 0 and first != last:  # a moment falls into one bin, with nothing
                continue
            setattr(each, name, getattr(each, name) + part_ms / bin_ms)
            share = part_ms / (end_ms - start_ms) if end_ms > start_ms else 1.0
            for column, amount in amounts.items():
                setattr(each, column, getattr(each, column) + amount * share)
