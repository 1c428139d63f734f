"""The cases with LangGraph and LangChain's agents, by OpenInference's instrumentation and OpenTelemetry's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents import create_agent
from langchain.tools import InjectedToolCallId, tool
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from tests.others.frameworks.cases import LAST, QUESTION, call, keep_messages, main, weather

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


def make_model(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="test-model", base_url=url, api_key="k", stream_usage=True)


def make_agent(url: str) -> Any:
    return create_agent(make_model(url), tools=[weather], system_prompt="Tell the weather.", name="Forecaster")


def ask(url: str) -> str:
    return make_agent(url).invoke({"messages": [("user", QUESTION)]})["messages"][-1].content


def close(url: str) -> str:
    pieces = make_agent(url).stream({"messages": [("user", QUESTION)]}, stream_mode="messages")
    first = str(next(pieces)[0].content) + str(next(pieces)[0].content)
    pieces.close()
    return first


@tool
def transfer_to_forecaster(call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Hand over to the forecaster."""
    told = ToolMessage("Handed over", tool_call_id=call_id)
    return Command(goto="Forecaster", graph=Command.PARENT, update={"messages": [told]})


def hand_over(url: str) -> str:
    desk = create_agent(make_model(url), tools=[transfer_to_forecaster], system_prompt="Ask who knows.", name="Desk")
    graph = StateGraph(MessagesState)
    graph.add_node("Desk", desk)
    graph.add_node("Forecaster", make_agent(url))
    graph.add_edge(START, "Desk")
    return graph.compile().invoke({"messages": [("user", QUESTION)]})["messages"][-1].content


def use_openinference(provider: TracerProvider) -> None:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider)


def use_opentelemetry(provider: TracerProvider) -> None:
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor

    keep_messages()
    LangChainInstrumentor().instrument(tracer_provider=provider)


if __name__ == "__main__":
    main(
        {"openinference": use_openinference, "opentelemetry": use_opentelemetry},
        {"tool": ask, "handover": hand_over, "parallel": ask, "closed": close, "retry": ask, "raises": ask},
        (call("1", "transfer_to_forecaster"), call("2", "weather", city="Paris"), LAST),
    )
