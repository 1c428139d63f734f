"""The log as one more view of the event stream (E39). Silent unless the application configures logging."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import (
    Event,
    LlmCallCompleted,
    LlmCallRetried,
    Noted,
    TaskCompleted,
    TaskFailed,
    TaskInputPrepared,
    TaskSkipped,
    TaskStarted,
    ToolCallCompleted,
    Warned,
)
from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.errors import add_origin, make_readable, summarize_error

logging.getLogger("ensemble_notebook").addHandler(logging.NullHandler())
logger = logging.getLogger("ensemble_notebook.run")

Line = tuple[Any, ...]  # level, format, arguments

_TALK: Final = -1  # stands for DEBUG, or INFO where the ensemble or the agent is verbose


class RunLogger:
    """Writes a run's events to ``ensemble_notebook.run``.

    Records carry ``run_id``, ``task``, ``task_index`` (from 1; None for work that stands in no plan, such as delegated
    work) and ``agent_role``. Starts, ends and tool calls are
    INFO, faults WARNING, prompts and replies DEBUG, or INFO where the ensemble or the agent is verbose. Secrets are
    masked (T7): a log is a file that somebody keeps.
    """

    def __init__(self, graph: Graph, *, is_verbose: bool) -> None:
        self._indices = {node.name: node.index + 1 for node in graph.tasks}
        self._agents = {node.name: node.agent for node in graph.all_tasks}
        self._team = {member.agent.role: member.agent for member in graph.team}
        self._is_verbose = is_verbose

    def put(self, event: Event) -> None:
        """Log one event, if anybody listens at its level."""
        if type(event) is TaskStarted and event.task not in self._agents:
            self._agents[event.task or ""] = self._team.get(event.agent)
        make_line = _LINES.get(type(event))
        if make_line is None or (type(event) in _ROUTINE and not logger.isEnabledFor(logging.INFO)):
            return
        level, text, *values = make_line(event)
        agent = self._agents.get(event.task or "")
        if level is _TALK:
            if not any(values[1:]):  # no text is kept (T6a)
                return
            is_verbose = self._is_verbose or (agent is not None and agent.verbose)
            level = logging.INFO if is_verbose else logging.DEBUG
        if logger.isEnabledFor(level):
            safe = [make_readable(value) if isinstance(value, str) else value for value in values]
            facts = {
                "run_id": event.run_id,
                "task": event.task,
                "task_index": self._indices.get(event.task or ""),
                "agent_role": self._role(event.task),
            }
            logger.log(level, text, *safe, extra=facts)

    def _role(self, task: str | None) -> str | None:
        agent = self._agents.get(task or "")
        if agent is not None:
            return agent.role
        return HANDLER_ROLE if task in self._agents else None


def _task_started(event: TaskStarted) -> Line:
    """Work that stands in no plan has no number."""
    place = "" if event.index is None else f" ({event.index + 1}/{event.total})"
    return logging.INFO, "Task %s%s started: %s", event.task, place, event.agent


def _task_completed(event: TaskCompleted) -> Line:
    output = event.output
    text = "Task %s completed in %.2f s with %d tool calls"
    return logging.INFO, text, output.name, output.duration.total_seconds(), output.tool_call_count


def _task_failed(event: TaskFailed) -> Line:
    if event.status is SpanStatus.CANCELLED:
        return logging.INFO, "Task %s was cancelled", event.task
    return logging.WARNING, "Task %s failed: %s", event.task, add_origin(summarize_error(event.error), event.error)


def _tool_completed(event: ToolCallCompleted) -> Line:
    if event.status is SpanStatus.OK:
        return logging.INFO, "Tool %s answered in %s", event.tool, event.task
    if event.status is SpanStatus.CANCELLED:
        return logging.INFO, "Tool %s in %s was cancelled", event.tool, event.task
    told = event.result if event.error is None else add_origin(event.result, event.error)
    return logging.WARNING, "Tool %s in %s: %s", event.tool, event.task, told


def _retried(event: LlmCallRetried) -> Line:
    text = "Model request %d of %s failed (%s), again in %.1f s"
    return logging.WARNING, text, event.attempt, event.task, event.reason, event.delay_s


_LINES: Final[dict[type[Event], Callable[[Any], Line]]] = {
    TaskStarted: _task_started,
    TaskInputPrepared: lambda e: (_TALK, "Prompts of %s:\n%s\n\n%s", e.task, e.system_prompt, e.user_prompt),
    LlmCallCompleted: lambda e: (_TALK, "Reply in %s:\n%s", e.task, e.text),
    TaskCompleted: _task_completed,
    TaskFailed: _task_failed,
    TaskSkipped: lambda e: (logging.INFO, "Task %s skipped: %s", e.task, e.reason),
    ToolCallCompleted: _tool_completed,
    LlmCallRetried: _retried,
    Noted: lambda e: (logging.INFO, "%s", e.message),
    Warned: lambda e: (logging.WARNING, "%s", e.message),
}

# Never above INFO; most runs are not logged, and making a line costs as much as running a small task.
_ROUTINE: Final = frozenset({TaskStarted, TaskInputPrepared, LlmCallCompleted, TaskCompleted, TaskSkipped, Noted})
