"""The base class of events, and the listeners that are given them.

It is apart from the events because definitions name listeners, and events refer to definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar, dataclass_transform

from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.seams.views import render_view

E = TypeVar("E")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(cls: type[E]) -> type[E]:
    """The form of every event: frozen, slotted, keyword-only."""
    return dataclass(frozen=True, slots=True, kw_only=True, repr=False)(cls)


@event
class Event(Record):
    """What all events have.

    Attributes:
        run_id: the run.
        seq: position in the stream, from 0, without gaps.
        span_id: the span that it belongs to.
        parent_id: the span around that one; None for the run.
        time: UTC.
        offset_s: seconds since the run started, on a monotonic clock.
        task: name of the task; None if it belongs to none.
        phase: name of the phase; None if it belongs to none.
        depends_on: names of the tasks or phases that this one waited for.
    """

    run_id: str
    seq: int
    span_id: str
    parent_id: str | None
    time: datetime
    offset_s: float
    task: str | None = None
    phase: str | None = None
    depends_on: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain dicts and lists, ready for JSON: ``type``, and all fields by name, secrets masked.

        Times and durations are ISO 8601; an error is its type and message.
        """
        plain: dict[str, Any] = render_view("event", self)
        return plain


class EventListener(Protocol):
    """An object that is told of every event of a run, in order, on a thread of its own."""

    def on_event(self, event: Event, /) -> object:
        """Take in the next event."""


Listener = EventListener | Callable[[Event], object]
