"""One run on its way into the store, and `Intake`, where the thread that writes takes what all runs have put.

What can be made later is handed on as a function, which that thread calls: the loop of the run has other things to do.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.trace.store.run_facts import RunFacts

SHOW_LIMIT_S: Final = 1.0
"""How long what shows a completed task waits until it is on disk, before it shows it anyway."""

MakeDocument = Callable[[bool], Mapping[str, Any]]
"""Makes the document of an exchange: secrets masked, or, where that is False, perhaps not yet."""


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """One exchange of the run, as recordings have it."""

    make_document: MakeDocument


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """The result of a task, and the key of what counted for it.

    Attributes:
        path: ``"phase/task"`` or ``"task"``.
        key: by which `ResultReader.find` finds it.
        parts: of the key, to say later what has changed.
        output: of the task.
        obstacle: why it can't be used again, if so; then its text is not written.
        delegated: outputs of the workers, for the task of a manager.
        facts: whatever else is to be known later: plain values.
    """

    path: str
    key: str
    parts: Mapping[str, str]
    output: TaskOutput
    obstacle: str | None = None
    delegated: Sequence[TaskOutput] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingResult:
    """A result that is made when it is written."""

    make: Callable[[], FinishedTask]


Entry = ev.Event | StoredExchange | PendingResult | ScoreRecord


@dataclass(slots=True)
class Taken:
    """What a run has had to write for a while.

    Attributes:
        entries: in order.
        has_ended: nothing follows.
        flushing: is told once its exchanges are written.
    """

    entries: list[Entry]
    has_ended: bool
    flushing: list[Future[bool]] = field(default_factory=list)

    def add(self, later: Taken) -> None:
        """Add what the run has had since."""
        self.entries += later.entries
        self.flushing += later.flushing
        self.has_ended = self.has_ended or later.has_ended

    def take_flushing(self) -> list[Future[bool]]:
        """Take out what is to be told once the exchanges are written."""
        taken, self.flushing = self.flushing, []
        return taken

    def split(self) -> list[StoredExchange]:
        """Take out the exchanges; all else stays, in order."""
        exchanges = [each for each in self.entries if isinstance(each, StoredExchange)]
        if exchanges:
            self.entries = [each for each in self.entries if not isinstance(each, StoredExchange)]
        return exchanges


class RunWriter:
    """Writes one run. Thread-safe; no method raises for anything that is wrong with the disk.

    Usage: events by `on_event` (a sink), documents of a recording by `add_exchange`, the results of finished tasks by
    `add_result`; `close` after the last, and wait for its future, whose result is reached in any case. An exchange may
    still come after that, since a tool of a run that was stopped has ended after all.

    Attributes:
        facts: of the run.
        readers: called by the thread that writes with the next events, before what came after them is made.
        on_warning: called by that thread when there is a warning to take; must be fast and must not raise.
        warnings: what went wrong and nobody has been told yet; one at most.
        is_given_up: whether nothing more of this run is written.

    Args:
        facts: of the run.
        thread: takes what there is.
        keep_late: writes an exchange to the file at once, on whatever thread.
    """

    def __init__(self, facts: RunFacts, thread: Intake, keep_late: Callable[[MakeDocument], object] = bool) -> None:
        self.facts = facts
        self.readers: list[Callable[[Sequence[ev.Event]], object]] = []
        self.warnings: list[str] = []
        self.on_warning: Callable[[], object] = bool
        self.closed: Future[None] = Future()
        self._thread = thread
        self._keep_late = keep_late
        self._entries: deque[Entry] = deque()
        self._has_ended = False
        self._flushing: list[Future[bool]] = []
        self._written_seq = -1
        self.is_given_up = False
        self._changed = threading.Condition()
        self._patience_s = SHOW_LIMIT_S
        self._late_seq = -1

    def take_warnings(self) -> list[str]:
        """The warnings that nobody has told yet."""
        with self._changed:
            taken, self.warnings = self.warnings, []
            return taken

    def on_event(self, event: ev.Event) -> None:
        """Write an event. Pieces of streamed text are not kept: the whole reply follows."""
        if type(event) is not ev.LlmToken:
            self._put(event)

    def add_exchange(self, make_document: MakeDocument) -> None:
        """Write an exchange, as a recording has it. Nothing where no text is kept."""
        if self.facts.keeps_texts:
            entry = StoredExchange(make_document)
            self._put(entry)
            if self._has_ended:
                with suppress(ValueError):  # it was taken with the last entries
                    self._entries.remove(entry)
                    if not self.is_given_up:
                        self.closed.add_done_callback(lambda _: self._keep_late(make_document))

    def add_result(self, make: Callable[[], FinishedTask]) -> None:
        """Write what a finished task came to, under the key of what counted. Nothing where no text is kept.

        Args:
            make: called by the thread that writes, after the readers have seen the events before.
        """
        if self.facts.keeps_texts:
            self._put(PendingResult(make))

    def add_score(self, score: ScoreRecord) -> None:
        """Write a score that was given while the run goes on."""
        self._put(score)

    def flush(self) -> Future[bool]:
        """All exchanges by now are to be on disk soon; gives whether they are, or can't be written."""
        flushed: Future[bool] = Future()
        with self._changed:
            if self.is_given_up:
                flushed.set_result(False)
            else:
                self._flushing.append(flushed)
        self._thread.hurry()
        return flushed

    def _put(self, entry: Entry) -> None:
        self._entries.append(entry)
        if self._thread.is_asleep:
            self._thread.wake()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to write, or to end."""
        return bool(self._entries) or bool(self._flushing) or self._has_ended

    def take(self) -> Taken:
        """Called by the thread that writes: what there is."""
        has_ended = self._has_ended  # asked first: what was put before the end is taken with it
        with self._changed:
            flushing, self._flushing = self._flushing, []
        take = self._entries.popleft
        return Taken([take() for _ in range(len(self._entries))], has_ended, flushing)

    def hold(self, event: ev.Event) -> None:
        """Return once a completion may be shown: what completed is on disk, or that takes too long to wait for.

        For threads that tell people. They wait `SHOW_LIMIT_S` in all, however many tasks there are, until what they
        have waited for is on disk after all.
        """
        if not isinstance(event, ev.TaskCompleted) or event.seq <= self._written_seq:
            return
        if self._late_seq <= self._written_seq:
            self._patience_s = SHOW_LIMIT_S
        if self._patience_s > 0:
            began_s = time.monotonic()
            if not self._wait_for(event.seq, self._patience_s):
                self._patience_s -= time.monotonic() - began_s
                self._late_seq = event.seq

    def close(self) -> Future[None]:
        """Write nothing more after what there is; the future is done once that is over."""
        self._has_ended = True
        self._thread.hurry()
        return self.closed

    def _wait_for(self, seq: int, timeout_s: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._written_seq >= seq or self.is_given_up, timeout_s)
            return self._written_seq >= seq

    def note_written(self, seq: int) -> None:
        """Called by the thread that writes: events up to this one are on disk."""
        with self._changed:
            self._written_seq = max(seq, self._written_seq)
            self._changed.notify_all()

    def give_up(self, warning: str) -> None:
        """Called by the thread that writes: this run can't be written, for this reason."""
        with self._changed:
            if not self.is_given_up:
                self.is_given_up = True
                self.warnings[:] = [warning]  # one is enough (T31)
                self.on_warning()
            self._changed.notify_all()

    def warn(self, warning: str) -> None:
        """Called by the thread that writes: there was something, and the run is written all the same."""
        with self._changed:
            self.warnings.append(warning)
            self.on_warning()

    def note_closed(self) -> None:
        """Called by the thread that writes: all is over."""
        if not self.closed.done():
            self.closed.set_result(None)


