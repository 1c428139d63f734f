"""The scheduler alone: happenings in, commands out. No loop, no clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.choice import ErrorStrategy, PhaseStatus, Workflow
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.graph import Graph, build_graph
from ensemble_notebook.domain.phase import Phase
from ensemble_notebook.domain.task import Task
from ensemble_notebook.engine.command import (
    CancelTask,
    Command,
    EndPhase,
    EndRun,
    QueueTask,
    SkipPhase,
    SkipTask,
    StartPhase,
    StartTask,
)
from ensemble_notebook.engine.happening import RunBegun, StopAsked, TaskLost, TaskSucceeded
from ensemble_notebook.engine.scheduler import Scheduler

FAST, CONTINUE = ErrorStrategy.FAIL_FAST, ErrorStrategy.CONTINUE_ON_ERROR


def handler(_: object) -> str:
    return ""


def task(name: str, *context: str) -> Task:
    return Task.of(name, name=name, context=context, handler=handler)


def graph_of(*tasks: Task, workflow: Workflow = Workflow.PARALLEL) -> Graph:
    return build_graph(EnsembleDefinition(tasks=tasks, workflow=workflow))


def phased(*phases: Phase) -> Graph:
    return build_graph(EnsembleDefinition(phases=phases))


def started(commands: list[Command]) -> list[int]:
    return [command.task for command in commands if isinstance(command, StartTask)]


def simulate(
    scheduler: Scheduler, durations: list[float], fails: Callable[[int], bool] = lambda _: False
) -> tuple[dict[int, float], dict[int, float], list[Command]]:
    """Run under a fake clock: start and end times by task, and all commands."""
    now, starts, ends, log = 0.0, {}, {}, []
    running: list[tuple[float, int]] = []

    def perform(commands: list[Command]) -> None:
        log.extend(commands)
        for index in started(commands):
            starts[index] = now
            heapq.heappush(running, (now + durations[index], index))

    perform(scheduler.handle(RunBegun()))
    while running:
        now, index = heapq.heappop(running)
        ends[index] = now
        perform(scheduler.handle(TaskLost(index) if fails(index) else TaskSucceeded(index)))
    return starts, ends, log


def test_a_chain_runs_in_list_order() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c"), workflow=Workflow.SEQUENTIAL), FAST)
    assert scheduler.handle(RunBegun()) == [StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(2)]
    assert scheduler.handle(TaskSucceeded(2)) == [EndRun()]


def test_a_task_starts_the_moment_its_last_dependency_is_resolved() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "a", "b")), FAST)
    assert started(scheduler.handle(RunBegun())) == [0, 1]
    assert scheduler.handle(TaskSucceeded(1)) == []
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(2)]


def test_fail_fast_starts_nothing_new_and_lets_running_tasks_finish() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "b")), FAST)
    scheduler.handle(RunBegun())
    assert scheduler.handle(TaskLost(0)) == [SkipTask(2, "not started: 'a' failed")]
    assert scheduler.handle(TaskSucceeded(1)) == [EndRun()]


def test_continue_on_error_skips_only_dependents() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "a"), task("d", "c"), task("e", "b")), CONTINUE)
    scheduler.handle(RunBegun())
    assert scheduler.handle(TaskLost(0)) == [
        SkipTask(2, "needs 'a', which failed"),
        SkipTask(3, "needs 'c', which was skipped"),
    ]
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(4)]


def test_sequential_continues_after_a_failure_with_tasks_that_do_not_read_it() -> None:
    graph = graph_of(task("a"), task("b", "a"), task("c"), workflow=Workflow.SEQUENTIAL)
    scheduler = Scheduler(graph, CONTINUE)
    scheduler.handle(RunBegun())
    assert scheduler.handle(TaskLost(0)) == [SkipTask(1, "needs 'a', which failed"), StartTask(2)]


def test_kitchen_serves_when_the_last_dish_is_done() -> None:
    dishes = [Phase.of(name, task(f"{name}1"), task(f"{name}2")) for name in ("steak", "salmon")]
    scheduler = Scheduler(phased(*dishes, Phase.of("serve", task("plate"), after=["steak", "salmon"])), FAST)
    assert scheduler.handle(RunBegun()) == [StartPhase(0), StartPhase(1), StartTask(0), StartTask(2)]
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [EndPhase(0, PhaseStatus.COMPLETED, is_cancelled=False)]
    scheduler.handle(TaskSucceeded(2))
    last = scheduler.handle(TaskSucceeded(3))
    assert last == [EndPhase(1, PhaseStatus.COMPLETED, is_cancelled=False), StartPhase(2), StartTask(4)]
    end = scheduler.handle(TaskSucceeded(4))
    assert end == [EndPhase(2, PhaseStatus.COMPLETED, is_cancelled=False), EndRun()]


def test_failed_phase_skips_its_dependents_and_spares_unrelated_phases() -> None:
    scheduler = Scheduler(
        phased(
            Phase.of("steak", task("sear"), task("rest")),
            Phase.of("pasta", task("boil")),
            Phase.of("serve", task("plate"), after=["steak"]),
            Phase.of("bill", task("sum"), after=["serve"]),
        ),
        FAST,
    )
    scheduler.handle(RunBegun())
    assert scheduler.handle(TaskLost(0)) == [
        SkipTask(1, "not started: 'sear' failed"),
        EndPhase(0, PhaseStatus.FAILED, is_cancelled=False),
        SkipPhase(2, "needs 'steak', which failed"),
        SkipTask(3, "phase 'serve' was skipped"),
        SkipPhase(3, "needs 'serve', which was skipped"),
        SkipTask(4, "phase 'bill' was skipped"),
    ]
    assert scheduler.handle(TaskSucceeded(2))[-1] == EndRun()


def test_stop_cancels_what_runs_and_skips_the_rest() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "a")), CONTINUE)
    scheduler.handle(RunBegun())
    assert scheduler.handle(StopAsked()) == [
        CancelTask(0),
        CancelTask(1),
        SkipTask(2, "not started: the run was stopped"),
    ]
    assert scheduler.handle(StopAsked()) == []
    assert scheduler.handle(TaskLost(0)) == []
    assert scheduler.handle(TaskSucceeded(1)) == [EndRun()]


def test_a_full_house_queues_in_order_of_readiness() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c")), FAST, max_concurrency=1)
    assert scheduler.handle(RunBegun()) == [QueueTask(1), QueueTask(2), StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(1)]


def test_a_chain_of_ten_thousand_failures_needs_no_recursion() -> None:
    tasks = [task("t0"), *(task(f"t{i}", f"t{i - 1}") for i in range(1, 10_000))]
    scheduler = Scheduler(graph_of(*tasks), CONTINUE)
    scheduler.handle(RunBegun())
    assert len(scheduler.handle(TaskLost(0))) == 10_000


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[float]]:
    size = draw(st.integers(1, 14))
    reads = [draw(st.lists(st.integers(0, i - 1), unique=True, max_size=4)) if i else [] for i in range(size)]
    durations = [draw(st.integers(0, 50)) / 4 for _ in range(size)]
    tasks = [task(f"t{i}", *(f"t{j}" for j in reads[i])) for i in range(size)]
    order = draw(st.permutations(range(size)))
    graph = graph_of(*(tasks[i] for i in order))
    return graph, [durations[i] for i in order]


def longest_path(graph: Graph, durations: list[float]) -> float:
    ends: dict[int, float] = {}

    def end(index: int) -> float:
        if index not in ends:
            ends[index] = durations[index] + max((end(each) for each in graph.tasks[index].context), default=0.0)
        return ends[index]

    return max(end(node.index) for node in graph.tasks)


@given(graphs())
def test_makespan_equals_the_longest_path_exactly(case: tuple[Graph, list[float]]) -> None:
    graph, durations = case
    _, ends, log = simulate(Scheduler(graph, FAST), durations)
    assert max(ends.values()) == longest_path(graph, durations)
    assert log[-1] == EndRun()
    assert log.count(EndRun()) == 1


@given(graphs(), st.integers(1, 4))
def test_nobody_idles_while_something_is_ready(case: tuple[Graph, list[float]], workers: int) -> None:
    graph, durations = case
    starts, ends, _ = simulate(Scheduler(graph, FAST, max_concurrency=workers), durations)
    assert len(ends) == len(graph.tasks)
    for node in graph.tasks:
        ready = max((ends[each] for each in node.context), default=0.0)
        if starts[node.index] > ready:
            for moment in {ready, *(t for t in (*starts.values(), *ends.values()) if ready <= t < starts[node.index])}:
                busy = sum(starts[i] <= moment < ends[i] for i in starts)
                zero = sum(starts[i] == ends[i] == moment for i in starts)
                assert busy + zero >= workers


@given(graphs(), st.data(), st.sampled_from([FAST, CONTINUE]), st.none() | st.integers(1, 3))
def test_every_task_is_resolved_exactly_once_whatever_fails(
    case: tuple[Graph, list[float]], data: st.DataObject, strategy: ErrorStrategy, workers: int | None
) -> None:
    graph, durations = case
    failing = data.draw(st.sets(st.integers(0, len(graph.tasks) - 1)))
    starts, ends, log = simulate(Scheduler(graph, strategy, workers), durations, failing.__contains__)
    skipped = [command.task for command in log if isinstance(command, SkipTask)]
    assert sorted([*starts, *skipped]) == [node.index for node in graph.tasks]
    assert log[-1] == EndRun()
    lost = (failing & set(ends)) | set(skipped)
    for node in graph.tasks:
        if set(node.context) & lost:
            assert node.index in skipped
        elif strategy is CONTINUE:
            assert node.index in starts


@st.composite
def phase_graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 6))
    phases = []
    for i in range(size):
        after = draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else []
        tasks = [task(f"p{i}t{j}") for j in range(draw(st.integers(1, 3)))]
        workflow = draw(st.sampled_from([Workflow.SEQUENTIAL, Workflow.PARALLEL]))
        phases.append(Phase.of(f"p{i}", *tasks, after=[f"p{j}" for j in after], workflow=workflow))
    return phased(*draw(st.permutations(phases)))


@given(phase_graphs(), st.data(), st.sampled_from([FAST, CONTINUE]))
def test_phases_start_after_their_predecessors_and_each_ends_or_is_skipped(
    graph: Graph, data: st.DataObject, strategy: ErrorStrategy
) -> None:
    failing = data.draw(st.sets(st.integers(0, len(graph.tasks) - 1), max_size=2))
    durations = [1.0] * len(graph.tasks)
    _, ends, log = simulate(Scheduler(graph, strategy), durations, failing.__contains__)
    ended = {command.phase: command.status for command in log if isinstance(command, EndPhase)}
    skipped = {command.phase for command in log if isinstance(command, SkipPhase)}
    assert sorted([*ended, *skipped]) == [phase.index for phase in graph.phases]
    for phase in graph.phases:
        has_failed = bool(failing & set(phase.tasks) & set(ends))
        if phase.index in ended:
            assert ended[phase.index] is (PhaseStatus.FAILED if has_failed else PhaseStatus.COMPLETED)
            assert all(ended.get(each) is PhaseStatus.COMPLETED for each in phase.after)
            opened = log.index(StartPhase(phase.index))
            for each in phase.after:
                assert log.index(EndPhase(each, PhaseStatus.COMPLETED, is_cancelled=False)) < opened
        else:
            assert any(each in skipped or ended.get(each) is PhaseStatus.FAILED for each in phase.after)


@given(graphs(), st.data())
def test_a_stop_at_any_moment_ends_the_run(case: tuple[Graph, list[float]], data: st.DataObject) -> None:
    graph, _ = case
    scheduler = Scheduler(graph, CONTINUE)
    running = started(scheduler.handle(RunBegun()))
    for _ in range(data.draw(st.integers(0, len(graph.tasks)))):
        if not running:
            break
        index = running.pop(data.draw(st.integers(0, len(running) - 1)))
        running += started(scheduler.handle(TaskSucceeded(index)))
    log = scheduler.handle(StopAsked())
    assert started(log) == []
    for index in running:
        assert log.count(CancelTask(index)) == 1
        log += scheduler.handle(TaskLost(index))
    assert log == [] or log[-1] == EndRun()


def test_unknown_happening_order_is_refused() -> None:
    scheduler = Scheduler(graph_of(task("a")), FAST)
    with pytest.raises(KeyError):
        scheduler.handle(TaskSucceeded(0))
