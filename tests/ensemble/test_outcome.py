"""Which error fits the end of a run (E26, E32, E35)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.task_output import Failure, TaskOutput
from ensemble_notebook.domain.planning.graph import Graph, build_graph
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.ensemble.ensemble_output import make_run_error
from ensemble_notebook.errors import (
    AgentExecutionError,
    DeadlineExceededError,
    ParallelExecutionError,
    PhaseExecutionError,
    ReviewRejectedError,
    RunInterrupted,
    TaskExecutionError,
)

FAST, CONTINUE, PARTIAL = ErrorStrategy
TASKS = [Task.of("Read {topic}", name="read"), Task.of("Write {topic}", name="write"), Task.of("Print", name="print")]
FLAT = build_graph(EnsembleDefinition(tasks=TASKS))
PHASED = build_graph(EnsembleDefinition(phases=[Phase.of("one", *TASKS[:2]), Phase.of("two", TASKS[2])]))
READ = TaskOutput(
    name="read",
    raw="",
    task_description="Read tides",
    agent_role="Agent",
    completed_at=datetime.now(UTC),
    duration=timedelta(),
)
FULL, JAM = OSError("disk is full"), ValueError("paper jam")


def failure(name: str, error: Exception) -> Failure:
    return Failure(name=name, agent_role="Writer", error=error)


def ended(graph: Graph, *failures: Failure, strategy: ErrorStrategy = FAST) -> BaseException | None:
    reason = ExitReason.ERROR if failures else ExitReason.COMPLETED
    result = RunResult(exit_reason=reason, outputs={0: READ}, failures=list(failures))
    return make_run_error(result, graph, strategy, {"topic": "tides"}, None)


def test_a_completed_run_raises_nothing() -> None:
    assert ended(FLAT) is None


def test_fail_fast_raises_the_first_failure_with_what_was_done_by_then_e32() -> None:
    error = ended(FLAT, failure("write", FULL), failure("print", JAM))
    assert type(error) is TaskExecutionError
    assert str(error) == "Task 'write' (Writer) failed: OSError: disk is full"
    assert (error.task_description, error.agent_role) == ("Write tides", "Writer")
    assert error.completed_task_outputs == (READ,)
    assert error.__cause__ is FULL


def test_our_own_errors_are_quoted_without_their_type() -> None:
    silent = AgentExecutionError("Agent 'Writer' got no reply.", agent_role="Writer", task_description="Write")
    assert str(ended(FLAT, failure("write", silent))) == "Task 'write' (Writer) failed: Agent 'Writer' got no reply."


def test_continue_on_error_names_every_failed_task_e32() -> None:
    error = ended(FLAT, failure("write", FULL), failure("print", JAM), strategy=CONTINUE)
    assert isinstance(error, ParallelExecutionError)
    assert error.failed_task_causes == {"write": FULL, "print": JAM}
    assert str(error) == "2 of 3 tasks failed: 'write' (Writer), 'print' (Writer): OSError: disk is full"
    assert error.completed_task_outputs == (READ,)
    assert error.__cause__ is FULL


@pytest.mark.parametrize("strategy", [FAST, CONTINUE])
def test_phases_raise_all_failures_e26(strategy: ErrorStrategy) -> None:
    failures = (failure("write", FULL), failure("print", JAM))
    error = ended(PHASED, *failures, strategy=strategy)
    assert isinstance(error, PhaseExecutionError)
    assert error.failures == failures
    assert str(error) == ("Phase 'one', 'two' failed at task 'write' (Writer), 'print' (Writer): OSError: disk is full")
    assert error.__cause__ is FULL


def test_a_rejected_phase_is_named_with_the_words_of_its_review_e28() -> None:
    rejection = ReviewRejectedError("Phase 'two' was rejected by its review: too short", reason="too short")
    rejected = Failure(name="two", agent_role="Reviewer", error=rejection, kind="phase")
    error = ended(PHASED, rejected)
    assert isinstance(error, PhaseExecutionError)
    assert error.failures == (rejected,)
    assert str(error) == "Phase 'two' failed: Phase 'two' was rejected by its review: too short"
    assert (error.task_description, error.agent_role) == ("Review of phase 'two'", "Reviewer")
    assert error.__cause__ is rejection


def test_failed_tasks_and_rejected_phases_are_told_apart_e26_e28() -> None:
    rejection = ReviewRejectedError("too short", reason="too short")
    rejected = Failure(name="two", agent_role="Reviewer", error=rejection, kind="phase")
    error = ended(PHASED, failure("write", FULL), rejected)
    assert str(error) == "Phase 'one', 'two' failed at task 'write' (Writer): OSError: disk is full"


@pytest.mark.parametrize("graph", [FLAT, PHASED], ids=["flat", "phases"])
def test_under_partial_a_run_returns_whatever_failed_e32(graph: Graph) -> None:
    assert ended(graph, failure("write", FULL), strategy=PARTIAL) is None


@pytest.mark.parametrize("reason", [ExitReason.USER_EXIT_EARLY, ExitReason.BUDGET_EXCEEDED])
@pytest.mark.parametrize("strategy", list(ErrorStrategy))
def test_a_closed_run_returns_whatever_failed_e27_e36(reason: ExitReason, strategy: ErrorStrategy) -> None:
    result = RunResult(exit_reason=reason, outputs={0: READ}, failures=[failure("write", FULL)])
    assert make_run_error(result, FLAT, strategy, {}, None) is None


@pytest.mark.parametrize("strategy", list(ErrorStrategy))
def test_an_interrupt_raises_under_every_strategy_e35(strategy: ErrorStrategy) -> None:
    result = RunResult(exit_reason=ExitReason.INTERRUPTED, outputs={0: READ})
    assert isinstance(make_run_error(result, FLAT, strategy, {}, None), RunInterrupted)


def test_an_interrupt_says_how_much_is_kept_e35() -> None:
    result = RunResult(exit_reason=ExitReason.INTERRUPTED, outputs={0: READ}, failures=[failure("write", FULL)])
    error = make_run_error(result, FLAT, FAST, {}, None)
    assert isinstance(error, RunInterrupted)
    assert str(error) == "1 of 3 tasks are done and kept."


def test_a_timeout_says_what_was_running_e4() -> None:
    result = RunResult(exit_reason=ExitReason.TIMEOUT, outputs={0: READ}, cancelled=[1, 2])
    error = make_run_error(result, FLAT, FAST, {}, 1.5)
    assert isinstance(error, DeadlineExceededError)
    assert (error.scope, error.timeout_s, error.running) == ("run", 1.5, "'write', 'print'")
