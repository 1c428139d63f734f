"""The listener behind live views, and the widget as one of them (W13, W16)."""

import threading
from types import SimpleNamespace

import pytest

from ensemble_notebook.notebook.live.run_painter import RunPainter
from ensemble_notebook.notebook.live.timeline_widget import TimelineWidget, make_timeline
from ensemble_notebook.testing.event_builder import EventBuilder
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

LIMIT_S = 10


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
        self.events = events
        self.late_warnings = ()
        self.ensemble = SimpleNamespace(cost=None)


@pytest.fixture
def events():
    build = EventBuilder({"a": (), "b": ["a"]})
    for name in ("a", "b"):
        with build.task(name), build.turn():
            build.llm("Hello", stream=["Hel", "lo"])
    return build.finish()


@pytest.fixture
def sent(monkeypatch):
    """What widgets send, in order."""
    messages = []
    monkeypatch.setattr(TimelineWidget, "send", lambda _, content: messages.append(content))
    return messages


@pytest.fixture
def widget(events):
    return TimelineWidget(TimelineMessages(TraceFold.from_events(events)))


def receive(widget, content):
    widget._handle_custom_msg(content, [])


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


def test_burst_of_events_is_one_paint(events):
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


def test_widget_sends_each_change_once(events, sent):
    fold = TraceFold()
    widget = TimelineWidget(TimelineMessages(fold))
    for event in events[:5]:
        fold.add(event)
    widget.paint(False)
    widget.paint(False)
    for event in events[5:]:
        fold.add(event)
    widget.paint(True)
    assert [(message["kind"], message["from"], message["n"]) for message in sent] == [
        ("delta", 0, 5),
        ("delta", 5, len(events)),
    ]
    assert widget.snapshot["run"]["status"] == "completed"


def test_widget_brings_a_late_view_up_to_date(widget, events, sent):
    receive(widget, {"kind": "hello", "have": -1})
    receive(widget, {"kind": "hello", "have": 3})
    receive(widget, {"kind": "hello", "have": len(events) + 5})
    receive(widget, {"kind": "hello", "have": "many"})
    assert [message["kind"] for message in sent] == ["snapshot", "delta", "snapshot", "snapshot"]
    assert (sent[1]["from"], sent[1]["n"]) == (3, len(events))


def test_widget_answers_a_ping_with_its_number(widget, sent):
    receive(widget, {"kind": "ping", "nonce": 7})
    assert sent == [{"kind": "pong", "nonce": 7}]


def test_widget_gives_details_of_a_span(widget, sent):
    span = next(row["span_id"] for row in widget.snapshot["rows"] if row["kind"] == "llm")
    receive(widget, {"kind": "details", "span_id": span})
    assert (sent[0]["kind"], sent[0]["span_id"], sent[0]["output"]) == ("details", span, "Hello")


def test_stop_button_stops_the_run(events, sent):
    stopped = []
    widget = TimelineWidget(TimelineMessages(TraceFold.from_events(events[:3])), lambda: stopped.append(True))
    receive(widget, {"kind": "stop"})
    assert stopped == [True]


@pytest.mark.parametrize("nonsense", [None, "stop", 3, [], {}, {"kind": "eval"}, {"kind": ["stop"]}, {"kind": "stop"}])
def test_nonsense_from_a_page_changes_nothing(widget, sent, nonsense):
    receive(widget, nonsense)
    assert sent == []


def test_same_output_has_the_same_widget(events):
    output = Output(events)
    assert make_timeline(output) is make_timeline(output)
    assert make_timeline(Output(events)) is not make_timeline(output)


def test_widget_brings_a_picture_for_places_without_widgets(widget):
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"].startswith("✓ completed")


def test_widget_goes_with_its_output(events):
    output = Output(events)
    widget = make_timeline(output)
    assert widget.comm is not None
    del output
    assert widget.comm is None


def test_only_the_snapshot_is_synced_with_the_page(widget):
    ours = {name for name in widget.keys if not name.startswith("_")}
    assert ours - {"layout", "tabbable", "tooltip"} == {"snapshot"}


def test_messages_are_delivered_beside_a_busy_cell(events, monkeypatch):
    """ipykernel 7.4 asks the comm where to deliver; the answer is where the page wants it."""
    widget = TimelineWidget(TimelineMessages(TraceFold.from_events(events)))
    route = getattr(widget.comm, "_reply_subshell_for", lambda data, default: default)
    assert route({"method": "custom", "content": {}}, "the page's") == "the page's"
