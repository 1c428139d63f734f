"""Acts on what the scheduler decides: starts tasks, reports how they ended, stops them (E20, E21, E32, E35)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ExitReason
from ensemble_notebook.domain.definitions.review import ReviewDecision, Verdict
from ensemble_notebook.domain.events import PhaseEnded, PhaseRetried, PhaseSkipped, PhaseStarted
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter
from ensemble_notebook.engine.lifecycle.task_lifecycle import (
    TaskEnding,
    emit_task_ended,
    emit_task_skipped,
    emit_task_started,
)
from ensemble_notebook.engine.run.condition_evaluator import ConditionEvaluator
from ensemble_notebook.engine.run.node_tasks import Node, NodeTasks
from ensemble_notebook.engine.run.phase_review import PhaseReviewer
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.engine.run.run_spans import RunSpans
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.scheduling.scheduler import Scheduler
from ensemble_notebook.engine.scheduling.scheduler_commands import (
    CancelReview,
    CancelTask,
    Command,
    EndPhase,
    EndRun,
    QueueReview,
    QueueTask,
    RetryPhase,
    ReviewPhase,
    SkipPhase,
    SkipTask,
    StartPhase,
    StartTask,
)
from ensemble_notebook.engine.scheduling.scheduler_inputs import (
    PhaseApproved,
    PhaseRejected,
    PhaseReviewAborted,
    PhaseSentBack,
    RunClosed,
    RunningTaskSkipped,
    RunStartRequested,
    RunStopRequested,
    SchedulerInput,
    TaskEndedWithoutOutput,
    TaskSucceeded,
)
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import BudgetExceededError, summarize_error

CANCELLATION_LIMIT_S: Final = 0.5

_CLOSED: Final = {
    ExitReason.USER_EXIT_EARLY: "not started: somebody chose to leave the run",
    ExitReason.BUDGET_EXCEEDED: "not started: the budget is used up",
}


class Driver:
    """One run on the current loop. `close` and `stop` may be called at any time on that loop."""

    def __init__(self, spec: RunSpec, source: ChatSource, stream: EventStream, clock: Clock) -> None:
        self._spec = spec
        self._graph = spec.graph
        self._scheduler = Scheduler(spec.graph, spec.error_strategy, spec.max_concurrency)
        self._stream = stream
        self._caller = FunctionCaller()
        self.result = RunResult()
        self._spans = RunSpans(spec, stream)
        exit_early = functools.partial(self.close, ExitReason.USER_EXIT_EARLY)
        self._runner = TaskRunner(spec, source, self._caller, clock, self._spans.run, exit_early=exit_early)
        self._reviews = PhaseReviewer(self._runner, spec.inputs)
        self._conditions = ConditionEvaluator(spec.graph, self._caller)
        self._resolver = TaskResolver(spec.graph, spec.plan, self.result.outputs)
        self._node_tasks = NodeTasks(self._act)
        self._queued_at: dict[Node, float] = {}
        self._is_stopping = False
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> RunResult:
        """Drive the run to its end. A cancelled `run` stops the tasks first, then lets the cancellation through.

        Task failures do not raise; they are in the result.
        """
        try:
            self._spans.emit_run_started()
            self._act(self._advance, RunStartRequested())
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

    def close(self, reason: ExitReason) -> None:
        """Let what runs finish and start nothing new (E27, E36); why it was closed first counts."""
        if self._finished.done() or self.result.exit_reason is not ExitReason.COMPLETED:
            return
        self.result.exit_reason = reason
        self._act(self._advance, RunClosed(_CLOSED[reason]))

    def stop(self, reason: ExitReason) -> None:
        """Stop at once: requests in flight are cancelled, nothing new starts (E35). Does nothing after the end."""
        if self._finished.done() or self._is_stopping:
            return
        self._is_stopping = True
        self.result.exit_reason = reason
        self._act(self._advance, RunStopRequested())
        asyncio.get_running_loop().call_later(CANCELLATION_LIMIT_S, self._act, self._leave_uncancelled)

    def _conclude(self) -> None:
        for label in self._caller.list_abandoned():
            self._spans.warn(f"Still running and left to itself: {label}.")
        self._caller.close()
        self._runner.close()
        result = self.result
        result.delegated = tuple(self._runner.delegated)
        result.conclude(self._spec.error_strategy)
        self._spans.emit_run_ended(result)

    def _advance(self, scheduler_input: SchedulerInput) -> None:
        for command in self._scheduler.handle(scheduler_input):
            self._perform(command)

    def _act(self, function: Callable[..., None], *args: Any) -> None:
        """Do something; where it fails, the run ends, and neither hangs nor goes on unseen."""
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - e.g. a logging filter of the application
            self._end_with_fault(error)

    def _perform(self, command: Command) -> None:
        match command:
            case StartTask(index):
                self._start(self._graph.tasks[index])
            case QueueTask(index):
                self._queued_at[self._graph.tasks[index]] = self._stream.offset_s()
            case CancelTask(index):
                self._node_tasks.cancel(self._graph.tasks[index])
            case SkipTask(index, reason):
                emit_task_skipped(self._spans.tasks[index], reason)
                self._note_skipped(self._graph.tasks[index], reason)
            case EndRun():
                if not self._finished.done():
                    self._finished.set_result(None)
            case _:
                self._perform_on_phase(command, self._graph.phases[command.phase], self._spans.phases[command.phase])

    def _perform_on_phase(self, command: Command, phase: PhaseNode, span: SpanEmitter) -> None:
        match command:
            case StartPhase():
                span.emit(PhaseStarted)
            case QueueReview():
                self._queued_at[phase] = self._stream.offset_s()
            case ReviewPhase():
                self._review(phase, span)
            case CancelReview():
                self._node_tasks.cancel(phase)
            case RetryPhase():
                self.result.forget({index: self._graph.tasks[index].name for index in phase.tasks})
                revision = self._resolver.get_revision(phase)
                span.emit(PhaseRetried, attempt=revision.attempt, feedback=revision.feedback)
            case EndPhase(_, status, is_cancelled):
                span.emit(PhaseEnded, status=status, is_cancelled=is_cancelled)
            case SkipPhase(_, reason):
                span.emit(PhaseSkipped, reason=reason)
                self.result.skipped.append(Skipped(name=phase.name, kind="phase", reason=reason))

    def _start(self, node: TaskNode) -> None:
        span, planned = self._spans.tasks[node.index], self._spec.plan.tasks[node.index]
        emit_task_started(
            span,
            agent=planned.agent,
            description=planned.description,
            queued_s=self._take_queued_s(node),
            index=node.index,
            total=len(self._graph.tasks),
        )
        fault = self._conditions.find_fault(node.when)
        if fault is None and node.phase is not None:
            fault = self._conditions.find_fault(self._graph.phases[node.phase].when)
        work = self._runner.run(self._resolver.resolve(node), span) if fault is None else _fail(fault)
        self._node_tasks.start(node, work, self._end_task)

    def _take_queued_s(self, node: Node) -> float:
        now = self._stream.offset_s()
        return now - self._queued_at.pop(node, now)

    def _end_task(self, node: TaskNode, task: asyncio.Task[TaskOutput]) -> None:
        """Take in how the work on a task ended."""
        ending = TaskEnding.from_asyncio(task)
        self._close_if_budget_is_used_up(ending)
        if ending.output is not None:
            self.result.outputs[node.index] = ending.output
        elif ending.error is None:
            self._note_skipped(node, ending.reason)
        else:
            self._note_failed(node, ending)
        emit_task_ended(self._spans.tasks[node.index], node.role, ending)
        if ending.output is None:
            is_skipped = ending.error is None
            self._advance(RunningTaskSkipped(node.index) if is_skipped else TaskEndedWithoutOutput(node.index))
        elif self._conditions.has_conditions(node.index):
            work = self._conditions.evaluate(node.index, ending.output)
            self._node_tasks.start(node, work, self._end_conditions)
        else:
            self._advance(TaskSucceeded(node.index))

    def _end_conditions(self, node: TaskNode, task: asyncio.Task[frozenset[int]]) -> None:
        """The conditions on the output of a task are decided, unless the run was stopped meanwhile."""
        self._advance(TaskSucceeded(node.index, frozenset() if task.cancelled() else task.result()))

    def _note_skipped(self, node: TaskNode, reason: str) -> None:
        self._resolver.note_absence(node.index, f"it was skipped ({reason})")
        self.result.skipped.append(Skipped(name=node.name, kind="task", reason=reason))

    def _note_failed(self, node: TaskNode, ending: TaskEnding) -> None:
        assert ending.error is not None
        if ending.is_cancelled:
            self.result.cancelled.append(node.index)
        else:
            self.result.failures.append(Failure(name=node.name, agent_role=node.role, error=ending.error))
        self._resolver.note_absence(node.index, f"it failed ({summarize_error(ending.error)})")

    def _close_if_budget_is_used_up(self, ending: TaskEnding) -> None:
        """The first task or review that the budget ends closes the run (E36)."""
        if isinstance(ending.abandonment, BudgetExceededError):
            self.close(ExitReason.BUDGET_EXCEEDED)

    def _review(self, phase: PhaseNode, span: SpanEmitter) -> None:
        outputs = self._resolver.find_outputs(phase.tasks)
        attempt, queued_s = self._resolver.count_attempts(phase), self._take_queued_s(phase)
        work = self._reviews.review(phase, outputs, attempt, queued_s, span)
        self._node_tasks.start(phase, work, self._end_review)

    def _end_review(self, phase: PhaseNode, task: asyncio.Task[ReviewDecision]) -> None:
        """A phase has been reviewed. Who left the run has closed it by now, and is content with the phase (E27)."""
        if task.cancelled():
            self._advance(PhaseReviewAborted(phase.index))
        elif (error := task.exception()) is not None:
            ending = TaskEnding.from_error(error)
            self._close_if_budget_is_used_up(ending)
            if ending.abandonment is not None:
                self._advance(PhaseReviewAborted(phase.index))
                return
            role = "Reviewer" if phase.reviewer is None else phase.reviewer.role
            self.result.failures.append(Failure(name=phase.name, agent_role=role, error=error, kind="phase"))
            self._advance(PhaseRejected(phase.index))
        elif task.result().verdict is Verdict.RETRY:
            self._resolver.send_back(phase, task.result().text)
            self._advance(PhaseSentBack(phase.index))
        else:
            self._advance(PhaseApproved(phase.index))

    def _end_with_fault(self, error: Exception) -> None:
        """End the run for a fault that is no task's. What is running is cancelled, and nobody hears of it any more."""
        self._node_tasks.cancel_all()
        self._node_tasks.detach()
        if not self._finished.done():
            self._finished.set_exception(error)

    def _leave_uncancelled(self) -> None:
        """What ignored its cancellation is left to itself, so that a second interrupt is never needed."""
        for node in self._node_tasks.detach():
            what = "Task" if isinstance(node, TaskNode) else "The review of phase"
            message = f"{what} {node.name!r} ignored its cancellation and is left to itself."
            self._spans.warn(message)
            if isinstance(node, PhaseNode):
                self._advance(PhaseReviewAborted(node.index))
            elif node.index in self.result.outputs:
                self._advance(TaskSucceeded(node.index))
            else:
                ending = TaskEnding(error=asyncio.CancelledError())
                self._note_failed(node, ending)
                emit_task_ended(self._spans.tasks[node.index], node.role, ending)
                self._advance(TaskEndedWithoutOutput(node.index))


async def _fail(error: Exception) -> TaskOutput:
    """In place of the work of a task that can't be begun."""
    raise error
