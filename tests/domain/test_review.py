"""Reviews of tasks and phases (E28, E45)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook.domain.definitions.enums import OnTimeout, ReviewTiming
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision, ReviewRequest, Verdict
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import ValidationError

READ = Task.of("Read")


def refusal(make: Any, *args: Any, **fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make(*args, **fields)
    return str(caught.value)


def approve(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.approve()


@pytest.mark.parametrize("make", [ReviewDecision.edit, ReviewDecision.retry, ReviewDecision.reject])
@pytest.mark.parametrize("text", [None, 5])
def test_a_decision_says_a_text_or_nothing(make: Any, text: Any) -> None:
    assert f"takes a text, got {type(text).__name__}." in refusal(make, text)


def test_a_review_is_after_the_task_and_ends_the_run_where_nobody_answers() -> None:
    review = Review()
    assert (review.timing, review.timeout, review.on_timeout) == (ReviewTiming.AFTER, 300.0, OnTimeout.EXIT_EARLY)


def test_a_review_waits_for_ever_without_a_timeout() -> None:
    timing: Any = "Before"
    assert Review(timing, timeout=None).timing is ReviewTiming.BEFORE


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"timing": "befor"}, "Review timing can't be 'befor'. Did you mean 'before'?"),
        ({"timeout": 0}, "Review timeout must be seconds > 0 or None, got 0."),
        ({"on_timeout": "fial"}, "Review on_timeout can't be 'fial'. Did you mean 'fail'?"),
    ],
    ids=["timing", "timeout", "on_timeout"],
)
def test_what_is_wrong_with_a_review_is_named(fields: dict[str, Any], told: str) -> None:
    assert refusal(Review, **fields) == told


def test_reviews_of_a_task_become_a_tuple_with_each_timing_once() -> None:
    before, after = Review(ReviewTiming.BEFORE), Review()
    assert Task.of("x").review == ()
    assert Task.of("x", review=after).review == (after,)
    assert Task.of("x", review=[before, after]).review == (before, after)
    assert refusal(Task.of, "x", review=[after, Review()]) == "Task review has two gates 'after'. Keep one."
    assert refusal(Task.of, "x", review=["aftr"]) == "Task review: Review timing can't be 'aftr'. Did you mean 'after'?"


@pytest.mark.parametrize("by", [READ, approve], ids=["task", "function"])
def test_a_phase_is_reviewed_by_a_task_or_a_function_e28(by: Any) -> None:
    short, long = Phase.of("p", READ, review=by), Phase.of("p", READ, review=PhaseReview(by, max_retries=0))
    assert short.review is not None
    assert long.review is not None
    assert [(each.by, each.max_retries) for each in (short.review, long.review)] == [(by, 2), (by, 0)]


@pytest.mark.parametrize("by, shown", [(3, "3"), (Task, "type"), (None, "NoneType")], ids=repr)
def test_nothing_else_reviews_a_phase(by: Any, shown: str) -> None:
    wanted = "a task, a function, or what is to be looked at as a text"
    assert refusal(PhaseReview, by) == f"PhaseReview by must be {wanted}, got {shown}."


def test_the_name_of_a_reviewer_is_no_reviewer() -> None:
    told = "PhaseReview by takes a function or a task, and 'read' is a name. Pass the object itself."
    assert refusal(PhaseReview, "read") == told


@pytest.mark.parametrize("value", [-1, True, 1.5], ids=repr)
def test_a_phase_is_sent_back_a_whole_number_of_times(value: Any) -> None:
    told = f"PhaseReview max_retries must be a whole number >= 0, got {value!r}."
    assert refusal(PhaseReview, READ, max_retries=value) == told


def test_decisions_carry_the_text_that_goes_with_them() -> None:
    decisions = [
        ReviewDecision.approve(),
        ReviewDecision.edit("new"),
        ReviewDecision.retry("shorter"),
        ReviewDecision.reject("wrong"),
        ReviewDecision.exit_early(),
    ]
    assert [(each.verdict, each.text) for each in decisions] == [
        (Verdict.APPROVE, ""),
        (Verdict.EDIT, "new"),
        (Verdict.RETRY, "shorter"),
        (Verdict.REJECT, "wrong"),
        (Verdict.EXIT_EARLY, ""),
    ]
