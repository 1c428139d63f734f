"""Carries out what the scheduler commands for tasks and phases, and tells it how their work and conditions came out.

Knows nothing of how a run as a whole begins and ends; see `driver`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.enums import ExitReason, OnExhausted
from ensemble_notebook.domain.definitions.output_type import read_field
from ensemble_notebook.domain.definitions.review import ReviewDecision, Verdict
from ensemble_notebook.domain.definitions.run_context import set_context
from ensemble_notebook.domain.events import PhaseEnded, PhaseRetried, PhaseSkipped, PhaseStarted, Warned
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.domain.planning.execution_plan import describe_conditions
from ensemble_notebook.domain.planning.graph import ConditionNode, Graph, PhaseNode, TaskNode
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run.node_tasks import Node, NodeTasks
from ensemble_notebook.engine.run.phase_review import NO_REASON, PhaseReviewer
from ensemble_notebook.engine.run.run_result import RunResult, RunSpans
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.engine.scheduler_messages import (
    CancelReview,
    CancelTask,
    DenyPlaces,
    EndPhase,
    EndRounds,
    GrantPlace,
    NodeCommand,
    PhaseApproved,
    PhaseRejected,
    PhaseReviewAborted,
    PhaseSentBack,
    QueueReview,
    QueueTask,
    RetryPhase,
    ReviewPhase,
    RunningTaskSkipped,
    SchedulerInput,
    SkipPhase,
    SkipTask,
    StartPhase,
    StartTask,
    TaskEndedWithoutOutput,
    TaskSucceeded,
)
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.engine.task_lifecycle import (
    TaskEnding,
    emit_task_ended,
    emit_task_skipped,
    emit_task_started,
    stop_timer,
)
from ensemble_notebook.errors import BudgetExceededError, EnsembleError, ReviewRejectedError, summarize_error


class CommandExecutor:
    """Acts on the tasks and phases of one run.

    Args:
        spec: the run.
        stream: tells how long tasks wait for a place.
        spans: of the run; what happens to tasks and phases is emitted there.
        runner: works on tasks.
        caller: calls the user's conditions.
        result: takes in what came of tasks and phases.
        node_tasks: the asyncio tasks of the run.
        advance: tells the scheduler what happened.
        close: lets nothing new start.
    """

    def __init__(
        self,
        spec: RunSpec,
        stream: EventStream,
        spans: RunSpans,
        runner: TaskRunner,
        caller: FunctionCaller,
        result: RunResult,
        node_tasks: NodeTasks,
        *,
        advance: Callable[[SchedulerInput], None],
        close: Callable[[ExitReason, str | None], None],
    ) -> None:
        self._spec = spec
        self._graph = spec.graph
        self._stream = stream
        self._spans = spans
        self._runner = runner
        self._resolver = TaskResolver(spec.graph, spec.plan, result.outputs, runner.revisions, spec.inputs, spec.only)
        self._conditions = ConditionEvaluator(spec.graph, caller)
        self._result = result
        self._node_tasks = node_tasks
        self._advance = advance
        self._close = close
        self._queued_at: dict[Node, float] = {}
        self._decisions: dict[PhaseNode, ReviewDecision] = {}
        self._kept: set[PhaseNode] = set()
        # Kept until `release`: as new objects for each task, these would be two more for the garbage collector.
        self._work_on_task, self._settle_task = self._do_task, self._end_task

    @functools.cached_property
    def _reviewer(self) -> PhaseReviewer:
        return PhaseReviewer(self._runner, self._resolver)

    def execute(self, command: NodeCommand) -> None:
        """Do what the scheduler wants done with a task or a phase."""
        match command:
            case StartTask(index):
                self._start_task(self._graph.tasks[index])
            case GrantPlace(index):
                self._runner.item_places.grant(index)
            case DenyPlaces(index, reason):
                self._runner.item_places.deny(index, reason)
            case QueueTask(index):
                self._queued_at[self._graph.tasks[index]] = self._stream.offset_s()
            case CancelTask(index):
                self._node_tasks.cancel(self._graph.tasks[index])
            case SkipTask(index, reason):
                emit_task_skipped(self._spans.tasks[index], reason)
                self._note_skipped(self._graph.tasks[index], reason)
            case _:
                self._execute_on_phase(command, self._graph.phases[command.phase], self._spans.phases[command.phase])

    def release(self) -> None:
        """The run is over. Without this, only the garbage collector would free what holds a method of its own."""
        del self._work_on_task, self._settle_task

    def _execute_on_phase(self, command: NodeCommand, phase: PhaseNode, span: SpanEmitter) -> None:
        match command:
            case StartPhase():
                span.emit(PhaseStarted)
            case QueueReview():
                self._queued_at[phase] = self._stream.offset_s()
            case ReviewPhase():
                self._review(phase, span)
            case CancelReview():
                self._node_tasks.cancel(phase)
            case RetryPhase(_, tasks):
                self._retry_phase(phase, tasks, span)
            case EndRounds():
                self._end_rounds(phase)
            case EndPhase(_, status, is_cancelled, reason):
                is_kept = phase in self._kept
                span.emit(PhaseEnded, status=status, is_cancelled=is_cancelled, is_kept=is_kept, reason=reason)
            case SkipPhase(_, reason):
                span.emit(PhaseSkipped, reason=reason)
                self._result.skipped.append(Skipped(name=phase.name, kind="phase", reason=reason))

    def _start_task(self, node: TaskNode) -> None:
        span, planned = self._spans.tasks[node.index], self._spec.plan.tasks[node.index]
        emit_task_started(
            span,
            agent=planned.agent,
            description=planned.description,
            queued_s=self._take_queued_s(node),
            index=node.index,
            total=len(self._graph.tasks),
        )
        self._node_tasks.start(node, self._work_on_task, self._settle_task)

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
        if not ending.is_completed:
            if ending.error is None:
                self._note_skipped(node, ending.reason)
            else:
                self._note_failed(node, ending)
        if ending.output is not None and ending.is_completed and self._conditions.has_conditions(node.index):
            # Its span stays open meanwhile: a predicate may begin a run, which has its place there (E52).
            output = ending.output
            self._node_tasks.start(
                node,
                lambda node: self._decide_conditions(node, output, span),
                functools.partial(self._end_conditions, ending),
            )
            return
        emit_task_ended(span, node.role, ending)
        if not ending.is_completed:
            self._advance(
                RunningTaskSkipped(node.index, has_worked=ending.has_worked)
                if ending.error is None
                else TaskEndedWithoutOutput(node.index)
            )
        else:
            self._advance(TaskSucceeded(node.index))

    def _decide_conditions(
        self, node: TaskNode, output: TaskOutput, span: SpanEmitter
    ) -> Coroutine[Any, Any, frozenset[int]]:
        set_context(functools.partial(self._runner.make_context, node, span))
        return self._conditions.evaluate(node.index, output, span)

    def _end_conditions(
        self, ending: TaskEnding, node: TaskNode, met: frozenset[int] | None, error: BaseException | None
    ) -> None:
        """The conditions on the output of a task are decided, unless the run was stopped meanwhile."""
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        emit_task_ended(self._spans.tasks[node.index], node.role, ending)
        self._advance(TaskSucceeded(node.index, met or frozenset(), self._conditions.find_broken(node.index)))

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
            self._close(ExitReason.BUDGET_EXCEEDED, ending.abandonment.shortfall or None)

    def _review(self, phase: PhaseNode, span: SpanEmitter) -> None:
        names = [self._graph.tasks[index].name for index in phase.tasks]
        queued_s = self._take_queued_s(phase)
        self._node_tasks.start(
            phase, lambda phase: self._reviewer.review(phase, names, queued_s, span), self._end_review
        )

    def _end_review(self, phase: PhaseNode, decision: ReviewDecision | None, error: BaseException | None) -> None:
        """A phase has been reviewed. Who left the run has closed it by now, and is content with the phase."""
        if isinstance(error, asyncio.CancelledError):
            self._advance(PhaseReviewAborted(phase.index))
        elif error is not None:
            ending = TaskEnding.from_error(error)
            self._close_if_budget_is_used_up(ending)
            if ending.abandonment is not None:
                self._advance(PhaseReviewAborted(phase.index))
                return
            self._reject(phase, ending.error or error)
        elif decision is not None and decision.verdict is Verdict.RETRY:
            self._send_back(phase, decision)
        else:
            if decision is not None and decision.verdict is Verdict.APPROVE:
                self._runner.reuse.keep_approved(phase, self._resolver.find_outputs(phase.tasks))
            self._advance(PhaseApproved(phase.index))

    def _send_back(self, phase: PhaseNode, decision: ReviewDecision) -> None:
        """A review wants a phase to be done once more, if it has a retry left."""
        review = phase.phase.review
        assert review is not None
        if self._resolver.count_attempts(phase) <= review.max_retries:
            self._decisions[phase] = decision
            by_name = {self._graph.tasks[index].name: index for index in phase.tasks}
            tasks = frozenset(by_name[name] for name, _ in decision.addressed)
            self._advance(PhaseSentBack(phase.index, tasks or None))
            return
        reason = decision.text.strip() or NO_REASON
        message = f"Phase {phase.name!r} was sent back by its review and has no retry left"
        if review.on_exhausted is OnExhausted.FAIL:
            self._reject(phase, ReviewRejectedError(f"{message}: {reason}", reason=reason))
            return
        self._keep(phase, f"{message}; its last outputs are kept: {reason}")
        self._advance(PhaseApproved(phase.index))

    def _keep(self, phase: PhaseNode, message: str) -> None:
        self._spans.phases[phase.index].emit(Warned, message=message)
        self._result.is_doubtful = True
        self._kept.add(phase)

    def _reject(self, phase: PhaseNode, error: BaseException) -> None:
        role = "Reviewer" if phase.reviewer is None else phase.reviewer.role
        self._result.failures.append(Failure(name=phase.name, agent_role=role, error=error, kind="phase"))
        self._advance(PhaseRejected(phase.index))

    def _retry_phase(self, phase: PhaseNode, tasks: Sequence[int], span: SpanEmitter) -> None:
        """These tasks of a phase are done once more, as its review wants, or in another round."""
        decision = self._decisions.pop(phase, None)
        if decision is None:
            feedback = f"until {describe_conditions(phase.until, self._graph)}"
            self._resolver.begin_round(phase, feedback)
        else:
            feedback = decision.text
            self._resolver.send_back(phase, tasks, decision)
        names = {index: self._graph.tasks[index].name for index in tasks}
        self._result.forget(names)
        attempt = self._resolver.count_attempts(phase)
        span.emit(PhaseRetried, attempt=attempt, feedback=feedback, tasks=tuple(names.values()))

    def _end_rounds(self, phase: PhaseNode) -> None:
        """A phase is not done again although its condition does not hold, or can't be told."""
        error = self._conditions.find_fault(phase.until)
        until, rounds = describe_conditions(phase.until, self._graph), pluralize(phase.phase.max_rounds or 1, "round")
        message = f"Phase {phase.name!r} has had {rounds}, its max_rounds, and {until} does not hold"
        if error is None and phase.phase.on_exhausted is OnExhausted.KEEP:
            self._keep(phase, f"{message}; its last outputs are kept.")
            return
        error = error or EnsembleError(f"{message}. Raise max_rounds, or set on_exhausted to keep its last outputs.")
        role = self._graph.tasks[self._graph.conditions[phase.until[0]].source].role
        self._result.failures.append(Failure(name=phase.name, agent_role=role, error=error, kind="phase"))

    def leave_uncancelled(self) -> None:
        """What ignored its cancellation is left to itself, so that a second interrupt is never needed."""
        for node in self._node_tasks.detach():
            what = "Task" if isinstance(node, TaskNode) else "The review of phase"
            message = f"{what} {node.name!r} ignored its cancellation and is left to itself."
            self._spans.warn(message)
            if isinstance(node, PhaseNode):
                self._advance(PhaseReviewAborted(node.index))
            elif (output := self._result.outputs.get(node.index)) is not None:  # its conditions were being tested
                ending = TaskEnding(output=output, duration=output.duration)
                emit_task_ended(self._spans.tasks[node.index], node.role, ending)
                self._advance(TaskSucceeded(node.index))
            else:
                span, ending = self._spans.tasks[node.index], TaskEnding(error=asyncio.CancelledError())
                stop_timer(span, ending)
                self._note_failed(node, ending)
                emit_task_ended(span, node.role, ending)
                self._advance(TaskEndedWithoutOutput(node.index))


