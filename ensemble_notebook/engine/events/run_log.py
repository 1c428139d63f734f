"""The log as one more view of the event stream (E39, E49). Silent unless the application configures logging.

What a line says of an event that needs nothing else stands in `log_lines`; here is what needs to know of earlier ones.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus, TaskNoun
from ensemble_notebook.domain.events import (
    Event,
    LlmAttemptEnded,
    ReviewAnswered,
    ReviewRequested,
    RunEnded,
    RunStarted,
    TaskCompleted,
    TaskFailed,
    TaskFellBack,
    TaskRetried,
    TaskReused,
    TaskSkipped,
    TaskStarted,
    ToolCallCompleted,
    ToolCallStarted,
)
from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.wording import format_count, format_duration, pluralize
from ensemble_notebook.engine.events.log_lines import LINES, ROUTINE, TALK, Line, append, cut
from ensemble_notebook.errors import add_origin, make_readable, summarize_error

logging.getLogger("ensemble_notebook").addHandler(logging.NullHandler())
logger = logging.getLogger("ensemble_notebook.run")

_BAD_ENDS: Final = frozenset({RunStatus.FAILED, RunStatus.BUDGET_EXCEEDED})
_STATUS_WORDS: Final = {RunStatus.BUDGET_EXCEEDED: "stopped, since its budget is used up,"}
_TASK_ENDS: Final = {TaskCompleted: "completed", TaskReused: "completed", TaskFailed: "failed", TaskSkipped: "skipped"}


class RunLogger:
    """Writes a run's events to ``ensemble_notebook.run``.

    Records carry ``run_id``, ``task``, ``task_index`` (from 1; None for work that stands in no plan, such as delegated
    work), ``task_description`` and ``agent_role``. Starts, ends, reviews and tool calls are INFO, faults, retries and
    fallbacks WARNING, prompts and replies DEBUG, or INFO where the ensemble or the agent is verbose. Secrets are masked
    (T7): a log is a file that somebody keeps.
    """

    def __init__(self, graph: Graph, *, is_verbose: bool) -> None:
        self._indices = {node.name: node.index + 1 for node in graph.tasks}
        self._agents = {node.name: node.agent for node in graph.all_tasks}
        self._team = graph.team
        self._is_verbose = is_verbose
        self._name = ""
        self._task_noun = TaskNoun.TASK
        self._roles: dict[str, str] = {}  # of the tasks that have begun
        self._descriptions: dict[str, str] = {}
        self._asked: dict[str, str] = {}  # what a tool or a reviewer was asked, by span, until it has answered
        self._ends: dict[str, str] = {}  # how each task of the plan ended at last
        self._request_count = 0
        self._tokens_in = 0
        self._tokens_out = 0
        self._tool_call_count = 0
        self._is_usage_known = True

    def put(self, event: Event) -> None:
        """Log one event, if anybody listens at its level."""
        kind = type(event)
        if (note := _NOTES.get(kind)) is not None:
            note(self, event)
        if _is_routine(event) and not logger.isEnabledFor(logging.INFO):
            return
        if (tell := _TOLD.get(kind)) is not None:
            level, text, *values = tell(self, event)
        elif (make_line := LINES.get(kind)) is not None:
            level, text, *values = make_line(event)
        else:
            return
        if level is TALK:
            if not any(values[1:]):  # no text is kept (T6a)
                return
            agent = self._agents.get(event.task or "")
            is_verbose = self._is_verbose or (agent is not None and agent.verbose)
            level = logging.INFO if is_verbose else logging.DEBUG
        if logger.isEnabledFor(level):
            safe = [make_readable(value) if isinstance(value, str) else value for value in values]
            logger.log(level, text, *safe, extra=self._collect_facts(event))

    def _collect_facts(self, event: Event) -> dict[str, Any]:
        task = event.task or ""
        description = self._descriptions.get(task)
        return {
            "run_id": event.run_id,
            "task": event.task,
            "task_index": self._indices.get(task),
            "task_description": None if description is None else make_readable(description),
            "agent_role": self._roles.get(task) or self._find_role(task),
        }

    def _find_role(self, task: str) -> str | None:
        """The role of a task that has not begun; None for work that stands in no plan."""
        agent = self._agents.get(task)
        return agent.role if agent is not None else HANDLER_ROLE if task in self._agents else None

    # --- What later lines need ----------------------------------------------------------------------------------------

    def _note_run(self, event: RunStarted) -> None:
        self._name, self._task_noun = event.name or event.run_id, event.task_noun

    def _note_task(self, event: TaskStarted) -> None:
        name = event.task or ""
        self._descriptions[name] = event.description
        if name not in self._agents:
            self._agents[name] = next((each.agent for each in self._team if each.agent.role == event.agent), None)
        self._roles[name] = event.agent

    def _note_fallback(self, event: TaskFellBack) -> None:
        self._roles[event.task or ""] = event.agent

    def _note_retry(self, event: TaskRetried) -> None:
        """It begins with the task's own agent again, whoever took over in the attempt before (E31)."""
        name = event.task or ""
        agent = self._agents.get(name)
        if agent is not None:
            self._roles[name] = agent.role

    def _note_task_end(self, event: Event) -> None:
        if event.task in self._indices:
            is_cut_short = isinstance(event, TaskFailed) and event.status is SpanStatus.CANCELLED
            self._ends[event.task] = "cancelled" if is_cut_short else _TASK_ENDS[type(event)]

    def _note_tool_call(self, event: ToolCallStarted) -> None:
        self._asked[event.span_id] = event.arguments

    def _count_request(self, event: LlmAttemptEnded) -> None:
        usage = event.usage
        self._request_count += 1
        self._tokens_in += usage.input_tokens or 0
        self._tokens_out += usage.output_tokens or 0
        self._is_usage_known &= usage.input_tokens is not None and usage.output_tokens is not None

    # --- Lines --------------------------------------------------------------------------------------------------------

    def _describe_run_start(self, event: RunStarted) -> Line:
        replayed = "" if event.replayed_from is None else f", replayed from {event.replayed_from}"
        tasks = pluralize(len(self._indices), self._task_noun)
        return logging.INFO, "Run %s started: %s, %s%s", self._name, tasks, event.workflow, replayed

    def _describe_run_end(self, event: RunEnded) -> Line:
        """The totals of the run; costs are priced by the trace, and not known here."""
        level = logging.WARNING if event.status in _BAD_ENDS else logging.INFO
        status = _STATUS_WORDS.get(event.status) or event.status.value.replace("_", " ")
        why = append(None if event.error is None else add_origin(summarize_error(event.error), event.error))
        took = format_duration(event.offset_s * 1000)
        return level, "Run %s %s after %s: %s%s", self._name, status, took, self._describe_totals(), why

    def _describe_totals(self) -> str:
        ends = Counter(self._ends.values())
        parts = [f"{ends['completed']:,} of {pluralize(len(self._indices), self._task_noun)} completed"]
        parts += [f"{ends[word]} {word}" for word in ("failed", "skipped", "cancelled") if ends[word]]
        if self._request_count:
            known = "" if self._is_usage_known else "at least "
            tokens = f"{format_count(self._tokens_in)} tokens in and {format_count(self._tokens_out)} out"
            parts.append(f"{pluralize(self._request_count, 'model request')} with {known}{tokens}")
        if self._tool_call_count:
            parts.append(pluralize(self._tool_call_count, "tool call"))
        return ", ".join(parts)

    def _describe_tool_call(self, event: ToolCallCompleted) -> Line:
        self._tool_call_count += 1
        call = f"{event.tool}({cut(self._asked.pop(event.span_id, ''))})"
        if event.status is SpanStatus.CANCELLED:
            return logging.INFO, "Tool in %s: %s was cancelled", event.task, call
        told = cut(event.result)
        if event.error is not None:
            told = add_origin(told or cut(summarize_error(event.error)), event.error)
        level = logging.INFO if event.status is SpanStatus.OK else logging.WARNING
        return level, "Tool in %s: %s -> %s", event.task, call, told

    def _describe_question(self, event: ReviewRequested) -> Line:
        request = event.request
        where = f"phase {event.phase}" if request.subject == "phase" else event.task or ""
        what = f"tool {request.tool} in {where}" if request.tool else where
        subject = {"task": "start of ", "output": "output of ", "question": "question in "}.get(request.subject, "")
        self._asked[event.span_id] = f"{subject}{what}"
        return logging.INFO, "Review asked: %s", f"{subject}{what}"

    def _describe_answer(self, event: ReviewAnswered) -> Line:
        what, waited = self._asked.pop(event.span_id, event.task or ""), format_duration(event.waited_s * 1000)
        if event.decision is None:
            why = append(None if event.error is None else summarize_error(event.error))
            return logging.WARNING, "Review of %s ended without an answer after %s%s", what, waited, why
        late = ", since nobody answered in time" if event.is_timeout else ""
        said = f"{event.decision.verdict.value}{late}{append(cut(event.decision.text))}"
        return logging.INFO, "Review answered after %s: %s: %s", waited, what, said


def _is_routine(event: Event) -> bool:
    """Whether it is never told above INFO."""
    return type(event) in ROUTINE or (isinstance(event, RunEnded) and event.status not in _BAD_ENDS)


# By functions and not by methods of one logger: those would be made for each run, and hold it until the garbage
# collector comes by.
_NOTES: Final[dict[type[Event], Callable[[RunLogger, Any], object]]] = {
    RunStarted: RunLogger._note_run,
    TaskStarted: RunLogger._note_task,
    TaskFellBack: RunLogger._note_fallback,
    TaskRetried: RunLogger._note_retry,
    LlmAttemptEnded: RunLogger._count_request,
    ToolCallStarted: RunLogger._note_tool_call,
    **dict.fromkeys(_TASK_ENDS, RunLogger._note_task_end),
}
_TOLD: Final[dict[type[Event], Callable[[RunLogger, Any], Line]]] = {
    RunStarted: RunLogger._describe_run_start,
    RunEnded: RunLogger._describe_run_end,
    ToolCallCompleted: RunLogger._describe_tool_call,
    ReviewRequested: RunLogger._describe_question,
    ReviewAnswered: RunLogger._describe_answer,
}
