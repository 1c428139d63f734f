"""E52 around tasks: runs that reviewers, conditions and memories begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Budget,
    Condition,
    Ensemble,
    MemoryEntry,
    Phase,
    PhaseReview,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunStatus,
    Task,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.conformance.scene import done, run
from tests.support.nested_runs import (
    make_inner,
    stop_inside,
)
from tests.support.openai_server import OpenAIServer


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
