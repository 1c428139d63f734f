"""What a run gives back (E7, C31)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason, RunStatus, Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.errors import EnsembleError

PARALLEL, SEQUENTIAL = Workflow.PARALLEL, Workflow.SEQUENTIAL


async def echo(given: TaskInput) -> str:
    return f"{given.name}!"


async def fail(given: TaskInput) -> str:
    raise ValueError(f"{given.name} is broken")


def after(turns: int) -> Callable[[TaskInput], Awaitable[str]]:
    """A handler that lets others go first."""

    async def handler(given: TaskInput) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"{given.name}!"

    return handler


def task(name: str, *context: str, handler: Any = echo) -> Task:
    return Task.of(name, name=name, context=context, handler=handler)


def output_of(*tasks: Task, workflow: Workflow = PARALLEL, **fields: Any) -> EnsembleOutput:
    """The output of a run, whole or partial."""
    return kept(Ensemble(tasks=tasks, workflow=workflow, **fields))


def kept(ensemble: Ensemble) -> EnsembleOutput:
    handle = ensemble.start()
    with contextlib.suppress(EnsembleError):
        handle.result()
    assert handle.output is not None
    return handle.output


# --- the final text (E7) ---


def test_raw_is_the_last_task_of_a_sequence_e7() -> None:
    assert output_of(task("a"), task("b"), workflow=SEQUENTIAL).raw == "b!"


def test_raw_is_the_task_that_all_others_lead_to_wherever_it_stands_e7() -> None:
    assert output_of(task("sum", "a", "b"), task("a"), task("b")).raw == "sum!"


def test_raw_is_the_last_completed_where_several_lead_nowhere_e7() -> None:
    assert output_of(task("late", handler=after(5)), task("soon")).raw == "late!"


def test_raw_is_empty_where_the_final_task_failed_e7() -> None:
    assert output_of(task("a"), task("b", "a", handler=fail)).raw == ""


def test_nothing_stands_in_for_a_final_task_that_failed_under_partial_e7() -> None:
    borne = output_of(task("a"), task("b", "a", handler=fail), error_strategy="partial")
    assert (borne.status, borne.raw, borne.parsed_output) == (RunStatus.COMPLETED_WITH_WARNINGS, "", None)
    two = output_of(task("a"), task("b"), task("c", handler=fail), workflow=PARALLEL, error_strategy="partial")
    assert two.raw == "b!"


def test_the_last_text_stands_in_for_a_final_task_that_was_not_to_run_e33() -> None:
    assert output_of(task("a"), Task(name="b", description="b", handler=echo, when={"a": "x"})).raw == "a!"


def test_raw_is_empty_where_nothing_was_completed() -> None:
    assert output_of(task("a", handler=fail)).raw == ""


@pytest.mark.parametrize(
    "phases, final",
    [
        ([Phase.of("a", task("a1"), task("a2")), Phase.of("b", task("b1"), after=["a"])], "b1"),
        ([Phase.of("b", task("b1"), after=["a"]), Phase.of("a", task("a1"))], "b1"),
        ([Phase.of("a", task("a1")), Phase.of("b", task("b1"))], None),
        ([Phase.of("a", task("a1"), task("a2"), workflow=PARALLEL)], None),
    ],
    ids=["last", "first in the list", "two ends", "two tasks at the end"],
)
def test_the_final_task_of_phases_is_the_only_one_that_nothing_follows(phases: list[Phase], final: str | None) -> None:
    graph = build_graph(EnsembleDefinition(phases=phases))
    last = find_final_tasks(graph)
    assert (graph.tasks[last[0]].name if len(last) == 1 else None) == final


# --- the outputs of the tasks ---


def test_task_outputs_stand_in_order_of_completion_e7() -> None:
    output = output_of(task("late", handler=after(5)), task("soon"))
    assert [each.name for each in output.task_outputs] == ["soon", "late"]
    assert [each.name for each in output] == ["soon", "late"]
    assert len(output) == 2


def test_each_output_tells_who_when_and_how_long_with_its_part_of_the_trace_e7() -> None:
    made = output_of(Task.of("Say {word}", name="say", handler=echo), inputs={"word": "hello"})["say"]
    assert (made.raw, made.task_description, made.agent_role) == ("say!", "Say hello", "Handler")
    assert made.completed_at.tzinfo is UTC
    assert made.duration >= timedelta()
    assert made.trace.name == "say"
    assert made.metrics is not None
    assert made.metrics.llm_call_count == 0


def test_phase_outputs_stand_in_order_of_declaration_e7() -> None:
    phases = [Phase.of("last", task("c"), after=["first"]), Phase.of("first", task("a"), task("b"))]
    output = kept(Ensemble(phases=phases))
    assert {name: [each.name for each in outputs] for name, outputs in output.phase_outputs.items()} == {
        "last": ["c"],
        "first": ["a", "b"],
    }
    assert list(output.phase_outputs) == ["last", "first"]


def test_a_flat_run_has_no_phase_outputs_e7() -> None:
    assert output_of(task("a")).phase_outputs == {}


def test_an_output_is_had_by_task_or_by_name() -> None:
    made = task("a")
    output = output_of(made, task("b", handler=fail))
    assert output.get(made) is output.get("a") is output["a"]
    assert "a" in output
    assert "b" not in output
    assert output.get("b") is None
    assert output.get(task("a")) is None
    assert output._ipython_key_completions_() == ["a"]


def test_a_missing_output_says_why_it_is_missing() -> None:
    output = output_of(task("broken", handler=fail), task("reader", "broken"), error_strategy="continue_on_error")
    reasons = {}
    for name in ("broken", "reader", "brokn", 0):
        with pytest.raises(KeyError) as caught:
            output[name]
        reasons[name] = caught.value.args[0]
    place = f"tests/ensemble/test_output.py:{fail.__code__.co_firstlineno + 1} in fail"
    assert reasons == {
        "broken": f"Task 'broken' failed: ValueError: broken is broken (at {place})",
        "reader": "Task 'reader' was skipped: needs 'broken', which failed",
        "brokn": "No task 'brokn'. Did you mean 'broken'?",
        0: "No task 0. Known: 'broken', 'reader'.",
    }


# --- the run as a whole ---


def test_a_completed_run_says_so() -> None:
    output = output_of(task("a"), name="solo")
    assert (output.status, output.exit_reason) == (RunStatus.COMPLETED, ExitReason.COMPLETED)
    assert (output.failures, output.skipped, output.warnings) == ((), (), ())
    assert output.name == "solo"
    assert output.total_tool_calls == 0
    assert output.total_duration == timedelta(seconds=output.events[-1].offset_s)
    assert repr(output) == f"<EnsembleOutput completed: 1/1 task in {format_duration(output.total_duration)}>"


def test_a_failed_run_keeps_failures_and_skips_with_their_reasons() -> None:
    output = output_of(
        task("a"),
        task("b", handler=fail),
        task("c", "b"),
        error_strategy=ErrorStrategy.CONTINUE_ON_ERROR,
        agents=[Agent(role="Idle", goal="Rest")],
    )
    assert (output.status, output.exit_reason) == (RunStatus.FAILED, ExitReason.ERROR)
    assert [(each.name, each.agent_role, str(each.error)) for each in output.failures] == [
        ("b", "Handler", "b is broken")
    ]
    assert [(each.name, each.kind, each.reason) for each in output.skipped] == [
        ("c", "task", "needs 'b', which failed")
    ]
    assert output.warnings == ("Agent 'Idle' has no task.",)


def test_an_output_without_any_result_is_still_true() -> None:
    output = output_of(task("a", handler=fail))
    assert len(output) == 0
    assert output


def test_the_plan_the_trace_and_the_frames_belong_to_the_run() -> None:
    output = output_of(task("a"), task("b", "a"))
    assert output.plan.critical_path == ("a", "b")
    assert output.trace.run_id == output.run_id
    assert output.trace is output.trace
    assert list(output.frames.tasks["task"]) == ["a", "b"]
    assert output.metrics.tool_call_count == 0


def test_an_output_runs_again_through_its_ensemble() -> None:
    output = output_of(task("a"))
    again = output.ensemble.run()
    assert again.raw == output.raw
    assert again.run_id != output.run_id
