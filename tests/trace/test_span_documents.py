"""Files of spans of other frameworks (T106 to T109)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import ensemble_notebook
from ensemble_notebook import load_traces
from ensemble_notebook.errors import TraceFormatError
from ensemble_notebook.trace.execution_trace import ExecutionTrace

ROOT = Path(ensemble_notebook.__file__).parent.parent
START = 1_790_000_000 * 10**9


def make_span(number: int, parent: int | None, name: str, trace: str = "aa" * 16, **told: Any) -> dict[str, Any]:
    kinds = {str: "stringValue", int: "intValue", bool: "boolValue"}
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "startTimeUnixNano": str(START + number * 10**6),
        "endTimeUnixNano": str(START + (20 - number) * 10**6),
        "attributes": [
            {"key": key.replace("__", "."), "value": {kinds[type(value)]: str(value) if type(value) is int else value}}
            for key, value in told.items()
        ],
        "status": {"code": 1},
    }


def make_document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "some"}, "spans": [*spans]}]}]}


def make_run(trace: str = "aa" * 16) -> list[dict[str, Any]]:
    agent = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "Desk"}
    chat = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-4o", "gen_ai__usage__input_tokens": 30}
    return [make_span(1, None, "invoke_agent Desk", trace, **agent), make_span(2, 1, "chat gpt-4o", trace, **chat)]


def write(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, documents)))
    return path


@pytest.mark.parametrize("is_compressed", [False, True])
def test_t106_a_file_of_one_run_is_read(tmp_path: Path, is_compressed: bool) -> None:
    file = write(tmp_path / "run.otlp.json", make_document(*make_run()))
    if is_compressed:
        file.write_bytes(gzip.compress(file.read_bytes()))
    trace = ExecutionTrace.load(file)
    assert (trace.name, trace.metrics.input_tokens) == ("Desk", 30)
    assert len(load_traces(str(file)).runs) == 1


def test_t106_the_lines_of_a_collector_are_read_and_a_cut_one_is_said(tmp_path: Path) -> None:
    first, second = make_run(), make_run("bb" * 16)
    file = write(tmp_path / "spans.jsonl", make_document(first[0]), make_document(first[1]), make_document(*second))
    assert len(load_traces(str(file)).runs) == 2
    with pytest.raises(TraceFormatError, match=r"has 2 runs\. All of them: load_traces"):
        ExecutionTrace.load(file)
    file.write_text(file.read_text()[:-30])
    with pytest.warns(UserWarning, match=r"spans\.jsonl: it is cut off, and the 3 spans before that are read\."):
        assert len(load_traces(str(file)).runs) == 2


def test_t106_a_page_of_phoenix_is_read(tmp_path: Path) -> None:
    span = {
        "name": "chat",
        "context": {"trace_id": "aa", "span_id": "01"},
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": "2026-11-28T23:26:47.473326+00:00",
        "end_time": "2026-11-28T23:26:48.473342+00:00",
        "status_code": "ERROR",
        "status_message": "gone",
        "attributes": {"llm.model_name": "gpt-4o", "llm.token_count.prompt": 7, "llm.token_count.completion": 1},
        "events": [],
    }
    trace = ExecutionTrace.load(write(tmp_path / "page.json", {"data": [span], "next_cursor": None}))
    assert trace.metrics.input_tokens == 7
    assert "gone" in str(trace.frames.errors.to_dict())


PHOENIX = {
    "name": "chat",
    "context": {"trace_id": "aa", "span_id": "01"},
    "span_kind": "LLM",
    "parent_id": None,
    "start_time": "2026-11-28T23:26:47.473326+00:00",
    "end_time": "2026-11-28T23:26:48.473342+00:00",
    "status_code": "UNSET",
    "attributes": {"llm.model_name": "gpt-4o", "llm.token_count.prompt": 7, "llm.token_count.completion": 1},
}


@pytest.mark.parametrize("document", [[PHOENIX], {"next_cursor": "c3Bhbg==" * 40, "data": [PHOENIX]}])
def test_t106_a_bare_list_is_read_and_a_page_that_begins_with_its_cursor(tmp_path: Path, document: Any) -> None:
    assert ExecutionTrace.load(write(tmp_path / "spans.json", document)).metrics.input_tokens == 7


def test_t106_spans_of_before_2022_a_mark_at_the_beginning_and_indented_documents_are_read(tmp_path: Path) -> None:
    old = {"instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "some"}, "spans": make_run()}]}
    file = tmp_path / "old.json"
    documents = [{"resourceSpans": [old]}, make_document(*make_run("bb" * 16))]
    file.write_text("\ufeff" + "\n".join(json.dumps(each, indent=2) for each in documents))
    assert list(load_traces(str(file)).runs["name"]) == ["Desk", "Desk"]


OBSERVATIONS = [
    {
        "id": "o1",
        "traceId": "t1",
        "parentObservationId": None,
        "type": "AGENT",
        "name": "Desk",
        "startTime": "2026-11-28T10:00:00.000Z",
        "endTime": "2026-11-28T10:00:05.000Z",
        "level": "DEFAULT",
        "input": '{"question": "Where is parcel 7?"}',
        "output": "In Graz.",
    },
    {
        "id": "o2",
        "traceId": "t1",
        "parentObservationId": "o1",
        "type": "GENERATION",
        "name": "chat",
        "startTime": "2026-11-28T10:00:01.000Z",
        "endTime": "2026-11-28T10:00:02.000Z",
        "level": "DEFAULT",
        "providedModelName": "gpt-5-mini",
        "input": '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Parcel 7?"}]}',
        "output": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": '{"parcel": 7}'}}],
        },
        "usageDetails": {"input": 10, "input_cached_tokens": 4, "output": 2, "output_reasoning_tokens": 1, "total": 17},
        "costDetails": {"input": 0.25, "output": 0.5},
    },
    {
        "id": "o3",
        "traceId": "t1",
        "parentObservationId": "o1",
        "type": "TOOL",
        "name": "find",
        "startTime": "2026-11-28T10:00:02.000Z",
        "endTime": "2026-11-28T10:00:03.000Z",
        "level": "ERROR",
        "statusMessage": "no parcel 7",
        "input": {"parcel": 7},
    },
    {
        "id": "o4",
        "traceId": "t1",
        "parentObservationId": "o1",
        "type": "EVENT",
        "name": "gave up",
        "startTime": "2026-11-28T10:00:03.000Z",
    },
]


def to_export(observation: dict[str, Any]) -> dict[str, Any]:
    """As Langfuse's exports have it: names with underscores, times in UTC without saying so, numbers as text."""
    names = {"traceId": "trace_id", "parentObservationId": "parent_observation_id", "startTime": "start_time"}
    names |= {"endTime": "end_time", "statusMessage": "status_message", "usageDetails": "usage_details"}
    names |= {"providedModelName": "provided_model_name", "costDetails": "cost_details"}
    told = {names.get(name, name): value for name, value in observation.items()}
    for name in ("start_time", "end_time"):
        if name in told:
            told[name] = told[name].replace("T", " ").replace("Z", "000")
    if "usage_details" in told:
        told["usage_details"] = {name: str(value) for name, value in told["usage_details"].items()}
    told["parent_observation_id"] = told["parent_observation_id"] or ""
    return told


