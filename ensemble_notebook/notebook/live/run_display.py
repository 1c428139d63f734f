"""Where a cell shows its run: a notebook, a notebook without a reader, or a terminal (C30).

A display is opened with the plan, may follow the run, and is closed with its result. Its outputs are created while the
cell runs, and only updated later: one created later might land in another cell.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from IPython.core.getipython import get_ipython
from IPython.display import display as untyped_display

from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.live.frontend import DisplayMode, choose_display_mode, find_cell_id
from ensemble_notebook.notebook.live.page_channel import find_page_channels
from ensemble_notebook.notebook.live.run_feed import RunFeed, keep_feed
from ensemble_notebook.notebook.live.run_painter import REST_SHARE, LiveView, RunPainter
from ensemble_notebook.notebook.live.timeline_widget import add_feed_id, make_feed_bundle, offer_tryouts, show_feed
from ensemble_notebook.notebook.picture.answer_picture import make_answer_bundle
from ensemble_notebook.notebook.picture.static_picture import (
    TRACE_MIME,
    make_first_bundle,
    make_interim_bundle,
    make_output_bundle,
)
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.domain.definitions.limits import CostConfiguration
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.ensemble.person import Person
    from ensemble_notebook.notebook.live.terminal_table import TerminalTable
    from ensemble_notebook.notebook.picture.html_table import Bundle


# --- The picture of a run that goes on, for whatever saves the notebook meanwhile (W24) -------------------------------


logger = logging.getLogger(__name__)

PICTURE_S: Final = 5.0
"""How old the picture in a notebook's file may be of what was known when it was saved."""


class KeptPicture:
    """Has a picture of the run brought up to date every few seconds, beside the view that a person watches, if any.

    Args:
        messages: about the run.
        keep: takes the picture.
        view: of who watches.
    """

    def __init__(
        self, messages: TimelineMessages, keep: Callable[[Bundle], None], view: LiveView | None = None
    ) -> None:
        self._messages = messages
        self._keep = keep
        self._view = view
        self._due = time.monotonic() + PICTURE_S

    @property
    def pulse_s(self) -> float | None:
        """Until the next picture, or sooner where the view wants it."""
        wished = None if self._view is None else self._view.pulse_s
        left = max(0.0, self._due - time.monotonic())
        return left if wished is None else min(left, wished)

    def paint(self, is_last: bool, /) -> None:
        """Show what has changed; what stays after the end is not made here."""
        if self._view is not None:
            self._view.paint(is_last)
        if is_last or time.monotonic() < self._due:
            return
        began_s = time.thread_time()
        try:
            self._keep(make_interim_bundle(self._messages))
        except Exception:  # who watches goes on
            logger.exception("The picture of a run that goes on can't be kept.")
        self._due = time.monotonic() + max(PICTURE_S, REST_SHARE * (time.thread_time() - began_s))


display: Any = untyped_display


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCell:
    """A cell whose run is shown.

    Attributes:
        variable: will have its output, or its handle; empty where none will.
        cell: what the notebook calls it; None where its run can't be resumed from it.
        has_timeline: the timeline is shown, too.
        is_background: it is over before its run is.
        view: in which its timeline opens; None: in the one that says most.
        has_answer: the final answer is shown below it.
    """

    variable: str
    cell: str | None
    has_timeline: bool
    is_background: bool
    view: str | None = None
    has_answer: bool = True

    @property
    def expression(self) -> str:
        """What gives the output in the notebook; empty where nothing does."""
        return f"{self.variable}.result()" if self.is_background and self.variable else self.variable


RunDisplay: TypeAlias = "NotebookDisplay | TerminalDisplay"


def make_run_display(mode: DisplayMode, cost: CostConfiguration | None, shown: ShownCell) -> RunDisplay:
    """The display of a cell; `cost` are the ensemble's own rates."""
    if mode is DisplayMode.TEXT:
        return TerminalDisplay(RunPainter(cost, shown.variable, shown.cell), shown)
    is_watched = mode is DisplayMode.WIDGET
    live = None
    if shown.has_timeline:
        live = RunPainter(cost, shown.variable or None, shown.cell, wants_tokens=is_watched, view=shown.view)
    return NotebookDisplay(live, shown, is_watched=is_watched)


