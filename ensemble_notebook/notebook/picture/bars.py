"""The bar of one task: its share of the time axis in block characters.

Characters survive everywhere: in a sanitiser, a page without styles, a terminal, a mail. Each kind has a glyph of its
own, so that a bar can be read without colour. The glyphs of spans are in the table of span kinds, the others here.
Pure; knows neither lines nor renderers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final

from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.trace.spans.span_kinds import BarMark, SpanKind

WIDTH: Final = 40
"""Columns of a bar."""

GAP: Final = "gap"
STARTUP: Final = "startup"
# A back-off is no span: it lies behind a failed attempt, and looks like a wait. A startup is a wait of the whole run.
MARKS_OF_PARTS: Final[Mapping[str, BarMark]] = {
    **{kind.value: kind.traits.bar for kind in SpanKind if kind.traits.bar is not None},
    "backoff": BarMark(glyph="┄", word="back-off", tone="pause", level=5),
    STARTUP: BarMark(glyph="╍", word="startup", tone="pause", level=7),
}
GLYPHS: Final = {
    GAP: " ",
    "task": "─",
    "handler": "▆",
    "reused": "▨",
    **{name: mark.glyph for name, mark in MARKS_OF_PARTS.items()},
    "running": "▸",
    "error": "✕",
    "cancelled": "⊘",
    "interrupted": "⊘",
    "pending": "░",
    "critical": "▒",
}

_ORDER: Final = sorted(MARKS_OF_PARTS, key=lambda name: MARKS_OF_PARTS[name].level)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A stretch of one bar: its characters, and the key of `GLYPHS` that they stand for."""

    text: str
    kind: str


def find_stop(row: Row, end: float) -> float:
    """When a span ended, or now, where it has not."""
    value = row.get("end_ms")
    return end if value is None else float(value)


def draw_task_bar(row: Row, parts: Sequence[Row], end: float) -> tuple[BarPiece, ...]:
    """A task's extent, on it its calls and back-offs, behind it a mark where it did not end well or is going on."""
    if row.get("start_ms") is None:
        return ()
    first, last = _to_columns(row["start_ms"], find_stop(row, end), end)
    kind = find_task_kind(row, parts)
    cells = [GAP] * first + [kind] * (last - first)
    for kind in _ORDER:
        for part in parts:
            if (stretch := _find_columns(part, kind, end)) is not None:
                left, right = stretch[0], min(stretch[1], last)
                cells[left:right] = [kind] * (right - left)
    return tuple(_join_columns([*cells, *_mark_end(row)]))


def draw_startup_bar(row: Row, end: float) -> tuple[BarPiece, ...]:
    """The extent of a startup, and a mark where it did not end well or is going on (E57)."""
    first, last = _to_columns(row["start_ms"], find_stop(row, end), end)
    cells = [GAP] * first + [STARTUP] * (last - first)
    return tuple(_join_columns([*cells, *_mark_end(row)]))


def _mark_end(row: Row) -> list[str]:
    """The mark behind a bar that did not end well or is going on, which a span that waits is, too."""
    if row["status"] in ("running", "waiting"):
        return ["running"]
    return [row["status"]] if row["status"] in ("error", "cancelled", "interrupted") else []


def find_task_kind(row: Row, parts: Sequence[Row]) -> str:
    """What the extent of a task is drawn as: reused, plain code, or what lies between the calls of an agent."""
    if row.get("reused"):
        return "reused"
    # An agent has its own name, also before its first call.
    is_handler = (row.get("agent") or HANDLER_ROLE) == HANDLER_ROLE
    return "handler" if is_handler and not parts else "task"


def _find_columns(part: Row, kind: str, end: float) -> tuple[int, int] | None:
    """Where a part of a task lies, if it is of this kind; a failed attempt's back-off lies behind it."""
    start, stop = part.get("start_ms"), find_stop(part, end)
    if kind == "backoff" and part["kind"] == "attempt" and part.get("backoff_ms"):
        return _to_columns(stop, stop + part["backoff_ms"], end)
    return _to_columns(start, stop, end) if kind == part["kind"] and start is not None else None


def _to_columns(start: float, stop: float, end: float) -> tuple[int, int]:
    """First column and the one past the last, at least one wide and inside the bar."""
    # The start is rounded down: a short stretch then lies in the column in which it began. The stop is rounded to the
    # nearest: rounded down, each stretch would look too short; rounded up, it would cover the start of the next one.
    first = min(int(start / end * WIDTH), WIDTH - 1)
    return first, max(min(round(stop / end * WIDTH), WIDTH), first + 1)


def _join_columns(cells: Sequence[str]) -> Iterable[BarPiece]:
    for kind, run in groupby(cells):
        yield BarPiece(GLYPHS[kind] * len(list(run)), kind)


def narrow_bar(bar: Iterable[BarPiece], columns: int) -> tuple[BarPiece, ...]:
    """The same bar in fewer columns. Of what falls into one column, the shortest piece is shown, lest it be lost."""
    pieces = [*bar]
    cells = [piece for piece in pieces for _ in piece.text]
    inside, mark = cells[:WIDTH], cells[WIDTH:]
    lengths = {id(piece): (piece.kind == GAP, len(piece.text)) for piece in pieces}
    stops = [-(-column * WIDTH // columns) for column in range(columns + 1)]
    stretches = [inside[first:last] for first, last in pairwise(stops)]
    shown = [min(each, key=lambda piece: lengths[id(piece)]).kind for each in stretches if each]
    return tuple(_join_columns([*shown, *(piece.kind for piece in mark)]))


def draw_level_bar(level: int, levels: int, *, is_critical: bool) -> tuple[BarPiece, ...]:
    """The bar of a planned task: its level, counted from 0, each of `levels` as wide as the others."""
    first = level * WIDTH // levels
    last = max((level + 1) * WIDTH // levels, first + 1)
    return tuple(_join_columns([GAP] * first + ["critical" if is_critical else "pending"] * (last - first)))
