"""Limits: budgets by reservation and rate limits (E36, E37)."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    BudgetWarning,
    CostConfiguration,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    LlmAttemptStarted,
    RateLimit,
    RateLimitTimeoutError,
    RateLimitWaited,
    RunStatus,
    Task,
    TaskExecutionError,
    ValidationError,
)
from tests.conformance.scene import done, of, run_cell, scripted
from tests.support.openai_server import Answer, OpenAIServer

RATES = CostConfiguration(input_rate="0.000001", output_rate="0.000002")


def calls(count: int, llm: Any, **fields: Any) -> EnsembleOutput:
    tasks = [Task.of(f"Task {number}", name=f"t{number}") for number in range(count)]
    return Ensemble(tasks=tasks, llm=llm, workflow=fields.pop("workflow", "parallel"), **fields).run()


CELL_WITH_A_BUDGET = "budget: purse\nllm: llm\nworkflow: sequential\ntasks: [Say a, Say b]"


def two_calls(budget: Budget, *replies: str) -> Ensemble:
    return Ensemble(tasks=[Task.of("Say a"), Task.of("Say b")], llm=scripted(*(replies or "ab")), budget=budget)


# --- E4, E36 ---


def test_e36_what_does_not_fit_is_skipped_and_run_returns_what_was_bought(server: OpenAIServer, llm: str) -> None:
    output = calls(5, llm, budget=Budget(max_llm_calls=3), workflow="sequential")
    assert (output.status, output.exit_reason) == (RunStatus.BUDGET_EXCEEDED, ExitReason.BUDGET_EXCEEDED)
    assert len(server.requests) == len(output.task_outputs) == 3
    assert sorted(each.name for each in output.skipped) == ["t3", "t4"]
    assert all("budget" in each.reason for each in output.skipped)
    calls_frame = output.frames.llm_calls
    assert (len(calls_frame), calls_frame["attempt_count"].min()) == (output.metrics.llm_call_count, 1)
    assert output.frames.agents["llm_count"].sum() == 3


def test_e36_calls_side_by_side_never_pass_the_cap(server: OpenAIServer, llm: str) -> None:
    server.script(*[Answer(delay=0.05, usage=(200, 100))] * 20)
    output = calls(20, llm, budget=Budget(max_tokens=3000))
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert 0 < sum(server.used_tokens) <= 3000
    assert output.metrics.total_tokens == sum(server.used_tokens)


def test_e36_cost_is_counted_by_own_rates_and_an_unknown_price_is_refused(server: OpenAIServer, llm: str) -> None:
    output = calls(2, llm, budget=Budget(max_cost="0.01"), cost=RATES)
    assert output.metrics.cost == 2 * (11 * Decimal("0.000001") + 7 * Decimal("0.000002"))
    with pytest.raises(ValidationError, match="price"):
        calls(1, llm, budget=Budget(max_cost="0.01"))
    assert calls(1, llm, budget=Budget(max_cost="0.01", allow_unknown_cost=True)).status is RunStatus.COMPLETED


def test_e36_a_budget_of_money_holds_for_agents_with_functions_as_tools(server: OpenAIServer, llm: str) -> None:
    def look_up(word: str) -> str:
        """Look it up."""
        return word

    server.script("Found.")
    writer = Agent(role="Writer", goal="Write", llm=llm)
    task = Task.of("Write it", agent=writer, tools=[look_up])
    assert Ensemble(tasks=[task], budget=Budget(max_cost="0.01"), cost=RATES).run().raw == "Found."


def test_e36_one_warning_comes_at_the_share_asked_for() -> None:
    output = calls(4, scripted(*"abcd"), budget=Budget(max_llm_calls=4, warn_at=0.5), workflow="sequential")
    (warning,) = of(output, BudgetWarning)
    assert warning.spent.llm_calls == 2
    assert output.status is RunStatus.COMPLETED


def test_e4_every_run_has_an_account_of_its_own_of_one_budget() -> None:
    """Also runs of one ensemble, runs side by side, and cells that name a budget of the notebook."""
    budget = Budget(max_llm_calls=2)
    handles = [two_calls(budget).start() for _ in range(3)]
    again = two_calls(budget, "a", "b", "c", "d")
    outputs = [each.result() for each in handles] + [again.run(), again.run()]
    outputs += [run_cell(CELL_WITH_A_BUDGET, llm=scripted("a", "b"), purse=budget) for _ in range(2)]
    assert {(each.status, len(each)) for each in outputs} == {(RunStatus.COMPLETED, 2)}


def test_e4_a_shared_budget_is_one_account_for_its_runs_and_cells() -> None:
    purse = Budget(max_llm_calls=3).shared()
    first = run_cell(CELL_WITH_A_BUDGET, llm=scripted("a", "b"), purse=purse)
    second = run_cell(CELL_WITH_A_BUDGET, llm=scripted("c", "d"), purse=purse)
    assert (first.status, second.status) == (RunStatus.COMPLETED, RunStatus.BUDGET_EXCEEDED)
    assert (len(first), len(second)) == (2, 1)
    assert repr(purse) == "Budget(max_llm_calls=3).shared()"
    assert replace(purse, warn_at=0.5).is_shared is False
    loaded = pickle.loads(pickle.dumps(purse))
    assert (loaded.is_shared, loaded.limits) == (True, purse.limits)


def test_e4_what_is_left_of_a_shared_budget_can_be_read() -> None:
    purse = Budget(max_llm_calls=5, max_tokens=100_000, max_cost="1.50", allow_unknown_cost=True).shared()
    assert purse.remaining == {"max_cost": Decimal("1.50"), "max_tokens": 100_000, "max_llm_calls": 5}
    output = run_cell(CELL_WITH_A_BUDGET, llm=scripted("a", "b"), purse=purse)
    spent = output.metrics.input_tokens + output.metrics.output_tokens
    assert purse.remaining == {"max_cost": Decimal("1.50"), "max_tokens": 100_000 - spent, "max_llm_calls": 3}
    assert {name: type(left) for name, left in purse.remaining.items()} == {
        "max_cost": Decimal,
        "max_tokens": int,
        "max_llm_calls": int,
    }
    alone = Budget(max_llm_calls=2)
    run_cell(CELL_WITH_A_BUDGET, llm=scripted("a", "b"), purse=alone)
    assert alone.remaining == alone.limits == {"max_llm_calls": 2}
    assert pickle.loads(pickle.dumps(purse)).remaining == purse.limits


def test_e36_runs_that_share_a_budget_spend_it_together() -> None:
    budget = Budget(max_llm_calls=3).shared()
    first, second = calls(2, scripted("a", "b"), budget=budget), calls(2, scripted("c", "d"), budget=budget)
    assert (first.status, second.status) == (RunStatus.COMPLETED, RunStatus.BUDGET_EXCEEDED)
    assert len(second) == 1


def test_e36_the_largest_reply_is_bounded_so_that_one_call_cannot_take_it_all(server: OpenAIServer, llm: str) -> None:
    calls(1, llm, budget=Budget(max_tokens=10_000))
    (request,) = server.requests
    limits = [value for name, value in request.body.items() if re.fullmatch("max_(completion_)?tokens", name)]
    assert 0 < limits[0] < 10_000


# --- E37 ---


def are_spaced(output: EnsembleOutput, interval_s: float) -> bool:
    """Whether each request began as many intervals after the run as came before it; later is no fault."""
    starts = sorted(each.offset_s for each in of(output, LlmAttemptStarted))
    return all(start >= place * interval_s - 1e-6 for place, start in enumerate(starts))


def test_e37_requests_are_spaced_with_a_burst_of_one_over_all_tasks() -> None:
    output = calls(4, scripted(*"abcd"), rate_limit=RateLimit(20, 1))
    assert are_spaced(output, 0.05)
    waited = of(output, RateLimitWaited)
    assert len(waited) == 3
    assert set(output.frames.spans.query("kind == 'wait'")["status"]) == {"ok"}


def test_e37_an_agent_s_limit_is_shared_by_its_tasks_and_a_task_may_have_its_own() -> None:
    slow = Agent(role="Slow", goal="Wait", llm=scripted(*"ab"), rate_limit=RateLimit(20, timedelta(seconds=1)))
    tasks = [Task.of(f"Task {n}", agent=slow) for n in range(2)]
    assert are_spaced(Ensemble(tasks=tasks, workflow="parallel").run(), 0.05)
    own = Task.of("Own", llm=scripted("a"), rate_limit=RateLimit(20, 1))
    assert not of(Ensemble(tasks=[own]).run(), RateLimitWaited)


def test_e37_who_would_wait_too_long_fails_with_the_limit() -> None:
    limit = RateLimit(1, 60, wait_timeout=0.05)
    with pytest.raises(TaskExecutionError) as caught:
        calls(2, scripted("a", "b"), rate_limit=limit)
    chain = [caught.value.__cause__, caught.value.__cause__ and caught.value.__cause__.__cause__]
    error = next(each for each in chain if isinstance(each, RateLimitTimeoutError))
    assert (error.rate_limit, error.wait_timeout) == (limit, 0.05)


def test_e37_a_rate_limit_needs_a_model() -> None:
    with pytest.raises(ValidationError, match="rate_limit"):
        done("x", rate_limit=RateLimit(1, 1))
