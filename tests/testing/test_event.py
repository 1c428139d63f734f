from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.review import ReviewDecision
from tests.support.event_builder import EventBuilder


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


def test_a_delegation_is_written_inside_a_tool_call_with_the_work_of_the_worker_inside():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(asks=["delegate_task"])
        with build.delegate("Helper", "Help out."), build.turn():
            build.llm("Helped.")
    events = build.finish()
    first = names(events).index("ToolCallStarted")
    assert names(events)[first : first + 4] == [
        "ToolCallStarted",
        "DelegationStarted",
        "TaskStarted",
        "TaskInputPrepared",
    ]
    tool, delegation, work = events[first : first + 3]
    assert (delegation.parent_id, work.parent_id) == (tool.span_id, delegation.span_id)
    assert (work.task, work.index, work.agent) == ("helper_1", None, "Helper")
    done = next(event for event in events if isinstance(event, ev.DelegationCompleted))
    assert (done.response.raw_output, done.response.task_id) == ("Helped.", delegation.request.task_id)


def test_a_worker_fails_alone_and_a_task_that_hangs_takes_its_worker_along():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(asks=["delegate_task"])
        with build.delegate("Helper"), build.turn():
            build.llm(error=ConnectionError("gone"))
        with build.delegate("Helper"), build.turn():
            build.llm(hangs=True)
    events = build.interrupt()
    failed = [event for event in events if isinstance(event, ev.DelegationFailed)]
    assert [(event.status, event.response.errors) for event in failed] == [
        (SpanStatus.ERROR, ("gone",)),
        (SpanStatus.CANCELLED, ("stopped",)),
    ]
    assert events[-1].status is RunStatus.INTERRUPTED


def test_a_task_that_is_given_up_ends_as_skipped():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.give_up("the budget is used up")
    assert names(build.finish())[-2:] == ["TaskSkipped", "RunEnded"]


def test_a_phase_that_is_sent_back_starts_its_tasks_again_in_the_same_spans():
    build = EventBuilder({"a": ()}, phases={"p": ["a"]}, agents={"a": "Handler"})
    with build.phase("p"):
        with build.task("a"):
            pass
        build.review(ReviewDecision.retry("Again."), subject="phase")
        build.phase_again("Again.")
        with build.task("a"):
            pass
    started = [event for event in build.finish() if isinstance(event, ev.TaskStarted)]
    assert len(started) == 2
    assert started[0].span_id == started[1].span_id


def test_another_agent_takes_over_where_one_has_failed():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        with build.turn():
            build.llm(error=ConnectionError("gone"))
        build.fall_back("Substitute")
        with build.turn():
            build.llm("Done.")
    events = build.finish()
    turns = [(event.agent, event.is_fallback) for event in events if isinstance(event, ev.TurnStarted)]
    assert turns == [("Writer", False), ("Substitute", True)]
    assert events[-2].output.agent_role == "Substitute"
    assert events[-1].status is RunStatus.COMPLETED
