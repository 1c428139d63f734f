#!/usr/bin/env bash
# opentelemetry-instrumentation-genai-langchain 1.3b0, langgraph 1.2.24, langchain 1.5.2 (PyPI), Python 3.11, seen on
# 28 November 2026.
#
# Guess: where one agent hands over to another, with a `Command` that goes to the parent graph as LangGraph's own
# documentation does it, and nothing fails, no span is an error.
# Seen: the span `invoke_agent` of the one that hands over has the status ERROR and the `error.type`
# `langgraph.errors.ParentCommand`: the exception by which LangGraph steers itself. The workflow's span is no error, the
# run gives its answer. Who counts failed agents by their spans counts each hand-over.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    opentelemetry-instrumentation-genai-langchain==1.3b0 opentelemetry-sdk==1.45.2 langgraph==1.2.24 langchain==1.5.2
"$folder/env/bin/python" - <<'PY'
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
LangChainInstrumentor().instrument(tracer_provider=provider)


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **more):
        return self


@tool
def transfer_to_forecaster() -> Command:
    """Hand over to the forecaster."""
    done = ToolMessage("Handed over", tool_call_id="1")
    return Command(goto="Forecaster", graph=Command.PARENT, update={"messages": [done]})


asks = AIMessage("", tool_calls=[{"name": "transfer_to_forecaster", "args": {}, "id": "1"}])
desk = create_agent(Scripted(messages=iter([asks])), tools=[transfer_to_forecaster], name="Desk")
forecaster = create_agent(Scripted(messages=iter([AIMessage("18 degrees")])), tools=[], name="Forecaster")
graph = StateGraph(MessagesState)
graph.add_node("Desk", desk)
graph.add_node("Forecaster", forecaster)
graph.add_edge(START, "Desk")
state = graph.compile().invoke({"messages": [("user", "How warm is it?")]})
assert state["messages"][-1].content == "18 degrees"

found = {}
for span in exporter.get_finished_spans():
    found[span.name] = (span.status.status_code.name, span.attributes.get("error.type"))
    print(span.name, *found[span.name])
assert found["invoke_agent Desk"] == ("ERROR", "langgraph.errors.ParentCommand")
assert found["invoke_agent Forecaster"] == found["invoke_workflow LangGraph"] == ("UNSET", None)
PY
