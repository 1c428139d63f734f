"""The registry of feeds. It imports little, so that a page can ask for feeds before anything has run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from ensemble_notebook.notebook.live.run_selection import RunSelection
    from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages


class Subscriber(Protocol):
    """Sends messages to views."""

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None, /) -> None:
        """Send a message. Called on any thread; must return soon, and must not call the feed."""


class Feed(Protocol):
    """The feed of a run, as pages and widgets use it."""

    @property
    def feed_id(self) -> str:
        """Unique, and constant."""

    @property
    def cell_id(self) -> str | None:
        """The notebook's id of the cell that runs it; None where it is not known."""

    @property
    def messages(self) -> TimelineMessages:
        """About the run."""

    @property
    def selection(self) -> RunSelection:
        """What is selected in its views."""

    @property
    def is_live(self) -> bool:
        """Whether the run goes on."""

    def subscribe(self, subscriber: Subscriber, /) -> None:
        """Add a subscriber."""

    def unsubscribe(self, subscriber: Subscriber, /) -> None:
        """Remove a subscriber."""

    def receive(self, subscriber: Subscriber, content: Any, /) -> None:
        """Answer a message from a view."""

    def make_snapshot(self) -> dict[str, Any]:
        """A snapshot of everything so far."""


_feeds: weakref.WeakValueDictionary[str, Feed] = weakref.WeakValueDictionary()
_feeds_of_outputs: weakref.WeakKeyDictionary[object, Feed] = weakref.WeakKeyDictionary()
_registry_lock: Final = threading.RLock()  # an output that goes while it is held may close a widget


def register_feed(feed: Feed) -> None:
    """Register a feed; it can be found as long as it lives."""
    with _registry_lock:
        _feeds[feed.feed_id] = feed


def find_feed(feed_id: str) -> Feed | None:
    """The feed of this id; None once the output of its run is gone."""
    with _registry_lock:
        return _feeds.get(feed_id)


def list_feeds() -> list[Feed]:
    """All feeds, in order of their start."""
    with _registry_lock:
        return list(_feeds.values())


def keep_feed(output: object, feed: Feed) -> None:
    """Keep a feed alive as long as an output, or another object that it shows: a page may ask for it after a reload."""
    with _registry_lock:
        _feeds_of_outputs[output] = feed


def find_feed_of(output: object) -> Feed | None:
    """The feed that is kept for this output; None where there is none yet."""
    with _registry_lock:
        return _feeds_of_outputs.get(output)
