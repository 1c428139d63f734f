"""Whole runs with partial results, conditions and reviews of phases: prompts, status, frames (E28, E32-E34)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Condition,
    Ensemble,
    EnsembleOutput,
    ErrorStrategy,
    ExitReason,
    Fail,
    Phase,
    PhaseExecutionError,
    PromptTemplateError,
    ReviewDecision,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskInput,
    Workflow,
)


def say(text: str) -> Any:
    async def handler(_: TaskInput) -> str:
        return text

    return handler


async def broken(_: TaskInput) -> str:
    raise ValueError("no paper")


def writer(*replies: Any) -> tuple[Agent, ScriptedChatModel]:
    llm = ScriptedChatModel(replies=list(replies))
    return Agent(role="Writer", goal="Write", llm=llm, max_retries=0), llm


def prompt(llm: ScriptedChatModel, number: int = 0) -> str:
    return str(llm.calls[number].messages[-1].content)


def statuses(output: EnsembleOutput) -> dict[str, str]:
    spans = output.frames.spans
    return dict(zip(spans[spans.kind == "task"].task, spans[spans.kind == "task"].status, strict=True))


def test_the_prompt_names_the_missing_input_and_why_it_is_missing_e32() -> None:
    agent, llm = writer("Done.")
    tasks = [
        Task.of("Read the news", name="news", handler=say("Rain.")),
        Task.of("Read the mail", name="mail", handler=broken),
        Task.of("Write the report", name="report", agent=agent, context=["mail", "news"]),
    ]
    output = Ensemble(tasks=tasks, workflow=Workflow.PARALLEL, error_strategy=ErrorStrategy.PARTIAL).run()
    assert output.status is RunStatus.COMPLETED_WITH_WARNINGS
    assert output.raw == "Done."
    assert "### Handler: Read the news\nRain." in prompt(llm)
    assert (
        "### Handler: Read the mail\nNot available: it failed (ValueError: no paper). Work with what is there."
        in prompt(llm)
    )
    assert statuses(output) == {"news": "ok", "mail": "error", "report": "ok"}


def test_partial_returns_even_where_nothing_came_of_it_e32_e34() -> None:
    output = Ensemble(tasks=[Task.of("a", handler=broken)], error_strategy=ErrorStrategy.PARTIAL).run()
    assert (output.status, output.exit_reason, output.raw) == (RunStatus.FAILED, ExitReason.ERROR, "")
    assert [failure.name for failure in output.failures] == ["handler_1"]


@pytest.mark.parametrize("strategy", list(ErrorStrategy))
def test_a_fallback_that_helped_is_a_warning_under_every_strategy_e31_e34(strategy: ErrorStrategy) -> None:
    agent, _ = writer(Fail(401))
    helper, _ = writer("Helped.")
    output = Ensemble(tasks=[Task.of("Write", agent=agent, fallback=helper)], error_strategy=strategy).run()
    assert output.raw == "Helped."
    assert (output.status, output.failures) == (RunStatus.COMPLETED_WITH_WARNINGS, ())


def mailroom(said: str) -> EnsembleOutput:
    agent, llm = writer("Summary.")
    tasks = [
        Task.of("Sort the mail", name="triage", handler=say(said)),
        Task.of("Call back", name="urgent", handler=say("Called."), when=Condition("triage", contains="urgent")),
        Task.of("Write back", name="normal", handler=say("Wrote."), when=Condition("triage", default=True)),
        Task.of("Sum up", name="sum", agent=agent, context=["urgent", "normal"]),
    ]
    output = Ensemble(tasks=tasks, workflow=Workflow.PARALLEL).run()
    assert "Not available: it was skipped (condition not met)." in prompt(llm)
    return output


def test_one_branch_runs_and_the_join_says_which_did_not_e33() -> None:
    output = mailroom("an urgent one")
    assert output.status is RunStatus.COMPLETED
    assert statuses(output) == {"triage": "ok", "urgent": "ok", "normal": "skipped", "sum": "ok"}
    assert [(each.name, each.reason) for each in output.skipped] == [("normal", "condition not met")]
    assert mailroom("nothing special").get("urgent") is None
    assert output.plan.tasks[1].when == ("triage contains 'urgent'",)
    assert output.plan.tasks[1].depends_on == ("triage",)
    assert output.plan.groups == (("triage",), ("urgent", "normal"), ("sum",))


def reviewed(*answers: str) -> tuple[Ensemble, ScriptedChatModel, ScriptedChatModel]:
    agent, writing = writer("Draft one.", "Draft two.", "Draft three.")
    judge, judging = writer(*answers)
    reviewer = Task.of("Judge the draft about {topic}", agent=judge)
    phases = [
        Phase.of("draft", Task.of("Write about {topic}", name="write", agent=agent), review=reviewer),
        Phase.of("print", Task.of("Print", name="copy", handler=say("Printed."), context=["write"]), after=["draft"]),
    ]
    return Ensemble(phases=phases), writing, judging


def test_feedback_goes_into_the_next_attempt_and_its_output_replaces_the_first_e28() -> None:
    ensemble, writing, judging = reviewed("RETRY: be bolder", "APPROVE")
    output = ensemble.run(topic="tides")
    assert output["write"].raw == "Draft two."
    assert "## Revision Instructions" not in prompt(writing)
    revision = "## Revision Instructions (Attempt 2)\nbe bolder\n\n### Previous Output\nDraft one."
    assert f"{revision}\n\n## Task\nWrite about tides" in prompt(writing, 1)
    assert "### Writer: Write about tides\n<output>Draft one.</output>" in prompt(judging)
    assert "Judge the draft about tides" in prompt(judging)
    assert output.status is RunStatus.COMPLETED
    assert [each.name for each in output.task_outputs] == ["write", "copy"]
    assert list(output.phase_outputs) == ["draft", "print"]
    assert output.metrics.llm_call_count == 4


def test_the_review_is_in_the_frames_e28() -> None:
    ensemble, _, _ = reviewed("RETRY: be bolder", "APPROVE")
    spans = ensemble.run(topic="tides").frames.spans
    phase = spans[(spans.kind == "phase") & (spans.name == "draft")].index[0]
    assert list(spans[spans.kind == "review"].parent_id) == [phase, phase]
    reviews = spans[(spans.kind == "task") & (spans.task == "draft.review")]
    assert list(reviews.parent_id) == [phase, phase]
    assert len(spans[(spans.kind == "task") & (spans.task == "write")]) == 1
    assert len(spans[(spans.kind == "llm") & (spans.task == "write")]) == 2
    assert set(spans.status) == {"ok"}


def test_a_rejection_raises_with_everything_that_was_done_e28() -> None:
    ensemble, _, _ = reviewed("REJECT: off the point")
    with pytest.raises(PhaseExecutionError, match="Phase 'draft' was rejected by its review: off the point") as caught:
        ensemble.run(topic="tides")
    assert caught.value.output["write"].raw == "Draft one."
    assert [(each.kind, each.name) for each in caught.value.output.skipped] == [("phase", "print"), ("task", "copy")]


def test_the_texts_of_a_reviewer_are_checked_before_anything_runs_e6() -> None:
    phases = [Phase.of("draft", Task.of("Write", handler=say("x")), review=Task.of("Judge {tone}", handler=say("y")))]
    with pytest.raises(PromptTemplateError) as caught:
        Ensemble(phases=phases).run()
    assert caught.value.missing_variables == ("tone",)


def test_a_function_reviews_a_phase_in_a_script_e28() -> None:
    drafting = Phase.of("draft", Task.of("Write", handler=say("x")), review=lambda _: ReviewDecision.reject("dull"))
    with pytest.raises(PhaseExecutionError, match="dull"):
        Ensemble(phases=[drafting]).run()
