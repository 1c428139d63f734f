"""The log as one more view of the event stream (E39, E49). Silent unless the application configures logging.

`RunLogger` says what needs to know of earlier events; the functions below it, what one event alone tells.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import (
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    TaskNoun,
    ToolOutcome,
)
from ensemble_notebook.domain.definitions.review import NOBODY_HERE, NOBODY_TO_ASK
from ensemble_notebook.domain.events import (
    BudgetWarning,
    DelegationStarted,
    Event,
    LlmAttemptEnded,
    LlmCallCompleted,
    LlmCallRetried,
    Noted,
    PhaseEnded,
    PhaseRetried,
    PhaseSkipped,
    PhaseStarted,
    ReviewAnswered,
    ReviewRequested,
    RunEnded,
    RunStarted,
    TaskCompleted,
    TaskFailed,
    TaskFellBack,
    TaskInputPrepared,
    TaskNotReused,
    TaskRetried,
    TaskReused,
    TaskSkipped,
    TaskStarted,
    ToolCallCompleted,
    ToolCallStarted,
    Warned,
)
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.planning.graph import HANDLER_ROLE, Graph
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.errors import add_origin, make_readable, summarize_error

logging.getLogger("ensemble_notebook").addHandler(logging.NullHandler())
logger = logging.getLogger("ensemble_notebook.run")

_BAD_ENDS: Final = frozenset({RunStatus.FAILED, RunStatus.BUDGET_EXCEEDED})
_STATUS_WORDS: Final = {RunStatus.BUDGET_EXCEEDED: "stopped by its budget"}
_TASK_ENDS: Final = {TaskCompleted: "completed", TaskReused: "completed", TaskFailed: "failed", TaskSkipped: "skipped"}


class RunLogger:
    """Writes a run's events to ``ensemble_notebook.run``.

    Records carry ``run_id``, ``task``, ``task_index`` (from 1; None for work that stands in no plan, such as delegated
    work), ``task_description`` and ``agent_role``. Starts, ends, reviews and tool calls are INFO, faults, retries and
    fallbacks WARNING, prompts and replies DEBUG, or INFO where the ensemble or the agent is verbose. Secrets are
    masked: a log is a file that somebody keeps.
    """

    def __init__(self, graph: Graph, *, is_verbose: bool, is_row: bool = False) -> None:
        self._indices = {node.name: node.index + 1 for node in graph.tasks}
        self._agents = {node.name: node.agent for node in graph.all_tasks}
        self._team = graph.team
        self._has_manager = bool(graph.managed)
        self._is_verbose = is_verbose
        self._is_row = is_row
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
        self._delegation_count = 0
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
            safe = [make_readable(mend_text(value)) if isinstance(value, str) else value for value in values]
            logger.log(level, text, *safe, extra=self._collect_facts(event))

    def _tell_context(self, event: TaskInputPrepared) -> None:
        """A line beside that of the prompts, which has a level of its own, and is left out where no text is kept."""
        if logger.isEnabledFor(logging.DEBUG):
            count = pluralize(len(event.context), "output")
            logger.debug("Task %s reads %s", make_readable(event.task or ""), count, extra=self._collect_facts(event))

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
        """It begins with the task's own agent again, whoever took over in the attempt before."""
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

    def _count_delegation(self, _: DelegationStarted) -> None:
        self._delegation_count += 1

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
        if event.shortfall:
            status = f"{status} ({event.shortfall})"
        if event.exit_reason is ExitReason.NOBODY_TO_ASK:
            status = f"{status}, since nobody could be asked,"
        why = append(None if event.error is None else add_origin(summarize_error(event.error), event.error))
        took = format_duration(event.offset_s * 1000)
        return level, "Run %s %s after %s: %s%s", self._name, status, took, self._describe_totals(), why

    def _describe_warning(self, event: Warned) -> Line:
        """Of rows at whose gates nobody can be asked, the map tells how many there are."""
        is_told = self._is_row and NOBODY_HERE in event.message
        return (logging.INFO if is_told else logging.WARNING), "%s", event.message

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
        if self._has_manager and not self._delegation_count and ends["completed"]:
            parts.append("no worker was asked")
        return ", ".join(parts)

    def _describe_tool_call(self, event: ToolCallCompleted) -> Line:
        self._tool_call_count += event.is_executed
        call = f"{event.tool}({cut(self._asked.pop(event.span_id, ''))})"
        if event.status is SpanStatus.CANCELLED:
            return logging.INFO, "Tool in %s: %s was cancelled", event.task, call
        if event.outcome is ToolOutcome.UNKNOWN:
            return logging.WARNING, "Tool in %s: %s was left to itself, and its end is not known", event.task, call
        told = cut(event.result)
        if event.error is not None:
            told = add_origin(told or cut(summarize_error(event.error)), event.error)
        is_good = event.status is SpanStatus.OK or event.outcome is ToolOutcome.DECLINED
        return logging.INFO if is_good else logging.WARNING, "Tool in %s: %s -> %s", event.task, call, told

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
            if event.by == NOBODY_TO_ASK:
                return logging.WARNING, "Review of %s: nobody could be asked, and it counts as failed", what
            why = append(None if event.error is None else summarize_error(event.error))
            return logging.WARNING, "Review of %s ended without an answer after %s%s", what, waited, why
        if event.by == NOBODY_TO_ASK:
            return logging.INFO, "Review of %s: nobody could be asked: %s", what, event.decision.verdict.value
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
    TaskInputPrepared: RunLogger._tell_context,
    TaskFellBack: RunLogger._note_fallback,
    TaskRetried: RunLogger._note_retry,
    DelegationStarted: RunLogger._count_delegation,
    LlmAttemptEnded: RunLogger._count_request,
    ToolCallStarted: RunLogger._note_tool_call,
    **dict.fromkeys(_TASK_ENDS, RunLogger._note_task_end),
}
_TOLD: Final[dict[type[Event], Callable[[RunLogger, Any], Line]]] = {
    RunStarted: RunLogger._describe_run_start,
    RunEnded: RunLogger._describe_run_end,
    Warned: RunLogger._describe_warning,
    ToolCallCompleted: RunLogger._describe_tool_call,
    ReviewRequested: RunLogger._describe_question,
    ReviewAnswered: RunLogger._describe_answer,
}


