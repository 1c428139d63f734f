"""Events folded into spans: what is recorded, and what the sums are (T1, T2, T3)."""

import gc
import weakref

import pytest

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus, SpanStatus, ToolOutcome
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.event_builder import EventBuilder


def one_task(**facts):
    return EventBuilder({"a": ()}, **facts)


def of_kind(fold, kind):
    return [span for span in fold.spans.values() if span.kind is kind]


def test_the_tree_is_run_phase_task_turn_llm_attempt():
    build = EventBuilder({"a": ()}, phases={"p": ["a"]})
    with build.phase("p"), build.task("a"), build.turn():
        build.llm("x", asks=["search"])
        build.tool("search")
    fold = TraceFold.from_events(build.finish())
    depths = {span.kind: span.depth for span in fold.spans.values()}
    assert depths == {
        SpanKind.RUN: 0,
        SpanKind.PHASE: 1,
        SpanKind.TASK: 2,
        SpanKind.TURN: 3,
        SpanKind.LLM: 4,
        SpanKind.ATTEMPT: 5,
        SpanKind.TOOL: 4,
    }
    for span in fold.spans.values():
        if span.depth > 2:
            assert (span.task, span.phase, span.agent, span.iteration) == ("a", "p", "Writer", 1)


def test_planned_tasks_and_phases_are_there_before_they_run_under_the_id_they_will_have():
    build = EventBuilder({"a": (), "b": ["a"]}, phases={"p": ["a"], "q": ["b"]}, after={"q": ["p"]})
    planned = TraceFold.from_events(build.events)
    ghosts = [
        (span.name, span.status, span.start_ms, span.depends_on) for span in planned.spans.values() if span.parent
    ]
    assert ghosts == [
        ("p", SpanStatus.PENDING, None, ()),
        ("q", SpanStatus.PENDING, None, ("p",)),
        ("a", SpanStatus.PENDING, None, ()),
        ("b", SpanStatus.PENDING, None, ("a",)),
    ]
    for phase, task in (("p", "a"), ("q", "b")):
        with build.phase(phase), build.task(task), build.turn():
            build.llm("x")
    ended = TraceFold.from_events(build.finish())
    assert list(ended.spans)[: len(planned.spans)] == list(planned.spans)
    assert {span.status for span in ended.spans.values()} == {SpanStatus.OK}


def test_what_was_skipped_never_ran_and_says_why():
    build = EventBuilder({"a": (), "b": ["a"]}, phases={"p": ["a"], "q": ["b"]}, after={"q": ["p"]})
    with build.phase("p"), build.task("a"):
        build.wait(1)
        build.fail(ValueError("no"))
    build.skip_phase("q", "needs 'p', which failed")
    fold = TraceFold.from_events(build.finish())
    phase = next(span for span in fold.spans.values() if span.name == "q")
    task = next(span for span in fold.spans.values() if span.name == "b")
    assert (phase.status, phase.reason) == (SpanStatus.SKIPPED, "needs 'p', which failed")
    assert (task.status, task.start_ms, task.duration_ms, task.slack_ms) == (SpanStatus.SKIPPED, None, None, None)
    assert fold.tree.task_counts[SpanStatus.SKIPPED] == 1


def test_each_attempt_is_a_leaf_and_the_wait_stands_on_the_one_that_failed():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm("x", seconds=1, input_tokens=7, output_tokens=2, retries=[("429", 4.0), ("timeout", 8.0)])
    fold = TraceFold.from_events(build.finish())
    attempts = of_kind(fold, SpanKind.ATTEMPT)
    assert [(each.attempt, each.status, each.retry_reason, each.backoff_ms) for each in attempts] == [
        (1, SpanStatus.ERROR, "429", 4000.0),
        (2, SpanStatus.ERROR, "timeout", 8000.0),
        (3, SpanStatus.OK, None, None),
    ]
    assert [each.input_tokens for each in attempts] == [0, 0, 7]
    call = of_kind(fold, SpanKind.LLM)[0]
    assert (call.duration_ms, call.latency_ms, call.self_ms) == (15_000.0, 1000.0, 12_000.0)
    assert (call.attempt, call.max_attempts, call.totals.retry_count, call.totals.backoff_ms) == (3, 3, 2, 12_000.0)
    assert call.usage_leaf is False
    assert call.input_tokens is None


def test_a_call_that_backs_off_is_waiting():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm("x", retries=[("429", 4.0)])
    fold, seen = TraceFold(), []
    for event in build.finish():
        fold.add(event)
        if isinstance(event, ev.LlmCallRetried | ev.LlmAttemptStarted):
            seen.append(of_kind(fold, SpanKind.LLM)[0].status)
    assert seen == [SpanStatus.RUNNING, SpanStatus.WAITING, SpanStatus.RUNNING]


