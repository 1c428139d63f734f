"""A verdict as a page shows it (V12): its sentence, a table, dots with intervals, and quality against cost.

The drawings take the colour of the text around them, so that they read well in light and dark. Where a page leaves them
out, the sentence and the table say the same; where it leaves out their elements only, their words are a sentence, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.wording import UNKNOWN, format_duration, format_money
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.evaluation.clear_verdict import PLAIN
from ensemble_notebook.evaluation.comparison import Comparison, Difference, Pair
from ensemble_notebook.evaluation.summary import Scale, Unit, format_p
from ensemble_notebook.notebook.picture.html_table import (
    FAINT,
    Bundle,
    Column,
    Html,
    Line,
    make_bundle,
    tag,
    wrap,
    write_table,
)
from ensemble_notebook.trace.spans.span_kinds import DONE_COLOR, ERROR_COLOR, IDLE_COLOR, TONE_COLORS

if TYPE_CHECKING:
    from ensemble_notebook.evaluation.score_history import ScoreHistory
    from ensemble_notebook.evaluation.summary import SideSummary

_WIDTH: Final = 460
_LINE: Final = 26
_LEFT: Final = 120
_LONGEST_TEXT: Final = 36
_HEIGHT: Final = 220
_MARGIN: Final = 14
_LABEL: Final = 14
_BESIDE: Final = 9
_LETTER: Final = 7.5
"""How wide a letter is on average where a font is wide; most are narrower."""
_SIDE_BY_SIDE: Final = "display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start;margin-top:6px"
_SHADES: Final = (TONE_COLORS["model"], TONE_COLORS["tool"], TONE_COLORS["person"], DONE_COLOR, ERROR_COLOR, IDLE_COLOR)


def make_comparison_bundle(comparison: Comparison) -> Bundle:
    """A verdict as plain text, which is its sentence, and as HTML."""
    pairs = comparison.pairs
    said = [tag("div", tag("strong", line)) for line in comparison.describe().splitlines()]
    drawings = []
    if _list_intervals(comparison):
        drawings.append(draw_differences(comparison))
    if all(side.cost is not None and side.mean is not None for side in comparison.sides) and any(
        side.cost for side in comparison.sides
    ):
        drawings.append(draw_quality(comparison))
    pictures = tag("div", *drawings, style=_SIDE_BY_SIDE)
    of_interval = _name_intervals(comparison)
    numbers = ("rows", "mean", "difference", of_interval, "p", "cost", "at work")
    heads = (Column(""), *(Column(head, is_number=True) for head in numbers))
    html = wrap(*said, write_table(heads, _list_lines(comparison, pairs)), pictures)
    return make_bundle(repr(comparison), html)


def _name_intervals(comparison: Comparison) -> str:
    """Of which kind the intervals are."""
    kind = comparison.pairs[0].kind
    return f"{PLAIN} each, not adjusted" if kind == PLAIN else kind


def _list_lines(comparison: Comparison, pairs: Sequence[Pair]) -> Iterator[Line]:
    """A line for the baseline, and one for each that is compared with it."""
    baseline, *others = comparison.sides
    yield Line(
        cells=[
            baseline.variant,
            f"{baseline.rows:,}",
            _write_mean(pairs[0], baseline.mean),
            *[""] * 3,
            *_write_spent(baseline, pairs[0], is_baseline=True),
        ]
    )
    for pair, side in zip(pairs, others, strict=True):
        if pair.difference is None:
            cells = [UNKNOWN] * 3
        else:
            unit = pair.question.unit
            size, *ends = Scale([pair.difference.value, *(pair.interval or ())], unit).write_signed()
            cells = [size, f"{ends[0]} to {ends[1]}" if ends else UNKNOWN, format_p(pair.adjusted_p).removeprefix("= ")]
        spent = _write_spent(side, pair, is_baseline=False)
        yield Line(cells=[side.variant, f"{side.rows:,}", _write_mean(pair, side.mean), *cells, *spent])


def _write_mean(pair: Pair, mean: float | None) -> str:
    if mean is None:
        return UNKNOWN
    unit: Unit = "%" if pair.question.is_share else ""
    return Scale([mean], unit).write_all()[0] if unit else f"{mean:.3g}"


def _write_spent(side: SideSummary, pair: Pair, *, is_baseline: bool) -> list[str]:
    """What a run costs and takes; of what is compared, with the difference from the baseline."""
    cost, time = format_money(side.cost, pair.currency), format_duration(side.active_ms)
    if is_baseline:
        return [cost, time]
    more_cost = _write_more(pair.costs, lambda amount: format_money(amount, pair.currency))
    return [f"{cost}{more_cost}", f"{time}{_write_more(pair.times, format_duration)}"]


def _write_more(difference: Difference | None, write: Callable[[float], str]) -> str:
    if difference is None or not difference.value:
        return ""
    return f" ({'+' if difference.value > 0 else '-'}{write(abs(difference.value))})"


# --- Drawings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where values stand: from `low` to `high`, between two places in pixels."""

    low: float
    high: float
    start: float
    end: float

    def find(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


def _list_intervals(comparison: Comparison) -> list[tuple[Pair, float, tuple[float, float]]]:
    """The pairs of which a difference with an interval is known."""
    return [
        (each, each.difference.value, each.interval)
        for each in comparison.pairs
        if each.interval is not None and each.difference is not None
    ]


def _scale_intervals(
    shown: list[tuple[Pair, float, tuple[float, float]]], start: float, end: float
) -> tuple[_Axis, tuple[str, str]]:
    """An axis on which all of these intervals and no difference have room, and the words at its ends."""
    ends = [0.0, *(end for _, _, interval in shown for end in interval)]
    axis = _Axis(min(ends), max(ends), start, end)
    first, last = Scale([axis.low, axis.high], shown[0][0].question.unit).write_signed()
    return axis, (first, last)


def draw_differences(comparison: Comparison) -> Html:
    """A dot with its interval for each comparison, beside the line of the baseline."""
    shown = _list_intervals(comparison)
    axis, (first, last) = _scale_intervals(shown, _LEFT + _MARGIN, _WIDTH - _MARGIN)
    bottom, zero, baseline = 24 + _LINE * len(shown), axis.find(0), shown[0][0].a.name
    parts = [
        _write(axis.start, bottom + 14, first, before=", on a line from ", is_faint=True),
        _write(axis.end, bottom + 14, last, before=" to ", anchor="end", is_faint=True),
        _write(zero, 12, f"as {baseline}", before=" on which no difference is ", anchor="middle", is_faint=True),
        _stroke(zero, 18, zero, bottom, is_faint=True),
    ]
    for number, (pair, difference, interval) in enumerate(shown):
        y = 24 + _LINE * number + _LINE / 2
        low, high = map(axis.find, interval)
        shade = IDLE_COLOR
        if pair.better is not None:
            shade = DONE_COLOR if pair.better == pair.b.name else ERROR_COLOR
        elif pair.is_different:
            shade = TONE_COLORS["model"]
        size, *said = Scale([difference, *interval], pair.question.unit).write_signed()
        parts += [
            _write(0, y + 4, pair.b.name, before="; "),
            _connect(f": {size}, {' to '.join(said)}"),
            _stroke(low, y, high, y, shade),
            _dot(axis.find(difference), y, shade),
        ]
    kind = "95% intervals, not adjusted" if shown[0][0].running is None else f"intervals: {_name_intervals(comparison)}"
    title = f"Differences from {baseline}, with {kind}"
    return _frame(title, bottom + 20, parts)


def draw_quality(comparison: Comparison) -> Html:
    """Means with their intervals, over what a run costs."""
    sides, question, currency = comparison.sides, comparison.pairs[0].question, comparison.pairs[0].currency
    costs = [side.cost or 0.0 for side in sides]
    ends = [end for side in sides for end in (side.mean or 0.0, *(side.interval or ()))]
    x, y = _Axis(0.0, max(costs), 50, _WIDTH - 90), _Axis(min(ends), max(ends), _HEIGHT - 30, _MARGIN + 16)
    unit: Unit = "%" if question.is_share else ""
    lowest, highest = (Scale([end], unit).write_all()[0] for end in (y.low, y.high))
    dearest = f"{format_money(x.high, currency)} a run"
    parts = [
        _stroke(x.start, y.start, x.end, y.start, is_faint=True),
        _stroke(x.start, y.start, x.start, y.end, is_faint=True),
        _write(0, 12, question.score, before=": ", is_faint=True),
        _write(x.start - 6, y.start + 4, lowest, before=" from ", anchor="end", is_faint=True),
        _write(x.start - 6, y.end + 4, highest, before=" to ", anchor="end", is_faint=True),
        _write(x.start, y.start + 16, "0", before=", cost from ", is_faint=True),
        _write(x.end, y.start + 16, dearest, before=" to ", anchor="middle", is_faint=True),
    ]
    labels: list[_Label] = []
    for side, cost in zip(sides, costs, strict=True):
        at, middle = x.find(cost), y.find(side.mean or 0.0)
        if side.interval is not None:
            parts.append(_stroke(at, y.find(side.interval[0]), at, y.find(side.interval[1]), TONE_COLORS["model"]))
        parts.append(_dot(at, middle, TONE_COLORS["model"]))
        mean = _write_mean(comparison.pairs[0], side.mean)
        labels.append(_Label(at, middle, side.variant, f": {mean}"))  # a second dollar sign would make a formula
    parts += _write_labels(labels)
    return _frame(f"{question.score} against cost", _HEIGHT, parts)


def make_history_bundle(history: ScoreHistory) -> Bundle:
    """A score over maps as plain text, and as HTML with a drawing above the lines."""
    lines = [tag("div", history.describe_point(each)) for each in history.points]
    return make_bundle(repr(history), wrap(draw_history(history), *lines))


def draw_history(history: ScoreHistory) -> Html:
    """Means with their intervals, map after map; a colour for each variant."""
    shown = [each for each in history.points if each.summary.mean is not None]
    ends = [end for each in shown for end in (each.summary.mean or 0.0, *(each.summary.interval or ()))] or [0.0, 1.0]
    maps = list(dict.fromkeys(each.map_run_id for each in shown))
    variants = list(dict.fromkeys(each.summary.variant for each in shown))
    x, y = _Axis(0, max(1, len(maps) - 1), 60, _WIDTH - 90), _Axis(min(ends), max(ends), _HEIGHT - 40, _MARGIN + 16)
    unit: Unit = "%" if history.question.is_share else ""
    parts = [
        _write(0, 12, history.question.score, before=": ", is_faint=True),
        _stroke(50, y.start, x.end, y.start, is_faint=True),
    ]
    for word, end in ((" from ", y.low), (" to ", y.high)):
        said = Scale([end], unit).write_all()[0]
        parts.append(_write(44, y.find(end) + 4, said, before=word, anchor="end", is_faint=True))
    times = {each.map_run_id: f"{each.start_time.astimezone():%Y-%m-%d %H:%M}" for each in shown}
    for place in sorted({0, len(maps) - 1} if maps else ()):
        word, anchor = (" to ", "middle") if place else (", from ", "start")
        when = times[maps[place]]
        parts.append(_write(x.find(place), y.start + 18, when, before=word, anchor=anchor, is_faint=True))
    labels: list[_Label] = []
    for each in shown:
        place = variants.index(each.summary.variant)
        shade = _SHADES[place % len(_SHADES)]
        at = x.find(maps.index(each.map_run_id)) + 7 * (place - (len(variants) - 1) / 2)
        if each.summary.interval is not None:
            low, high = map(y.find, each.summary.interval)
            parts.append(_stroke(at, low, at, high, shade))
        parts.append(_dot(at, y.find(each.summary.mean or 0.0), shade))
        if each.map_run_id == maps[-1] and each.summary.variant:
            said = f": {Scale([each.summary.mean or 0.0], unit).write_all()[0]} at last"
            labels.append(_Label(at, y.find(each.summary.mean or 0.0), each.summary.variant, said))
    parts += _write_labels(labels)
    return _frame(f"{history.question.score} over {len(maps)} maps, with 95% intervals", _HEIGHT, parts)


@dataclass(frozen=True, slots=True)
class _Label:
    """A name beside a dot, and what is said of it where no dot is seen."""

    x: float
    y: float
    name: str
    said: str


def _write_labels(labels: Sequence[_Label]) -> Iterator[Html]:
    """Names beside dots, on the side that has room, one below the other where they would lie over each other."""
    placed: list[tuple[float, float, float]] = []
    for label in sorted(labels, key=lambda each: each.y):
        width = min(len(label.name), _LONGEST_TEXT) * _LETTER
        is_left = label.x + _BESIDE + width > _WIDTH and label.x - _BESIDE - width > 0
        left, y = label.x - _BESIDE - width if is_left else label.x + _BESIDE, label.y
        for other_left, other_right, other_y in placed:  # from the highest on, so that one move is enough for each
            if left < other_right and other_left < left + width and y < other_y + _LABEL:
                y = other_y + _LABEL
        placed.append((left, left + width, y))
        at, anchor = (label.x - _BESIDE, "end") if is_left else (left, "start")
        yield from (_write(at, y + 4, label.name, before="; ", anchor=anchor), _connect(label.said))


def _connect(words: str) -> Html:
    """Words that join those of a drawing to a sentence where a page drops its elements, as JupyterLab does.

    No browser draws them: in SVG a text is drawn in an element of text alone.
    """
    return Html(escape(words))


def _frame(title: str, height: float, parts: Sequence[Html]) -> Html:
    inside = [Html(f"<title>{_escape(title)}</title>"), *parts, _connect(". ")]
    return tag(
        "svg",
        *inside,
        style=f"max-width:100%;width:{_WIDTH}px;font:12px system-ui,sans-serif;overflow:visible",
        viewBox=f"0 0 {_WIDTH} {height:g}",
        role="img",
    )


def _write(x: float, y: float, text: str, *, before: str = "", anchor: str = "start", is_faint: bool = False) -> Html:
    """A text, and before it words that join it to a sentence."""
    plain = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
    style = f"fill:currentColor{f';{FAINT}' if is_faint else ''}"
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return Html(f'{_connect(before)}<text {place} style="{style}">{_escape(plain)}</text>')


def _stroke(x1: float, y1: float, x2: float, y2: float, shade: str = "currentColor", *, is_faint: bool = False) -> Html:
    look = "stroke-width:1;opacity:0.4" if is_faint else "stroke-width:2"
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return Html(f'<line {place} style="stroke:{shade};{look}"></line>')


def _dot(x: float, y: float, shade: str) -> Html:
    return Html(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" style="fill:{shade}"></circle>')


def _escape(text: str) -> str:
    """A text in a drawing, where an element of HTML would end it: a dollar sign stands alone in each, so no formula."""
    return escape(" ".join(remove_control_characters(text).split()))


# --- In a text: for a terminal's log, and for pull requests -----------------------------------------------------------

_TEXT_WIDTH: Final = 41


def draw_text(comparison: Comparison) -> str:
    """The same dots and intervals in characters, where a page shows no drawing."""
    shown = _list_intervals(comparison)
    if not shown:
        return ""
    axis, (first, last) = _scale_intervals(shown, 0, _TEXT_WIDTH - 1)
    width = max(len(each.b.name) for each, _, _ in shown)
    lines = [" " * (width + 2) + first + last.rjust(_TEXT_WIDTH - len(first))]
    for pair, difference, interval in shown:
        cells = [" "] * _TEXT_WIDTH
        cells[round(axis.find(0))] = "┊"
        low, high = (round(axis.find(end)) for end in interval)
        cells[low : high + 1] = "├" + "─" * (high - low - 1) + "┤" if high > low else "│"
        cells[round(axis.find(difference))] = "●"
        lines.append(f"{pair.b.name.ljust(width)}  {''.join(cells)}")
    return "\n".join(lines)