# --- What the log says of one event, where the event alone tells it ---------------------------------------------------


Line = tuple[Any, ...]  # level, format, arguments

TALK: Final = -1  # stands for DEBUG, or INFO where the ensemble or the agent is verbose
_LONGEST: Final = 200


def cut(text: str) -> str:
    """The beginning of a text on one line; masked before, since half a key is not recognised any more."""
    line = " ".join(mask(text).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def append(text: str | None) -> str:
    """What stands behind a line, where there is anything to say; in capture mode METADATA there is no text."""
    return f": {text}" if text else ""


def _describe_task_start(event: TaskStarted) -> Line:
    """Work that stands in no plan has no number."""
    place = "" if event.index is None else f" ({event.index + 1}/{event.total})"
    return logging.INFO, "Task %s%s started: %s", event.task, place, event.agent


def _describe_task_completion(event: TaskCompleted) -> Line:
    output = event.output
    who = f" by fallback {output.agent_role}" if output.from_fallback else ""
    took, calls = output.duration.total_seconds(), pluralize(output.tool_call_count, "tool call")
    return logging.INFO, "Task %s completed%s in %.2f s with %s", event.task, who, took, calls


def _describe_task_reuse(event: TaskReused) -> Line:
    tokens = None if event.saved_tokens is None else f"{format_count(event.saved_tokens)} tokens"
    cost = format_money(event.saved_cost, event.currency) if event.saved_cost else None
    saved = ", ".join(filter(None, [cost, tokens, format_duration(event.saved_ms)]))
    return logging.INFO, "Task %s reused (%s): %s", event.task, saved, event.reason


def _describe_task_failure(event: TaskFailed) -> Line:
    if event.status is SpanStatus.CANCELLED:
        return logging.INFO, "Task %s was cancelled", event.task
    return logging.WARNING, "Task %s failed: %s", event.task, add_origin(summarize_error(event.error), event.error)


def _describe_task_retry(event: TaskRetried) -> Line:
    if event.error is not None:
        why = add_origin(summarize_error(event.error), event.error)
        text = "Task %s failed (%s), attempt %d in %.1f s"
        return logging.WARNING, text, event.task, why, event.attempt, event.delay_s
    by = "its review" if event.cause == "review" else f"its {event.cause}"
    return logging.INFO, "Task %s sent back by %s, attempt %d%s", event.task, by, event.attempt, append(event.feedback)


def _describe_fallback(event: TaskFellBack) -> Line:
    for_whom = f" for {event.replaced}" if event.replaced else ""
    why = add_origin(summarize_error(event.error), event.error)
    return logging.WARNING, "Task %s: fallback %s takes over%s: %s", event.task, event.agent, for_whom, why


def _describe_request_retry(event: LlmCallRetried) -> Line:
    text = "Model request %d of %s failed (%s), again in %.1f s: %s"
    why = summarize_error(event.error)
    return logging.WARNING, text, event.attempt, event.task, event.reason, event.delay_s, why


def _describe_phase_end(event: PhaseEnded) -> Line:
    if event.is_cancelled:
        return logging.INFO, "Phase %s was cancelled", event.phase
    level = logging.WARNING if event.status is PhaseStatus.FAILED else logging.INFO
    return level, "Phase %s %s", event.phase, event.status.value.replace("_", " ")


def _describe_phase_retry(event: PhaseRetried) -> Line:
    again = f" of {', '.join(event.tasks)}" if event.tasks else ""
    why = append(event.feedback)
    return logging.INFO, "Phase %s is done again, attempt %d%s%s", event.phase, event.attempt, again, why


LINES: Final[dict[type[Event], Callable[[Any], Line]]] = {
    PhaseStarted: lambda e: (logging.INFO, "Phase %s started", e.phase),
    PhaseEnded: _describe_phase_end,
    PhaseRetried: _describe_phase_retry,
    PhaseSkipped: lambda e: (logging.INFO, "Phase %s skipped: %s", e.phase, e.reason),
    TaskStarted: _describe_task_start,
    TaskInputPrepared: lambda e: (TALK, "Prompts of %s:\n%s\n\n%s", e.task, e.system_prompt, e.user_prompt),
    LlmCallCompleted: lambda e: (TALK, "Reply in %s:\n%s", e.task, "\n\n".join(filter(None, [e.reasoning, e.text]))),
    TaskRetried: _describe_task_retry,
    TaskFellBack: _describe_fallback,
    TaskCompleted: _describe_task_completion,
    TaskReused: _describe_task_reuse,
    TaskNotReused: lambda e: (logging.INFO, "Task %s is not reused: %s", e.task, e.reason),
    TaskFailed: _describe_task_failure,
    TaskSkipped: lambda e: (logging.INFO, "Task %s skipped: %s", e.task, e.reason),
    LlmCallRetried: _describe_request_retry,
    BudgetWarning: lambda e: (logging.WARNING, "%s", e.message),
    Noted: lambda e: (logging.INFO, "%s", e.message),
}
"""What is said of each type of event whose line needs no other one."""

ROUTINE: Final = frozenset(
    {
        *(RunStarted, PhaseStarted, PhaseRetried, PhaseSkipped, TaskStarted, TaskInputPrepared, LlmCallCompleted),
        *(TaskCompleted, TaskSkipped, Noted),
    }
)
"""Never above INFO; most runs are not logged, and making a line costs as much as running a small task."""
