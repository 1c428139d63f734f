"""The typed trace: phases, tasks, model calls, tool calls, delegations (T5, T6)."""

import pickle
from datetime import timedelta

from hypothesis import given

from ensemble_notebook.domain.definitions.enums import CaptureMode, PhaseStatus, SpanStatus, ToolOutcome
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams
from tests.trace.test_operation_fold import managed, phase_done_twice


def searching(capture_mode):
    build = EventBuilder({"a": ()}, capture_mode=capture_mode)
    with build.task("a"):
        with build.turn(1):
            build.llm("Let me look.", asks=["search"], retries=[("429", 1.0)], input_tokens=10, output_tokens=2)
            build.tool("search", {"query": "tides"}, result="Found.")
        with build.turn(2):
            build.llm("Twice a day.")
    return ExecutionTrace.from_events(build.finish())


def test_a_task_has_its_model_calls_and_these_their_tool_calls():
    task = searching(CaptureMode.OFF).task("a")
    first, second = task.turns
    assert (first.response_type, first.text, first.input_tokens) == ("TOOL_CALLS", "Let me look.", 10)
    assert (first.latency, first.duration, len(first.attempts)) == (timedelta(seconds=1), timedelta(seconds=3), 2)
    (call,) = first.tool_calls
    assert (call.tool, call.arguments, call.result, call.outcome) == (
        "search",
        '{"query": "tides"}',
        "Found.",
        ToolOutcome.SUCCESS,
    )
    assert (second.response_type, second.iteration, second.tool_calls) == ("FINAL_ANSWER", 2, ())
    assert (task.system_prompt, task.user_prompt, task.output) == ("You are Writer.", "Do a.", "Twice a day.")


def test_off_keeps_of_each_call_what_it_added_and_standard_the_whole_history():
    def roles(mode):
        return [[each.role for each in call.messages] for call in searching(mode).task("a").turns]

    assert roles(CaptureMode.OFF) == [["system", "user", "assistant", "tool"], ["assistant"]]
    whole = ["system", "user", "assistant", "tool"]
    assert roles(CaptureMode.STANDARD) == roles(CaptureMode.FULL) == [whole, [*whole, "assistant"]]


def test_full_reads_the_arguments_of_tools():
    parsed = {
        mode: searching(mode).task("a").turns[0].tool_calls[0].parsed_input
        for mode in (CaptureMode.OFF, CaptureMode.STANDARD, CaptureMode.FULL)
    }
    assert parsed == {CaptureMode.OFF: None, CaptureMode.STANDARD: None, CaptureMode.FULL: {"query": "tides"}}


def test_work_that_is_done_again_begins_a_new_conversation():
    build = EventBuilder({"a": ()}, capture_mode=CaptureMode.STANDARD)
    with build.task("a"):
        with build.turn():
            build.llm("First.")
        build.again("Shorter.")
        with build.turn():
            build.llm("2nd.")
    task = ExecutionTrace.from_events(build.finish()).task("a")
    texts = [[each.text for each in call.messages] for call in task.turns]
    assert texts == [["You are Writer.", "Do a.", "First."], ["Once more: Shorter.", "2nd."]]
    assert task.attempt == 2


def test_a_correction_shows_what_it_asked():
    build = EventBuilder({"a": ()}, capture_mode=CaptureMode.STANDARD)
    with build.task("a"):
        with build.turn(1):
            build.llm("no JSON")
        with build.turn(2, correction="That was no JSON."):
            build.llm("{}")
    task = ExecutionTrace.from_events(build.finish()).task("a")
    assert [each.text for each in task.turns[1].messages] == ["That was no JSON.", "{}"]
    assert [each.text for each in task.turns[0].messages][-1] == "no JSON"
    assert task.user_prompt == "Do a."
    turn = [span for span in task.spans if span.kind.value == "turn"][1]
    assert turn.attributes == {"is_correction": True}


def test_the_work_of_a_worker_is_under_its_delegation():
    trace = ExecutionTrace.from_events(managed())
    (manager,) = trace.tasks
    done, refused = manager.delegations
    worker = done.worker_trace
    assert worker is trace.task("researcher_1")
    assert (worker.agent, worker.output, len(worker.turns)) == ("Researcher", "Found.", 2)
    assert (done.delegator, done.worker, done.depth, done.result) == ("Manager", "Researcher", 1, "Found.")
    assert (done.succeeded, refused.succeeded, refused.worker_trace) == (True, False, None)
    assert refused.result == "Delegation limit reached."
    assert manager.turns[0].tool_calls[0].delegation == done
    assert (manager.metrics.delegation_count, worker.metrics.input_tokens, manager.metrics.input_tokens) == (
        2,
        300,
        330,
    )


def test_a_phase_has_its_tasks_and_says_how_it_ended():
    build = EventBuilder({"a": (), "b": ()}, phases={"p": ["a"], "q": ["b"]}, after={"q": ["p"]})
    with build.phase("p"), build.task("a"):
        build.fail(ValueError("no"))
    build.skip_phase("q", "'p' failed")
    first, second = ExecutionTrace.from_events(build.finish()).phases
    assert (first.name, first.status, [task.name for task in first.tasks]) == ("p", PhaseStatus.FAILED, ["a"])
    assert (second.status, second.span.reason, second.duration) == (PhaseStatus.SKIPPED, "'p' failed", None)
    (again,) = ExecutionTrace.from_events(phase_done_twice()).phases
    assert (again.status, again.attempt, again.metrics.llm_call_count) == (PhaseStatus.COMPLETED, 2, 2)


def test_each_failure_is_one_error_of_the_run():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(error=ConnectionError("gone"), retries=[("429", 0.0)])
    errors = ExecutionTrace.from_events(build.finish()).errors
    assert [(span.kind.value, span.error_message) for span in errors] == [("attempt", "429"), ("attempt", "gone")]


@given(streams())
def test_every_call_and_delegation_is_in_exactly_one_task(events):
    trace = ExecutionTrace.from_events(events)
    found = []

    def walk(task):
        found.extend(call.span.span_id for call in task.turns)
        found.extend(each.span.span_id for call in task.turns for each in call.tool_calls)
        for delegation in task.delegations:
            found.append(delegation.span.span_id)
            if delegation.worker_trace is not None:
                walk(delegation.worker_trace)

    for task in trace.tasks:
        walk(task)
    kinds = ("llm", "tool", "delegation")
    assert sorted(found) == sorted(span.span_id for span in trace.spans if span.kind.value in kinds)


@given(streams())
def test_the_parts_of_a_run_that_was_stopped_are_there(events):
    trace = ExecutionTrace.from_events(events)
    for task in trace.tasks:
        assert (task.started_at is None) == (task.span.start_ms is None)
        assert pickle.loads(pickle.dumps(task)).metrics == task.metrics
        for call in task.turns:
            assert (call.response_type is None) == (call.span.status is not SpanStatus.OK)
