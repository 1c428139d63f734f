"""Runs of other frameworks in this process, live and as outputs: `watch` (T103).

Their spans go through a queue to one thread, which makes our events of them and hands these to a view, to the store,
and, at the end, to an output. So what is watched is held up by nothing but the queue.
"""

from __future__ import annotations

import contextvars
import logging
import queue
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ensemble_notebook.domain.definitions.enums import find_framework
from ensemble_notebook.domain.events import Event, RunEnded, RunStarted
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import make_loaded_output
from ensemble_notebook.errors import SuggestsNames
from ensemble_notebook.importers.foreign_run import ForeignRuns
from ensemble_notebook.interop.span_tap import SpanEnd, SpanStart, SpanTap, find_provider, tap_provider
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.run_writer import RunWriter

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.5
"""How often runs that may be over are looked at."""
FLUSH_LIMIT_S: Final = 2.0
GATHER_S: Final = 0.05
"""How long spans are gathered: who makes them is interrupted once for many of them, and nobody sees the difference."""


class RunView(Protocol):
    """Shows a run while it goes on."""

    def on_event(self, event: Event, /) -> None:
        """Take in the next event."""

    def close(self, output: EnsembleOutput, /) -> None:
        """Show what stays."""


def watch(provider: Any = None) -> Watch:
    """Show the runs of other frameworks whose spans tell of agents and models: live, then as outputs.

    Understood are the names of OpenTelemetry's GenAI conventions, OpenInference and OpenLLMetry. Says in one printed
    line what was set up. Watching again what is watched already gives the same handle.

    Args:
        provider: the `TracerProvider` of OpenTelemetry's SDK whose spans are watched. None: that of the process; where
            there is none, one is set up, and this process can set no other afterwards.

    Returns:
        What has the runs, and ends it: ``with watch() as watched: ...``.

    Raises:
        MissingPackageError: the SDK is not installed.
        ValidationError: the provider takes no processors.
    """
    is_new = False
    if provider is None:
        provider, is_new = find_provider()
    tap = tap_provider(provider)
    with _lock:
        watched = _watches.get(tap)
        if watched is None:
            watched = _watches[tap] = Watch(tap)
    made = "a tracer provider was set up, since there was none; this process can set no other"
    said = made if is_new else "those of the tracer provider that is set up"
    sys.stdout.write(f"Watching the spans of this process: {said}.\n")
    return watched


def list_watches() -> list[Watch]:
    """All that watch now."""
    with _lock:
        return list(_watches.values())


_lock: Final = threading.Lock()
_watches: Final[weakref.WeakKeyDictionary[SpanTap, Watch]] = weakref.WeakKeyDictionary()


