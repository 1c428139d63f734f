"""The listener behind live views, the feed that all views of a run are told by, and the widget (W13, W16)."""

import threading
from types import SimpleNamespace

import pytest

from ensemble_notebook.notebook.live import run_display, run_feed, run_painter
from ensemble_notebook.notebook.live.run_feed import FIRST_REPEAT_S, RunFeed, find_feed, list_feeds
from ensemble_notebook.notebook.live.run_painter import INTERVAL_S, RunPainter
from ensemble_notebook.notebook.live.timeline_widget import TimelineWidget, make_timeline, show_feed
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder

LIMIT_S = 60


class Recorder:
    """A view that counts what it is asked to show."""

    pulse_s: float | None = None

    def __init__(self, live: RunPainter) -> None:
        self.paints: list[tuple[int, bool]] = []
        self.threads: set[threading.Thread] = set()
        self.painted = threading.Semaphore(0)
        self._live = live

    def paint(self, is_last: bool, /) -> None:
        self.paints.append((self._live.messages.make_snapshot()["n"], is_last))
        self.threads.add(threading.current_thread())
        self.painted.release()


class Output:
    """As much of an output as a timeline needs."""

    def __init__(self, events) -> None:
        self.trace = ExecutionTrace.from_events(events)
        self.run_id = self.trace.run_id
        self._late_warnings = ()


@pytest.fixture
def events():
    build = EventBuilder({"a": (), "b": ["a"]})
    for name in ("a", "b"):
        with build.task(name), build.turn():
            build.llm("Hello", stream=["Hel", "lo"])
    return build.finish()


