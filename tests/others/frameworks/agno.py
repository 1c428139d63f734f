"""The cases with agno, by OpenInference's instrumentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.team import Team

from tests.others.frameworks.cases import LAST, QUESTION, call, main, weather

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


def make_model(url: str) -> OpenAIChat:
    return OpenAIChat(id="test-model", base_url=url, api_key="k")


def make_agent(url: str) -> Agent:
    return Agent(
        name="Forecaster", model=make_model(url), instructions="Tell the weather.", tools=[weather], telemetry=False
    )


def ask(url: str) -> str:
    return str(make_agent(url).run(QUESTION).content)


def close(url: str) -> str:
    pieces: Any = make_agent(url).run(QUESTION, stream=True)
    first = next(str(each.content) for each in pieces if each.content)
    pieces.close()
    return first


def hand_over(url: str) -> str:
    desk = Team(members=[make_agent(url)], name="Desk", model=make_model(url), telemetry=False)
    return str(desk.run(QUESTION).content)


def use_openinference(provider: TracerProvider) -> None:
    from openinference.instrumentation.agno import AgnoInstrumentor

    AgnoInstrumentor().instrument(tracer_provider=provider)


if __name__ == "__main__":
    main(
        {"openinference": use_openinference},
        {"tool": ask, "handover": hand_over, "parallel": ask, "closed": close, "retry": ask, "raises": ask},
        (
            call("1", "delegate_task_to_member", member_id="forecaster", task=QUESTION),
            call("2", "weather", city="Paris"),
            LAST,
            LAST,
        ),
    )
