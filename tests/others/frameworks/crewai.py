"""The cases with crewAI, by OpenInference's instrumentation: of crewAI, and of the openai client that it asks with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from tests.others.frameworks.cases import LAST, QUESTION, call, main, weather

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


def make_agent(url: str, role: str, *tools: Any, is_streamed: bool = False) -> Agent:
    llm = LLM(model="openai/test-model", base_url=url, api_key="k", stream=is_streamed)
    return Agent(role=role, goal="Tell the weather", backstory="Long at sea.", llm=llm, tools=list(tools))


def run(*tasks: Task, **more: Any) -> Crew:
    return Crew(agents=[each.agent for each in tasks if each.agent], tasks=list(tasks), **more)


def make_task(agent: Agent, **more: Any) -> Task:
    return Task(description=QUESTION, expected_output="A sentence", agent=agent, **more)


def ask(url: str) -> str:
    return str(run(make_task(make_agent(url, "Forecaster", tool(weather)))).kickoff())


def close(url: str) -> str:
    stream = run(make_task(make_agent(url, "Forecaster", is_streamed=True)), stream=True).kickoff()
    pieces = iter(stream)
    first = str(next(pieces).content)
    close_stream = getattr(pieces, "close", None) or getattr(stream, "close", None)
    if close_stream is not None:
        close_stream()
    return first


def hand_over(url: str) -> str:
    first = make_task(make_agent(url, "Forecaster", tool(weather)))
    return str(run(first, make_task(make_agent(url, "Editor"), context=[first])).kickoff())


def use_openinference(provider: TracerProvider) -> None:
    from openinference.instrumentation.crewai import CrewAIInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    CrewAIInstrumentor().instrument(tracer_provider=provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)


if __name__ == "__main__":
    main(
        {"openinference": use_openinference},
        {"tool": ask, "handover": hand_over, "parallel": ask, "closed": close, "retry": ask, "raises": ask},
        (call("1", "weather", city="Paris"), LAST, LAST),
    )
