"""What the runs of a process have to write, and when the thread that writes takes it (T30).

Events come one by one, on the loop of a run, which must not wait for a disk, nor wake a thread for each of them. While
there is something all the time, it is taken once every `Intake.PAUSE_S`, so that what comes in a burst shares a commit.
How long the last commit took is part of that pause: what comes is on disk one pause and one commit later, or, where
commits take longer than the pause, two commits later.
"""

from __future__ import annotations

import threading
import time
from typing import ClassVar, Protocol

from ensemble_notebook.trace.store.run_writer import RunWriter, Taken


class WaitingClock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Seconds since whenever."""

    def wait(self, event: threading.Event, seconds: float) -> object:
        """Wait for an event, no longer than so many seconds."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Seconds that no change of the time of day alters."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> object:
        """Wait for an event, no longer than so many seconds."""
        return event.wait(seconds)


class Intake:
    """The runs that are being written, seen by the thread that writes. The other threads wake and hurry it.

    Args:
        clock: for the pauses.

    Attributes:
        is_asleep: whether it has to be woken to see that there is something.
    """

    PAUSE_S: ClassVar[float] = 0.03

    def __init__(self, clock: WaitingClock | None = None) -> None:
        self.is_asleep = False
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._wakes = threading.Event()
        self._hurries = threading.Event()
        self._runs: dict[RunWriter, None] = {}
        self._taken_at = self._clock.now()

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
        if not any(run.is_waiting for run in self.runs):
            self._clock.wait(self._wakes, limit_s)
            began = self._clock.now()
        self.is_asleep = False
        rest_s = began + self.PAUSE_S - self._clock.now()
        if rest_s > 0:
            self._clock.wait(self._hurries, rest_s)
        self._hurries.clear()
        self._taken_at = self._clock.now()
        return {run: run.take() for run in self.runs if run.is_waiting}
