"""Doing it again: reviews of phases, revisions, fallbacks, what sends back (E28, E30, E31, E46, E51)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleOutput,
    Fail,
    FallbackFailedError,
    GuardrailViolationError,
    LlmAttemptStarted,
    Phase,
    PhaseExecutionError,
    PhaseRetried,
    PhaseReview,
    PhaseStatus,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunStatus,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskInputPrepared,
    TaskOutput,
    TaskRetried,
    TaskStarted,
    ValidationError,
)
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.conformance.scene import agent, done, of, run, run_cell, scripted
from tests.support.cell import mistakes_of


def deciding(*decisions: Any) -> Callable[[ReviewRequest], ReviewDecision]:
    """Somebody who decides one thing after the other."""
    left = list(decisions)

    def decide(request: ReviewRequest) -> ReviewDecision:
        decision: ReviewDecision = left.pop(0)
        return decision

    return decide


def prompts_of(output: EnsembleOutput, task: str) -> list[str]:
    return [each.user_prompt for each in of(output, TaskInputPrepared) if each.task == task]


def starts(output: EnsembleOutput) -> list[str | None]:
    return [each.task for each in of(output, TaskStarted)]


# --- E28 ---


@pytest.mark.parametrize("answer", ["**APPROVE**", "Approve.", "> approve: well done"])
def test_e28_the_first_word_is_the_verdict_markdown_aside(answer: str) -> None:
    judge = Task.of("Judge it", llm=scripted(answer))
    output = Ensemble(phases=[Phase.of("cook", done("soup"), review=judge)]).run()
    assert output.status is RunStatus.COMPLETED
    cell = "phases: {cook: {tasks: {soup: {description: Cook, handler: cook}}, review: {description: Judge, llm: llm}}}"
    assert run_cell(cell, cook=lambda _: "soup", llm=scripted(answer)).status is RunStatus.COMPLETED


def test_e28_an_answer_that_decides_nothing_is_asked_for_once_more_and_then_rejects() -> None:
    judge = Task.of("Judge it", name="judge", llm=scripted("I can't APPROVE this", "Let me think."))
    with pytest.raises(PhaseExecutionError, match=r"decided nothing: it said 'Let me think.'") as caught:
        Ensemble(phases=[Phase.of("cook", done("soup"), review=judge)]).run()
    first, second = prompts_of(caught.value.output, "cook.judge")
    assert "Revision" not in first
    asked = second.partition("## Revision Instructions (Attempt 2)\n")[2].partition("## Task")[0]
    assert asked.startswith("Your answer decides nothing. Begin your answer with one of these three words: `APPROVE`, ")
    assert asked.endswith("### Previous Output\nI can't APPROVE this\n\n")


@pytest.mark.parametrize("silence", ["empty", "none"])
def test_e28_silence_is_never_approval(silence: str) -> None:
    judge: Any = Task.of("Judge it", llm=scripted("", "")) if silence == "empty" else lambda request: None
    with pytest.raises(PhaseExecutionError) as caught:
        Ensemble(phases=[Phase.of("cook", done("soup"), review=judge)]).run()
    said = "it gave an empty answer" if silence == "empty" else "must return a ReviewDecision"
    assert said in str(caught.value)
    assert caught.value.output["soup"].raw == "soup"


def test_e28_keep_goes_on_with_the_last_outputs_and_a_warning() -> None:
    again = ReviewDecision.retry("more salt")
    review = PhaseReview(deciding(again, again), max_retries=1, on_exhausted="keep")
    phases = [Phase.of("cook", done("soup"), review=review), Phase.of("serve", done("plate"), after=["cook"])]
    cell = (
        "phases:\n  cook: {tasks: {soup: {description: d, handler: say}}, "
        "review: {by: decide, max_retries: 1, on_exhausted: keep}}\n"
        "  serve: {tasks: {plate: {description: d, handler: say}}, after: cook}"
    )
    for output in (
        Ensemble(phases=phases).run(),
        run_cell(cell, say=lambda given: given.name, decide=deciding(again, again)),
    ):
        assert output.status is RunStatus.COMPLETED_WITH_WARNINGS
        assert starts(output) == ["soup", "soup", "plate"]
        assert "has no retry left; its last outputs are kept: more salt" in " ".join(output.warnings)


def test_e28_keep_does_not_cover_a_rejection() -> None:
    review = PhaseReview(deciding(ReviewDecision.reject("burnt")), on_exhausted="keep")
    with pytest.raises(PhaseExecutionError, match="burnt"):
        Ensemble(phases=[Phase.of("cook", done("soup"), review=review)]).run()


def test_e28_a_review_task_may_read_tasks_of_its_phase_or_of_one_before() -> None:
    judge = Task.of("Judge it", name="judge", llm=scripted("APPROVE"), context=["order", "soup"])
    phases = [
        Phase.of("ask", done("order")),
        Phase.of("cook", done("stock"), done("soup"), after=["ask"], review=judge),
    ]
    cell = """
