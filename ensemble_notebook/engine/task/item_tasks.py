"""The items of one task at work, side by side, each in a place of its own (E53).

Knows nothing of what is done for an item. Which places there are is decided by the scheduler, which counts the items of
all tasks together; the place of the task itself is that of one item at a time.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.scheduling.scheduler_inputs import PlaceReturned, PlacesWanted, SchedulerInput

Work = Callable[[int], Coroutine[Any, Any, TaskOutput]]


class ItemPlaces:
    """Gets places for the items of the tasks of one run.

    Args:
        act: calls a function that moves the run on, and ends the run where that fails.
        advance: tells the scheduler something.
    """

    def __init__(self, act: Callable[..., None], advance: Callable[[SchedulerInput], None]) -> None:
        self.act = act
        self._advance = advance
        self._at_work: dict[int, ItemTasks] = {}

    def advance(self, scheduler_input: SchedulerInput) -> None:
        """Tell the scheduler something, and end the run where that fails."""
        self.act(self._advance, scheduler_input)

    def enter(self, task: int, items: ItemTasks) -> None:
        """A task begins with its items."""
        self._at_work[task] = items

    def leave(self, task: int) -> None:
        """A task is done with its items."""
        self._at_work.pop(task, None)

    def grant(self, task: int) -> None:
        """The scheduler gives a place to an item of a task."""
        if (items := self._at_work.get(task)) is not None:
            items.begin_in_place()

    def deny(self, task: int, reason: str) -> None:
        """The scheduler gives no more places to a task."""
        if (items := self._at_work.get(task)) is not None:
            items.begin_no_more(reason)


class ItemTasks:
    """The asyncio tasks that work for the items of one task.

    Args:
        task: index of the task.
        count: of its items.
        work: makes the work of an item of its number.
        goes_on: whether other items still begin after one that ended so.
        places: where places come from.

    Attributes:
        outputs: of the items that are done, by number.
        errors: of those that ended otherwise.
        reason: why not all have begun; None where that is only because of `errors`.
    """

    def __init__(
        self, task: int, count: int, work: Work, goes_on: Callable[[BaseException], bool], places: ItemPlaces
    ) -> None:
        self.outputs: dict[int, TaskOutput] = {}
        self.errors: dict[int, BaseException] = {}
        self.reason: str | None = None
        self._task = task
        self._work = work
        self._goes_on = goes_on
        self._places = places
        self._pending = deque(range(count))
        self._working: set[asyncio.Task[TaskOutput]] = set()
        self._granted = 0
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Items begin where the scheduler is told of something, by whomever; they belong to this task all the same.
        self._context = contextvars.copy_context()

    async def run(self) -> None:
        """Let all items be worked on that may; returns when none is at work any more.

        Raises:
            CancelledError: the task was to end at once; by then its items have ended.
        """
        if not self._pending:
            return
        self._places.enter(self._task, self)
        try:
            self._begin()
            self._want_places()
            await self._finished
        except asyncio.CancelledError:
            self._pending.clear()
            for each in self._working:
                each.cancel()
            if self._working:
                await asyncio.wait(self._working)
            raise
        finally:
            self._places.leave(self._task)

    def begin_in_place(self) -> None:
        """One place more: the next item begins in it."""
        self._granted += 1
        if self._pending:
            self._begin()
        else:
            self._return_place()

    def begin_no_more(self, reason: str) -> None:
        """Nothing begins any more; what is at work goes on."""
        if self._pending:
            self.reason = reason
            self._pending.clear()

    def _begin(self) -> None:
        number = self._pending.popleft()
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._work(number), context=self._context.copy())
        self._working.add(task)
        task.add_done_callback(functools.partial(self._places.act, self._end, number))

    def _end(self, number: int, task: asyncio.Task[TaskOutput]) -> None:
        self._working.discard(task)
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.outputs[number] = task.result()
        else:
            self.errors[number] = error
            if self._pending and not self._goes_on(error):
                self._pending.clear()
                self._want_places()
        if self._granted:
            self._return_place()
        elif self._pending:  # in the place of the task itself
            self._begin()
            self._want_places()
        if not self._working and not self._pending and not self._finished.done():
            self._finished.set_result(None)

    def _want_places(self) -> None:
        self._places.advance(PlacesWanted(self._task, len(self._pending)))

    def _return_place(self) -> None:
        self._granted -= 1
        self._places.advance(PlaceReturned(self._task))
