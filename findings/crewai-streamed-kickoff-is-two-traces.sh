#!/usr/bin/env bash
# openinference-instrumentation-crewai 1.1.21, crewai 1.15.30 (PyPI, 1 GB), Python 3.11, seen on 28 November 2026.
#
# Guess: `Crew(stream=True).kickoff()` is one trace, whose root takes as long as the crew works and has its answer, as the
# same crew has without a stream.
# Seen: it is two traces. The first is a root `Crew_….kickoff` alone: OK after a millisecond, its `output.value` is the repr
# of the `CrewStreamingOutput`. The second has a root of the same name with the crew's work below it, and its answer.
# Who counts traces counts each streamed crew twice, and half of them as done at once.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    openinference-instrumentation-crewai==1.1.21 crewai==1.15.30 opentelemetry-sdk==1.45.2
export CREWAI_DISABLE_TELEMETRY=true CREWAI_TRACING_ENABLED=false
"$folder/env/bin/python" - <<'PY'
import time

from crewai import Agent, BaseLLM, Crew, Task
from openinference.instrumentation.crewai import CrewAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
CrewAIInstrumentor().instrument(tracer_provider=provider)


class Slow(BaseLLM):
    def call(self, messages, *given, **more):
        time.sleep(0.5)
        return "18 degrees"


def make_crew(**more):
    agent = Agent(role="Forecaster", goal="Tell the weather", backstory="Long at sea.", llm=Slow(model="slow"))
    return Crew(agents=[agent], tasks=[Task(description="?", expected_output="A sentence", agent=agent)], **more)


def take_roots():
    spans = exporter.get_finished_spans()
    exporter.clear()
    roots = [each for each in spans if each.parent is None]
    for each in roots:
        inside = sum(other.context.trace_id == each.context.trace_id for other in spans) - 1
        took_ms = (each.end_time - each.start_time) / 1e6
        print(f"root: {took_ms:.0f} ms, {inside} below it, output.value {each.attributes['output.value'][:50]!r}")
    return roots


print("without a stream:")
assert make_crew().kickoff().raw == "18 degrees"
(whole,) = take_roots()

print("streamed, read to its end:")
stream = make_crew(stream=True).kickoff()
list(stream)
assert stream.result.raw == "18 degrees"
first, second = take_roots()
assert first.name == second.name and first.context.trace_id != second.context.trace_id
assert first.end_time - first.start_time < 100e6 < second.end_time - second.start_time
assert "CrewStreamingOutput object" in first.attributes["output.value"]
PY