phases:
  ask: {tasks: {order: {description: d, handler: say}}}
  cook:
    after: ask
    tasks: {stock: {description: d, handler: say}, soup: {description: d, handler: say}}
    review: {by: {name: judge, description: Judge it, llm: llm, context: [order, soup]}}
"""
    for output in (
        Ensemble(phases=phases).run(),
        run_cell(cell, say=lambda given: given.name, llm=scripted("APPROVE")),
    ):
        (prepared,) = [each for each in of(output, TaskInputPrepared) if each.task == "cook.judge"]
        assert prepared.context == ("order", "soup")
        assert "stock" not in prepared.user_prompt.partition("## Task")[0]


# --- E46 ---


def test_e46_a_revision_holds_all_feedback_and_what_the_task_produced_last() -> None:
    decide = deciding(ReviewDecision.retry("Be kind."), ReviewDecision.retry("Be short."), ReviewDecision.approve())
    task = Task.of("Write", name="letter", llm=scripted("Pay!", "Please pay.", "Pay, please."), review=Review())
    cell = "- {name: letter, description: Write, llm: llm, review: after}"
    again = deciding(ReviewDecision.retry("Be kind."), ReviewDecision.retry("Be short."), ReviewDecision.approve())
    names = {"llm": scripted("Pay!", "Please pay.", "Pay, please."), "again": again}
    for output in (run(task, review_handler=decide), run_cell(f"review_handler: again\ntasks: [{cell[2:]}]", **names)):
        prompts = prompts_of(output, "letter")
        assert "Revision" not in prompts[0]
        assert prompts[1].startswith(
            "## Revision Instructions (Attempt 2)\nBe kind.\n\n### Previous Output\nPay!\n\n## Task\nWrite"
        )
        assert prompts[2].startswith(
            "## Revision Instructions (Attempt 3)\nBe kind.\nBe short.\n\n### Previous Output\nPlease pay.\n\n## Task"
        )
        assert output.raw == "Pay, please."
        assert list(output.frames.tasks["attempt_count"]) == [3]


def test_e46_feedback_may_address_tasks_of_a_phase_by_name() -> None:
    seen: list[tuple[str, int, tuple[str, ...], str | None]] = []

    def write(given: TaskInput) -> str:
        seen.append((given.name, given.attempt, given.feedback, given.previous))
        return f"{given.name} {given.attempt}"

    answers = ("RETRY draft: shorter\nRETRY title: wittier", "RETRY: bolder", "APPROVE")
    tasks = [done("draft", handler=write), done("title", handler=write), done("facts", handler=write)]
    phase = Phase.of(
        "p", *tasks, done("page", handler=write, context=["draft"]), review=Task.of("Judge", llm=scripted(*answers))
    )
    cell = """
phases:
  p:
    tasks:
      draft: {description: d, handler: write}
      title: {description: d, handler: write}
      facts: {description: d, handler: write}
      page: {description: d, handler: write, context: draft}
    review: {by: {description: Judge, llm: llm}}