class NotebookDisplay:
    """Two outputs: the timeline, which ends as a static picture, and the answer below it.

    The widget comes second: a table of what is planned can be shown before the widget's library is imported.

    Attributes:
        listeners: what has to hear of the run, so that it can be followed.
        has_buttons: a person may be able to answer in what is shown.
        is_watched: a person sees the run while it goes on.
    """

    def __init__(self, live: RunPainter | None, shown: ShownCell, *, is_watched: bool) -> None:
        self.listeners: Sequence[Any] = () if live is None else (live,)
        self.has_buttons = self.is_watched = live is not None and is_watched
        self._live, self._shown = live, shown
        self._plan: Bundle = {}
        self._timeline: Any = None
        self._answer: Any = None
        self._feed: RunFeed | None = None

    def open(self, plan: ExecutionPlan | None) -> None:
        """First sign of life; without a plan, that there is something."""
        if self._shown.has_timeline:
            self._plan = {} if plan is None else make_first_bundle(plan)
            self._timeline = display(self._plan or _make_text_bundle(""), raw=True, display_id=True)
        if self._shown.is_background and self._shown.has_answer:
            # The cell is over when the answer comes: its place has to be made now.
            self._answer = display(_make_text_bundle(""), raw=True, display_id=True)

    def say(self, text: str) -> None:
        """Show what is being done before the run begins."""
        if self._timeline is not None:
            self._timeline.update(_make_text_bundle(text), raw=True)

    def follow(self, stop: Callable[[], None] | None, reviewer: Person | None, /) -> None:
        """Show the run while it goes on, with what it asks; `stop` stops it, None: nothing does."""
        if self._live is None:
            return
        if self.is_watched:
            self._feed = RunFeed(self._live.messages, stop, reviewer, find_cell_id())
            channels = find_page_channels()
            if channels is not None:
                channels.tell_feeds()
            # A page that is there shows a run without a widget, and sooner.
            is_shown = channels is not None and channels.has_pages
            live = make_feed_bundle(self._feed) if is_shown else show_feed(self._feed)._repr_mimebundle_()[0]
            # Nothing is known of the run yet, but what it is going to do.
            self._timeline.update({**live, **self._plan}, raw=True)
        self._live.show(KeptPicture(self._live.messages, self._keep_picture, self._feed))

    def _keep_picture(self, picture: Bundle) -> None:
        """Put a picture of the run into the cell, and where pages show the run by its feed, into theirs.

        Not where a widget shows it: it would be made anew.
        """
        channels = find_page_channels()
        if self._feed is None:
            self._timeline.update(picture, raw=True)
        elif channels is not None and channels.has_pages:
            bundle = add_feed_id({**picture, TRACE_MIME: {"kind": "live"}}, self._feed)
            self._timeline.update(bundle, raw=True)
            channels.tell_picture(self._feed, picture)

    def paused(self) -> AbstractContextManager[None]:
        """A page goes on by itself; nothing is in the way of a prompt."""
        return nullcontext()

    def close(self, output: EnsembleOutput | None, result: MapResult | None = None) -> None:
        """Show what stays; None where the run was given up before it had an end. `result` is that of a map."""
        if self._live is not None:
            self._live.close(has_end=output is not None)
        if self._feed is not None and output is not None:
            keep_feed(output, self._feed)
            offer_tryouts(output, self._feed, result)
        last = []
        if self._timeline is not None:
            last.append(self._make_last_picture(output))
            self._timeline.update(last[0], raw=True)
            if self._feed is not None and output is not None:
                self._feed.renew_picture = partial(self._renew_picture, weakref.ref(output))
        has_answer = self._shown.has_answer
        if has_answer and (bundle := make_answer_bundle(output, result, self._shown.expression)) is not None:
            last.append(bundle)
            if self._answer is None:
                display(bundle, raw=True)
            else:
                self._answer.update(bundle, raw=True)
        channels = find_page_channels()
        if channels is not None and self._feed is not None:
            channels.end_run(self._feed, last, is_in_cell=not self._shown.is_background)

    def _renew_picture(self, output: Callable[[], EnsembleOutput | None]) -> None:
        """Keep in the cell what was said of the run since its end."""
        if (run := output()) is not None:
            self._timeline.update(self._make_last_picture(run), raw=True)

    def _make_last_picture(self, output: EnsembleOutput | None) -> dict[str, Any]:
        if output is not None:
            live = None if self._live is None else self._live.messages
            bundle = make_output_bundle(output, self._shown.expression, live, self._shown.cell, self._shown.variable)
            return add_feed_id(bundle, self._feed)
        if self._live is None or self._live.messages.run_id is None:  # it has not begun
            return _make_text_bundle("")
        return make_interim_bundle(self._live.messages)


class TerminalDisplay:
    """A table that moves while the cell runs, and the answer below it. In the background nothing is shown."""

    has_buttons = False

    def __init__(self, live: RunPainter, shown: ShownCell) -> None:
        from rich.console import Console

        self._shown = shown
        self._has_timeline = shown.has_timeline and (not shown.is_background or not shown.has_answer)
        self._console = Console(force_jupyter=False)
        self._live = live if self._has_timeline and self._console.is_terminal else None
        self.is_watched = self._live is not None
        self.listeners: Sequence[Any] = () if self._live is None else (self._live,)
        self._table: TerminalTable | None = None

    def open(self, plan: ExecutionPlan | None) -> None:
        """The table appears with its first event, which is there at once."""

    def say(self, text: str) -> None:
        if self._has_timeline:
            display(_make_text_bundle(text), raw=True)

    def follow(self, _stop: Callable[[], None] | None, _reviewer: Person | None, /) -> None:
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
            for warning in () if output is None else output._late_warnings:
                display(_make_text_bundle(f"! {remove_control_characters(warning)}"), raw=True)
        elif self._has_timeline and output is not None:
            bundle = make_output_bundle(output, cell=self._shown.cell, variable=self._shown.variable)
            display(_make_text_bundle(bundle["text/plain"]), raw=True)
        if self._shown.is_background or not self._shown.has_answer:
            return
        if (answer := make_answer_bundle(output, result, self._shown.expression)) is not None:
            display(_make_text_bundle(f"\n{answer['text/plain']}"), raw=True)


def make_shown_output(output: EnsembleOutput) -> Bundle:
    """An output by itself: where somebody reads it as whole as its timeline (W30), elsewhere a still picture."""
    shell = get_ipython()
    if shell is None or choose_display_mode(shell) is not DisplayMode.WIDGET:
        return make_output_bundle(output)
    shown: Any = output.timeline._repr_mimebundle_()
    bundle: Bundle = shown[0] if isinstance(shown, tuple) else shown  # a widget gives metadata, too
    return bundle


def _make_text_bundle(text: str) -> dict[str, Any]:
    return {"text/plain": text}
