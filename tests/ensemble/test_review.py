"""People, or functions in place of them, before, during and after a task (E27, E45)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    Reply,
    Review,
    ReviewAnswered,
    ReviewDecision,
    ReviewRejectedError,
    ReviewRequest,
    ReviewRequested,
    ReviewTimeoutError,
    RunInterrupted,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskRetried,
    ToolOutcome,
    ToolUse,
    ValidationError,
    human_input,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.spans.timeline_wording import describe_skip, name_state
from ensemble_notebook.trace.timeline.timeline_messages import to_row

Decide = Callable[[ReviewRequest], ReviewDecision]


def say(text: str) -> Callable[[TaskInput], str]:
    return lambda task: text


def draft(*, review: Any = None, **fields: Any) -> Task:
    return Task.of("Draft a letter", name="draft", handler=say("Dear all"), review=review, **fields)


def run(*tasks: Task, decide: Any, **fields: Any) -> EnsembleOutput:
    return Ensemble(tasks=tasks, review_handler=decide, **fields).run()


def always(decision: ReviewDecision) -> Decide:
    return lambda request: decision


# --- after a task ---


def test_an_approved_output_goes_on_unchanged() -> None:
    seen: list[ReviewRequest] = []

    def decide(request: ReviewRequest) -> ReviewDecision:
        seen.append(request)
        return ReviewDecision.approve()

    output = run(draft(review=Review()), decide=decide)
    assert output.raw == "Dear all"
    (request,) = seen
    assert (request.subject, request.text, request.task, request.agent) == ("output", "Dear all", "draft", "Handler")


def test_an_edited_output_is_what_others_read() -> None:
    reader = Task.of("Read it", handler=lambda task: f"read: {task.context[0].raw}", context=["draft"])
    output = run(draft(review=Review()), reader, decide=always(ReviewDecision.edit("Dear friends")))
    assert output["draft"].raw == "Dear friends"
    assert output.raw == "read: Dear friends"


async def grumble(request: ReviewRequest) -> ReviewDecision:
    await asyncio.sleep(0)
    return ReviewDecision.approve() if "kind" in request.text else ReviewDecision.retry("Be kind.")


def test_feedback_of_a_retry_stands_in_the_next_prompt() -> None:
    llm = ScriptedChatModel(replies=["Pay now!", "Please be so kind and pay."])
    output = run(Task.of("Write a reminder", name="letter", llm=llm, review=Review()), decide=grumble)
    assert output.raw == "Please be so kind and pay."
    prompts = [each.user_prompt for each in output.events if type(each).__name__ == "TaskInputPrepared"]
    assert "Revision" not in prompts[0]
    assert "## Revision Instructions (Attempt 2)\nBe kind.\n\n### Previous Output\nPay now!\n\n## Task" in prompts[1]
    retried = [each for each in output.events if isinstance(each, TaskRetried)]
    assert [(each.attempt, each.feedback) for each in retried] == [(2, "Be kind.")]
    assert output.metrics.llm_call_count == 2


def test_a_rejected_output_fails_the_task_with_the_reason() -> None:
    with pytest.raises(TaskExecutionError, match="rejected: too cold") as caught:
        run(draft(review=Review()), decide=always(ReviewDecision.reject("too cold")))
    assert isinstance(caught.value.__cause__, ReviewRejectedError)
    assert caught.value.__cause__.reason == "too cold"


def test_leaving_after_a_task_keeps_it_and_starts_nothing_new() -> None:
    output = run(draft(review=Review()), Task.of("Send it", name="send", handler=say("sent")), decide=leave)
    assert (output.status, output.exit_reason) == (RunStatus.EXITED_EARLY, ExitReason.USER_EXIT_EARLY)
    assert [each.name for each in output.task_outputs] == ["draft"]
    assert [each.name for each in output.skipped] == ["send"]


def leave(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.exit_early()


# --- before and during ---


def test_a_gate_before_a_task_may_edit_reject_or_leave() -> None:
    gate = Review("before")
    asked = Task.of("Draft", name="draft", handler=lambda task: task.description, review=gate)
    assert run(asked, decide=always(ReviewDecision.edit("Draft two"))).raw == "Draft two"
    with pytest.raises(TaskExecutionError, match="rejected before it started: no need"):
        run(asked, decide=always(ReviewDecision.reject("no need")))
    output = run(asked, decide=leave)
    assert (output.status, len(output)) == (RunStatus.EXITED_EARLY, 0)
    assert [(each.name, each.kind) for each in output.skipped] == [("draft", "task")]


def multiply(left: int, right: int) -> int:
    """Multiply two numbers."""
    return left * right


def calculate(decide: Decide) -> EnsembleOutput:
    llm = ScriptedChatModel(replies=[Reply(calls=[ToolUse("multiply", {"left": 6, "right": 7})]), "Done."])
    agent = Agent(role="Clerk", goal="Count", tools=[multiply], llm=llm)
    return run(Task.of("Multiply", agent=agent, review=Review("during")), decide=decide)


def test_a_tool_call_waits_for_approval_and_may_be_changed_or_refused() -> None:
    def results(output: EnsembleOutput) -> list[str]:
        return list(output.frames.tool_calls["result"])

    assert results(calculate(always(ReviewDecision.approve()))) == ["42"]
    assert results(calculate(always(ReviewDecision.edit('{"left": 2, "right": 2}')))) == ["4"]
    (refused,) = results(calculate(always(ReviewDecision.reject("too dear"))))
    assert refused == "Error: a person did not allow this call: too dear"


def break_down(request: ReviewRequest) -> ReviewDecision:
    raise OSError("no line")


async def break_down_later(request: ReviewRequest) -> ReviewDecision:
    raise OSError("no line")


@pytest.mark.parametrize("decide", [break_down, break_down_later])
def test_a_tool_call_whose_review_fails_is_no_failure_of_the_tool_and_was_not_executed_e13(decide: Any) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        calculate(decide)
    output = caught.value.output
    assert output is not None
    (call,) = output.frames.tool_calls.itertuples()
    assert (call.status, call.result, output.metrics.tool_call_count) == ("skipped", "its review gave no answer", 0)
    assert "tool_call" not in set(output.frames.errors["kind"])
    assert list(output.frames.reviews["status"]) == ["error"]
    assert find_violations(output.trace) == []
    assert isinstance(caught.value.__cause__, OSError)


def test_a_refused_tool_call_is_no_failure_of_the_tool_and_was_not_executed_e13() -> None:
    output = calculate(always(ReviewDecision.reject("too dear")))
    (call,) = output.frames.tool_calls.itertuples()
    assert (call.status, call.outcome) == ("skipped", "declined")
    assert (output.metrics.tool_call_count, output.task_outputs[0].tool_call_count) == (0, 0)
    assert output.frames.agents.tool_count.sum() == 0
    (row,) = [to_row(each) for each in output.trace._fold.spans.values() if each.outcome]
    assert describe_skip(row["reason"], name_state(row)) == "declined: a person did not allow this call: too dear"
    assert output.frames.errors.empty
    assert find_violations(output.trace) == []
    told, *_ = [call for task in output.trace.tasks for turn in task.turns for call in turn.tool_calls]
    assert told.outcome is ToolOutcome.DECLINED


def test_human_input_asks_and_gives_the_answer_to_the_model() -> None:
    llm = ScriptedChatModel(
        replies=[Reply(calls=[ToolUse("human_input", {"question": "Which city?"})]), "Brest it is."]
    )
    asked: list[ReviewRequest] = []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        return ReviewDecision.edit("Brest")

    agent = Agent(role="Planner", goal="Plan", tools=[human_input], llm=llm)
    output = run(Task.of("Plan a trip", agent=agent), decide=decide)
    assert [(each.subject, each.text) for each in asked] == [("question", "Which city?")]
    assert list(output.frames.tool_calls["result"]) == ["Brest"]
    assert output.raw == "Brest it is."


def test_human_input_without_anybody_to_ask_says_so_to_the_model() -> None:
    llm = ScriptedChatModel(replies=[Reply(calls=[ToolUse("human_input", {"question": "Which city?"})]), "Any city."])
    agent = Agent(role="Planner", goal="Plan", tools=[human_input], llm=llm)
    output = Ensemble(tasks=[Task.of("Plan a trip", agent=agent, review=Review())]).run()
    assert "nobody here to ask" in output.frames.tool_calls["result"].iloc[0]
    assert output.raw == "Any city."


def test_human_input_outside_a_run_says_what_it_is_for() -> None:
    with pytest.raises(Exception, match="tool for agents"):
        human_input("Which city?")


# --- policies, order, time ---


def test_policies_put_a_gate_behind_every_or_the_last_task() -> None:
    asked: list[str] = []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append(str(request.task))
        return ReviewDecision.approve()

    tasks = [Task.of(name, name=name, handler=say(name)) for name in ("one", "two", "three")]
    for policy, expected in (
        ("never", []),
        ("after_every_task", ["one", "two", "three"]),
        ("after_last_task", ["three"]),
    ):
        asked.clear()
        run(*tasks, decide=decide, review_policy=policy)
        assert asked == expected


def test_questions_come_one_at_a_time() -> None:
    busy = threading.Lock()

    def decide(request: ReviewRequest) -> ReviewDecision:
        assert busy.acquire(blocking=False), "two questions at once"
        time.sleep(0.01)
        busy.release()
        return ReviewDecision.approve()

    tasks = [Task.of(f"Do {n}", name=f"t{n}", handler=say("x"), review=Review()) for n in range(8)]
    output = run(*tasks, decide=decide, workflow="parallel")
    events = [each for each in output.events if isinstance(each, ReviewRequested | ReviewAnswered)]
    assert [type(each) for each in events] == [ReviewRequested, ReviewAnswered] * 8


async def sleep_in(request: ReviewRequest) -> ReviewDecision:
    await asyncio.sleep(60)
    return ReviewDecision.approve()


def test_a_review_that_nobody_answers_goes_on_leaves_or_fails() -> None:
    gate = {"timeout": 0.01}
    assert run(draft(review=Review(on_timeout="continue", **gate)), decide=sleep_in).status is RunStatus.COMPLETED
    assert run(draft(review=Review(**gate)), decide=sleep_in).status is RunStatus.EXITED_EARLY
    with pytest.raises(TaskExecutionError) as caught:
        run(draft(review=Review(on_timeout="fail", **gate)), decide=sleep_in)
    assert isinstance(caught.value.__cause__, ReviewTimeoutError)
    answered = [each for each in caught.value.output.events if isinstance(each, ReviewAnswered)]
    assert [(each.is_timeout, each.decision) for each in answered] == [(True, None)]


def test_a_handler_that_answers_nonsense_fails_the_task() -> None:
    with pytest.raises(TaskExecutionError, match=r"must return a ReviewDecision.*returned bool"):
        run(draft(review=Review()), decide=lambda request: True)


def test_an_interrupt_ends_a_run_that_waits_for_a_person() -> None:
    handle = Ensemble(tasks=[draft(review=Review())], review_handler=sleep_in).start()
    while not any(isinstance(each, ReviewRequested) for each in handle.events):
        pass
    handle.cancel()
    with pytest.raises(RunInterrupted):
        handle.result(timeout=10)
    assert isinstance(next(each for each in handle.events if isinstance(each, ReviewAnswered)), ReviewAnswered)


def test_gates_of_one_timing_stand_once() -> None:
    with pytest.raises(ValidationError, match="two gates 'after'"):
        draft(review=[Review(), Review("after")])


def test_an_edited_typed_output_is_read_again() -> None:
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    task = Task.of(
        "Name a city",
        name="city",
        llm=ScriptedChatModel(replies=['{"city": "Brest"}']),
        output_type=schema,
        review=Review(),
    )
    output = run(task, decide=always(ReviewDecision.edit('{"city": "Lorient"}')))
    assert output["city"].parsed_output == {"city": "Lorient"}


def test_a_handler_has_no_tool_calls_to_review() -> None:
    with pytest.raises(ValidationError, match="a handler makes none"):
        draft(review=Review("during"))


def test_an_output_that_can_t_be_redone_within_the_budget_is_kept() -> None:
    task = Task.of("Write", name="letter", llm=ScriptedChatModel(replies=["Draft.", "never"]), review=Review())
    decide = always(ReviewDecision.retry("Shorter."))
    output = run(task, Task.of("Send", name="send", handler=say("sent")), decide=decide, budget=Budget(max_llm_calls=1))
    assert (output.status, output["letter"].raw) == (RunStatus.BUDGET_EXCEEDED, "Draft.")
    assert [each.name for each in output.skipped] == ["send"]
