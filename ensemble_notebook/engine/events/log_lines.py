"""What the log says of one event, where the event alone tells it (E39, E49)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import PhaseStatus, SpanStatus
from ensemble_notebook.domain.events import (
    BudgetWarning,
    Event,
    LlmCallCompleted,
    LlmCallRetried,
    Noted,
    PhaseEnded,
    PhaseRetried,
    PhaseSkipped,
    PhaseStarted,
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
    Warned,
)
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.errors import add_origin, summarize_error

Line = tuple[Any, ...]  # level, format, arguments

TALK: Final = -1  # stands for DEBUG, or INFO where the ensemble or the agent is verbose
_LONGEST: Final = 200


def cut(text: str) -> str:
    """The beginning of a text on one line; masked before, since half a key is not recognised any more (T7)."""
    line = " ".join(mask(text).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def append(text: str | None) -> str:
    """What stands behind a line, where there is anything to say; in capture mode METADATA there is no text (T6a)."""
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
    text = "Model request %d of %s failed (%s), again in %.1f s"
    return logging.WARNING, text, event.attempt, event.task, event.reason, event.delay_s


def _describe_phase_end(event: PhaseEnded) -> Line:
    if event.is_cancelled:
        return logging.INFO, "Phase %s was cancelled", event.phase
    is_good = event.status is PhaseStatus.COMPLETED
    return (logging.INFO if is_good else logging.WARNING), "Phase %s %s", event.phase, event.status.value


def _describe_phase_retry(event: PhaseRetried) -> Line:
    again = f" of {', '.join(event.tasks)}" if event.tasks else ""
    why = append(event.feedback)
    return logging.INFO, "Phase %s sent back by its review, attempt %d%s%s", event.phase, event.attempt, again, why


LINES: Final[dict[type[Event], Callable[[Any], Line]]] = {
    PhaseStarted: lambda e: (logging.INFO, "Phase %s started", e.phase),
    PhaseEnded: _describe_phase_end,
    PhaseRetried: _describe_phase_retry,
    PhaseSkipped: lambda e: (logging.INFO, "Phase %s skipped: %s", e.phase, e.reason),
    TaskStarted: _describe_task_start,
    TaskInputPrepared: lambda e: (TALK, "Prompts of %s:\n%s\n\n%s", e.task, e.system_prompt, e.user_prompt),
    LlmCallCompleted: lambda e: (TALK, "Reply in %s:\n%s", e.task, e.text),
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
    Warned: lambda e: (logging.WARNING, "%s", e.message),
}
"""What is said of each type of event whose line needs no other one."""

ROUTINE: Final = frozenset(
    {
        *(RunStarted, PhaseStarted, PhaseRetried, PhaseSkipped, TaskStarted, TaskInputPrepared, LlmCallCompleted),
        *(TaskCompleted, TaskSkipped, Noted),
    }
)
"""Never above INFO; most runs are not logged, and making a line costs as much as running a small task."""
