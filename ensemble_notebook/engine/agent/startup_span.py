"""The span of a startup: a model is loaded, fetched or started, in the run's time and on no task's clock (E57)."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import Noted, WaitEnded, WaitStarted
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.open_startups import STARTUP


class StartupSpan:
    """Begins with the first notice, so that a model which is ready leaves no span; ends with the block.

    Args:
        run: the span of the run, which the startup is a child of.
    """

    def __init__(self, run: SpanEmitter) -> None:
        self._run = run
        self._span: SpanEmitter | None = None
        self._began_s = 0.0

    def note(self, message: str) -> None:
        """Tell what is being done, before it takes its time."""
        if self._span is None:
            self._span, self._began_s = self._run.child(), self._run.stream.offset_s()
            self._span.emit(WaitStarted, cause=STARTUP, subject=message.rstrip(". "))
        self._run.emit(Noted, message=message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        status = SpanStatus.OK if error is None else SpanStatus.ERROR
        if isinstance(error, asyncio.CancelledError):
            status = SpanStatus.CANCELLED
        self._end(status, error)

    def cancel(self) -> None:
        """The run is over: whatever is being made ready, nobody waits for it."""
        self._end(SpanStatus.CANCELLED, None)

    def _end(self, status: SpanStatus, error: BaseException | None) -> None:
        span, self._span = self._span, None
        if span is not None:
            waited_s = self._run.stream.offset_s() - self._began_s
            span.emit(WaitEnded, cause=STARTUP, waited_s=waited_s, status=status, error=error)
