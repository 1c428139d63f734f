"""What files of others say is text, and no secret in it gets anywhere, wherever it stands: names, too (T110)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook import ExecutionTrace, TraceFormatError
from ensemble_notebook.testing import find_violations
from ensemble_notebook.trace.loading import FRAMES
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.hostile_texts import PAYLOADS, Page
from tests.support.session_files import ClaudeCodeSession, CodexSession, call, say

KEY = "sk-proj-" + "k3Y" * 12
START = 1_790_000_000 * 10**9
TIME = "2026-11-28T10:00:0%d.000000+00:00"


def make_otlp(word: str) -> list[Any]:
    """A run in which all that can be a word is this one, but for ids."""
    messages = [{"role": "user", "name": word, "content": word}, {"role": "tool", "name": word, "content": word}]
    told = [
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": word, "input.value": word},
        {
            "gen_ai.operation.name": "chat",
            **dict.fromkeys(("gen_ai.request.model", "gen_ai.response.model", "gen_ai.provider.name"), word),
            "gen_ai.response.finish_reasons": word,
            "gen_ai.system_instructions": word,
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps(
                [
                    {
                        "role": "assistant",
                        "content": word,
                        "tool_calls": [{"id": word, "name": word, "args": {word: word}}],
                    }
                ]
            ),
        },
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": word, "gen_ai.tool.call.id": word}
        | {"gen_ai.tool.call.arguments": json.dumps({"q": word}), "error.type": word},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"{word}2"},
        {"traceloop.span.kind": "workflow", "traceloop.entity.output": word},
    ]
    spans = [
        {
            "traceId": f"{word}-trace",
            "spanId": f"{word}-{place}",
            "parentSpanId": None if place == 0 else f"{word}-{2 if place == 3 else 0}",
            "name": f"{word} {place}",
            "startTimeUnixNano": str(START + place),
            "endTimeUnixNano": str(START + 10**9),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in each.items()],
            "status": {"code": 2 if place == 2 else 0, "message": word},
        }
        for place, each in enumerate(told)
    ]
    return [{"resourceSpans": [{"scopeSpans": [{"scope": {"name": word}, "spans": spans}]}]}]


def make_phoenix(word: str) -> list[Any]:
    told: list[tuple[str, dict[str, Any]]] = [
        ("AGENT", {"agent.name": word, "input.value": word}),
        ("LLM", {"llm.model_name": word, "llm.provider": word, "llm.input_messages.0.message.content": word}),
        ("TOOL", {"tool.name": word, "input.value": json.dumps({"q": word}), "output.value": word, "tool.id": word}),
    ]
    return [
        {
            "data": [
                {
                    "name": f"{word} {place}",
                    "context": {"trace_id": f"{word}-t", "span_id": f"{word}-{place}"},
                    "span_kind": kind,
                    "parent_id": f"{word}-0" if place else None,
                    "start_time": TIME % place,
                    "end_time": TIME % 5,
                    "status_code": "ERROR" if place == 2 else "OK",
                    "status_message": word,
                    "attributes": attributes,
                    "events": [
                        {"name": "exception", "timestamp": TIME % 3, "attributes": {"exception.type": word}},
                    ],
                }
                for place, (kind, attributes) in enumerate(told)
            ]
        }
    ]


def make_langfuse(word: str) -> list[Any]:
    return [
        {
            "id": f"{word}-{place}",
            "traceId": f"{word}-t",
            "parentObservationId": f"{word}-0" if place else None,
            "type": kind,
            "name": f"{word} {place}",
            "startTime": TIME % place,
            "endTime": TIME % 5,
            "level": "ERROR" if kind == "TOOL" else "DEFAULT",
            "statusMessage": word,
            "model": word,
            "input": [{"role": "user", "name": word, "content": word}],
            "output": {"role": "assistant", "content": word, "tool_calls": [{"id": word, "name": word, "args": word}]},
        }
        for place, kind in enumerate(("AGENT", "GENERATION", "TOOL", "SPAN", "EVENT"))
    ]


def make_logfire(word: str) -> list[Any]:
    told = [
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": word, "final_result": word},
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": word, "gen_ai.provider.name": word},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": word, "gen_ai.tool.call.result": word},
    ]
    return [
        {
            "rows": [
                {
                    "trace_id": f"{word}-t",
                    "span_id": f"{word}-{place}",
                    "parent_span_id": f"{word}-0" if place else None,
                    "span_name": f"{word} {place}",
                    "start_timestamp": TIME % place,
                    "end_timestamp": TIME % 5,
                    "otel_status_code": "ERROR" if place == 2 else None,
                    "otel_status_message": word,
                    "otel_scope_name": word,
                    "exception_type": word if place == 2 else None,
                    "exception_message": word,
                    "attributes": attributes,
                }
                for place, attributes in enumerate(told)
            ]
        }
    ]


def make_claude_code(word: str) -> list[Any]:
    session = ClaudeCodeSession(session_id=f"{word}-s", model=word)
    session.ask(1, word)
    session.reply(2, "m1", say(word), call(f"{word}-c", word, **{word: word}))
    session.result(3, f"{word}-c", word, is_error=True)
    session.reply(4, "m2", call("c2", "Task", subagent_type=word, prompt=word, description=word))
    session.result(5, "c2", word)
    session.add("custom-title", 6, customTitle=word)
    return session.rows


def make_codex(word: str) -> list[Any]:
    session = CodexSession(f"{word}-s", cwd=word)
    session.add("turn_context", 0, model=word)
    session.ask(1, word)
    session.call(2, f"{word}-c", word, **{word: word})
    session.result(3, f"{word}-c", word)
    session.say(4, word)
    return session.rows


FORMATS = [make_otlp, make_phoenix, make_langfuse, make_logfire, make_claude_code, make_codex]


def load(folder: Path, documents: list[Any]) -> ExecutionTrace:
    path = folder / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, documents)))
    return ExecutionTrace.load(path)


@pytest.mark.parametrize("make", FORMATS)
def test_t110_a_key_in_a_name_or_a_text_of_others_is_in_no_view(
    tmp_path: Path, make: Callable[[str], list[Any]]
) -> None:
    trace = load(tmp_path, make(f"see {KEY}"))
    assert find_violations(trace) == []
    views = {name: getattr(trace.frames, name).reset_index().to_csv() for name in FRAMES}
    for ending in ("trace.json", "html", "svg", "otlp.json", "chrome.json"):
        views[ending] = trace.export(tmp_path / f"out.{ending}").read_text()
    views |= {"repr": repr(trace), "messages": str(trace.messages()), "diff": str(trace.diff(trace))}
    views["live"] = json.dumps(TimelineMessages(trace._fold).make_saved_view())
    assert [name for name, text in views.items() if KEY in text] == []
    assert "***" in views["spans"]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("make", FORMATS)
def test_t110_a_text_or_a_name_of_others_is_never_a_part_of_a_page(
    tmp_path: Path, make: Callable[[str], list[Any]], payload: str
) -> None:
    pages = [
        Page(load(tmp_path, make(word)).export(tmp_path / "page.html").read_text()) for word in (payload, "a word")
    ]
    assert set(pages[0].find_active()) == set(pages[1].find_active())


@pytest.mark.parametrize("make", FORMATS)
def test_t110_half_a_character_of_others_hinders_no_view(tmp_path: Path, make: Callable[[str], list[Any]]) -> None:
    trace = load(tmp_path, make("a wave \ud83c"))
    trace.frames.to_parquet(tmp_path / "tables")
    for ending in ("trace.json", "html", "svg", "otlp.json", "chrome.json"):
        trace.export(tmp_path / f"out.{ending}").read_text(encoding="utf-8")
    assert "a wave \ufffd" in trace.frames.spans.to_csv()


IDS = st.sampled_from(["a", "b", "c", "d", "e", 7])
PARENTS = st.sampled_from(["", "a", "b", "c", None, 7, "elsewhere"])
NUMBERS = st.one_of(st.integers(-5, 900), st.sampled_from([None, "9", 1.5, True, 10**20, float("inf"), float("nan")]))
TEXTS = st.sampled_from([*PAYLOADS, "", "\ud800", "\x00", '{"messages": [7]}', '[{"role": "tool"}]', "{", "[" * 900])
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(TEXTS, inside, max_size=2),
    max_leaves=4,
)
TIMES = st.one_of(
    st.integers(-3, 9).map(lambda number: str(START + number)),
    st.integers(0, 9).map(lambda number: TIME % number),
    st.sampled_from(["soon", "", None, 0, "9" * 27, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]),
)


def fields(
    always: dict[str, st.SearchStrategy[Any]] | None = None, **known: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields, each of which may be anything, beside those that are always there."""
    odd = {name: st.one_of(each, each, ANYTHING) for name, each in known.items()}
    return st.fixed_dictionaries(always or {}, optional=odd)


