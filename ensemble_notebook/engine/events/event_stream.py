"""The one stream of events of a run: numbers them, stamps them, and hands them to every view.

Knows no listener in particular and nothing about what events mean.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.text_filter import TextFilter
from ensemble_notebook.engine.task_timer import GroupTimer, TaskTimer
from ensemble_notebook.errors import mask_error

Sink = Callable[[Event], None]


class EventStream:
    """Only the loop that runs the engine may write to it, until another thread takes it over.

    Args:
        run_id: of the run; span ids are made from it.
        clock: the first reading is offset 0.
        sinks: called at once with each event, on the loop; must be fast and must not raise.
        text_filter: takes the texts out of each event before anybody sees it; None where they are kept.
        log: one more sink, called first, and not with the events of nested runs.

    Attributes:
        zero_s: what the clock said at offset 0.
        is_watched: somebody has begun to watch, so that replies are streamed from now on (E17).
        listeners: who hears of what is told here, as listeners of the run or of one around it.
    """

    def __init__(
        self,
        run_id: str,
        clock: Clock,
        sinks: Sequence[Sink] = (),
        text_filter: TextFilter | None = None,
        log: Sink | None = None,
    ) -> None:
        self.run_id = run_id
        self.events: list[Event] = []
        self.is_watched = False
        self.listeners: Sequence[object] = ()
        self._clock = clock
        self._sinks = tuple(sinks)
        self._log = log
        self._text_filter = text_filter
        self._started_at = clock.now()
        self.zero_s = clock.monotonic()
        self._span_numbers = count(1)
        self._is_closed = False
        self._writer: int | None = None

    @functools.cached_property
    def open_startups(self) -> dict[str, OpenStartup]:
        """By what is made ready, what the runs inside this one wait for: each is told once in it. Most have none."""
        return {}

    @functools.cached_property
    def told(self) -> set[object]:
        """What `SpanEmitter.emit_once` has told in this run; most runs tell nothing so."""
        return set()

    def find_declared_role(self, role: str) -> str | None:
        """What a role was before its variables were filled; None where texts are kept, since nobody has to know."""
        return None if self._text_filter is None else self._text_filter.find_declared_role(role)

    def new_span_id(self) -> str:
        """An id that no other span of any run has."""
        return f"{self.run_id}.{next(self._span_numbers)}"

    def offset_s(self) -> float:
        """Seconds since the run started."""
        return self._clock.monotonic() - self.zero_s

    def now(self) -> datetime:
        """The time of day in UTC, as an event has it that is written now."""
        return self._started_at + timedelta(seconds=self.offset_s())

    def emit(self, kind: type[Event], span: SpanEmitter, fields: dict[str, Any]) -> None:
        """Write one event. After `close`, nothing is written: a tool may still be running when its run is over."""
        if self._is_closed or (self._writer is not None and self._writer != threading.get_ident()):
            return
        offset = self._clock.monotonic() - self.zero_s
        if (error := fields.get("error")) is not None:
            fields["error"] = mask_error(error)  # before any view, listener or traceback tells what it says (E69)
        given = {
            "run_id": self.run_id,
            "seq": len(self.events),
            "span_id": span.span_id,
            "parent_id": span.parent_id,
            "time": self._started_at + timedelta(seconds=offset),
            "offset_s": offset,
            "task": span.task,
            "phase": span.phase,
            "depends_on": span.depends_on,
            **fields,
        }
        if self._text_filter is not None:
            self._text_filter.strip_fields(kind, given)
        self._add(kind(**given), self._log)

    def forward(self, event: Event, offset_s: float, *, is_late: bool = False, **changes: Any) -> None:
        """Write an event of a nested run, which happened at this offset, as one of this run, with some changes.

        It keeps its span, which no other run has. The log has told of it already, and a nested run keeps no text where
        this one keeps none. One that `is_late` comes from another process, long after it happened: it keeps its time,
        too, and so stands behind events that came after it.
        """
        if self._is_closed or (self._writer is not None and self._writer != threading.get_ident()):
            return
        offset = offset_s if is_late or not self.events else max(offset_s, self.events[-1].offset_s)
        time = self._started_at + timedelta(seconds=offset)
        changes |= {"run_id": self.run_id, "seq": len(self.events), "time": time, "offset_s": offset}
        self._add(replace(event, **changes))

    def _add(self, event: Event, log: Sink | None = None) -> None:
        self.events.append(event)
        if log is not None:
            log(event)
        for sink in self._sinks:
            sink(event)

    def take_over(self) -> None:
        """Let only this thread write from now on: the loop is blocked, and what it does later is no part of the run."""
        self._writer = threading.get_ident()

    def close(self) -> None:
        """Write no more events."""
        self._is_closed = True


class SpanEmitter:
    """A span under construction: the place from which events are emitted.

    Attributes:
        timer: of the task that it is or belongs to; for spans of the run and of its phases that of the run.
    """

    __slots__ = ("depends_on", "parent_id", "phase", "span_id", "stream", "task", "timer")

    def __init__(
        self,
        stream: EventStream,
        span_id: str,
        parent_id: str | None = None,
        task: str | None = None,
        phase: str | None = None,
        depends_on: tuple[str, ...] = (),
        timer: TaskTimer | None = None,
    ) -> None:
        self.stream = stream
        self.span_id = span_id
        self.parent_id = parent_id
        self.task = task
        self.phase = phase
        self.depends_on = depends_on
        self.timer = TaskTimer(stream.offset_s) if timer is None else timer

    def emit(self, kind: type[Event], /, **fields: Any) -> None:
        """Write an event that belongs to this span."""
        self.stream.emit(kind, self, fields)

    def emit_once(self, key: object, kind: type[Event], /, **fields: Any) -> None:
        """The same, unless this run has told of it before; `key` says of what."""
        # By the stream and not by whoever tells it: several agents, and calls side by side, meet the same fault.
        if key not in self.stream.told:
            self.stream.told.add(key)
            self.emit(kind, **fields)

    def child(self) -> SpanEmitter:
        """A new span inside this one, of the same task and phase."""
        span_id = self.stream.new_span_id()
        return SpanEmitter(self.stream, span_id, self.span_id, self.task, self.phase, timer=self.timer)

    def task_child(
        self, name: str, phase: str | None = None, depends_on: tuple[str, ...] = (), *, has_items: bool = False
    ) -> SpanEmitter:
        """The span of a task inside this one, which has a timer of its own; `has_items` where tasks are inside it."""
        timer = (GroupTimer if has_items else TaskTimer)(self.timer.clock, self.timer)
        return SpanEmitter(self.stream, self.stream.new_span_id(), self.span_id, name, phase, depends_on, timer)


def find_status(error: BaseException | None) -> SpanStatus:
    """How a span ends whose work ended with this."""
    if error is None:
        return SpanStatus.OK
    return SpanStatus.CANCELLED if isinstance(error, asyncio.CancelledError) else SpanStatus.ERROR


class Clock(Protocol):
    """Where the engine reads the time: one clock for anchors, one for durations (T4).

    Waiting is asyncio's; the virtual loop of a test and its clock agree.
    """

    def now(self) -> datetime:
        """UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    # Read several times for each event: the function itself, not one around it.
    monotonic = staticmethod(time.monotonic)


STARTUP: Final = "startup"  # the cause of such a wait


@dataclass(frozen=True, slots=True)
class OpenStartup:
    """A startup that goes on.

    Attributes:
        span_id: of the first that waited for it, by which it is told.
        began_s: when that one began to wait, in seconds of the run around.
        waiting: the spans of all that wait for it still.
    """

    span_id: str
    began_s: float
    waiting: set[str]