def test_totals_add_up_leaves_only_and_count_what_failed_too():
    build = EventBuilder({"a": (), "b": ()}, agents={"b": "Handler"})
    with build.task("a"):
        with build.turn(1):
            build.llm(asks=["search"], input_tokens=100, output_tokens=10, cache_read_tokens=60)
            build.tool("search", seconds=2)
        with build.turn(2):
            build.llm("x", input_tokens=200, output_tokens=20, retries=[("500", 1.0)])
    with build.task("b", output="done"):
        build.wait(1)
    fold = TraceFold.from_events(build.finish())
    metrics = fold.metrics
    assert (metrics.input_tokens, metrics.output_tokens, metrics.total_tokens) == (300, 30, 330)
    assert (metrics.llm_call_count, metrics.llm_attempt_count, metrics.tool_call_count) == (2, 3, 1)
    assert (metrics.llm_latency.total_seconds(), metrics.tool_time.total_seconds()) == (3.0, 2.0)
    assert (metrics.tokens_complete, metrics.cost, metrics.cost_complete) == (True, 0, True)
    assert fold.run.totals.cache_read_tokens == 60
    handler = next(span for span in fold.spans.values() if span.name == "b")
    assert (handler.totals.input_tokens, handler.totals.cost, handler.totals.cost_complete) == (0, 0, True)


def test_unknown_usage_makes_the_sums_incomplete_and_is_not_zero():
    build = EventBuilder({"a": (), "b": ()})
    for name, tokens in (("a", 7), ("b", None)):
        with build.task(name), build.turn():
            build.llm("x", input_tokens=tokens, output_tokens=tokens)
    fold = TraceFold.from_events(build.finish())
    known, unknown = of_kind(fold, SpanKind.TASK)
    assert (fold.metrics.input_tokens, fold.metrics.tokens_complete, fold.metrics.cost_complete) == (7, False, False)
    assert (known.totals.input_tokens, known.totals.tokens_complete) == (7, True)
    assert (unknown.totals.input_tokens, unknown.totals.total_tokens, unknown.totals.cost) == (None, None, None)


def test_a_failure_is_counted_once_and_each_level_names_it():
    build = EventBuilder({"a": ()}, phases={"p": ["a"]})
    with build.phase("p"), build.task("a"), build.turn():
        build.llm(error=ConnectionError("gone"), retries=[("timeout", 1.0)])
    fold = TraceFold.from_events(build.finish())
    failed = [span for span in fold.spans.values() if span.status is SpanStatus.ERROR]
    assert [span.kind for span in failed] == [
        SpanKind.RUN,
        SpanKind.PHASE,
        SpanKind.TASK,
        SpanKind.TURN,
        SpanKind.LLM,
        SpanKind.ATTEMPT,
        SpanKind.ATTEMPT,
    ]
    assert {(span.error_type, span.error_message) for span in failed if not span.retry_reason} == {
        ("ConnectionError", "gone")
    }
    assert [span.kind for span in failed if span.is_origin] == [SpanKind.ATTEMPT, SpanKind.ATTEMPT]
    assert fold.run.totals.error_count == 1
    assert fold.error[:2] == ("ConnectionError", "gone")


def test_a_turn_that_failed_by_itself_gets_the_error_of_its_task():
    """As when an agent goes on calling tools: the turn ends before anyone says why (E12)."""
    build = one_task()
    with build.task("a"), build.turn():
        build.llm("x")
        build.fail(LookupError("tired"))
    fold = TraceFold.from_events(build.finish())
    turn, task = of_kind(fold, SpanKind.TURN)[0], of_kind(fold, SpanKind.TASK)[0]
    assert (turn.error_type, turn.error_message, turn.is_origin) == ("LookupError", "tired", True)
    assert (task.error_type, task.is_origin) == ("LookupError", False)
    assert fold.run.totals.error_count == 1


def test_a_failing_tool_fails_nothing_else():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(asks=["search", "fetch"])
        build.tool("search", error=OSError("no disk"))
        build.tool("fetch", result="Error: no such page", outcome=ToolOutcome.FAILURE)
    fold = TraceFold.from_events(build.finish())
    search, fetch = of_kind(fold, SpanKind.TOOL)
    assert (search.error_type, search.error_message, search.outcome) == ("OSError", "no disk", "failure")
    assert (fetch.error_type, fetch.error_message) == ("ToolExecutionError", "Error: no such page")
    assert fold.status is RunStatus.COMPLETED
    assert fold.run.totals.error_count == 2


