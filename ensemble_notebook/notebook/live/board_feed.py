"""The board of remembered runs: tells its views of the runs as they change, and does what they ask (W130-W133).

One feed for each store. All work is done on a thread of its own, which lives as long as somebody watches. The timeline
of a run that a view opens below the board is told of through the same channel.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from ensemble_notebook.domain.wording import format_size
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import make_known_output
from ensemble_notebook.errors import EnsembleError, ValidationError, make_readable
from ensemble_notebook.notebook.live.board_rows import BoardRows, Row
from ensemble_notebook.notebook.live.run_feed import (
    RunFeed,
    Subscriber,
    find_feed,
    keep_feed,
    list_feeds,
    register_feed,
)
from ensemble_notebook.notebook.picture.static_picture import is_of_remembered_cell
from ensemble_notebook.trace.analysis.joined_runs import JoinedRuns
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.store_reader import complete_events
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

LOOK_S: Final = 1.0
"""How often it is looked whether the store has changed."""
REST_SHARE: Final = 20
"""After a look, none for so many times the CPU that it took: a board must not hold up runs."""
MOST_OPEN: Final = 8
"""Timelines that are kept open."""
MOST_SPANS: Final = 500
LONGEST_TEXT: Final = 20_000
FORMATS: Final = (".html", ".trace.json", ".svg", ".parquet")

logger = logging.getLogger(__name__)


class BoardFeed:
    """The runs of one store, for any number of views.

    Args:
        store: with the runs.

    Attributes:
        feed_id: views find it by this.
        cell_id: None: nothing is put back into a cell.
    """

    def __init__(self, store: RunStore) -> None:
        self.feed_id = uuid.uuid4().hex
        self.cell_id: str | None = None
        self._store = store
        self._rows = BoardRows(store)
        self._lock = threading.Lock()
        self._subscribers: dict[Subscriber, dict[str, _Relay]] = {}
        self._questions: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._opened: dict[str, tuple[RunFeed, EnsembleOutput | None]] = {}
        self._rest_until = 0.0
        register_feed(self)

    @property
    def is_live(self) -> bool:
        """No run goes on in it that a page has to put back."""
        return False

    def subscribe(self, subscriber: Subscriber, /) -> None:
        """Tell this subscriber of changes, once it has said hello."""

    def unsubscribe(self, subscriber: Subscriber, /) -> None:
        """Tell it nothing any more."""
        with self._lock:
            relays = self._subscribers.pop(subscriber, {})
        for relay in relays.values():
            relay.end()

    def receive(self, subscriber: Subscriber, content: Any, /) -> None:
        """Answer a view: what takes time is done on the board's own thread."""
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "bye":
            self.unsubscribe(subscriber)
        elif kind == "feed":
            self._relay(subscriber, str(content.get("feed_id")), content.get("content"))
        elif kind == "leave":
            with self._lock:
                relay = self._subscribers.get(subscriber, {}).pop(str(content.get("feed_id")), None)
            if relay is not None:
                relay.end()
        elif kind in _ANSWERS:
            with self._lock:
                self._subscribers.setdefault(subscriber, {})
                self._questions.put(lambda: self._answer(subscriber, _ANSWERS[kind], content))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="ensemble-board", daemon=True)
                    self._thread.start()

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            wait_s = max(0.0, self._rest_until - time.monotonic()) if not self._rows.is_whole else LOOK_S
            try:
                work: Callable[[], None] = self._questions.get(timeout=wait_s)
            except Empty:
                work = self._look
            try:
                work()
            except Exception:
                logger.exception("The board of runs failed at something; it goes on.")
            with self._lock:
                if not self._subscribers and self._questions.empty():
                    self._thread = None
                    return

    def _answer(self, subscriber: Subscriber, act: Callable[[BoardFeed, Any], Any], content: Any) -> None:
        """Do what a view asks, and tell it what came of that."""
        nonce = content.get("nonce")
        try:
            answer = act(self, {**content, "subscriber": subscriber})
        except (EnsembleError, OSError) as error:
            answer = {"kind": "failed", "text": make_readable(str(error))}
        if answer is not None:
            self._send(subscriber, {**answer, "nonce": nonce})
        self._look(is_asked=content.get("kind") == "forget")

    def _look(self, *, is_asked: bool = False) -> None:
        """Tell all views what has changed."""
        if time.monotonic() < self._rest_until and not is_asked:
            return
        began_s = time.thread_time()
        changed: list[Row] = []
        gone: list[str] = []
        try:
            if self._rows.has_changed():
                changed, gone = self._rows.read()
                self._follow()
            changed += self._rows.fold_some()
        except EnsembleError as error:
            self._tell({"kind": "fault", "text": str(error)})
        self._rest_until = time.monotonic() + REST_SHARE * (time.thread_time() - began_s)
        if changed or gone:
            self._tell({"kind": "changed", "rows": changed, "gone": gone})

    def _follow(self) -> None:
        """Tell of what has happened in opened runs that another process goes on with."""
        for feed, output in self._opened.values():
            run_id = feed.messages.run_id
            if output is None or not feed.is_live or run_id is None:
                continue
            run, fold = self._store.find_run(run_id), output.trace._fold
            for event in complete_events(run, self._store.load_events(run_id))[fold.event_count :]:
                fold.add(event)
            feed.paint(feed.messages.is_over)

    def _tell(self, message: dict[str, Any], but: Subscriber | None = None) -> None:
        with self._lock:
            subscribers = [each for each in self._subscribers if each is not but]
        for each in subscribers:
            self._send(each, message)

    def _send(self, subscriber: Subscriber, message: dict[str, Any]) -> None:
        try:
            subscriber.send(message)
        except Exception:
            logger.exception("A view of the board of runs can't be reached; it is told nothing any more.")
            self.unsubscribe(subscriber)

    # --- What views ask -----------------------------------------------------------------------------------------------

    def _list(self, content: Any) -> dict[str, Any]:
        if self._rows.has_changed():
            changed, gone = self._rows.read()
            if changed or gone:
                self._tell({"kind": "changed", "rows": changed, "gone": gone}, but=content.get("subscriber"))
        return {"kind": "runs", "rows": self._rows.rows}

    def _open(self, content: Any) -> dict[str, Any]:
        """The feed of a run: the one that shows it already, else one of what is stored."""
        from ensemble_notebook.notebook.live.timeline_widget import offer_tryouts  # with the library of widgets

        run_id = str(content.get("run_id"))
        output = None
        feed = next(
            (each for each in list_feeds() if isinstance(each, RunFeed) and each.messages.run_id == run_id), None
        )
        if feed is None:
            output = make_known_output(self._load(run_id))
            feed = RunFeed(TimelineMessages(output.trace._fold, is_resumable=is_of_remembered_cell(run_id)))
            keep_feed(output, feed)
            offer_tryouts(output, feed)
        return {"kind": "opened", "feed_id": self._keep(feed, output).feed_id}

    def _compare(self, content: Any) -> dict[str, Any]:
        """The feed of two runs, one above the other, and what changed from the older one in words."""
        run_ids = content.get("run_ids")
        if not isinstance(run_ids, list) or len(run_ids) != 2:
            raise ValidationError("Two runs are compared, no more and no fewer.")
        diff = self._load(str(run_ids[0])).diff(self._load(str(run_ids[1])))
        feed = self._keep(RunFeed(TimelineMessages(JoinedRuns(diff))))
        return {"kind": "opened", "feed_id": feed.feed_id, "text": make_readable(repr(diff))[:LONGEST_TEXT]}

    def _list_spans(self, content: Any) -> dict[str, Any]:
        """The spans at which a run can be forked."""
        fold = self._load(str(content.get("run_id")))._fold
        spans = [each for each in fold.spans.values() if each.kind in _FORKED and each.start_ms is not None]
        some = [[each.span_id, clean_text(_describe_span(each))] for each in spans[:MOST_SPANS]]
        return {"kind": "spans", "spans": some, "left_out": len(spans) - len(some)}

    def _export(self, content: Any) -> dict[str, Any]:
        """Write a run into a new file of the folder in which the kernel works."""
        run_id, ending = str(content.get("run_id")), content.get("format")
        if ending not in FORMATS:
            raise ValidationError(f"A run is exported as one of {', '.join(FORMATS)}, not as {ending!r}.")
        trace = self._load(run_id)
        name = re.sub(r"[^\w-]+", "-", f"{trace.name or 'run'}-{run_id[:8]}").strip("-")
        names = [f"{name}{ending}", *(f"{name}-{number}{ending}" for number in range(2, 1000))]
        file = trace.export(next((each for each in map(Path, names) if not each.exists()), Path(names[0])))
        size = f" ({format_size(file.stat().st_size)})" if file.is_file() else ""
        return {"kind": "done", "text": f"Exported to {file}{size}"}

    def _forget(self, content: Any) -> dict[str, Any]:
        run_id = str(content.get("run_id"))
        if not self._store.forget([run_id]):
            raise ValidationError(f"Run {run_id} is not in the store {self._store.path} any more.")
        return {"kind": "done", "text": f"Forgot run {run_id}"}

    def _load(self, run_id: str) -> ExecutionTrace:
        return self._store.load_trace(self._store.find_run(run_id))

    def _keep(self, feed: RunFeed, output: EnsembleOutput | None = None) -> RunFeed:
        """Keep it open, as one of the last, with the output that was made for it."""
        _, made = self._opened.pop(feed.feed_id, (feed, output))
        self._opened[feed.feed_id] = (feed, made)
        for surplus in list(self._opened)[:-MOST_OPEN]:
            del self._opened[surplus]
        return feed

    def _relay(self, subscriber: Subscriber, feed_id: str, content: Any) -> None:
        """Hand a message of an opened timeline to its run, and the answers back."""
        feed = find_feed(feed_id)
        with self._lock:
            relays = self._subscribers.get(subscriber)
            relay = None if relays is None else relays.get(feed_id)
            if relays is not None and relay is None and isinstance(feed, RunFeed):
                relay = relays[feed_id] = _Relay(subscriber, feed)
                feed.subscribe(relay)
        if relay is not None:
            relay.feed.receive(relay, content)


