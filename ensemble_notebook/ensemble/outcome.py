"""Turns the end of a run into what `run` raises (E32): one place that knows which error fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensemble_notebook.domain.choice import ErrorStrategy, ExitReason
from ensemble_notebook.domain.graph import Graph
from ensemble_notebook.domain.output import Failure
from ensemble_notebook.domain.template import render
from ensemble_notebook.engine.driver import RunResult
from ensemble_notebook.errors import (
    DeadlineExceededError,
    ParallelExecutionError,
    PhaseExecutionError,
    RunInterrupted,
    TaskExecutionError,
    one_line,
)


def error_of(
    result: RunResult, graph: Graph, strategy: ErrorStrategy, inputs: Mapping[str, Any], timeout_s: float | None
) -> BaseException | None:
    """The error that fits the end of a run, its cause set; None when it completed."""
    if result.exit_reason is ExitReason.INTERRUPTED:
        return RunInterrupted(f"{len(result.outputs)} of {len(graph.tasks)} tasks are done and kept.")
    if result.exit_reason is ExitReason.TIMEOUT and timeout_s is not None:
        running = ", ".join(repr(graph.tasks[index].name) for index in result.cancelled) or "nothing"
        return DeadlineExceededError("run", timeout_s, running, "Raise timeout; what was done is kept in .output.")
    if not result.failures:
        return None
    first = result.failures[0]
    error = _failure_error(result, graph, strategy, inputs, first)
    error.__cause__ = first.error
    return error


def _failure_error(
    result: RunResult, graph: Graph, strategy: ErrorStrategy, inputs: Mapping[str, Any], first: Failure
) -> TaskExecutionError:
    node = next(node for node in graph.tasks if node.name == first.name)
    facts: dict[str, Any] = {
        "task_description": render(node.task.description, inputs),
        "agent_role": first.agent_role,
        "completed_task_outputs": tuple(result.outputs.values()),
    }
    names = ", ".join(f"{failure.name!r} ({failure.agent_role})" for failure in result.failures)
    if graph.phases:
        phases = dict.fromkeys(
            graph.phases[each.phase].name
            for failure in result.failures
            for each in graph.tasks
            if each.name == failure.name and each.phase is not None
        )
        label = ", ".join(repr(name) for name in phases)
        message = f"Phase {label} failed at task {names}: {one_line(first.error)}"
        return PhaseExecutionError(message, failures=result.failures, **facts)
    if strategy is ErrorStrategy.CONTINUE_ON_ERROR:
        causes = {failure.name: failure.error for failure in result.failures}
        message = f"{len(causes)} of {len(graph.tasks)} tasks failed: {names}: {one_line(first.error)}"
        return ParallelExecutionError(message, failed_task_causes=causes, **facts)
    return TaskExecutionError(f"Task {first.name!r} ({first.agent_role}) failed: {one_line(first.error)}", **facts)
