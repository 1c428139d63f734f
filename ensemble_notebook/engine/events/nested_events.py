"""The events of a nested run on their way into the stream of the run around it (E52)."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.domain.events import (
    BudgetWarning,
    Event,
    NestedRunEnded,
    NestedRunStarted,
    Noted,
    PhaseSkipped,
    PlanMade,
    RunEnded,
    RunStarted,
    TaskInputPrepared,
    TaskSkipped,
    TaskStarted,
    Warned,
)
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter
from ensemble_notebook.engine.threads.loop_thread import call_on_loop

_KEPT_INSIDE: Final = (PlanMade, Noted, Warned, BudgetWarning)
_STATUS: Final = {RunStatus.FAILED: SpanStatus.ERROR, RunStatus.INTERRUPTED: SpanStatus.CANCELLED}
# Names of the inner plan, which would be taken for those of the outer one.
_UNLINKED: Final[dict[type[Event], dict[str, Any]]] = {
    TaskStarted: {"index": None, "total": None},
    TaskInputPrepared: {"context": ()},
}


class CallingSpan:
    """A span in which a function of the user is called, and so the place of the runs that it begins.

    Belongs to the loop of its run, but for `span`, which any thread may read.
    """

    def __init__(self, span: SpanEmitter) -> None:
        self.span = span
        self.loop = asyncio.get_running_loop()
        self.is_over = False
        self.nested: list[NestedEvents] = []

    def end(self) -> None:
        """The function is not waited for any more, nor is what it began."""
        self.is_over = True
        for each in self.nested:
            each.cut_off()


_calling_span: Final[contextvars.ContextVar[CallingSpan | None]] = contextvars.ContextVar(
    "ensemble_calling_span", default=None
)


@contextmanager
def calling_from(span: SpanEmitter) -> Iterator[None]:
    """Inside the block, runs that begin hang under this span."""
    place = CallingSpan(span)
    token = _calling_span.set(place)
    try:
        yield
    finally:
        _calling_span.reset(token)
        place.end()


def find_calling_span() -> CallingSpan | None:
    """The span from which this code is called; None where it is called from none."""
    return _calling_span.get()


def forget_calling_span() -> None:
    """What follows in this context is called from nowhere yet."""
    _calling_span.set(None)


class NestedEvents:
    """Writes the events of a nested run into the stream of the run around it, beneath the span that called it.

    What only its own output tells stays out: its plan, notes and warnings, and tasks and phases that never began.

    Args:
        place: where it was called from.
    """

    def __init__(self, place: CallingSpan) -> None:
        self._place = place
        self._later_s = 0.0
        self._known: set[str] = set()
        self._run: SpanEmitter | None = None

    def connect(self, stream: EventStream) -> None:
        """Learn which stream is the nested run's, and so how much later it began than the one around it."""
        self._later_s = stream.zero_s - self._place.span.stream.zero_s

    def put(self, event: Event) -> None:
        """Take in the next event, on the loop of the nested run."""
        call_on_loop(self._place.loop, self._forward, event)

    def cut_off(self) -> None:
        """Nobody waits for the run any more: its part in the run around it ends, whatever it still does."""
        if self._run is not None:
            self._run.emit(NestedRunEnded, status=SpanStatus.CANCELLED)
            self._run = None

    def _forward(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._start(event)
        elif self._run is None or isinstance(event, _KEPT_INSIDE):
            return
        elif isinstance(event, RunEnded):
            status = _STATUS.get(event.status, SpanStatus.OK)
            self._run.emit(NestedRunEnded, status=status, run_status=event.status, error=event.error)
            self._run = None
        elif self._is_inside(event):
            self._known.add(event.span_id)
            changes = _UNLINKED.get(type(event), {})
            inside = dataclasses.replace(event, depends_on=(), **changes)
            self._place.span.stream.forward(inside, event.offset_s + self._later_s)

    def _start(self, event: RunStarted) -> None:
        place = self._place
        if place.is_over:
            return
        around = place.span
        self._run = SpanEmitter(around.stream, event.span_id, around.span_id, around.task, around.phase)
        self._known.add(event.span_id)
        place.nested.append(self)
        # Forwarded like all that follows: what is emitted has the time at which another loop came to it.
        started = NestedRunStarted(
            run_id=around.stream.run_id,
            seq=event.seq,
            span_id=event.span_id,
            parent_id=around.span_id,
            time=event.time,
            offset_s=event.offset_s,
            task=around.task,
            phase=around.phase,
            name=event.name or "run",
            nested_run_id=event.run_id,
            workflow=event.workflow,
        )
        around.stream.forward(started, event.offset_s + self._later_s)

    def _is_inside(self, event: Event) -> bool:
        if event.span_id in self._known:
            return True
        return event.parent_id in self._known and not isinstance(event, TaskSkipped | PhaseSkipped)
