"""A run as it was at a time (W35): what its rows said then, and what it had come to.

Pure: a row at a time follows from the row alone, and `js/src/store/row-at.ts` says the same. Sums don't follow from
rows, of which a saved view may lack most, so they are kept as a series of points.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.timeline_columns import KNOWN_AT_START, KNOWN_BEFORE, SERIES
from ensemble_notebook.trace.timeline.row_columns import shorten, to_differences, write_list
from ensemble_notebook.trace.timeline.run_sentence import find_manager

Record = Mapping[str, Any]

_UNBEGUN: Final = ("skipped", "cancelled", "interrupted")
_WITH_ROWS: Final = ("phase", "task")
"""What has a row before it begins, so that rows do not jump."""

_AT_THE_END: Final = ("critical", "slack_ms")
"""What is known of a row once the run is over."""


def row_at(row: Record, ms: float) -> dict[str, Any] | None:
    """A row as it was at a time; None where it was not there yet.

    Args:
        row: as it is in the end: a record of the columns of `ROWS`.
        ms: since the start of the run.
    """
    start, end = row.get("start_ms"), row.get("end_ms")
    if start is None:
        settled = row.get("settled_ms")
        if row["status"] not in _UNBEGUN or (settled is not None and settled <= ms):
            return _leave_out(row, _AT_THE_END)
        return _pick(row, KNOWN_BEFORE, status="pending")
    if start > ms:
        return _pick(row, KNOWN_BEFORE, status="pending") if row["kind"] in _WITH_ROWS else None
    if end is None or end <= ms:
        return _leave_out(row, _AT_THE_END)
    return _pick(row, KNOWN_AT_START, **_list_known(row, ms - start), **_goes_at(row, ms))


def _list_known(row: Record, age_ms: float) -> dict[str, Any]:
    """What a row that goes on says otherwise than in the end, but for the goes at its work."""
    kind, first = row["kind"], row.get("time_to_first_token_ms")
    known: dict[str, Any] = {
        name: _leave_out(row[name], _OUTCOMES) for name in ("delegation", "review", "memory") if name in row
    }
    if kind == "attempt" and "attempt" in row:  # of a call: how many there were
        known["attempt"] = row["attempt"]
    if kind != "task" and "is_fallback" in row:  # of a task: an agent took over, nobody knows when
        known["is_fallback"] = row["is_fallback"]
    if first is not None and first <= age_ms:
        known["time_to_first_token_ms"] = first
    if "work" in row:
        known["work"] = [_leave_out(each, ("note",)) for each in row["work"]]
    return known


_WAITS: Final = tuple(kind.value for kind in SpanKind if kind.traits.is_wait)
_OUTCOMES: Final = ("decision", "by", "is_timeout", "errors", "count")
"""What a review, a delegation or a memory operation has come to."""


def _goes_at(row: Record, ms: float) -> dict[str, Any]:
    """Its status, and what was known by then of the goes at the work of a row that is, or was, sent back."""
    said: dict[str, Any] = {"status": "waiting" if row["kind"] in _WAITS else "running"}
    rounds = [each for each in row.get("rounds") or () if each["start_ms"] <= ms]
    if not rounds:
        return said
    *before, last = rounds
    is_over = last.get("end_ms") is not None and last["end_ms"] <= ms
    if is_over:
        said = {"status": "ok", "end_ms": last["end_ms"]}
    if not before:
        return said
    present = _leave_out(last, ("verdict",) if is_over else ("end_ms", "verdict"))
    return {**said, "attempt": len(rounds), "rounds": [*before, present]}


def _pick(row: Record, names: Sequence[str], **said: Any) -> dict[str, Any]:
    return {**{name: row[name] for name in names if name in row}, **said}


def _leave_out(record: Record, names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


MOST_POINTS: Final = 500


Point = Mapping[str, float]
"""What a run had come to at a time, by the columns of `SERIES`."""

_AMOUNTS: Final = tuple(each.name for each in SERIES.columns if each.name != "at_ms")
NOTHING: Final[Point] = dict.fromkeys(("at_ms", *_AMOUNTS), 0)
_COUNTED: Final[Mapping[SpanStatus, str]] = {
    SpanStatus.OK: "done",
    SpanStatus.ERROR: "failed",
    SpanStatus.SKIPPED: "skipped",
    SpanStatus.CANCELLED: "cancelled",
    SpanStatus.INTERRUPTED: "cancelled",
}

Change = tuple[float, str, float]
"""When, of what, and by how much."""


def make_series(fold: TraceFold) -> list[Point]:
    """What the run had come to, at the times at which that changed; at most `MOST_POINTS` of them, evenly chosen.

    Made of all spans of the run: tokens, cost and errors count when what took them ended, calls when they began.
    """
    changes: defaultdict[float, defaultdict[str, float]] = defaultdict(lambda: defaultdict(int))
    manager = find_manager(fold)
    for span in fold.counted_spans:
        for ms, name, by in _list_changes(span, len(manager.managed) if span is manager else 1):
            changes[ms][name] += by
    times = sorted(changes)
    chosen = {round(k * (len(times) - 1) / (MOST_POINTS - 1)) for k in range(MOST_POINTS)} if times else set()
    sums: dict[str, float] = dict.fromkeys(_AMOUNTS, 0)
    points: list[Point] = []
    for place, ms in enumerate(times):
        for name, by in changes[ms].items():
            sums[name] += by
        if len(times) <= MOST_POINTS or place in chosen:
            points.append({"at_ms": ms, **sums})
    return points


def _list_changes(span: Span, weight: int) -> Iterator[Change]:
    """What one span changes. `weight`: for how many tasks a task counts once it is done."""
    start, end = span.start_ms, span.end_ms
    if span.is_planned:
        yield from _list_task_changes(span, weight)
    if start is not None and span.kind is SpanKind.ATTEMPT:
        yield start, "requests", 1
        yield start, "llm_calls", int(span.attempt == 1)
    if end is None:
        return
    if span.usage_leaf:
        yield end, "input_tokens", span.input_tokens or 0
        yield end, "output_tokens", span.output_tokens or 0
        yield end, "cost", float(span.cost or 0)
    if span.is_executed:
        yield end, "tool_calls", 1
    if span.kind is SpanKind.ATTEMPT and span.retry_reason is not None:
        yield end, "retries", 1
    if span.is_counted_failure:
        yield end, "errors", 1


def _list_task_changes(task: Span, weight: int) -> Iterator[Change]:
    """How a task of the plan counts: as running, and when it is over, by how it ended; sent back, it is not done."""
    for inactive in task.inactive_intervals:
        yield inactive.end_ms, "done", weight
        yield inactive.start_ms, "done", -weight
    for active in task.active_intervals:
        yield active.start_ms, "running", 1
        if active.end_ms is not None:
            yield active.end_ms, "running", -1
    if task.resolved_ms is not None and (name := _COUNTED.get(task.status)) is not None:
        yield task.resolved_ms, name, weight if name == "done" else 1


def pack_series(points: Sequence[Point]) -> dict[str, Any]:
    """The series for a saved view: its columns as short texts, as those of rows are."""
    columns: list[dict[str, Any]] = []
    for name in NOTHING:
        numbers = [point[name] for point in points]
        if name == "cost":
            told = write_list(shorten([round(float(each), 9) for each in numbers]))
            columns.append({"name": name, "type": "float", "numbers": told})
            continue
        is_time = {"thousandths": True} if name == "at_ms" else {}
        told = write_list(to_differences([round(each * 1000) for each in numbers] if is_time else numbers))
        columns.append({"name": name, "type": "int", **is_time, "differences": True, "numbers": told})
    return {"count": len(points), "columns": columns}


def run_at(run: Record, points: Sequence[Point], ms: float) -> dict[str, Any]:
    """The record of a run as it was at a time.

    Args:
        run: as it is in the end: a record of the columns of `RUN`.
        points: its series.
        ms: since its start, and before its end.
    """
    place = bisect_right(points, ms, key=itemgetter("at_ms"))
    point = points[place - 1] if place else NOTHING
    budget: Record | None = run["budget"]
    if budget is not None:
        spent = {
            "cost": None if budget["cost"] is None else point["cost"],
            "tokens": point["input_tokens"] + point["output_tokens"],
            "llm_calls": point["requests"],
        }
        shares = [float(spent[name] or 0) / float(most) for name in spent if (most := budget[f"max_{name}"])]
        budget = {**budget, **spent, "share": max(shares, default=None)}
    return {
        **run,
        **{name: None if run[name] is None else point[name] for name in ("input_tokens", "output_tokens", "cost")},
        **{f"tasks_{name}": point[name] for name in ("done", "failed", "skipped", "cancelled")},
        "tasks_settled": None,
        "status": "running",
        "exit_reason": None,
        "sentence": None,
        "ended_at": None,
        "elapsed_ms": ms,
        "phases_now": [],
        "active": [],
        "waiting": [],
        "many": None,
        "cache_read_tokens": None,
        "llm_call_count": point["llm_calls"],
        "tool_call_count": point["tool_calls"],
        "error_count": point["errors"],
        "retry_count": point["retries"],
        "budget": budget,
        "warnings": [],
        "note": None,
        "error": None,
    }
