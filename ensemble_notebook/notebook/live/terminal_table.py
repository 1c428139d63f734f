"""The live table in terminal IPython (C30): the chart of the static picture, redrawn in place.

Only for a real terminal; redirected output can't be redrawn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.chart import MARKS, Chart, make_chart
from ensemble_notebook.notebook.picture.chart_lines import WIDTH, narrow_bar
from ensemble_notebook.notebook.picture.static_picture import COLORS
from ensemble_notebook.trace.spans.span_kinds import DONE_COLOR, ERROR_COLOR, IDLE_COLOR, TONE_COLORS

if TYPE_CHECKING:
    from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

_NEAREST: Final = {
    **dict.fromkeys((TONE_COLORS["person"], TONE_COLORS["pause"]), "yellow"),
    TONE_COLORS["model"]: "blue",
    TONE_COLORS["tool"]: "cyan",
    IDLE_COLOR: "bright_black",
    DONE_COLOR: "green",
    ERROR_COLOR: "red",
}
_STYLES: Final = {kind: _NEAREST[shade] for kind, shade in COLORS.items()}
_ENDLESS: Final = Console(width=10_000)
_NARROWEST: Final = 12
"""Columns of a bar, with fewer of which it would say nothing."""


class TerminalTable:
    """A view of a run in a terminal."""

    pulse_s: Final = 0.5

    def __init__(self, messages: TimelineMessages, console: Console) -> None:
        self._messages = messages
        self._console = console
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._start()

    def paint(self, _is_last: bool, /) -> None:
        """Draw the table again."""
        with self._lock:
            if self._live is not None:
                self._live.update(self._draw(), refresh=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The table is gone inside, so that a person can be asked something in its place."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def close(self) -> None:
        """Leave the last table behind, for good."""
        self._stop()
        self._console.print(self._draw())

    def _draw(self) -> Any:
        return draw_chart(make_chart(self._messages.make_snapshot()), self._console.width)

    def _start(self) -> None:
        with self._lock:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def _stop(self) -> None:
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None


def draw_chart(chart: Chart, room: int) -> Any:
    """A chart for rich, in so many columns: bars give way first, then names, which wrap; numbers never."""
    title = Text.assemble((f"{MARKS[chart.status]} {chart.title}", f"bold {_STYLES.get(chart.status, 'blue')}"))
    for fact in chart.facts:
        title.append(" · ", "bright_black").append(remove_control_characters(fact))
    table = _fill_table(chart, WIDTH)
    missing = Measurement.get(_ENDLESS, _ENDLESS.options, table).maximum - room
    if missing > 0:
        table = _fill_table(chart, max(_NARROWEST, WIDTH - missing))
    notes = []
    for line in chart.lines:
        style = _STYLES.get(line.status, "")
        notes += [Text(remove_control_characters(f"{line.name}: {note}"), style) for note in line.notes]
    notes += [Text(remove_control_characters(f"! {note}"), "yellow") for note in chart.notes]
    said = [Text(remove_control_characters(f"= {chart.sentence}"), "bold")] if chart.sentence else []
    return Group(title, table, *said, *notes)


def _fill_table(chart: Chart, columns: int) -> Table:
    """The lines of a chart, with bars of so many columns."""
    start, end = chart.axis
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="bright_black")
    for head in ("task", "agent"):
        table.add_column(head)
    table.add_column(start + end.rjust(columns - len(start)), no_wrap=True)
    for head in chart.heads:
        table.add_column(head, justify="right", no_wrap=True)
    for line in chart.lines:
        name = Text.assemble(
            "  " * line.depth,
            (MARKS[line.status], _STYLES.get(line.status, "")),
            " ",
            ("↳ " if line.is_worker else "", "bright_black"),
            (remove_control_characters(line.name), "bold" if line.is_phase else ""),
        )
        pieces = line.bar if columns == WIDTH else narrow_bar(line.bar, columns)
        bar = Text.assemble(*((piece.text, _STYLES.get(piece.kind, "")) for piece in pieces))
        cells = map(remove_control_characters, line.cells)
        table.add_row(name, Text(remove_control_characters(line.agent), "bright_black"), bar, *cells)
    return table
