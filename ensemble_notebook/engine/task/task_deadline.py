"""The time that one task has, and what it was doing when that was over (E38). Knows no tasks, only what is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ensemble_notebook.engine.events.task_timer import TaskTimer
from ensemble_notebook.errors import DeadlineExceededError

T = TypeVar("T")


class TaskDeadline:
    """The seconds of a task.

    They run only in what is awaited through `limit`. The time in which a model is made ready, or a person decides, does
    not count.

    Args:
        limit_s: the seconds.
        timer: of the task; the seconds stand still when it does (E57).
    """

    __slots__ = ("_activity", "_left_s", "_limit_s", "_timer")

    def __init__(self, limit_s: float, timer: TaskTimer) -> None:
        self._limit_s = limit_s
        self._timer = timer
        self._left_s = limit_s
        self._activity: Callable[[], str] = str

    def renew(self) -> None:
        """Begin with all its seconds again, for a new attempt."""
        self._left_s = self._limit_s

    def watch(self, activity: Callable[[], str]) -> None:
        """From now on, ask this function what is being done; the error says it."""
        self._activity = activity

    async def limit(self, work: Awaitable[T], activity: str) -> T:
        """The result of `work`, which is called `activity` unless it says itself what it is doing.

        Raises:
            DeadlineExceededError: the time is over.
        """
        self.watch(lambda: activity)
        loop = asyncio.get_running_loop()
        timeout = asyncio.timeout(self._left_s)
        since: float | None = loop.time()

        def take_time() -> None:
            nonlocal since
            self._left_s = max(0.0, self._left_s - (0.0 if since is None else loop.time() - since))
            since = None

        def stand_or_go_on(is_held_up: bool) -> None:
            nonlocal since
            take_time()
            if not is_held_up:
                since = loop.time()
            if not timeout.expired():
                timeout.reschedule(None if since is None else since + self._left_s)

        try:
            async with timeout:
                self._timer.watcher = stand_or_go_on
                return await work
        except TimeoutError:
            if not timeout.expired():
                raise
            advice = "Raise the task's timeout or make it smaller."
            raise DeadlineExceededError("task", self._limit_s, self._activity(), advice) from None
        finally:
            self._timer.watcher = None
            take_time()


class NoDeadline:
    """That of all tasks without a limit: nothing of it has to be made for each of them."""

    __slots__ = ()

    def renew(self) -> None:
        """As that of a task with a limit."""

    def watch(self, activity: Callable[[], str]) -> None:
        """As that of a task with a limit."""

    def limit(self, work: Awaitable[T], activity: str) -> Awaitable[T]:  # noqa: ARG002 - nobody will say what it was
        """The work, as it is."""
        return work


_NO_DEADLINE: Final = NoDeadline()


def make_deadline(limit_s: float | None, timer: TaskTimer) -> TaskDeadline | NoDeadline:
    """That of a task with this timer; None for no limit."""
    return _NO_DEADLINE if limit_s is None else TaskDeadline(limit_s, timer)
