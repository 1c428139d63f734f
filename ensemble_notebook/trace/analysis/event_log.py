"""The events themselves as a table: what happened, in order. Pieces of streamed text are left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ensemble_notebook.domain.events import Event, LlmToken
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span_tree import summarize_error, to_ms
from ensemble_notebook.trace.tables.shared_columns import arrange
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table, mark_known

_WORDS: Final = ("message", "reason", "feedback")


def _read_message(event: Event) -> str | None:
    for name in _WORDS:
        if text := getattr(event, name, None):
            return clean_text(text)
    facts = summarize_error(getattr(event, "error", None))
    return None if facts is None else facts[1]


def _read_status(event: Event) -> str | None:
    status: Any = getattr(event, "status", None)
    return None if status is None else str(status.value)


EVENTS: Final = Table(
    "event, in order; pieces of streamed text are left out",
    Column("seq", "Int64", "its number in the run, from 0"),
    arrange(
        mark_known(
            (
                Column("type", "category", "as the event's class is called", lambda event: type(event).__name__),
                Column("time", UTC_TIME, "when"),
                Column("offset_ms", "Float64", "since the run started", lambda event: to_ms(event.offset_s)),
                Column("span_id", "string", "the span that it belongs to"),
                Column("parent_id", "string", "the span around that one, NA for the run"),
                Column("phase", "category", "name of the phase"),
                Column("task", "category", "name of the task"),
                Column("status", "category", "how something ended, where it says so", _read_status),
                Column("message", "string", "its message, reason, feedback or error, secrets masked", _read_message),
            ),
            "type",
            "time",
            "offset_ms",
            "span_id",
        ),
        "type",
        "time",
        "offset_ms",
        "task",
        "status",
        "message",
    ),
)


def list_logged_events(events: Iterable[Event]) -> list[Event]:
    """The events of the table."""
    return [event for event in events if not isinstance(event, LlmToken)]
