"""What all events have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, dataclass_transform

E = TypeVar("E")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(cls: type[E]) -> type[E]:
    """The form of every event: frozen, slotted, keyword-only."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


@event
class Event:
    """What all events have.

    Attributes:
        run_id: the run.
        seq: position in the stream, from 0, without gaps.
        span_id: the span it belongs to.
        parent_id: the span around that one; None for the run.
        time: UTC.
        offset_s: seconds since the run started, on a monotonic clock.
        task, phase: names, where it belongs to one.
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
