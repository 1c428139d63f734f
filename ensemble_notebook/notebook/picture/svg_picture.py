"""A run as an SVG picture (T13): the lines of the static picture, with bars drawn to scale.

It holds no script and fetches nothing, follows the reader's light or dark scheme, and its texts can be selected.
Whatever a model or a person wrote is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, Self
from unicodedata import east_asian_width

from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.chart import LEGEND, MARKS, Chart, make_chart
from ensemble_notebook.notebook.picture.chart_lines import (
    BACKOFF,
    STARTUP,
    ChartLine,
    Place,
    Row,
    find_places,
    join_rows,
    list_goes,
    list_stretches,
)
from ensemble_notebook.trace.analysis.timeseries import Interval, list_startup_times, list_times
from ensemble_notebook.trace.spans.span_kinds import (
    DONE_COLOR,
    ERROR_COLOR,
    FAINT_COLORS,
    IDLE_COLOR,
    TONE_COLORS,
    SpanKind,
)
from ensemble_notebook.trace.spans.timeline_wording import STATUSES, describe_rounds
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.folding.trace_fold import TraceFold

WIDTH: Final = 1000
MARGIN: Final = 20
LINE: Final = 24
NOTE: Final = 18
BARS_FROM: Final = 320
BARS_TO: Final = 760
AGENTS_FROM: Final = 204
MOST_TICKS: Final = 7
TICK_ROOM: Final = 24.0
"""Pixels to either side of a tick that its words need: those of a fold stand there in their place."""
FOLD: Final = 104.0
"""Pixels of what is folded: as many as its words need. It would take at least twice as many."""
LONGEST_LINE: Final = 150
LONGEST_TITLE: Final = 48

_STYLE: Final = """
svg { font: 13px system-ui, sans-serif; }
.page { fill: #ffffff; } .ink { fill: #1d2026; } .faint { fill: #686d74; } .wrong { fill: #c8102e; }
.rule { stroke: #686d74; stroke-opacity: .25; } .break { fill: none; stroke: #686d74; }
.phase { font-weight: 600; } .title { font-weight: 600; font-size: 15px; }
.band { fill: #686d74; fill-opacity: .1; } .small { font-size: 11px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
@media (prefers-color-scheme: dark) {
  .page { fill: #16181d; } .ink { fill: #e6e8ec; } .faint { fill: #a2a8b1; } .wrong { fill: #ff7a80; }
}
"""
# What a task did: colour, height of the bar. Later ones are drawn over those before. A model call is its attempts,
# between which it backs off.
_LOOKS: Final = {
    "task": (IDLE_COLOR, 4),
    "reused": (DONE_COLOR, 8),
    "handler": (TONE_COLORS["tool"], 14),
    STARTUP: (FAINT_COLORS["pause"], 6),
    "attempt": (TONE_COLORS["model"], 14),
    "tool": (TONE_COLORS["tool"], 8),
    "delegation": (FAINT_COLORS["tool"], 4),
    "review": (TONE_COLORS["person"], 14),
    BACKOFF: (FAINT_COLORS["pause"], 3),
    "wait": (FAINT_COLORS["pause"], 6),
    "failed": (ERROR_COLOR, 14),
}
_WORDS: Final = {**LEGEND, "attempt": LEGEND["llm"], "failed": STATUSES["error"]}
_STATUS_COLORS: Final = {"ok": DONE_COLOR, "completed": DONE_COLOR, "error": ERROR_COLOR, "failed": ERROR_COLOR}


@dataclass(frozen=True, slots=True)
class TimeScale:
    """An axis from 0 to `end`, in milliseconds, on `width` pixels.

    Startups in which nothing else went on are folded, as in a view (W8).

    Attributes:
        folds: from when to when it is folded, in order.
    """

    end: float
    width: float
    folds: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, fold: TraceFold, end: float, width: float) -> Self:
        """That of a run up to `end`."""
        asked = [each for span in fold.spans.values() if span.kind is SpanKind.REVIEW for each in list_times(span, end)]
        idle = (
            (start, stop)
            for start, stop in list_startup_times(fold)
            if (stop - start) / end * width > 2 * FOLD
            and not any(began < stop and ended > start for began, ended in asked)
        )
        folds = tuple(idle)
        is_all = end - sum(stop - start for start, stop in folds) < 1
        return cls(end, width, () if is_all else folds)

    def find_x(self, at: float) -> float:
        """How many pixels from the left a time is; those before and after the run are at the ends."""
        at = min(max(at, 0.0), self.end)
        x, left_ms, all_ms = 0.0, at, self.end
        for start, stop in self.folds:
            gone = min(max(at - start, 0.0), stop - start)
            x += FOLD * gone / (stop - start)
            left_ms -= gone
            all_ms -= stop - start
        return x + (self.width - FOLD * len(self.folds)) * left_ms / all_ms


def draw_svg(trace: ExecutionTrace) -> str:
    """The picture of a run, over or not, of at most a hundred lines."""
    messages = TimelineMessages(copy(trace._fold))
    outline = messages.make_outline()
    chart = make_chart(outline, messages.make_rows, has_all_rows=True)
    places = {place.row["span_id"]: place for place in find_places(outline["rows"])}
    shown = [places[line.span_id] for line in chart.lines]
    rows = messages.make_rows([row["span_id"] for place in shown for row in place.all_rows])
    end = max([float(outline["run"].get("elapsed_ms") or 0), *(row.get("end_ms") or 0 for row in rows.values()), 1.0])
    drawing = _Drawing(TimeScale.of(trace._fold, end, BARS_TO - BARS_FROM))
    drawing.add_headline(chart)
    drawing.add_axis(chart)
    for line, place in zip(chart.lines, shown, strict=True):
        drawing.add_line(line, place.complete(rows))
    drawing.add_foot(chart)
    return drawing.finish(chart.title)


class _Drawing:
    """The elements so far, from the top; `y` is where the next one begins.

    Args:
        scale: of the time axis.
    """

    def __init__(self, scale: TimeScale) -> None:
        self.y = float(MARGIN)
        self._scale = scale
        self._end = scale.end
        self._bands: list[tuple[int, float, Row]] = []
        self._elements: list[str] = []
        self._drawn: set[str] = set()

    def add_headline(self, chart: Chart) -> None:
        """How it ended and its name; how much it was; what happened."""
        color = _STATUS_COLORS.get(chart.status, TONE_COLORS["pause"])
        mark = f'<tspan style="fill:{color}">{escape(MARKS[chart.status])}</tspan>'
        title = _clean(chart.title.capitalize(), LONGEST_LINE)
        self._elements.append(f'<text class="ink title" x="{MARGIN}" y="{self.y + 14:g}">{mark} {title}</text>')
        self.y += LINE
        for text, look in ((" · ".join(chart.facts), "faint"), (chart.sentence, "ink")):
            if text:
                self._write(text, MARGIN, look, LONGEST_LINE)
                self.y += NOTE + 2
        self.y += 10

    def add_axis(self, chart: Chart) -> None:
        """Times above the bars, and what stands beside them."""
        for start, stop in self._scale.folds:
            self._write(
                f"startup {format_duration(stop - start)}", self._find_x(start) + FOLD / 2, "faint small middle"
            )
        for tick, label in _list_ticks(self._scale):
            self._write(label, self._find_x(tick), "faint middle")
        for head, x in zip(chart.heads, _find_columns(chart.heads), strict=True):
            self._write(head, x, "faint end")
        self.y += LINE
        self._top = self.y - 2

    def add_line(self, line: ChartLine, place: Place) -> None:
        """A phase or task with its bar and numbers; below it what went wrong."""
        self._close_bands(line.depth)
        x = MARGIN + 14 * line.depth
        color = _STATUS_COLORS.get(line.status, IDLE_COLOR)
        mark = f'<tspan style="fill:{color}">{MARKS[line.status]}</tspan>'
        look = "ink phase" if line.is_phase else "ink"
        room = (AGENTS_FROM if line.agent else BARS_FROM) - x - _measure(f"{MARKS[line.status]}  ")
        name = escape(_fit(f"{'↳ ' if line.is_worker else ''}{line.name}", room / (_BOLD if line.is_phase else 1)))
        self._elements.append(f'<text class="{look}" x="{x}" y="{self.y + 14:g}">{mark} {name}</text>')
        self._write(_fit(line.agent, BARS_FROM - AGENTS_FROM - _measure(" ")), AGENTS_FROM, "faint")
        if not line.is_phase:
            self._draw_bar(join_rows(place), place.parts, "round" if line.is_reviewer else "draft")
        elif place.row.get("rounds"):
            self._bands.append((line.depth, self.y, place.row))
            for number, (start, _) in enumerate(list_goes(place.row, self._end), start=1):
                self._write(f"round {number}", self._find_x(start) + 4, "faint small")
        for cell, column in zip(line.cells, _find_columns(line.cells), strict=True):
            self._write(cell, column, "ink end")
        self.y += LINE
        for note in line.notes:
            self.y -= 3
            self._write(note, x + 16, "wrong" if line.status == "error" else "faint", LONGEST_LINE)
            self.y += NOTE + 6

    def add_foot(self, chart: Chart) -> None:
        """Rules behind the bars, notes of the run, and what the colours mean."""
        self._close_bands(0)
        rules = ((self._find_x(tick), self._top, self.y) for tick, _ in _list_ticks(self._scale))
        self._elements[:0] = [
            f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}"/>' for x, top, bottom in rules
        ]
        for x in (self._find_x(at) for fold in self._scale.folds for at in fold):
            teeth = "l3 4-3 4" * int((self.y - self._top) / 8)
            self._elements.append(f'<path class="break" d="M{x - 1.5:.1f} {self._top:g}{teeth}"/>')
        self.y += 8
        for note in chart.notes:
            self._write(f"! {note}", MARGIN, "ink", LONGEST_LINE)
            self.y += NOTE
        x = float(MARGIN)
        for kind in filter(self._drawn.__contains__, _LOOKS):
            word, (color, _) = _WORDS[kind], _LOOKS[kind]
            self._elements.append(
                f'<rect x="{x:g}" y="{self.y + 5:g}" width="10" height="10" rx="2" style="fill:{color}"/>'
            )
            self._write(word, x + 15, "faint")
            x += 36 + 7 * len(word)
        self.y += LINE

    def finish(self, title: str) -> str:
        height = self.y + MARGIN / 2
        size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
            f"<title>{_clean(title)}</title><style>{_STYLE}</style>"
            f'<rect class="page" width="{WIDTH}" height="{height:g}"/>{"".join(self._elements)}</svg>\n'
        )

    def _write(self, text: str, x: float, look: str, longest: int = 200) -> None:
        if text:
            self._elements.append(f'<text class="{look}" x="{x:g}" y="{self.y + 14:g}">{_clean(text, longest)}</text>')

    def _close_bands(self, depth: int) -> None:
        """The rounds of phases that were sent back, as bands behind the lines of each, down to where it ends."""
        while self._bands and self._bands[-1][0] >= depth:
            _, top, row = self._bands.pop()
            for said, (start, stop) in zip(describe_rounds(row), list_goes(row, self._end), strict=True):
                left, right = self._find_x(start), self._find_x(stop)
                self._elements.insert(
                    0,
                    f'<rect class="band" x="{left:.1f}" y="{top:g}" width="{max(right - left - 1, 1):.1f}" '
                    f'height="{self.y - top:g}"><title>{_clean(said)}</title></rect>',
                )

    def _draw_bar(self, row: Row, parts: Sequence[Row], go: str) -> None:
        """The extent of a task as a thin bar, and on it what it did.

        A model call is named by the go at the task that it was in, where there were several: by the word `go`.
        """
        goes = list_goes(row, self._end) if row.get("rounds") else []
        for start, stop, kind, part in list_stretches(row, parts, self._end, _LOOKS):
            name, number = str(part.get("tool") or part["name"]), sum(began <= start for began, _ in goes)
            if part["kind"] == "attempt":
                name = f"{go} {number}" if number else LEGEND["llm"]
            left, right = self._find_x(start), self._find_x(stop)
            color, height = _LOOKS[kind]
            is_failed = part["status"] == "error" and kind not in ("task", BACKOFF)
            self._drawn.add("failed" if is_failed else kind)
            told = _clean(f"{name}, {format_duration(stop - start)}", LONGEST_TITLE)
            self._elements.append(
                f'<rect x="{left:.1f}" y="{self.y + 10 - height / 2:g}" width="{max(right - left, 1.5):.1f}" '
                f'height="{height}" rx="{min(2, height // 2)}" style="fill:{ERROR_COLOR if is_failed else color}">'
                f"<title>{told}</title></rect>"
            )

    def _find_x(self, at: float) -> float:
        """Where a time is, which is never beside the bars."""
        return BARS_FROM + self._scale.find_x(at)


def _list_ticks(scale: TimeScale) -> list[tuple[float, str]]:
    """Round times up to the end, four to eight or so, with their labels; none where a fold and its words are."""
    folds = scale.folds
    rough = (scale.end - sum(stop - start for start, stop in folds)) / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * number for number in (1, 2, 5, 10) if power * number >= rough)
    edges = [(scale.find_x(start) - TICK_ROOM, scale.find_x(stop) + TICK_ROOM) for start, stop in folds]
    ticks = [step * number for number in range(int(scale.end / step) + 1)]
    shown = (tick for tick in ticks if not any(left < scale.find_x(tick) < right for left, right in edges))
    return [(tick, _name_tick(tick, step) if folds else format_duration(tick) if tick else "0") for tick in shown]


def _name_tick(at: float, distance: float) -> str:
    """A time to the digit in which ticks differ: behind a fold they are nearer than usual words can tell."""
    digits = max(0, math.ceil(3 - math.log10(distance)))
    minutes, seconds = divmod(round(at / 1000, digits), 60)
    if not minutes:
        return f"{seconds:.{digits}f} s"
    return f"{minutes:.0f}:{seconds:0{digits + 3 if digits else 2}.{digits}f}"


def _find_columns(cells: Sequence[Any]) -> list[float]:
    """Where the cells beside the bars end, the last one at the margin."""
    return [WIDTH - MARGIN - 80.0 * (len(cells) - 1 - number) for number in range(len(cells))]


# How wide letters are at 13 px, in the widest font that systems have for their own words: DejaVu Sans, as Linux has it.
_BOLD: Final = 1.12
_WIDTHS: Final[Mapping[str, float]] = {
    **dict.fromkeys("ijlI|.,:;'` ", 4.5),
    **dict.fromkeys('frt()[]{}-!/\\"', 5.6),
    **dict.fromkeys("mwMW@%…—↳✓", 13.0),
}


def _measure(text: str) -> float:
    """About how wide a text is, in pixels, and rather more than less."""
    return sum(
        _WIDTHS.get(each) or (13.0 if east_asian_width(each) in "WF" else 10.0 if each.isupper() else 8.4)
        for each in text
    )


def _fit(text: str, room: float) -> str:
    """As much of a text as there is room for, in pixels, with an ellipsis where that is not all."""
    plain = " ".join(remove_control_characters(text).split())
    if _measure(plain) <= room:
        return plain
    while plain and _measure(f"{plain}…") > room:
        plain = plain[:-1]
    return f"{plain.rstrip()}…"


def _clean(text: str, longest: int = 200) -> str:
    plain = " ".join(remove_control_characters(text).split())
    return escape(plain if len(plain) <= longest else plain[: longest - 1] + "…")
