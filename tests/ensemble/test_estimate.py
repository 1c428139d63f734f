"""What a run will take, told before anything is called."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate, Range, TaskEstimate
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.engine.budget_ledger import MAX_OUTPUT_TOKENS
from ensemble_notebook.ensemble.cost_estimation import (
    SHORT_REPLY,
    TOOL_RESULT,
    USUAL_REPLY,
    WRAPPING,
    estimate,
)
from ensemble_notebook.ensemble.run_checks import find_price_problems
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel
from ensemble_notebook.trace.folding.prices import calculate_price

AT = datetime(2026, 1, 1, tzinfo=UTC)
PAID = "openai:gpt-4o-mini@https://api.openai.com/v1"
STRANGE = "openai:strange@http://127.0.0.1:9/v1"
FREE = Range(Decimal(0), Decimal(0))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("an estimate must not open a connection")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


def estimated(*tasks: Task, values: dict[str, Any] | None = None, **fields: Any) -> CostEstimate:
    ensemble = EnsembleDefinition(tasks=tasks, **{"llm": STRANGE} | fields)
    return estimate(ensemble, build_graph(ensemble), values or {}, AT)


def search(query: str) -> str:
    """Search."""
    return query


def test_a_task_without_tools_is_one_call_from_a_short_reply_to_the_longest() -> None:
    (task,) = estimated(Task.of("Name a soup.", name="soup")).tasks
    assert (task.name, task.model, task.llm_calls) == ("soup", "strange", Range(1, 1))
    assert task.output_tokens == Range(SHORT_REPLY, MAX_OUTPUT_TOKENS)
    assert 0 < task.input_tokens.low == (task.input_tokens.high - WRAPPING) // 4
    assert task.total_tokens.high == task.input_tokens.high + MAX_OUTPUT_TOKENS


def test_the_values_of_variables_are_in_the_prompt() -> None:
    task = Task.of("Describe {dish}.")
    short, long = (estimated(task, values={"dish": "x" * size}) for size in (1, 1001))
    assert long.input_tokens.high - short.input_tokens.high >= 1000


def test_tools_may_take_as_many_calls_as_the_agent_is_allowed_and_each_carries_what_came_before() -> None:
    agent = Agent(role="Cook", goal="g", tools=[search], max_iterations=3)
    plain, tooled = estimated(Task.of("t", agent=Agent(role="Cook", goal="g"))), estimated(Task.of("t", agent=agent))
    assert tooled.llm_calls == Range(1, 3 + 2 + 1)  # two warnings, then the last reply
    assert tooled.output_tokens.high == 6 * MAX_OUTPUT_TOKENS
    assert tooled.input_tokens.low > plain.input_tokens.low  # the tool's schema
    assert tooled.input_tokens.high > 6 * plain.input_tokens.high + 15 * (MAX_OUTPUT_TOKENS + TOOL_RESULT)


def test_outputs_that_a_task_reads_are_in_its_prompt() -> None:
    first, handler = Task.of("a", name="a"), Task.of("h", name="h", handler=lambda _: "")
    alone = estimated(first, handler, Task.of("b")).tasks[2].input_tokens
    reads = estimated(first, handler, Task.of("b", context=[first, handler])).tasks[2].input_tokens
    assert (reads.low - alone.low, reads.high - alone.high) == (SHORT_REPLY, 2 * MAX_OUTPUT_TOKENS)


def test_a_handler_takes_nothing() -> None:
    (task,) = estimated(Task.of("h", handler=lambda _: "")).tasks
    assert (task.model, task.llm_calls, task.total_tokens, task.cost) == (None, Range(0, 0), Range(0, 0), FREE)


def test_what_may_be_skipped_may_take_nothing() -> None:
    first = Task.of("a", name="a")
    _, second = estimated(first, Task.of("b", when=Condition(first, contains="x"))).tasks
    assert (second.llm_calls, second.total_tokens.low) == (Range(0, 1), 0)


def test_a_fallback_and_corrections_may_come_on_top() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    task = Task.of("t", output_type=schema, max_output_retries=2, fallback=Agent(role="B", goal="g"))
    assert estimated(task).llm_calls == Range(1, 3 + 3)


def test_a_model_object_says_its_own_limit() -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4o-mini", api_key="k", max_tokens=30)  # type: ignore[arg-type]
    (task,) = estimated(Task.of("t"), llm=model).tasks
    assert (task.model, task.output_tokens) == ("gpt-4o-mini", Range(30, 30))


def test_costs_come_from_the_list_of_prices_and_no_model_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    found = estimated(Task.of("t"), llm=PAID)
    price = price_of_tokens(found.input_tokens.high, MAX_OUTPUT_TOKENS)
    assert found.cost is not None
    assert 0 < found.cost.low < found.cost.high == price
    assert estimated(Task.of("t"), llm="local").cost == FREE
    assert estimated(Task.of("t"), llm=ScriptedChatModel(replies=["a"])).cost == FREE


def price_of_tokens(inputs: int, outputs: int) -> Decimal:
    from ensemble_notebook.domain.outputs.task_output import TokenUsage

    usage = TokenUsage(input_tokens=inputs, output_tokens=outputs)
    found = calculate_price(usage, provider="openai", model="gpt-4o-mini", at=AT)
    assert found is not None
    return found.total


def test_own_rates_price_every_model_in_their_currency() -> None:
    found = estimated(Task.of("t"), cost=CostConfiguration(input_rate=1, output_rate=2, currency="EUR"))
    assert found.cost is not None
    assert found.cost.low == found.input_tokens.low + 2 * SHORT_REPLY
    assert found.cost.high == found.input_tokens.high + 2 * MAX_OUTPUT_TOKENS
    assert found.cost.likely == found.input_tokens.likely + 2 * USUAL_REPLY
    assert "cost: about €" in str(found)


def test_an_unknown_price_is_none_and_the_models_are_named() -> None:
    found = estimated(Task.of("a"), Task.of("b"), Task.of("c", llm="scripted"))
    assert (found.cost, found.unpriced) == (None, ("strange",))
    assert found.tasks[2].cost == FREE
    assert str(found).endswith("cost: unknown (strange); asks 127.0.0.1:9 with no key")


def test_sums_are_those_of_the_tasks_and_all_is_ready_for_json() -> None:
    found = estimated(Task.of("a"), Task.of("b"), llm="scripted")
    assert found.llm_calls == Range(2, 2)
    assert found.total_tokens == found.tasks[0].total_tokens + found.tasks[1].total_tokens
    facts = json.loads(json.dumps(found.to_dict()))
    assert facts["total"]["input_tokens"] == [found.input_tokens.low, found.input_tokens.high]
    assert facts["tasks"][0]["cost"] == ["0", "0"]


def test_an_estimate_reads_as_one_line() -> None:
    found = CostEstimate(
        tasks=(
            TaskEstimate(
                name="a",
                agent="A",
                model="m",
                llm_calls=Range(1, 1),
                input_tokens=Range(1000, 4000),
                output_tokens=Range(50, 96),
                cost=Range(Decimal("0.5"), Decimal("1.25")),
            ),
        )
    )
    told = (
        "model calls: 1; tokens: 1,050 to 4,096; cost: about $0.500 (at most $1.25, if every reply were as long as the"
    )
    assert str(found) == f"{told} model allows)"


def test_models_without_a_price_are_found_before_a_run_that_limits_its_cost_e36() -> None:
    def problems(**limits: Any) -> list[str]:
        fallback = Agent(role="B", goal="g", llm="openai:other@http://127.0.0.1:9/v1")
        tasks = [Task.of("a", fallback=fallback), Task.of("b"), Task.of("c", llm="local")]
        ensemble = EnsembleDefinition(tasks=tasks, llm=STRANGE, budget=Budget(**limits))
        return [each.message for each in find_price_problems(ensemble, build_graph(ensemble))]

    strange, other = problems(max_cost=1)
    assert strange.startswith("The price of strange by 127.0.0.1 is unknown, so that max_cost can't be held.")
    assert other.startswith("The price of other by")
    assert problems(max_cost=1, allow_unknown_cost=True) == problems(max_tokens=1) == []
