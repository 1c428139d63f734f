"""Two runs in one timeline (W17): `a.diff(b).timeline`. A view like any other, of both runs as they were compared."""

from __future__ import annotations

from ensemble_notebook.notebook.live.feed_registry import find_feed_of, keep_feed
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.notebook.live.run_selection import SelectableTimeline
from ensemble_notebook.notebook.live.timeline_widget import show_run
from ensemble_notebook.notebook.picture.static_picture import make_last_bundle
from ensemble_notebook.trace.comparison.joined_runs import JoinedRuns
from ensemble_notebook.trace.comparison.run_diff import RunDiff
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages


def make_diff_timeline(diff: RunDiff) -> SelectableTimeline:
    """The timeline of two runs; the same comparison has the same widget and selection (W16)."""
    feed = find_feed_of(diff)
    if feed is None:
        feed = RunFeed(TimelineMessages(JoinedRuns(diff)))
        keep_feed(diff, feed)
    messages = feed.messages
    return show_run(feed, lambda: make_last_bundle(messages))
