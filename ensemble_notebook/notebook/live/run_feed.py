"""The feed of one run: sends its messages to all views, and answers theirs (W13, W16).

A view is reached through a subscriber: a widget's comm, or the channel of a page. Each paint makes one delta for all of
them. Knows no comm and no widget.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.ensemble.person import Person, read_decision
from ensemble_notebook.notebook.live.run_selection import RunSelection

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.score import ScoreRecord
    from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages


# --- The registry of feeds. It imports little, so that a page can ask for feeds before anything has run ---------------


class Tryouts(Protocol):
    """What is tried in the views of a run: see `tryouts`."""

    def receive(self, subscriber: Subscriber, content: Mapping[str, Any], /) -> None:
        """Answer a view, soon."""

    def tell(self, subscriber: Subscriber, /) -> None:
        """Tell a view that has just come what there is."""


class Subscriber(Protocol):
    """Sends messages to views."""

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None, /) -> None:
        """Send a message. Called on any thread; must return soon, and must not call the feed."""


class Feed(Protocol):
    """What views are told of, and ask: a run, or the board of all runs."""

    feed_id: str
    """Unique, and constant: views find it by that."""
    cell_id: str | None
    """The notebook's id of the cell that a live view is put back into."""

    @property
    def is_live(self) -> bool:
        """A run that goes on."""

    def subscribe(self, subscriber: Subscriber, /) -> None:
        """Tell this subscriber, too."""

    def unsubscribe(self, subscriber: Subscriber, /) -> None:
        """Tell it nothing any more."""

    def receive(self, subscriber: Subscriber, content: Any, /) -> None:
        """Answer a view, through the subscriber that it asked through. Quick; what makes no sense changes nothing."""


_feeds: weakref.WeakValueDictionary[str, Feed] = weakref.WeakValueDictionary()
_feeds_of_outputs: weakref.WeakKeyDictionary[object, RunFeed] = weakref.WeakKeyDictionary()
_feeds_of_started: weakref.WeakValueDictionary[str, RunFeed] = weakref.WeakValueDictionary()
_registry_lock: Final = threading.RLock()  # an output that goes while it is held may close a widget


def register_feed(feed: Feed) -> None:
    """Let it be found as long as it lives."""
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


def keep_feed(output: object, feed: RunFeed) -> None:
    """Keep a feed alive as long as an output, or another object that it shows: a page may ask for it after a reload."""
    with _registry_lock:
        _feeds_of_outputs[output] = feed


def find_feed_of(output: object) -> RunFeed | None:
    """The feed that is kept for this output; None where there is none yet."""
    with _registry_lock:
        return _feeds_of_outputs.get(output)


def keep_feed_of_started(run_id: str, feed: RunFeed) -> None:
    """Let the output of a run that goes on find this feed, which may be asked for before `keep_feed` is told of it."""
    with _registry_lock:
        _feeds_of_started[run_id] = feed


def take_feed_of_started(run_id: str) -> RunFeed | None:
    """The feed of a run that went on, for its output, which keeps it; None for who comes second."""
    with _registry_lock:
        return _feeds_of_started.pop(run_id, None)


# While a view has not said hello, it may not have been listening yet, or its hello waits until the cell is over.
FIRST_REPEAT_S: Final = 0.25
LAST_REPEAT_S: Final = 16.0

logger = logging.getLogger(__name__)


