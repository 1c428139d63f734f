"""A run so small that it fits into a row of a list: the bars of its tasks as a short text, kept in its summary.

A view draws it without the run: ``lane,from,to,state`` for each bar, one after the other with ``;`` between them. A
lane counts from 0; times are thousandths of the run.
"""

from __future__ import annotations

from typing import Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.folding.trace_fold import TraceFold

MOST_BARS: Final = 24
MOST_LANES: Final = 6
_STATES: Final = {SpanStatus.OK: "ok", SpanStatus.ERROR: "error", SpanStatus.RUNNING: "running"}
_OTHER: Final = "idle"
_REUSED: Final = "reused"


def draw_small_picture(fold: TraceFold, wall_ms: float | None) -> str:
    """The bars of the tasks of the plan, of a map those of its rows; the longest ones, where there are many.

    Args:
        fold: of the run.
        wall_ms: how long that took, or has gone on.
    """
    if not wall_ms:
        return ""
    bars = [
        (each.start_ms, wall_ms if each.end_ms is None else each.end_ms, _STATES.get(each.status, _OTHER), each.reused)
        for each in list(fold.spans.values())
        if each.is_planned and each.start_ms is not None
    ]
    longest = sorted(bars, key=lambda bar: bar[0] - bar[1])[:MOST_BARS]
    ends: list[float] = []
    drawn = []
    for start_ms, end_ms, state, is_reused in sorted(longest, key=lambda bar: bar[0]):
        lane = next((number for number, end in enumerate(ends) if end <= start_ms), None)
        if lane is None and len(ends) < MOST_LANES:
            lane = len(ends)
            ends.append(0.0)
        elif lane is None:
            lane = ends.index(min(ends))
        ends[lane] = max(ends[lane], end_ms)
        first, last = (min(1000, max(0, round(1000 * ms / wall_ms))) for ms in (start_ms, end_ms))
        drawn.append(f"{lane},{first},{last},{_REUSED if is_reused else state}")
    return ";".join(drawn)
