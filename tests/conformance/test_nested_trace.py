"""E52, what is told of it: a run begun inside a task is in the trace of the run around it, and counts once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    Phase,
    RunStatus,
    SpanStatus,
    Task,
    TaskExecutionError,
)
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.conformance.scene import done, run, run_cell
from tests.support.nested_runs import (
    PLACES,
    make_inner,
    nest_in_guardrail,
    nest_in_handler,
    nest_in_tool,
    wait_for,
)
from tests.support.openai_server import Answer, OpenAIServer


@pytest.mark.parametrize("nest", PLACES)
def test_e52_the_inner_run_hangs_under_its_caller_and_counts_once(
    server: OpenAIServer, llm: str, nest: Any, tmp_path: Path
) -> None:
    output = run(nest(make_inner(llm, name="inner")), Task.of("Next", name="next", llm=llm))
    live = output.trace
    scripts = 2 if nest is nest_in_tool else 0
    for trace in (live, type(live).load(live.save(tmp_path / "a.trace.json"))):
        assert find_violations(trace) == []
        by_id = {span.span_id: span for span in trace.spans}
        nested = next(span for span in trace.spans if span.kind is SpanKind.NESTED)
        caller = {nest_in_tool: SpanKind.TOOL, nest_in_guardrail: SpanKind.GUARDRAIL}.get(nest, SpanKind.TASK)
        assert (nested.name, nested.task, by_id[nested.parent_id or ""].kind) == ("inner", "outer", caller)
        inside = [span.name for span in trace.spans if span.parent_id == nested.span_id and span.kind is SpanKind.TASK]
        assert inside == ["in-a", "in-b"]
        assert trace.metrics.llm_call_count == len(server.requests) + scripts == 3 + scripts
        assert trace._fold.sum_metrics(nested).total_tokens == 2 * 18
        assert sum(trace.frames.attempts["input_tokens"].dropna()) == trace.metrics.input_tokens
        assert list(trace.frames.tasks["task"]) == [task.name for task in trace.tasks] == ["outer", "next"]
        assert (len(trace.frames.runs), list(trace.frames.runs["tasks_done"])) == (1, [2])
        assert {"in-a", "in-b"} <= set(trace.frames.spans.query("kind == 'task'")["name"])
    assert [each.name for each in output.task_outputs] == ["outer", "next"]
    rows = [row["name"] for row in TimelineMessages(live._fold).make_snapshot()["rows"]]
    assert {"inner", "in-a", "in-b"} <= set(rows)


def test_e52_an_inner_run_of_a_cell_is_seen_and_logged_once(
    server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture
) -> None:
    phases = [Phase(name="one", tasks=[Task.of("Say a", name="in-a")])]
    inner = Ensemble(phases=phases, llm=llm, name="inner")
    with caplog.at_level("INFO", "ensemble_notebook.run"):
        output = run_cell("- {name: a, description: A, handler: handle}", handle=lambda given: inner.run().raw)
    assert find_violations(output.trace) == []
    assert [span.name for span in output.trace.spans if span.kind is SpanKind.PHASE] == ["one"]
    assert (len(output.trace.phases), len(output.trace.frames.phases)) == (0, 0)
    assert "in-a" in repr(output.trace.spans)
    assert sum("Task in-a completed" in each.getMessage() for each in caplog.records) == 1


def test_e52_a_failed_inner_run_fails_its_span(server: OpenAIServer, llm: str) -> None:
    inner = Ensemble(tasks=[done("in-a", handler=lambda given: 1 // 0)])

    def handle(given: Any) -> str:
        with pytest.raises(TaskExecutionError):
            inner.run()
        return "never mind"

    output = run(done("outer", handler=handle))
    assert (output.status, find_violations(output.trace)) == (RunStatus.COMPLETED, [])
    nested = next(span for span in output.trace.spans if span.kind is SpanKind.NESTED)
    assert (nested.status, nested.error_type) == (SpanStatus.ERROR, "ZeroDivisionError")


def test_e52_what_nobody_waits_for_ends_with_its_caller(server: OpenAIServer, llm: str) -> None:
    is_left = threading.Event()
    server.default = Answer(until=is_left.is_set)

    def begin(given: Any) -> str:
        make_inner(llm).start()
        wait_for(lambda: bool(server.requests))
        return "left it"

    def let_it_go_on(given: Any) -> None:
        is_left.set()
        wait_for(lambda: len(server.requests) == 2)

    output = Ensemble(tasks=[done("outer", handler=begin), done("next", handler=let_it_go_on)]).run()
    assert find_violations(output.trace) == []
    nested = next(span for span in output.trace.spans if span.kind is SpanKind.NESTED)
    inside = [span for span in output.trace.spans if span.nested_in == nested.span_id]
    assert [span.kind for span in inside] == [SpanKind.TASK, SpanKind.TURN, SpanKind.LLM, SpanKind.ATTEMPT]
    assert {span.status for span in (nested, *inside)} == {SpanStatus.CANCELLED}
    assert (output.metrics.llm_call_count, output.metrics.tokens_complete) == (1, False)


def test_e52_no_text_of_the_inner_run_is_in_the_trace_of_a_run_without_texts(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("the secret plan")
    output = run(done("outer", handler=lambda given: make_inner(llm).run() and "x"), capture_mode="metadata")
    kept = json.dumps(output.trace.to_dict())
    assert "in-a" in kept
    assert "secret plan" not in kept
    assert "Say a" not in kept
    assert output.metrics.llm_call_count == 2


def test_e52_a_run_on_a_loop_of_its_own_has_the_inner_run_too(server: OpenAIServer, llm: str) -> None:
    output = asyncio.run(Ensemble(tasks=[nest_in_handler(make_inner(llm))]).arun())
    assert find_violations(output.trace) == []
    assert output.metrics.llm_call_count == 2
    assert [span.status for span in output.trace.spans if span.kind is SpanKind.NESTED] == [SpanStatus.OK]


def test_e52_the_static_picture_tells_the_tasks_of_the_plan_from_those_inside(server: OpenAIServer, llm: str) -> None:
    output = run_cell(
        "tasks:\n- {name: outer, description: A, handler: handle}\n- {name: next, description: B}\nllm: " + llm,
        handle=lambda given: make_inner(llm).run().raw,
    )
    html = make_output_bundle(output)["text/html"]
    assert "outputs of 2 tasks, and of 2 inside them" in html
    assert "2/2 tasks" in html
    assert len(output.frames.tasks) == len(output.task_outputs) == 2