def test_a_refused_tool_call_is_recorded_and_not_counted():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(asks=["search"])
        build.tool("search", outcome=ToolOutcome.SKIPPED_MAX_ITERATIONS, seconds=0, result="STOP")
    fold = TraceFold.from_events(build.finish())
    assert of_kind(fold, SpanKind.TOOL)[0].outcome == "skipped_max_iterations"
    assert fold.metrics.tool_call_count == 0


def test_tools_side_by_side_have_lanes_of_their_own_and_are_waited_for_once():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(asks=["x", "y", "z"])
        for name, seconds in build.beside([("x", 1), ("y", 3), ("z", 2)]):
            build.tool(name, seconds=seconds)
        build.llm("done")
    fold = TraceFold.from_events(build.finish())
    assert [tool.lane for tool in of_kind(fold, SpanKind.TOOL)] == [0, 1, 2]
    assert [call.lane for call in of_kind(fold, SpanKind.LLM)] == [0, 0]
    assert fold.run.totals.tool_wait_ms == 3000.0
    assert fold.run.totals.tool_ms == 6000.0
    assert [call.totals.tool_wait_ms for call in of_kind(fold, SpanKind.LLM)] == [3000.0, 0.0]


def test_time_of_its_own_is_the_time_without_a_running_child():
    build = one_task()
    with build.task("a"):
        build.wait(0.5)
        with build.turn():
            build.llm(asks=["x", "y"], seconds=1)
            for name, seconds in build.beside([("x", 1), ("y", 3)]):
                build.tool(name, seconds=seconds)
            build.wait(0.25)
    fold = TraceFold.from_events(build.finish())
    assert of_kind(fold, SpanKind.TASK)[0].self_ms == 500.0
    assert of_kind(fold, SpanKind.TURN)[0].self_ms == 250.0


def test_time_to_first_token_is_known_live_and_afterwards():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(stream=["a", "b", "c", "d"], seconds=2, retries=[("429", 1.0)])
    events = build.finish()
    first = next(event.seq for event in events if isinstance(event, ev.LlmToken))
    assert of_kind(TraceFold.from_events(events[: first + 1]), SpanKind.LLM)[0].time_to_first_token_ms == 3500.0
    assert of_kind(TraceFold.from_events(events), SpanKind.LLM)[0].time_to_first_token_ms == 3500.0


def test_an_interrupt_cancels_what_runs_and_keeps_its_usage_unknown():
    build = EventBuilder({"a": (), "b": ["a"]})
    with build.task("a"), build.turn():
        build.llm(hangs=True, seconds=5)
    build.skip("b", "not started: the run was stopped")
    fold = TraceFold.from_events(build.interrupt())
    assert (fold.status, fold.exit_reason) == (RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)
    running = [span for span in fold.spans.values() if span.name != "b"]
    assert {span.status for span in running} == {SpanStatus.CANCELLED}
    assert {span.error_type for span in running} == {None}
    assert fold.metrics.tokens_complete is False
    assert not fold.tree.open


def test_a_run_that_took_too_long_says_so():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(hangs=True)
    fold = TraceFold.from_events(build.time_out())
    assert fold.run.status is SpanStatus.ERROR
    assert fold.error[:2] == ("DeadlineExceededError", "The run took longer than it was given.")


def test_what_ignored_its_cancellation_is_over_with_the_task_around_it():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(hangs=True, seconds=5)
    stubborn = tuple(
        event
        for event in build.interrupt()
        if not isinstance(event, ev.LlmAttemptEnded | ev.LlmCallFailed | ev.TurnEnded)
    )
    fold = TraceFold.from_events(stubborn)
    assert not fold.tree.open
    assert {(span.status, span.end_ms) for span in fold.spans.values()} == {(SpanStatus.CANCELLED, 5000.0)}
    assert fold.metrics.tokens_complete is False


def test_notes_are_shown_until_the_model_is_ready_and_warnings_stay():
    build = one_task()
    build.warn("Agent 'Critic' has no task.")
    with build.task("a"):
        with build.startup("Starting the local model"):
            build.note("Starting the local model.")
            build.wait(1)
            assert TraceFold.from_events(build.events).note == "Starting the local model."
        assert TraceFold.from_events(build.events).note is None
        with build.turn():
            build.llm("x")
    fold = TraceFold.from_events(build.finish())
    assert fold.note is None
    assert fold.warnings == ["Agent 'Critic' has no task."]


