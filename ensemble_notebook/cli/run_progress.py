"""What a person who waits for a run is told: a line for an event, on stderr. Results go to stdout, elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.domain.events import (
    BudgetWarning,
    DelegationFailed,
    DelegationStarted,
    Event,
    LlmCallRetried,
    Noted,
    PhaseRetried,
    PhaseSkipped,
    TaskCompleted,
    TaskFailed,
    TaskFellBack,
    TaskNotReused,
    TaskRetried,
    TaskReused,
    TaskSkipped,
    Warned,
)
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import format_duration

_LINES: Final[Mapping[type[Event], Callable[[Any], str]]] = {
    Noted: lambda event: event.message,
    Warned: lambda event: event.message,
    BudgetWarning: lambda event: event.message,
    TaskCompleted: lambda event: f"{event.task}: done in {format_duration(event.output.duration)}",
    TaskReused: lambda event: f"{event.task}: reused, which saves {format_duration(event.saved_ms)}: {event.reason}",
    TaskNotReused: lambda event: f"{event.task}: not reused: {event.reason}",
    TaskFailed: lambda event: f"{event.task}: {event.status.value}: {event.error}",
    TaskSkipped: lambda event: f"{event.task}: skipped: {event.reason}",
    TaskRetried: lambda event: (
        f"{event.task}: sent back: {event.feedback}"
        if event.error is None
        else f"{event.task}: failed ({event.error}), next attempt in {format_duration(event.delay_s * 1000)}"
    ),
    TaskFellBack: lambda event: f"{event.task}: {event.agent} takes over: {event.error}",
    PhaseSkipped: lambda event: f"{event.phase}: skipped: {event.reason}",
    PhaseRetried: lambda event: f"{event.phase}: sent back: {event.feedback}",
    LlmCallRetried: lambda event: (
        f"{event.task}: attempt {event.attempt} failed ({event.reason}), "
        f"next one in {format_duration(event.delay_s * 1000)}"
    ),
    DelegationStarted: lambda event: f"{event.delegator} asks {event.request.agent_role}",
    DelegationFailed: lambda event: f"{event.request.agent_role}: {'; '.join(event.response.errors)}",
}


def report_event(event: Event) -> None:
    """A listener: one line for each thing that a person who waits wants to know."""
    line = _LINES.get(type(event))
    if line is not None:
        say(line(event))


def say(text: str) -> None:
    """A line on stderr."""
    print(remove_unprintable(text), file=sys.stderr, flush=True)


def ask(request: ReviewRequest) -> ReviewDecision:
    """A review handler: asks whoever sits at the terminal; where nobody does, the review's `on_timeout` decides (E45).

    Raises:
        TimeoutError: nobody does.
    """
    from ensemble_notebook.ensemble.review_handlers import NOBODY_ERRORS, ask_in_text

    try:
        return ask_in_text(request, _read_line, say)
    except NOBODY_ERRORS as error:
        raise TimeoutError(f"Nobody can be asked here: {error}") from error


def remove_unprintable(text: str) -> str:
    """Without secrets, and without control characters, so that no model moves the cursor or writes a title."""
    return "".join(char for char in mask(text) if char.isprintable() or char in "\n\t")


def _read_line(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError("standard input is at its end.")
    return line
