#!/usr/bin/env bash
# openinference-instrumentation-langchain 0.1.80, opentelemetry-sdk 1.45.2, langchain-core 1.8.3 (PyPI), Python 3.11, seen on
# 29 November 2026.
#
# Guess: the span of a model call has its input, its output and its system prompt, however long the conversation is; or, where
# the limits of the SDK don't allow it, what comes last is left out, as OpenTelemetry's specification says.
# Seen: OpenInference writes each message as attributes of their own, the SDK keeps 128 and drops the oldest. Of a call with 80
# messages `input.value`, `output.value`, the system prompt and the first messages are gone; tokens and the last messages stay.
# A loop of 15 calls of tools is as long. `SpanLimits(max_span_attributes=SpanLimits.UNSET)` keeps all.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    openinference-instrumentation-langchain==0.1.80 opentelemetry-sdk==1.45.2 langchain-core==1.8.3
"$folder/env/bin/python" - <<'PY'
import logging

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

logging.disable(logging.WARNING)  # "Attributes dict is full", once for each that is dropped
BEGINNING = ("input.value", "output.value", "llm.input_messages.0.message.content")


def ask(count, **given):
    exporter = InMemorySpanExporter()
    provider = TracerProvider(**given)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    model = GenericFakeChatModel(messages=iter([AIMessage("It is warm.")]))
    talk = [(HumanMessage, AIMessage)[number % 2](f"message {number}") for number in range(count - 1)]
    model.invoke([SystemMessage("Tell the weather."), *talk])
    LangChainInstrumentor().uninstrument()
    (span,) = exporter.get_finished_spans()
    last = f"llm.input_messages.{count - 1}.message.content"
    return [key in span.attributes for key in BEGINNING], last in span.attributes, span.dropped_attributes


short, long, whole = ask(10), ask(80), ask(80, span_limits=SpanLimits(max_span_attributes=SpanLimits.UNSET))
print("10 messages:", short, "80 messages:", long, "80 without a limit:", whole)
assert short == ([True] * 3, True, 0)
assert long[:2] == ([False] * 3, True)
assert long[2] > 0
assert whole == ([True] * 3, True, 0)
PY
