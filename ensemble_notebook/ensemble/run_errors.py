"""What is said of a run that ended badly: what `run` raises (E32), and why there is no output of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.errors import (
    ConstraintViolationError,
    DeadlineExceededError,
    ParallelExecutionError,
    PhaseExecutionError,
    RunInterrupted,
    TaskExecutionError,
    add_origin,
    did_you_mean,
    summarize_error,
)

_RETURNED: Final = (ExitReason.USER_EXIT_EARLY, ExitReason.BUDGET_EXCEEDED)


def make_run_error(
    result: RunResult, graph: Graph, strategy: ErrorStrategy, inputs: Mapping[str, Any], timeout_s: float | None
) -> BaseException | None:
    """The error that fits the end of a run, its cause set; None where `run` returns.

    It returns where nothing failed, where somebody left early or the budget was used up, whatever had failed by then
    (E27, E36), and always under PARTIAL, whose outcome is told by the status, FAILED included (E32, E34). An
    interrupt and a timeout raise in any case.
    """
    if result.exit_reason is ExitReason.INTERRUPTED:
        return RunInterrupted(f"{len(result.outputs)} of {len(graph.tasks)} tasks are done and kept.")
    if result.exit_reason is ExitReason.TIMEOUT and timeout_s is not None:
        running = ", ".join(repr(graph.tasks[index].name) for index in result.cancelled) or "nothing"
        return DeadlineExceededError("run", timeout_s, running, "Raise timeout; what was done is kept in .output.")
    if not result.failures or strategy is ErrorStrategy.PARTIAL or result.exit_reason in _RETURNED:
        return None
    first = result.failures[0]
    if isinstance(first.error, ConstraintViolationError):
        return first.error  # the manager did its work; what is missing is nobody's failure (E25)
    error = _make_failure_error(result, graph, strategy, inputs, first)
    error.__cause__ = first.error
    return error


def explain_absence(
    name: str, graph: Graph, failures: Iterable[Failure], skipped: Iterable[Skipped], present: Iterable[str]
) -> str:
    """Say why a run has no output of this name; `present` are the names that it has."""
    for failure in failures:
        if failure.name == name:
            return add_origin(f"Task {name!r} failed: {summarize_error(failure.error)}", failure.error)
    for each in skipped:
        if each.name == name:
            return f"Task {name!r} was skipped: {each.reason}"
    if any(name == node.name for node in graph.managed):
        there = ", ".join(present) or "nothing"
        return f"Task {name!r} has no output of its own, since a manager had it done. There is: {there}."
    names = [node.name for node in graph.tasks]
    return f"Task {name!r} was stopped." if name in names else f"No task {name!r}.{did_you_mean(str(name), names)}"


def _make_failure_error(
    result: RunResult, graph: Graph, strategy: ErrorStrategy, inputs: Mapping[str, Any], first: Failure
) -> TaskExecutionError:
    tasks = {node.name: node for node in graph.tasks}
    # A phase that its review rejected has no description of its own.
    description = tasks[first.name].task.description if first.kind == "task" else f"Review of phase {first.name!r}"
    facts: dict[str, Any] = {
        "task_description": render(description, inputs),
        "agent_role": first.agent_role,
        "completed_task_outputs": result.completed,
    }
    what = add_origin(summarize_error(first.error), first.error)
    names = ", ".join(f"{each.name!r} ({each.agent_role})" for each in result.failures if each.kind == "task")
    if graph.phases:
        phases = dict.fromkeys(
            each.name if each.kind == "phase" else graph.get_phase_name(tasks[each.name]) for each in result.failures
        )
        place = f" at task {names}" if names else ""
        message = f"Phase {', '.join(map(repr, phases))} failed{place}: {what}"
        return PhaseExecutionError(message, failures=result.failures, **facts)
    if strategy is ErrorStrategy.CONTINUE_ON_ERROR:
        causes = {failure.name: failure.error for failure in result.failures}
        message = f"{len(causes)} of {len(graph.tasks)} tasks failed: {names}: {what}"
        return ParallelExecutionError(message, failed_task_causes=causes, **facts)
    head = f"Task {first.name!r} ({first.agent_role}) failed: "
    # Of a run in itself, each level would say the same once more.
    return TaskExecutionError(what if head in what else f"{head}{what}", **facts)