def test_the_note_is_about_a_model_that_is_still_being_made_ready():
    build = one_task()
    with build.task("a"):
        for name, seconds in build.beside([("Loading one", 1), ("Loading another", 3)]):
            with build.startup(name):
                build.note(f"{name} ...")
                build.wait(seconds)
    ended = [place for place, event in enumerate(build.events) if isinstance(event, ev.WaitEnded)]
    notes = [TraceFold.from_events(build.events[: place + 1]).note for place in ended]
    assert notes == ["Loading another", None]


def test_messages_are_kept_in_the_order_of_the_conversation():
    build = one_task()
    with build.task("a", prompt="Find llamas."):
        with build.turn(1):
            build.llm(asks=["search"])
            build.tool("search", {"query": "llamas"}, result="two llamas")
        with build.turn(2):
            build.llm("Two.")
    fold = TraceFold.from_events(build.finish())
    said = fold.messages[of_kind(fold, SpanKind.TASK)[0].span_id]
    assert [(each.role, each.text, each.name) for each in said] == [
        ("system", "You are Writer.", None),
        ("user", "Find llamas.", None),
        ("assistant", "", None),
        ("tool", "two llamas", "search"),
        ("assistant", "Two.", None),
    ]
    assert [call.name for call in said[2].tool_calls] == ["search"]
    assert of_kind(fold, SpanKind.TOOL)[0].input == '{"query": "llamas"}'
    assert of_kind(fold, SpanKind.TASK)[0].output == "Two."


def test_secrets_are_masked_before_anything_is_recorded():
    key = "sk-" + "a1B2" * 8
    build = one_task(inputs={"token": key})
    build.warn(f"saw {key}")
    with build.task("a", prompt=f"use {key}"), build.turn():
        build.llm(f"ok {key}", asks=["search"])
        build.tool("search", {"key": key}, result=key, error=OSError(key))
        build.llm(error=ConnectionError(f"401 for {key}"))
    fold = TraceFold.from_events(build.finish())
    recorded = [repr(fold.spans), repr(fold.messages), repr(fold.inputs), repr(fold.warnings), repr(fold.error)]
    assert not any(key in each for each in recorded)
    assert "***" in fold.inputs["token"]


def test_long_output_of_a_task_that_is_its_last_reply_is_masked_once():
    text = "word " * 1_000 + "sk-" + "a1B2" * 8
    build = one_task()
    with build.task("a"), build.turn():
        build.llm(text)
    fold = TraceFold.from_events(build.finish())
    (task,), (*_, reply) = of_kind(fold, SpanKind.TASK), fold.messages[of_kind(fold, SpanKind.TASK)[0].span_id]
    assert task.output == "word " * 1_000 + "***"
    assert task.output is reply.text


def test_a_secret_across_the_end_of_a_cut_error_message_is_masked():
    key = "sk-" + "a1B2" * 8
    build = one_task(agents={"a": "Handler"})
    with build.task("a"):
        build.fail(ValueError("x" * 3_990 + " " + key))
    message = TraceFold.from_events(build.finish()).error.message
    assert "sk-" not in message


def test_half_characters_never_get_into_a_trace():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm("broken \ud83d end")
    fold = TraceFold.from_events(build.finish())
    assert fold.spans[of_kind(fold, SpanKind.TASK)[0].span_id].output.encode()


def test_an_error_whose_text_can_not_be_made_is_still_told():
    class BrokenError(Exception):
        def __str__(self):
            raise RuntimeError("even this fails")

    build = one_task(agents={"a": "Handler"})
    with build.task("a"):
        build.fail(BrokenError())
    assert TraceFold.from_events(build.finish()).error[:2] == ("BrokenError", "(its message can't be shown)")


def test_an_event_of_a_later_version_changes_nothing():
    class Unheard(ev.Event):
        pass

    build = one_task()
    fold = TraceFold.from_events(build.events)
    before = dict(fold.spans)
    fold.add(Unheard(run_id="run", seq=2, span_id="run", parent_id=None, time=build.now, offset_s=0.0))
    assert fold.spans == before
    assert fold.count == 3


@pytest.mark.parametrize("queued_s", [0.0, 1.5])
def test_the_wait_for_a_free_place_is_the_tasks(queued_s):
    build = one_task()
    build.wait(queued_s)
    with build.task("a", queued_s=queued_s), build.turn():
        build.llm("x")
    assert of_kind(TraceFold.from_events(build.finish()), SpanKind.TASK)[0].queue_ms == queued_s * 1000


def test_a_fold_that_nobody_has_any_more_is_gone_at_once():
    build = one_task()
    with build.task("a"), build.turn():
        build.llm("x")
    fold = TraceFold.from_events(build.finish())
    gone = weakref.ref(fold)
    was_on = gc.isenabled()
    gc.disable()
    try:
        del fold
        assert gone() is None
    finally:
        if was_on:
            gc.enable()