@pytest.mark.parametrize(
    "documents",
    [
        [{"data": OBSERVATIONS, "meta": {"cursor": None}}],
        [{"meta": {}, "data": OBSERVATIONS[::-1]}],
        [OBSERVATIONS],
        [{"id": "t1", "name": "desk", "timestamp": "2026-11-28T10:00:00.000Z", "observations": OBSERVATIONS}],
        [{"trace": {"id": "t1"}, "observations": OBSERVATIONS}],
        OBSERVATIONS,
        [*map(to_export, OBSERVATIONS)],
    ],
    ids=["page", "page-backwards", "list", "trace", "download", "lines", "export"],
)
def test_t107_observations_of_langfuse_are_a_run(tmp_path: Path, documents: list[Any]) -> None:
    trace = ExecutionTrace.load(write(tmp_path / "langfuse.json", *documents))
    spans = trace.frames.spans
    assert (trace.name, str(trace.started_at)) == ("Desk", "2026-11-28 10:00:00+00:00")
    call = spans[spans["kind"] == "attempt"].iloc[0]
    assert [*call[["input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens"]]] == [14, 4, 3, 1]
    assert [*call[["cost", "cost_source", "model"]]] == [0.75, "langfuse", "gpt-5-mini"]
    tool = spans[spans["kind"] == "tool"].iloc[0]
    assert [*tool[["name", "status", "error_message"]]] == ["find", "error", "no parcel 7"]
    said = trace.frames.messages
    assert "Parcel 7?" in set(said["text"])
    assert "gave up" in set(spans["name"])


