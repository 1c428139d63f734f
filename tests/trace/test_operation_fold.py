"""Delegations, reviews, guardrails, memory and waits in the fold (T1)."""

import pytest

from ensemble_notebook.domain.definitions.enums import ExitReason, OnTimeout, RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.definitions.review import ReviewDecision
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.timeline.timeline_messages import RunState, to_row
from tests.support.event_builder import EventBuilder


def builder(**facts):
    return EventBuilder({"manager": ()}, agents={"manager": "Manager"}, **facts)


def managed():
    """A manager asks a researcher, who works for three seconds with a tool, and is refused a second one."""
    build = builder()
    with build.task("manager"):
        with build.turn(1):
            build.llm(asks=["delegate_task", "delegate_task"], input_tokens=10, output_tokens=1)
            with build.delegate("Researcher", "Find out."):
                with build.turn(1):
                    build.llm(asks=["search"], input_tokens=100, output_tokens=20)
                    build.tool("search")
                with build.turn(2):
                    build.llm("Found.", input_tokens=200, output_tokens=30)
            build.refuse("Writer", "Delegation limit reached.")
        with build.turn(2):
            build.llm("All done.", input_tokens=20, output_tokens=2)
    return build.finish()


def of_kind(fold, kind):
    return [span for span in fold.spans.values() if span.kind is kind]


def one(fold, kind):
    (span,) = of_kind(fold, kind)
    return span


def test_delegated_work_is_a_task_of_its_own_inside_the_delegation():
    fold = TraceFold.from_events(managed())
    asked, refused = of_kind(fold, SpanKind.DELEGATION)
    manager, worker = of_kind(fold, SpanKind.TASK)
    assert (worker.name, worker.agent, worker.parent, worker.is_planned) == ("researcher_1", "Researcher", asked, False)
    assert (asked.delegate_to, asked.agent, asked.status) == ("Researcher", "Manager", SpanStatus.OK)
    assert (asked.input, asked.output, asked.attributes["depth"]) == ("Find out.", "Found.", 1)
    assert asked.delegation_id != refused.delegation_id
    beneath = [span for span in fold.spans.values() if span.task_id == worker.span_id]
    assert {span.delegation_id for span in beneath} == {asked.delegation_id}
    assert {span.agent for span in beneath} == {"Researcher"}
    assert manager.delegation_id is None
    assert asked.parent.kind is SpanKind.TOOL


def test_delegated_work_counts_in_the_sums_of_its_delegator_but_not_as_a_task():
    fold = TraceFold.from_events(managed())
    manager, worker = of_kind(fold, SpanKind.TASK)
    assert sum(fold.tree.task_counts.values()) == 1
    assert RunState(fold, fold.run.end_time).to_record()["tasks_done"] == 1
    assert (worker.totals.input_tokens, manager.totals.input_tokens, fold.metrics.input_tokens) == (300, 330, 330)
    assert (manager.totals.delegation_count, worker.totals.delegation_count) == (2, 0)
    assert manager.totals.llm_call_count == 4
    assert fold.metrics.delegation_count == 2


def test_time_in_a_delegation_is_not_counted_twice():
    fold = TraceFold.from_events(managed())
    manager, worker = of_kind(fold, SpanKind.TASK)
    assert worker.duration_ms == 3000.0
    assert (worker.totals.tool_ms, worker.totals.tool_wait_ms) == (1000.0, 1000.0)
    assert (manager.totals.llm_ms, manager.totals.tool_ms, manager.totals.tool_wait_ms) == (4000.0, 1000.0, 3000.0)


def test_a_refusal_is_told_with_its_reason_and_leaves_the_manager_well():
    fold = TraceFold.from_events(managed())
    refused = of_kind(fold, SpanKind.DELEGATION)[1]
    assert (refused.status, refused.error_type) == (SpanStatus.ERROR, "DelegationRefused")
    assert (refused.error_message, refused.reason) == ("Delegation limit reached.",) * 2
    assert refused.attributes["status"] == "failure"
    assert of_kind(fold, SpanKind.TASK)[0].status is SpanStatus.OK


def test_a_worker_that_fails_fails_its_delegation_alone():
    build = builder()
    with build.task("manager"), build.turn():
        build.llm(asks=["delegate_task"])
        with build.delegate("Researcher"), build.turn():
            build.llm(error=ConnectionError("gone"))
        build.llm("Without it.")
    trace = ExecutionTrace.from_events(build.finish())
    assert find_violations(trace) == []
    delegation, manager = one(trace._fold, SpanKind.DELEGATION), trace.task("manager")
    assert (delegation.error_type, delegation.is_origin) == ("ConnectionError", False)
    assert (manager.span.status, manager.span.totals.error_count) == (SpanStatus.OK, 1)


