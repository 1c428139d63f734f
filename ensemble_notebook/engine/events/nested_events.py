"""The events of a nested run on their way into the stream of the run around it (E52)."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Final

from ensemble_notebook.domain import events
from ensemble_notebook.domain.definitions.enums import RunKind, RunStatus, SpanStatus
from ensemble_notebook.engine.events.event_stream import STARTUP, EventStream, OpenStartup, SpanEmitter
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.engine.task_timer import GroupTimer, TimedAround

_KEPT_INSIDE: Final = (events.PlanMade, events.Noted, events.Warned, events.BudgetWarning)
_MOST_THUMBNAILS: Final = 1_000
_STATUS: Final = {RunStatus.FAILED: SpanStatus.ERROR, RunStatus.INTERRUPTED: SpanStatus.CANCELLED}
# Names of the inner plan, which would be taken for those of the outer one.
_UNLINKED: Final[dict[type[events.Event], dict[str, Any]]] = {
    events.TaskStarted: {"index": None, "total": None},
    events.TaskInputPrepared: {"context": ()},
}


class CallingSpan:
    """A span in which a function of the user is called: runs that begin inside its ``with`` block hang under it.

    Belongs to the loop of its run, but for `span` and the counts, which any thread may read and tell. A class of its
    own and no generator: one is entered for each task, and a generator takes three times as long.
    """

    __slots__ = ("_around", "_timer", "is_over", "loop", "nested", "span")

    def __init__(self, span: SpanEmitter) -> None:
        self.span = span
        self.loop = asyncio.get_running_loop()
        self.is_over = False
        self.nested: tuple[NestedEvents, ...] = ()
        self._timer: GroupTimer | None = None

    def __enter__(self) -> None:
        self._around = _calling_span.get()
        _calling_span.set(self)
        if isinstance(self.span.timer, GroupTimer):
            self._get_timer()  # the span of a run, which counts what is open in it, or of a phase

    def __exit__(self, *_: object) -> None:
        """The function is not waited for any more, nor is what it began."""
        _calling_span.set(self._around)
        self.is_over = True
        if self._timer is not None:
            self._timer.stop()
        for each in self.nested:
            each.cut_off()
        self.nested = ()  # each knows this span, too

    def count_open(self, change: int) -> None:
        """More, or less, of the runs that it began go on."""
        call_on_loop(self.loop, lambda: self._get_timer().count_open(change))

    def count_waiting(self, change: int) -> None:
        """More, or less, of them only wait for a model to be made ready, which is on no task's clock."""
        call_on_loop(self.loop, lambda: self._get_timer().count_waiting(change))

    def _get_timer(self) -> GroupTimer:
        """Get the timer of the runs inside; most functions begin none, so it is made once there is one."""
        if self._timer is None:
            self._timer = GroupTimer(self.span.timer.clock, self.span.timer)
            if not self.is_over:
                self._timer.start()
        return self._timer


_calling_span: Final[contextvars.ContextVar[CallingSpan | None]] = contextvars.ContextVar(
    "ensemble_calling_span", default=None
)


def find_calling_span() -> CallingSpan | None:
    """The span from which this code is called; None where it is called from none."""
    return _calling_span.get()


def forget_calling_span() -> None:
    """What follows in this context is called from nowhere yet."""
    _calling_span.set(None)


