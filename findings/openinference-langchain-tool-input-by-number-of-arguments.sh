#!/usr/bin/env bash
# openinference-instrumentation-langchain 0.1.80, langchain-core 1.8.3 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: `input.value` of a tool's span holds the arguments, by their names, in one form.
# Seen: one argument that is a text stands there bare (`Paris`), without its name and without `input.mime_type`; so does a
# call of a tool with two arguments that gives one of them. One number, or two arguments, are JSON with their names. The
# same tool has both forms, by what was given. `tool.parameters` is never set.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    openinference-instrumentation-langchain==0.1.80 langchain-core==1.8.3 opentelemetry-sdk==1.45.2
"$folder/env/bin/python" - <<'PY'
from langchain_core.tools import tool
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
LangChainInstrumentor().instrument(tracer_provider=provider)


@tool
def weather(city: str, unit: str = "C") -> str:
    """Tell how warm it is."""
    return f"18 {unit} in {city}"


@tool
def wait(seconds: int) -> str:
    """Wait."""
    return "done"


def call(tool, **arguments):
    """As an agent calls it."""
    exporter.clear()
    tool.invoke({"type": "tool_call", "id": "1", "name": tool.name, "args": arguments})
    (span,) = exporter.get_finished_spans()
    print(f"{tool.name}({arguments}): {span.attributes['input.value']}")
    assert "tool.parameters" not in span.attributes
    return span.attributes["input.value"], span.attributes.get("input.mime_type")


assert call(weather, city="Paris") == ("Paris", None)
assert call(weather, city="Paris", unit="F") == ('{"city": "Paris", "unit": "F"}', "application/json")
assert call(wait, seconds=3) == ('{"seconds": 3}', "application/json")
PY
