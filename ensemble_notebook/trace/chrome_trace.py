"""A run in the trace event format (T99), which Perfetto, Chrome's tracing page and Speedscope open.

Slices of one thread have to lie in one another there: each task and each phase has a thread of its own, and what
overlaps in it has further ones beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

    from ensemble_notebook.trace.frames import Frames

_PID: Final = 1
_OWN_TRACK: Final = frozenset({"run", "phase", "task"})
_ARGUMENTS: Final = (
    *("agent", "status", "model", "provider", "tool", "delegate_to", "outcome", "review_decision", "wait_kind"),
    *("iteration", "attempt", "retry_reason", "finish_reason", "reason", "error_type", "error_message"),
    *("input_tokens", "output_tokens", "cost", "currency", "critical", "reused", "is_fallback"),
)
_COUNTED: Final = {"tokens": ("input_tokens", "output_tokens"), "cost": ("cost",)}


def make_chrome_trace(frames: Frames) -> dict[str, Any]:
    """The JSON object of a run: its times are microseconds since it began.

    Slices (`ph` X) are its spans, flows (s and f) what was handed over, counters (C) tokens and money so far. What
    never ran is not in it; what has no end yet lasts until the last time that is known.
    """
    spans = _read_rows(frames.spans)
    places = _Places(spans)
    return {
        "traceEvents": [*places.names(), *places.slices, *_flows(frames.links, places), *_counters(spans)],
        "displayTimeUnit": "ms",
        "otherData": {"run_id": str(frames.runs.index[0]), "start_time": frames.runs["start_time"].iloc[0].isoformat()},
    }


class _Places:
    """Which thread each span lies on, and its slice there."""

    def __init__(self, spans: list[dict[str, Any]]) -> None:
        self.slices: list[dict[str, Any]] = []
        self.of: dict[str, dict[str, Any]] = {}
        """The slice of a span."""
        self._threads: list[str] = []
        """Their names; the number of a thread is its place here, from 1."""
        self._open: list[list[int]] = []
        """The ends of what is open on each thread, the innermost last."""
        self._lanes: dict[str, list[int]] = {}
        """The threads of each owner."""
        self._owners: dict[str, str] = {}
        last = max((row.get("end", row["start"]) for row in spans), default=0) + 1
        # What is around comes first where both begin at once.
        for row in sorted(spans, key=lambda each: (each["start"], each["depth"], each["seq"])):
            self._place(row, max(row["start"] + 1, row.get("end", last)))  # an empty slice has room for no arrow

    def _place(self, row: dict[str, Any], end: int) -> None:
        span_id, start = row["span_id"], row["start"]
        name = str(row.get("name", row["kind"]))
        owner = span_id if row["kind"] in _OWN_TRACK else self._owners.get(row.get("parent_id", ""), span_id)
        self._owners[span_id] = owner
        thread = self._find_thread(owner, name, start, end)
        known = {key: row[key] for key in _ARGUMENTS if key in row}
        made = {"ph": "X", "pid": _PID, "tid": thread + 1, "ts": start, "dur": end - start, "name": name}
        self.of[span_id] = made | {"cat": row["kind"], "args": {"span_id": span_id} | known}
        self.slices.append(self.of[span_id])

    def _find_thread(self, owner: str, name: str, start: int, end: int) -> int:
        """The first thread of the owner on which nothing that is open ends before this does."""
        lanes = self._lanes.setdefault(owner, [])
        for thread in lanes:
            around = self._open[thread]
            while around and around[-1] <= start:
                around.pop()
            if not around or end <= around[-1]:
                around.append(end)
                return thread
        self._threads.append(self._threads[lanes[0]] if lanes else name)
        self._open.append([end])
        lanes.append(len(self._threads) - 1)
        return lanes[-1]

    def names(self) -> Iterator[dict[str, Any]]:
        """What the threads are called, in the order in which they began, those of one owner together."""
        order = [thread for lanes in self._lanes.values() for thread in lanes]
        for place, thread in enumerate(order):
            shared = {"ph": "M", "pid": _PID, "tid": thread + 1}
            yield {**shared, "name": "thread_name", "args": {"name": self._threads[thread]}}
            yield {**shared, "name": "thread_sort_index", "args": {"sort_index": place}}


def _flows(links: pd.DataFrame, places: _Places) -> Iterator[dict[str, Any]]:
    """An arrow for each link between two that ran, from the end of one to the start of the other.

    An arrow of the format belongs to the slice around its time, of which the last moment is no part any more. What is
    delegated leaves a slice that goes on, and comes back into it.
    """
    for number, link in enumerate(links.itertuples(), 1):
        source, target = places.of.get(str(link.src)), places.of.get(str(link.dst))
        if source is None or target is None:
            continue
        left = min(_last(source), target["ts"]) if link.kind == "delegation" else _last(source)
        reached = min(_last(target), max(left, target["ts"]))
        shared = {"pid": _PID, "id": number, "name": str(link.kind), "cat": "link"}
        yield {**shared, "ph": "s", "tid": source["tid"], "ts": min(left, reached)}
        yield {**shared, "ph": "f", "bp": "e", "tid": target["tid"], "ts": reached}


def _counters(spans: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Tokens and money so far, at the end of each request that has some."""
    sums: dict[str, float] = {}
    for row in sorted((row for row in spans if row["usage_leaf"] and "end" in row), key=lambda each: each["end"]):
        for name, columns in _COUNTED.items():
            if not row.keys() & set(columns):
                continue
            for column in columns:
                sums[column] = sums.get(column, 0) + row.get(column, 0)
            unit = f" ({row['currency']})" if name == "cost" and "currency" in row else ""
            so_far = {column: sums[column] for column in columns}
            yield {"ph": "C", "pid": _PID, "ts": row["end"], "name": f"{name}{unit}", "args": so_far}


def _read_rows(spans: pd.DataFrame) -> list[dict[str, Any]]:
    """Each span that ran with what is known of it, and its `start` and `end` in microseconds."""
    begun = spans[spans["start_ms"].notna()]
    # Both are rounded where they stand, and no length is: what lies in one another still does.
    start = (begun["start_ms"] * 1000).round()
    end = ((begun["start_ms"] + begun["duration_ms"]) * 1000).round()
    wanted = ["kind", "name", "parent_id", "depth", "seq", "usage_leaf", *_ARGUMENTS]
    table = begun[wanted].assign(start=start.astype("Int64"), end=end.astype("Int64")).reset_index().astype(object)
    records = table.where(table.notna(), None).to_dict("records")
    return [{str(key): value for key, value in record.items() if value is not None} for record in records]


def _last(part: dict[str, Any]) -> int:
    return int(part["ts"] + part["dur"] - 1)