def test_what_follows_a_fallback_is_marked_on_each_leaf():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        with build.turn():
            build.llm(error=ConnectionError("gone"))
        build.fall_back("Substitute")
        with build.turn():
            build.llm("Done.", asks=["search"])
            build.tool("search")
    fold = TraceFold.from_events(build.finish())
    assert [span.is_fallback for span in of_kind(fold, SpanKind.ATTEMPT)] == [False, True]
    assert one(fold, SpanKind.TOOL).is_fallback
    assert [span.agent for span in of_kind(fold, SpanKind.TURN)] == ["Writer", "Substitute"]
    task = one(fold, SpanKind.TASK)
    assert (task.status, task.agent, task.is_fallback) == (SpanStatus.OK, "Substitute", True)
    assert fold.run.totals.fallback_count == 1


def test_a_review_waits_for_a_person_and_keeps_the_answer():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a", output="Text."):
        build.wait(1)
        build.review(ReviewDecision.retry("Shorter."), text="Text.", seconds=7, timeout=60)
        build.again("Shorter.")
        build.wait(2)
    events = build.finish()
    fold = TraceFold.from_events(events)
    review, task = one(fold, SpanKind.REVIEW), one(fold, SpanKind.TASK)
    assert (review.status, review.human_wait_ms, review.review_decision) == (SpanStatus.OK, 7000.0, "retry")
    assert (review.input, review.output, review.name) == ("Text.", "Shorter.", "output")
    assert review.attributes["deadline_ms"] == 61_000.0
    assert (task.attempt, task.self_ms, task.totals.human_wait_ms) == (2, 3000.0, 7000.0)
    assert to_row(review)["review"] == {
        "subject": "output",
        "text": "Text.",
        "verdicts": ["approve", "edit", "retry", "reject", "exit_early"],
        "deadline_ms": 61_000.0,
        "on_timeout": "exit_early",
        "decision": "retry",
    }


def test_open_reviews_are_told_with_the_run():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.review(hangs=True)
    fold = TraceFold.from_events(build.events)
    review = one(fold, SpanKind.REVIEW)
    run = RunState(fold, fold.run.start_time).to_record()
    assert review.status is SpanStatus.WAITING
    assert run["waiting"] == [review.span_id]
    assert [each["kind"] for each in run["active"]] == ["review"]
    ended = TraceFold.from_events(build.interrupt())
    assert one(ended, SpanKind.REVIEW).status is SpanStatus.CANCELLED
    assert RunState(ended, fold.run.start_time).to_record()["waiting"] == []


def test_a_review_that_nobody_answers_fails_the_task_where_that_was_wanted():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.review(on_timeout=OnTimeout.FAIL, seconds=5)
    fold = TraceFold.from_events(build.finish())
    review = one(fold, SpanKind.REVIEW)
    assert (review.error_type, review.attributes["is_timeout"]) == ("ReviewTimeoutError", True)
    assert one(fold, SpanKind.TASK).error_type == "ReviewTimeoutError"


def test_a_guardrail_says_why_it_stopped_the_task():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.guardrail("no_names", "input")
        build.guardrail("short", violation="Too long.")
    fold = TraceFold.from_events(build.finish())
    passed, stopped = of_kind(fold, SpanKind.GUARDRAIL)
    assert (passed.status, to_row(passed)["guardrail"], passed.name) == (SpanStatus.OK, "input", "no_names")
    assert (stopped.error_type, stopped.error_message) == ("GuardrailViolationError", "Too long.")
    assert fold.run.totals.error_count == 1


def test_memory_is_counted_and_timed_apart_from_the_prompt():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a", output="x"):
        build.memory("retrieve", "facts", count=3, seconds=0.5)
        build.memory("store", "facts", seconds=0.25, error=OSError("disk"))
    fold = TraceFold.from_events(build.finish())
    read, written = of_kind(fold, SpanKind.MEMORY)
    assert to_row(read)["memory"] == {"operation": "retrieve", "scope": "facts", "count": 3}
    assert (written.status, written.error_type) == (SpanStatus.ERROR, "OSError")
    metrics = fold.metrics
    assert (metrics.memory_retrieve_count, metrics.memory_store_count) == (1, 1)
    assert metrics.memory_time.total_seconds() == 0.75
    assert one(fold, SpanKind.TASK).status is SpanStatus.OK


def test_a_wait_is_no_work_of_the_call_and_says_its_cause():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", seconds=1, waits=[("rate_limit", 3), ("budget", 2)])
    fold, seen = TraceFold(), []
    for event in build.finish():
        fold.add(event)
        if type(event).__name__ in ("WaitStarted", "RateLimitWaited", "WaitEnded"):
            seen.append(one(fold, SpanKind.LLM).status.value)
    assert seen == ["waiting", "running"] * 2
    assert [(span.wait_kind, span.duration_ms) for span in of_kind(fold, SpanKind.WAIT)] == [
        ("rate_limit", 3000.0),
        ("budget", 2000.0),
    ]
    assert fold.run.totals.wait_ms == 5000.0
    assert fold.metrics.llm_latency.total_seconds() == 1.0


