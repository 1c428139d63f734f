"""What the timeline says of a range of time, computed from the DataFrames of a run (W7).

``make recorded-messages`` writes it for ranges of the recorded runs, and the TypeScript tests hold the view to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pandas as pd

FILE: Final = Path(__file__).parents[1] / "fixtures" / "ranges.json"
WORK: Final = ("attempt", "tool", "guardrail", "memory")
RANGES_OF_A_RUN: Final = 7


def choose_ranges(spans: pd.DataFrame) -> list[tuple[float, float]]:
    """Ranges of a run: all of it, parts that overlap, one between two events, and one after its end."""
    end = float((spans["start_ms"] + spans["duration_ms"]).max())
    step = end / RANGES_OF_A_RUN
    parts = [(step * part, step * (part + 1.7)) for part in range(RANGES_OF_A_RUN)]
    return [(0.0, end), *parts, (end / 3, end / 3 + 1), (end + 1, end + 2)]


def summarize_range(spans: pd.DataFrame, from_ms: float, to_ms: float) -> dict[str, Any]:
    """The spans of a finished run that were there at some time of a range, in numbers."""
    inside = spans.query("kind != 'run' and start_ms < @to_ms and start_ms + duration_ms > @from_ms")
    by_kind = inside["duration_ms"].groupby(inside["kind"].astype(str))
    durations = pd.DataFrame(
        {"count": by_kind.size(), "p50": by_kind.quantile(0.5), "p90": by_kind.quantile(0.9), "most": by_kind.max()}
    )
    used = inside[["input_tokens", "output_tokens", "cost"]].astype("Float64").sum(min_count=1)
    return {
        "from": from_ms,
        "to": to_ms,
        "kinds": {
            kind: [None if pd.isna(each) else float(each) for each in row] for kind, *row in durations.itertuples()
        },
        "used": [None if pd.isna(each) else float(each) for each in used],
        "work_ms": measure_work(inside, from_ms, to_ms),
    }


def measure_work(inside: pd.DataFrame, from_ms: float, to_ms: float) -> float:
    """The time of the range in which spans were at work that contain no other one then; side by side adds up."""
    end_ms = inside["start_ms"] + inside["duration_ms"]
    cut = inside.assign(start=inside["start_ms"].clip(from_ms, to_ms), end=end_ms.clip(from_ms, to_ms))
    is_work = cut["kind"].isin(WORK) | ((cut["kind"] == "task") & (cut["agent"] == "Handler"))
    total = 0.0
    for span in cut[is_work].itertuples():
        children = cut[cut["parent_id"] == span.Index]
        total += cover([(span.start, span.end)]) - cover(
            (max(each.start, span.start), min(each.end, span.end)) for each in children.itertuples()
        )
    return total


def cover(intervals: Iterable[tuple[float, float]]) -> float:
    """How much time they take, together."""
    ordered = pd.IntervalIndex.from_tuples(sorted((a, b) for a, b in intervals if b > a), closed="left")
    moments = sorted({*ordered.left, *ordered.right})
    pairs = pairwise(moments)
    return float(sum(b - a for a, b in pairs if ordered.contains(a).any()))


def write_summaries(runs: dict[str, pd.DataFrame]) -> None:
    """Write the file, from the spans of each run."""
    summaries = {name: [summarize_range(spans, *each) for each in choose_ranges(spans)] for name, spans in runs.items()}
    FILE.write_text(json.dumps(summaries, separators=(",", ":")) + "\n", encoding="utf-8")
