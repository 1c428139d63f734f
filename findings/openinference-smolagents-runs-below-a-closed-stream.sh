#!/usr/bin/env bash
# openinference-instrumentation-smolagents 0.1.43, smolagents 1.26.0 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: a run whose stream was closed early is over, and the next run of the process is a trace of its own, as it is after
# a stream that was read to its end.
# Seen: every later run of that thread has the trace of the closed one, and its `run` span, which has ended, as parent.
# The context that the closed run had set comes back when its inner generators are closed after it.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    openinference-instrumentation-smolagents==0.1.43 smolagents==1.26.0 opentelemetry-sdk==1.45.2
"$folder/env/bin/python" - <<'PY'
import gc

from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from smolagents import ChatMessage, ChatMessageStreamDelta, Model, ToolCallingAgent
from smolagents.models import (
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
)

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
SmolagentsInstrumentor().instrument(tracer_provider=provider)
ANSWER = ChatMessageToolCallFunction(name="final_answer", arguments='{"answer": "18 degrees"}')


class Scripted(Model):
    """Answers at once; streamed, it thinks aloud before."""

    def generate(self, messages, **more):
        call = ChatMessageToolCall(id="1", type="function", function=ANSWER)
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=[call])

    def generate_stream(self, messages, **more):
        yield ChatMessageStreamDelta(content="Let me ")
        yield ChatMessageStreamDelta(content="see")
        call = ChatMessageToolCallStreamDelta(index=0, id="1", type="function", function=ANSWER)
        yield ChatMessageStreamDelta(content=None, tool_calls=[call])


def ask():
    ToolCallingAgent(tools=[], model=Scripted(), verbosity_level=0).run("How warm is it?")
    return next(each for each in exporter.get_finished_spans() if each.name.endswith(".run"))


def stream(is_closed):
    pieces = ToolCallingAgent(tools=[], model=Scripted(), stream_outputs=True, verbosity_level=0).run("?", stream=True)
    if is_closed:
        next(pieces)
        pieces.close()
    else:
        list(pieces)
    del pieces
    gc.collect()
    run = next(each for each in exporter.get_finished_spans() if each.name.endswith(".run"))
    exporter.clear()
    return run


stream(is_closed=False)
after_whole = ask()
exporter.clear()
print("after a stream that was read: parent", after_whole.parent)
assert after_whole.parent is None

closed = stream(is_closed=True)
for _ in range(2):
    later = ask()
    exporter.clear()
    is_below = later.parent is not None and later.parent.span_id == closed.context.span_id
    print("after a closed one: below it", is_below, "- begun after its end", later.start_time > closed.end_time)
    assert is_below and later.start_time > closed.end_time
PY
