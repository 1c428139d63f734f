"""A run as OTLP JSON, as OpenTelemetry's own classes read it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ensemble_notebook import Ensemble, Task, ValidationError
from ensemble_notebook.domain.genai_spans import SCHEMA_URL, USAGE
from ensemble_notebook.importers.foreign_run import import_runs
from ensemble_notebook.importers.foreign_span import ForeignSpan
from ensemble_notebook.trace.execution_trace import ExecutionTrace

ROOT = Path(__file__).parents[2]


def export(name: str, folder: Path) -> tuple[ExecutionTrace, list[Span]]:
    trace = ExecutionTrace.load(ROOT / "demos" / f"{name}.trace.json.gz")
    content = trace.export(folder / "run.otlp.json").read_text()
    (resource,) = Parse(content, ExportTraceServiceRequest()).resource_spans
    (scope,) = resource.scope_spans
    assert resource.schema_url == scope.schema_url == SCHEMA_URL
    return trace, list(scope.spans)


def read(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@pytest.mark.parametrize("name", ["report", "manager", "map"])
def test_a_run_is_one_tree_whose_requests_have_all_its_tokens_t115(name, tmp_path):
    trace, spans = export(name, tmp_path)
    by_id = {span.span_id: span for span in spans}
    (root,) = [span for span in spans if not span.parent_span_id]
    assert len(by_id) == len(spans)
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert read(root)["gen_ai.operation.name"] == "invoke_workflow"
    for span in spans:
        assert span.name.split()[0] == read(span)["gen_ai.operation.name"]
        around = by_id[span.parent_span_id] if span.parent_span_id else root
        assert around.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= around.end_time_unix_nano
    ours = trace.frames.spans
    asked = [span for span in spans if span.name.startswith("chat ")]
    assert len(asked) == (ours.kind == "attempt").sum()
    assert all(span.kind == Span.SPAN_KIND_CLIENT for span in asked)
    for column in ("input_tokens", "output_tokens"):
        total = ours[column][ours.usage_leaf].sum()
        assert sum(read(span).get(USAGE[column], 0) for span in asked) == total


def test_a_failed_request_and_the_next_one_are_two_spans_t115(tmp_path):
    trace, spans = export("report", tmp_path)
    failed = [span for span in spans if span.name.startswith("chat ") and "error.type" in read(span)]
    ours = trace.frames.spans.query("kind == 'attempt' and status == 'error'")
    assert len(failed) == len(ours) > 0
    assert {read(span)["error.type"] for span in failed} == set(ours.error_type)


def test_messages_go_with_each_request_where_texts_are_kept_t115(tmp_path):
    _, spans = export("report", tmp_path)
    answered = [read(span) for span in spans if span.name.startswith("chat ") and "error.type" not in read(span)]
    for each in answered:
        (reply,) = json.loads(each["gen_ai.output.messages"])
        assert reply["role"] == "assistant"
        assert json.loads(each["gen_ai.input.messages"])[0]["role"] == "user"
    assert any("tool_call_response" in each["gen_ai.input.messages"] for each in answered)


@pytest.mark.parametrize("name", ["report", "manager"])
def test_what_the_names_have_a_place_for_is_there_when_it_is_read_back_t115(name, tmp_path):
    trace, spans = export(name, tmp_path)
    read_again = [
        ForeignSpan(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex() or None,
            name=span.name,
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            attributes=read(span),
            status="error" if span.status.code else "unset",
            status_message=span.status.message or None,
        )
        for span in spans
    ]
    (events,) = import_runs(read_again)
    ours, theirs = trace.frames.spans, ExecutionTrace.from_events(events).frames.spans
    for kind in ("run", "turn", "llm", "attempt", "tool"):
        assert (ours.kind == kind).sum() == (theirs.kind == kind).sum()
    for column in ("agent", "tool", "model"):
        assert set(ours[column].dropna()) == set(theirs[column].dropna())
    for column in ("input_tokens", "output_tokens"):
        assert ours[column][ours.usage_leaf].sum() == theirs[column][theirs.usage_leaf].sum()


def test_a_run_without_texts_writes_none_t115(tmp_path):
    output = Ensemble(tasks=[Task.of("Say the canary", handler=lambda _: "canary")], capture_mode="metadata").run()
    assert "canary" not in output.export(tmp_path / "run.otlp.json").read_text()


def test_a_promise_of_otlp_alone_is_refused_with_the_endings_that_there_are_t115(tmp_path):
    trace = ExecutionTrace.load(ROOT / "demos" / "report.trace.json.gz")
    with pytest.raises(ValidationError, match=r"can't be exported.*\.otlp\.json"):
        trace.export(tmp_path / "run.otel.json")


def test_the_table_of_names_has_each_name_of_the_code_t116():
    code = (ROOT / "ensemble_notebook" / "domain" / "genai_spans.py").read_text()
    names = set(re.findall(r'"((?:gen_ai|error)\.[a-z_.]+)"', code))
    document = (ROOT / "docs" / "interop.md").read_text().partition("## OpenTelemetry out")[2].partition("\n## ")[0]
    assert SCHEMA_URL in document
    assert set(re.findall(r"`((?:gen_ai|error)\.[a-z_.]+)`", document)) == names


def test_a_conversation_that_goes_on_is_written_with_its_calls_and_results_t115(tmp_path):
    """A request that is told what came before: its messages stand in the file, masked."""
    key = "sk-" + "x" * 40
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Use {key}."},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": {"parcel": 7}}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "In Graz."},
        {"role": "user", "content": "And now?"},
    ]
    told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": json.dumps(said)}
    (events,) = import_runs([ForeignSpan("aa", "01", None, "chat", 10**18, 10**18 + 1000, told)])
    file = ExecutionTrace.from_events(events).export(tmp_path / "run.otlp.json")
    (chat,) = [
        span
        for span in json.loads(file.read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
        if span["name"] == "chat m"
    ]
    written = {each["key"]: each["value"]["stringValue"] for each in chat["attributes"]}
    assert json.loads(written["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Use ***."}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"parcel": 7}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "In Graz."}]},
        {"role": "user", "parts": [{"type": "text", "content": "And now?"}]},
    ]
    assert "Be brief." in written["gen_ai.system_instructions"]
