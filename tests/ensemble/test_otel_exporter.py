"""Spans of runs in a real tracer provider."""

import json

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ensemble_notebook import Agent, Ensemble, OtelExporter, ScriptedChatModel, Task, TaskExecutionError, ToolUse
from ensemble_notebook.domain.genai_spans import SCHEMA_URL

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture
def kept() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(kept: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(kept))
    return made


def count(word: str) -> int:
    """How long a word is."""
    return len(word)


def make_team(exporter: object) -> Ensemble:
    says = ScriptedChatModel(replies=[ToolUse("count", {"word": "tides"}), "five tides"])
    agent = Agent(role="Counter", goal="Count", tools=[count])
    return Ensemble(name="team", tasks=[Task.of("Count it", agent=agent)], llm=says, trace_exporter=exporter)


def by_name(kept: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in kept.get_finished_spans()}


def test_spans_go_below_the_current_span_and_lie_in_one_another_t117(kept, provider):
    with provider.get_tracer("web").start_as_current_span("GET /advice") as request:
        make_team(OtelExporter(provider)).run()
    spans = by_name(kept)
    root, agent = spans["invoke_workflow team"], spans["invoke_agent Counter"]
    assert root.parent.span_id == request.get_span_context().span_id
    assert agent.parent.span_id == root.context.span_id
    assert spans["execute_tool count"].parent.span_id == agent.context.span_id
    chats = [span for span in kept.get_finished_spans() if span.name.startswith("chat ")]
    assert [span.parent.span_id for span in chats] == [agent.context.span_id] * 2
    assert root.instrumentation_scope.schema_url == SCHEMA_URL


def test_a_live_exporter_sends_no_text_unless_it_is_told_to_t118(kept, provider, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    for value in ("", "false", "NO_CONTENT"):
        monkeypatch.setenv(VARIABLE, value)
        make_team(OtelExporter(provider)).run()
    assert "tides" not in "".join(span.to_json() for span in kept.get_finished_spans())
    kept.clear()
    make_team(OtelExporter(provider, content=True)).run()
    assert json.loads(by_name(kept)["execute_tool count"].attributes["gen_ai.tool.call.arguments"]) == {"word": "tides"}
    kept.clear()
    monkeypatch.setenv(VARIABLE, "SPAN_ONLY")
    make_team(OtelExporter(provider)).run()
    assert "five tides" in "".join(span.to_json() for span in kept.get_finished_spans())


def test_both_doors_give_the_same_spans_t117(kept, provider, tmp_path):
    output = make_team(OtelExporter(provider, content=True)).run()
    (live,) = encode_spans(kept.get_finished_spans()).resource_spans[0].scope_spans
    content = json.loads(output.export(tmp_path / "run.otlp.json").read_text())
    (written,) = content["resourceSpans"][0]["scopeSpans"]
    told = [(each.name, each.kind, each.start_time_unix_nano, each.end_time_unix_nano) for each in live.spans]
    assert told == [
        (each["name"], each["kind"], int(each["startTimeUnixNano"]), int(each["endTimeUnixNano"]))
        for each in written["spans"]
    ]
    keys = [{each.key for each in span.attributes} for span in live.spans]
    assert keys == [{each["key"] for each in span["attributes"]} for span in written["spans"]]


def test_the_runs_of_a_map_lie_inside_its_own_span_t117(kept, provider):
    agent = Agent(role="Speaker", goal="Speak")
    says = ScriptedChatModel(default="yes")
    exporter = OtelExporter(provider)
    Ensemble(tasks=[Task.of("Say {word}", agent=agent)], llm=says, trace_exporter=exporter).map(
        [{"word": "a"}, {"word": "b"}]
    )
    spans = kept.get_finished_spans()
    (root,) = [span for span in spans if span.parent is None]
    rows = [span for span in spans if span.parent is not None and span.parent.span_id == root.context.span_id]
    assert [span.name.split()[0] for span in rows] == ["invoke_workflow"] * 2
    assert len({span.context.trace_id for span in spans}) == 1
    assert sum(span.name.startswith("chat ") for span in spans) == 2


def test_what_fails_says_with_which_error_t117(kept, provider):
    agent = Agent(role="Speaker", goal="Speak")
    says = ScriptedChatModel(replies=[RuntimeError("boom")])
    with pytest.raises(TaskExecutionError):
        Ensemble(tasks=[Task.of("Say it", agent=agent)], llm=says, trace_exporter=OtelExporter(provider)).run()
    errors = {span.name.split()[0]: span.attributes["error.type"] for span in kept.get_finished_spans()}
    assert errors == {
        "chat": "RuntimeError",
        "invoke_agent": "AgentExecutionError",
        "invoke_workflow": "AgentExecutionError",
    }
    assert not any(span.status.is_ok for span in kept.get_finished_spans())


def test_a_provider_that_raises_does_not_disturb_the_run_t119(caplog):
    class Broken(TracerProvider):
        def get_tracer(self, *_: object, **__: object) -> object:
            raise RuntimeError("no tracer")

    assert make_team(OtelExporter(Broken())).run().raw == "five tides"
    assert "OtelExporter failed" in caplog.text


def test_a_cell_sends_its_spans_to_the_provider_of_the_process_c112():
    team = Ensemble.from_yaml("trace_exporter: otel\ntasks: [Say hello]\n")
    assert isinstance(team.trace_exporter, OtelExporter)
