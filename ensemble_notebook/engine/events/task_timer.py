"""The time that is a task's own (E50). Knows no tasks: who times one says when it runs, and when it only waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta


class TaskTimer:
    """Adds up the intervals in which a task, or agents on its behalf, worked or waited for what the work needs.

    It stands still before a start and after a stop, so between the attempts of a phase that was sent back, and while
    a model is made ready (E57). An agent makes tool calls side by side: with several of them,
    it stands still only while each of them waits for a model, and so counts every moment once.

    Args:
        clock: tells seconds.
        around: of the task that has this work done; None for a task that is nobody's delegated work.
    """

    __slots__ = ("_around", "_calls", "_clock", "_is_open", "_is_starting_up", "_measured_s", "_since_s", "_waiting")

    def __init__(self, clock: Callable[[], float], around: TaskTimer | None = None) -> None:
        self._clock = clock
        self._around = around
        self._measured_s = 0.0
        self._since_s: float | None = None
        self._is_open = False
        self._is_starting_up = False
        self._calls = 0
        self._waiting = 0  # of its calls, those that only wait for a model to be made ready

    @property
    def duration(self) -> timedelta:
        """What was measured by now."""
        running_s = 0.0 if self._since_s is None else self._clock() - self._since_s
        return timedelta(seconds=self._measured_s + running_s)

    def start(self) -> None:
        """An attempt begins."""
        self._is_open = True
        self._run_or_stand()

    def stop(self) -> timedelta:
        """An attempt is over; what all attempts took by now."""
        if self._is_held_up() and self._around is not None:
            self._around._count_waiting(-1)
        self._is_open = False
        self._run_or_stand()
        return self.duration

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

    def _count_waiting(self, change: int) -> None:
        self._change(waiting=change)

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
            if self._around is not None:
                self._around._count_waiting(1 if is_held_up else -1)

    def _is_held_up(self) -> bool:
        return self._is_open and (self._is_starting_up or 0 < self._waiting >= self._calls)

    def _run_or_stand(self) -> None:
        is_running = self._is_open and not self._is_held_up()
        if is_running and self._since_s is None:
            self._since_s = self._clock()
        elif not is_running and self._since_s is not None:
            self._measured_s += self._clock() - self._since_s
            self._since_s = None
