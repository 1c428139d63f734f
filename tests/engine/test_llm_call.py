"""One model call under its limits, with a model that is told what to do, in virtual time (E30, E36, E37)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from decimal import Decimal
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import Budget, Price, RateLimit, Spending
from ensemble_notebook.domain.events import (
    BudgetWarning,
    Event,
    LlmAttemptEnded,
    LlmAttemptStarted,
    LlmCallFailed,
    LlmCallStarted,
    RateLimitWaited,
    WaitEnded,
    WaitStarted,
)
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.domain.seams.chat_port import ChatPort, Conversation, Fault, ModelReply, ToolAnswer
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.budget_reservation import open_account
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter
from ensemble_notebook.engine.request_limits import RequestLimits
from ensemble_notebook.errors import AgentExecutionError, BudgetExceededError, RateLimitTimeoutError
from ensemble_notebook.testing.virtual_clock import LoopClock, VirtualLoop, run_virtual
from tests.support.drive import no_extra


class BusyError(Exception):
    """The server refused the request."""


class CutError(Exception):
    """The connection broke; nobody knows what was paid."""


class Model:
    """A port and its conversation: takes a while, then gives the next of its replies, or raises it."""

    provider = "somebody"
    is_scripted = False
    has_tool_support = True
    has_schema_support = False
    context_window = None
    places = None
    refused_kinds = ()
    warning = None

    def __init__(self, *script: Any, name: str = "m", seconds: float = 1.0, bound: int = 100, most: int | None = 50):
        self.name = name
        self.max_tokens = most
        self.bound = bound
        self.seconds = seconds
        self.script = deque(script)
        self.asked: list[int | None] = []

    def open(self, *_: Any) -> Conversation:
        return self

    def classify(self, error: Exception) -> Fault:
        usage = NO_USAGE if isinstance(error, BusyError) else TokenUsage()
        return Fault(reason="busy", is_transient=isinstance(error, BusyError | CutError), usage=usage)

    def add_tool_result(self, call: ToolCall, text: str) -> None: ...

    def add_user_message(self, text: str) -> None: ...

    def add_reply(self, reply: ModelReply) -> None: ...

    def take_kept_reply(self) -> None: ...

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        return await run()

    def input_bound(self) -> int:
        return self.bound

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,
        check_sending: Callable[[], None] | None = None,
    ) -> ModelReply:
        self.asked.append(max_tokens)
        await asyncio.sleep(self.seconds)
        said = self.script.popleft() if self.script else used(10, 5)
        if isinstance(said, Exception):
            raise said
        reply: ModelReply = said
        return reply


def used(inputs: int | None, outputs: int | None, model: str | None = None) -> ModelReply:
    return ModelReply(text="ok", usage=TokenUsage(input_tokens=inputs, output_tokens=outputs), model=model)


def pricing(usage: TokenUsage, *, model: str, **_: Any) -> Price | None:
    rate = {"m": 1, "cheap": Decimal("0.5")}.get(model)
    if rate is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    written = usage.cache_write_tokens or 0
    return Price(rate * (Decimal(usage.input_tokens) + written / Decimal(4)), rate * 2 * Decimal(usage.output_tokens))


class Run:
    """One run in virtual time: its events, and callers that share its limits."""

    def __init__(self, budget: Budget | None = None, *rate_limits: RateLimit) -> None:
        self.loop = VirtualLoop()
        clock = LoopClock(self.loop)
        self.stream = EventStream("r", clock)
        self.limits = RequestLimits([] if budget is None else [open_account(budget)], rate_limits, pricing, clock)
        self.agent = Agent(role="Cook", goal="g", llm="local", llm_timeout=None)

    async def ask(self, model: Model, limits: RequestLimits | None = None) -> ModelReply:
        port: ChatPort = model
        request = AgentRequest(agent=self.agent, description="t", system_prompt="", write_user_prompt=lambda *_: "")
        caller = LlmCaller(request, port, limits or self.limits, no_extra, streams=False)
        return await caller.ask(model, SpanEmitter(self.stream, "r"))

    def together(self, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
        async def main() -> list[Any]:
            return await asyncio.gather(*calls, return_exceptions=True)

        return run_virtual(main(), self.loop)

    def events(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self.stream.events if type(event) in kinds]


def booked(budget: Budget) -> Spending:
    return open_account(budget).booked


def test_a_call_books_what_it_used_and_not_what_it_might_have_used_e36() -> None:
    run = Run(budget := Budget(max_tokens=1000, max_cost=1000).shared())
    run.together(run.ask(Model()))
    assert booked(budget) == Spending(cost=Decimal(20), tokens=15, llm_calls=1)


def test_calls_side_by_side_never_hold_more_than_the_budget_and_wait_for_each_other_e36() -> None:
    run = Run(budget := Budget(max_tokens=300).shared())
    models = [Model() for _ in range(3)]
    run.together(*map(run.ask, models))
    started = [round(event.offset_s, 6) for event in run.events(LlmAttemptStarted)]
    assert started == [0.0, 0.0, 1.0]
    (began,), (ended,) = run.events(WaitStarted), run.events(WaitEnded)
    assert (began.cause, ended.cause, ended.status, round(ended.waited_s, 6)) == (
        "budget",
        "budget",
        SpanStatus.OK,
        1.0,
    )
    assert began.span_id == ended.span_id
    assert began.parent_id == run.events(LlmCallStarted)[2].span_id
    assert booked(budget).tokens == 45


def test_a_call_that_can_never_fit_is_refused_unwrapped_and_never_sent_e36() -> None:
    run, model = Run(budget := Budget(max_tokens=149).shared()), Model()
    (error,) = run.together(run.ask(model))
    assert isinstance(error, BudgetExceededError)
    assert (error.budget, error.limit, error.__cause__) == (budget, "max_tokens", None)
    assert error.shortfall == "149 tokens are left; the next call may need 150"
    assert str(error) == (
        "149 tokens are left; the next call may need 150. The budget of 149 tokens leaves too little to ask m. "
        "Raise the budget's max_tokens, or let the model write less in one reply: its own max_tokens."
    )
    assert model.asked == []
    assert run.events(LlmAttemptStarted) == []
    assert [event.error for event in run.events(LlmCallFailed)] == [error]


def test_a_call_that_waited_in_vain_ends_its_wait_as_an_error_e36() -> None:
    run = Run(Budget(max_tokens=200))
    error = run.together(run.ask(Model(used(90, 10))), run.ask(Model()))[1]
    assert isinstance(error, BudgetExceededError)
    assert [(event.status, event.error) for event in run.events(WaitEnded)] == [(SpanStatus.ERROR, error)]


def test_only_so_many_requests_are_made_retries_included_e36() -> None:
    run, model = Run(Budget(max_llm_calls=2)), Model(BusyError(), BusyError(), BusyError())
    (error,) = run.together(run.ask(model))
    assert isinstance(error, BudgetExceededError)
    assert str(error) == "The budget's requests are used up: 2 of 2. Raise its max_llm_calls."
    assert len(model.asked) == 2


def test_a_refused_request_is_given_back_and_one_cut_off_stays_booked_e36() -> None:
    run, model = Run(budget := Budget(max_tokens=1000).shared()), Model(BusyError(), CutError(), used(10, 5))
    run.together(run.ask(model))
    assert booked(budget) == Spending(cost=Decimal(225 + 20), tokens=150 + 15, llm_calls=3)


@pytest.mark.parametrize("usage", [(None, None), (10, None)])
def test_a_reply_that_does_not_tell_its_usage_stays_booked_at_its_worst_case_e36(usage: tuple[Any, Any]) -> None:
    run = Run(budget := Budget(max_tokens=1000).shared())
    run.together(run.ask(Model(used(*usage))))
    assert booked(budget).tokens == 150


def test_a_cancelled_request_stays_booked_and_a_cancelled_wait_leaves_nothing_e36() -> None:
    run, waiting = Run(budget := Budget(max_tokens=200).shared()), Model()

    async def main() -> None:
        tasks = [asyncio.ensure_future(run.ask(model)) for model in (Model(), waiting)]
        await asyncio.sleep(0.5)
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(main(), run.loop)
    assert booked(budget) == Spending(cost=Decimal(225), tokens=150, llm_calls=1)
    assert open_account(budget).get_remaining("max_tokens") == 50
    assert [event.status for event in run.events(WaitEnded)] == [SpanStatus.CANCELLED]
    assert waiting.asked == []


def test_a_request_that_was_granted_while_it_was_cancelled_gives_its_place_on_e36() -> None:
    run = Run(budget := Budget(max_tokens=200).shared())
    second: asyncio.Future[Any]

    async def ask_and_cancel_the_next() -> None:
        await run.ask(Model())
        second.cancel()

    async def main() -> None:
        nonlocal second
        first = asyncio.ensure_future(ask_and_cancel_the_next())
        second, third = asyncio.ensure_future(run.ask(Model())), asyncio.ensure_future(run.ask(Model()))
        await asyncio.wait([first, second, third])
        assert second.cancelled()
        assert third.result().text == "ok"

    run_virtual(main(), run.loop)
    assert booked(budget).tokens == 30


def test_a_model_without_a_limit_is_asked_for_no_more_than_its_share_e36() -> None:
    run, model = Run(budget := Budget(max_tokens=4100).shared()), Model(most=None)
    run.together(run.ask(model))
    assert model.asked == [1000]
    run, model = Run(Budget(max_llm_calls=1)), Model(most=None)
    run.together(run.ask(model))
    assert model.asked == [None]
    assert booked(budget).tokens == 15


def test_a_cost_is_held_at_the_dearest_and_booked_by_the_name_of_who_answered_e36() -> None:
    run = Run(budget := Budget(max_cost=1000).shared())

    async def main() -> None:
        asking = asyncio.ensure_future(run.ask(Model(used(10, 5, "cheap"))))
        await asyncio.sleep(0.5)
        assert open_account(budget).held.cost == Decimal(225)  # a written cache costs a quarter more
        await asking

    run_virtual(main(), run.loop)
    assert booked(budget).cost == Decimal(10)


def test_a_price_that_nobody_knows_is_refused_under_max_cost_e36() -> None:
    run, model = Run(Budget(max_cost=1000)), Model(name="secret-model")
    (error,) = run.together(run.ask(model))
    assert isinstance(error, BudgetExceededError)
    assert str(error).startswith("The price of secret-model by somebody is unknown, so that max_cost can't be held.")
    assert model.asked == []


def test_an_unknown_price_is_uncounted_where_that_is_allowed_and_where_no_cost_is_limited_e36() -> None:
    for budget in (Budget(max_cost=1, allow_unknown_cost=True).shared(), Budget(max_tokens=1000).shared()):
        run = Run(budget)
        run.together(run.ask(Model(name="secret-model", most=None)))
        assert booked(budget) == Spending(tokens=15, llm_calls=1)


def test_coming_near_a_limit_is_told_once_e36() -> None:
    run = Run(budget := Budget(max_tokens=300, warn_at=0.5).shared())
    run.together(*[run.ask(Model()) for _ in range(3)])
    (warning,) = run.events(BudgetWarning)
    assert (
        warning.message == "The budget is running low. Spent, or held for requests under way: 150 of 300 (max_tokens)."
    )
    assert (warning.spent.tokens, warning.budget) == (150, budget)
    assert warning.span_id == run.events(LlmCallStarted)[0].span_id


def test_waits_for_a_rate_limit_are_spans_in_the_call_and_retries_are_requests_e37() -> None:
    run, model = Run(None, RateLimit(1, 5.0)), Model(BusyError(), used(10, 5))
    run.together(run.ask(model))
    assert [round(event.offset_s, 6) for event in run.events(LlmAttemptStarted)] == [0.0, 5.0]
    (began,), (ended,) = run.events(WaitStarted), run.events(RateLimitWaited)
    assert (began.cause, began.span_id, began.parent_id) == (
        "rate_limit",
        ended.span_id,
        run.events(LlmCallStarted)[0].span_id,
    )
    assert (round(began.offset_s, 6), round(ended.waited_s, 6), ended.status) == (2.0, 3.0, SpanStatus.OK)


def test_the_limits_of_a_task_and_an_agent_hold_beside_those_of_the_ensemble_e37() -> None:
    run = Run(None, RateLimit(1, 1.0))
    narrow = run.limits.with_rate_limits(RateLimit(1, 3.0), None)
    assert run.limits.with_rate_limits(None, None) is run.limits
    run.together(*[run.ask(Model(), limits) for limits in (narrow, run.limits, narrow, run.limits)])
    assert [round(event.offset_s, 6) for event in run.events(LlmAttemptStarted)] == [0.0, 1.0, 2.0, 3.0]


def test_too_long_a_wait_leaves_unwrapped_and_gives_its_reservation_back_e37() -> None:
    limit = RateLimit(1, 60.0, wait_timeout=2.0)
    run = Run(budget := Budget(max_tokens=1000).shared(), limit)
    error = run.together(run.ask(Model()), run.ask(Model()))[1]
    assert isinstance(error, RateLimitTimeoutError)
    assert (error.rate_limit, error.__cause__) == (limit, None)
    assert [(event.status, event.error) for event in run.events(RateLimitWaited)] == [(SpanStatus.ERROR, error)]
    assert run.events(LlmCallFailed)[0].error is error
    assert booked(budget) == Spending(cost=Decimal(20), tokens=15, llm_calls=1)
    assert open_account(budget).held == Spending()


def test_a_model_that_fails_for_good_is_still_the_agents_error_e14() -> None:
    run = Run(Budget(max_tokens=1000))
    (error,) = run.together(run.ask(Model(ValueError("no"))))
    assert isinstance(error, AgentExecutionError)
    assert isinstance(error.__cause__, ValueError)


def test_attempts_tell_the_same_usage_as_is_booked_e36() -> None:
    run, model = Run(budget := Budget(max_tokens=1000).shared()), Model(BusyError(), used(30, 20))
    run.together(run.ask(model))
    told: Sequence[Any] = run.events(LlmAttemptEnded)
    assert sum(event.usage.input_tokens + event.usage.output_tokens for event in told) == booked(budget).tokens == 50
