"""Partial results: what runs with what is there, what is told of the rest, and the status of it all (E32, E34)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason, PhaseStatus, RunStatus
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import PhaseEnded, RunEnded, TaskCompleted, TaskInputPrepared
from ensemble_notebook.domain.planning.execution_plan import make_plan
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.run_spec import RunSpec
from tests.support.drive import drive, fails, only, parallel, task, times, works
from tests.support.oracle import Oracle, Script

PARTIAL = ErrorStrategy.PARTIAL


def run(*tasks: Task, **fields: Any) -> tuple[RunResult, list[Any]]:
    return drive(parallel(*tasks, error_strategy=PARTIAL, **fields))


def test_a_join_works_with_what_is_there_e32() -> None:
    seen: list[TaskInput] = []

    async def join(given: TaskInput) -> str:
        seen.append(given)
        return "joined"

    result, events = run(task("a"), task("b", handler=fails(2)), task("join", "b", "a", handler=join))
    assert [each.name for each in seen[0].context] == ["a"]
    assert times(events, TaskCompleted) == {"a": 1, "join": 2}
    assert only([each for each in events if each.task == "join"], TaskInputPrepared).context == ("a",)
    assert [failure.name for failure in result.failures] == ["b"]


def test_the_brief_names_what_is_missing_and_why_in_the_order_of_the_context_e32_e33() -> None:
    tasks = [task("a"), task("b"), task("c"), task("join", "c", "a", "b")]
    graph = build_graph(parallel(*tasks))
    spec = RunSpec(
        definition=EnsembleDefinition(), graph=graph, plan=make_plan(graph), inputs={}, warnings=(), streams=False
    )
    resolver = TaskResolver(spec, {0: run(*tasks)[0].outputs[0]}, {})
    resolver.note_absence(2, "it failed (ValueError: c is broken)")
    resolver.note_absence(1, "it was skipped (condition not met)")
    resolved = resolver.resolve(graph.tasks[3])
    assert [each.name for each in resolved.context] == ["a"]
    assert [(each.name, each.agent_role, each.description, each.reason) for each in resolved.missing] == [
        ("c", "Handler", "c", "it failed (ValueError: c is broken)"),
        ("b", "Handler", "b", "it was skipped (condition not met)"),
    ]


def test_a_task_without_any_input_is_skipped_and_so_are_those_behind_it_e32() -> None:
    result, _ = run(task("a", handler=fails(1)), task("b", "a"), task("c", "b"), task("d"))
    assert [(each.name, each.reason) for each in result.skipped] == [
        ("b", "needs 'a', which failed"),
        ("c", "needs 'b', which was skipped"),
    ]
    assert [each.name for each in result.outputs.values()] == ["d"]


def test_a_run_with_failures_and_a_result_is_completed_with_warnings_e34() -> None:
    result, events = run(task("a", handler=fails(1)), task("b"))
    assert (result.status, result.exit_reason) == (RunStatus.COMPLETED_WITH_WARNINGS, ExitReason.COMPLETED)
    ended = only(events, RunEnded)
    assert (ended.status, ended.error) == (RunStatus.COMPLETED_WITH_WARNINGS, None)


def test_a_run_in_which_all_roots_failed_has_failed_e34() -> None:
    result, events = run(task("a", handler=fails(1)), task("b", handler=fails(1)), task("c", "a", "b"))
    assert (result.status, result.exit_reason) == (RunStatus.FAILED, ExitReason.ERROR)
    assert only(events, RunEnded).error is result.failures[0].error


def test_a_run_with_failures_and_nothing_but_blank_outputs_has_failed_e34() -> None:
    async def blank(_: TaskInput) -> str:
        return " \n"

    assert run(task("a", handler=fails(1)), task("b", handler=blank))[0].status is RunStatus.FAILED
    assert run(task("b", handler=blank))[0].status is RunStatus.COMPLETED


def test_a_run_that_only_skipped_for_conditions_is_completed_e33_e34() -> None:
    result, _ = run(task("a"), task("b", when=Condition("a", equals="nothing like it")))
    assert [each.reason for each in result.skipped] == ["condition not met"]
    assert result.status is RunStatus.COMPLETED


def test_a_phase_with_a_failure_fails_though_its_tasks_go_on_e26() -> None:
    broken = Phase.of("broken", task("a", handler=fails(1)), task("b"))
    after = Phase.of("after", task("c"), after=["broken"])
    other = Phase.of("other", task("d", handler=works(5)))
    result, events = drive(EnsembleDefinition(phases=[broken, after, other], error_strategy=PARTIAL))
    statuses = {each.phase: each.status for each in events if isinstance(each, PhaseEnded)}
    assert statuses == {"broken": PhaseStatus.FAILED, "other": PhaseStatus.COMPLETED}
    assert [each.name for each in result.outputs.values()] == ["b", "d"]
    assert result.status is RunStatus.COMPLETED_WITH_WARNINGS


@st.composite
def cases(draw: st.DrawFn) -> tuple[EnsembleDefinition, set[str]]:
    reads: dict[str, list[str]] = {}
    for number in range(draw(st.integers(1, 8))):
        earlier = st.lists(st.sampled_from(list(reads)), unique=True, max_size=3) if reads else st.just([])
        reads[f"t{number}"] = draw(earlier)
    failing = draw(st.sets(st.sampled_from(list(reads)), max_size=4))
    seconds = st.integers(0, 12).map(lambda quarters: quarters / 4)
    tasks = [
        task(name, *read, handler=(fails if name in failing else works)(draw(seconds))) for name, read in reads.items()
    ]
    return parallel(*draw(st.permutations(tasks)), error_strategy=PARTIAL), failing


@given(cases())
def test_whatever_fails_the_run_returns_what_the_rules_say_e32_e34(case: tuple[EnsembleDefinition, set[str]]) -> None:
    made, failing = case
    result, _ = drive(made)
    graph = build_graph(made)
    oracle = Oracle(graph, PARTIAL, Script(fail={(node.index, 1) for node in graph.tasks if node.name in failing}))
    fates = {node.name: oracle.task(node.index) for node in graph.tasks}
    assert {each.name for each in result.outputs.values()} == {name for name, fate in fates.items() if fate == "done"}
    assert {each.name for each in result.failures} == {name for name, fate in fates.items() if fate == "failed"}
    assert {each.name for each in result.skipped} == {name for name, fate in fates.items() if fate == "missed"}
    roots = {fates[node.name] for node in graph.tasks if not node.context}
    if "failed" not in fates.values():
        assert result.status is RunStatus.COMPLETED
    elif roots == {"failed"}:
        assert result.status is RunStatus.FAILED
    else:
        assert result.status is RunStatus.COMPLETED_WITH_WARNINGS
