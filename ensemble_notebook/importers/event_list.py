"""Events of a run of others, told in any order: put in order of time and numbered at the end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.text_filter import mask_fields


class EventList:
    """Collects the events of one run.

    Events of the same moment stay in the order in which they were added. So whoever adds the start of a span, then
    all that is inside, then its end, has them in that order afterwards.

    Args:
        run_id: of the run; ids of its spans begin with it.
        start: of the run, in UTC; no event may be before it.
    """

    def __init__(self, run_id: str, start: datetime) -> None:
        self.run_id = run_id
        self.start = start
        self._events: list[tuple[type[Event], datetime, dict[str, Any]]] = []
        self._spans = 0

    def add(self, kind: type[Event], moment: datetime, **fields: Any) -> None:
        """Add an event with the fields that are its own, and those of its span."""
        self._events.append((kind, moment, fields))

    def make_id(self) -> str:
        """The id of a new span."""
        self._spans += 1
        return f"{self.run_id}.{self._spans}"

    def make_span(self, around: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of events in a new span: inside another one, which has such fields, and of its task."""
        return {"span_id": self.make_id(), "parent_id": around["span_id"], "task": around["task"]}

    def to_events(self) -> tuple[Event, ...]:
        """All events, in order of time."""
        in_time = sorted(self._events, key=lambda each: each[1])
        return tuple(
            kind(
                run_id=self.run_id,
                seq=seq,
                time=time,
                offset_s=(time - self.start).total_seconds(),
                **mask_fields(fields),
            )
            for seq, (kind, time, fields) in enumerate(in_time)
        )
