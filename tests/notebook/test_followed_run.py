"""The timeline of a run that Python has started: `handle.timeline` (W174)."""

import threading

import pytest

from ensemble_notebook import Ensemble, RunInterrupted, RunStatus, ScriptedChatModel, Task
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.notebook.live.run_feed import find_feed
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME
from tests.support.row_reader import read_rows

LIMIT_S = 60


class Held:
    """A task's handler that goes on when it is let."""

    def __init__(self):
        self.began, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, _task):
        self.began.set()
        assert self.goes_on.wait(LIMIT_S)
        return "done"


class Line:
    """A subscriber that waits for what it is sent."""

    def __init__(self, feed):
        self.states: dict[str, str] = {}
        self._changed = threading.Condition()
        feed.subscribe(self)

    def send(self, content, buffers=None):
        if content["kind"] not in ("snapshot", "delta"):
            return
        with self._changed:
            self.states |= {row["name"]: row["status"] for row in read_rows(content, buffers or [])}
            self._changed.notify_all()

    def wait_for(self, name, status):
        with self._changed:
            assert self._changed.wait_for(lambda: self.states.get(name) == status, LIMIT_S), self.states


def is_done(output):
    return output.raw == "done"


def hold(handler, name="held"):
    return Task.of("Wait", name=name, handler=handler)


@pytest.fixture
def held():
    held = Held()
    yield held
    held.goes_on.set()


def wait_until_painted():
    for thread in threading.enumerate():
        if thread.name == "ensemble-painter":
            thread.join(LIMIT_S)


def test_w174_rows_of_a_started_run_come_while_it_goes_on(held):
    handle = Ensemble(
        tasks=[Task.of("Say hello", name="hello"), hold(held)], llm=ScriptedChatModel(replies=["Hello"])
    ).start()
    assert held.began.wait(LIMIT_S)
    feed = find_feed(handle.timeline.feed_id)
    line = Line(feed)
    line.wait_for("hello", "ok")
    line.wait_for("held", "running")
    assert feed.is_live
    held.goes_on.set()
    line.wait_for("held", "ok")
    output = handle.result(LIMIT_S)
    wait_until_painted()
    assert not feed.is_live
    assert output.timeline is handle.timeline


def test_w174_stop_of_the_view_stops_the_run(held):
    handle = Ensemble(tasks=[hold(held), hold(held, "later")]).start()
    assert held.began.wait(LIMIT_S)
    feed = find_feed(handle.timeline.feed_id)
    feed.receive(Line(feed), {"kind": "stop"})
    held.goes_on.set()
    with pytest.raises(RunInterrupted):
        handle.result(LIMIT_S)
    assert handle.status is RunStatus.INTERRUPTED


def test_w174_replies_are_streamed_to_who_begins_to_watch(held):
    tasks = [hold(held), Task.of("Say hello", name="hello")]
    handle = Ensemble(tasks=tasks, llm=ScriptedChatModel(replies=["Hello, all of you"])).start()
    assert held.began.wait(LIMIT_S)
    assert handle.timeline is handle.timeline
    held.goes_on.set()
    handle.result(LIMIT_S)
    assert "".join(event.text for event in handle.events if type(event).__name__ == "LlmToken") == "Hello, all of you"


def test_w174_where_nobody_reads_it_is_a_picture_of_how_far_the_run_is(held, monkeypatch):
    monkeypatch.setattr("ensemble_notebook.notebook.live.timeline_widget.get_ipython", object)
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "static")
    handle = Ensemble(tasks=[hold(held)], name="night").start()
    assert held.began.wait(LIMIT_S)
    bundle = handle.timeline._repr_mimebundle_()
    assert "running when saved" in bundle["text/plain"]
    assert TRACE_MIME not in bundle
    held.goes_on.set()
    handle.result(LIMIT_S)
    wait_until_painted()
    assert "completed" in handle.timeline._repr_mimebundle_()["text/plain"]


def test_w174_a_run_that_is_over_has_the_timeline_of_its_output():
    handle = Ensemble(tasks=[Task.of("Do it", handler=lambda _: "done")]).start()
    output = handle.result(LIMIT_S)
    assert handle.timeline is output.timeline


def test_w174_a_map_is_followed_and_keeps_the_scores_of_its_result(held):
    ensemble = Ensemble(tasks=[Task.of("Wait for {n}", handler=held)])
    handle = start_map(ensemble, read_map([{"n": "1"}, {"n": "2"}], score=[is_done]))
    handle._begin()
    assert held.began.wait(LIMIT_S)
    feed = find_feed(handle.timeline.feed_id)
    held.goes_on.set()
    result = handle.result(timeout=LIMIT_S)
    wait_until_painted()
    assert result.timeline is handle.timeline
    assert "is_done" in str(feed.messages.pack_snapshot()[0]["run"])
