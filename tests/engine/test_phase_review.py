"""Reviews of phases: approved, sent back, rejected, by a task or a function (E28)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason, PhaseStatus, RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision, ReviewRequest, Verdict
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import (
    Event,
    PhaseEnded,
    PhaseRetried,
    PhaseStarted,
    ReviewAnswered,
    ReviewRequested,
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TaskStarted,
    Warned,
)
from ensemble_notebook.engine.run.driver import CANCELLATION_LIMIT_S
from ensemble_notebook.engine.run.phase_review import UndecidedError, read_answer
from ensemble_notebook.errors import BudgetExceededError, ReviewRejectedError, ValidationError
from tests.support.drive import PARALLEL, drive, drive_for_real, fails, only, task, works

APPROVE = ReviewDecision.approve()
RETRY = ReviewDecision.retry("be bolder")
REJECT = ReviewDecision.reject("too dull")

Reviewer = Callable[[ReviewRequest], Any]


def answers(*decisions: Any, seconds: float = 0.0) -> Reviewer:
    """A reviewer who gives one answer after the other, the last one for ever."""
    left = list(decisions)

    async def review(_: ReviewRequest) -> Any:
        await asyncio.sleep(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    return review


def draft(review: Any, *tasks: Task, **fields: Any) -> EnsembleDefinition:
    """A reviewed phase of two tasks, and one after it."""
    drafting = Phase.of("draft", *(tasks or (task("outline"), task("write", "outline"))), review=review)
    return EnsembleDefinition(phases=[drafting, Phase.of("print", task("copy", "write"), after=["draft"])], **fields)


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


def test_the_reviewer_sees_the_outputs_of_the_phase_in_order_of_declaration_e28() -> None:
    seen: list[ReviewRequest] = []

    async def review(request: ReviewRequest) -> ReviewDecision:
        seen.append(request)
        return APPROVE

    slow = Phase.of("p", task("a", handler=works(5)), task("b"), workflow=PARALLEL, review=review)
    drive(EnsembleDefinition(phases=[slow]))
    (request,) = seen
    assert (request.subject, request.phase, request.task, request.timeout) == ("phase", "p", None, None)
    assert request.text == "### a\na done\n\n### b\nb done"
    assert request.verdicts == (Verdict.APPROVE, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)


def test_an_approved_phase_completes_when_it_is_approved_e28() -> None:
    result, events = drive(draft(answers(APPROVE, seconds=3)))
    ended = {each.phase: each.offset_s for each in of(events, PhaseEnded)}
    assert ended == {"draft": 5, "print": 6}
    assert result.status is RunStatus.COMPLETED


def test_a_plain_function_reviews_too_e28() -> None:
    result, _ = drive_for_real(draft(lambda _: APPROVE, task("write", handler=works(0))))
    assert len(result.outputs) == 2


def test_a_phase_that_is_sent_back_is_done_again_with_the_feedback_e28() -> None:
    count = 0

    async def numbered(given: TaskInput) -> str:
        nonlocal count
        count += 1
        return f"{given.name} {count}"

    made = draft(answers(RETRY, APPROVE), task("outline", handler=numbered), task("write", handler=numbered))
    result, events = drive(made)
    assert [each.raw for each in result.outputs.values()] == ["outline 3", "write 4", "copy done"]
    retried = only(events, PhaseRetried)
    assert (retried.phase, retried.attempt, retried.feedback) == ("draft", 2, "be bolder")
    assert [each.task for each in of(events, TaskStarted)] == ["outline", "write", "outline", "write", "copy"]
    spans = [each.span_id for each in of(events, TaskStarted)]
    assert spans[:2] == spans[2:4]
    assert len(of(events, PhaseStarted)) == len(of(events, PhaseEnded)) == 2
    assert result.status is RunStatus.COMPLETED


def test_the_review_stands_in_the_span_of_its_phase_e28() -> None:
    _, events = drive(draft(answers(RETRY, APPROVE, seconds=2)))
    phase = of(events, PhaseStarted)[0]
    asked, answered = of(events, ReviewRequested), of(events, ReviewAnswered)
    assert [each.parent_id for each in asked] == [phase.span_id] * 2
    assert [each.span_id for each in answered] == [each.span_id for each in asked]
    assert len({each.span_id for each in asked}) == 2
    assert [(each.decision, each.waited_s, each.status) for each in answered] == [
        (RETRY, 2, SpanStatus.OK),
        (APPROVE, 2, SpanStatus.OK),
    ]
    assert only(events, PhaseRetried).span_id == phase.span_id


@pytest.mark.parametrize("max_retries, attempts", [(0, 1), (1, 2), (2, 3)])
def test_a_wish_to_retry_without_retries_left_rejects_e28(max_retries: int, attempts: int) -> None:
    result, events = drive(draft(PhaseReview(answers(RETRY), max_retries=max_retries)))
    assert sum(each.task == "write" for each in of(events, TaskStarted)) == attempts
    (failure,) = result.failures
    assert isinstance(failure.error, ReviewRejectedError)
    assert str(failure.error) == "Phase 'draft' was sent back by its review and has no retry left: be bolder"
    assert failure.error.reason == "be bolder"


def test_a_rejected_phase_fails_and_its_dependents_are_skipped_e28() -> None:
    result, events = drive(draft(answers(REJECT)))
    (failure,) = result.failures
    assert (failure.name, failure.kind, failure.agent_role) == ("draft", "phase", "Reviewer")
    assert isinstance(failure.error, ReviewRejectedError)
    assert str(failure.error) == "Phase 'draft' was rejected by its review: too dull"
    assert failure.error.reason == "too dull"
    ended = only(events, PhaseEnded)
    assert (ended.phase, ended.status, ended.is_cancelled) == ("draft", PhaseStatus.FAILED, False)
    assert [(each.kind, each.name) for each in result.skipped] == [("phase", "print"), ("task", "copy")]
    assert [each.name for each in result.outputs.values()] == ["outline", "write"]
    assert (result.status, result.exit_reason) == (RunStatus.FAILED, ExitReason.ERROR)


def test_under_partial_a_rejected_phase_is_a_warning_e26_e32() -> None:
    result, _ = drive(draft(answers(REJECT), error_strategy=ErrorStrategy.PARTIAL))
    assert result.status is RunStatus.COMPLETED_WITH_WARNINGS


NO_DECISION = "A review handler must return a ReviewDecision, such as ReviewDecision.approve(); this one returned"


@pytest.mark.parametrize(
    "answer, reason",
    [
        (None, f"{NO_DECISION} NoneType."),
        ("APPROVE", f"{NO_DECISION} str."),
        (ReviewDecision.edit("better"), "the outputs of a phase can't be edited; approve, retry or reject"),
    ],
)
def test_an_answer_that_is_none_rejects_e28(answer: Any, reason: str) -> None:
    result, _ = drive(draft(answers(answer)))
    (failure,) = result.failures
    assert str(failure.error) == f"The review of phase 'draft' broke: {reason}"


def test_a_reviewer_that_raises_rejects_with_its_error_as_cause_e28() -> None:
    async def review(_: ReviewRequest) -> ReviewDecision:
        raise OSError("no paper")

    result, events = drive(draft(review))
    (failure,) = result.failures
    assert str(failure.error) == "The review of phase 'draft' broke: OSError: no paper"
    assert isinstance(failure.error.__cause__, OSError)
    answered = only(events, ReviewAnswered)
    assert (answered.decision, answered.status) == (None, SpanStatus.ERROR)


def test_a_failed_phase_is_not_reviewed_e28() -> None:
    result, events = drive(draft(answers(APPROVE), task("outline", handler=fails(1)), task("write")))
    assert of(events, ReviewRequested) == []
    assert [failure.name for failure in result.failures] == ["outline"]


def test_what_was_skipped_in_an_earlier_attempt_can_run_in_the_next_one_e28_e33() -> None:
    texts = ["plain", "bold"]

    async def say(_: TaskInput) -> str:
        return texts.pop(0)

    tasks = [task("write", handler=say), task("frame", when=Condition("write", equals="bold"))]
    result, events = drive(draft(answers(RETRY, APPROVE), *tasks))
    assert [each.name for each in result.outputs.values()] == ["write", "frame", "copy"]
    assert result.skipped == []
    assert only(events, TaskSkipped).reason == "condition not met"


# --- a task as reviewer ---


def reviewing(*texts: str, seconds: float = 1.0) -> tuple[Task, list[TaskInput]]:
    left, seen = list(texts), []

    async def handler(given: TaskInput) -> str:
        seen.append(given)
        await asyncio.sleep(seconds)
        return left.pop(0)

    return Task.of("Judge {topic}", handler=handler), seen


def test_a_task_reviews_with_the_outputs_of_the_phase_as_context_e28() -> None:
    reviewer, seen = reviewing("RETRY: be bolder", "APPROVE")
    result, events = drive(draft(reviewer, inputs={"topic": "the draft"}))
    assert [[each.name for each in given.context] for given in seen] == [["outline", "write"]] * 2
    assert seen[0].description == "Judge the draft"
    assert "`RETRY: `" in seen[0].expected_output
    assert only(events, PhaseRetried).feedback == "be bolder"
    assert [each.name for each in result.outputs.values()] == ["outline", "write", "copy"]


def test_a_reviewer_is_a_task_in_the_span_of_its_phase_and_not_in_the_plan_e28() -> None:
    reviewer, _ = reviewing("APPROVE", seconds=3)
    _, events = drive(draft(reviewer, inputs={"topic": "it"}))
    started = next(each for each in of(events, TaskStarted) if each.task == "draft.review")
    assert (started.index, started.total, started.agent, started.phase) == (None, None, "Handler", "draft")
    assert started.parent_id == of(events, PhaseStarted)[0].span_id
    completed = next(each for each in of(events, TaskCompleted) if each.task == "draft.review")
    assert (completed.span_id, completed.offset_s) == (started.span_id, 5)
    answered = only(events, ReviewAnswered)
    assert (answered.decision, answered.waited_s) == (APPROVE, 3)


def test_a_reviewer_that_says_itself_how_it_answers_is_left_as_it_is_e28() -> None:
    seen: list[str] = []

    async def judge(given: TaskInput) -> str:
        seen.append(given.expected_output)
        return "APPROVE"

    drive(draft(Task(description="Judge.", expected_output="APPROVE or REJECT: why", handler=judge)))
    assert seen == ["APPROVE or REJECT: why"]


def test_an_answer_that_decides_nothing_is_asked_for_once_more_with_the_three_words_e28() -> None:
    reviewer, seen = reviewing("I can't APPROVE this", "RETRY: be bolder", "", "APPROVE")
    result, events = drive(draft(reviewer, inputs={"topic": "it"}))
    assert [(given.attempt, given.previous) for given in seen] == [
        (1, None),
        (2, "I can't APPROVE this"),
        (1, None),
        (2, ""),
    ]
    (why,) = seen[1].feedback
    assert all(word in why for word in ("decides nothing", "`APPROVE`", "`RETRY: `", "`REJECT: `", "outline, write"))
    assert [each.decision for each in of(events, ReviewAnswered)] == [RETRY, APPROVE]
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    "answers_, told",
    [(("Hm.", "I am not sure."), "it said 'I am not sure.'"), (("", " "), "it gave an empty answer")],
)
def test_a_reviewer_that_decides_nothing_twice_rejects_and_is_quoted_e28(answers_: Any, told: str) -> None:
    reviewer, seen = reviewing(*answers_)
    result, _ = drive(draft(reviewer, inputs={"topic": "it"}))
    (failure,) = result.failures
    reason = f"asked twice, the reviewer decided nothing: {told}"
    assert str(failure.error) == f"Phase 'draft' was rejected by its review: {reason}"
    assert len(seen) == 2


def test_a_reviewer_reads_what_its_context_says_in_place_of_its_phase_e28() -> None:
    reviewer, seen = reviewing("APPROVE")
    reviewer = replace(reviewer, context=["fact", "write"])
    phases = [
        Phase.of("find", task("fact"), task("other")),
        Phase.of("draft", task("outline"), task("write", "outline"), after=["find"], review=reviewer),
    ]
    _, events = drive(EnsembleDefinition(phases=phases, inputs={"topic": "it"}))
    assert [each.name for each in seen[0].context] == ["fact", "write"]
    assert only(events, ReviewRequested).request.text == "### fact\nfact done\n\n### write\nwrite done"


def test_a_reviewer_that_reads_what_is_not_there_in_time_is_refused_e28() -> None:
    late = Phase.of("later", task("copy"), after=["draft"])
    made = [Phase.of("draft", task("write"), review=task("judge", "copy")), late]
    with pytest.raises(ValidationError, match="reads 'copy' of phase 'later', which does not come before"):
        drive(EnsembleDefinition(phases=made))
    with pytest.raises(ValidationError, match="which is not there"):
        drive(draft(task("judge", "nothing")))


# --- feedback for some of the tasks ---


@pytest.mark.parametrize("how", ["function", "task"])
def test_feedback_for_some_tasks_has_them_and_their_dependents_done_again_e46(how: str) -> None:
    seen: dict[str, list[TaskInput]] = {}

    async def write(given: TaskInput) -> str:
        seen.setdefault(given.name, []).append(given)
        return f"{given.name} {given.attempt}"

    review: Any = answers(ReviewDecision.retry({"a": "shorter"}), ReviewDecision.retry("bolder"), APPROVE)
    if how == "task":
        review, _ = reviewing("RETRY a: shorter", "RETRY: bolder", "APPROVE")
    tasks = [task("a", handler=write), task("b", "a", handler=write), task("c", handler=write)]
    made = EnsembleDefinition(phases=[Phase.of("p", *tasks, workflow=PARALLEL, review=review)], inputs={"topic": "it"})
    result, events = drive(made)
    assert {each.name: each.raw for each in result.outputs.values()} == {"a": "a 3", "b": "b 3", "c": "c 2"}
    told = {name: [(each.attempt, each.feedback, each.previous) for each in given] for name, given in seen.items()}
    assert told == {
        "a": [(1, (), None), (2, ("shorter",), "a 1"), (3, ("shorter", "bolder"), "a 2")],
        "b": [(1, (), None), (2, (), "b 1"), (3, ("bolder",), "b 2")],
        "c": [(1, (), None), (2, ("bolder",), "c 1")],
    }
    assert [(each.attempt, each.tasks) for each in of(events, PhaseRetried)] == [(2, ("a", "b")), (3, ("a", "b", "c"))]


def test_a_function_that_addresses_a_task_that_is_not_there_is_told_the_valid_ones_e46() -> None:
    result, _ = drive(draft(answers(ReviewDecision.retry({"writ": "shorter"}))))
    (failure,) = result.failures
    assert str(failure.error) == (
        "The review of phase 'draft' broke: The retry addresses 'writ', which is no task of phase 'draft'. "
        "Did you mean 'write'? Its tasks are 'outline', 'write'."
    )


# --- no retry left ---


def test_keep_goes_on_with_the_last_outputs_and_a_warning_e28() -> None:
    result, events = drive(draft(PhaseReview(answers(RETRY), max_retries=1, on_exhausted="keep")))
    assert [each.name for each in result.outputs.values()] == ["outline", "write", "copy"]
    message = "Phase 'draft' was sent back by its review and has no retry left; its last outputs are kept: be bolder"
    assert only(events, Warned).message == message
    assert (result.status, result.failures) == (RunStatus.COMPLETED_WITH_WARNINGS, [])
    assert sum(each.task == "write" for each in of(events, TaskStarted)) == 2


@pytest.mark.parametrize("answer", [REJECT, None, ReviewDecision.retry({"x": "y"})])
def test_keep_covers_exhausted_retries_only_e28(answer: Any) -> None:
    result, _ = drive(draft(PhaseReview(answers(answer), on_exhausted="keep")))
    assert [each.name for each in result.failures] == ["draft"]
    assert result.status is RunStatus.FAILED


# --- a reviewer that is reviewed ---


@pytest.mark.parametrize("why", ["budget", "leaving"])
def test_a_reviewer_s_answer_that_was_sent_back_and_can_t_be_redone_decides_nothing_e28_e36(why: str) -> None:
    refusal = BudgetExceededError("This call does not fit.", budget=Budget(max_tokens=1), limit="max_tokens")
    asked: list[ReviewRequest] = []

    async def person(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        if request.subject == "output":
            return ReviewDecision.retry("look again") if len(asked) == 1 else ReviewDecision.exit_early()
        return APPROVE

    async def judge(given: TaskInput) -> str:
        if given.attempt == 2 and why == "budget":
            raise refusal
        return "APPROVE"

    reviewer = Task.of("Judge", handler=judge, review=Review("after"))
    result, events = drive(draft(reviewer, review_handler=person))
    ended = only(events, PhaseEnded)
    if why == "leaving":  # who leaves instead of deciding is content with the answer, and with the phase (E27)
        assert (ended.status, result.status) == (PhaseStatus.COMPLETED, RunStatus.EXITED_EARLY)
        return
    kept = next(each for each in of(events, TaskCompleted) if each.task == "draft.review")
    assert kept.output.raw == "APPROVE"
    last = of(events, ReviewAnswered)[-1]
    assert (last.decision, last.status, last.error) == (None, SpanStatus.SKIPPED, refusal)
    assert (ended.status, ended.is_cancelled) == (PhaseStatus.FAILED, True)
    assert (result.status, result.failures) == (RunStatus.BUDGET_EXCEEDED, [])
    assert [each.name for each in result.outputs.values()] == ["outline", "write"]


def test_a_task_that_rejects_is_named_by_its_role_e28() -> None:
    reviewer, _ = reviewing("REJECT: too dull")
    result, _ = drive(draft(reviewer, inputs={"topic": "it"}))
    (failure,) = result.failures
    assert (failure.name, failure.agent_role) == ("draft", "Handler")
    assert str(failure.error) == "Phase 'draft' was rejected by its review: too dull"


def test_a_reviewer_that_fails_rejects_and_its_span_fails_e28() -> None:
    result, events = drive(draft(task("judge", handler=fails(1))))
    (failure,) = result.failures
    assert str(failure.error) == "The review of phase 'draft' broke: ValueError: draft.judge is broken"
    failed = only(events, TaskFailed)
    assert (failed.task, failed.status) == ("draft.judge", SpanStatus.ERROR)


def test_a_reviewer_without_budget_closes_the_run_and_leaves_the_phase_unjudged_e36() -> None:
    refusal = BudgetExceededError("This call does not fit.", budget=Budget(max_tokens=1), limit="max_tokens")
    result, events = drive(draft(task("judge", handler=fails(1, refusal))))
    assert (result.status, result.failures) == (RunStatus.BUDGET_EXCEEDED, [])
    assert [each.name for each in result.outputs.values()] == ["outline", "write"]
    ended = only(events, PhaseEnded)
    assert (ended.status, ended.is_cancelled) == (PhaseStatus.FAILED, True)
    assert [each.reason for each in of(events, TaskSkipped) if each.task == "draft.judge"] == [
        "This call does not fit."
    ]


def test_a_reviewer_takes_a_place_and_says_how_long_it_waited_e21() -> None:
    reviewer, _ = reviewing("APPROVE")
    other = Phase.of("other", task("x", handler=works(4)), task("y", handler=works(2)), workflow=PARALLEL)
    draft_phase = Phase.of("draft", task("write"), review=reviewer)
    made = EnsembleDefinition(phases=[draft_phase, other], max_concurrency=1, inputs={"topic": "it"})
    _, events = drive(made)
    started = {each.task: (each.offset_s, each.queued_s) for each in of(events, TaskStarted)}
    assert started == {"write": (0, 0), "x": (1, 1), "y": (5, 5), "draft.review": (7, 6)}


@pytest.mark.parametrize(
    "answer, decision",
    [
        ("APPROVE", APPROVE),
        ("**APPROVE**", APPROVE),
        ("Approve.", APPROVE),
        ("approve, though I would RETRY: the end", APPROVE),
        ("## APPROVE\nWell done.", APPROVE),
        ("'Approve'", APPROVE),
        ("RETRY: be bolder", RETRY),
        (" \nRETRY : be bolder\n", RETRY),
        ("retry: be bolder", RETRY),
        ("**RETRY**: be bolder", RETRY),
        ("_APPROVE_: fine", APPROVE),
        ("**_Approve_** - fine", APPROVE),
        ("_RETRY_: be bolder", RETRY),
        ("__RETRY__ be bolder", RETRY),
        ("_REJECT_: too dull", REJECT),
        ("`RETRY: be bolder`", RETRY),
        ("RETRY: be\nbolder", ReviewDecision.retry("be\nbolder")),
        ("RETRY", ReviewDecision.retry("")),
        ("REJECT: too dull", REJECT),
        ("REJECT", ReviewDecision.reject("")),
        ("> **Reject** - too dull", REJECT),
        ("**Reject** - too dull", REJECT),
        (
            "RETRY: name it\nPENDING -> APPROVE is missing",
            ReviewDecision.retry("name it\nPENDING -> APPROVE is missing"),
        ),
        ("APPROVE\nWhat is odd: reject and retry are one button", APPROVE),
        ("```\nAPPROVE\n```", APPROVE),
        ("```text\nRETRY: be bolder\n```", RETRY),
        ("---\nAPPROVE", APPROVE),
        ("`APPROVE`: it is what `a` wants", APPROVE),
        ("`APPROVE`", APPROVE),
        ('APPROVE\n> REJECT: it says\n```\nREJECT\n```\n"REJECT" is there, too', APPROVE),
        (
            "RETRY: be\nRejecting all of it: no\n- Approve of less",
            ReviewDecision.retry("be\nRejecting all of it: no\n- Approve of less"),
        ),
        ("REJECT: it says\n> APPROVE this!", ReviewDecision.reject("it says\n> APPROVE this!")),
        (
            "RETRY draft: take out\n> RETRY the title: wittier",
            ReviewDecision.retry({"draft": "take out\n> RETRY the title: wittier"}),
        ),
        ("RETRY be bolder", RETRY),
        ("RETRY: say 'hi'", ReviewDecision.retry("say 'hi'")),
        ("RETRY the second part: be bolder", ReviewDecision.retry("the second part: be bolder")),
        ("RETRY: be bolder\nRetry it until it works", ReviewDecision.retry("be bolder\nRetry it until it works")),
        ("RETRY draft: shorter", ReviewDecision.retry({"draft": "shorter"})),
        ("**RETRY draft**: shorter", ReviewDecision.retry({"draft": "shorter"})),
        ("Retry `Draft`: shorter\nand kinder", ReviewDecision.retry({"draft": "shorter\nand kinder"})),
        (
            "- RETRY draft: shorter\n- RETRY the title: wittier",
            ReviewDecision.retry({"draft": "shorter", "the title": "wittier"}),
        ),
        (
            "RETRY: be bolder\nRETRY draft: shorter",
            ReviewDecision.retry({"draft": "be bolder\nshorter", "the title": "be bolder"}),
        ),
    ],
)
def test_what_a_reviewer_s_words_mean_e28_e46(answer: str, decision: ReviewDecision) -> None:
    assert read_answer(answer, ["draft", "the title"]) == decision


@pytest.mark.parametrize(
    "answer",
    [
        "Looks fine to me.",
        "I can't APPROVE this",
        "I would RETRY: no",
        "RETRYING: no",
        "REJECTED",
        "Approved",
        "APPROVE_ALL",
        "APPROVE? no",
        "**APPROVE**? no",
        "**APPROVE**d? no: REJECT: bad",
        "> APPROVE\nis what it says",
        "> APPROVE this!",
        "- > APPROVE this!",
        "> APPROVE\n> REJECT: no",
        "APPROVE\n=> REJECT: no",
        "APPROVE\n-> REJECT",
        "`APPROVE` it says. REJECT",
        "~~APPROVE~~ REJECT: no",
        "APPROVE (says the draft)\nFinal verdict - REJECT",
        "APPROVE\nVERDICT — REJECT: no",
        "APPROVE\n| verdict | REJECT |",
        "APPROVE\n- Verdict: reject",
        "```\nAPPROVE\nREJECT: no\n```",
        "'APPROVE\nREJECT: no'",
        '"APPROVE" it says',
        '"APPROVE this!"',
        "`APPROVE this!` it says",
        "```\nAPPROVE this!\n```",
        "```\nAPPROVE\n```\nis what it says.",
        "---\n~~~\nAPPROVE\n~~~\nit says.",
        "« APPROVE »",
    ],
)
def test_an_answer_that_begins_with_none_of_the_three_words_decides_nothing_e28(answer: str) -> None:
    with pytest.raises(UndecidedError, match=r"^Your answer decides nothing.* Begin your answer with one of"):
        read_answer(answer, ["draft"])


@pytest.mark.parametrize("answer", ["", " \n", "**", "---"])
def test_silence_decides_nothing_e28(answer: str) -> None:
    with pytest.raises(UndecidedError, match=r"^Your answer was empty. Begin"):
        read_answer(answer, ["draft"])


def test_feedback_for_a_task_that_is_not_there_decides_nothing_and_names_those_that_are_e46() -> None:
    with pytest.raises(UndecidedError, match=r"no task 'titel'. Did you mean 'title'.*The tasks are: draft, title."):
        read_answer("RETRY draft: shorter\nRETRY titel: wittier", ["draft", "title"])


@given(st.text(max_size=60), st.lists(st.sampled_from(["a", "b c", "RETRY"]), min_size=1, max_size=3, unique=True))
def test_any_text_is_a_decision_or_decides_nothing_e28(text: str, tasks: list[str]) -> None:
    for answer in (text, f"RETRY {text}", f"**RETRY** a: {text}\nRETRY {text}:"):
        try:
            decision = read_answer(answer, tasks)
        except UndecidedError:
            continue
        if decision.verdict is Verdict.APPROVE:
            assert re.match(r"\W*(\d+\W+)?_*APPROVE", answer, re.IGNORECASE)
        assert {name for name, _ in decision.addressed} <= set(tasks)


# --- leaving and stopping ---


def test_who_leaves_at_a_review_ends_the_run_and_keeps_the_phase_e27() -> None:
    phases = [
        Phase.of("draft", task("write"), review=answers(ReviewDecision.exit_early())),
        Phase.of("print", task("copy"), after=["draft"]),
        Phase.of("other", task("x", handler=works(4)), task("y")),
    ]
    result, events = drive(EnsembleDefinition(phases=phases))
    ended = {each.phase: (each.offset_s, each.status) for each in of(events, PhaseEnded)}
    assert ended == {"draft": (1, PhaseStatus.COMPLETED), "other": (4, PhaseStatus.EXITED_EARLY)}
    assert result.status is RunStatus.EXITED_EARLY
    assert [each.name for each in result.outputs.values()] == ["write", "x"]


def test_functions_that_review_are_asked_one_at_a_time_e27() -> None:
    slow = answers(APPROVE, seconds=3)
    phases = [Phase.of(name, task(f"{name}_task"), review=slow) for name in "abc"]
    _, events = drive(EnsembleDefinition(phases=phases))
    assert [each.offset_s for each in of(events, ReviewRequested)] == [1, 4, 7]


def test_tasks_that_review_work_side_by_side() -> None:
    phases = [Phase.of(name, task(f"{name}_task"), review=reviewing("APPROVE", seconds=3)[0]) for name in "abc"]
    _, events = drive(EnsembleDefinition(phases=phases, inputs={"topic": "it"}))
    assert events[-1].offset_s == 4


@pytest.mark.parametrize("reviewer", [answers(APPROVE, seconds=9), task("judge", handler=works(9))])
def test_a_stop_ends_a_review_and_what_it_is_about_e35(reviewer: Any) -> None:
    result, events = drive(draft(reviewer), stop_after=4)
    assert events[-1].offset_s == 4
    assert (result.status, result.failures) == (RunStatus.INTERRUPTED, [])
    assert only(events, ReviewAnswered).status is SpanStatus.CANCELLED
    assert [each.status for each in of(events, TaskFailed)] == [SpanStatus.CANCELLED] * isinstance(reviewer, Task)
    assert only(events, PhaseEnded).is_cancelled


def test_a_reviewer_that_ignores_its_cancellation_is_left_to_itself_e35() -> None:
    async def mule(_: ReviewRequest) -> ReviewDecision:
        for _ in range(3):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue
        return APPROVE

    _, events = drive(draft(mule), stop_after=4)
    assert events[-1].offset_s == 4 + CANCELLATION_LIMIT_S
    message = "The review of phase 'draft' ignored its cancellation and is left to itself."
    assert only(events, Warned).message == message


# --- any phases, any answers ---


@st.composite
def reviewed(draw: st.DrawFn) -> tuple[EnsembleDefinition, dict[str, list[str]], float | None]:
    words = st.lists(st.sampled_from(["RETRY: more", "APPROVE", "REJECT: no"]), max_size=3)
    phases, script = [], {}
    for number in range(draw(st.integers(1, 4))):
        name = f"p{number}"
        script[name] = draw(words)
        seconds = [draw(st.integers(0, 8)) / 4 for _ in range(draw(st.integers(1, 3)))]
        tasks = [task(f"{name}t{place}", handler=works(each)) for place, each in enumerate(seconds)]
        after = [f"p{each}" for each in draw(st.sets(st.integers(0, number - 1)))] if number else []
        left = list(script[name])

        async def answer(_: TaskInput, left: list[str] = left) -> str:
            await asyncio.sleep(0.5)
            return left.pop(0) if left else "APPROVE"

        phases.append(Phase.of(name, *tasks, after=after, review=task("judge", handler=answer)))
    made = EnsembleDefinition(phases=phases, max_concurrency=draw(st.none() | st.integers(1, 2)))
    return made, script, draw(st.none() | st.integers(0, 40).map(lambda each: each / 4))


@given(reviewed())
def test_however_reviews_end_every_attempt_is_whole_and_every_span_ends_e28(
    case: tuple[EnsembleDefinition, dict[str, list[str]], float | None],
) -> None:
    made, script, stop_after = case
    result, events = drive(made, stop_after)
    for phase in made.phases:
        mine = [each for each in events if each.phase == phase.name]
        attempts = 1 + len(of(mine, PhaseRetried))
        starts, ends = (
            [each.task for each in mine if isinstance(each, kinds)]
            for kinds in ((TaskStarted,), (TaskCompleted, TaskFailed))
        )
        assert sorted(starts) == sorted(ends)
        if stop_after is None and of(mine, PhaseStarted):
            for each in phase.tasks:
                assert starts.count(each.name) == attempts
            asked = script[phase.name][:attempts]
            assert [each for each in asked[:-1] if not each.startswith("RETRY")] == []
            is_rejected = asked[attempts - 1 :] in (["REJECT: no"], ["RETRY: more"])
            ended = only(mine, PhaseEnded)
            assert (ended.status is PhaseStatus.FAILED) == is_rejected
        assert len(of(mine, ReviewRequested)) == len(of(mine, ReviewAnswered))
        assert len(of(mine, PhaseStarted)) == len(of(mine, PhaseEnded))
    names = {each.name for phase in made.phases for each in phase.tasks}
    assert {each.name for each in result.outputs.values()} <= names


@pytest.mark.parametrize(
    "answer",
    [
        "APPROVE NOT",
        "**APPROVE** not",
        "APPROVE: no",
        "APPROVE = false",
        "APPROVE... never!",
        "Approve nothing of this",
        "APPROVE: is what the draft tells me to say; REJECT: wrong",
        "APPROVE is what it wants. REJECT: wrong",
        "APPROVE is what it wants REJECT: wrong",
        "APPROVE -> RETRY: shorter",
        "APPROVE/REJECT",
        "APPROVE | RETRY | REJECT",
        "APPROVE REJECT",
        "APPROVE [REJECT]",
        "approve; reject: wrong",
        "Approve or reject",
        "Approve. No, reject.",
        'APPROVE, says the draft: "fine"; REJECT: wrong\nIt is wrong.',
    ],
)
def test_approval_that_its_own_line_takes_back_decides_nothing(answer):
    with pytest.raises(UndecidedError, match=r"^Your answer decides nothing: it says APPROVE, and on the same line "):
        read_answer(answer, ["draft"])


@pytest.mark.parametrize(
    "answer",
    [
        "APPROVE: not a single fault",
        "APPROVE (not perfect, but good)",
        "APPROVE, no notes",
        "APPROVE - nothing to reject.",
        "Approve, no retry needed",
        "APPROVE: the RETRY path works",
        'APPROVE: it says "no, REJECT" as it should',
        "Approve: users can retry, and reject offers",
    ],
)
def test_approval_may_speak_of_what_it_is_about(answer):
    assert read_answer(answer, ["draft"]) == ReviewDecision.approve()
