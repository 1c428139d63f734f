from ensemble_notebook.domain import event as ev
from ensemble_notebook.domain.choice import RunStatus, SpanStatus
from ensemble_notebook.testing.event import EventBuilder


def names(events):
    return [type(event).__name__ for event in events]


def test_blocks_open_and_close_spans_in_order():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x")
    assert names(build.finish()) == [
        "RunStarted",
        "PlanMade",
        "TaskStarted",
        "TaskInputPrepared",
        "TurnStarted",
        "LlmCallStarted",
        "LlmAttemptStarted",
        "LlmAttemptEnded",
        "LlmCallCompleted",
        "TurnEnded",
        "TaskCompleted",
        "RunEnded",
    ]


def test_what_is_written_beside_starts_at_the_same_moment_and_is_sorted_by_time():
    build = EventBuilder({"a": (), "b": ()}, agents={"a": "Handler", "b": "Handler"})
    for name, seconds in build.beside([("a", 3), ("b", 1)]):
        with build.task(name):
            build.wait(seconds)
    events = build.finish()
    starts = {event.task: event.offset_s for event in events if isinstance(event, ev.TaskStarted)}
    ends = [(event.task, event.offset_s) for event in events if isinstance(event, ev.TaskCompleted)]
    assert starts == {"a": 0.0, "b": 0.0}
    assert ends == [("b", 1.0), ("a", 3.0)]
    assert [event.seq for event in events] == list(range(len(events)))
    assert events[-1].offset_s == 3.0


def test_a_failure_fails_everything_around_it():
    build = EventBuilder({"a": (), "b": ()}, phases={"p": ["a"], "q": ["b"]})
    with build.phase("p"), build.task("a"), build.turn():
        build.llm(error=ConnectionError("gone"))
    with build.phase("q"), build.task("b", output="x"):
        pass
    events = build.finish()
    assert "TaskFailed" in names(events)
    assert [event.status for event in events if isinstance(event, ev.PhaseEnded)] == ["failed", "completed"]
    assert (events[-1].status, str(events[-1].error)) == (RunStatus.FAILED, "gone")


def test_what_hangs_stays_open_until_the_run_is_stopped():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(hangs=True)
    assert names(build.events)[-1] == "LlmAttemptStarted"
    stopped = build.interrupt()
    assert names(stopped)[-5:] == ["LlmAttemptEnded", "LlmCallFailed", "TurnEnded", "TaskFailed", "RunEnded"]
    assert {event.status for event in stopped[-5:-1]} == {SpanStatus.CANCELLED}


def test_the_plan_is_a_real_one():
    build = EventBuilder({"a": (), "b": ["a"]}, agents={"b": "Handler"})
    plan = build.events[1].plan
    assert plan.groups == (("a",), ("b",))
    assert [task.agent for task in plan.tasks] == ["Writer", "Handler"]
    assert build.events[1].task_span_ids == ("run.1", "run.2")
