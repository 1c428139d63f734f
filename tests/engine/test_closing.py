"""Runs that are left early or run out of budget: what runs finishes, nothing new starts (E27, E36)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import (
    ErrorStrategy,
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    Workflow,
)
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision, ReviewRequest, ReviewTiming
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import (
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TaskStarted,
)
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned, abandonment_in
from ensemble_notebook.errors import AgentExecutionError, BudgetExceededError
from ensemble_notebook.testing.virtual_clock import LoopClock, VirtualLoop, run_virtual
from tests.support.drive import WORDS, drive, driver_of, fails, only, parallel, task, times, works

LEFT = "not started: somebody chose to leave the run"
SPENT = "not started: the budget is used up"
BUDGET, EARLY = ExitReason.BUDGET_EXCEEDED, ExitReason.USER_EXIT_EARLY
CONTINUE = ErrorStrategy.CONTINUE_ON_ERROR


def refusal() -> BudgetExceededError:
    return BudgetExceededError("This call does not fit.", budget=Budget(max_tokens=1), limit="max_tokens")


@pytest.mark.parametrize(
    "why, status, reason", [(EARLY, RunStatus.EXITED_EARLY, LEFT), (BUDGET, RunStatus.BUDGET_EXCEEDED, SPENT)]
)
def test_a_closed_run_finishes_what_runs_and_skips_the_rest_in_all_phases_e27(
    why: ExitReason, status: RunStatus, reason: str
) -> None:
    phases = [
        Phase.of("one", task("a", handler=works(4)), task("b")),
        Phase.of("two", task("c", handler=works(5))),
        Phase.of("late", task("d"), after=["two"]),
    ]
    result, events = drive(EnsembleDefinition(phases=phases), close_after=2, why=why)
    assert times(events, TaskCompleted) == {"a": 4, "c": 5}
    assert [(each.kind, each.name, each.reason) for each in result.skipped] == [
        ("task", "b", reason),
        ("task", "d", reason),
        ("phase", "late", reason),
    ]
    assert (result.status, result.exit_reason, result.failures) == (status, why, [])
    ended = {each.phase: (each.status, each.is_cancelled) for each in events if isinstance(each, PhaseEnded)}
    cut_short = (PhaseStatus.EXITED_EARLY, False) if why is EARLY else (PhaseStatus.FAILED, True)
    assert ended == {"one": cut_short, "two": (PhaseStatus.COMPLETED, False)}
    assert only(events, RunEnded).status is status


def test_why_a_run_was_closed_first_counts_e27_e36() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        driver, _ = driver_of(parallel(task("a", handler=works(9))), LoopClock(loop))
        loop.call_later(1, driver.close, BUDGET, WORDS[BUDGET])
        loop.call_later(2, driver.close, EARLY, WORDS[EARLY])
        result = await driver.run()
        driver.close(EARLY, WORDS[EARLY])
        assert result.exit_reason is BUDGET

    run_virtual(main(), loop)


def test_a_stop_after_the_close_cancels_what_still_runs_e35() -> None:
    result, events = drive(parallel(task("a", handler=works(9)), task("b", "a")), close_after=2, stop_after=3)
    assert events[-1].offset_s == 3
    assert (result.status, result.exit_reason) == (RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)
    assert result.cancelled == [0]
    assert [each.reason for each in result.skipped] == [LEFT]


def test_a_failure_after_the_close_is_kept_and_the_run_is_still_one_that_was_left_e27() -> None:
    result, events = drive(parallel(task("a", handler=fails(4)), task("b", "a")), close_after=2)
    assert (result.status, result.exit_reason) == (RunStatus.EXITED_EARLY, EARLY)
    assert [failure.name for failure in result.failures] == ["a"]
    assert only(events, RunEnded).error is result.failures[0].error


# --- budget (E36) ---


@pytest.mark.parametrize("strategy", list(ErrorStrategy))
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_refused_call_drops_its_task_and_closes_the_run_e36(strategy: ErrorStrategy, is_wrapped: bool) -> None:
    async def spend(_: TaskInput) -> str:
        await asyncio.sleep(1)
        if is_wrapped:
            raise AgentExecutionError("No reply.", agent_role="A", task_description="B") from refusal()
        raise refusal()

    tasks = [task("spender", handler=spend), task("next", "spender"), task("other", handler=works(3))]
    result, events = drive(parallel(*tasks, task("late", "other"), error_strategy=strategy))
    assert (result.status, result.exit_reason) == (RunStatus.BUDGET_EXCEEDED, BUDGET)
    assert times(events, TaskCompleted) == {"other": 3}
    assert result.failures == []
    assert [(each.name, each.reason) for each in result.skipped] == [
        ("next", SPENT),
        ("late", SPENT),
        ("spender", "This call does not fit."),
    ]
    skipped = {each.task: (each.offset_s, each.reason) for each in events if isinstance(each, TaskSkipped)}
    assert skipped["spender"] == (1, "This call does not fit.")
    assert only(events, RunEnded).error is None


def test_the_chain_of_causes_is_followed_to_a_drop_and_not_round_in_rings() -> None:
    drop = refusal()
    outer = ValueError("outer")
    outer.__cause__ = drop
    assert abandonment_in(outer) is drop
    drop.__cause__ = outer
    assert abandonment_in(outer) is drop
    ring = ValueError("ring")
    ring.__cause__ = ring
    assert abandonment_in(ring) is None
    left = TaskAbandoned("left")
    assert abandonment_in(left) is left


# --- somebody leaves (E27) ---


def leave(_: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.exit_early()


async def leave_later(_: ReviewRequest) -> ReviewDecision:
    await asyncio.sleep(2)
    return ReviewDecision.exit_early()


def test_who_leaves_at_a_gate_before_a_task_drops_it_and_lets_the_others_finish_e27() -> None:
    gated = task("gated", review=Review(ReviewTiming.BEFORE))
    tasks = [gated, task("next", "gated"), task("other", handler=works(5)), task("late", "other")]
    result, events = drive(parallel(*tasks, review_handler=leave_later))
    assert (result.status, result.exit_reason) == (RunStatus.EXITED_EARLY, EARLY)
    assert times(events, TaskCompleted) == {"other": 5}
    assert times(events, TaskSkipped) == {"next": 2, "late": 2, "gated": 2}
    assert result.failures == []


def test_who_leaves_after_a_task_keeps_its_output_e27() -> None:
    gated = task("gated", handler=works(1), review=Review(ReviewTiming.AFTER))
    result, events = drive(EnsembleDefinition(tasks=[gated, task("next")], review_handler=leave_later))
    assert times(events, TaskCompleted) == {"gated": 3}
    assert result.status is RunStatus.EXITED_EARLY
    assert [(each.name, each.reason) for each in result.skipped] == [("next", LEFT)]


# --- at any moment ---


@st.composite
def closed(draw: st.DrawFn) -> tuple[EnsembleDefinition, float]:
    kinds = st.tuples(st.sampled_from(["works", "fails", "drops"]), st.integers(0, 20).map(lambda each: each / 4))
    phases = []
    for number in range(draw(st.integers(1, 4))):
        tasks = []
        for kind, seconds in draw(st.lists(kinds, min_size=1, max_size=3)):
            error = refusal() if kind == "drops" else None
            handler = works(seconds) if kind == "works" else fails(seconds, error)
            tasks.append(task(f"p{number}t{len(tasks)}", handler=handler))
        after = [f"p{each}" for each in draw(st.sets(st.integers(0, number - 1)))] if number else []
        workflow = draw(st.sampled_from([Workflow.SEQUENTIAL, Workflow.PARALLEL]))
        phases.append(Phase.of(f"p{number}", *tasks, after=after, workflow=workflow))
    strategy = draw(st.sampled_from(list(ErrorStrategy)))
    limit = draw(st.none() | st.integers(1, 2))
    made = EnsembleDefinition(phases=phases, error_strategy=strategy, max_concurrency=limit)
    return made, draw(st.integers(0, 40)) / 8


@given(closed())
def test_whenever_a_run_is_closed_nothing_starts_afterwards_and_every_span_ends_once_e27_e36(
    case: tuple[EnsembleDefinition, float],
) -> None:
    made, moment = case
    result, events = drive(made, close_after=moment)
    drops = [each.seq for each in events if isinstance(each, TaskSkipped) and each.reason == "This call does not fit."]
    late = [each for each in events if isinstance(each, TaskStarted | PhaseStarted) and each.offset_s > moment]
    assert late == []
    if drops:
        assert not any(isinstance(each, TaskStarted) for each in events[drops[0] :])
    started = [each.task for each in events if isinstance(each, TaskStarted)]
    ended = [each.task for each in events if isinstance(each, TaskCompleted | TaskFailed | TaskSkipped)]
    assert len(started) == len(set(started))
    assert sorted(map(str, ended)) == sorted(each.name for phase in made.phases for each in phase.tasks)
    assert not any(isinstance(each, TaskFailed) and each.status is SpanStatus.CANCELLED for each in events)
    resolved: list[Any] = [*result.outputs.values(), *result.failures]
    resolved += [each for each in result.skipped if each.kind == "task"]
    assert sorted(each.name for each in resolved) == sorted(map(str, ended))
    if drops:
        assert result.status in (RunStatus.BUDGET_EXCEEDED, RunStatus.EXITED_EARLY)
