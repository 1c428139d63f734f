"""The pen behind `event`: a clock, a stack of open spans, and events that are put in order of time at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.task_output import TaskOutput

T = TypeVar("T")

START: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@dataclass(slots=True, eq=False)
class OpenSpan:
    """A span that is being written.

    Attributes:
        end: writes the event that ends it, with this status.
        error: what it is going to end with. hangs: it stays open.
        contains_failure: what fails in it does not fail what is around it, as in a tool call.
        is_fallback: a fallback agent has taken over.
        reply: the last text that a model gave in it. tool_calls: how many were executed in it. output: of a task.
        worked_s: of a task: its own time (E50), of all its attempts that are over.
        startup_s: of a task: how long it has waited for a model to be made ready, in this attempt.
    """

    span_id: str
    parent: OpenSpan | None
    task: str | None = None
    phase: str | None = None
    depends_on: tuple[str, ...] = ()
    end: Callable[[SpanStatus], None] | None = None
    error: BaseException | None = None
    hangs: bool = False
    contains_failure: bool = False
    is_fallback: bool = False
    reply: str | None = None
    tool_calls: int = 0
    output: TaskOutput | None = None
    worked_s: float = 0.0
    startup_s: float = 0.0

    def outwards(self) -> Iterator[OpenSpan]:
        """This one and those around it, without the run."""
        scope = self
        while scope.parent is not None:
            yield scope
            scope = scope.parent


class EventWriter:
    """Writes events of one run.

    Attributes:
        now_s: the clock, in seconds since the run started.
    """

    def __init__(self, run_id: str) -> None:
        self.now_s = 0.0
        self._run = self._scope = OpenSpan(run_id, None)
        self._events: list[Event] = []
        self._span_count = 0
        self._hanging: list[OpenSpan] = []
        self._roles: dict[str, str] = {}

    @property
    def now(self) -> datetime:
        """The clock, in UTC."""
        return START + timedelta(seconds=self.now_s)

    @property
    def events(self) -> tuple[Event, ...]:
        """What was written by now, in order of time, numbered without gaps."""
        in_time = sorted(self._events, key=lambda event: event.offset_s)
        return tuple(replace(event, seq=seq) for seq, event in enumerate(in_time))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def beside(self, items: Iterable[T]) -> Iterator[T]:
        """Write what follows for each item from the same moment on; afterwards it is the latest end of them all."""
        start_s = latest_s = self.now_s
        for item in items:
            self.now_s = start_s
            yield item
            latest_s = max(latest_s, self.now_s)
        self.now_s = latest_s

    def fail(self, error: BaseException) -> None:
        """What is open, up to the phase or the tool call around it, is going to end with this error."""
        for scope in self._scope.outwards():
            if scope.contains_failure:
                break
            scope.error = scope.error or error

    @property
    def _role(self) -> str:
        """Of the agent whose task we are in."""
        return self._roles[self._scope.task or ""]

    @property
    def _work(self) -> OpenSpan:
        """The task that we are in."""
        return [scope for scope in self._scope.outwards() if scope.task == self._scope.task][-1]

    def _child(self, parent: OpenSpan | None = None, task: str | None = None, phase: str | None = None) -> OpenSpan:
        """A new span inside another one, by default inside the one we are in."""
        self._span_count += 1
        parent = parent or self._scope
        span_id = f"{self._run.span_id}.{self._span_count}"
        return OpenSpan(span_id, parent, task or parent.task, phase or parent.phase)

    @contextmanager
    def _inside(self, scope: OpenSpan) -> Iterator[OpenSpan]:
        """Write inside a span; when the block is left, the span is ended, unless something in it hangs."""
        around, self._scope = self._scope, scope
        yield scope
        if scope.hangs:
            self._hanging.append(scope)
        elif scope.end is not None:
            scope.end(SpanStatus.OK if scope.error is None else SpanStatus.ERROR)
        self._scope = around

    def _hang(self) -> None:
        """Everything that is open stays open."""
        for scope in self._scope.outwards():
            scope.hangs = True

    def _cancel_hanging(self) -> None:
        """End what hangs; inner spans were left first."""
        for scope in self._hanging:
            if scope.end is not None:
                with self._at(scope):
                    scope.end(SpanStatus.CANCELLED)
        self._hanging.clear()

    @contextmanager
    def _at(self, scope: OpenSpan) -> Iterator[None]:
        around, self._scope = self._scope, scope
        yield
        self._scope = around

    def _emit(self, kind: type[Event], /, **fields: Any) -> None:
        """Write an event of the span we are in."""
        scope = self._scope
        self._events.append(
            kind(
                run_id=self._run.span_id,
                seq=len(self._events),
                span_id=scope.span_id,
                parent_id=None if scope.parent is None else scope.parent.span_id,
                time=self.now,
                offset_s=self.now_s,
                task=scope.task,
                phase=scope.phase,
                depends_on=scope.depends_on,
                **fields,
            )
        )

    def _emit_in(self, scope: OpenSpan, kind: type[Event], /, **fields: Any) -> None:
        """Write an event of another span."""
        with self._at(scope):
            self._emit(kind, **fields)
