"""The time that one task has, and what it was doing when that was over (E38). Knows no tasks, only what is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ensemble_notebook.errors import DeadlineExceededError

T = TypeVar("T")


class TaskDeadline:
    """The seconds of a task; None for no limit.

    They run only in what is awaited through `limit`. The time in which a model is made ready, or a person decides, does
    not count.
    """

    __slots__ = ("_activity", "_left", "_limit")

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._left = limit
        self._activity: Callable[[], str] = str

    def renew(self) -> None:
        """Begin with all its seconds again, for a new attempt."""
        self._left = self._limit

    def watch(self, activity: Callable[[], str]) -> None:
        """From now on, ask this function what is being done; the error says it."""
        self._activity = activity

    async def limit(self, work: Awaitable[T], activity: str) -> T:
        """The result of `work`, which is called `activity` unless it says itself what it is doing.

        Raises:
            DeadlineExceededError: the time is over.
        """
        if self._limit is None:
            return await work
        self.watch(lambda: activity)
        loop = asyncio.get_running_loop()
        began, timeout = loop.time(), asyncio.timeout(self._left)
        try:
            async with timeout:
                return await work
        except TimeoutError:
            if not timeout.expired():
                raise
            advice = "Raise the task's timeout or make it smaller."
            raise DeadlineExceededError("task", self._limit, self._activity(), advice) from None
        finally:
            self._left = max(0.0, (self._left or 0.0) - (loop.time() - began))