def test_t107_a_list_without_texts_usage_and_model_has_none(tmp_path: Path) -> None:
    core = ("id", "traceId", "parentObservationId", "type", "name", "startTime", "endTime", "level")
    page = {"data": [{name: each.get(name) for name in core} for each in OBSERVATIONS], "meta": {}}
    trace = ExecutionTrace.load(write(tmp_path / "core.json", page))
    assert trace.metrics.input_tokens is None
    assert trace.frames.spans["cost"].isna().all()


@pytest.mark.parametrize("total, cost", [(0, None), (0.5, 0.5)])
def test_t107_a_total_cost_counts_where_it_is_above_0(tmp_path: Path, total: float, cost: float | None) -> None:
    generation = {**OBSERVATIONS[1], "parentObservationId": None, "costDetails": {}, "totalCost": total}
    assert ExecutionTrace.load(write(tmp_path / "cost.json", [generation])).metrics.cost == cost


ROWS: list[dict[str, Any]] = [
    {
        "trace_id": "aa" * 16,
        "span_id": "b1" * 8,
        "parent_span_id": None,
        "kind": "span",
        "span_name": "agent run",
        "message": "desk run",
        "start_timestamp": "2026-11-28T10:00:00.000000Z",
        "end_timestamp": "2026-11-28T10:00:05.000000Z",
        "otel_scope_name": "pydantic-ai",
        "otel_status_code": "ERROR",
        "exception_type": "builtins.ValueError",
        "exception_message": "no parcel 7",
        "attributes": {"gen_ai.agent.name": "Desk", "gen_ai.operation.name": "invoke_agent"},
    },
    {
        "trace_id": "aa" * 16,
        "span_id": "b2" * 8,
        "parent_span_id": "b1" * 8,
        "kind": "span",
        "span_name": "chat gpt-5-mini",
        "start_timestamp": "2026-11-28T10:00:01.000000Z",
        "end_timestamp": "2026-11-28T10:00:02.000000Z",
        "otel_scope_name": "pydantic-ai",
        "attributes": {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-5-mini",
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Parcel 7?"}]}],
        },
    },
]
COLUMNS = [{"name": name, "datatype": "Utf8", "nullable": True} for name in ROWS[0]]


@pytest.mark.parametrize(
    "document",
    [
        {"columns": COLUMNS, "rows": ROWS},
        {"rows": ROWS},
        [{**row, "attributes": json.dumps(row["attributes"])} for row in ROWS],
        {"schema": {"fields": COLUMNS}, "data": ROWS},
        {"columns": [{**each, "values": [row.get(each["name"]) for row in ROWS]} for each in COLUMNS]},
    ],
    ids=["client", "rows", "table", "second", "columns"],
)
def test_t108_rows_of_logfire_are_a_run(tmp_path: Path, document: Any) -> None:
    trace = ExecutionTrace.load(write(tmp_path / "logfire.json", document))
    assert (trace.name, trace.metrics.input_tokens, trace.status.value) == ("Desk", 30, "failed")
    assert "ValueError" in set(trace.frames.errors["error_type"])
    assert "Parcel 7?" in set(trace.frames.messages["text"])


