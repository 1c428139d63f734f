"""Rates and budgets, written as mappings or as short texts (C2)."""

import time

import pytest

from ensemble_notebook.domain.definitions.amounts import AmountError, read_budget, read_rate
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from tests.support.cell import assert_mistakes, read


@pytest.mark.parametrize(
    "text, requests, period",
    [
        ("60/min", 60, 60),
        ("2 per second", 2, 1),
        ("10 / 30s", 10, 30),
        ("100 requests per hour", 100, 3600),
        ("5 every 2.5 seconds", 5, 2.5),
        ("1000/DAY", 1000, 86400),
    ],
)
def test_rate_is_a_number_and_a_time(text, requests, period):
    assert read_rate(text) == {"requests": requests, "period": period}


@pytest.mark.parametrize("text", ["60", "0/min", "06/min", "/min", "60/", "60 min", "-1/min", "1e3/min", "", "9" * 99])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(AmountError):
        read_rate(text)


@pytest.mark.parametrize(
    "text, fields",
    [
        ("$0.50", {"max_cost": "0.50", "currency": "USD"}),
        ("0.50 EUR", {"max_cost": "0.50", "currency": "EUR"}),
        ("€3", {"max_cost": "3", "currency": "EUR"}),
        ("20k tokens", {"max_tokens": 20_000}),
        ("1.1k tokens", {"max_tokens": 1_100}),
        ("1,000 calls", {"max_llm_calls": 1_000}),
        ("2M tokens and 50 calls", {"max_tokens": 2_000_000, "max_llm_calls": 50}),
        ("$1, 20k tokens", {"max_cost": "1", "currency": "USD", "max_tokens": 20_000}),
    ],
)
def test_budget_is_a_row_of_limits(text, fields):
    assert read_budget(text) == fields


@pytest.mark.parametrize("text", ["0.50", "$", "1.5 calls", "$1, $2", "20 k", "$1 20k tokens", "", "$00.5", "tokens"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(AmountError):
        read_budget(text)


@pytest.mark.parametrize("read_text", [read_rate, read_budget])
@pytest.mark.parametrize("text", ["9" * 100_000, "$" + "1," * 50_000, "1 " + " " * 100_000 + "x", "1 and " * 20_000])
def test_long_texts_are_refused_at_once(read_text, text):
    started = time.process_time()
    with pytest.raises(AmountError):
        read_text(text)
    assert time.process_time() - started < 1


def test_limits_of_a_cell_reach_their_definitions():
    cell = read(
        "rate_limit: 60/min\n"
        "budget: {max_cost: 0.10, max_tokens: 100, max_llm_calls: 3, warn_at: 0.5, allow_unknown_cost: true}\n"
        "agents: {A: {goal: g, rate_limit: {requests: 2, period: 1.5, wait_timeout: 9}}}\n"
        "tasks: [{description: x, agent: A, rate_limit: 1 per second}]"
    )
    found = cell.definition
    budget = found.budget
    assert budget is not None
    assert (str(budget.max_cost), budget.max_tokens, budget.max_llm_calls) == ("0.10", 100, 3)
    assert (budget.warn_at, budget.allow_unknown_cost) == (0.5, True)
    rates = [found.rate_limit, found.agents[0].rate_limit, found.tasks[0].rate_limit]
    assert [each and (each.requests, each.period, each.wait_timeout) for each in rates] == [
        (60, 60.0, 30.0),
        (2, 1.5, 9.0),
        (1, 1.0, 30.0),
    ]


def test_limits_of_the_notebook_are_shared_by_name():
    budget, rate = Budget(max_tokens=5), RateLimit(1, 1)
    cell = read("budget: ours\nrate_limit: slowly\ntasks: [a]", {"ours": budget, "slowly": rate})
    assert (cell.definition.budget, cell.definition.rate_limit) == (budget, rate)


def test_budget_of_the_options_stands_in_place_of_the_cells():
    text = "budget: 10 calls\ntasks: [a]"
    found = read(text, overrides={"budget": "$0.50"}).definition.budget
    assert found is not None
    assert {name: str(limit) for name, limit in found.limits.items()} == {"max_cost": "0.50"}
    ours = Budget(max_tokens=5)
    assert read(text, {"ours": ours}, overrides={"budget": "ours"}).definition.budget is ours


def test_requests_per_minute_of_another_tool_are_a_rate():
    cell = read("max_rpm: 30\nagents: {A: {goal: g, maxRpm: 5}}\ntasks: [a]")
    rates = [cell.definition.rate_limit, cell.definition.agents[0].rate_limit]
    assert [each and (each.requests, each.period) for each in rates] == [(30, 60.0), (5, 60.0)]
    assert [notice.message for notice in cell.notices] == [
        "'max_rpm' of the cell is read as 'rate_limit'.",
        "'maxRpm' of agent 'A' is read as 'rate_limit'.",
    ]


@pytest.mark.parametrize(
    "text, told",
    [
        ("rate_limit: «60»", "'rate_limit' of the cell: '60' is no rate"),
        ("rate_limit: «60/mni»", r"'mni' is no unit of time. Did you mean 'min'\?"),
        ("rate_limit: {requests: «0», period: 1}", "RateLimit requests must be a whole number >= 1"),
        ("rate_limit: {requests: 1, period: 1, «wait_timout»: 3}", r"Did you mean 'wait_timeout'\?"),
        ("rate_limit: «{requests: 1}»", "needs the key 'period'"),
        ("rate_limit: «slwly»", r"no 'slwly' in this notebook. Did you mean 'slowly'\?"),
        (
            "rate_limit: «number»",
            "Ensemble rate_limit must be a RateLimit, a text such as '60/min', or a .*, got 3",
        ),
        ("budget: «0.5»", "it needs a currency, 'tokens' or 'calls'"),
        ("budget: «5 tokns»", r"'tokns' can't be limited. Did you mean 'tokens'\?"),
        ("budget: «$0»", "Budget max_cost must be an amount > 0"),
        ("budget: {«max_token»: 5, max_llm_calls: 1}", r"Did you mean 'max_tokens'\?"),
        ("budget: {max_tokens: 5, warn_at: «2»}", "must be a share above 0, at most 1"),
        ("budget: «{warn_at: 0.5}»", "A Budget limits something"),
        ("budget: «[1]»", "takes limits such as"),
        ("budget: «€1»", "this budget is in 'EUR', and the prices are in 'USD'"),
        ("max_rpm: «fast»", "takes a number of requests per minute"),
    ],
)
def test_mistake_in_a_limit_is_shown_in_its_place(text, told):
    assert_mistakes(f"{text}\ntasks: [a]", told, namespace={"slowly": RateLimit(1, 1), "number": 3})


def test_budget_is_in_the_currency_of_the_cells_prices():
    cost = "cost: {input_rate: 1, output_rate: 1, currency: EUR}\ntasks: [a]\n"
    assert read(f"{cost}budget: 1 EUR").definition.budget is not None
    assert_mistakes(f"{cost}budget: «$1»", "this budget is in 'USD', and the prices are in 'EUR'")
