"""The life of a task: its start and its end as events, what an end means, and how long the task has taken by then.

Serves every task alike: those of the plan, which the scheduler starts, and those that stand in no plan, which are
delegated or review a phase. Knows nothing of what a task does. The duration that is fixed here is the one that output,
frames, files and views tell (E50).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import TaskCompleted, TaskFailed, TaskReused, TaskSkipped, TaskStarted
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.errors import BudgetExceededError, drop_own_frames, get_message, mask_error


@dataclass(slots=True)
class TaskEnding:
    """How the work on a task ended.

    Attributes:
        output: what it leaves behind; None where it leaves nothing.
        abandonment: why it was not to go on. With an output, that is the one that it had before it was to be redone.
        error: what it failed with, or its cancellation; None where it did not fail.
        duration: how long the task has taken in all; set by `stop_timer`.
        is_partial: the output is what a task leaves behind that did not come to its end.
    """

    output: TaskOutput | None = None
    abandonment: TaskAbandoned | BudgetExceededError | None = None
    error: BaseException | None = None
    duration: timedelta = timedelta()
    is_partial: bool = False

    @classmethod
    def from_error(cls, error: BaseException) -> TaskEnding:
        """What an exception that ended the work means."""
        if isinstance(error, asyncio.CancelledError):
            return cls(error=error)
        if isinstance(error, PartialOutputKept) and error.__cause__ is not None:
            ending = cls.from_error(error.__cause__)
            ending.output, ending.is_partial = error.output, True
            return ending
        abandonment = abandonment_in(error)
        if isinstance(error, PreviousOutputKept):
            return cls(output=error.output, abandonment=abandonment)
        drop_own_frames(error)
        return cls(error=mask_error(error)) if abandonment is None else cls(abandonment=abandonment)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was running when it was stopped from outside."""
        return isinstance(self.error, asyncio.CancelledError)

    @property
    def is_completed(self) -> bool:
        """Whether the task came to its end."""
        return self.output is not None and not self.is_partial

    @property
    def has_worked(self) -> bool:
        """Whether the task has done something; a person may have left the run before."""
        return not isinstance(self.abandonment, TaskAbandoned) or self.abandonment.has_worked

    @property
    def reason(self) -> str:
        """Why an abandoned task was not to go on."""
        return "" if self.abandonment is None else get_message(self.abandonment)


def emit_task_started(
    span: SpanEmitter,
    *,
    agent: str,
    description: str,
    queued_s: float = 0.0,
    index: int | None = None,
    total: int | None = None,
    label: str = "",
) -> None:
    """A task begins.

    Args:
        span: of the task.
        agent: the role of the agent that works on it.
        description: resolved.
        queued_s: how long it waited for a free place.
        index: its position among `total` planned tasks; None for a task that stands in no plan.
        total: how many tasks are planned; None for a task that stands in no plan.
        label: of an item, what a person calls it.
    """
    place = {"index": index, "total": total}
    span.emit(TaskStarted, agent=agent, description=description, **place, queued_s=queued_s, label=label)
    span.timer.start()


def stop_timer(span: SpanEmitter, ending: TaskEnding) -> None:
    """A task is over: fix how long it took in all, and when it ended, in its ending and in what it leaves behind."""
    ending.duration = span.timer.stop()
    if ending.output is not None:
        ending.output._fix_end(span.stream.now(), ending.duration)


def emit_task_ended(span: SpanEmitter, agent: str, ending: TaskEnding) -> None:
    """A task has ended, in whichever way, and its timer stands."""
    times = {"duration": ending.duration, "handler_waits": span.timer.take_handler_waits()}
    completed = ending.output if ending.is_completed else None
    if completed is not None and (saving := completed.saving) is not None:
        span.emit(
            TaskReused,
            output=completed,
            duration=ending.duration,
            source_run_id=saving.run_id,
            reason=saving.reason,
            saved_tokens=saving.tokens,
            saved_cost=saving.cost,
            currency=saving.currency,
            saved_ms=saving.duration.total_seconds() * 1000,
        )
    elif completed is not None:
        span.emit(TaskCompleted, output=completed, **times)
    elif ending.error is not None:
        status = SpanStatus.CANCELLED if ending.is_cancelled else SpanStatus.ERROR
        span.emit(TaskFailed, agent=agent, error=ending.error, status=status, **times)
    else:
        span.emit(TaskSkipped, reason=ending.reason, **times)


def emit_task_skipped(span: SpanEmitter, reason: str) -> None:
    """A task does not run, or not once more."""
    span.emit(TaskSkipped, reason=reason, duration=span.timer.duration or None)


async def run_unplanned_task(
    span: SpanEmitter,
    work: Awaitable[TaskOutput],
    *,
    agent: str,
    description: str,
    queued_s: float = 0.0,
    label: str = "",
) -> TaskOutput:
    """Do the work of a task that stands in no plan, between the events of its start and its end.

    Raises:
        Exception: what ended the work; the trace has it by then.
    """
    emit_task_started(span, agent=agent, description=description, queued_s=queued_s, label=label)
    try:
        output = await work
    except (asyncio.CancelledError, Exception) as error:
        _end_unplanned_task(span, agent, TaskEnding.from_error(error))
        raise
    _end_unplanned_task(span, agent, TaskEnding(output=output))
    return output


def _end_unplanned_task(span: SpanEmitter, agent: str, ending: TaskEnding) -> None:
    stop_timer(span, ending)
    emit_task_ended(span, agent, ending)


class TaskAbandoned(Exception):  # noqa: N818 - no error
    """Ends a running task that is not to go on, because a person chose to leave the run. It is never a failure.

    Code that turns the faults of tools and delegated work into answers for a model lets this, and
    `BudgetExceededError`, through.
    """

    def __init__(self, reason: str, *, has_worked: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.has_worked = has_worked


class PreviousOutputKept(Exception):  # noqa: N818 - no error
    """Ends a task that was sent back and could not be redone. Its cause says why; the earlier output counts."""

    def __init__(self, output: TaskOutput) -> None:
        super().__init__(f"the earlier output of {output.name!r} is kept")
        self.output = output


class PartialOutputKept(Exception):  # noqa: N818 - no error
    """Ends a task that runs for each item before all of them were done. Its cause says why.

    Attributes:
        output: what the items that are done put out.
    """

    def __init__(self, output: TaskOutput) -> None:
        super().__init__(f"the finished items of {output.name!r} are kept")
        self.output = output


def abandonment_in(error: BaseException) -> TaskAbandoned | BudgetExceededError | None:
    """What in the chain of causes of an error ended the task without being a failure; None where it is a failure."""
    return next((each for each in list_causes(error) if isinstance(each, TaskAbandoned | BudgetExceededError)), None)


def list_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from, down to the first."""
    seen: set[int] = set()  # a chain of causes may be a ring
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        yield link
        seen.add(id(link))
        link = link.__cause__