def test_t108_a_pending_row_is_the_span_that_has_not_ended(tmp_path: Path) -> None:
    def make_pending(row: dict[str, Any], parent: str) -> dict[str, Any]:
        told = {**row["attributes"], "logfire.pending_parent_id": parent}
        ids = {"span_id": row["span_id"][::-1], "parent_span_id": row["span_id"], "kind": "pending_span"}
        return {**row, **ids, "attributes": told, "end_timestamp": row["start_timestamp"], "otel_status_code": None}

    agent, chat = ROWS
    rows = [make_pending({**agent, "exception_type": None}, "0" * 16), make_pending(chat, agent["span_id"]), chat]
    trace = ExecutionTrace.load(write(tmp_path / "pending.json", {"rows": rows}))
    assert (trace.name, trace.status.value, len(trace.frames.attempts)) == ("Desk", "interrupted", 1)
    trace = ExecutionTrace.load(write(tmp_path / "done.json", {"rows": [*rows, agent]}))
    assert (trace.name, trace.status.value, len(trace.frames.attempts)) == ("Desk", "failed", 1)


METRICS = {"resourceMetrics": [{"scopeMetrics": []}]}
LOGS = {"resourceLogs": [{"scopeLogs": []}]}


def make_damaged(**wrong: Any) -> dict[str, Any]:
    """A whole run, and beside it a resource of which something is wrong."""
    return {"resourceSpans": [*make_document(*make_run())["resourceSpans"], wrong]}


@pytest.mark.parametrize(
    "documents, said",
    [
        ([METRICS, make_document(*make_run()), LOGS], "2 documents of metrics or logs left out"),
        (
            [make_document(*make_run(), {"name": "gone", "traceId": "aa" * 16, "startTimeUnixNano": str(START)})],
            r"left out: span 'gone' \(it has no id\)",
        ),
        (
            [make_document(*make_run(), make_span(3, 1, "late") | {"startTimeUnixNano": "9" * 27})],
            "left out: span 'late' .its start '9{27}' is no time",
        ),
        (
            [make_document(*make_run(), make_span(3, 1, "odd") | {"endTimeUnixNano": "soon"})],
            "left out: span 'odd' .its end 'soon' is no time",
        ),
        ([make_document(*make_run(), make_span(3, 1, "bare") | {"attributes": [{}]})], "span 'bare' .it is damaged"),
        ([make_document(*make_run(), *({"name": f"s{n}"} for n in range(5)))], r"'s2' \(.*\) and 2 more\."),
        ([[*ROWS, ROWS[1] | {"attributes": [1]}]], r"'chat gpt-5-mini' \(its attributes are no object of JSON\)"),
        (
            [{"resourceSpans": [1, *make_document(*make_run())["resourceSpans"]]}],
            r"left out: resourceSpans\[0\] \(it is no object\)\.",
        ),
        (
            [make_document(*make_run(), 7, None)],
            r"out: resourceSpans\[0\].scopeSpans\[0\].spans\[2\] \(it is no object\), .*\[3\]",
        ),
        ([make_damaged(scopeSpans=7)], r"resourceSpans\[1\].scopeSpans \(it is no list\)"),
        ([make_damaged(scopeSpans=[None])], r"resourceSpans\[1\].scopeSpans\[0\] \(it is no object\)"),
        (
            [make_damaged(scopeSpans=[{"spans": {}}, {"spans": 3}])],
            r"out: resourceSpans\[1\].scopeSpans\[0\].spans \(it is no list\), .*\[1\]",
        ),
        ([make_damaged(resource={"attributes": [4]})], r"resourceSpans\[1\].resource \(its attributes are damaged\)"),
        ([METRICS, make_damaged(resource="x")], r"document 2.resourceSpans\[1\].resource \("),
        ([5, make_document(*make_run())], r"document 1 \(it is no list\)"),
        ([[7, *ROWS]], r"document\[0\] \(it is no object\)"),
        ([{"data": [*ROWS, {"id": 7}]}], r"a span without a name \(it has the names of no format that is known\)"),
    ],
)
def test_t109_what_is_left_out_is_said_and_the_rest_is_read(tmp_path: Path, documents: list[Any], said: str) -> None:
    file = write(tmp_path / "spans.jsonl", *documents)
    with pytest.warns(UserWarning, match=said) as caught:
        runs = load_traces(str(file)).runs
    assert list(runs["name"]) == ["Desk"]
    assert [Path(each.filename).name for each in caught] == ["test_span_documents.py"]


