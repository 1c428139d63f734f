"""A run over time, in bins of equal length: what was in flight, and the tokens and the money that it took."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real
from typing import Final

from ensemble_notebook.trace.analysis.activity import find_latest_ms, list_times
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.column_parts import UTC_TIME
from ensemble_notebook.trace.tables.table import Column, Table, mark_known

_BINS: Final = 100
_LEAST_MS: Final = 1.0
_MOST_BINS: Final = 1_000_000


@dataclass(slots=True, kw_only=True)
class TimeBin:
    """A stretch of time; the attributes are the columns."""

    start_ms: float
    time: datetime
    currency: str
    tasks: float = 0.0
    llm_requests: float = 0.0
    tools: float = 0.0
    reviews: float = 0.0
    input_tokens: float = 0.0
    cache_read_tokens: float = 0.0
    output_tokens: float = 0.0
    reasoning_tokens: float = 0.0
    cost: float = 0.0
    cumulative_cost: float = 0.0


TIMESERIES: Final = Table(
    "bin of equal length. In flight is the average over the bin. Tokens and cost of a request are spread evenly over "
    "the time that it took, so that sums over all bins are those of the run",
    Column("start_ms", "Float64", "start of the bin, since the run started"),
    mark_known(
        (
            Column("time", UTC_TIME, "start of the bin"),
            Column("tasks", "Float64", "tasks in flight, delegated ones included"),
            Column("llm_requests", "Float64", "requests to models in flight"),
            Column("tools", "Float64", "tool calls in flight"),
            Column("reviews", "Float64", "reviews that waited for an answer"),
            Column("input_tokens", "Float64", "cached ones included; known part"),
            Column("cache_read_tokens", "Float64", "the part read from the provider's cache"),
            Column("output_tokens", "Float64", "reasoning ones included; known part"),
            Column("reasoning_tokens", "Float64", "the part spent on reasoning"),
            Column("cost", "Float64", "in the run's currency; known part"),
            Column("cumulative_cost", "Float64", "cost of this bin and all before"),
            Column("currency", "category", "of the cost"),
        )
    ),
)

_IN_FLIGHT: Final = {
    SpanKind.TASK: "tasks",
    SpanKind.ATTEMPT: "llm_requests",
    SpanKind.TOOL: "tools",
    SpanKind.REVIEW: "reviews",
}
_SPREAD: Final = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens", "cost")


def compute_timeseries(fold: TraceFold, dt: float | timedelta | None = None) -> list[TimeBin]:
    """The bins of a run, by now; empty where nothing has started.

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
        TimeBin(
            start_ms=number * bin_ms,
            time=run.start_time + timedelta(milliseconds=number * bin_ms),
            currency=fold.currency,
        )
        for number in range(count)
    ]
    for span in fold.spans.values():
        if span.kind in _IN_FLIGHT:
            _spread_over_bins(bins, bin_ms, span, wall_ms)
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


def _spread_over_bins(bins: list[TimeBin], bin_ms: float, span: Span, now_ms: float) -> None:
    name = _IN_FLIGHT[span.kind]
    amounts = {name: float(amount) for name in _SPREAD if span.usage_leaf and (amount := getattr(span, name))}
    for start_ms, end_ms in list_times(span, now_ms):
        for place, part_ms in _split_over_bins(start_ms, end_ms, bin_ms, len(bins)):
            each = bins[place]
            setattr(each, name, getattr(each, name) + part_ms / bin_ms)
            share = part_ms / (end_ms - start_ms) if end_ms > start_ms else 1.0
            for column, amount in amounts.items():
                setattr(each, column, getattr(each, column) + amount * share)


def _split_over_bins(start_ms: float, end_ms: float, bin_ms: float, count: int) -> Iterator[tuple[int, float]]:
    """Which bins a time falls into, and how much of it into each; a moment falls into one, with nothing."""
    first, last = (min(count - 1, int(each / bin_ms)) for each in (start_ms, end_ms))
    for place in range(first, last + 1):
        begin_ms, finish_ms = max(start_ms, place * bin_ms), end_ms
        if place < last:
            finish_ms = min(end_ms, (place + 1) * bin_ms)
        if finish_ms > begin_ms or first == last:
            yield place, finish_ms - begin_ms
