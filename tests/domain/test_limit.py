"""Rate limits and budgets (E36, E37)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.errors import ValidationError


def refusal(make: Any, *args: Any, **fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make(*args, **fields)
    return str(caught.value)


def test_a_rate_is_requests_in_a_period_evenly_spaced_e37() -> None:
    limit = RateLimit(60, 30)
    assert (limit.requests, limit.period, limit.wait_timeout) == (60, 30.0, 30.0)
    assert limit.interval_s == 0.5
    assert repr(limit) == "RateLimit(60, 30)"


def test_durations_may_be_timedeltas() -> None:
    limit = RateLimit(1, timedelta(minutes=1), wait_timeout=timedelta(seconds=5))
    assert (limit.period, limit.wait_timeout) == (60.0, 5.0)


@pytest.mark.parametrize("requests", [0, -1, 1.5, True, "3", None], ids=repr)
def test_requests_are_a_whole_number(requests: Any) -> None:
    assert refusal(RateLimit, requests, 1) == f"RateLimit requests must be a whole number >= 1, got {requests!r}."


@pytest.mark.parametrize("field", ["period", "wait_timeout"])
@pytest.mark.parametrize("value", [0, -1, True, "1", float("inf"), timedelta(), None], ids=repr)
def test_durations_are_seconds_above_0(field: str, value: Any) -> None:
    fields = {"requests": 1, "period": 1, field: value}
    assert refusal(RateLimit, **fields).startswith(f"RateLimit {field} must be seconds > 0 or a timedelta, got ")


@pytest.mark.parametrize("cost", ["0.50", Decimal("0.50"), 0.5, 3])
def test_a_cost_is_an_exact_amount_e36(cost: Any) -> None:
    assert Budget(max_cost=cost).max_cost == Decimal(str(cost))


@pytest.mark.parametrize("cost", [0, -1, "much", float("nan"), float("inf"), True], ids=repr)
def test_a_cost_is_above_0(cost: Any) -> None:
    assert refusal(Budget, max_cost=cost) == f"Budget max_cost must be an amount > 0, got {cost!r}."


@pytest.mark.parametrize("field", ["max_tokens", "max_llm_calls"])
@pytest.mark.parametrize("value", [0, 1.5, "3", True], ids=repr)
def test_counts_are_whole_numbers(field: str, value: Any) -> None:
    assert refusal(Budget, **{field: value}) == f"Budget {field} must be a whole number >= 1, got {value!r}."


def test_a_budget_limits_something() -> None:
    assert refusal(Budget) == "A Budget limits something: max_cost, max_tokens or max_llm_calls."


@pytest.mark.parametrize("share", [0, -0.1, 1.1, True, "0.5", float("nan")], ids=repr)
def test_a_warning_comes_at_a_share_of_the_limit(share: Any) -> None:
    assert Budget(max_tokens=1, warn_at=1).warn_at == 1
    message = f"Budget warn_at must be a share above 0, at most 1, got {share!r}."
    assert refusal(Budget, max_tokens=1, warn_at=share) == message


def test_a_budget_knows_its_limits() -> None:
    budget = Budget(max_cost="0.50", max_llm_calls=3)
    assert dict(budget.limits) == {"max_cost": Decimal("0.50"), "max_llm_calls": 3}
    assert repr(budget) == "Budget(max_cost=0.50, max_llm_calls=3)"
    assert refusal(Budget, max_tokens=1, allow_unknown_cost="yes").startswith("Budget allow_unknown_cost must be True")