def test_t109_a_damaged_list_of_calls_leaves_the_rest_of_a_message(tmp_path: Path) -> None:
    agent, generation, *rest = OBSERVATIONS
    damaged = generation | {"output": {"role": "assistant", "content": "In Graz.", "tool_calls": 1}}
    trace = ExecutionTrace.load(write(tmp_path / "damaged.json", [agent, damaged, *rest]))
    assert "In Graz." in set(trace.frames.messages["text"])


@pytest.mark.parametrize("indent", [None, 1])
def test_t109_of_a_document_that_is_cut_the_whole_spans_are_read(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps(make_document(*make_run(), make_span(3, 2, "gone")), indent=indent)
    file = tmp_path / "cut.otlp.json"
    file.write_text(text[: text.rindex("endTimeUnixNano")])
    with pytest.warns(UserWarning, match="it is cut off, and the 2 spans before that are read"):
        assert ExecutionTrace.load(file).metrics.input_tokens == 30


@pytest.mark.parametrize("start", [b"", b"\x00\x00\x05\x6a"], ids=["exporter", "collector"])
def test_t109_otlp_as_protobuf_is_said_with_the_remedy(tmp_path: Path, start: bytes) -> None:
    file = tmp_path / "spans.bin"
    file.write_bytes(start + b"\x0a\xe7\x0a\x0a\x20\x0a\x1e\x0a\x0cservice.name\x12\x0e\x0a\x0csome service\x12\xc2")
    for load in (load_traces, ExecutionTrace.load):
        with pytest.raises(TraceFormatError, match=r"it is binary OTLP \(protobuf\).* `format: json`"):
            load(str(file))


@pytest.mark.parametrize(
    "text, said",
    [
        (json.dumps(make_document(*make_run())).replace('"name"', "'name'", 1), "is no JSON .* line 1, column"),
        (json.dumps(make_document(make_span(1, None, "GET /"))), "has no run: its one span tells of no agent"),
        (json.dumps(make_document(make_span(1, None, "GET /"), make_span(2, 1, "x"))), "are 2 spans in it, and none"),
        ('{"resourceSpans": []}', "has no run: there is no span in it"),
        ('{"resourceSpans": [7]}', r"no span in it; left out: resourceSpans\[0\] \(it is no object\)"),
        ('{"resourceSpans": {"a": 1}}', r"no span in it; left out: resourceSpans \(it is no list\)"),
        (
            '{"columns": [1, {"values": [1]}]}',
            r"left out: columns\[0\] \(it is no object\), columns\[1\] \(it has no name",
        ),
        (
            '{"columns": [{"name": "span_id", "values": ["a"]}, {"name": "trace_id", "values": []}]}',
            "its columns have 0 to 1 values each, and a row needs one of each",
        ),
        ('{"data": [{"context": {}}]}', r"no span in it; left out: a span without a name \(it has no trace id\)"),
        ('{"data": "here"}', "has no run: there is no span in it"),
    ],
)
def test_t109_a_file_without_a_run_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.otlp.json"
    file.write_text(text)
    with pytest.raises(TraceFormatError, match=said):
        ExecutionTrace.load(file)


def test_t106_what_is_exported_is_read_back(tmp_path: Path) -> None:
    trace = ExecutionTrace.load(ROOT / "demos" / "report.trace.json.gz")
    trace.export(tmp_path / "report.otlp.json")
    again = ExecutionTrace.load(tmp_path / "report.otlp.json")
    assert again.metrics.input_tokens == trace.metrics.input_tokens
    assert len(again.frames.attempts) == len(trace.frames.attempts)