class NestedEvents:
    """Writes the events of a nested run into the stream of the run around it, beneath the span that called it.

    What only its own output tells stays out: its plan, notes and warnings, and tasks and phases that never began. A
    startup is the outer run's, as every startup: beside all tasks, on no task's clock, and told once for all the runs
    that wait for it.

    Args:
        place: where it was called from.
    """

    def __init__(self, place: CallingSpan) -> None:
        self._place = place
        self._later_s = 0.0
        self._is_late = False
        self._known: set[str] = set()
        self._run: SpanEmitter | None = None
        self._startups: set[str] = set()

    def connect(self, stream: EventStream) -> TimedAround:
        """Learn which stream is the nested run's, and so how much later it began than the one around it.

        Returns:
            What the time of the nested run is a part of.
        """
        self._later_s = stream.zero_s - self._place.span.stream.zero_s
        return self._place

    def begin_at(self, offset_s: float) -> None:
        """The nested run has run elsewhere, and is over: it began so many seconds after the one around it."""
        self._later_s, self._is_late = offset_s, True

    def put(self, event: events.Event) -> None:
        """Take in the next event, on the loop of the nested run."""
        call_on_loop(self._place.loop, self._forward, event)

    def cut_off(self) -> None:
        """Nobody waits for the run any more: its part in the run around it ends, whatever it still does."""
        if self._run is None:
            return
        stream = self._place.span.stream
        for each in self._startups:
            if over := self._leave_startup(each):
                span = SpanEmitter(stream, over.span_id, stream.run_id)
                waited_s = stream.offset_s() - over.began_s
                span.emit(events.WaitEnded, cause=STARTUP, waited_s=waited_s, status=SpanStatus.CANCELLED)
        self._startups.clear()
        self._run.emit(events.NestedRunEnded, status=SpanStatus.CANCELLED)
        self._run = None

    def _forward(self, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            self._start(event)
        elif self._run is None or isinstance(event, _KEPT_INSIDE):
            return
        elif isinstance(event, events.RunEnded):
            status = _STATUS.get(event.status, SpanStatus.OK)
            ended = {"status": status, "run_status": event.status, "error": event.error}
            self._run.emit(events.NestedRunEnded, **ended, duration=event.duration)
            self._run = None
        elif isinstance(event, events.AttachmentAdded):
            self._tell_attachment(event, self._run.parent_id)
        elif event.span_id in self._known or (
            event.parent_id in self._known and not isinstance(event, events.TaskSkipped | events.PhaseSkipped)
        ):
            self._known.add(event.span_id)
            stream = self._place.span.stream
            if isinstance(event, events.WaitStarted) and event.parent_id == event.run_id:  # as no other wait is
                self._startups.add(event.span_id)
                subject = event.subject or event.span_id  # what has no name is nothing that others wait for, too
                if (startup := stream.open_startups.get(subject)) is not None:
                    startup.waiting.add(event.span_id)
                else:
                    began_s = event.offset_s + self._later_s
                    stream.open_startups[subject] = OpenStartup(event.span_id, began_s, {event.span_id})
                    self._tell(event, parent_id=stream.run_id)
            elif isinstance(event, events.WaitEnded) and event.span_id in self._startups:
                self._startups.discard(event.span_id)
                if over := self._leave_startup(event.span_id):
                    waited_s = event.offset_s + self._later_s - over.began_s
                    self._tell(event, span_id=over.span_id, parent_id=stream.run_id, waited_s=waited_s)
            else:
                self._tell(event, **_UNLINKED.get(type(event), {}))

    def _tell_attachment(self, event: events.AttachmentAdded, parent_id: str | None) -> None:
        """Tell of a picture or PDF once, however many rows of a map have it; of very many without small pictures."""
        told = self._place.span.stream.told
        if event.digest in told:
            return
        told.add(event.digest)
        if event.thumbnail is None or len(told) <= _MOST_THUMBNAILS:
            self._tell(event, parent_id=parent_id)
        else:
            fault = f"there is no thumbnail, since the run has {_MOST_THUMBNAILS:,} of them."
            self._tell(event, parent_id=parent_id, thumbnail=None, thumbnail_fault=fault)

    def _leave_startup(self, span_id: str) -> OpenStartup | None:
        """The startup that is over, since nobody waits for it any more; None while others do."""
        startups = self._place.span.stream.open_startups
        subject, startup = next(each for each in startups.items() if span_id in each[1].waiting)
        startup.waiting.discard(span_id)
        return None if startup.waiting else startups.pop(subject)

    def _tell(self, event: events.Event, **changes: Any) -> None:
        offset_s = event.offset_s + self._later_s
        self._place.span.stream.forward(event, offset_s, is_late=self._is_late, depends_on=(), **changes)

    def _start(self, event: events.RunStarted) -> None:
        place = self._place
        if place.is_over:
            return
        around = place.span
        self._run = SpanEmitter(
            around.stream, event.span_id, around.span_id, around.task, around.phase, timer=around.timer
        )
        self._known.add(event.span_id)
        place.nested = (*place.nested, self)
        # Forwarded like all that follows: what is emitted has the time at which another loop came to it.
        started = events.NestedRunStarted(
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
            kind=RunKind.MAP if event.task_noun.is_run else None,
        )
        around.stream.forward(started, event.offset_s + self._later_s, is_late=self._is_late)
