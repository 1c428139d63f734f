"""The log as one more view of the event stream (E39, E49). Silent unless the application configures logging.

`RunLogger` says what needs to know of earlier events; the functions below it, what one event alone tells.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain import events
from ensemble_notebook.domain.definitions.enums import (
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    TaskNoun,
    ToolOutcome,
)
from ensemble_notebook.domain.definitions.review import NOBODY_HERE, NOBODY_TO_ASK
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.planning.graph import HANDLER_ROLE, Graph
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.errors import add_origin, make_readable, summarize_error

logging.getLogger("ensemble_notebook").addHandler(logging.NullHandler())
logger = logging.getLogger("ensemble_notebook.run")

_BAD_ENDS: Final = frozenset({RunStatus.FAILED, RunStatus.BUDGET_EXCEEDED})
_STATUS_WORDS: Final = {RunStatus.BUDGET_EXCEEDED: "stopped by its budget"}
_TASK_ENDS: Final = {
    events.TaskCompleted: "completed",
    events.TaskReused: "completed",
    events.TaskFailed: "failed",
    events.TaskSkipped: "skipped",
}


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
        self._graph = graph
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

    def put(self, event: events.Event) -> None:
        """Log one event, if anybody listens at its level."""
        kind = type(event)
        if event.task in self._indices and (end := _TASK_ENDS.get(kind)) is not None:
            is_cut_short = isinstance(event, events.TaskFailed) and event.status is SpanStatus.CANCELLED
            self._ends[event.task] = "cancelled" if is_cut_short else end
        self._note(event)
        is_routine = kind in ROUTINE or (isinstance(event, events.RunEnded) and event.status not in _BAD_ENDS)
        if is_routine and not logger.isEnabledFor(logging.INFO):
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

    def _collect_facts(self, event: events.Event) -> dict[str, Any]:
        task = event.task or ""
        description, agent = self._descriptions.get(task), self._agents.get(task)
        # Of one that has not begun; None for work that stands in no plan.
        planned = agent.role if agent is not None else HANDLER_ROLE if task in self._agents else None
        return {
            "run_id": event.run_id,
            "task": event.task,
            "task_index": self._indices.get(task),
            "task_description": None if description is None else make_readable(description),
            "agent_role": self._roles.get(task) or planned,
        }

    def _note(self, event: events.Event) -> None:
        """Keep what later lines need."""
        name = event.task or ""
        match event:
            case events.RunStarted():
                self._name, self._task_noun = event.name or event.run_id, event.task_noun
            case events.TaskStarted():
                self._descriptions[name] = event.description
                if name not in self._agents:
                    member = next((each for each in self._graph.team if each.agent.role == event.agent), None)
                    self._agents[name] = None if member is None else member.agent
                self._roles[name] = event.agent
            case events.TaskFellBack():
                self._roles[name] = event.agent
            case events.TaskRetried() if (agent := self._agents.get(name)) is not None:
                self._roles[name] = agent.role  # whoever took over in the attempt before
            case events.TaskInputPrepared() if logger.isEnabledFor(logging.DEBUG):
                # Beside the line of the prompts, which has a level of its own, and is left out where no text is kept.
                count = pluralize(len(event.context), "output")
                logger.debug("Task %s reads %s", make_readable(name), count, extra=self._collect_facts(event))
            case events.ToolCallStarted():
                self._asked[event.span_id] = event.arguments
            case events.DelegationStarted():
                self._delegation_count += 1
            case events.LlmAttemptEnded(usage=usage):
                self._request_count += 1
                self._tokens_in += usage.input_tokens or 0
                self._tokens_out += usage.output_tokens or 0
                self._is_usage_known &= usage.input_tokens is not None and usage.output_tokens is not None

    def _describe_run_start(self, event: events.RunStarted) -> Line:
        replayed = "" if event.replayed_from is None else f", replayed from {event.replayed_from}"
        tasks = pluralize(len(self._indices), self._task_noun)
        return logging.INFO, "Run %s started: %s, %s%s", self._name, tasks, event.workflow, replayed

    def _describe_run_end(self, event: events.RunEnded) -> Line:
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

    def _describe_warning(self, event: events.Warned) -> Line:
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
        if self._graph.managed and not self._delegation_count and ends["completed"]:
            parts.append("no worker was asked")
        return ", ".join(parts)

    def _describe_tool_call(self, event: events.ToolCallCompleted) -> Line:
        self._tool_call_count += event.is_executed
        call = f"{event.tool}({cut(self._asked.pop(event.span_id, ''))})"
        if event.status is SpanStatus.CANCELLED:
            return logging.INFO, "Tool in %s: %s was cancelled", event.task, call
        if event.outcome is ToolOutcome.UNKNOWN:
            return logging.WARNING, "Tool in %s: %s was left to itself, and its end is not known", event.task, call
        told = cut(event.result)
        if event.error is not None:
            told = add_origin(told or cut(summarize_error(event.error)), event.error)
        is_good = event.status is SpanStatus.OK or event.outcome in (ToolOutcome.DECLINED, ToolOutcome.PENDING)
        return logging.INFO if is_good else logging.WARNING, "Tool in %s: %s -> %s", event.task, call, told

    def _describe_question(self, event: events.ReviewRequested) -> Line:
        request = event.request
        where = f"phase {event.phase}" if request.subject == "phase" else event.task or ""
        what = f"tool {request.tool} in {where}" if request.tool else where
        subject = {"task": "start of ", "output": "output of ", "question": "question in "}.get(request.subject, "")
        self._asked[event.span_id] = f"{subject}{what}"
        return logging.INFO, "Review asked: %s", f"{subject}{what}"

    def _describe_answer(self, event: events.ReviewAnswered) -> Line:
        what, waited = self._asked.pop(event.span_id, event.task or ""), format_duration(event.waited_s * 1000)
        if event.decision is None:
            if event.by is not None and event.status is SpanStatus.SKIPPED:
                return logging.INFO, "Review of %s: nobody has answered, and the call waits", what
            if event.by == NOBODY_TO_ASK:
                return logging.WARNING, "Review of %s: nobody could be asked, and it counts as failed", what
            why = append(None if event.error is None else summarize_error(event.error))
            return logging.WARNING, "Review of %s ended without an answer after %s%s", what, waited, why
        if event.by == NOBODY_TO_ASK:
            return logging.INFO, "Review of %s: nobody could be asked: %s", what, event.decision.verdict.value
        late = ", since nobody answered in time" if event.is_timeout else ""
        said = f"{event.decision.verdict.value}{late}{append(cut(event.decision.text))}"
        return logging.INFO, "Review answered after %s: %s: %s", waited, what, said


# By functions and not by methods of one logger: those would be made for each run, and hold it until the garbage
# collector comes by.
_TOLD: Final[dict[type[events.Event], Callable[[RunLogger, Any], Line]]] = {
    events.RunStarted: RunLogger._describe_run_start,
    events.RunEnded: RunLogger._describe_run_end,
    events.Warned: RunLogger._describe_warning,
    events.ToolCallCompleted: RunLogger._describe_tool_call,
    events.ReviewRequested: RunLogger._describe_question,
    events.ReviewAnswered: RunLogger._describe_answer,
}


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


def _describe_task(event: events.Event) -> Line:
    match event:
        case events.TaskCompleted(output=output):
            who = f" by fallback {output.agent_role}" if output.from_fallback else ""
            took, calls = output.duration.total_seconds(), pluralize(output.tool_call_count, "tool call")
            return logging.INFO, "Task %s completed%s in %.2f s with %s", event.task, who, took, calls
        case events.TaskReused():
            tokens = None if event.saved_tokens is None else f"{format_count(event.saved_tokens)} tokens"
            cost = format_money(event.saved_cost, event.currency) if event.saved_cost else None
            saved = ", ".join(filter(None, [cost, tokens, format_duration(event.saved_ms)]))
            return logging.INFO, "Task %s reused (%s): %s", event.task, saved, event.reason
        case events.TaskFailed() if event.status is SpanStatus.CANCELLED:
            return logging.INFO, "Task %s was cancelled", event.task
        case events.TaskFailed(error=error):
            return logging.WARNING, "Task %s failed: %s", event.task, add_origin(summarize_error(error), error)
        case events.TaskRetried(error=None):
            by = "its review" if event.cause == "review" else f"its {event.cause}"
            text, why = "Task %s sent back by %s, attempt %d%s", append(event.feedback)
            return logging.INFO, text, event.task, by, event.attempt, why
        case events.TaskRetried(error=BaseException() as error):
            why, text = add_origin(summarize_error(error), error), "Task %s failed (%s), attempt %d in %.1f s"
            return logging.WARNING, text, event.task, why, event.attempt, event.delay_s
    raise AssertionError("the table below has no other events")


def _describe_phase_end(event: events.PhaseEnded) -> Line:
    if event.is_cancelled:
        return logging.INFO, "Phase %s was cancelled", event.phase
    level = logging.WARNING if event.status is PhaseStatus.FAILED else logging.INFO
    return level, "Phase %s %s", event.phase, event.status.value.replace("_", " ")


def _describe_phase_retry(event: events.PhaseRetried) -> Line:
    again = f" of {', '.join(event.tasks)}" if event.tasks else ""
    why = append(event.feedback)
    return logging.INFO, "Phase %s is done again, attempt %d%s%s", event.phase, event.attempt, again, why


LINES: Final[dict[type[events.Event], Callable[[Any], Line]]] = {
    events.PhaseStarted: lambda e: (logging.INFO, "Phase %s started", e.phase),
    events.PhaseEnded: _describe_phase_end,
    events.PhaseRetried: _describe_phase_retry,
    events.PhaseSkipped: lambda e: (logging.INFO, "Phase %s skipped: %s", e.phase, e.reason),
    events.TaskStarted: lambda e: (
        *(logging.INFO, "Task %s%s started: %s", e.task),
        "" if e.index is None else f" ({e.index + 1}/{e.total})",  # work that stands in no plan has no number
        e.agent,
    ),
    events.TaskInputPrepared: lambda e: (TALK, "Prompts of %s:\n%s\n\n%s", e.task, e.system_prompt, e.user_prompt),
    events.LlmCallCompleted: lambda e: (
        TALK,
        "Reply in %s:\n%s",
        e.task,
        "\n\n".join(filter(None, [e.reasoning, e.text])),
    ),
    events.TaskFellBack: lambda e: (
        *(logging.WARNING, "Task %s: fallback %s takes over%s: %s", e.task, e.agent),
        f" for {e.replaced}" if e.replaced else "",
        add_origin(summarize_error(e.error), e.error),
    ),
    events.TaskNotReused: lambda e: (logging.INFO, "Task %s is not reused: %s", e.task, e.reason),
    **dict.fromkeys((events.TaskCompleted, events.TaskReused, events.TaskFailed, events.TaskRetried), _describe_task),
    events.TaskSkipped: lambda e: (logging.INFO, "Task %s skipped: %s", e.task, e.reason),
    events.LlmCallRetried: lambda e: (
        *(logging.WARNING, "Model request %d of %s failed (%s), again in %.1f s: %s"),
        *(e.attempt, e.task, e.reason, e.delay_s, summarize_error(e.error)),
    ),
    events.BudgetWarning: lambda e: (logging.WARNING, "%s", e.message),
    events.Noted: lambda e: (logging.INFO, "%s", e.message),
}
"""What is said of each type of event whose line needs no other one."""

ROUTINE: Final = frozenset(
    {
        *(
            events.RunStarted,
            events.PhaseStarted,
            events.PhaseRetried,
            events.PhaseSkipped,
            events.TaskStarted,
            events.TaskInputPrepared,
            events.LlmCallCompleted,
        ),
        *(events.TaskCompleted, events.TaskSkipped, events.Noted),
    }
)
"""Never above INFO; most runs are not logged, and making a line costs as much as running a small task."""
