"""The time that is a task's own (E50). Knows no tasks: who times one says when it runs, and when it only waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Protocol

_NOTICEABLE_S: Final = 0.001
"""What is shorter is how long it takes to call a handler."""


class TimedAround(Protocol):
    """That for which something is timed: it stands still, too, once all that is done for it only waits for a model."""

    def count_waiting(self, change: int) -> None:
        """More, or less, of what is done for it only waits."""

    def count_open(self, change: int) -> None:
        """More, or less, is done for it."""


class TaskTimer:
    """Adds up the intervals in which a task, or agents on its behalf, worked or waited for what the work needs.

    It stands still before a start and after a stop, so between the attempts of a phase that was sent back, and while
    a model is made ready (E57). An agent makes tool calls side by side: with several of them,
    it stands still only while each of them waits for a model, and so counts every moment once.

    Args:
        clock: tells seconds; kept as an attribute, for the timers inside.
        around: of what has this work done: a task that delegated it, the run; None where nobody is to be told.

    Attributes:
        watcher: called with True when it begins to stand still in the midst of the work, and with False when it goes
            on; None for nobody.
    """

    __slots__ = (
        *("_around", "_began_s", "_calls", "_is_open", "_is_starting_up", "_measured_s", "_opened_s", "_since_s"),
        *("_waiting", "_worked"),
        "clock",
        "watcher",
    )

    def __init__(self, clock: Callable[[], float], around: TimedAround | None = None) -> None:
        self.watcher: Callable[[bool], None] | None = None
        self.clock = clock
        self._around = around
        self._measured_s = 0.0
        self._since_s: float | None = None
        self._began_s: float | None = None
        self._opened_s: float | None = None
        self._worked: tuple[tuple[float, float], ...] = ()
        self._is_open = False
        self._is_starting_up = False
        self._calls = 0
        self._waiting = 0  # of its calls, those that only wait for a model to be made ready

    @property
    def duration(self) -> timedelta:
        """What was measured by now."""
        running_s = 0.0 if self._since_s is None else self.clock() - self._since_s
        return timedelta(seconds=self._measured_s + running_s)

    def start(self) -> None:
        """An attempt begins."""
        if not self._is_open and self._around is not None:
            self._around.count_open(1)
        self._is_open = True
        self._run_or_stand()
        self._opened_s = self.clock() if self._since_s is None else self._since_s
        if self._began_s is None:
            self._began_s = self._opened_s

    def stop(self) -> timedelta:
        """An attempt is over; what all attempts took by now."""
        if self._is_held_up():
            self._tell(is_held_up=False)
        if self._is_open and self._around is not None:
            self._around.count_open(-1)
        self._is_open = False
        self._run_or_stand()
        return self.duration

    def add_work(self, from_s: float, to_s: float) -> None:
        """The handler of the task was at work; the rest of the attempt it waited, on the task's time."""
        self._worked += ((from_s, to_s),)

    def take_handler_waits(self) -> tuple[tuple[float, float], ...]:
        """When the handler waited in the attempt that is over, from and to, in seconds since the task first began."""
        if not self._worked or self._began_s is None or self._opened_s is None:
            return ()
        edges = [self._opened_s, *(each for times in self._worked for each in times), self.clock()]
        self._worked = ()
        waits = zip(edges[::2], edges[1::2], strict=True)
        return tuple((a - self._began_s, b - self._began_s) for a, b in waits if b - a >= _NOTICEABLE_S)

    @contextmanager
    def starting_up(self) -> Iterator[None]:
        """A model is made ready inside the block."""
        self._change(is_starting_up=True)
        try:
            yield
        finally:
            self._change(is_starting_up=False)

    @contextmanager
    def tool_call(self) -> Iterator[None]:
        """One of the tool calls of its agent goes on inside the block."""
        self._change(calls=1)
        try:
            yield
        finally:
            self._change(calls=-1)

    def count_waiting(self, change: int) -> None:
        """More, or less, of what its agent's calls have done only waits for a model."""
        self._change(waiting=change)

    def count_open(self, change: int) -> None:
        """Its calls are counted themselves, see `tool_call`."""

    def _change(self, *, is_starting_up: bool | None = None, calls: int = 0, waiting: int = 0) -> None:
        """Take in a change, and tell the task around where it holds that one up, or no longer does."""
        was_held_up = self._is_held_up()
        if is_starting_up is not None:
            self._is_starting_up = is_starting_up
        self._calls += calls
        self._waiting += waiting
        is_held_up = self._is_held_up()
        if is_held_up is not was_held_up:
            self._run_or_stand()
            self._tell(is_held_up=is_held_up)

    def _tell(self, *, is_held_up: bool) -> None:
        if self._around is not None:
            self._around.count_waiting(1 if is_held_up else -1)
        if self.watcher is not None:
            self.watcher(is_held_up)

    def _is_held_up(self) -> bool:
        return self._is_open and (self._is_starting_up or 0 < self._waiting >= self._calls)

    def _run_or_stand(self) -> None:
        is_running = self._is_open and not self._is_held_up()
        if is_running and self._since_s is None:
            self._since_s = self.clock()
        elif not is_running and self._since_s is not None:
            self._measured_s += self.clock() - self._since_s
            self._since_s = None


class GroupTimer(TaskTimer):
    """Of pieces of work side by side, such as the tasks of a run: it stands still while each of them does."""

    __slots__ = ()

    def count_open(self, change: int) -> None:
        """More, or less, of them are at work."""
        if self._waiting:
            self._change(calls=change)
        else:  # told for each task; while none waits, none holds anything up
            self._calls += change