def phase_done_twice():
    build = EventBuilder({"a": (), "b": ["a"]}, phases={"p": ["a", "b"]}, agents={"a": "Handler"})
    with build.phase("p"):
        for attempt in (1, 2):
            with build.task("a", output="x"):
                build.wait(1)
            with build.task("b"), build.turn():
                build.llm("y", seconds=2, input_tokens=5)
            build.review(ReviewDecision.retry("Again."), subject="phase", seconds=4)
            if attempt == 1:
                build.phase_again("Again.")
    return build.finish()


def test_a_phase_that_was_sent_back_has_its_tasks_go_on_in_their_spans():
    trace = ExecutionTrace.from_events(phase_done_twice())
    assert find_violations(trace) == []
    first, second = trace.task("a").span, trace.task("b").span
    assert (first.start_ms, first.end_ms, first.self_ms, first.attempt) == (0.0, 8000.0, 2000.0, 2)
    assert (second.duration_ms, second.totals.input_tokens, second.totals.llm_ms) == (9000.0, 10, 4000.0)
    phase = next(span for span in trace.spans if span.kind is SpanKind.PHASE)
    assert (phase.attempt, phase.duration_ms, phase.self_ms) == (2, 14_000.0, 0.0)
    assert trace._fold.tree.task_counts[SpanStatus.OK] == 2
    assert len(trace.task("b").messages) == 6


def test_work_on_the_review_of_a_phase_is_no_wait_for_a_person():
    build = EventBuilder({"a": ()}, phases={"p": ["a"]}, agents={"a": "Handler"})
    with build.phase("p"):
        with build.task("a", output="x"):
            build.wait(1)
        with build.review_by("Critic", ReviewDecision.approve()), build.turn():
            build.llm("APPROVE", seconds=3, input_tokens=8)
    trace = ExecutionTrace.from_events(build.finish())
    assert find_violations(trace) == []
    review, critic = one(trace._fold, SpanKind.REVIEW), trace.task("review_1").span
    assert (review.human_wait_ms, review.duration_ms, review.totals.input_tokens) == (0.0, 3000.0, 8)
    assert (critic.parent_id, critic.is_planned) == (review.parent_id, False)
    assert trace.frames.critical_path.kind.tolist() == ["task", "attempt"]
    assert trace.frames.runs.human_wait_ms.tolist() == [0.0]
    assert sum(trace._fold.tree.task_counts.values()) == 1


def test_a_task_that_the_budget_stops_is_skipped_and_keeps_what_it_did():
    budget = Budget(max_llm_calls=1)
    build = EventBuilder({"a": ()}, budget=budget)
    with build.task("a"):
        with build.turn():
            build.llm(asks=["search"], input_tokens=9)
            build.tool("search")
        build.warn_of_budget("The budget is nearly used up.", Spending(llm_calls=1))
        build.give_up("the budget is used up")
    trace = ExecutionTrace.from_events(build.finish(ExitReason.BUDGET_EXCEEDED))
    assert find_violations(trace) == []
    task = trace.task("a").span
    assert (task.status, task.reason, task.duration_ms) == (SpanStatus.SKIPPED, "the budget is used up", 2000.0)
    assert (trace.status, trace.metrics.input_tokens) == (RunStatus.BUDGET_EXCEEDED, 9)
    assert trace.warnings == ("The budget is nearly used up.",)
    run = RunState(trace._fold, trace.ended_at).to_record()
    assert (run["tasks_skipped"], run["status"]) == (1, "budget_exceeded")
    assert run["budget"] == {
        "max_cost": None,
        "max_tokens": None,
        "max_llm_calls": 1,
        "cost": 0.0,
        "tokens": 14,
        "llm_calls": 1,
        "currency": "USD",
        "warn_at": 0.8,
        "share": 1.0,
    }


@pytest.mark.parametrize("kind", ["delegation", "review", "guardrail"])
def test_keys_are_masked_in_every_step(kind):
    key = "sk-" + "a1B2" * 8
    build = EventBuilder({"a": ()})
    with build.task("a", output="x"), build.turn():
        if kind == "delegation":
            build.llm(asks=["delegate"])
            with build.delegate("Researcher", f"Use {key}.", tool="delegate"), build.turn():
                build.llm(f"I used {key}.")
            build.refuse("Researcher", f"No: {key}", tool="delegate")
        elif kind == "review":
            build.review(ReviewDecision.edit(key), text=f"It is {key}.")
        else:
            build.guardrail("g", violation=f"Found {key}.")
    fold = TraceFold.from_events(build.finish())
    assert key not in str([(span, span.attributes) for span in fold.spans.values()])
    assert key not in str(fold.messages)


def test_a_kind_that_nothing_treats_apart_is_folded_by_what_all_events_have():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.guardrail("polite", seconds=2)
    span = one(TraceFold.from_events(build.finish()), SpanKind.GUARDRAIL)
    assert (span.name, span.duration_ms, span.status) == ("polite", 2000.0, SpanStatus.OK)
    assert span.attributes == {"kind": "output", "message": None}
