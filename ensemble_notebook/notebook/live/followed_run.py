"""The timeline of a run that was started from Python, live while the run goes on: `handle.timeline` (W174).

No cell shows the run by itself, so the view reads the events that its handle has: it may be asked for at any time, and
in any frontend that shows widgets.
"""

from __future__ import annotations

from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING

from ensemble_notebook.notebook.live.page_channel import find_page_channels
from ensemble_notebook.notebook.live.run_feed import RunFeed, find_feed_of, keep_feed, keep_feed_of_started
from ensemble_notebook.notebook.live.run_painter import INTERVAL_S, RunPainter
from ensemble_notebook.notebook.live.timeline_widget import make_feed_bundle, make_timeline, show_run
from ensemble_notebook.notebook.picture.static_picture import find_view, make_interim_bundle, make_last_bundle

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
    from ensemble_notebook.ensemble.run_handle import RunHandle
    from ensemble_notebook.notebook.live.run_selection import SelectableTimeline
    from ensemble_notebook.notebook.picture.html_table import Bundle


def make_run_timeline(run: RunHandle, of_map: MapHandle | None = None) -> SelectableTimeline | None:
    """The timeline of a run: the same one each time, and that of its output once it is over.

    Args:
        run: as it was started.
        of_map: whose run it is; None where it is one by itself.

    Returns:
        None where the run ended before its first event.
    """
    feed = find_feed_of(run)
    if feed is None and run.is_done:
        return None if run.output is None else make_timeline(run.output, _find_result(of_map))
    if feed is None:
        painter = RunPainter(run._ensemble.cost, view=find_view())
        feed = RunFeed(painter.messages, run.cancel)
        keep_feed(run, feed)
        keep_feed_of_started(run.run_id, feed)
        painter.show(_FollowedRun(run, of_map, painter, feed))
    return show_run(feed, partial(_make_picture, feed))


def _make_picture(feed: RunFeed) -> Bundle:
    """For who executes a notebook without a reader: no page is going to ask how the run goes on."""
    return make_interim_bundle(feed.messages) if feed.is_live else make_last_bundle(feed.messages)


class _FollowedRun:
    """Brings the events of a handle to the feed of its views; the painter's thread calls it until the run is over."""

    def __init__(self, run: RunHandle, of_map: MapHandle | None, painter: RunPainter, feed: RunFeed) -> None:
        self._run, self._of_map, self._painter, self._feed = run, of_map, painter, feed
        self._taken = 0
        self._ask_for_tokens()

    @property
    def pulse_s(self) -> float:
        """Nobody tells of new events, so it looks for them."""
        wished = self._feed.pulse_s
        return INTERVAL_S if wished is None else min(wished, INTERVAL_S)

    def paint(self, is_last: bool, /) -> None:
        """Take in what has happened, and tell the views."""
        self._ask_for_tokens()
        is_over = self._run.is_done  # before the events are read: then there are no more
        for event in self._run.events[self._taken :]:
            self._painter.on_event(event)
            self._taken += 1
        self._feed.paint(is_last)
        if is_over:
            self._painter.end()
        if is_last:
            wait([self._run._get_end()])  # its output comes after its last event
            self._keep()

    def _ask_for_tokens(self) -> None:
        """Have agents that begin from now on stream their replies, since somebody watches (E17)."""
        if (stream := self._run._stream) is not None:  # else it has not begun yet
            stream.is_watched = True

    def _keep(self) -> None:
        """Let the output have this timeline, and pages the saved view in place of the live one."""
        if (output := self._run.output) is None:
            return
        make_timeline(output, _find_result(self._of_map))
        if (channels := find_page_channels()) is not None:
            bundle = make_feed_bundle(self._feed)
            channels.end_run(self._feed, [bundle], is_in_cell=False)


def _find_result(of_map: MapHandle | None) -> MapResult | None:
    return None if of_map is None else of_map.output
