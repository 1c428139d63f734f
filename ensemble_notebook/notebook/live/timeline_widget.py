"""The timeline widget: carries messages between a run's feed and the browser.

It is imported only when a widget is needed, because importing anywidget takes a while. The widget renders nothing and
knows nothing of spans; the JavaScript bundle does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from ensemble_notebook.notebook.live.frontend import DisplayMode, choose_display_mode, is_served_by_voila
from ensemble_notebook.notebook.live.page_channel import answer_at_once, begin_page_channels, find_page_channels
from ensemble_notebook.notebook.live.run_feed import RunFeed, find_feed, find_feed_of, keep_feed, take_feed_of_started
from ensemble_notebook.notebook.live.run_selection import RowSelection, SelectableTimeline
from ensemble_notebook.notebook.picture.html_table import Bundle
from ensemble_notebook.notebook.picture.static_picture import (
    TRACE_MIME,
    make_interim_bundle,
    make_last_bundle,
    make_messages,
    make_output_bundle,
    make_past_bundle,
)
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.trace.analysis.run_diff import RunDiff


# --- The MIME bundle of a run with a feed: an id for our extension, and a picture for other frontends -----------------
#
# JupyterLab and Notebook 7 with our extension prefer our own MIME type to the widget's. So a notebook that is opened
# again never misses a widget's model (W14).


def make_feed_bundle(feed: RunFeed) -> Bundle:
    """A run as it stands, without a widget. Of one that is over, all that a page without a kernel shows is in it."""
    if feed.is_live:
        bundle = {**make_interim_bundle(feed.messages), TRACE_MIME: {"kind": "live"}}
    else:
        bundle = make_last_bundle(feed.messages)
    return add_feed_id(bundle, feed)


def add_feed_id(bundle: Bundle, feed: RunFeed | None) -> Bundle:
    """The bundle with the name by which pages find its run while the kernel lives.

    Without channels there is nothing to be found by it, and a live view of our type would show nothing.
    """
    trace = bundle.get(TRACE_MIME)
    if trace is None or feed is None:
        return bundle
    if find_page_channels() is not None:
        return {**bundle, TRACE_MIME: {**trace, "feed_id": feed.feed_id}}
    return bundle if trace["kind"] == "saved" else {name: part for name, part in bundle.items() if name != TRACE_MIME}


STATIC: Final = Path(__file__).parents[2] / "static"

_widgets: weakref.WeakKeyDictionary[RunFeed, TimelineWidget] = weakref.WeakKeyDictionary()


class TimelineWidget(SelectableTimeline, anywidget.AnyWidget):
    """Carries the messages of a run's feed between the kernel and the pages that show it.

    It does not keep the feed alive: both go with the output of the run.

    Attributes:
        feed_id: of the feed, the only synced trait besides the texts of modules and style sheet, which never change.
            All else goes by messages, so nothing is ever resent.
        selection: ids of the spans that are selected in all views of the run; may be set.
        range: the time that is marked in them, as ``(from_ms, to_ms)``, or None; may be set.
        time: the time at which they show the run, in seconds since its start, or None; may be set.
    """

    _esm = (STATIC / "timeline.js").read_text(encoding="utf-8")
    _css = (STATIC / "timeline.css").read_text(encoding="utf-8")

    feed_id = traitlets.Unicode().tag(sync=True)
    # What the page loads late: the drawer, what explores a run, and the views in place of the bars. anywidget itself
    # loads one module.
    _details = traitlets.Unicode((STATIC / "details.js").read_text(encoding="utf-8")).tag(sync=True)
    _explorer = traitlets.Unicode((STATIC / "explorer.js").read_text(encoding="utf-8")).tag(sync=True)
    _views = traitlets.Unicode((STATIC / "views.js").read_text(encoding="utf-8")).tag(sync=True)

    def __init__(self, feed: RunFeed) -> None:
        super().__init__(feed.selection, feed_id=feed.feed_id)
        self.on_msg(self._receive)
        answer_at_once(self.comm)
        feed.subscribe(self)
        weakref.finalize(feed, self.close).atexit = False

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None) -> None:
        """Send a message to all views of this widget."""
        super().send(content, buffers)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and beside it what pages show that have our extension, and those that have no widgets."""
        bundle: Any = super()._repr_mimebundle_(**options)
        feed = find_feed(self.feed_id)
        if bundle is not None and isinstance(feed, RunFeed):
            bundle[0].update(make_feed_bundle(feed))
        return bundle

    def close(self) -> None:
        """Take it out of the kernel and of all pages."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()

    def _receive(self, _widget: object, content: Any, _buffers: object) -> None:
        """Hand the message of a view to the feed, on whatever thread it comes."""
        feed = find_feed(self.feed_id)
        if feed is not None:
            feed.receive(self, content)
        channels = find_page_channels()
        if channels is not None:
            channels.renew_busy()


class PlainTimeline(SelectableTimeline):
    """The timeline of a run without a widget: where nobody watches, or where a page shows it by its feed alone.

    A widget would leave its whole state in the notebook. Where nobody watches nobody selects anything in it, but Python
    may: cells that were written for a reader run without one, too.
    """

    def __init__(self, feed: RunFeed, make_bundle: Callable[[], Bundle]) -> None:
        super().__init__(feed.selection)
        self._feed = feed
        self._make_bundle = make_bundle

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle = self._make_bundle()
        return bundle if self.time is None else {**bundle, **make_past_bundle(self._feed.messages, self.time * 1000)}


def make_timeline(output: EnsembleOutput, result: MapResult | None = None) -> SelectableTimeline:
    """The explorable timeline of a finished run; the same output has the same widget and selection.

    Args:
        output: of the run.
        result: of a map, which may have scores that its output has not.
    """
    feed = find_feed_of(output)
    if feed is None:
        feed = take_feed_of_started(output.run_id) or RunFeed(make_messages(output))
        keep_feed(output, feed)
        offer_tryouts(output, feed, result)
    feed.add_scores(() if result is None else result.score_records)
    return show_run(feed, lambda: make_output_bundle(output))


def offer_tryouts(output: EnsembleOutput, feed: RunFeed, result: MapResult | None = None) -> None:
    """Let views of a run that is over make its calls again, and fork it (F4); of a map, its rows (S5)."""
    run, rows = weakref.ref(output), None if result is None else weakref.ref(result)

    def make() -> Any:
        from ensemble_notebook.notebook.live.tryouts import Tryouts  # few views ask

        return Tryouts(run, rows)

    feed.make_tryouts = make


def show_run(feed: RunFeed, make_bundle: Callable[[], Bundle]) -> TimelineWidget | PlainTimeline:
    """What shows a feed here: a still picture where a notebook is executed and nobody is going to see its kernel.

    No widget where a page does without: a widget has to be kept in the kernel and in the page.
    """
    shell = get_ipython()
    if shell is not None and choose_display_mode(shell) is DisplayMode.STATIC and not is_served_by_voila():
        return PlainTimeline(feed, make_bundle)
    if shell is not None:
        begin_page_channels(shell)
    channels = find_page_channels()
    if channels is not None and channels.has_pages:
        return PlainTimeline(feed, lambda: make_feed_bundle(feed))
    return show_feed(feed)


def show_feed(feed: RunFeed) -> TimelineWidget:
    """The widget of a feed: the same one each time, until somebody closes it."""
    widget = _widgets.get(feed)
    if widget is not None and widget.comm is None:
        feed.unsubscribe(widget)
        widget = None
    if widget is None:
        widget = _widgets[feed] = TimelineWidget(feed)
    return widget


# Two runs in one timeline (W17): `a.diff(b).timeline`. A view like any other, of both runs as they were compared.


def make_diff_timeline(diff: RunDiff) -> SelectableTimeline:
    """The timeline of two runs; the same comparison has the same widget and selection."""
    from ensemble_notebook.trace.analysis.joined_runs import JoinedRuns

    feed = find_feed_of(diff)
    if feed is None:
        feed = RunFeed(TimelineMessages(JoinedRuns(diff)))
        keep_feed(diff, feed)
    messages = feed.messages
    return show_run(feed, lambda: make_last_bundle(messages))


def make_row_selection(result: MapResult) -> RowSelection:
    """The selection of a map that has had rows to run, in labels of its `frame`."""
    output = result._last_output
    assert output is not None
    spans = make_timeline(output, result).run_selection
    labels = result.frame.index.tolist()
    return RowSelection(spans, {row.name: label for row, label in zip(result.rows, labels, strict=True)})
