"""Views of one feed, whatever they miss: each one ends like one that saw all (W16)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import START
from tests.support.row_reader import read_rows
from tests.support.stream import streams


class View:
    """What a page does: it folds what reaches it, and says hello when something is missing."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.n = -1
        self.rows: dict[str, Any] = {}
        self.run: Any = None
        self.texts: dict[str, tuple[int, str]] = {}
        line.views.append(self)

    def hello(self) -> None:
        self.line.feed.receive(self.line, {"kind": "hello", "have": self.n})

    def take(self, message: dict[str, Any], buffers: list[bytes]) -> bool:
        """Fold a message; False where one before it is missing."""
        if message["n"] <= self.n:
            return True
        if message["kind"] == "delta":
            if self.n < message["from"]:
                return False
        else:
            self.rows = {}
        self.rows.update((row["span_id"], row) for row in read_rows(message, buffers))
        for span_id, piece, start in message["text"]:
            first, text = self.texts.get(span_id, (start, ""))
            if start > first + len(text):
                first, text = start, ""
            self.texts[span_id] = (first, text + piece[max(0, first + len(text) - start) :])
        self.n, self.run = message["n"], message["run"]
        return True


class Line:
    """One subscriber with several views; it may lose what it carries."""

    def __init__(self, feed: RunFeed) -> None:
        self.feed = feed
        self.views: list[View] = []
        self.waiting: list[tuple[str, list[bytes]]] = []
        feed.subscribe(self)
        View(self).hello()  # else there would be snapshots unasked, by the clock

    def send(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.waiting.append((json.dumps(content, allow_nan=False), list(buffers or ())))

    def deliver(self, data: st.DataObject, *, may_lose: bool) -> None:
        """Hand on what is waiting, as often as that makes a view ask again."""
        while self.waiting:
            waiting, self.waiting = self.waiting, []
            lost = data.draw(st.sets(st.sampled_from(range(len(waiting))))) if may_lose else set()
            for place, (message, buffers) in enumerate(waiting):
                behind = [
                    view for view in self.views if place not in lost and not view.take(json.loads(message), buffers)
                ]
                for view in behind:
                    view.hello()


def happen(feed: RunFeed, lines: list[Line], what: str, data: st.DataObject) -> None:
    if what == "come":
        View(data.draw(st.sampled_from(lines))).hello()
    elif what == "hello":
        for view in list_views(lines):
            view.hello()
    elif what != "nothing":
        feed.paint(False)
        for line in lines:
            line.deliver(data, may_lose=what == "lose")


def list_views(lines: list[Line]) -> list[View]:
    return [view for line in lines for view in line.views]


@settings(deadline=None, max_examples=50)
@given(streams(), st.data())
def test_every_view_ends_like_one_that_saw_all(events, data):
    fold = TraceFold()
    feed = RunFeed(TimelineMessages(fold, lambda: START))
    lines, careful = [Line(feed), Line(feed)], Line(feed)
    for event in events:
        fold.add(event)
        happen(feed, lines, data.draw(st.sampled_from(["nothing", "paint", "come", "hello", "lose"])), data)
        careful.deliver(data, may_lose=False)
    feed.paint(True)
    for line in lines:
        line.deliver(data, may_lose=True)
    for view in list_views(lines):
        view.hello()
    for line in [*lines, careful]:
        line.deliver(data, may_lose=False)
    (witness,), now = careful.views, feed.messages.make_snapshot()
    assert witness.rows == {row["span_id"]: row for row in now["rows"]}
    for view in list_views(lines):
        assert (view.n, view.rows, view.run) == (witness.n, witness.rows, now["run"])
        for span_id, (start, text) in view.texts.items():
            # Of a call that ended while the view missed something, it may lack the end: details have it.
            assert fold.streams[span_id].read()[start : start + len(text)] == text
