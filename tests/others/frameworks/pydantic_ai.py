"""The cases with pydantic-ai, by its own instrumentation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.others.frameworks.cases import LAST, QUESTION, call, main, weather

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


def make_agent(url: str) -> Agent:
    model = OpenAIChatModel("test-model", provider=OpenAIProvider(base_url=url, api_key="k"))
    return Agent(model, name="Forecaster", instructions="Tell the weather.", tools=[weather])


def ask(url: str) -> str:
    return make_agent(url).run_sync(QUESTION).output


def close(url: str) -> str:
    async def read() -> str:
        async with make_agent(url).run_stream(QUESTION) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                return piece
        return "nothing"

    return asyncio.run(read())


def hand_over(url: str) -> str:
    forecaster = make_agent(url)
    model = OpenAIChatModel("test-model", provider=OpenAIProvider(base_url=url, api_key="k"))
    desk = Agent(model, name="Desk", instructions="Ask who knows.")

    @desk.tool_plain
    async def ask_forecaster(question: str) -> str:
        """Ask the forecaster."""
        return (await forecaster.run(question)).output

    return desk.run_sync(QUESTION).output


def instrument(provider: TracerProvider) -> None:
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))


if __name__ == "__main__":
    main(
        {"own": instrument},
        {"tool": ask, "handover": hand_over, "parallel": ask, "closed": close, "retry": ask, "raises": ask},
        (call("1", "ask_forecaster", question=QUESTION), call("2", "weather", city="Paris"), LAST, LAST),
    )
