"""The cases with the OpenAI Agents SDK, by OpenInference's instrumentation and OpenTelemetry's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

from tests.others.frameworks.cases import LAST, QUESTION, call, keep_messages, main, weather

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


def make_model(url: str) -> OpenAIChatCompletionsModel:
    return OpenAIChatCompletionsModel("test-model", AsyncOpenAI(base_url=url, api_key="k"))


def make_agent(url: str) -> Agent:
    return Agent(
        name="Forecaster",
        instructions="Tell the weather.",
        model=make_model(url),
        tools=[function_tool(weather)],
        handoff_description="Knows the weather",
    )


def ask(url: str) -> str:
    return str(Runner.run_sync(make_agent(url), QUESTION).final_output)


def close(url: str) -> str:
    async def read() -> str:
        result = Runner.run_streamed(make_agent(url), QUESTION)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and getattr(event.data, "delta", None):
                result.cancel()
                return str(event.data.delta)
        return "nothing"

    return asyncio.run(read())


def hand_over(url: str) -> str:
    desk = Agent(name="Desk", instructions="Ask who knows.", model=make_model(url), handoffs=[make_agent(url)])
    return str(Runner.run_sync(desk, QUESTION).final_output)


def use_openinference(provider: TracerProvider) -> None:
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


def use_opentelemetry(provider: TracerProvider) -> None:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

    keep_messages()
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)  # the other makes no spans of model calls


if __name__ == "__main__":
    main(
        {"openinference": use_openinference, "opentelemetry": use_opentelemetry},
        {"tool": ask, "handover": hand_over, "parallel": ask, "closed": close, "retry": ask, "raises": ask},
        (call("1", "transfer_to_forecaster"), call("2", "weather", city="Paris"), LAST),
    )