# Knows nothing of what follows from it: which tasks and phases run is the scheduler's business.


class ConditionEvaluator:
    """All conditions of one run, and what is known of them so far."""

    def __init__(self, graph: Graph, caller: FunctionCaller) -> None:
        self._graph = graph
        self._caller = caller
        self._by_source: dict[int, list[ConditionNode]] = {}
        for node in graph.conditions:
            self._by_source.setdefault(node.source, []).append(node)
        self._held: set[int] = set()
        self._faults: dict[int, Exception] = {}

    def has_conditions(self, source: int) -> bool:
        """Whether there is any condition on a task."""
        return source in self._by_source

    async def evaluate(self, source: int, output: TaskOutput, span: SpanEmitter) -> frozenset[int]:
        """Numbers of the conditions on a task for which its output is as wanted; replaces what was known of them.

        A default is, where no other condition on the task is. One whose predicate raises can't be decided: it counts
        as held, so that what it guards is neither silently skipped nor silently run; see `find_fault`.

        Args:
            source: number of the task.
            output: what it left.
            span: of the task; runs that a predicate begins are inside it.
        """
        siblings = self._by_source[source]
        for node in siblings:
            self._held.discard(node.index)
            self._faults.pop(node.index, None)
        with CallingSpan(span):
            for node in siblings:
                await self._test(node, output)
        decided = {node.index for node in siblings if node.index in self._held or node.index in self._faults}
        if not decided:
            decided = {node.index for node in siblings if node.condition.default}
            self._held |= decided
        return frozenset(decided)

    def find_broken(self, source: int) -> frozenset[int]:
        """Numbers of the conditions on a task that can't be decided, since their test broke."""
        return frozenset(node.index for node in self._by_source[source] if node.index in self._faults)

    def find_fault(self, numbers: Iterable[int]) -> EnsembleError | None:
        """Why it can't be told whether one of these conditions holds; None where one does, or it can."""
        if not self._faults:
            return None
        faulty = [number for number in numbers if number in self._faults]
        if not faulty or any(number in self._held for number in numbers):
            return None
        node, cause = self._graph.conditions[faulty[0]], self._faults[faulty[0]]
        name = self._graph.tasks[node.source].name
        error = EnsembleError(f"The condition on {name!r} ({node.condition.test}) broke: {summarize_error(cause)}")
        error.__cause__ = cause
        return error

    async def _test(self, node: ConditionNode, output: TaskOutput) -> None:
        condition = node.condition
        try:
            test: Callable[..., Any] = condition.is_met_by
            value: Any = output.raw
            if condition.predicate is not None:
                test, value = condition.predicate, output
            elif condition.field is not None:
                test, value = condition.is_met_by_value, self._read_field(node, condition.field, output)
            # A search may take its time, too (E67): the loop is for others meanwhile.
            is_slow = condition.predicate is not None or condition.matches is not None
            is_met = bool(
                await self._caller.call(f"condition on {output.name}", test, value) if is_slow else test(value)
            )
        except Exception as error:  # noqa: BLE001 - it is the user's own function
            self._faults[node.index] = error
        else:
            if is_met:
                self._held.add(node.index)

    def _read_field(self, node: ConditionNode, path: str, output: TaskOutput) -> Any:
        """The value at a path of a typed output; None where its output type lets it be missing.

        Raises:
            EnsembleError: there is no such value, and no output type that would say why.
        """
        try:
            return read_field(output.parsed_output, path)
        except LookupError as error:
            if self._graph.tasks[node.source].task.output_type is not None:
                return None
            raise EnsembleError(
                f"{error} Give the task an output_type, and the condition is checked before a run."
            ) from None
