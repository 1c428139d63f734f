"""Carries out what the scheduler commands for tasks and phases, and tells it how their work and conditions came out.

Knows nothing of how a run as a whole begins and ends; see `driver`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from ensemble_notebook.domain.definitions.enums import ExitReason, OnExhausted
from ensemble_notebook.domain.definitions.review import ReviewDecision, Verdict
from ensemble_notebook.domain.definitions.run_context import set_context
from ensemble_notebook.domain.events import PhaseEnded, PhaseRetried, PhaseSkipped, PhaseStarted, Warned
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.domain.planning.execution_plan import describe_conditions
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine import scheduler_messages as messages
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.engine.run.conditions import ConditionEvaluator
from ensemble_notebook.engine.run.phase_review import NO_REASON, PhaseReviewer
from ensemble_notebook.engine.run.run_result import RunResult, RunSpans
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.run_services import ParentRun, RunServices
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.engine.task_lifecycle import (
    TaskEnding,
    emit_task_ended,
    emit_task_skipped,
    emit_task_started,
    stop_timer,
)
from ensemble_notebook.errors import BudgetExceededError, EnsembleError, ReviewRejectedError, summarize_error

Node: TypeAlias = TaskNode | PhaseNode
Work = Callable[[Any], Coroutine[Any, Any, Any]]
Settle = Callable[[Any, Any, "BaseException | None"], None]


class CommandExecutor:
    """Acts on the tasks and phases of one run.

    Args:
        services: of the run.
        spans: of the run; what happens to tasks and phases is emitted there.
        runner: works on tasks.
        result: takes in what came of tasks and phases.
        node_tasks: the asyncio tasks of the run.
        advance: tells the scheduler what happened.
        close: lets nothing new start.
    """

    def __init__(
        self,
        services: RunServices,
        spans: RunSpans,
        runner: TaskRunner,
        result: RunResult,
        node_tasks: NodeTasks,
        advance: Callable[[messages.SchedulerInput], None],
        close: Callable[[ExitReason, str], None],
    ) -> None:
        spec = services.spec
        self._spec = spec
        self._graph = spec.graph
        self._stream = services.span.stream
        self._spans = spans
        self._runner = runner
        self._resolver = TaskResolver(spec, result.outputs, runner.revisions)
        self._conditions = ConditionEvaluator(spec.graph, services.caller)
        self._result = result
        self._node_tasks = node_tasks
        self._advance = advance
        self._close = close
        self._queued_at: dict[Node, float] = {}
        self._decisions: dict[PhaseNode, ReviewDecision] = {}
        self._kept: set[PhaseNode] = set()
        # Kept until `release`: as new objects for each task, these would be two more for the garbage collector.
        self._work_on_task, self._settle_task = self._do_task, self._end_task

    def execute(self, command: messages.NodeCommand) -> None:
        """Do what the scheduler wants done with a task or a phase."""
        match command:
            case messages.StartTask(index):
                node, planned = self._graph.tasks[index], self._spec.plan.tasks[index]
                emit_task_started(
                    self._spans.tasks[index],
                    agent=planned.agent,
                    description=planned.description,
                    queued_s=self._take_queued_s(node),
                    index=index,
                    total=len(self._graph.tasks),
                )
                self._node_tasks.start(node, self._work_on_task, self._settle_task)
            case messages.GrantPlace(index):
                self._runner.item_places.grant(index)
            case messages.DenyPlaces(index, reason):
                self._runner.item_places.deny(index, reason)
            case messages.QueueTask(index):
                self._queued_at[self._graph.tasks[index]] = self._stream.offset_s()
            case messages.CancelTask(index):
                self._node_tasks.cancel(self._graph.tasks[index])
            case messages.SkipTask(index, reason):
                emit_task_skipped(self._spans.tasks[index], reason)
                self._note_skipped(self._graph.tasks[index], reason)
            case _:
                self._execute_on_phase(command, self._graph.phases[command.phase], self._spans.phases[command.phase])

    def release(self) -> None:
        """The run is over. Without this, only the garbage collector would free what holds a method of its own."""
        del self._work_on_task, self._settle_task

    def _execute_on_phase(self, command: messages.NodeCommand, phase: PhaseNode, span: SpanEmitter) -> None:
        match command:
            case messages.StartPhase():
                span.emit(PhaseStarted)
            case messages.QueueReview():
                self._queued_at[phase] = self._stream.offset_s()
            case messages.ReviewPhase():
                names, queued_s = [self._graph.tasks[index].name for index in phase.tasks], self._take_queued_s(phase)
                reviewer = PhaseReviewer(self._runner, self._resolver)  # made for each: most runs review nothing
                self._node_tasks.start(
                    phase, lambda phase: reviewer.review(phase, names, queued_s, span), self._end_review
                )
            case messages.CancelReview():
                self._node_tasks.cancel(phase)
            case messages.RetryPhase(_, tasks):
                decision = self._decisions.pop(phase, None)
                if decision is None:
                    feedback = f"until {describe_conditions(phase.until, self._graph)}"
                    self._resolver.begin_round(phase, feedback)
                else:
                    feedback = decision.text
                    self._resolver.send_back(phase, tasks, decision)
                again = {index: self._graph.tasks[index].name for index in tasks}
                self._result.forget(again)
                attempt = self._resolver.count_attempts(phase)
                span.emit(PhaseRetried, attempt=attempt, feedback=feedback, tasks=tuple(again.values()))
            case messages.EndRounds():
                self._end_rounds(phase)
            case messages.EndPhase(_, status, is_cancelled, reason):
                is_kept = phase in self._kept
                span.emit(PhaseEnded, status=status, is_cancelled=is_cancelled, is_kept=is_kept, reason=reason)
            case messages.SkipPhase(_, reason):
                span.emit(PhaseSkipped, reason=reason)
                self._result.skipped.append(Skipped(name=phase.name, kind="phase", reason=reason))

    def _do_task(self, node: TaskNode) -> Coroutine[Any, Any, TaskOutput]:
        fault = self._conditions.find_fault(node.when)
        if fault is None and node.phase is not None:
            fault = self._conditions.find_fault(self._graph.phases[node.phase].when)
        if fault is not None:
            raise fault
        return self._runner.run(self._resolver.resolve(node), self._spans.tasks[node.index])

    def _take_queued_s(self, node: Node) -> float:
        queued_at = self._queued_at.pop(node, None)
        return 0.0 if queued_at is None else self._stream.offset_s() - queued_at

    def _end_task(self, node: TaskNode, output: TaskOutput | None, error: BaseException | None) -> None:
        """Take in how the work on a task ended."""
        span = self._spans.tasks[node.index]
        ending = TaskEnding(output=output) if error is None else TaskEnding.from_error(error)
        stop_timer(span, ending)
        if ending.is_completed and ending.output is not None and ending.abandonment is None:
            self._runner.reuse.keep(node, ending.output, self._runner.delegated)
        self._close_if_budget_is_used_up(ending)
        if ending.output is not None:
            self._result.outputs[node.index] = ending.output
            self._result.failures += ending.output.item_failures
        if ending.error is not None:
            self._note_failed(node, ending)
        elif not ending.is_completed:
            self._note_skipped(node, ending.reason)
        if ending.output is not None and ending.is_completed and self._conditions.has_conditions(node.index):
            # Its span stays open meanwhile: a predicate may begin a run, which has its place there (E52).
            output = ending.output

            def decide(node: TaskNode) -> Coroutine[Any, Any, frozenset[int]]:
                set_context(functools.partial(self._runner.make_context, node, span))
                return self._conditions.evaluate(node.index, output, span)

            self._node_tasks.start(node, decide, functools.partial(self._end_conditions, ending))
            return
        emit_task_ended(span, node.role, ending)
        if ending.is_completed:
            self._advance(messages.TaskSucceeded(node.index))
        elif ending.error is None:
            self._advance(messages.RunningTaskSkipped(node.index, has_worked=ending.has_worked))
        else:
            self._advance(messages.TaskEndedWithoutOutput(node.index))

    def _end_conditions(
        self, ending: TaskEnding, node: TaskNode, met: frozenset[int] | None, error: BaseException | None
    ) -> None:
        """The conditions on the output of a task are decided, unless the run was stopped meanwhile."""
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        emit_task_ended(self._spans.tasks[node.index], node.role, ending)
        broken = self._conditions.find_broken(node.index)
        self._advance(messages.TaskSucceeded(node.index, met or frozenset(), broken))

    def _note_skipped(self, node: TaskNode, reason: str) -> None:
        self._resolver.note_absence(node.index, f"it was skipped ({reason})")
        self._result.skipped.append(Skipped(name=node.name, kind="task", reason=reason))

    def _note_failed(self, node: TaskNode, ending: TaskEnding) -> None:
        assert ending.error is not None
        if ending.is_cancelled:
            self._result.cancelled.append(node.index)
        else:
            self._result.failures.append(Failure(name=node.name, agent_role=node.role, error=ending.error))
        self._resolver.note_absence(node.index, f"it failed ({summarize_error(ending.error)})")

    def _close_if_budget_is_used_up(self, ending: TaskEnding) -> None:
        """The first task or review that the budget ends closes the run."""
        if isinstance(ending.abandonment, BudgetExceededError):
            self._result.budget_error = self._result.budget_error or ending.abandonment
            self._close(ExitReason.BUDGET_EXCEEDED, ending.abandonment.shortfall or "the budget is used up")

    def _end_review(self, phase: PhaseNode, decision: ReviewDecision | None, error: BaseException | None) -> None:
        """A phase has been reviewed. Who left the run has closed it by now, and is content with the phase."""
        if isinstance(error, asyncio.CancelledError):
            self._advance(messages.PhaseReviewAborted(phase.index))
        elif error is not None:
            ending = TaskEnding.from_error(error)
            self._close_if_budget_is_used_up(ending)
            if ending.abandonment is not None:
                self._advance(messages.PhaseReviewAborted(phase.index))
                return
            self._reject(phase, ending.error or error)
        elif decision is not None and decision.verdict is Verdict.RETRY:
            self._send_back(phase, decision)
        else:
            if decision is not None and decision.verdict is Verdict.APPROVE:
                self._runner.reuse.keep_approved(phase, self._resolver.find_outputs(phase.tasks))
            self._advance(messages.PhaseApproved(phase.index))

    def _send_back(self, phase: PhaseNode, decision: ReviewDecision) -> None:
        """A review wants a phase to be done once more, if it has a retry left."""
        review = phase.phase.review
        assert review is not None
        if self._resolver.count_attempts(phase) <= review.max_retries:
            self._decisions[phase] = decision
            by_name = {self._graph.tasks[index].name: index for index in phase.tasks}
            tasks = frozenset(by_name[name] for name, _ in decision.addressed)
            self._advance(messages.PhaseSentBack(phase.index, tasks or None))
            return
        reason = decision.text.strip() or NO_REASON
        message = f"Phase {phase.name!r} was sent back by its review and has no retry left"
        if review.on_exhausted is OnExhausted.FAIL:
            self._reject(phase, ReviewRejectedError(f"{message}: {reason}", reason=reason))
            return
        self._keep(phase, f"{message}; its last outputs are kept: {reason}")
        self._advance(messages.PhaseApproved(phase.index))

    def _keep(self, phase: PhaseNode, message: str) -> None:
        self._spans.phases[phase.index].emit(Warned, message=message)
        self._result.is_doubtful = True
        self._kept.add(phase)

    def _reject(self, phase: PhaseNode, error: BaseException) -> None:
        self._note_phase_failed(phase, "Reviewer" if phase.reviewer is None else phase.reviewer.role, error)
        self._advance(messages.PhaseRejected(phase.index))

    def _note_phase_failed(self, phase: PhaseNode, role: str, error: BaseException) -> None:
        self._result.failures.append(Failure(name=phase.name, agent_role=role, error=error, kind="phase"))

    def _end_rounds(self, phase: PhaseNode) -> None:
        """A phase is not done again although its condition does not hold, or can't be told."""
        error = self._conditions.find_fault(phase.until)
        until, rounds = describe_conditions(phase.until, self._graph), pluralize(phase.phase.max_rounds or 1, "round")
        message = f"Phase {phase.name!r} has had {rounds}, its max_rounds, and {until} does not hold"
        if error is None and phase.phase.on_exhausted is OnExhausted.KEEP:
            self._keep(phase, f"{message}; its last outputs are kept.")
            return
        error = error or EnsembleError(f"{message}. Raise max_rounds, or set on_exhausted to keep its last outputs.")
        self._note_phase_failed(phase, self._graph.tasks[self._graph.conditions[phase.until[0]].source].role, error)

    def leave_uncancelled(self) -> None:
        """What ignored its cancellation is left to itself, so that a second interrupt is never needed."""
        for node in self._node_tasks.detach():
            what = "Task" if isinstance(node, TaskNode) else "The review of phase"
            message = f"{what} {node.name!r} ignored its cancellation and is left to itself."
            self._spans.warn(message)
            if isinstance(node, PhaseNode):
                self._advance(messages.PhaseReviewAborted(node.index))
            elif (output := self._result.outputs.get(node.index)) is not None:  # its conditions were being tested
                ending = TaskEnding(output=output, duration=output.duration)
                emit_task_ended(self._spans.tasks[node.index], node.role, ending)
                self._advance(messages.TaskSucceeded(node.index))
            else:
                span, ending = self._spans.tasks[node.index], TaskEnding(error=asyncio.CancelledError())
                stop_timer(span, ending)
                self._note_failed(node, ending)
                emit_task_ended(span, node.role, ending)
                self._advance(messages.TaskEndedWithoutOutput(node.index))


