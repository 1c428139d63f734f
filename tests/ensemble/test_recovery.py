"""Guardrails, fallback agents and typed replies: what stops a task, and what saves it (E16, E18, E31)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    Fail,
    GuardrailEnded,
    GuardrailResult,
    GuardrailViolationError,
    Review,
    ReviewDecision,
    ScriptedChatModel,
    SpanStatus,
    Task,
    TaskExecutionError,
    TaskOutput,
    ToolUse,
    TurnStarted,
)
from ensemble_notebook.testing.trace_invariants import find_violations


@dataclass
class City:
    name: str
    people: int


def scripted(*replies: Any) -> ScriptedChatModel:
    return ScriptedChatModel(replies=list(replies))


def run(task: Task, **fields: Any) -> EnsembleOutput:
    return Ensemble(tasks=[task], **fields).run()


# --- guardrails ---


@pytest.mark.parametrize(
    "said, passes",
    [
        (None, True),
        (True, True),
        (GuardrailResult.success(), True),
        ("too long", False),
        (GuardrailResult.failure("too long"), False),
        (False, False),
        (3, False),
    ],
)
def test_an_output_guardrail_passes_or_fails_in_its_own_words(said: Any, passes: bool) -> None:
    task = Task.of("Talk", handler=lambda task: "blah", output_guardrails=[lambda output: said])
    if passes:
        assert run(task).raw == "blah"
    else:
        with pytest.raises(TaskExecutionError, match="output guardrail stopped the task"):
            run(task)


def test_an_objection_may_be_anything_that_can_be_told() -> None:
    def objects(_: TaskOutput) -> GuardrailResult:
        return GuardrailResult.failure(ValueError("too long"))  # type: ignore[arg-type]

    with pytest.raises(TaskExecutionError, match="too long") as caught:
        run(Task.of("Cook", llm=scripted("x"), output_guardrails=[objects]))
    (span,) = (each for each in caught.value.output.trace.spans if each.kind == "guardrail")
    assert span.output == "too long"


def test_the_first_objection_counts_and_every_guardrail_is_a_span() -> None:
    asked = []

    def passes(output: TaskOutput) -> None:
        asked.append("passes")

    def objects(output: TaskOutput) -> str:
        asked.append("objects")
        return "no"

    def breaks(output: TaskOutput) -> None:
        raise KeyError("never asked")

    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Talk", handler=lambda task: "x", output_guardrails=[passes, objects, breaks]))
    assert asked == ["passes", "objects"]
    ended = [each for each in caught.value.output.events if isinstance(each, GuardrailEnded)]
    assert [(each.status, each.message) for each in ended] == [(SpanStatus.OK, ""), (SpanStatus.ERROR, "no")]


async def raises(output: TaskOutput) -> None:
    raise LookupError("no such word")


def test_a_guardrail_that_raises_objects_with_its_error_as_cause() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Talk", handler=lambda task: "x", output_guardrails=[raises]))
    assert isinstance(caught.value.__cause__, GuardrailViolationError)
    assert isinstance(caught.value.__cause__.__cause__, LookupError)


# --- fallback ---


def test_the_tool_calls_of_all_who_worked_on_a_task_count_e7() -> None:
    def chop(what: str) -> str:
        """Chop something."""
        return f"chopped {what}"

    use = ToolUse("chop", {"what": "onions"})
    decisions = iter([ReviewDecision.retry("finer"), ReviewDecision.approve()])
    cook = Agent(role="Cook", goal="Cook.", llm=scripted(use, Fail(400), Fail(400)), tools=[chop])
    chef = Agent(role="Chef", goal="Cook.", llm=scripted(use, use, "rough", "fine"), tools=[chop])
    task = Task.of("Chop", name="chop", agent=cook, fallback=chef, review=Review())
    output = run(task, review_handler=lambda request: next(decisions))
    assert (output.raw, output["chop"].tool_call_count, output.total_tool_calls) == ("fine", 3, 3)
    assert output.metrics.tool_call_count == 3
    assert find_violations(output.trace) == []


def test_the_model_of_a_fallback_is_checked_before_anything_runs() -> None:
    lost = Agent(role="Understudy", goal="Stand in", llm="openai:gpt@ftp://nowhere")
    task = Task.of("Sing", handler=lambda task: "x", fallback=lost)
    with pytest.raises(Exception, match="ftp"):
        Ensemble(tasks=[task]).validate()


# --- typed replies ---


def test_a_typed_reply_is_parsed_and_kept_beside_its_text() -> None:
    output = run(
        Task.of("Name a city", name="city", llm=scripted('{"name": "Brest", "people": 140000}'), output_type=City)
    )
    assert output["city"].get_parsed_output(City) == City("Brest", 140000)
    (prepared,) = [each for each in output.events if type(each).__name__ == "TaskInputPrepared"]
    assert "## Output Format" in prepared.user_prompt
    assert prepared.user_prompt.index("## Expected Output") < prepared.user_prompt.index("## Output Format")


def test_a_reply_that_does_not_fit_is_corrected_and_raw_is_the_one_that_did() -> None:
    llm = scripted("Brest, of course!", '{"name": "Brest"}', '{"name": "Brest", "people": 140000}')
    output = run(Task.of("Name a city", name="city", llm=llm, output_type=City))
    assert output["city"].raw == '{"name": "Brest", "people": 140000}'
    turns = [(each.iteration, each.is_correction) for each in output.events if isinstance(each, TurnStarted)]
    assert turns == [(1, False), (2, True), (3, True)]
    assert output.metrics.llm_call_count == 3


def test_a_handler_may_return_a_typed_value_and_is_held_to_it() -> None:
    good = Task.of("Name a city", name="city", handler=lambda task: {"name": "Brest", "people": 1}, output_type=City)
    assert run(good)["city"].parsed_output == City("Brest", 1)
    bad = Task.of("Name a city", handler=lambda task: {"name": "Brest"}, output_type=City)
    with pytest.raises(TaskExecutionError, match="people: Field required"):
        run(bad)


def test_a_type_without_a_schema_is_refused_before_anything_runs() -> None:
    class Odd:
        model_validate = staticmethod(lambda value: value)

    with pytest.raises(Exception, match="has no JSON schema"):
        Ensemble(tasks=[Task.of("Name a city", output_type=Odd)]).validate()