class _Relay:
    """Carries the messages of a run to a view of the board that has opened it."""

    def __init__(self, subscriber: Subscriber, feed: RunFeed) -> None:
        self.feed = feed
        self._subscriber = subscriber

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None, /) -> None:
        self._subscriber.send({"kind": "feed", "feed_id": self.feed.feed_id, "content": content}, buffers)

    def end(self) -> None:
        """Carry no more."""
        self.feed.unsubscribe(self)


_ANSWERS: Final[dict[str, Callable[[BoardFeed, Any], dict[str, Any]]]] = {
    "hello": BoardFeed._list,
    "open": BoardFeed._open,
    "compare": BoardFeed._compare,
    "spans": BoardFeed._list_spans,
    "export": BoardFeed._export,
    "forget": BoardFeed._forget,
}
_FORKED: Final = (SpanKind.TASK, SpanKind.LLM, SpanKind.TOOL)
_WORDS: Final = {SpanKind.TASK: "task", SpanKind.LLM: "model call", SpanKind.TOOL: "tool call"}


def _describe_span(span: Span) -> str:
    """A span as a person chooses it: ``brief: model call gpt-4o, turn 2``."""
    if span.kind is SpanKind.TASK:
        return f"task {span.name}"
    turn = f", turn {span.iteration}" if span.iteration and span.iteration > 1 else ""
    return f"{span.task or ''}: {_WORDS[span.kind]} {span.name}{turn}"


_boards: Final[dict[Path, BoardFeed]] = {}


def find_board(store: RunStore) -> BoardFeed:
    """The board of a store, the same one each time."""
    if store.path not in _boards:
        _boards[store.path] = BoardFeed(store)
    return _boards[store.path]