class NodeTasks:
    """At most one asyncio task works on each node at a time.

    Args:
        act: calls a function that moves the run on, and ends the run where that fails.
        run: that the work is part of.
    """

    def __init__(self, act: Callable[..., None], run: ParentRun) -> None:
        self._act = act
        self._run = run
        self._context: contextvars.Context | None = None
        self._working: dict[Node, _NodeTask] = {}

    def start(self, node: Node, work: Work, settle: Settle) -> None:
        """Let ``work(node)`` be done, on the next turn of the loop.

        ``settle(node, result, error)`` is called when it is over: with what it gave and None, or with None and what it
        raised, its cancellation among that.
        """
        # Made once, since a copy of it costs a tenth; and not before the run begins, which sets variables (E68).
        if self._context is None:
            self._context = self._run.make_context()
        self._working[node] = _NodeTask(self, node, work, settle, self._context.copy())

    def cancel(self, node: Node) -> None:
        """Ask the work on a node to end; from any thread."""
        self._working[node].cancel()

    def cancel_all(self) -> None:
        """Ask all work to end."""
        for node_task in self._working.values():
            node_task.cancel()

    def detach(self) -> list[Node]:
        """Forget the work that still goes on, so that nobody is told of its end; gives the nodes that it was for."""
        nodes = list(self._working)
        self._working.clear()
        return nodes

    def end(self, node_task: _NodeTask, settle: Settle, result: Any, error: BaseException | None) -> bool:
        """Tell how the work on a node ended; False where it is forgotten, or not known yet."""
        node = node_task.node
        if self._working.get(node) is not node_task:
            return False
        del self._working[node]
        self._act(settle, node, result, error)
        return True


