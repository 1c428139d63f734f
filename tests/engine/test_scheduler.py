"""The scheduler alone: happenings in, commands out. No loop, no clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, PhaseStatus, Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.graph import Graph, build_graph
from ensemble_notebook.engine.scheduler import Scheduler
from ensemble_notebook.engine.scheduler_messages import (
    CancelReview,
    CancelTask,
    Command,
    EndPhase,
    EndRounds,
    EndRun,
    PhaseApproved,
    PhaseRejected,
    PhaseReviewAborted,
    PhaseSentBack,
    QueueReview,
    QueueTask,
    RetryPhase,
    ReviewPhase,
    RunClosed,
    RunningTaskSkipped,
    RunStartRequested,
    RunStopRequested,
    SchedulerInput,
    SkipPhase,
    SkipTask,
    StartPhase,
    StartTask,
    TaskEndedWithoutOutput,
    TaskSucceeded,
)
from tests.support.oracle import Fate, Oracle, Script

FAST, CONTINUE, PARTIAL = ErrorStrategy
DONE, FAILED = PhaseStatus.COMPLETED, PhaseStatus.FAILED
LEFT = "not started: somebody left"


def handler(_: object) -> str:
    return ""


def task(name: str, *context: str, **fields: Any) -> Task:
    return Task.of(name, name=name, context=context, handler=handler, **fields)


def says(source: str, text: str = "yes") -> Condition:
    return Condition(source, equals=text)


def otherwise(source: str) -> Condition:
    return Condition(source, default=True)


def graph_of(*tasks: Task, workflow: Workflow = Workflow.PARALLEL) -> Graph:
    return build_graph(EnsembleDefinition(tasks=tasks, workflow=workflow))


def phased(*phases: Phase) -> Graph:
    return build_graph(EnsembleDefinition(phases=phases))


def started(commands: list[Command]) -> list[int]:
    return [command.task for command in commands if isinstance(command, StartTask)]


def simulate(
    scheduler: Scheduler,
    durations: list[float],
    fails: Callable[[int], bool] = lambda _: False,
    held: Callable[[int], frozenset[int]] = lambda _: frozenset(),
) -> tuple[dict[int, float], dict[int, float], list[Command]]:
    """Run under a fake clock: start and end times by task, and all commands."""
    now, starts, ends, log = 0.0, {}, {}, []
    running: list[tuple[float, int]] = []

    def perform(commands: list[Command]) -> None:
        log.extend(commands)
        for index in started(commands):
            starts[index] = now
            heapq.heappush(running, (now + durations[index], index))

    perform(scheduler.handle(RunStartRequested()))
    while running:
        now, index = heapq.heappop(running)
        ends[index] = now
        perform(scheduler.handle(TaskEndedWithoutOutput(index) if fails(index) else TaskSucceeded(index, held(index))))
    return starts, ends, log


def test_a_chain_runs_in_list_order() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c"), workflow=Workflow.SEQUENTIAL), FAST)
    assert scheduler.handle(RunStartRequested()) == [StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(2)]
    assert scheduler.handle(TaskSucceeded(2)) == [EndRun()]


def test_a_task_starts_the_moment_its_last_dependency_is_resolved() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "a", "b")), FAST)
    assert started(scheduler.handle(RunStartRequested())) == [0, 1]
    assert scheduler.handle(TaskSucceeded(1)) == []
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(2)]


def test_fail_fast_starts_nothing_new_and_lets_running_tasks_finish() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "b")), FAST)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [SkipTask(2, "not started: 'a' failed")]
    assert scheduler.handle(TaskSucceeded(1)) == [EndRun()]


def test_continue_on_error_skips_only_dependents() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c", "a"), task("d", "c"), task("e", "b")), CONTINUE)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [
        SkipTask(2, "needs 'a', which failed"),
        SkipTask(3, "needs 'c', which was skipped"),
    ]
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(4)]


def test_sequential_continues_after_a_failure_with_tasks_that_do_not_read_it() -> None:
    graph = graph_of(task("a"), task("b", "a"), task("c"), workflow=Workflow.SEQUENTIAL)
    scheduler = Scheduler(graph, CONTINUE)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [SkipTask(1, "needs 'a', which failed"), StartTask(2)]


def test_kitchen_serves_when_the_last_dish_is_done() -> None:
    dishes = [Phase.of(name, task(f"{name}1"), task(f"{name}2")) for name in ("steak", "salmon")]
    scheduler = Scheduler(phased(*dishes, Phase.of("serve", task("plate"), after=["steak", "salmon"])), FAST)
    assert scheduler.handle(RunStartRequested()) == [StartPhase(0), StartPhase(1), StartTask(0), StartTask(2)]
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
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [
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
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(RunStopRequested()) == [
        CancelTask(0),
        CancelTask(1),
        SkipTask(2, "not started: the run was stopped"),
    ]
    assert scheduler.handle(RunStopRequested()) == []
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == []
    assert scheduler.handle(TaskSucceeded(1)) == [EndRun()]


def test_a_full_house_queues_in_order_of_readiness() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("c")), FAST, max_concurrency=1)
    assert scheduler.handle(RunStartRequested()) == [QueueTask(1), QueueTask(2), StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(1)]


def test_a_chain_of_ten_thousand_failures_needs_no_recursion() -> None:
    tasks = [task("t0"), *(task(f"t{i}", f"t{i - 1}") for i in range(1, 10_000))]
    scheduler = Scheduler(graph_of(*tasks), CONTINUE)
    scheduler.handle(RunStartRequested())
    assert len(scheduler.handle(TaskEndedWithoutOutput(0))) == 10_000


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
    running = started(scheduler.handle(RunStartRequested()))
    for _ in range(data.draw(st.integers(0, len(graph.tasks)))):
        if not running:
            break
        index = running.pop(data.draw(st.integers(0, len(running) - 1)))
        running += started(scheduler.handle(TaskSucceeded(index)))
    log = scheduler.handle(RunStopRequested())
    assert started(log) == []
    for index in running:
        assert log.count(CancelTask(index)) == 1
        log += scheduler.handle(TaskEndedWithoutOutput(index))
    assert log == [] or log[-1] == EndRun()


def test_unknown_happening_order_is_refused() -> None:
    scheduler = Scheduler(graph_of(task("a")), FAST)
    with pytest.raises(KeyError):
        scheduler.handle(TaskSucceeded(0))


# --- partial results (E32) ---


def test_under_partial_a_task_runs_with_what_one_of_its_dependencies_gave_e32() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b"), task("join", "a", "b")), PARTIAL)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == []
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(2)]


def test_under_partial_what_has_no_input_at_all_is_skipped_and_so_on_e32() -> None:
    graph = graph_of(task("a"), task("b"), task("join", "a", "b"), task("next", "join"), task("other"))
    scheduler = Scheduler(graph, PARTIAL)
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskEndedWithoutOutput(0))
    assert scheduler.handle(TaskEndedWithoutOutput(1)) == [
        SkipTask(2, "needs 'a', which failed; 'b', which failed"),
        SkipTask(3, "needs 'join', which was skipped"),
    ]


def test_a_reason_names_no_more_than_three_dependencies() -> None:
    roots = [task(f"t{number}") for number in range(5)]
    scheduler = Scheduler(graph_of(*roots, task("join", *(f"t{number}" for number in range(5)))), PARTIAL)
    scheduler.handle(RunStartRequested())
    *_, last = (scheduler.handle(TaskEndedWithoutOutput(number)) for number in range(5))
    reason = "needs 't0', which failed; 't1', which failed; 't2', which failed; and so on"
    assert last == [SkipTask(5, reason), EndRun()]


def test_partial_holds_within_a_phase_and_not_between_phases_e26() -> None:
    first = Phase.of("first", task("a"), task("b"), task("join", "a", "b"), workflow=Workflow.PARALLEL)
    scheduler = Scheduler(phased(first, Phase.of("second", task("c", "join"), after=["first"])), PARTIAL)
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskEndedWithoutOutput(0))
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(2)]
    assert scheduler.handle(TaskSucceeded(2)) == [
        EndPhase(0, FAILED, is_cancelled=False),
        SkipPhase(1, "needs 'first', which failed"),
        SkipTask(3, "phase 'second' was skipped"),
        EndRun(),
    ]


# --- conditions (E33) ---


def triage(strategy: ErrorStrategy = FAST, workflow: Workflow = Workflow.PARALLEL) -> Scheduler:
    """Task 1 on the condition number 0, task 2 on the default (number 1), task 3 behind both."""
    urgent, normal = task("urgent", when=says("triage")), task("normal", when=otherwise("triage"))
    return Scheduler(
        graph_of(task("triage"), urgent, normal, task("join", "urgent", "normal"), workflow=workflow), strategy
    )


@pytest.mark.parametrize("strategy", list(ErrorStrategy))
def test_only_the_branch_whose_condition_holds_runs_and_the_join_with_it_e33(strategy: ErrorStrategy) -> None:
    scheduler = triage(strategy)
    assert scheduler.handle(RunStartRequested()) == [StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0, frozenset({0}))) == [SkipTask(2, "condition not met"), StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [StartTask(3)]
    assert scheduler.handle(TaskSucceeded(3)) == [EndRun()]


def test_conditions_hold_in_a_sequence_too_e33() -> None:
    scheduler = triage(workflow=Workflow.SEQUENTIAL)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskSucceeded(0, frozenset({1}))) == [SkipTask(1, "condition not met"), StartTask(2)]
    assert scheduler.handle(TaskSucceeded(2)) == [StartTask(3)]


def test_what_depends_only_on_skipped_branches_is_skipped_too_and_that_is_no_failure_e33() -> None:
    graph = graph_of(
        task("a"), task("b", when=says("a")), task("c", "b"), task("d", "c"), task("e", "a"), task("f", "e", "c")
    )
    scheduler = Scheduler(graph, FAST)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskSucceeded(0)) == [
        SkipTask(1, "condition not met"),
        SkipTask(2, "needs 'b', which was skipped"),
        SkipTask(3, "needs 'c', which was skipped"),
        StartTask(4),
    ]
    assert scheduler.handle(TaskSucceeded(4)) == [StartTask(5)]


def test_any_of_several_conditions_is_enough_and_all_sources_are_waited_for_e33() -> None:
    graph = graph_of(task("a"), task("b"), task("c", when=[says("a"), says("b")]))
    scheduler = Scheduler(graph, CONTINUE)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskSucceeded(0, frozenset({0}))) == []
    assert scheduler.handle(TaskEndedWithoutOutput(1)) == [StartTask(2)]


def test_a_source_that_failed_or_was_skipped_meets_no_condition_and_the_reason_says_so_e33() -> None:
    graph = graph_of(task("a"), task("b", when=otherwise("a")), task("c", when=says("b")))
    scheduler = Scheduler(graph, CONTINUE)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [
        SkipTask(1, "condition not met: 'a' failed"),
        SkipTask(2, "condition not met: 'b' was skipped"),
        EndRun(),
    ]


def test_what_is_skipped_since_its_source_failed_is_missing_to_its_readers_e32_e33() -> None:
    graph = graph_of(task("a"), task("b", when=says("a")), task("c"), task("d", "b", "c"))
    scheduler = Scheduler(graph, CONTINUE)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [
        SkipTask(1, "condition not met: 'a' failed"),
        SkipTask(3, "needs 'b', which was skipped"),
    ]


def test_a_failed_dependency_is_a_failure_whatever_the_condition_says_e32_e33() -> None:
    graph = graph_of(task("a"), task("b"), task("c", "b", when=says("a")), task("d", "a", "c"))
    scheduler = Scheduler(graph, CONTINUE)
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskSucceeded(0, frozenset({0})))
    assert scheduler.handle(TaskEndedWithoutOutput(1)) == [
        SkipTask(2, "needs 'b', which failed"),
        SkipTask(3, "needs 'c', which was skipped"),
        EndRun(),
    ]


def branching_phases() -> Scheduler:
    return Scheduler(
        phased(
            Phase.of("sort", task("triage"), task("note")),
            Phase.of("urgent", task("call"), when=says("triage")),
            Phase.of("normal", task("mail"), when=otherwise("triage")),
            Phase.of("report", task("sum", "call", "mail"), task("only", "call"), after=["urgent", "normal"]),
        ),
        FAST,
    )


def test_a_phase_waits_for_the_phase_of_the_task_that_its_condition_tests_e33() -> None:
    scheduler = branching_phases()
    assert scheduler.handle(RunStartRequested()) == [StartPhase(0), StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0, frozenset({0}))) == [StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [
        EndPhase(0, DONE, is_cancelled=False),
        StartPhase(1),
        SkipPhase(2, "condition not met"),
        SkipTask(3, "phase 'normal' was skipped"),
        StartTask(2),
    ]
    assert scheduler.handle(TaskSucceeded(2)) == [EndPhase(1, DONE, is_cancelled=False), StartPhase(3), StartTask(4)]
    assert scheduler.handle(TaskSucceeded(4)) == [StartTask(5)]


def test_tasks_that_read_only_a_skipped_phase_are_skipped_and_their_phase_completes_e33() -> None:
    scheduler = branching_phases()
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskSucceeded(0, frozenset({1})))
    scheduler.handle(TaskSucceeded(1))
    scheduler.handle(TaskSucceeded(3))
    assert scheduler.handle(TaskSucceeded(4)) == [
        SkipTask(5, "needs 'call', which was skipped"),
        EndPhase(3, DONE, is_cancelled=False),
        EndRun(),
    ]


def test_a_condition_on_a_task_of_a_failed_phase_is_not_met_e26_e33() -> None:
    phases = [Phase.of("sort", task("triage"), task("note")), Phase.of("urgent", task("call"), when=says("triage"))]
    scheduler = Scheduler(phased(*phases), CONTINUE)
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskSucceeded(0, frozenset({0})))
    assert scheduler.handle(TaskEndedWithoutOutput(1)) == [
        EndPhase(0, FAILED, is_cancelled=False),
        SkipPhase(1, "condition not met: 'sort' failed"),
        SkipTask(2, "phase 'urgent' was skipped"),
        EndRun(),
    ]


def test_a_chain_of_ten_thousand_unmet_conditions_needs_no_recursion() -> None:
    tasks = [task("t0"), *(task(f"t{i}", when=says(f"t{i - 1}")) for i in range(1, 10_000))]
    graph = graph_of(*tasks)
    for strategy in ErrorStrategy:
        scheduler = Scheduler(graph, strategy)
        scheduler.handle(RunStartRequested())
        assert len(scheduler.handle(TaskSucceeded(0))) == 10_000


# --- closing (E27, E36) ---


def test_a_closed_run_lets_running_tasks_finish_and_starts_nothing_new_e27() -> None:
    one, two = Phase.of("one", task("a"), task("b")), Phase.of("two", task("c"))
    scheduler = Scheduler(phased(one, two, Phase.of("late", task("d"), after=["two"])), CONTINUE)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(RunClosed(LEFT)) == [SkipTask(1, LEFT), SkipTask(3, LEFT), SkipPhase(2, LEFT)]
    assert scheduler.handle(TaskSucceeded(0)) == [EndPhase(0, FAILED, is_cancelled=True)]
    assert scheduler.handle(TaskSucceeded(2)) == [EndPhase(1, DONE, is_cancelled=False), EndRun()]


def test_a_task_that_is_dropped_is_skipped_by_who_ran_it_and_cuts_its_phase_short_e36() -> None:
    scheduler = Scheduler(phased(Phase.of("one", task("a"), task("b", "a"))), FAST)
    scheduler.handle(RunStartRequested())
    scheduler.handle(RunClosed(LEFT))
    assert scheduler.handle(RunningTaskSkipped(0)) == [EndPhase(0, FAILED, is_cancelled=True), EndRun()]


def test_a_phase_that_a_person_has_left_is_no_failure_and_skipped_where_nothing_was_done_e27() -> None:
    for has_worked, status in ((True, PhaseStatus.EXITED_EARLY), (False, PhaseStatus.SKIPPED)):
        scheduler = Scheduler(phased(Phase.of("one", task("a"), task("b", "a"))), FAST)
        scheduler.handle(RunStartRequested())
        scheduler.handle(RunClosed(LEFT, is_exit=True))
        end = EndPhase(0, status, is_cancelled=False, reason=LEFT)
        assert scheduler.handle(RunningTaskSkipped(0, has_worked=has_worked)) == [end, EndRun()]


def test_a_task_that_fails_after_the_close_fails_its_phase_e27() -> None:
    scheduler = Scheduler(phased(Phase.of("one", task("a"), task("b", "a"))), FAST)
    scheduler.handle(RunStartRequested())
    scheduler.handle(RunClosed(LEFT))
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [EndPhase(0, FAILED, is_cancelled=False), EndRun()]


def test_a_closed_run_can_still_be_stopped_e35() -> None:
    scheduler = Scheduler(graph_of(task("a"), task("b", "a")), FAST)
    scheduler.handle(RunStartRequested())
    scheduler.handle(RunClosed(LEFT))
    assert scheduler.handle(RunStopRequested()) == [CancelTask(0)]
    assert scheduler.handle(TaskEndedWithoutOutput(0)) == [EndRun()]


# --- reviews of phases (E28) ---


def approve(_: object) -> None: ...


def reviewed(limit: int | None = None) -> Scheduler:
    """A phase of two tasks that is reviewed, one after it, and an unrelated one."""
    phases = [
        Phase.of("draft", task("a"), task("b", "a", when=says("a")), review=approve),
        Phase.of("print", task("c", "b"), after=["draft"]),
        Phase.of("other", task("d")),
    ]
    return Scheduler(phased(*phases), FAST, limit)


def drafted(scheduler: Scheduler) -> list[Command]:
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskSucceeded(0, frozenset({0})))
    return scheduler.handle(TaskSucceeded(1))


def test_a_phase_ends_once_its_review_approves_e28() -> None:
    scheduler = reviewed()
    assert drafted(scheduler) == [ReviewPhase(0)]
    assert scheduler.handle(PhaseApproved(0)) == [EndPhase(0, DONE, is_cancelled=False), StartPhase(1), StartTask(2)]


def test_a_phase_that_is_sent_back_does_all_its_tasks_again_e28() -> None:
    scheduler = reviewed()
    drafted(scheduler)
    assert scheduler.handle(PhaseSentBack(0)) == [RetryPhase(0, (0, 1)), StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0)) == [SkipTask(1, "condition not met"), ReviewPhase(0)]
    assert scheduler.handle(PhaseApproved(0)) == [
        EndPhase(0, DONE, is_cancelled=False),
        StartPhase(1),
        SkipTask(2, "needs 'b', which was skipped"),
        EndPhase(1, DONE, is_cancelled=False),
    ]


def test_feedback_for_some_tasks_has_them_and_their_dependents_done_again_e46() -> None:
    tasks = [task("a"), task("b", "a"), task("c"), task("d", "b"), task("e", when=says("c"))]
    for workflow in (Workflow.SEQUENTIAL, Workflow.PARALLEL):
        scheduler = Scheduler(phased(Phase.of("p", *tasks, workflow=workflow, review=approve)), FAST)
        scheduler.handle(RunStartRequested())
        for index in range(4):
            scheduler.handle(TaskSucceeded(index, frozenset({0})))
        assert scheduler.handle(TaskSucceeded(4)) == [ReviewPhase(0)]
        assert scheduler.handle(PhaseSentBack(0, frozenset({1}))) == [RetryPhase(0, (1, 3)), StartTask(1)]
        assert scheduler.handle(TaskSucceeded(1)) == [StartTask(3)]
        assert scheduler.handle(TaskSucceeded(3)) == [ReviewPhase(0)]
        # What was decided on an output that is kept still holds, and a new output is decided on anew.
        assert scheduler.handle(PhaseSentBack(0, frozenset({4}))) == [RetryPhase(0, (4,)), StartTask(4)]
        assert scheduler.handle(TaskSucceeded(4)) == [ReviewPhase(0)]
        assert scheduler.handle(PhaseSentBack(0, frozenset({2}))) == [RetryPhase(0, (2, 4)), StartTask(2)]
        assert scheduler.handle(TaskSucceeded(2)) == [SkipTask(4, "condition not met"), ReviewPhase(0)]


def test_a_task_that_fails_when_it_is_done_again_fails_its_phase_e46() -> None:
    scheduler = Scheduler(phased(Phase.of("p", task("a"), task("b"), task("c", "b"), review=approve)), FAST)
    scheduler.handle(RunStartRequested())
    for index in range(3):
        scheduler.handle(TaskSucceeded(index))
    scheduler.handle(PhaseSentBack(0, frozenset({1})))
    assert scheduler.handle(TaskEndedWithoutOutput(1)) == [
        SkipTask(2, "needs 'b', which failed"),
        EndPhase(0, FAILED, is_cancelled=False),
        EndRun(),
    ]


def test_a_rejected_phase_fails_and_its_dependents_are_skipped_e28() -> None:
    scheduler = reviewed()
    drafted(scheduler)
    assert scheduler.handle(PhaseRejected(0)) == [
        EndPhase(0, FAILED, is_cancelled=False),
        SkipPhase(1, "needs 'draft', which failed"),
        SkipTask(2, "phase 'print' was skipped"),
    ]


def test_a_phase_that_failed_or_did_nothing_is_not_reviewed_e28() -> None:
    scheduler = reviewed()
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskEndedWithoutOutput(0))[1] == EndPhase(0, FAILED, is_cancelled=False)
    phases = [Phase.of("a", task("a")), Phase.of("b", task("b"), when=says("a"), review=approve)]
    idle = Phase.of("c", task("c", "b"), after=["a", "b"], review=approve)
    scheduler = Scheduler(phased(*phases, idle), FAST)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskSucceeded(0))[-2:] == [EndPhase(2, DONE, is_cancelled=False), EndRun()]


def test_a_review_takes_a_place_like_a_task_e21_e28() -> None:
    scheduler = reviewed(limit=1)
    assert scheduler.handle(RunStartRequested()) == [StartPhase(0), StartPhase(2), QueueTask(3), StartTask(0)]
    assert scheduler.handle(TaskSucceeded(0, frozenset({0}))) == [QueueTask(1), StartTask(3)]
    assert scheduler.handle(TaskSucceeded(3)) == [EndPhase(2, DONE, is_cancelled=False), StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [ReviewPhase(0)]
    assert scheduler.handle(PhaseApproved(0))[-1] == StartTask(2)


def test_a_review_that_finds_no_place_is_queued() -> None:
    phases = [Phase.of("one", task("a"), review=approve), Phase.of("two", task("b"))]
    scheduler = Scheduler(phased(*phases), FAST, 1)
    scheduler.handle(RunStartRequested())
    assert scheduler.handle(TaskSucceeded(0)) == [QueueReview(0), StartTask(1)]
    assert scheduler.handle(TaskSucceeded(1)) == [EndPhase(1, DONE, is_cancelled=False), ReviewPhase(0)]


def test_a_review_that_was_to_begin_when_the_run_is_closed_is_left_out_e27() -> None:
    phases = [Phase.of("one", task("a"), review=approve), Phase.of("two", task("b"))]
    scheduler = Scheduler(phased(*phases), FAST, 1)
    scheduler.handle(RunStartRequested())
    scheduler.handle(TaskSucceeded(0))
    assert scheduler.handle(RunClosed(LEFT)) == [EndPhase(0, DONE, is_cancelled=False)]


@pytest.mark.parametrize(
    "answer, status, is_cancelled",
    [
        (PhaseApproved(0), DONE, False),
        (PhaseSentBack(0), FAILED, True),
        (PhaseRejected(0), FAILED, False),
        (PhaseReviewAborted(0), FAILED, True),
    ],
)
def test_a_review_that_is_over_after_the_close_starts_nothing_e27(
    answer: SchedulerInput, status: PhaseStatus, is_cancelled: bool
) -> None:
    scheduler = reviewed()
    drafted(scheduler)
    scheduler.handle(TaskSucceeded(3))
    assert scheduler.handle(RunClosed(LEFT)) == [SkipTask(2, LEFT), SkipPhase(1, LEFT)]
    assert scheduler.handle(answer) == [EndPhase(0, status, is_cancelled=is_cancelled), EndRun()]


def test_a_stop_cancels_reviews_as_well_e35() -> None:
    scheduler = reviewed()
    drafted(scheduler)
    assert scheduler.handle(RunStopRequested())[:2] == [CancelTask(3), CancelReview(0)]
    assert scheduler.handle(TaskEndedWithoutOutput(3)) == [EndPhase(2, FAILED, is_cancelled=True)]
    assert scheduler.handle(PhaseReviewAborted(0)) == [EndPhase(0, FAILED, is_cancelled=True), EndRun()]


# --- any story, against the oracle ---


@st.composite
def flat_stories(draw: st.DrawFn) -> tuple[Graph, Script]:
    """Tasks that read others and have conditions on others, in a list or side by side."""
    size = draw(st.integers(1, 10))
    tasks = []
    for number in range(size):
        names = [f"t{each}" for each in range(number)]
        reads, when = draw(reads_of(names)), draw(conditions_on(names))
        tasks.append(task(f"t{number}", *reads, when=when))
    workflow = draw(st.sampled_from([Workflow.SEQUENTIAL, Workflow.PARALLEL]))
    if workflow is Workflow.PARALLEL:
        tasks = draw(st.permutations(tasks))
    return draw(told(EnsembleDefinition(tasks=tasks, workflow=workflow)))


@st.composite
def phase_stories(draw: st.DrawFn) -> tuple[Graph, Script]:
    """The same in phases that come after others, have conditions on tasks of others, and are reviewed."""
    phases: list[Phase] = []
    names: list[list[str]] = []
    before: list[set[int]] = []
    for number in range(draw(st.integers(1, 5))):
        earlier = [f"p{each}" for each in range(number)]
        after = draw(reads_of(earlier))
        when = draw(conditions_on([name for each in names for name in each]))
        direct = {earlier.index(each) for each in after}
        direct |= {place for place, each in enumerate(names) for condition in when if condition.source in each}
        before.append(direct.union(*(before[each] for each in direct)))
        visible = [name for each in sorted(before[number]) for name in names[each]]
        own: list[str] = []
        tasks = []
        for each in range(draw(st.integers(1, 3))):
            name = f"p{number}t{each}"
            tasks.append(task(name, *draw(reads_of([*visible, *own])), when=draw(conditions_on([*visible, *own]))))
            own.append(name)
        names.append(own)
        workflow = draw(st.sampled_from([Workflow.SEQUENTIAL, Workflow.PARALLEL]))
        review = draw(st.sampled_from([None, approve]))
        phases.append(Phase.of(f"p{number}", *tasks, after=after, when=when, workflow=workflow, review=review))
    return draw(told(EnsembleDefinition(phases=draw(st.permutations(phases)))))


def reads_of(names: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=3) if names else st.just([])


def conditions_on(names: Sequence[str]) -> st.SearchStrategy[list[Condition]]:
    """Mostly none; which of them hold is in the script."""
    if not names:
        return st.just([])
    one = st.builds(lambda name, make: make(name), st.sampled_from(names), st.sampled_from([says, otherwise]))
    return st.just([]) | st.lists(one, max_size=2)


@st.composite
def told(draw: st.DrawFn, made: EnsembleDefinition) -> tuple[Graph, Script]:
    """A graph with a script, in which most tasks are done and every other condition holds."""
    graph, _ = check_ensemble(made)
    pairs = st.tuples(st.integers(0, len(graph.tasks) - 1), st.integers(1, 4))
    numbers = st.tuples(st.integers(0, max(len(graph.conditions) - 1, 0)), st.integers(1, 4))
    words = st.lists(st.sampled_from(["retry", "retry", "approve", "reject"]), max_size=3)
    addresses = {
        (phase.index, attempt): draw(st.none() | st.sets(st.sampled_from(phase.tasks), min_size=1))
        for phase in graph.phases
        for attempt in (1, 2, 3)
    }
    script = Script(
        addresses=addresses,
        fail=draw(st.sets(pairs, max_size=3)),
        hold=draw(st.sets(numbers)),
        verdicts={phase.index: draw(words) for phase in graph.phases},
    )
    return graph, script


class Story:
    """A run by a script: at each step something that is under way ends. Checks what must hold at any time."""

    def __init__(self, graph: Graph, strategy: ErrorStrategy, script: Script, limit: int | None = None) -> None:
        self.graph = graph
        self.script = script
        self.limit = limit
        self.scheduler = Scheduler(graph, strategy, limit)
        self.log: list[Command] = []
        self.under_way: list[tuple[str, int]] = []
        self.attempts = dict.fromkeys(range(len(graph.phases)), 1)
        self.runs: dict[int, int] = dict.fromkeys(range(len(graph.tasks)), 1)
        self.tasks: dict[int, Fate | str] = {}
        self.phases: dict[int, PhaseStatus | str] = {}
        self.is_closed = False
        self.tell(RunStartRequested())

    def tell(self, scheduler_input: SchedulerInput) -> None:
        for command in self.scheduler.handle(scheduler_input):
            self.log.append(command)
            self.perform(command)
        assert self.limit is None or len(self.under_way) <= self.limit

    def perform(self, command: Command) -> None:
        assert EndRun() not in self.log[:-1]
        match command:
            case StartTask(index):
                assert not self.is_closed
                assert index not in self.tasks
                self.under_way.append(("task", index))
            case SkipTask(index, reason):
                assert reason
                assert index not in self.tasks
                self.tasks[index] = "skipped"
            case ReviewPhase(index):
                assert not self.is_closed
                assert all(each in self.tasks for each in self.graph.phases[index].tasks)
                self.under_way.append(("review", index))
            case RetryPhase(index, tasks):
                assert not self.is_closed
                assert set(tasks) == self.script.list_redone(self.graph, index, self.attempts[index])
                self.attempts[index] += 1
                for each in tasks:
                    del self.tasks[each]
                    self.runs[each] = self.attempts[index]
            case StartPhase(index):
                assert not self.is_closed
                assert index not in self.phases
            case SkipPhase(index, reason):
                assert reason
                assert index not in self.phases
                self.phases[index] = "skipped"
            case EndPhase(index, status):
                assert index not in self.phases
                assert all(each in self.tasks for each in self.graph.phases[index].tasks)
                self.phases[index] = status

    def step(self, which: int) -> None:
        """One of the things under way comes to its end."""
        kind, index = self.under_way.pop(which)
        if kind == "task":
            attempt = self.runs[index]
            has_failed = (index, attempt) in self.script.fail
            self.tasks[index] = "failed" if has_failed else "done"
            held = self.script.held(self.graph, index, attempt)
            self.tell(TaskEndedWithoutOutput(index) if has_failed else TaskSucceeded(index, held))
        else:
            attempt = self.attempts[index]
            addressed = self.script.addresses.get((index, attempt))
            words: dict[str, SchedulerInput] = {
                "approve": PhaseApproved(index),
                "retry": PhaseSentBack(index, None if addressed is None else frozenset(addressed)),
                "reject": PhaseRejected(index),
            }
            self.tell(words[self.script.verdict(index, attempt)])

    def go_on(self, data: st.DataObject, steps: int | None = None) -> None:
        while self.under_way and (steps is None or steps > 0):
            self.step(data.draw(st.integers(0, len(self.under_way) - 1)))
            steps = None if steps is None else steps - 1

    def check_the_end(self) -> None:
        assert self.log[-1] == EndRun()
        assert self.under_way == []
        assert set(self.tasks) == set(range(len(self.graph.tasks)))
        assert set(self.phases) == set(range(len(self.graph.phases)))


STORIES = flat_stories() | phase_stories()
LIMITS = st.none() | st.integers(1, 3)


@given(STORIES, st.sampled_from([CONTINUE, PARTIAL]), LIMITS, st.data())
def test_what_runs_is_what_the_rules_say_whoever_is_faster(
    case: tuple[Graph, Script], strategy: ErrorStrategy, limit: int | None, data: st.DataObject
) -> None:
    graph, script = case
    story, oracle = Story(graph, strategy, script, limit), Oracle(graph, strategy, script)
    story.go_on(data)
    story.check_the_end()
    told = {index: fate if fate in ("done", "failed") else "skipped" for index, fate in fates(oracle).items()}
    assert story.tasks == told
    ends = {"done": DONE, "failed": FAILED, "missed": "skipped", "passed over": "skipped"}
    assert story.phases == {phase.index: ends[oracle.phase(phase.index)] for phase in graph.phases}
    assert story.attempts == {index: oracle.attempts.get(index, 1) for index in story.attempts}


def fates(oracle: Oracle) -> dict[int, Fate]:
    return {node.index: oracle.task(node.index) for node in oracle.graph.tasks}


@given(STORIES, LIMITS, st.data())
def test_fail_fast_runs_a_part_of_what_would_run_otherwise_and_all_of_it_where_nothing_fails(
    case: tuple[Graph, Script], limit: int | None, data: st.DataObject
) -> None:
    graph, script = case
    story, oracle = Story(graph, FAST, script, limit), Oracle(graph, CONTINUE, script)
    story.go_on(data)
    story.check_the_end()
    otherwise_run = {index: fate for index, fate in fates(oracle).items() if fate in ("done", "failed")}
    run = {index: fate for index, fate in story.tasks.items() if fate != "skipped"}
    assert run.items() <= otherwise_run.items()
    if "failed" not in otherwise_run.values():
        assert run == otherwise_run


@given(STORIES, st.sampled_from(list(ErrorStrategy)), LIMITS, st.integers(0, 12), st.booleans(), st.data())
def test_nothing_starts_once_a_run_is_closed_and_everything_ends(
    case: tuple[Graph, Script],
    strategy: ErrorStrategy,
    limit: int | None,
    steps: int,
    is_stopped: bool,
    data: st.DataObject,
) -> None:
    graph, script = case
    story = Story(graph, strategy, script, limit)
    story.go_on(data, steps)
    if EndRun() in story.log:
        return
    story.is_closed = True
    story.tell(RunClosed(LEFT))
    story.go_on(data, steps // 2)
    if is_stopped and EndRun() not in story.log:
        left = {CancelTask(index) if kind == "task" else CancelReview(index) for kind, index in story.under_way}
        story.tell(RunStopRequested())
        assert {each for each in story.log if isinstance(each, CancelTask | CancelReview)} == left
        while story.under_way:
            kind, index = story.under_way.pop()
            if kind == "task":
                story.tasks[index] = "cancelled"
            story.tell(TaskEndedWithoutOutput(index) if kind == "task" else PhaseReviewAborted(index))
    story.go_on(data)
    story.check_the_end()


@given(flat_stories(), st.sampled_from([CONTINUE, PARTIAL]), st.data())
def test_the_makespan_is_the_longest_path_of_what_ran_e21(
    case: tuple[Graph, Script], strategy: ErrorStrategy, data: st.DataObject
) -> None:
    graph, script = case
    durations = [data.draw(st.integers(0, 50)) / 4 for _ in graph.tasks]
    starts, ends, _ = simulate(
        Scheduler(graph, strategy),
        durations,
        lambda index: (index, 1) in script.fail,
        lambda index: script.held(graph, index, 1),
    )
    settled = Settling(graph, Oracle(graph, strategy, script), durations)
    assert starts == {index: settled.at(index) - durations[index] for index in starts}
    assert max(ends.values()) == max(settled.at(index) for index in starts)


class Settling:
    """When each task of a flat graph is resolved, with places for all."""

    def __init__(self, graph: Graph, oracle: Oracle, durations: list[float]) -> None:
        self.graph = graph
        self.oracle = oracle
        self.durations = durations
        self.times: dict[int, float] = {}

    def at(self, index: int) -> float:
        if index not in self.times:
            self.times[index] = self._at(index)
        return self.times[index]

    def _at(self, index: int) -> float:
        node, fate = self.graph.tasks[index], self.oracle.task(index)
        lost = [self.at(each) for each in node.context if self.oracle.task(each) in ("failed", "missed")]
        if lost and not self.oracle.is_partial:
            return min(lost)  # it need not wait for the others to be skipped
        before = [*node.context, *node.sources, *(() if node.after is None else (node.after,))]
        ready = max((self.at(each) for each in before), default=0.0)
        return ready + self.durations[index] if fate in ("done", "failed") else ready


# --- Rounds (E81) ---


def looped(max_rounds: int = 3, strategy: ErrorStrategy = FAST, **fields: Any) -> Scheduler:
    """A phase of two tasks that is done until the second one says yes, and one that comes after it."""
    loop = Phase.of("p", task("a"), task("b", "a"), until=says("b"), max_rounds=max_rounds, **fields)
    scheduler = Scheduler(phased(loop, Phase.of("q", task("c"), after=loop)), strategy)
    assert scheduler.handle(RunStartRequested()) == [StartPhase(0), StartTask(0)]
    return scheduler


def judged(scheduler: Scheduler, **facts: Any) -> list[Command]:
    """The end of a round."""
    assert scheduler.handle(TaskSucceeded(0)) == [StartTask(1)]
    return scheduler.handle(TaskSucceeded(1, **facts))


def test_a_phase_is_done_again_until_its_condition_holds_e81() -> None:
    scheduler = looped()
    assert judged(scheduler) == [RetryPhase(0, (0, 1)), StartTask(0)]
    met = frozenset({0})
    assert judged(scheduler, met_conditions=met) == [EndPhase(0, DONE, is_cancelled=False), StartPhase(1), StartTask(2)]


@pytest.mark.parametrize("on_exhausted, status", [("fail", FAILED), ("keep", DONE)])
def test_a_phase_has_no_more_than_its_rounds_e81(on_exhausted: Any, status: PhaseStatus) -> None:
    scheduler = looped(max_rounds=2, on_exhausted=on_exhausted)
    judged(scheduler)
    assert judged(scheduler)[:2] == [EndRounds(0), EndPhase(0, status, is_cancelled=False)]


def test_a_condition_that_broke_ends_the_rounds_e81() -> None:
    scheduler, broken = looped(on_exhausted="keep"), frozenset({0})
    commands = judged(scheduler, met_conditions=broken, broken_conditions=broken)
    assert commands[:2] == [EndRounds(0), EndPhase(0, FAILED, is_cancelled=False)]


def test_a_closed_run_begins_no_further_round_e81() -> None:
    scheduler = looped()
    scheduler.handle(TaskSucceeded(0))
    scheduler.handle(RunClosed(LEFT))
    assert EndPhase(0, DONE, is_cancelled=False) in scheduler.handle(TaskSucceeded(1))


def test_a_failed_task_ends_the_rounds_only_where_the_first_failure_is_the_end_e81() -> None:
    scheduler = looped()
    commands = scheduler.handle(TaskEndedWithoutOutput(0))
    assert EndPhase(0, FAILED, is_cancelled=False) in commands
    scheduler = looped(strategy=CONTINUE)
    assert scheduler.handle(TaskEndedWithoutOutput(0))[-2:] == [RetryPhase(0, (0, 1)), StartTask(0)]