class RunFeed:
    """One run, live or finished, as its views see it.

    Any thread may paint, and any may bring messages (W13: while a cell is busy, they come on another one).

    Args:
        messages: about the run.
        stop: stops the run; None where nothing can be stopped.
        reviewer: answers the questions of the run; None where nobody is asked here.
        cell_id: the notebook's id of the cell that runs it; None where it is not known.

    Attributes:
        feed_id: unique, and constant: views find their run by it.
        selection: what is selected in all of them.
        make_tryouts: makes what answers views that make calls again, or fork the run; None where they can't.
        renew_picture: shows anew what a cell keeps of the run, once more is known of it; None where no cell has it.
    """

    def __init__(
        self,
        messages: TimelineMessages,
        stop: Callable[[], None] | None = None,
        reviewer: Person | None = None,
        cell_id: str | None = None,
    ) -> None:
        self.feed_id = uuid.uuid4().hex
        self.messages: Final = messages
        self.cell_id = cell_id
        self._stop = stop
        self._reviewer = reviewer
        self._is_over = messages.is_over
        self._lock = threading.Lock()
        self._sent = messages.count
        self._subscribers: dict[Subscriber, _Repeat | None] = {}
        self._has_selection = False
        self.make_tryouts: Callable[[], Tryouts] | None = None
        self.renew_picture: Callable[[], None] | None = None
        self._tryouts: Tryouts | None = None
        # Weakly, since a widget, which all widgets are known by, shares the selection, and must not keep the feed.
        tell = weakref.WeakMethod(self._tell_selection)
        self.selection: Final = RunSelection(messages, lambda: (found := tell()) and found())
        register_feed(self)

    @property
    def is_live(self) -> bool:
        """The run goes on: more will be told of it."""
        return not self._is_over

    @property
    def pulse_s(self) -> float | None:
        """Paint after so many seconds even if nothing has happened: a view may have missed its snapshot."""
        with self._lock:
            due = [each.at for each in self._subscribers.values() if each is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell this subscriber, too: a snapshot with the next paint, then every delta."""
        with self._lock:
            self._subscribers.setdefault(subscriber, _Repeat())

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Tell it nothing any more."""
        with self._lock:
            self._subscribers.pop(subscriber, None)

    def add_scores(self, scores: Iterable[ScoreRecord]) -> None:
        """Tell all subscribers of scores that came by another way than the events of the run."""
        if self.messages.add_scores(scores):
            self.paint(not self.is_live)

    def paint(self, is_last: bool, /) -> None:
        """Tell all subscribers what has changed since the last time, each by one message."""
        with self._lock:
            # those that get a snapshot now, since no view has said hello through them
            now = time.monotonic()
            due = [
                each
                for each, repeat in self._subscribers.items()
                if repeat is not None and (is_last or now >= repeat.at)
            ]
            if self.messages.count != self._sent:
                delta, buffers = self.messages.pack_delta(self._sent)
                self._sent = delta["n"]
                self._mark_controls(delta)
                for subscriber in [each for each in self._subscribers if each not in due]:  # a snapshot has it all
                    self._send(subscriber, delta, buffers)
            if due:
                snapshot, buffers = self.messages.pack_snapshot()
                self._mark_controls(snapshot)
                for subscriber in due:
                    self._send(subscriber, snapshot, buffers)
                    repeat = self._subscribers.get(subscriber)
                    if repeat is not None:
                        repeat.postpone()
            if is_last:
                # Nothing is left to stop or to answer, and the run's handle would keep its output alive.
                self._stop = self._reviewer = None
                self._is_over = True

    def receive(self, subscriber: Subscriber, content: Any) -> None:
        """Answer a view, through the subscriber that it asked through. Quick; what makes no sense changes nothing."""
        kind = content.get("kind") if isinstance(content, dict) else None
        with self._lock:
            stop, reviewer = self._stop, self._reviewer
            if reviewer is not None:
                reviewer.hear()
            self._answer_at_once(subscriber, kind, content)
        if kind == "review" and reviewer is not None:
            self._answer_review(subscriber, reviewer, content)
        elif kind == "stop" and stop is not None:
            stop()
        elif kind == "selection":
            try:
                self.selection.take(content)
            finally:  # an observer may fail; the view waits for the answer all the same
                with self._lock:
                    self._send(subscriber, {**self.selection.to_message(), "nonce": content.get("nonce")})
        elif kind == "tryout" and self.make_tryouts is not None:
            if self._tryouts is None:
                self._tryouts = self.make_tryouts()
            self._tryouts.receive(subscriber, content)
        elif kind in ("cells", "graph", "search") and (answer := self._look_up(kind, content)) is not None:
            with self._lock:
                self._send(subscriber, answer)

    def _answer_at_once(self, subscriber: Subscriber, kind: Any, content: Any) -> None:
        """Answer what is about the run as it stands; the lock is held."""
        if kind == "hello":
            have = content.get("have")
            if subscriber in self._subscribers:
                self._subscribers[subscriber] = None
            # a view gets what it lacks, which may be nothing; one that knows nothing, or another run, gets a snapshot
            is_known = isinstance(have, int) and 0 <= have <= self.messages.count
            message, buffers = self.messages.pack_delta(have) if is_known else self.messages.pack_snapshot()
            self._send(subscriber, self._mark_controls(message), buffers)
            if self._has_selection:
                self._send(subscriber, self.selection.to_message())
            if self._tryouts is not None:
                self._tryouts.tell(subscriber)
        elif kind == "ping":
            self._send(subscriber, {"kind": "pong", "nonce": content.get("nonce")})
        elif kind == "details":
            span_id = str(content.get("span_id"))
            details = self.messages.make_details(span_id)
            # all of a question, since a person may want to edit it
            asked = {} if self._reviewer is None else self._reviewer.tell_all(span_id)
            self._send(subscriber, {**details, **asked})
        elif kind == "piece":
            start = content.get("from")
            if isinstance(start, int) and start >= 0:
                piece = self.messages.make_piece(str(content.get("span_id")), str(content.get("field")), start)
                self._send(subscriber, piece)

    def _answer_review(self, subscriber: Subscriber, reviewer: Person, content: Mapping[str, Any]) -> None:
        """Take the answer of a view; arguments that don't fit are told to that view, and the question stays."""
        span_id, changes = str(content.get("span_id")), content.get("changes")
        if isinstance(changes, dict):
            call, faults = reviewer.call_of(span_id), reviewer.edit_call(span_id, changes)
            if call is not None and faults:
                with self._lock:
                    self._send(subscriber, {**self.messages.make_details(span_id), "call": {**call, "faults": faults}})
            return
        decision = read_decision(*map(content.get, ("verdict", "text", "for_all", "always")))
        if decision is not None:
            reviewer.answer(span_id, decision)

    def _tell_selection(self) -> None:
        """Tell all views what is selected."""
        with self._lock:
            self._has_selection = True
            for subscriber in list(self._subscribers):
                self._send(subscriber, self.selection.to_message())

    def _look_up(self, kind: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
        """What takes a while to find, outside of the lock, since paint is not to wait; None where it makes no sense."""
        if kind == "graph":
            return self.messages.make_graph()
        asked = content.get("span_ids" if kind == "cells" else "words")
        if not isinstance(asked, list) or not all(isinstance(each, str) and each for each in asked):
            return None
        return self.messages.make_cells(asked) if kind == "cells" else self.messages.search_texts(asked)

    def _mark_controls(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message, asking a person nothing where somebody else is asked, and offering no Stop that does nothing."""
        if self._reviewer is None or not self._reviewer.is_asked:
            message["run"]["waiting"] = []
        if self._stop is None and message["run"]["status"] == RunStatus.RUNNING:
            message["run"]["is_stoppable"] = False
        return message

    def _send(self, subscriber: Subscriber, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        try:
            subscriber.send(message, list(buffers) or None)
        except Exception:
            logger.exception("A view of run %s can't be reached; it is told nothing any more.", self.feed_id)
            self._subscribers.pop(subscriber, None)


class _Repeat:
    """When a subscriber gets its next snapshot unasked: soon, then ever more rarely."""

    def __init__(self) -> None:
        self.at = 0.0
        self._wait_s = FIRST_REPEAT_S

    def postpone(self) -> None:
        self.at = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LAST_REPEAT_S)