class _NodeTask:
    """The asyncio task that works on one node, and its callback."""

    __slots__ = ("_node_tasks", "_settle", "_task", "_work", "node")

    def __init__(
        self, node_tasks: NodeTasks, node: Node, work: Work, settle: Settle, context: contextvars.Context
    ) -> None:
        self.node = node
        self._node_tasks = node_tasks
        self._work = work
        self._settle = settle
        self._task = asyncio.get_running_loop().create_task(self._do(), context=context)
        # For all other ends than a result: a task that is cancelled before its first step runs no code of its own.
        self._task.add_done_callback(self, context=context)

    def cancel(self) -> None:
        """Ask it to end; from any thread."""
        call_on_loop(self._task.get_loop(), self._task.cancel)

    async def _do(self) -> Any:
        """Do the work, and tell of its result at once: what follows need not wait for another turn of the loop."""
        result = await self._work(self.node)
        if self._node_tasks.end(self, self._settle, result, None):
            self._task.remove_done_callback(self)
        return result

    def __call__(self, task: asyncio.Task[Any]) -> None:
        """The asyncio task has ended, and nobody knows."""
        # Looked at in any case: asyncio prints errors that nobody has looked at.
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        del self._task  # it keeps the traceback of its error, which has a frame of ours: a ring
        self._node_tasks.end(self, self._settle, task.result() if error is None else None, error)
