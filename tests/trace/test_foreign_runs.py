"""Runs of other frameworks, from their spans (T101, T102, W177)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.importers.foreign_run import LOST_AFTER_NS, ForeignRuns, import_runs
from ensemble_notebook.importers.foreign_span import ForeignSpan, ForeignSpanEvent
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.execution_trace import ExecutionTrace

MS = 10**6
START = 1_790_000_000 * 10**9
CONVENTIONS = "the conventions"
INFERENCE = "openinference.instrumentation.some"


def make(number: int, parent: int | None, name: str, start: int, end: int | None, **more: Any) -> ForeignSpan:
    """A span from `start` to `end`, in milliseconds since the first."""
    told = {key.replace("__", "."): value for key, value in more.pop("told", {}).items()}
    return ForeignSpan(
        trace_id=more.pop("trace", "trace"),
        span_id=f"span{number}",
        parent_id=None if parent is None else f"span{parent}",
        name=name,
        start_ns=START + start * MS,
        end_ns=None if end is None else START + end * MS,
        attributes=told,
        **more,
    )


def load(spans: Iterable[ForeignSpan]) -> list[ExecutionTrace]:
    traces = [ExecutionTrace(each) for each in import_runs(spans)]
    assert [violation for each in traces for violation in find_violations(each)] == []
    return traces


def by_conventions() -> list[ForeignSpan]:
    """An agent with a tool that asks another agent, as the conventions write it."""
    chat = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-4o", "gen_ai__provider__name": "openai"}
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How warm is it?"}]}])
    call = {"type": "tool_call", "id": "call1", "name": "ask", "arguments": {"question": "warm?"}}
    said = json.dumps([{"role": "assistant", "parts": [call]}])
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "18 degrees"}]}])
    agent = {"gen_ai__operation__name": "invoke_agent"}
    tokens = {"gen_ai__usage__input_tokens": 100, "gen_ai__usage__output_tokens": 10}
    cached = {"gen_ai__usage__cache_read__input_tokens": 40, "gen_ai__response__model": "gpt-4o-2024-08-06"}
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "ask", "gen_ai__tool__call__id": "call1"}
    tool |= {"gen_ai__tool__call__arguments": '{"question": "warm?"}', "gen_ai__tool__call__result": "18 degrees"}
    messages = {"gen_ai__system_instructions": '[{"type": "text", "content": "Be brief."}]'}
    messages |= {"gen_ai__input__messages": asked}
    return [
        make(1, None, "invoke_agent Desk", 0, 100, told=agent | {"gen_ai__agent__name": "Desk"} | tokens),
        make(2, 1, "chat gpt-4o", 5, 20, told=chat | tokens | cached | messages | {"gen_ai__output__messages": said}),
        make(3, 1, "execute_tool ask", 20, 60, told=tool),
        make(4, 3, "invoke_agent Forecaster", 25, 55, told=agent | {"gen_ai__agent__name": "Forecaster"}),
        make(5, 4, "chat gpt-4o", 30, 50, told=chat | tokens | {"gen_ai__output__messages": answer}),
        make(6, 1, "chat gpt-4o", 60, 90, told=chat | tokens | {"gen_ai__output__messages": answer}),
    ]


def by_inference() -> list[ForeignSpan]:
    """The same agent alone, as OpenInference writes it."""
    kind = "openinference__span__kind"
    flat = {"llm__input_messages__0__message__role": "user", "llm__input_messages__0__message__content": "How warm?"}
    path = "llm__output_messages__0__message__"
    flat |= {f"{path}role": "assistant", f"{path}tool_calls__0__tool_call__function__name": "look_up"}
    flat |= {f"{path}tool_calls__0__tool_call__function__arguments": '{"city": "Paris"}'}
    tokens = {"llm__token_count__prompt": 30, "llm__token_count__completion": 5, "llm__model_name": "gpt-4o"}
    cost = {"llm__cost__total": 0.25}
    tool = {kind: "TOOL", "tool__name": "look_up", "input__value": '{"city": "Paris"}', "output__value": "18 degrees"}
    spans = [
        make(1, None, "Forecaster.run", 0, 100, told={kind: "AGENT", "output__value": "It is warm."} | tokens),
        make(2, 1, "Model", 5, 20, told={kind: "LLM"} | flat | tokens | cost),
        make(3, 1, "look_up", 25, 60, told=tool),
    ]
    return [ForeignSpan(**{**{f: getattr(each, f) for f in each.__slots__}, "scope": INFERENCE}) for each in spans]


def test_t102_an_agent_that_a_tool_runs_is_delegated_to() -> None:
    (trace,) = load(by_conventions())
    frames = trace.frames
    assert trace.status is RunStatus.COMPLETED
    assert list(frames.spans.query("kind == 'task'")["agent"]) == ["Desk", "Forecaster"]
    assert list(frames.delegations["delegate_to"]) == ["Forecaster"]
    assert list(frames.delegations["delegator"]) == ["Desk"]
    assert list(frames.tool_calls["tool"]) == ["ask"]
    assert not frames.spans["is_clamped"].any()


def test_t101_tokens_count_at_model_calls_alone() -> None:
    (trace,) = load(by_conventions())
    assert (trace.metrics.input_tokens, trace.metrics.output_tokens) == (300, 30)
    assert trace.frames.spans["cache_read_tokens"].sum() == 40
    calls = trace.frames.llm_calls
    assert list(calls["model"]) == ["gpt-4o-2024-08-06", "gpt-4o", "gpt-4o"]
    assert trace.metrics.cost is not None
    assert trace.metrics.cost > 0
    assert trace.frames.spans["cost_source"].isna().all()


def test_t101_messages_are_read_in_the_order_in_which_they_were_said() -> None:
    (trace,) = load(by_conventions())
    messages = trace.frames.messages
    said = messages[messages["task"] == "Desk"]
    assert list(said["role"]) == ["system", "user", "assistant", "tool", "assistant"]
    assert list(said["text"]) == ["Be brief.", "How warm is it?", "", "18 degrees", "18 degrees"]


def test_t101_openinference_tells_agent_tool_and_cost() -> None:
    (trace,) = load(by_inference())
    assert list(trace.frames.tasks["agent"]) == ["Forecaster"]
    assert trace.metrics.cost == Decimal("0.25")
    attempt = trace.frames.attempts.iloc[0]
    assert (attempt["cost"], attempt["cost_source"]) == (0.25, INFERENCE)
    assert (trace.metrics.input_tokens, trace.metrics.output_tokens) == (30, 5)
    messages = trace.frames.messages
    assert list(messages["role"]) == ["user", "assistant", "tool"]
    assert trace._fold.spans[trace.frames.tasks.index[0]].output == "It is warm."


def test_t101_a_model_call_without_messages_has_the_texts_of_its_input_and_output() -> None:
    told = {"openinference__span__kind": "LLM", "input__value": "How warm?", "output__value": "18 degrees"}
    for spans in ([make(1, None, "ask", 0, 9, told=told)], [make(1, None, "ask", 0, None, told=told)]):
        said = load(spans)[0].frames.messages[["role", "text"]].to_numpy().tolist()
        assert said[:1] == [["user", "How warm?"]]
    assert load([make(1, None, "ask", 0, 9, told=told)])[0].frames.messages["text"].tolist()[1:] == ["18 degrees"]


def test_t101_a_tool_that_is_named_by_its_span_alone_has_that_name() -> None:
    kinds = ({"openinference.span.kind": "AGENT"}, {"openinference.span.kind": "TOOL"})
    spans = [make(1, None, "Forecaster.run", 0, 9, told=kinds[0]), make(2, 1, "weather.run", 1, 2, told=kinds[1])]
    (trace,) = load(spans)
    frame = trace.frames.spans
    assert [*frame.loc[frame["kind"] == "tool", "tool"]] == ["weather"]


def test_t101_what_langgraph_raises_to_hand_over_is_no_failure() -> None:
    raised = ForeignSpanEvent("exception", START, {"exception.type": "langgraph.errors.ParentCommand"})
    told = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "Desk"}
    span = make(1, None, "invoke_agent Desk", 0, 10, told=told, events=[raised], status="error")
    (trace,) = load([span])
    assert trace.status is RunStatus.COMPLETED


def test_t102_what_is_wrapped_twice_under_one_name_is_one_task_and_steps_are_their_agent_s() -> None:
    kind = "openinference__span__kind"
    asked = {"llm__model_name": "gpt-4o", "llm__token_count__prompt": 3, "llm__token_count__completion": 1}
    named = {kind: "CHAIN", "metadata": '{"lc_agent_name": "Desk"}'}
    spans = [
        make(1, None, "Crew_0f0e0d0c-0000-4000-8000-000000000000.kickoff", 0, 100, told={kind: "CHAIN"}),
        make(2, 1, "Desk", 5, 90, told={kind: "CHAIN"}),
        make(3, 2, "Desk", 6, 80, told=named),
        make(4, 3, "model", 10, 40, told={kind: "CHAIN"}),
        make(5, 4, "Chat", 11, 30, told={kind: "LLM"} | asked),
    ]
    (trace,) = load(spans)
    tasks = trace.frames.spans.query("kind == 'task'")
    assert trace.name == "Crew"
    assert list(tasks["name"]) == ["Desk", "model"]
    assert list(trace.frames.llm_calls["agent"]) == ["Desk"]


def test_t102_a_failure_is_that_of_its_span() -> None:
    raised = {
        "exception.type": "openai.RateLimitError",
        "exception.message": "slow down, sk-abcdefghijklmnopqrstuv0123",
    }
    told = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-4o"}
    event = ForeignSpanEvent("exception", START, raised)
    root = make(1, None, "workflow", 0, 20, told={"gen_ai__operation__name": "invoke_workflow"})
    failed = make(2, 1, "chat", 1, 10, told=told, status="error", events=[event])
    (trace,) = load([root, failed])
    assert trace.status is RunStatus.COMPLETED
    error = trace.frames.errors.to_dict("records")[-1]
    assert error["error_type"] == "RateLimitError"
    assert "sk-abcdefghijklmnopqrstuv0123" not in str(trace.frames.spans.to_dict())
    assert "slow down" in error["error_message"]


@pytest.mark.parametrize("parent", [None, 9])
def test_t102_two_topmost_spans_of_a_trace_are_two_runs_also_below_a_request(parent: int | None) -> None:
    request = [make(9, None, "GET /ask", 0, 100)] if parent else []
    told = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "Desk"}
    spans = [make(k, parent, f"invoke_agent {k}", 10 * k, 10 * k + 5, told=told) for k in (1, 2)]
    traces = load([*request, *spans])
    assert len({each.run_id for each in traces}) == 2


def test_t102_a_span_whose_parent_is_nowhere_hangs_under_the_root_of_its_trace() -> None:
    told = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-4o"}
    root = make(1, None, "flow", 0, 50, told={"gen_ai__operation__name": "invoke_workflow"})
    (trace,) = load([root, make(2, 77, "chat", 10, 20, told=told)])
    assert len(trace.frames.llm_calls) == 1
    (alone,) = load([make(2, 77, "chat", 10, 20, told=told)])
    assert len(alone.frames.llm_calls) == 1


def test_t102_what_begins_after_its_root_is_a_run_of_its_own() -> None:
    spans = by_conventions()
    later = make(8, 1, "invoke_agent Later", 150, 160, told=dict(spans[0].attributes))
    assert [each.name for each in load([*spans, later])] == ["Desk", "Desk"]


def test_t102_times_that_can_not_be_are_moved_and_marked() -> None:
    spans = by_conventions()
    early = make(7, 2, "x", 0, 0)
    out = make(8, 1, "late tool", 95, 400, told={"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "t"})
    back = make(9, 1, "back", 50, 40, told={"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "b"})
    (trace,) = load([*spans, early, out, back])
    moved = trace.frames.spans.query("is_clamped")
    assert set(moved["tool"].dropna()) == {"t", "b"}


def test_t102_a_root_that_is_open_for_an_hour_is_lost_and_what_ends_later_is_counted() -> None:
    runs, spans = ForeignRuns(), by_conventions()
    events = [event for each in spans[:3] for event in runs.start(each)]
    events += runs.end(spans[1])
    assert runs.settle(START + LOST_AFTER_NS - 1) == []
    events += runs.settle(START + LOST_AFTER_NS)
    trace = ExecutionTrace(events)
    assert find_violations(trace) == []
    assert trace.status is RunStatus.INTERRUPTED
    assert set(trace.frames.tool_calls["status"]) == {SpanStatus.INTERRUPTED}
    assert runs.end(spans[0]) == runs.end(spans[2]) == []
    assert runs.late_ends == 2


def test_t102_kinds_that_come_late_make_the_same_run() -> None:
    spans = by_inference()
    early = [
        ForeignSpan(**{**{f: getattr(each, f) for f in each.__slots__}, "attributes": {}, "end_ns": None})
        for each in spans
    ]
    runs, events = ForeignRuns(), []
    moments = [(each.start_ns, k, False) for k, each in enumerate(spans)]
    moments += [(each.end_ns or 0, k, True) for k, each in enumerate(spans)]
    for _, k, is_end in sorted(moments):
        events += runs.end(spans[k]) if is_end else runs.start(early[k])
    live = ExecutionTrace(events)
    assert find_violations(live) == []
    (whole,) = load(spans)
    columns = ["kind", "start_ms", "status", "input_tokens", "output_tokens", "cost", "tool"]
    live_rows, rows = (each.frames.spans[columns].astype(str).sort_values(columns) for each in (live, whole))
    assert live_rows.to_dict("list") == rows.to_dict("list")


KINDS: list[dict[str, Any]] = [
    {},
    {"gen_ai__operation__name": "chat"},
    {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m", "gen_ai__usage__input_tokens": 5},
    {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "A"},
    {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "t"},
    {"gen_ai__operation__name": "of a version to come"},
    {"openinference__span__kind": "LLM", "llm__token_count__prompt": -4, "llm__token_count__completion": 2.5},
    {"openinference__span__kind": "CHAIN", "input__value": "[{"},
    {"traceloop__span__kind": "workflow", "gen_ai__prompt__x__role": 4, "gen_ai__system_instructions": 7},
]


@given(st.integers(0, 10**9), st.integers(1, 25), st.booleans())
def test_t102_the_invariants_hold_whatever_spans_say(seed: int, count: int, is_live: bool) -> None:
    chance = random.Random(seed)
    spans = []
    for k in range(count):
        parent = chance.choice([None, *range(count + 2)])
        start = chance.randint(0, 100)
        end = chance.choice([None, start + chance.randint(-20, 100)])
        more: dict[str, Any] = {"status": chance.choice(["unset", "ok", "error"]), "trace": chance.choice(["a", "b"])}
        more["scope"] = chance.choice(["", "openinference.instrumentation.langchain"])
        spans.append(make(k, parent, f"span {k}", start, end, told=dict(chance.choice(KINDS)), **more))
    if not is_live:
        load(spans)
        return
    runs, events = ForeignRuns(), {}
    moments = [(each, False) for each in spans] + [(each, True) for each in spans if each.end_ns is not None]
    chance.shuffle(moments)
    moments.sort(key=lambda each: each[1])  # each start before each end, in any other order
    made = [event for each, is_end in moments for event in (runs.end(each) if is_end else runs.start(each))]
    for event in [*made, *runs.settle(START + chance.randint(0, 2) * 2 * 10**9), *runs.close()]:
        events.setdefault(event.run_id, []).append(event)
    assert [violation for each in events.values() for violation in find_violations(ExecutionTrace(each))] == []


def test_w177_an_agent_that_tells_its_name_at_its_end_has_it_as_soon_as_what_is_inside_it_tells_it() -> None:
    scope = "openinference.instrumentation.langchain"
    kind, told = "openinference__span__kind", {"metadata": '{"lc_agent_name": "Desk"}'}
    runs = ForeignRuns()
    events = runs.start(make(1, None, "Desk", 0, None, scope=scope))
    for step in (10, 50):
        for number, name in ((step, "model"), (step + 1, "Chat")):
            events += runs.start(make(number, 1 if number == step else step, name, number, None, scope=scope))
        for number, name, each in ((step + 1, "Chat", "LLM"), (step, "model", "CHAIN")):
            around = 1 if number == step else step
            events += runs.end(make(number, around, name, number, step + 20, scope=scope, told={kind: each} | told))
    live = ExecutionTrace(events).frames.spans.query("kind == 'task'")
    assert list(live["name"]) == ["model", "model_2"]
    assert list(live["agent"]) == ["Desk", "Desk"]
    events += runs.end(make(1, None, "Desk", 0, 90, scope=scope, told={kind: "CHAIN"} | told))
    trace = ExecutionTrace(events)
    assert find_violations(trace) == []
    assert list(trace.frames.spans.query("kind == 'task'")["agent"]) == ["Desk", "Desk"]
    assert list(trace.frames.llm_calls["agent"])[-1] == "Desk"
