"""Where a cell shows its run: a notebook, a notebook without a reader, or a terminal (C30).

A display is opened with the plan, may follow the run, and is closed with its result. Its outputs are created while the
cell runs, and only updated later: one created later might land in another cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from IPython.display import display as untyped_display

from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.live.answer import find_answer
from ensemble_notebook.notebook.live.display_mode import DisplayMode, find_cell_id
from ensemble_notebook.notebook.live.feed_bundle import add_feed_id, make_feed_bundle
from ensemble_notebook.notebook.live.feed_registry import keep_feed
from ensemble_notebook.notebook.live.page_channel import find_page_channels
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.notebook.live.run_painter import RunPainter
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle, make_plan_bundle, make_snapshot_bundle

if TYPE_CHECKING:
    from ensemble_notebook.domain.definitions.cost import CostConfiguration
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.ensemble.run_handle import RunHandle
    from ensemble_notebook.notebook.live.cell_reviewer import CellReviewer
    from ensemble_notebook.notebook.live.terminal_table import TerminalTable

display: Any = untyped_display


class RunDisplay(Protocol):
    """The place of one run.

    Attributes:
        listeners: what has to hear of the run, so that it can be followed.
        has_buttons: a person may be able to answer in what is shown.
    """

    listeners: Sequence[Any]
    has_buttons: bool

    def open(self, plan: ExecutionPlan) -> None:
        """First sign of life."""

    def follow(self, handle: RunHandle, reviewer: CellReviewer, /) -> None:
        """Show the run while it goes on, with what it asks."""

    def paused(self) -> AbstractContextManager[None]:
        """Whatever moves rests inside, so that there can be a prompt."""

    def close(self, output: EnsembleOutput | None, result: MapResult | None = None) -> None:
        """Show what stays; None where the run was given up before it had an end. `result` is that of a map."""


def make_run_display(
    mode: DisplayMode,
    cost: CostConfiguration | None,
    *,
    variable: str,
    cell: str,
    has_timeline: bool,
    is_background: bool,
) -> RunDisplay:
    """The display of a cell, which the notebook calls `cell`.

    `cost` are the ensemble's own rates, `variable` will have its output or its handle.
    """
    expression = f"{variable}.result()" if is_background else variable
    if mode is DisplayMode.TEXT:
        painter = RunPainter(cost, variable, cell)
        return TerminalDisplay(
            painter, expression, variable, cell, has_timeline=has_timeline, is_background=is_background
        )
    live = RunPainter(cost, variable, cell) if mode is DisplayMode.WIDGET and has_timeline else None
    return NotebookDisplay(live, expression, variable, cell, has_timeline=has_timeline, is_background=is_background)


class NotebookDisplay:
    """Two outputs: the timeline, which ends as a static picture, and the answer below it.

    The widget comes second: a table of what is planned can be shown before the widget's library is imported.
    """

    def __init__(
        self,
        live: RunPainter | None,
        expression: str,
        variable: str,
        cell: str,
        *,
        has_timeline: bool,
        is_background: bool,
    ) -> None:
        self.listeners: Sequence[Any] = () if live is None else (live,)
        self.has_buttons = live is not None
        self._live = live
        self._expression = expression
        self._variable = variable
        self._cell = cell
        self._has_timeline = has_timeline
        self._is_background = is_background
        self._timeline: Any = None
        self._answer: Any = None
        self._feed: RunFeed | None = None

    def open(self, plan: ExecutionPlan) -> None:
        if self._has_timeline:
            self._timeline = display(make_plan_bundle(plan, "starting"), raw=True, display_id=True)
        if self._is_background:
            # The cell is over when the answer comes: its place has to be made now.
            self._answer = display(_make_text_bundle(""), raw=True, display_id=True)

    def follow(self, handle: RunHandle, reviewer: CellReviewer, /) -> None:
        if self._live is not None:
            self._feed = RunFeed(self._live.messages, handle.cancel, reviewer, find_cell_id())
            if (channels := find_page_channels()) is not None:
                channels.tell_feeds()
            self._timeline.update(_make_live_bundle(self._feed), raw=True)
            self._live.show(self._feed)

    def paused(self) -> AbstractContextManager[None]:
        """A page goes on by itself; nothing is in the way of a prompt."""
        return nullcontext()

    def close(self, output: EnsembleOutput | None, result: MapResult | None = None) -> None:
        if self._live is not None:
            self._live.close()
        if self._feed is not None and output is not None:
            keep_feed(output, self._feed)
        last = []
        if self._timeline is not None:
            last.append(self._make_last_picture(output))
            self._timeline.update(last[0], raw=True)
        if (bundle := _make_answer_bundle(output, result, self._expression)) is not None:
            last.append(bundle)
            if self._answer is None:
                display(bundle, raw=True)
            else:
                self._answer.update(bundle, raw=True)
        channels = find_page_channels()
        if channels is not None and self._feed is not None:
            channels.end_run(self._feed, last, is_in_cell=not self._is_background)

    def _make_last_picture(self, output: EnsembleOutput | None) -> dict[str, Any]:
        if output is not None:
            live = None if self._live is None else self._live.messages
            bundle = make_output_bundle(output, self._expression, live, self._cell, self._variable)
            return add_feed_id(bundle, self._feed)
        return (
            _make_text_bundle("") if self._live is None else make_snapshot_bundle(self._live.messages.make_snapshot())
        )


class TerminalDisplay:
    """A table that moves while the cell runs, and the answer below it. In the background nothing is shown."""

    has_buttons = False

    def __init__(
        self, live: RunPainter, expression: str, variable: str, cell: str, *, has_timeline: bool, is_background: bool
    ) -> None:
        from rich.console import Console

        self._expression = expression
        self._variable = variable
        self._cell = cell
        self._has_timeline = has_timeline and not is_background
        self._has_answer = not is_background
        self._console = Console(force_jupyter=False)
        self._live = live if self._has_timeline and self._console.is_terminal else None
        self.listeners: Sequence[Any] = () if self._live is None else (self._live,)
        self._table: TerminalTable | None = None

    def open(self, plan: ExecutionPlan) -> None:
        """The table appears with its first event, which is there at once."""

    def follow(self, _handle: RunHandle, _reviewer: CellReviewer, /) -> None:
        if self._live is not None:
            from ensemble_notebook.notebook.live.terminal_table import TerminalTable

            self._table = TerminalTable(self._live.messages, self._console)
            self._live.show(self._table)

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext() if self._table is None else self._table.paused()

    def close(self, output: EnsembleOutput | None, result: MapResult | None = None) -> None:
        if self._live is not None:
            self._live.close()
        if self._table is not None:
            self._table.close()
            for warning in () if output is None else output.late_warnings:
                display(_make_text_bundle(f"! {remove_control_characters(warning)}"), raw=True)
        elif self._has_timeline and output is not None:
            bundle = make_output_bundle(output, cell=self._cell, variable=self._variable)
            display(_make_text_bundle(bundle["text/plain"]), raw=True)
        answer = _make_answer_bundle(output, result, self._expression) if self._has_answer else None
        if answer is not None:
            display(_make_text_bundle(f"\n{answer['text/plain']}"), raw=True)


def _make_live_bundle(feed: RunFeed) -> dict[str, Any]:
    """A run as it is first shown: with a widget, unless a page is there that shows it without, and sooner."""
    channels = find_page_channels()
    if channels is not None and channels.has_pages:
        return make_feed_bundle(feed)
    from ensemble_notebook.notebook.live.timeline_widget import show_feed

    bundle: dict[str, Any] = show_feed(feed)._repr_mimebundle_()[0]
    return bundle


def _make_answer_bundle(
    output: EnsembleOutput | None, result: MapResult | None, expression: str
) -> dict[str, Any] | None:
    """What stands below a run that is over: its answer, or the first rows of a map; None where there is none."""
    if result is not None:
        from ensemble_notebook.notebook.picture.map_picture import make_map_bundle

        return make_map_bundle(result, expression)
    answer = find_answer(output, f"{expression}.raw")
    return None if answer is None else {"text/plain": answer.plain, "text/markdown": answer.markdown}


def _make_text_bundle(text: str) -> dict[str, Any]:
    return {"text/plain": text}
