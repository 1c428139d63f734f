"""What is selected in the views of a run, as data (W7)."""

import gc
import weakref

import pytest

from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel
from ensemble_notebook.notebook.live.run_feed import RunFeed, find_feed_of
from ensemble_notebook.notebook.live.timeline_widget import PlainTimeline, TimelineWidget, make_timeline
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder


class Carrier:
    """A subscriber that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent = []

    def send(self, content, _buffers=None):
        self.sent.append(content)

    def take(self):
        """What has come since the last time."""
        taken, self.sent = self.sent, []
        return taken


def make_report():
    tasks = [Task.of("Find", name="find"), Task.of("Write", name="write")]
    return Ensemble(tasks=tasks, llm=ScriptedChatModel(default="Done.")).run()


@pytest.fixture
def report():
    report = make_report()
    make_timeline(report)
    return report


@pytest.fixture
def carriers(report):
    """Two pages that show the run."""
    pair = Carrier(), Carrier()
    for carrier in pair:
        find_feed_of(report).subscribe(carrier)
    return pair


@pytest.fixture
def calls(report):
    """The ids of the model calls, in order."""
    return list(report.frames.llm_calls.index)


@pytest.fixture(params=[TimelineWidget, PlainTimeline])
def mode(request, monkeypatch):
    """With a reader, and without: the class of timelines there."""
    if request.param is PlainTimeline:
        monkeypatch.setattr("ensemble_notebook.notebook.live.timeline_widget.get_ipython", object)
        monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "static")
    return request.param


def receive(report, carrier, **content):
    find_feed_of(report).receive(carrier, {"kind": "selection", "nonce": 7, **content})


def test_nothing_is_selected_at_first_and_selects_no_rows(report):
    assert (report.timeline.selection, report.timeline.range) == ([], None)
    chosen = report.frames.spans.loc[report.timeline.selection]
    assert chosen.empty
    assert list(chosen.columns) == list(report.frames.spans.columns)


def test_selection_is_what_pandas_takes_as_labels(report, calls):
    report.timeline.selection = reversed(calls)
    assert list(report.frames.spans.loc[report.timeline.selection].index) == calls[::-1]
    with pytest.raises(KeyError):  # why it is no tuple
        report.frames.spans.loc[tuple(report.timeline.selection)]


def test_selection_takes_an_index_a_column_and_each_span_once(report, calls):
    report.timeline.selection = report.frames.llm_calls.index
    assert report.timeline.selection == calls
    report.timeline.selection = report.frames.attempts.llm_id
    assert report.timeline.selection == calls
    report.timeline.selection = calls * 2
    assert report.timeline.selection == calls


@pytest.mark.parametrize("as_text", [True, False])
def test_unknown_spans_are_refused_with_the_nearest_one(report, calls, as_text):
    wrong = f"{calls[0]}x"
    near = "takes a list of span ids, got" if as_text else f"no span '{wrong}'. Did you mean '{calls[0]}'?"
    with pytest.raises(ValidationError, match=f".*{near.replace('?', '[?]')}"):
        report.timeline.selection = wrong if as_text else [calls[1], wrong]
    assert report.timeline.selection == []


@pytest.mark.parametrize(
    "wrong, why",
    [
        ((500, 200), "range has to end after it begins: from_ms is 500, to_ms is 200"),
        ((200, 200), "has to end after it begins"),
        ((-5, 200), "counts milliseconds from the start of the run"),
        ((0, float("nan")), "counts milliseconds"),
        ((1, 2, 3), r"takes \(from_ms, to_ms\) or None"),
        ("all", r"takes \(from_ms, to_ms\) or None, got 'all'"),
    ],
)
def test_ranges_that_are_none_are_refused(report, wrong, why):
    report.timeline.range = (1, 2)
    with pytest.raises(ValidationError, match=why):
        report.timeline.range = wrong
    assert report.timeline.range == (1.0, 2.0)


def test_what_python_sets_is_told_to_all_pages_once(report, carriers, calls):
    report.timeline.selection = calls[:1]
    report.timeline.selection = calls[:1]
    report.timeline.range = [10, 20]
    told = [(each["kind"], each["selection"], each["range"]) for each in carriers[0].sent]
    assert told == [("selection", calls[:1], None), ("selection", calls[:1], (10.0, 20.0))]
    assert carriers[0].sent == carriers[1].sent


def test_what_a_page_selects_is_told_to_python_and_to_all_pages(report, carriers, calls):
    one, other = carriers
    receive(report, one, selection=[calls[1], "of another run"])
    assert report.timeline.selection == [calls[1]]
    state = {"kind": "selection", "selection": [calls[1]], "range": None, "time": None}
    assert other.take() == [state]
    assert one.take() == [state, {**state, "nonce": 7}]
    receive(report, other, range=[10, 20])
    assert (report.timeline.selection, report.timeline.range) == ([calls[1]], (10.0, 20.0))
    receive(report, other, selection=[], range=None)
    assert (report.timeline.selection, report.timeline.range) == ([], None)


@pytest.mark.parametrize("content", [{"selection": "x"}, {"selection": [3]}, {"range": [5, 1]}, {"range": "x"}, {}])
def test_what_makes_no_sense_selects_nothing(report, carriers, content):
    receive(report, carriers[0], **content)
    assert (report.timeline.selection, report.timeline.range) == ([], None)
    assert [each.get("nonce") for each in carriers[0].sent] == [7]


def test_a_page_that_comes_later_is_told_what_is_selected(report, calls):
    feed, late = find_feed_of(report), Carrier()
    feed.receive(late, {"kind": "hello", "have": -1})
    assert [each["kind"] for each in late.take()] == ["snapshot"]
    report.timeline.selection = calls
    feed.receive(late, {"kind": "hello", "have": -1})
    snapshot, told = late.take()
    assert (snapshot["kind"], told["kind"], told["selection"]) == ("snapshot", "selection", calls)


def test_observers_hear_of_what_python_and_pages_select(mode, report, calls):
    heard, timeline = [], make_timeline(report)
    assert isinstance(timeline, mode)

    def hear(change):
        heard.append((change.name, change.old, change.new))

    timeline.observe(hear)
    timeline.selection = calls[:1]
    receive(report, Carrier(), selection=calls, range=[1, 2])
    assert heard == [
        ("selection", [], calls[:1]),
        ("selection", calls[:1], calls),
        ("range", None, (1.0, 2.0)),
    ]
    assert (make_timeline(report).selection, make_timeline(report).range) == (calls, (1.0, 2.0))
    make_timeline(report).unobserve(hear)
    timeline.selection = []
    assert len(heard) == 3


def test_an_observer_may_select_something_else(report, carriers, calls):
    timeline = report.timeline
    timeline.observe(lambda _: setattr(timeline, "selection", calls[:1]), "selection")
    receive(report, carriers[0], selection=calls)
    assert timeline.selection == calls[:1]
    assert carriers[0].sent[-1]["selection"] == carriers[1].sent[-1]["selection"] == calls[:1]


def test_a_page_is_answered_also_where_an_observer_fails(report, carriers, calls):
    report.timeline.observe(lambda _: 1 / 0, "selection")
    with pytest.raises(ZeroDivisionError):
        receive(report, carriers[0], selection=calls)
    assert carriers[0].sent[-1] == {"kind": "selection", "selection": calls, "range": None, "time": None, "nonce": 7}
    assert carriers[1].sent[-1]["selection"] == calls


def test_a_timeline_whose_selection_is_observed_goes_with_its_output(mode):
    report = make_report()
    timeline, feed = make_timeline(report), weakref.ref(find_feed_of(report))
    timeline.observe(print)
    timeline.selection = report.frames.tasks.index
    assert isinstance(timeline, mode)
    del report, timeline
    gc.collect()
    assert feed() is None


# --- The time at which a run is shown (W35) ---------------------------------------------------------------------------


def length_of(report):
    return find_feed_of(report).messages.length_ms / 1000


def test_the_time_of_a_run_is_set_observed_and_told_to_all_views_w35(report, carriers):
    seen = []
    report.timeline.observe(lambda change: seen.append((change.old, change.new)), "time")
    assert report.timeline.time is None
    middle = length_of(report) / 2
    report.timeline.time = middle
    assert report.timeline.time == middle
    for carrier in carriers:
        assert carrier.take()[-1]["time"] == pytest.approx(middle * 1000)
    receive(report, carriers[0], time=None)
    assert report.timeline.time is None
    assert seen == [(None, middle), (middle, None)]
    assert [each.get("nonce") for each in carriers[0].take()] == [None, 7]


def test_a_view_sets_the_time_in_milliseconds_w35(report, carriers):
    receive(report, carriers[0], time=length_of(report) * 500)
    assert report.timeline.time == pytest.approx(length_of(report) / 2)
    for wrong in (-1, 1e9, "soon", True, [1]):
        receive(report, carriers[0], time=wrong)
    assert report.timeline.time == pytest.approx(length_of(report) / 2)


def test_at_its_end_a_run_is_shown_as_it_is_w35(report, carriers):
    report.timeline.time = 0
    report.timeline.time = round(length_of(report), 6)
    assert report.timeline.time is None
    assert [each["time"] for each in carriers[0].take()] == [0, None]


@pytest.mark.parametrize("wrong", [-0.001, 1e6, float("nan"), float("inf")])
def test_a_time_outside_of_the_run_is_refused_with_the_range_w35(report, wrong):
    with pytest.raises(ValueError, match=r"from 0 to \S+ seconds; got .*None shows the end"):
        report.timeline.time = wrong
    assert report.timeline.time is None


@pytest.mark.parametrize("wrong", ["12.5", True, (1, 2)])
def test_what_is_no_time_is_refused_w35(report, wrong):
    with pytest.raises(ValidationError, match="takes seconds since the start of the run, or None, got"):
        report.timeline.time = wrong


def test_a_run_that_goes_on_has_no_time_to_be_shown_at_w35():
    fold = TraceFold.from_events(EventBuilder({"a": []}).events)
    feed = RunFeed(TimelineMessages(fold))
    with pytest.raises(ValidationError, match="Only a run that is over"):
        feed.selection.time = 0
    feed.selection.time = None


def test_the_picture_shows_the_run_as_it_was_w35(monkeypatch):
    monkeypatch.setattr("ensemble_notebook.notebook.live.timeline_widget.get_ipython", object)
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "static")
    output = make_report()
    whole = output.timeline._repr_mimebundle_()
    output.timeline.time = 0
    bundle = output.timeline._repr_mimebundle_()
    assert bundle["text/plain"].startswith("● as it was · ")
    assert " 0 ms of " in bundle["text/plain"]
    assert "0/2 tasks" in bundle["text/html"]
    assert "Done." not in bundle["text/html"]
    assert bundle.keys() == whole.keys()
    output.timeline.time = None
    assert output.timeline._repr_mimebundle_()["text/html"] == whole["text/html"]