"""
    for start in (lambda: Ensemble(phases=[phase]).run(), lambda: run_cell(cell, write=write, llm=scripted(*answers))):
        seen.clear()
        output = start()
        assert {each.name: each.raw for each in output.task_outputs} == {
            "facts": "facts 2",
            "draft": "draft 3",
            "title": "title 3",
            "page": "page 3",
        }
        assert [each for each in seen if each[0] == "page"] == [
            ("page", 1, (), None),
            ("page", 2, (), "page 1"),
            ("page", 3, ("bolder",), "page 2"),
        ]
        assert ("draft", 3, ("shorter", "bolder"), "draft 2") in seen
        assert [sorted(each.tasks) for each in of(output, PhaseRetried)] == [
            ["draft", "page", "title"],
            ["draft", "facts", "page", "title"],
        ]


def test_e46_a_function_addresses_tasks_and_an_unknown_name_is_told_the_valid_ones() -> None:
    decide = deciding(ReviewDecision.retry({"draft": "shorter"}), ReviewDecision.approve())
    output = Ensemble(phases=[Phase.of("p", done("draft"), done("title"), review=decide)]).run()
    assert starts(output) == ["draft", "title", "draft"]
    wrong = deciding(ReviewDecision.retry({"drft": "shorter"}))
    with pytest.raises(PhaseExecutionError, match=r"'drft'.*Did you mean 'draft'\? Its tasks are 'draft', 'title'"):
        Ensemble(phases=[Phase.of("p", done("draft"), done("title"), review=wrong)]).run()
    with pytest.raises(TaskExecutionError, match="only the review of a phase may address tasks"):
        run(done("draft", review=Review()), review_handler=deciding(ReviewDecision.retry({"draft": "shorter"})))
    with pytest.raises(ValidationError, match="names no task"):
        ReviewDecision.retry({})


def test_e46_a_review_task_that_names_an_unknown_task_is_asked_again_with_the_valid_names() -> None:
    judge = Task.of("Judge", name="judge", llm=scripted("RETRY titel: wittier", "RETRY title: wittier", "APPROVE"))
    output = Ensemble(phases=[Phase.of("p", done("draft"), done("title"), review=judge)]).run()
    assert starts(output) == ["draft", "title", "p.judge", "p.judge", "title", "p.judge"]
    told = prompts_of(output, "p.judge")[1]
    assert "This phase has no task 'titel'. Did you mean 'title'?" in told
    assert "The tasks are: draft, title." in told


# --- E51 ---


def is_polite(output: TaskOutput) -> str | None:
    """A guardrail."""
    return None if "please" in output.raw else "Say please."


def test_e51_an_output_guardrail_s_objection_goes_back_to_the_agent() -> None:
    fields = {"output_guardrails": [is_polite], "max_guardrail_retries": 2}
    task = Task.of("Write", name="letter", llm=scripted("Pay!", "Pay, please."), **fields)
    cell = "- {name: letter, description: Write, llm: llm, guardrail: is_polite, max_guardrail_retries: 2}"
    for output in (run(task), run_cell(cell, is_polite=is_polite, llm=scripted("Pay!", "Pay, please."))):
        assert output.raw == "Pay, please."
        assert prompts_of(output, "letter")[1].startswith(
            "## Revision Instructions (Attempt 2)\nSay please.\n\n### Previous Output\nPay!\n\n## Task"
        )
        (retried,) = of(output, TaskRetried)
        assert (retried.attempt, retried.cause, retried.feedback) == (2, "guardrail", "Say please.")
        spans = output.frames.spans
        assert list(spans[spans["kind"] == "guardrail"]["status"]) == ["error", "ok"]
        assert list(output.frames.tasks["attempt_count"]) == [2]
        assert output.plan.tasks[0].settings["max_guardrail_retries"] == 2
        assert output.status is RunStatus.COMPLETED


def test_e51_then_it_fails_as_without() -> None:
    llm = scripted("Pay!", "Pay now!")
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Write", llm=llm, output_guardrails=is_polite, max_guardrail_retries=1))
    assert isinstance(caught.value.__cause__, GuardrailViolationError)
    assert len(llm.calls) == 2


def test_e51_it_is_refused_for_handlers() -> None:
    with pytest.raises(ValidationError, match=r"max_guardrail_retries .* a handler can't be told"):
        done("a", max_guardrail_retries=1)
    (mistake,) = mistakes_of("- {description: d, handler: say, max_guardrail_retries: 1}", {"say": lambda given: ""})
    assert "max_guardrail_retries" in mistake.message


# --- E30 ---


def test_e30_a_handler_is_tried_again_only_if_asked() -> None:
    seen: list[int] = []

    def fetch(given: TaskInput) -> str:
        seen.append(given.attempt)
        if given.attempt == 1:
            raise OSError("busy")
        return "fetched"

    for output in (
        run(done("fetch", handler=fetch, max_retries=1)),
        run_cell("- {name: fetch, description: d, handler: fetch, max_retries: 1}", fetch=fetch),
    ):
        assert output.raw == "fetched"
        (retried,) = of(output, TaskRetried)
        assert (retried.attempt, retried.cause, str(retried.error)) == (2, "error", "busy")
        assert 1.0 <= retried.delay_s <= 1.25
        assert list(output.frames.tasks["attempt_count"]) == [2]
    assert seen == [1, 2, 1, 2]
    with pytest.raises(TaskExecutionError, match="busy"):
        run(done("fetch", handler=fetch))
    assert seen == [1, 2, 1, 2, 1]


def test_e30_an_error_of_the_engine_is_no_reason_to_try_a_handler_again() -> None:
    calls = []

    def refuse(given: TaskInput) -> str:
        calls.append(given)
        raise ValidationError("no")

    with pytest.raises(TaskExecutionError):
        run(done("fetch", handler=refuse, max_retries=3))
    assert len(calls) == 1


def test_e30_max_retries_of_a_task_stands_in_for_its_agent_s() -> None:
    cook = agent(Fail(500, retry_after=0), "Soup.", max_retries=0)
    output = run(Task.of("Cook", agent=cook, max_retries=1))
    assert (output.raw, len(of(output, LlmAttemptStarted))) == ("Soup.", 2)
    with pytest.raises(TaskExecutionError):
        run(Task.of("Cook", agent=agent(Fail(500), "Soup."), max_retries=0))


# --- E31 ---


def takeover(fallback_reply: Any = "Pay, please.") -> dict[str, Any]:
    return {
        "agent": agent("Pay!"),
        "fallback": agent(fallback_reply, role="Sous-chef"),
        "output_guardrails": is_polite,
    }


def test_e31_a_fallback_takes_over_after_the_final_objection_of_an_output_guardrail() -> None:
    cell = """