ATTRIBUTES = {
    "openinference.span.kind": st.sampled_from(["LLM", "AGENT", "TOOL", "CHAIN", "new"]),
    "gen_ai.usage.input_tokens": NUMBERS,
    "llm.token_count.completion": NUMBERS,
    "gen_ai.usage.cost": NUMBERS,
    "gen_ai.input.messages": ANYTHING,
    "gen_ai.output.messages": ANYTHING,
    "llm.input_messages.0.message.content": ANYTHING,
    "gen_ai.tool.call.arguments": ANYTHING,
    "logfire.span_type": st.just("pending_span"),
    "logfire.pending_parent_id": IDS,
    "metadata": ANYTHING,
}
KIND = {"gen_ai.operation.name": st.sampled_from(["chat", "invoke_agent", "execute_tool", "new"])}
INSTANTS = st.one_of(st.integers(0, 9).map(lambda number: TIME % number), TIMES)
OTLP = fields(
    {
        "traceId": st.sampled_from(["t", "u"]),
        "spanId": IDS,
        "startTimeUnixNano": st.one_of(st.integers(-3, 9).map(lambda number: str(START + number)), TIMES),
    },
    parentSpanId=PARENTS,
    name=TEXTS,
    endTimeUnixNano=TIMES,
    attributes=fields(KIND, **ATTRIBUTES).map(
        lambda told: [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    ),
    events=st.lists(fields(name=st.just("exception"), timeUnixNano=TIMES, attributes=ANYTHING), max_size=2),
    status=fields(code=st.sampled_from([1, 2, "ERROR"]), message=TEXTS),
)
SPANS = st.one_of(
    OTLP,
    fields(
        {
            "context": st.fixed_dictionaries({"trace_id": st.just("t"), "span_id": IDS}),
            "span_kind": st.sampled_from(["LLM", "AGENT", "TOOL"]),
            "start_time": INSTANTS,
        },
        parent_id=PARENTS,
        name=TEXTS,
        end_time=TIMES,
        attributes=fields(**ATTRIBUTES),
        events=st.lists(fields(name=st.just("exception"), timestamp=TIMES, attributes=ANYTHING), max_size=2),
        status_code=st.sampled_from(["OK", "ERROR"]),
    ),
    fields(
        {
            "id": IDS,
            "traceId": st.just("t"),
            "type": st.sampled_from(["SPAN", "GENERATION", "AGENT", "TOOL", "EVENT", "new"]),
            "startTime": INSTANTS,
        },
        parentObservationId=PARENTS,
        name=TEXTS,
        endTime=TIMES,
        level=st.sampled_from(["ERROR", "DEFAULT"]),
        input=ANYTHING,
        output=ANYTHING,
        usageDetails=st.dictionaries(st.sampled_from(["input", "output", "input_cached_tokens"]), NUMBERS),
        costDetails=st.dictionaries(st.sampled_from(["input", "total"]), NUMBERS),
        totalCost=NUMBERS,
        model=TEXTS,
    ),
    fields(
        {
            "trace_id": st.just("t"),
            "span_id": IDS,
            "start_timestamp": INSTANTS,
            "attributes": fields(KIND, **ATTRIBUTES),
        },
        parent_span_id=PARENTS,
        kind=st.sampled_from(["span", "pending_span"]),
        span_name=TEXTS,
        end_timestamp=TIMES,
        otel_status_code=st.sampled_from(["ERROR", None]),
        exception_type=TEXTS,
    ),
)


@given(st.lists(SPANS, min_size=1, max_size=8), st.booleans())
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore:.*left out:UserWarning")
def test_any_spans_of_these_formats_are_sound_runs_or_refused(spans: list[Any], is_otlp: bool) -> None:
    from ensemble_notebook.trace.trace_file import read_span_runs

    document = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]} if is_otlp else {"data": spans}
    try:
        runs = read_span_runs(json.dumps(document).encode(), Path("spans.json"))
    except TraceFormatError:
        return
    for events in runs:
        trace = ExecutionTrace.from_events(events)
        assert find_violations(trace) == []
        json.dumps(TimelineMessages(trace._fold).make_saved_view(), allow_nan=False)
        str(trace.messages())
