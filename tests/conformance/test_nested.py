"""E52, its limits: a run begun inside a task has the budget, the rate limits and the end of the run around it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    BudgetExceededError,
    CaptureMode,
    Condition,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    MemoryEntry,
    Phase,
    PhaseReview,
    RateLimit,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunHandle,
    RunInterrupted,
    RunStatus,
    SpanStatus,
    Task,
    TaskExecutionError,
    TaskOutput,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.conformance.scene import done, run, run_cell, scripted
from tests.support.limits import meet_limit
from tests.support.openai_server import Answer, OpenAIServer

pytestmark = pytest.mark.slow  # waits, servers and long replies: not for `make quick`


def make_inner(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Say a", name="in-a"), Task.of("Say b", name="in-b")], llm=llm, **fields)


def nest_in_handler(inner: Ensemble) -> Task:
    return done("outer", handler=lambda given: inner.run().raw)


def nest_in_async_handler(inner: Ensemble) -> Task:
    async def handle(given: Any) -> str:
        return (await inner.arun()).raw

    return done("outer", handler=handle)


def nest_in_tool(inner: Ensemble) -> Task:
    def ask(question: str) -> str:
        """Ask."""
        return inner.run().raw

    model = scripted(ToolUse("ask", {"question": "x"}), "Told.")
    return Task.of("Ask", name="outer", agent=Agent(role="Asker", goal="Ask", llm=model, tools=[ask]))


def nest_in_guardrail(inner: Ensemble) -> Task:
    def look(output: TaskOutput) -> None:
        inner.run()

    return done("outer", output_guardrails=look)


PLACES: list[Callable[[Ensemble], Task]] = [nest_in_handler, nest_in_async_handler, nest_in_tool, nest_in_guardrail]


@pytest.mark.parametrize("nest", PLACES)
def test_e52_the_budget_of_the_outer_run_holds_and_ends_it(server: OpenAIServer, llm: str, nest: Any) -> None:
    output = run(
        nest(make_inner(llm)), Task.of("Next", llm=llm), budget=Budget(max_llm_calls=1 + (nest is nest_in_tool))
    )
    assert (output.status, output.exit_reason) == (RunStatus.BUDGET_EXCEEDED, ExitReason.BUDGET_EXCEEDED)
    assert len(server.requests) == 1
    assert len(output.failures) == 0


def test_e52_it_raises_inside_with_what_was_bought_and_may_be_caught(server: OpenAIServer, llm: str) -> None:
    caught: list[BudgetExceededError] = []

    def handle(given: Any) -> str:
        try:
            return make_inner(llm).run().raw
        except BudgetExceededError as error:
            caught.append(error)
            return "as far as it went"

    output = run_cell("budget: 1 call\ntasks:\n- {name: a, description: A, handler: handle}", handle=handle)
    assert (output.status, output.raw) == (RunStatus.COMPLETED, "as far as it went")
    inner = caught[0].output
    assert (len(inner), inner.status, len(server.requests)) == (1, RunStatus.BUDGET_EXCEEDED, 1)


def test_e52_its_own_budget_still_only_ends_the_inner_run(server: OpenAIServer, llm: str) -> None:
    outputs: list[EnsembleOutput] = []
    inner = make_inner(llm, budget=Budget(max_llm_calls=1))
    outer = done("outer", handler=lambda given: outputs.append(inner.run()))
    output = run(outer, Task.of("Next", llm=llm), budget=Budget(max_tokens=100_000))
    assert (output.status, outputs[0].status) == (RunStatus.COMPLETED, RunStatus.BUDGET_EXCEEDED)
    assert len(server.requests) == 2


def test_e52_a_run_in_a_run_in_a_run_spends_from_all_budgets(server: OpenAIServer, llm: str) -> None:
    middle = Ensemble(tasks=[nest_in_handler(make_inner(llm))], budget=Budget(max_llm_calls=50))
    output = run(nest_in_handler(middle), budget=Budget(max_llm_calls=1))
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert len(server.requests) == 1


def test_e52_the_rate_limit_of_the_outer_run_holds(server: OpenAIServer, llm: str) -> None:
    first, began = Task.of("First", llm=llm), time.monotonic()
    run(first, nest_in_handler(make_inner(llm)), rate_limit=RateLimit(10, 1))
    assert len(server.requests) == 3
    # Each may come later than it was let go, never earlier.
    assert all(each.opened_at - began >= place * 0.1 - 1e-6 for place, each in enumerate(server.requests))


@pytest.mark.parametrize("nest", PLACES)
@pytest.mark.parametrize("is_timeout", [False, True])
def test_e52_a_stop_of_the_outer_run_stops_the_inner_one(
    server: OpenAIServer, llm: str, nest: Any, is_timeout: bool
) -> None:
    assert run(Task.of("Be ready", llm=llm)).raw == "ok"
    stop_inside(server, lambda: Ensemble(tasks=[nest(make_inner(llm))]), is_timeout=is_timeout)


def stop_inside(server: OpenAIServer, make: Callable[[], Ensemble], *, is_timeout: bool) -> EnsembleOutput:
    """Stop a run while the run inside waits for its model: its request is given up, and no other one is sent."""
    server.default = Answer(delay=300)

    def run_for(limit_s: float | None) -> RunHandle:
        server.requests.clear()
        handle = make().start(timeout=limit_s)
        if limit_s is None:
            wait_for(lambda: bool(server.requests))
            handle.cancel()
        with pytest.raises(RunInterrupted if limit_s is None else DeadlineExceededError):
            handle.result(60)
        return handle

    handle = meet_limit(run_for, lambda _: server.requests, 0.4) if is_timeout else run_for(None)
    wait_for(lambda: server.requests[0].closed_at is not None)
    assert server.requests[0].is_disconnected
    time.sleep(0.5)
    assert len(server.requests) == 1
    assert handle.output is not None
    return handle.output


def test_e52_runs_of_listeners_and_runs_after_the_end_are_independent(server: OpenAIServer, llm: str) -> None:
    go_on, results = threading.Event(), list[EnsembleOutput]()

    def hear(event: Any) -> None:
        if type(event).__name__ == "TaskCompleted":
            results.append(make_inner(llm).run())

    late: list[asyncio.Task[EnsembleOutput]] = []
    outer = Ensemble(tasks=[Task.of("First", llm=llm)], budget=Budget(max_llm_calls=1), listeners=[hear])
    assert outer.run().status is RunStatus.COMPLETED
    assert [each.status for each in results] == [RunStatus.COMPLETED]

    async def main() -> None:
        async def begin_late() -> EnsembleOutput:
            await asyncio.to_thread(go_on.wait, 5)
            return await make_inner(llm).arun()

        async def handle(given: Any) -> str:
            late.append(asyncio.ensure_future(begin_late()))
            return "ok"

        await Ensemble(tasks=[done("outer", handler=handle)], budget=Budget(max_llm_calls=1)).arun()
        go_on.set()
        assert (await late[0]).status is RunStatus.COMPLETED

    asyncio.run(main())


def wait_for(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("mode", list(CaptureMode))
def test_e52_the_inner_run_keeps_no_text_where_the_outer_one_keeps_none(
    server: OpenAIServer, llm: str, mode: CaptureMode
) -> None:
    server.default = Answer("the secret plan")
    outputs: list[EnsembleOutput] = []
    inner = make_inner(llm, capture_mode=mode)
    run(done("outer", handler=lambda given: outputs.append(inner.run())), capture_mode="metadata")
    assert outputs[0].raw == "the secret plan"
    assert outputs[0].trace.capture_mode is CaptureMode.METADATA
    kept = json.dumps(outputs[0].trace.to_dict())
    assert "secret plan" not in kept
    assert "Say a" not in kept


def test_e52_a_run_without_texts_refuses_to_record_inside(llm: str, tmp_path: Path) -> None:
    inner = make_inner(llm)

    def handle(given: Any) -> str:
        with pytest.raises(ValidationError, match="capture_mode metadata keeps no text"):
            inner.run(record=tmp_path / "r.yaml")
        return "refused"

    assert run(done("outer", handler=handle), capture_mode="metadata").raw == "refused"
    assert not list(tmp_path.iterdir())


def test_e52_one_recording_has_the_outer_and_the_inner_run(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    cell = "tasks:\n- {name: inside, description: A, handler: handle}\n- {name: after, description: B, context: inside}"
    names: list[str | None] = []

    def handle(given: Any) -> str:
        output = make_inner(llm).run()
        names.append(output.trace.fold.replayed_from)
        return output.raw

    server.default = Answer("live")
    ensemble = read_cell(f"llm: {llm}\n{cell}", {"handle": handle}).build({"handle": handle})
    live = ensemble.run(record=path)
    assert (live.raw, len(server.requests)) == ("live", 3)
    server.requests.clear()
    server.default = Answer("not asked")
    again = ensemble.run(replay=path)
    assert (again.raw, again["inside"].raw, server.requests) == ("live", "live", [])
    assert names == [None, "run.yaml"]


def test_e52_an_inner_run_may_record_for_itself_as_well(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    outer, own = tmp_path / "outer.yaml", tmp_path / "own.yaml"
    ensemble = Ensemble(tasks=[done("outer", handler=lambda given: make_inner(llm).run(record=own).raw)])
    ensemble.run(record=outer)
    server.requests.clear()
    assert make_inner(llm).run(replay=own).raw == ensemble.run(replay=outer).raw == "ok"
    assert not server.requests


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
        assert trace.fold.sum_metrics(nested).total_tokens == 2 * 18
        assert sum(trace.frames.attempts["input_tokens"].dropna()) == trace.metrics.input_tokens
        assert list(trace.frames.tasks["task"]) == [task.name for task in trace.tasks] == ["outer", "next"]
        assert (len(trace.frames.runs), list(trace.frames.runs["tasks_done"])) == (1, [2])
        assert {"in-a", "in-b"} <= set(trace.frames.spans.query("kind == 'task'")["name"])
    assert [each.name for each in output.task_outputs] == ["outer", "next"]
    rows = [row["name"] for row in TimelineMessages(live.fold).make_snapshot()["rows"]]
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


def review_by(inner: Ensemble, *rest: Task, **fields: Any) -> Ensemble:
    def decide(request: ReviewRequest) -> ReviewDecision:
        inner.run()
        return ReviewDecision.approve()

    return Ensemble(tasks=[done("outer", review=Review()), *rest], review_handler=decide, **fields)


def review_a_phase_by(inner: Ensemble, *rest: Task, **fields: Any) -> Ensemble:
    def decide(request: ReviewRequest) -> ReviewDecision:
        inner.run()
        return ReviewDecision.approve()

    first = Phase(name="one", tasks=[done("outer")], review=PhaseReview(decide))
    return Ensemble(phases=[first, *([Phase(name="two", tasks=rest, after=["one"])] if rest else [])], **fields)


def decide_by(inner: Ensemble, *rest: Task, **fields: Any) -> Ensemble:
    """A condition on `outer`, of the first task of the rest, or of one more."""
    when = Condition("outer", predicate=lambda output: bool(inner.run().raw))
    first, *others = rest or (done("guarded"),)
    return Ensemble(tasks=[done("outer"), replace(first, when=when), *others], **fields)


class AskingMemory:
    """A store that asks models."""

    def __init__(self, inner: Ensemble) -> None:
        self._inner = inner

    def store(self, scope: str, entry: MemoryEntry) -> None:
        self._inner.run()

    def retrieve(self, scope: str, query: str, limit: int) -> list[MemoryEntry]:
        return []


def remember_by(inner: Ensemble, *rest: Task, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[done("outer", memory="notes"), *rest], memory=AskingMemory(inner), **fields)


AROUND: dict[Callable[..., Ensemble], tuple[SpanKind, str | None]] = {
    review_by: (SpanKind.REVIEW, "outer"),
    review_a_phase_by: (SpanKind.REVIEW, None),
    decide_by: (SpanKind.TASK, "outer"),
    remember_by: (SpanKind.MEMORY, "outer"),
}


@pytest.mark.parametrize("make", AROUND)
def test_e52_a_run_of_a_reviewer_a_condition_or_a_memory_hangs_under_it_and_counts_once(
    server: OpenAIServer, llm: str, make: Any, tmp_path: Path
) -> None:
    kind, task = AROUND[make]
    live = make(make_inner(llm, name="inner"), Task.of("Next", name="next", llm=llm)).run().trace
    for trace in (live, type(live).load(live.save(tmp_path / "a.trace.json"))):
        assert find_violations(trace) == []
        by_id = {span.span_id: span for span in trace.spans}
        nested = next(span for span in trace.spans if span.kind is SpanKind.NESTED)
        assert (nested.name, nested.task, by_id[nested.parent_id or ""].kind) == ("inner", task, kind)
        inside = [span.name for span in trace.spans if span.parent_id == nested.span_id and span.kind is SpanKind.TASK]
        assert inside == ["in-a", "in-b"]
        assert trace.metrics.llm_call_count == len(server.requests) == 3
        assert [each.name for each in trace.tasks] == ["outer", "next"]
        assert list(trace.frames.runs["tasks_done"]) == [2]


@pytest.mark.parametrize("make", AROUND)
def test_e52_the_budget_holds_for_a_run_of_a_reviewer_a_condition_or_a_memory(
    server: OpenAIServer, llm: str, make: Any
) -> None:
    output = make(make_inner(llm), Task.of("Next", name="next", llm=llm), budget=Budget(max_llm_calls=1)).run()
    assert (output.status, len(server.requests)) == (RunStatus.BUDGET_EXCEEDED, 1)
    assert find_violations(output.trace) == []
    assert not output.failures


@pytest.mark.parametrize("make", AROUND)
@pytest.mark.parametrize("is_timeout", [False, True])
def test_e52_a_stop_ends_a_run_of_a_reviewer_a_condition_or_a_memory(
    server: OpenAIServer, llm: str, make: Any, is_timeout: bool
) -> None:
    assert run(Task.of("Be ready", llm=llm)).raw == "ok"
    output = stop_inside(server, lambda: make(make_inner(llm)), is_timeout=is_timeout)
    assert find_violations(output.trace) == []
    assert output.metrics.llm_call_count == 1
    if make is decide_by:  # what was done is kept
        assert [each.name for each in output.task_outputs] == ["outer"]


def test_e52_the_static_picture_tells_the_tasks_of_the_plan_from_those_inside(server: OpenAIServer, llm: str) -> None:
    output = run_cell(
        "tasks:\n- {name: outer, description: A, handler: handle}\n- {name: next, description: B}\nllm: " + llm,
        handle=lambda given: make_inner(llm).run().raw,
    )
    html = make_output_bundle(output)["text/html"]
    assert "outputs of 2 tasks, and of 2 inside them" in html
    assert "2/2 tasks" in html
    assert len(output.frames.tasks) == len(output.task_outputs) == 2