agents: {Cook: {goal: g, llm: first}, Sous-chef: {goal: g, llm: second}}
tasks:
  letter: {description: Write, agent: Cook, fallback: Sous-chef, guardrail: is_polite, max_guardrail_retries: 1}
"""
    names = {"first": scripted("Pay!", "Pay now!"), "second": scripted("Pay, please."), "is_polite": is_polite}
    for output in (run(Task.of("Write", name="letter", **takeover())), run_cell(cell, **names)):
        assert (output["letter"].raw, output["letter"].from_fallback) == ("Pay, please.", True)
        assert output.status is RunStatus.COMPLETED_WITH_WARNINGS


def test_e31_the_output_of_a_fallback_is_guarded_without_retries() -> None:
    task = Task.of("Write", **takeover("Pay now!"), max_guardrail_retries=0)
    with pytest.raises(TaskExecutionError) as caught:
        run(task)
    failed = caught.value.__cause__
    assert isinstance(failed, FallbackFailedError)
    assert isinstance(failed.first_error, GuardrailViolationError)
    assert isinstance(failed.fallback_error, GuardrailViolationError)


def test_e31_where_both_fail_the_error_tells_both_stories() -> None:
    task = Task.of("Write", agent=agent(Fail(401)), fallback=agent(Fail(403), role="Sous-chef"))
    with pytest.raises(
        TaskExecutionError, match=r"Cook failed: .*401.*fallback Sous-chef failed, too: .*403"
    ) as caught:
        run(task)
    failed = caught.value.__cause__
    assert isinstance(failed, FallbackFailedError)
    assert failed.__cause__ is failed.fallback_error
    assert "401" in str(failed.first_error)


def test_e31_the_timeline_and_the_picture_name_who_produced_the_result() -> None:
    cell = """
