"""The MIME bundle of a run with a feed: an id for our extension, and a picture for other frontends.

JupyterLab and Notebook 7 with our extension prefer our own MIME type to the widget's. So a notebook that is opened
again never misses a widget's model (W14).
"""

from __future__ import annotations

from ensemble_notebook.notebook.live.feed_registry import Feed
from ensemble_notebook.notebook.live.page_channel import find_page_channels
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME, Bundle, make_last_bundle, make_snapshot_bundle


def make_feed_bundle(feed: Feed) -> Bundle:
    """A run as it stands, without a widget. Of one that is over, all that a page without a kernel shows is in it."""
    if feed.is_live:
        bundle = {**make_snapshot_bundle(feed.make_snapshot()), TRACE_MIME: {"kind": "live"}}
    else:
        bundle = make_last_bundle(feed.messages)
    return add_feed_id(bundle, feed)


def add_feed_id(bundle: Bundle, feed: Feed | None) -> Bundle:
    """The bundle with the name by which pages find its run while the kernel lives.

    Without channels there is nothing to be found by it, and a live view of our type would show nothing.
    """
    trace = bundle.get(TRACE_MIME)
    if trace is None or feed is None:
        return bundle
    if find_page_channels() is not None:
        return {**bundle, TRACE_MIME: {**trace, "feed_id": feed.feed_id}}
    return bundle if trace["kind"] == "saved" else {name: part for name, part in bundle.items() if name != TRACE_MIME}
