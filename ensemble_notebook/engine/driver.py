"""Acts on what the scheduler decides: starts tasks, reports how they ended, stops them (ENGINE sections 4 and 5).

The only place that creates asyncio tasks for the tasks of a run.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ensemble_notebook.domain.choice import ExitReason, RunStatus, SpanStatus
from ensemble_notebook.domain.event import (
    PhaseEnded,
    PhaseSkipped,
    PhaseStarted,
    PlanMade,
    RunEnded,
    RunStarted,
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TaskStarted,
    Warned,
)
from ensemble_notebook.domain.graph import TaskNode
from ensemble_notebook.domain.model import ChatSource
from ensemble_notebook.domain.output import Failure, Skipped, TaskOutput
from ensemble_notebook.engine.brief import Brief
from ensemble_notebook.engine.call import Caller
from ensemble_notebook.engine.clock import Clock
from ensemble_notebook.engine.order import Order
from ensemble_notebook.engine.scheduler import (
    CancelTask,
    Command,
    EndPhase,
    EndRun,
    Happening,
    QueueTask,
    RunBegun,
    Scheduler,
    SkipPhase,
    SkipTask,
    StartPhase,
    StartTask,
    StopAsked,
    TaskLost,
    TaskSucceeded,
)
from ensemble_notebook.engine.stream import EventStream, Scope
from ensemble_notebook.engine.task_run import TaskRunner

STUBBORN_LIMIT_S: Final = 0.5

_STATUS: Final = {
    ExitReason.COMPLETED: RunStatus.COMPLETED,
    ExitReason.INTERRUPTED: RunStatus.INTERRUPTED,
    ExitReason.USER_EXIT_EARLY: RunStatus.EXITED_EARLY,
    ExitReason.TIMEOUT: RunStatus.FAILED,
    ExitReason.ERROR: RunStatus.FAILED,
}


@dataclass(slots=True)
class RunResult:
    """What a run came to. `outputs` are by task index, in completion order; `cancelled` are indices of tasks."""

    status: RunStatus = RunStatus.RUNNING
    exit_reason: ExitReason = ExitReason.COMPLETED
    outputs: dict[int, TaskOutput] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)


class Driver:
    """One run on the current loop. `stop` may be called at any time on that loop."""

    def __init__(self, order: Order, source: ChatSource, stream: EventStream, clock: Clock) -> None:
        self._order = order
        self._graph = order.graph
        self._scheduler = Scheduler(order.graph, order.error_strategy, order.max_concurrency)
        self._stream = stream
        self._caller = Caller()
        self.result = RunResult()
        self._run_scope = Scope(stream, stream.run_id)
        self._phase_scopes = [self._phase_scope(phase.index) for phase in self._graph.phases]
        self._task_scopes = [self._task_scope(node) for node in self._graph.tasks]
        self._runner = TaskRunner(order, source, self._caller, clock, self._run_scope, exit_early=self._exit_early)
        self._tasks: dict[int, asyncio.Task[TaskOutput]] = {}
        self._queued_at: dict[int, float] = {}
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> RunResult:
        """Drive the run to its end. A cancelled `run` stops the tasks first, then lets the cancellation through.

        Task failures do not raise; they are in the result.
        """
        try:
            self._announce()
            self._act(self._advance, RunBegun())
            await asyncio.shield(self._finished)
        except asyncio.CancelledError:
            self.stop(ExitReason.INTERRUPTED)
            await asyncio.shield(self._finished)
            raise
        except Exception:
            self.result.exit_reason = ExitReason.ERROR
            raise
        finally:
            self._conclude()
        return self.result

    def stop(self, reason: ExitReason) -> None:
        """Stop at once: requests in flight are cancelled, nothing new starts (E35). Does nothing after the end."""
        if self._finished.done() or self.result.exit_reason is not ExitReason.COMPLETED:
            return
        self.result.exit_reason = reason
        self._act(self._advance, StopAsked())
        asyncio.get_running_loop().call_later(STUBBORN_LIMIT_S, self._act, self._give_up)

    def _announce(self) -> None:
        order = self._order
        self._run_scope.emit(
            RunStarted,
            name=order.name,
            workflow=order.workflow,
            inputs={name: _text(value) for name, value in order.inputs.items()},
            max_concurrency=order.max_concurrency,
            budget=order.budget,
            capture_mode=order.capture_mode,
            agents=order.agents,
        )
        self._run_scope.emit(
            PlanMade,
            plan=order.plan,
            task_span_ids=tuple(scope.span_id for scope in self._task_scopes),
            phase_span_ids=tuple(scope.span_id for scope in self._phase_scopes),
        )
        for message in order.warnings:
            self._run_scope.emit(Warned, message=message)

    def _conclude(self) -> None:
        for label in self._caller.abandoned():
            self._run_scope.emit(Warned, message=f"Still running and left to itself: {label}.")
        self._caller.close()
        self._runner.close()
        result = self.result
        if result.failures and result.exit_reason is ExitReason.COMPLETED:
            result.exit_reason = ExitReason.ERROR
        result.status = _STATUS[result.exit_reason]
        error = result.failures[0].error if result.failures else None
        self._run_scope.emit(RunEnded, status=result.status, exit_reason=result.exit_reason, error=error)
        self._stream.close()

    def _advance(self, happening: Happening) -> None:
        for command in self._scheduler.handle(happening):
            self._perform(command)

    def _act(self, step: Callable[..., None], *args: Any) -> None:
        """Take a step; where it can't be taken, the run ends, and neither hangs nor goes on unseen."""
        try:
            step(*args)
        except Exception as error:  # noqa: BLE001 - e.g. a logging filter of the application
            self._break(error)

    def _perform(self, command: Command) -> None:
        match command:
            case StartTask(index):
                self._start(self._graph.tasks[index])
            case QueueTask(index):
                self._queued_at[index] = self._stream.offset_s()
            case CancelTask(index):
                self._tasks[index].cancel()
            case SkipTask(index, reason):
                self._task_scopes[index].emit(TaskSkipped, reason=reason)
                self.result.skipped.append(Skipped(name=self._graph.tasks[index].name, kind="task", reason=reason))
            case StartPhase(index):
                self._phase_scopes[index].emit(PhaseStarted)
            case EndPhase(index, status, is_cancelled):
                self._phase_scopes[index].emit(PhaseEnded, status=status, is_cancelled=is_cancelled)
            case SkipPhase(index, reason):
                self._phase_scopes[index].emit(PhaseSkipped, reason=reason)
                self.result.skipped.append(Skipped(name=self._graph.phases[index].name, kind="phase", reason=reason))
            case EndRun():
                self._finished.set_result(None)

    def _start(self, node: TaskNode) -> None:
        now = self._stream.offset_s()
        scope, planned = self._task_scopes[node.index], self._order.plan.tasks[node.index]
        scope.emit(
            TaskStarted,
            agent=planned.agent,
            description=planned.description,
            index=node.index,
            total=len(self._graph.tasks),
            queued_s=now - self._queued_at.pop(node.index, now),
        )
        context = tuple(self.result.outputs[index] for index in node.context)
        work = self._runner.run(node, Brief(description=planned.description, context=context), scope)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[node.index] = task
        task.add_done_callback(functools.partial(self._ended, node))

    def _ended(self, node: TaskNode, task: asyncio.Task[TaskOutput]) -> None:
        """A task is over, in whichever way; a callback, since a task cancelled before its first step runs no code."""
        if not task.cancelled():
            task.exception()  # looked at in any case: asyncio prints those that nobody wanted to know
        if self._tasks.pop(node.index, None) is not None:
            self._act(self._settle, node, task)

    def _settle(self, node: TaskNode, task: asyncio.Task[TaskOutput]) -> None:
        if task.cancelled():
            self._lost(node, asyncio.CancelledError(), SpanStatus.CANCELLED)
        elif (error := task.exception()) is not None:
            self._lost(node, error, SpanStatus.ERROR)
        else:
            output = task.result()
            self.result.outputs[node.index] = output
            self._task_scopes[node.index].emit(TaskCompleted, output=output)
            self._advance(TaskSucceeded(node.index))

    def _lost(self, node: TaskNode, error: BaseException, status: SpanStatus) -> None:
        if status is SpanStatus.ERROR:
            self.result.failures.append(Failure(name=node.name, agent_role=node.role, error=error))
        else:
            self.result.cancelled.append(node.index)
        self._task_scopes[node.index].emit(TaskFailed, agent=node.role, error=error, status=status)
        self._advance(TaskLost(node.index))

    def _break(self, error: Exception) -> None:
        """End the run for a fault that is no task's. What is running is cancelled, and nobody hears of it any more."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        if not self._finished.done():
            self._finished.set_exception(error)

    def _give_up(self) -> None:
        """Tasks that ignored their cancellation are left to themselves, so that a second interrupt is never needed."""
        for index in list(self._tasks):
            node = self._graph.tasks[index]
            del self._tasks[index]
            self._run_scope.emit(Warned, message=f"Task {node.name!r} ignored its cancellation and is left to itself.")
            self._lost(node, asyncio.CancelledError(), SpanStatus.CANCELLED)

    def _exit_early(self) -> None:
        """Somebody chose to leave the run (E27)."""
        self.stop(ExitReason.USER_EXIT_EARLY)

    def _phase_scope(self, index: int) -> Scope:
        stream, name = self._stream, self._graph.phases[index].name
        after = self._order.plan.phases[name]
        return Scope(stream, stream.new_span_id(), self._run_scope.span_id, phase=name, depends_on=after)

    def _task_scope(self, node: TaskNode) -> Scope:
        parent = self._run_scope if node.phase is None else self._phase_scopes[node.phase]
        planned, span_id = self._order.plan.tasks[node.index], self._stream.new_span_id()
        return Scope(self._stream, span_id, parent.span_id, planned.name, planned.phase, planned.depends_on)


def _text(value: object) -> str:
    """An input as text, for views; a value that has none is no reason not to run."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - it is the user's own `__str__`
        return f"<{type(value).__name__}>"
