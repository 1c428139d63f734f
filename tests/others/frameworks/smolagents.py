"""The cases with smolagents, by OpenInference's instrumentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolagents import OpenAIModel, ToolCallingAgent, tool

from tests.others.frameworks import cases
from tests.others.frameworks.cases import QUESTION, TEXT, call, main, weather

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


def make_model(url: str) -> OpenAIModel:
    return OpenAIModel(model_id="test-model", api_base=url, api_key="k")


def make_agent(url: str, **more: Any) -> ToolCallingAgent:
    return ToolCallingAgent(
        tools=[tool(weather)], model=make_model(url), name="Forecaster", description="Tells the weather", **more
    )


def ask(url: str) -> str:
    return str(make_agent(url).run(QUESTION))


def close(url: str) -> str:
    pieces: Any = make_agent(url, stream_outputs=True).run(QUESTION, stream=True)
    first = next(str(each.content) for each in pieces if getattr(each, "content", None))
    pieces.close()
    return first


def hand_over(url: str) -> str:
    desk = ToolCallingAgent(tools=[], model=make_model(url), managed_agents=[make_agent(url)])
    return str(desk.run(QUESTION))


def use_openinference(provider: TracerProvider) -> None:
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor

    SmolagentsInstrumentor().instrument(tracer_provider=provider)


END = call("end", "final_answer", answer=TEXT)

if __name__ == "__main__":
    # its agents end by a tool of that name
    cases.ANSWERS = {  # type: ignore[misc]
        case: tuple(END if each is cases.LAST else each for each in answers) for case, answers in cases.ANSWERS.items()
    }
    main(
        {"openinference": use_openinference},
        {"tool": ask, "handover": hand_over, "parallel": ask, "closed": close, "retry": ask, "raises": ask},
        (call("1", "Forecaster", task=QUESTION), call("2", "weather", city="Paris"), END, END),
    )
