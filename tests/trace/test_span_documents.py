"""Files of spans of other frameworks (T106)."""

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
    with pytest.warns(UserWarning, match="last line of .* was cut off"):
        assert len(load_traces(str(file)).runs) == 1


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


@pytest.mark.parametrize(
    "text, said",
    [
        (json.dumps(make_document(*make_run()))[:-40], "is no whole JSON document: .* line 1, column"),
        (json.dumps(make_document({"name": "GET /"})), "has 1 spans, and none tells of agents"),
        ('{"resourceSpans": [7]}', "are damaged"),
        ('{"data": [{"context": {}}]}', "are damaged"),
    ],
)
def test_t106_a_damaged_file_is_refused_by_its_place(tmp_path: Path, text: str, said: str) -> None:
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