class Intake:
    """The runs that are being written, seen by the thread that writes. The other threads wake and hurry it.

    Args:
        now: seconds that no change of the time of day alters.
        wait: waits for an event, no longer than so many seconds.

    Attributes:
        is_asleep: whether it has to be woken to see that there is something.
    """

    PAUSE_S: ClassVar[float] = 0.08

    # Events come one by one, on the loop of a run, which must not wait for a disk, nor wake a thread for each of them.
    # While there is something all the time, it is taken once every pause, so that what comes in a burst shares a
    # commit. How long the last commit took is part of that pause: what comes is on disk one pause and one commit later,
    # or, where commits take longer than the pause, two commits later. So it is if the thread gets its turn when it
    # wants it; on a busy machine, and beside handlers that keep the interpreter busy, nobody can promise that.

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self.is_asleep = False
        self._now, self._wait = now, wait
        self._lock = threading.Lock()
        self._wakes = threading.Event()
        self._hurries = threading.Event()
        self._runs: dict[RunWriter, None] = {}
        self._taken_at = self._now()

    def add(self, run: RunWriter) -> None:
        """One more run; nothing has to be there yet."""
        with self._lock:
            self._runs[run] = None

    def remove(self, run: RunWriter) -> None:
        """Nothing follows of this run."""
        with self._lock:
            self._runs.pop(run, None)

    @property
    def runs(self) -> list[RunWriter]:
        """Those that are being written now."""
        with self._lock:
            return list(self._runs)

    def wake(self) -> None:
        """There is something to write."""
        self.is_asleep = False  # until the thread is there itself, which may take a while, nobody else wakes it
        self._wakes.set()

    def hurry(self) -> None:
        """Somebody waits for what there is to write."""
        self._hurries.set()
        self._wakes.set()

    def take(self, limit_s: float) -> dict[RunWriter, Taken]:
        """What the next commit has: all that comes in a moment. Nothing where nothing comes for `limit_s`."""
        self._wakes.clear()
        self.is_asleep = True  # whoever puts something from here on wakes it; what was put before is seen now
        began = self._taken_at
        if not any(run.is_waiting for run in self.runs) and not self._hurries.is_set():
            self._wait(self._wakes, limit_s)
            began = self._now()
        self.is_asleep = False
        rest_s = began + self.PAUSE_S - self._now()
        if rest_s > 0:
            self._wait(self._hurries, rest_s)
        self._hurries.clear()
        self._taken_at = self._now()
        return {run: run.take() for run in self.runs if run.is_waiting}
