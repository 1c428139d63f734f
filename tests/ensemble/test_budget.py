"""Budgets against a server that keeps its own ledger (E36)."""

from __future__ import annotations

import asyncio
import functools
import gc
import random
import re
import threading
import weakref
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from pydantic import SecretStr

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.budget_ledger import MIN_OUTPUT_TOKENS
from ensemble_notebook.engine.budget_reservation import _shared_books, open_account
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter, SystemClock
from ensemble_notebook.engine.request_limits import RequestLimits
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.errors import AgentExecutionError, BudgetExceededError, ValidationError
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.trace.folding.prices import calculate_price
from tests.support.drive import no_extra
from tests.support.openai_server import Answer, OpenAIServer, Request

CALLERS = 200
RATES = CostConfiguration(input_rate="0.001", output_rate="0.003")
FATE = re.compile(r"fate=(\w+) share=(\d+)")


@dataclass
class Bill:
    """The provider's own ledger: what it has counted after each request that came, paid by the client or not."""

    tokens: list[int] = field(default_factory=lambda: [0])
    cost: list[Decimal] = field(default_factory=lambda: [Decimal(0)])
    calls: int = 0

    def answer(self, request: Request) -> Answer:
        """Counts at arrival, and as much as a provider could: each byte a token, and output up to the limit sent."""
        self.calls += 1
        found = FATE.search(request.prompt)
        assert found is not None
        fate, share = found[1], int(found[2])
        if fate == "refused":
            return Answer.status(429)
        most = request.body.get("max_completion_tokens") or request.body.get("max_tokens") or 5000
        inputs = sum(len(str(message["content"]).encode()) for message in request.messages)
        usage = (inputs, most * share // 100)
        self.tokens.append(self.tokens[-1] + sum(usage))
        self.cost.append(self.cost[-1] + usage[0] * RATES.input_rate + usage[1] * RATES.output_rate)
        match fate:
            case "cut":
                return Answer(cut="before", usage=usage)
            case "hangs":
                return Answer(delay=30, usage=usage)
            case "silent":
                return Answer(usage=None)
        return Answer(usage=usage, delay=share / 5000)


@dataclass
class Crowd:
    """Callers of random sizes and fates, on several threads with a loop each, under one budget."""

    budget: Budget
    url: str
    chance: random.Random
    refusals: list[BudgetExceededError] = field(default_factory=list)
    replies: int = 0
    failures: int = 0

    def __post_init__(self) -> None:
        from langchain_openai import ChatOpenAI

        make = functools.partial(ChatOpenAI, model="m", base_url=self.url, api_key="k")
        self.models = [make(max_tokens=most) for most in (10, 100, 400)] + [make()]

    def run(self, threads: int) -> None:
        plans = [self.plan() for _ in range(CALLERS)]
        parts = [plans[number::threads] for number in range(threads)]
        running = [threading.Thread(target=asyncio.run, args=[self.part(part)]) for part in parts]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(120)
            assert not thread.is_alive()

    def plan(self) -> tuple[Any, str, float | None]:
        fate = self.chance.choices(["ok", "refused", "cut", "hangs", "silent"], [70, 10, 5, 10, 5])[0]
        patience = 0.05 * self.chance.random() if fate == "hangs" or self.chance.random() < 0.1 else None
        prompt = f"fate={fate} share={self.chance.randint(0, 100)} " + "é" * self.chance.randint(0, 400)
        return self.chance.choice(self.models), prompt, patience

    async def part(self, plans: list[tuple[Any, str, float | None]]) -> None:
        source = ModelSource()
        await asyncio.gather(*[self.call(source, *plan) for plan in plans])

    async def call(self, source: ModelSource, model: Any, prompt: str, patience: float | None) -> None:
        agent = Agent(role="Cook", goal="g", llm="local", max_retries=0)
        port = await source.prepare(model, print)
        limits = RequestLimits([open_account(self.budget)], (), calculate_price)
        request = AgentRequest(
            agent=agent, description="t", system_prompt="", write_user_prompt=lambda *_: "", rates=RATES
        )
        caller = LlmCaller(request, port, limits, no_extra, streams=False)
        span = SpanEmitter(EventStream("r", SystemClock()), "r")
        asking = asyncio.ensure_future(caller.ask(port.open("s", prompt), span))
        done, _ = await asyncio.wait([asking], timeout=patience)
        if not done:
            asking.cancel()
            await asyncio.wait([asking])
        error = asyncio.CancelledError() if asking.cancelled() else asking.exception()
        match error:
            case None:
                self.replies += 1
            case BudgetExceededError():
                self.refusals.append(error)
            case AgentExecutionError() | asyncio.CancelledError():
                self.failures += 1
            case _:
                raise error


@pytest.mark.parametrize("limits", [{"max_tokens": 30_000}, {"max_cost": "60"}, {"max_llm_calls": 90}], ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_two_hundred_callers_side_by_side_never_pass_the_cap_e36(limits: dict[str, Any], seed: int) -> None:
    bill, budget = Bill(), Budget(**limits).shared()
    with OpenAIServer(choose=bill.answer) as server:
        crowd = Crowd(budget, server.url, random.Random(seed))
        crowd.run(threads=2)
    account, (name, limit) = open_account(budget), next(iter(budget.limits.items()))
    served = {"max_tokens": bill.tokens, "max_cost": bill.cost, "max_llm_calls": [bill.calls]}[name]
    assert max(served) <= account.booked.get_amount(name) <= limit
    assert account.held.get_amount(name) == 0
    assert crowd.replies > 10
    assert crowd.failures > 10
    assert len(crowd.refusals) > 10
    assert {error.limit for error in crowd.refusals} == {name}
    # What a refusal leaves behind is less than it needed, and nothing is ever given back after that. Below one dollar
    # it tells all the digits that these rates have, and of calls nothing, since they are used up to the last one.
    needed = [Decimal(each.shortfall.rpartition(" ")[2].lstrip("$").replace(",", "") or 1) for each in crowd.refusals]
    assert account.get_remaining(name) < min(needed)


def test_ten_tasks_side_by_side_make_no_more_than_three_requests_and_the_rest_is_skipped_e36() -> None:
    with OpenAIServer(default=Answer("ok", delay=0.05)) as server:
        tasks = [Task.of(f"Name soup {number}.", name=f"soup-{number}") for number in range(10)]
        llm = f"openai:m@{server.url}"
        output = Ensemble(tasks=tasks, llm=llm, workflow="parallel", budget=Budget(max_llm_calls=3)).run()
        assert len(server.requests) == 3
    assert (output.status, output.exit_reason) == (RunStatus.BUDGET_EXCEEDED, ExitReason.BUDGET_EXCEEDED)
    assert len(output.task_outputs) == 3
    assert len(output.skipped) == 7
    assert output.failures == ()
    assert {each.reason for each in output.skipped} == {
        "The budget's requests are used up: 3 of 3. Raise its max_llm_calls."
    }


def test_runs_in_several_threads_spend_from_the_budget_that_they_share_e36() -> None:
    budget = Budget(max_llm_calls=7).shared()
    with OpenAIServer(default=Answer("ok", delay=0.02)) as server:
        llm = f"openai:m@{server.url}"
        ensembles = [
            Ensemble(tasks=[Task.of(f"t{number}") for number in range(5)], llm=llm, workflow="parallel", budget=budget)
            for _ in range(3)
        ]
        handles = [ensemble.start() for ensemble in ensembles[:2]]
        on_own_loop = asyncio.run(ensembles[2].arun())
        outputs = [*[handle.result() for handle in handles], on_own_loop]
        assert len(server.requests) == 7
    assert sum(len(output.task_outputs) for output in outputs) == 7
    assert RunStatus.BUDGET_EXCEEDED in {output.status for output in outputs}


def test_a_shared_budget_that_nobody_holds_any_more_is_freed_with_its_account_e36() -> None:
    budget = Budget(max_llm_calls=7).shared()
    ensemble = Ensemble(tasks=[Task.of("a")], llm=ScriptedChatModel(default="ok"), budget=budget)
    # On a loop of its own, since a loop keeps the context of a cancelled timer until its time has come.
    asyncio.run(ensemble.arun())
    assert budget.remaining == {"max_llm_calls": 6}
    freed, books = weakref.ref(budget), weakref.ref(_shared_books[budget])
    del budget, ensemble
    gc.collect()
    assert (freed(), books()) == (None, None)


def test_the_budget_and_the_trace_count_the_same_e36() -> None:
    budget = Budget(max_cost=1000).shared()
    with OpenAIServer() as server:
        server.script(Answer("one", usage=(100, 10)), Answer("two", usage=(50, 5), cached=20))
        tasks = [Task.of("a"), Task.of("b")]
        output = Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", cost=RATES, budget=budget).run()
        assert server.used_tokens == (150, 15)
    booked = open_account(budget).booked
    assert (booked.cost, booked.tokens) == (output.metrics.cost, output.metrics.total_tokens)
    assert booked.cost == 150 * RATES.input_rate + 15 * RATES.output_rate


def test_a_model_without_a_limit_is_sent_its_share_and_one_with_a_limit_keeps_it_e36() -> None:
    from langchain_openai import ChatOpenAI

    with OpenAIServer() as server:
        own = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), max_tokens=77)
        tasks = [Task.of("a"), Task.of("b", llm=own)]
        Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", budget=Budget(max_tokens=10_000)).run()
        limits = [each.body.get("max_completion_tokens") or each.body.get("max_tokens") for each in server.requests]
    assert MIN_OUTPUT_TOKENS < limits[0] < 10_000 / 4
    assert limits[1] == 77


def test_a_model_without_a_price_is_refused_before_anything_is_called_e36() -> None:
    with OpenAIServer() as server:
        tasks, llm = [Task.of("a")], f"openai:m@{server.url}"
        with pytest.raises(ValidationError, match=r"The price of m by 127\.0\.0\.1 is unknown"):
            Ensemble(tasks=tasks, llm=llm, budget=Budget(max_cost=1)).run()
        assert server.requests == []
        allowed = Budget(max_cost=1, allow_unknown_cost=True)
        assert Ensemble(tasks=tasks, llm=llm, budget=allowed).run().raw == "ok"
