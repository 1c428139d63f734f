"""E52, its limits: a run begun inside a task has the budget, the rate limits and the end of the run around it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Budget,
    BudgetExceededError,
    CaptureMode,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    RateLimit,
    RunStatus,
    Task,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import done, run, run_cell
from tests.support.nested_runs import (
    PLACES,
    make_inner,
    nest_in_handler,
    nest_in_tool,
    stop_inside,
)
from tests.support.openai_server import Answer, OpenAIServer


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
        names.append(output.trace._fold.replayed_from)
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