class Carrier:
    """A subscriber that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent = []

    def send(self, content, _buffers=None):
        self.sent.append(content)

    @property
    def kinds(self):
        return [message["kind"] for message in self.sent]


def make_feed(events, **options):
    return RunFeed(TimelineMessages(TraceFold.from_events(events)), **options)


@pytest.fixture
def carrier():
    return Carrier()


@pytest.fixture
def feed(events, carrier):
    feed = make_feed(events)
    feed.subscribe(carrier)
    return feed


@pytest.fixture
def sent(monkeypatch):
    """What widgets send, in order."""
    messages = []
    monkeypatch.setattr(TimelineWidget, "send", lambda _, content, _buffers=None: messages.append(content))
    return messages


def test_view_is_painted_at_once_and_for_the_last_time_when_the_run_ends(events):
    live = RunPainter()
    view = Recorder(live)
    live.show(view)
    assert view.painted.acquire(timeout=LIMIT_S)
    assert view.paints == [(0, False)]
    for event in events:
        live.on_event(event)
    live.close()
    assert view.paints[-1] == (len(events), True)
    assert [is_last for _, is_last in view.paints].count(True) == 1


def test_burst_of_events_is_one_paint(events, monkeypatch):
    for name in ("INTERVAL_S", "LONGEST_REST_S"):  # a machine may take its time between two lines
        monkeypatch.setattr(run_painter, name, 600.0)
    live = RunPainter()
    view = Recorder(live)
    for event in events[:-1]:
        live.on_event(event)
    live.show(view)
    assert view.painted.acquire(timeout=LIMIT_S)
    live.on_event(events[-1])
    live.close()
    assert view.paints == [(len(events) - 1, False), (len(events), True)]


def test_painting_has_one_thread_of_its_own(events):
    live = RunPainter()
    view = Recorder(live)
    live.show(view)
    for event in events:
        live.on_event(event)
    live.close()
    assert len(view.threads) == 1
    assert threading.current_thread() not in view.threads


def test_view_with_a_clock_is_painted_though_nothing_happens(events):
    live = RunPainter()
    view = Recorder(live)
    view.pulse_s = 0.01
    live.show(view)
    for _ in range(3):
        assert view.painted.acquire(timeout=LIMIT_S)
    for event in events:
        live.on_event(event)
    live.close()


def test_events_of_another_run_are_none_of_its_business(events):
    live = RunPainter()
    for event in (*events, *events):
        live.on_event(event)
    live.close()
    assert live.messages.make_snapshot()["n"] == len(events)


def test_broken_view_does_no_harm(events, caplog):
    live = RunPainter()
    live.show(SimpleNamespace(paint=None, pulse_s=None))
    for event in events:
        live.on_event(event)
    live.close()
    assert "The live view SimpleNamespace failed" in caplog.text
    assert live.messages.make_snapshot()["run"]["status"] == "completed"


def test_painter_paints_at_most_ten_times_in_any_second():
    at_its_beginning, the_last = 1, 1
    assert at_its_beginning + int(1 / INTERVAL_S) + the_last <= 10


def test_feed_sends_one_message_for_each_paint(events):
    fold = TraceFold()
    feed, unheard, heard = RunFeed(TimelineMessages(fold)), Carrier(), Carrier()
    for each in (unheard, heard):
        feed.subscribe(each)
    feed.receive(heard, {"kind": "hello", "have": 0})
    heard.sent.clear()
    for event in events:
        fold.add(event)
    feed.paint(True)
    assert (unheard.kinds, heard.kinds) == (["snapshot"], ["delta"])
    assert unheard.sent[0]["n"] == heard.sent[0]["n"] == len(events)


def test_feed_sends_each_change_once_and_to_all(events):
    fold = TraceFold()
    feed = RunFeed(TimelineMessages(fold))
    one, other = Carrier(), Carrier()
    for each in (one, other):
        feed.subscribe(each)
        feed.receive(each, {"kind": "hello", "have": 0})
        each.sent.clear()
    for event in events[:5]:
        fold.add(event)
    feed.paint(False)
    feed.paint(False)
    for event in events[5:]:
        fold.add(event)
    feed.paint(True)
    assert [(message["kind"], message["from"], message["n"]) for message in one.sent] == [
        ("delta", 0, 5),
        ("delta", 5, len(events)),
    ]
    assert all(mine is others for mine, others in zip(one.sent, other.sent, strict=True))


def test_feed_sends_a_snapshot_unasked_until_a_view_says_hello(feed, carrier, monkeypatch):
    """Where comms wait until the cell is over, no hello comes; and what is sent at once may come too early."""
    now_s = [1000.0]
    monkeypatch.setattr(run_feed, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    assert feed.pulse_s == 0
    feed.paint(False)
    assert carrier.kinds == ["snapshot"]
    assert feed.pulse_s == FIRST_REPEAT_S
    feed.paint(False)
    assert carrier.kinds == ["snapshot"]
    now_s[0] += FIRST_REPEAT_S
    feed.paint(False)
    assert carrier.kinds == ["snapshot", "snapshot"]
    feed.receive(carrier, {"kind": "hello", "have": -1})
    assert feed.pulse_s is None
    feed.paint(True)
    assert carrier.kinds == ["snapshot"] * 3


def test_feed_brings_a_late_view_up_to_date(feed, carrier, events):
    for have in (-1, 3, len(events), len(events) + 5, "many"):
        feed.receive(carrier, {"kind": "hello", "have": have})
    assert carrier.kinds == ["snapshot", "delta", "delta", "snapshot", "snapshot"]
    assert (carrier.sent[1]["from"], carrier.sent[1]["n"]) == (3, len(events))
    assert (carrier.sent[2]["from"], carrier.sent[2]["n"], carrier.sent[2]["rows"]) == (len(events), len(events), [])


def test_feed_answers_a_ping_with_its_number(feed, carrier):
    feed.receive(carrier, {"kind": "ping", "nonce": 7})
    assert carrier.sent == [{"kind": "pong", "nonce": 7}]


def test_feed_gives_details_of_a_span(feed, carrier):
    span = next(row["span_id"] for row in feed.messages.make_snapshot()["rows"] if row["kind"] == "llm")
    feed.receive(carrier, {"kind": "details", "span_id": span})
    assert (carrier.sent[0]["kind"], carrier.sent[0]["span_id"], carrier.sent[0]["output"]) == (
        "details",
        span,
        "Hello",
    )


@pytest.mark.parametrize("stop, told", [(None, False), (bool, None)])
def test_w171_views_are_told_where_they_can_not_stop_a_run(events, carrier, stop, told):
    feed = make_feed(events[:3], stop=stop)
    feed.receive(carrier, {"kind": "hello"})
    assert carrier.sent[0]["run"]["is_stoppable"] is told


def test_stop_button_stops_the_run_while_it_goes_on(events, carrier):
    stopped = []
    feed = make_feed(events[:3], stop=lambda: stopped.append(True))
    feed.receive(carrier, {"kind": "stop"})
    feed.paint(True)
    feed.receive(carrier, {"kind": "stop"})
    assert stopped == [True]


def test_broken_subscriber_is_left_out_and_the_others_are_told(feed, carrier, caplog):
    feed.subscribe(DeadLine())
    feed.paint(False)
    assert carrier.kinds == ["snapshot"]
    assert "can't be reached" in caplog.text
    assert feed.pulse_s is not None


class DeadLine:
    """A subscriber whose line is dead."""

    def send(self, _content, _buffers=None):
        raise RuntimeError("closed")


def test_unsubscribed_is_told_nothing_more(feed, carrier):
    feed.unsubscribe(carrier)
    feed.paint(True)
    assert carrier.sent == []


@pytest.mark.parametrize("nonsense", [None, "stop", 3, [], {}, {"kind": "eval"}, {"kind": ["stop"]}, {"kind": "stop"}])
def test_nonsense_from_a_page_changes_nothing(feed, carrier, nonsense):
    feed.receive(carrier, nonsense)
    assert carrier.sent == []


def test_feed_is_found_by_its_id_and_live_while_its_run_goes_on(events):
    running, over = make_feed(events[:3], cell_id="c1"), make_feed(events)
    assert find_feed(running.feed_id) is running
    assert {running, over} <= set(list_feeds())
    assert running.is_live
    assert not over.is_live
    running.paint(True)
    assert not running.is_live
    feed_id = running.feed_id
    del running
    assert find_feed(feed_id) is None


def test_widget_carries_what_its_view_asks_and_what_the_feed_answers(events, sent):
    feed = make_feed(events)
    widget = show_feed(feed)
    widget._handle_custom_msg({"kind": "ping", "nonce": 3}, [])
    widget._handle_custom_msg({"kind": "hello", "have": -1}, [])
    assert [message["kind"] for message in sent] == ["pong", "snapshot"]


def test_closed_widget_is_replaced(events):
    feed = make_feed(events)
    widget = show_feed(feed)
    assert show_feed(feed) is widget
    widget.close()
    assert show_feed(feed) is not widget


def test_same_output_has_the_same_widget(events):
    output = Output(events)
    assert make_timeline(output) is make_timeline(output)
    assert make_timeline(Output(events)) is not make_timeline(output)


def test_widget_brings_a_picture_for_places_without_widgets(feed):
    data, _ = show_feed(feed)._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", TRACE_MIME, "application/vnd.jupyter.widget-view+json"}
    assert data[TRACE_MIME]["kind"] == "saved"
    assert data["text/plain"].startswith("✓ completed")


def test_widget_goes_with_its_output(events):
    output = Output(events)
    widget = make_timeline(output)
    assert widget.comm is not None
    del output
    assert widget.comm is None


def test_only_the_feed_is_synced_with_the_page(feed):
    ours = {name for name in show_feed(feed).keys if not name.startswith("_")}
    assert ours - {"layout", "tabbable", "tooltip"} == {"feed_id"}


def test_messages_are_delivered_beside_a_busy_cell(feed):
    """ipykernel 7.4 asks the comm where to deliver; the answer is where the page wants it."""
    widget = show_feed(feed)
    route = getattr(widget.comm, "_reply_subshell_for", lambda data, default: default)
    assert route({"method": "custom", "content": {}}, "the page's") == "the page's"


def test_view_goes_on_where_its_picture_can_not_be_kept_w24(events, monkeypatch, caplog):
    monkeypatch.setattr(run_display, "PICTURE_S", 0.0)
    live = RunPainter()

    def keep(_picture):
        raise OSError("no room")

    view = Recorder(live)
    live.show(run_display.KeptPicture(live.messages, keep, view))
    for event in events:
        live.on_event(event)
    live.close()
    assert view.paints[-1] == (len(events), True)
    assert all("can't be kept" in record.message for record in caplog.records)