agents: {Cook: {goal: g, llm: first}, Sous-chef: {goal: g, llm: second}}
tasks: {letter: {description: Write, agent: Cook, fallback: Sous-chef}}
"""
    names = {"first": scripted(Fail(401)), "second": scripted("Pay, please.")}
    task = Task.of("Write", name="letter", agent=agent(Fail(401)), fallback=agent("Pay, please.", role="Sous-chef"))
    for output in (run(task), run_cell(cell, **names)):
        snapshot = TimelineMessages(TraceFold.from_events(output.events)).make_snapshot()
        rows = [(row["kind"], row.get("agent"), row.get("is_fallback", False)) for row in snapshot["rows"]]
        assert ("task", "Sous-chef", True) in rows
        assert [each for each in rows if each[0] == "llm"] == [("llm", "Cook", False), ("llm", "Sous-chef", True)]
        picture = str(output._repr_mimebundle_()["text/html"])
        assert "the fallback Sous-chef took over" in picture


def test_e31_every_view_names_who_produced_the_result(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ensemble_notebook"):
        output = run(Task.of("Write", name="letter", **takeover()))
    assert output["letter"].agent_role == "Sous-chef"
    assert output.trace.tasks[0].agent == "Sous-chef"
    assert output.trace.to_dict()["taskTraces"][0]["agentRole"] == "Sous-chef"
    assert list(output.frames.tasks["agent"]) == ["Sous-chef"]
    assert dict(output.frames.agents["task_count"]) == {"Cook": 0, "Sous-chef": 1}
    lines = [record.getMessage() for record in caplog.records]
    assert any(
        line.startswith("Task letter: fallback Sous-chef takes over for Cook: The output guardrail stopped")
        for line in lines
    )
    assert any(line.startswith("Task letter completed by fallback Sous-chef in ") for line in lines)
    assert "the fallback Sous-chef took over" in str(output._repr_mimebundle_()["text/plain"])


def test_e31_a_task_that_is_sent_back_after_a_fallback_begins_with_its_own_agent_again() -> None:
    task = Task.of(
        "Write",
        name="letter",
        agent=agent(Fail(401), "Dear all"),
        fallback=agent("Pay!", role="Sous-chef"),
        review=Review(),
    )
    output = run(task, review_handler=deciding(ReviewDecision.retry("Kinder."), ReviewDecision.approve()))
    assert (output.raw, output["letter"].agent_role, output["letter"].from_fallback) == ("Dear all", "Cook", False)
    assert list(output.frames.tasks["agent"]) == ["Cook"]
    assert "### Previous Output\nPay!" in prompts_of(output, "letter")[-1]


# --- T21 ---


def test_t21_frames_of_phases_have_a_row_for_each_attempt() -> None:
    decide = deciding(ReviewDecision.retry("More salt."), ReviewDecision.approve())
    llm = scripted("bland", "salty")
    cook = Phase.of("cook", Task.of("Season", name="season", llm=llm), done("plate"), review=decide)
    output = Ensemble(phases=[cook, Phase.of("serve", done("carry"), after=["cook"])]).run()
    phases = output.frames.phases
    assert list(phases["phase"]) == ["cook", "cook", "serve"]
    assert list(phases["attempt"]) == [1, 2, 1]
    assert list(phases["status"]) == ["completed"] * 3
    assert list(phases["feedback"].fillna("")) == ["More salt.", "", ""]
    assert list(phases["llm_call_count"]) == [1, 1, 0]
    assert phases["input_tokens"].sum() == output.frames.runs["input_tokens"].sum()
    first, second = phases.iloc[0], phases.iloc[1]
    assert first["start_ms"] + first["duration_ms"] == pytest.approx(second["start_ms"])


def test_t21_the_status_of_a_phase_is_a_phase_status() -> None:
    rejected = Phase.of("cook", done("soup"), review=deciding(ReviewDecision.reject("cold")))
    with pytest.raises(PhaseExecutionError) as caught:
        Ensemble(phases=[rejected, Phase.of("serve", done("plate"), after=["cook"])]).run()
    phases = caught.value.output.frames.phases
    assert {row["phase"]: row["status"] for _, row in phases.iterrows()} == {"cook": "failed", "serve": "skipped"}
    assert [PhaseStatus(each) for each in phases["status"]] == [PhaseStatus.FAILED, PhaseStatus.SKIPPED]