class Watch(SuggestsNames):
    """Watches the spans of a tracer provider. Made by `watch`. Thread-safe.

    Args:
        tap: hears of the spans.
    """

    def __init__(self, tap: SpanTap) -> None:
        self._tap = tap
        self._items: queue.SimpleQueue[SpanStart | SpanEnd | threading.Event | None] = queue.SimpleQueue()
        self._adapter = ForeignRuns()
        self._runs: dict[str, _WatchedRun] = {}
        self._open_count = 0
        self._contexts: dict[str, contextvars.Context] = {}
        self._is_over = False
        self._is_wanted = threading.Event()
        self._leave_cells: Callable[[], object] = bool
        if "IPython" in sys.modules:
            self._leave_cells = render_view("cell_end", self._flush)
        self._thread = threading.Thread(target=self._work, name="ensemble-watch", daemon=True)
        self._thread.start()
        tap.listener = self._items.put

    @property
    def runs(self) -> tuple[EnsembleOutput, ...]:
        """The runs that have ended, in the order in which they began."""
        self._flush()
        return tuple(each.output for each in [*self._runs.values()] if each.is_over)

    @property
    def late_ends(self) -> int:
        """How many spans ended after their run was closed as lost."""
        return self._adapter.late_ends

    def stop(self) -> None:
        """Watch no more. Runs that go on are closed as lost here; they themselves go on, and the provider stays."""
        with _lock:
            if self._is_over:
                return
            self._is_over = True
            self._tap.listener = None
            _watches.pop(self._tap, None)
        self._leave_cells()
        self._items.put(None)
        self._is_wanted.set()
        self._thread.join(FLUSH_LIMIT_S)
        if self.late_ends:
            ended = pluralize(self.late_ends, "span")
            warnings.warn(f"{ended} ended after the run was closed, and so in no run.", stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        """How many runs there are."""
        self._flush()
        done = sum(each.is_over for each in [*self._runs.values()])
        rest = len(self._runs) - done
        said = pluralize(done, "run") + (f", {rest} going on" if rest else "")
        late = f", {pluralize(self.late_ends, 'late span')}" if self.late_ends else ""
        return f"<Watch: {said}{late}{', stopped' if self._is_over else ''}>"

    def _flush(self) -> None:
        """Wait, for a moment, until all that has happened is taken in."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            done = threading.Event()
            self._items.put(done)
            self._is_wanted.set()
            done.wait(FLUSH_LIMIT_S)

    # --- On the thread of its own -------------------------------------------------------------------------------------

    def _work(self) -> None:
        due_s = time.monotonic() + SETTLE_S
        while True:
            item = self._wait_for_item()
            try:
                if item is None:
                    self._take(self._adapter.close())
                    return
                self._take_item(item)
                if time.monotonic() >= due_s:
                    self._take(self._adapter.settle(time.time_ns()))
                    due_s = time.monotonic() + SETTLE_S
            except Exception:
                logger.exception("A span can't be shown; watching goes on.")
                if item is None:
                    return

    def _wait_for_item(self) -> SpanStart | SpanEnd | threading.Event | None:
        with suppress(queue.Empty):
            return self._items.get_nowait()
        try:
            item = self._items.get(timeout=SETTLE_S if self._open_count else None)
        except queue.Empty:
            return threading.Event()
        self._is_wanted.wait(GATHER_S)
        self._is_wanted.clear()
        return item

    def _take_item(self, item: SpanStart | SpanEnd | threading.Event) -> None:
        if isinstance(item, threading.Event):
            item.set()
        elif isinstance(item, SpanStart):
            self._contexts.setdefault(item.span.trace_id, item.context)
            self._take(self._adapter.start(item.span))
        else:
            span = item.read()
            self._take(self._adapter.end(span))
            if span.parent_id is None:
                self._contexts.pop(span.trace_id, None)

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, RunStarted):
                self._open_count += 1
                trace_id = event.run_id.partition("-")[0]
                context = self._contexts.get(trace_id) or contextvars.Context()
                self._runs[event.run_id] = _WatchedRun(event, context)
            self._runs[event.run_id].add(event)
            if isinstance(event, RunEnded):
                self._open_count -= 1
                self._contexts.pop(event.run_id.partition("-")[0], None)


class _WatchedRun:
    """One run: its events go to its view and to the store as they come."""

    def __init__(self, first: RunStarted, context: contextvars.Context) -> None:
        self.is_over = False
        self._events: list[Event] = []
        self._context = context
        self._view: RunView | None = None
        if "IPython" in sys.modules:
            self._view = self._show(lambda: render_view("watched_run", first.name))
        self._writer: RunWriter | None = None
        if (store := RunStore.find()) is not None:
            facts = RunFacts(
                run_id=first.run_id,
                name=first.name,
                started_at=first.time,
                capture_mode=first.capture_mode,
                framework=find_framework(first.workflow),
            )
            self._writer = store.begin(facts)

    def add(self, event: Event) -> None:
        """Take in the next event."""
        if self.is_over:
            return
        self._events.append(event)
        view, writer = self._view, self._writer
        if writer is not None:
            writer.on_event(event)
        if view is not None:
            self._show(lambda: view.on_event(event))
        if isinstance(event, RunEnded):
            self.is_over = True
            if writer is not None:
                writer.close()
            if view is not None:
                self._show(lambda: view.close(self.output))

    @cached_property
    def output(self) -> EnsembleOutput:
        """The run, once it is over; made when it is asked for, since most are only kept."""
        return make_loaded_output(ExecutionTrace(self._events))

    def _show(self, show: Callable[[], Any]) -> Any:
        """Do something in the cell that the run began in; what fails there costs the view alone."""
        try:
            return self._context.run(show)
        except Exception:
            logger.exception("A watched run can't be shown; it is kept all the same.")
            self._view = None
            return None
