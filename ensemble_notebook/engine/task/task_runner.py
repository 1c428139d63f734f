"""Works on one task, from what it is given to its output (E1, E2, E18, E31, E38, E44, E45, E51).

The order of things: memory is read, a gate before, input guardrails; then attempts: the work, by handler or agent,
output guardrails, which may send it back, the same by the fallback where that came to nothing, a gate after, which may
ask for one more attempt; at last memory is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import TaskFellBack, Warned
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.prepared_models import PreparedModels
from ensemble_notebook.engine.agent.prompts import warn_of_long_context
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.delegation.delegation_tools import DelegationTools
from ensemble_notebook.engine.delegation.manager import Manager
from ensemble_notebook.engine.delegation.team_members import TeamMembers
from ensemble_notebook.engine.events.broken_callables import BrokenCallables
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.lifecycle.task_abandonment import PreviousOutputKept, TaskAbandoned
from ensemble_notebook.engine.limits.budget_account import open_account
from ensemble_notebook.engine.limits.parent_run import ParentRun
from ensemble_notebook.engine.limits.request_limits import RequestLimits
from ensemble_notebook.engine.limits.send_gate import SendGate
from ensemble_notebook.engine.review.review_queue import ReviewQueue
from ensemble_notebook.engine.review.task_gates import TaskGates
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.specs.revision import Revision
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.task.guardrails import GuardrailKind, run_guardrails
from ensemble_notebook.engine.task.handler_runner import run_handler
from ensemble_notebook.engine.task.task_memory import TaskMemory
from ensemble_notebook.engine.task.task_request_builder import TaskRequestBuilder
from ensemble_notebook.engine.task.task_work import NO_MEMORY, TaskWork
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import BudgetExceededError, FallbackFailedError, GuardrailViolationError, ReplayError


class TaskRunner:
    """Runs the tasks of one run.

    Args:
        spec: the run.
        source: where models come from.
        caller: calls handlers, guardrails and all else that is not ours.
        clock: tells durations.
        draw: gives a random number from 0 to 1, for the waits between attempts (E30).
        run: the span of the run.
        exit_early: called when a person chose to leave (E27).
        parent: the run in whose task this one was begun; None where it was begun in none (E52).

    Attributes:
        as_parent: what the run is for those that are begun inside its tasks (E52).
        review_queue: where all reviews of the run are asked for, those of phases too.
        revisions: of the tasks that are not at their first attempt, the latest (E46).
    """

    def __init__(
        self,
        spec: RunSpec,
        source: ChatSource,
        caller: FunctionCaller,
        clock: Clock,
        draw: Callable[[], float],
        run: SpanEmitter,
        *,
        exit_early: Callable[[], None],
        parent: ParentRun | None = None,
    ) -> None:
        self._inputs = MappingProxyType(dict(spec.inputs))
        self._caller = caller
        self._draw = draw
        self.revisions: dict[TaskNode, Revision] = {}
        self._models = PreparedModels(source, run)
        self._gate = SendGate()
        self.as_parent = _make_parent(spec, parent, source)
        limits = RequestLimits(self.as_parent.accounts, self.as_parent.rate_limits, spec.pricing, clock, self._gate)
        self._agent_runner = AgentRunner(self._models, caller, limits, streams=spec.streams, draw=draw)
        self._broken_callables = BrokenCallables()
        self._memory = TaskMemory(spec.memory, caller, self._broken_callables)
        self.review_queue = ReviewQueue(spec.review_handler, caller, exit_early)
        self._gates = TaskGates(self.review_queue, spec.review_policy)
        team = TeamMembers(spec.graph.team)
        delegation_tools = DelegationTools(
            spec, team, self._agent_runner, self._gates, caller, clock, self._broken_callables
        )
        self._manager = Manager(spec, team) if spec.graph.managed else None
        self._requests = TaskRequestBuilder(self._inputs, self._gates, delegation_tools, self._manager, caller)

    def stop_requests(self) -> None:
        """Let no agent send anything any more, whatever its tools do with their cancellation (E66, E52)."""
        self._gate.close()
        self.as_parent.stop_nested()

    def close(self) -> None:
        """Release what is still being made ready: the run is over."""
        self._gate.close()
        self.as_parent.end()
        self._models.close()

    @property
    def delegated(self) -> Sequence[TaskOutput]:
        """What was delegated by the manager, where there is one, and completed by now, in that order (E22)."""
        return () if self._manager is None else self._manager.delegated

    async def run(self, resolved: ResolvedTask, span: SpanEmitter) -> TaskOutput:
        """The output of a task.

        Raises:
            TaskAbandoned: a person ended the run before this task was done.
            PreviousOutputKept: the same, or the budget, while it was being redone; with the output that it had before.
            BudgetExceededError: a model request did not fit into the budget.
            Exception: whatever ended it; a model's failure as `AgentExecutionError`, a handler's as it was raised.
        """
        task = resolved.node.task
        work = await self._begin(resolved, span)
        output, feedback = await self._attempt(work)
        while feedback is not None:
            work.send_back("review", feedback, output.raw)
            work.deadline.renew()
            try:
                output, feedback = await self._attempt(work)
            except (TaskAbandoned, BudgetExceededError) as stop:
                raise PreviousOutputKept(output) from stop
        if task.memory:
            await self._memory.write(task.memory, output, span, task.timeout)
        return output

    async def _begin(self, resolved: ResolvedTask, span: SpanEmitter) -> TaskWork:
        """All that comes before the first attempt."""
        task, memory = resolved.node.task, NO_MEMORY
        if task.memory:
            memory = await self._memory.read(task.memory, resolved.description, span, task.timeout)
        if self._gates.is_open:
            resolved = await self._gates.ask_before(resolved, span)
        work = TaskWork(resolved, memory, span, self.revisions)
        if task.input_guardrails:
            await self._run_guardrails(work, "input", work.make_input(self._inputs))
        return work

    async def _attempt(self, work: TaskWork) -> tuple[TaskOutput, str | None]:
        """One attempt: its output, and the feedback with which a review wants it to be redone, or None."""
        fallback = work.node.fallback
        try:
            output = await self._produce_guarded(work)
        except (TaskAbandoned, BudgetExceededError):
            raise
        except Exception as error:
            if fallback is None or isinstance(error.__cause__, ReplayError):  # a recording is no server that fails
                raise
            output = await self._fall_back(work, fallback, error)
        return await self._ask_after(work, output) if self._gates.is_open else (output, None)

    async def _produce_guarded(self, work: TaskWork) -> TaskOutput:
        """What the task's own agent or handler makes; guardrails may send it back to the agent so often (E51)."""
        node = work.node
        for retries_left in range(node.task.max_guardrail_retries, -1, -1):
            output = await self._produce(work, node.agent, node.llm)
            try:
                await self._run_guardrails(work, "output", output)
            except GuardrailViolationError as objection:
                if not retries_left:
                    raise
                work.send_back("guardrail", objection.message, output.raw)
            else:
                return output
        raise AssertionError("unreachable")

    async def _fall_back(self, work: TaskWork, fallback: Agent, first: Exception) -> TaskOutput:
        """What the fallback makes, once the task's own worker has finally failed with `first` (E31).

        Raises:
            FallbackFailedError: the fallback failed, too.
        """
        work.span.emit(TaskFellBack, agent=fallback.role, error=first, replaced=work.node.role)
        work.deadline.renew()
        try:
            output = await self._produce(work, fallback, work.node.fallback_llm, is_fallback=True)
            await self._run_guardrails(work, "output", output)
        except (TaskAbandoned, BudgetExceededError):
            raise
        except Exception as error:
            raise FallbackFailedError(work.node.role, first, fallback.role, error) from error
        return output

    async def _produce(self, work: TaskWork, agent: Agent | None, llm: Any, *, is_fallback: bool = False) -> TaskOutput:
        result = await self._work_in_time(work, agent, llm, is_fallback=is_fallback)
        name, description = work.node.name, work.resolved.description
        return result.to_output(name, description, work.span, tool_call_count=work.tool_call_count)

    async def _run_guardrails(self, work: TaskWork, kind: GuardrailKind, subject: TaskInput | TaskOutput) -> None:
        task = work.node.task
        if guardrails := task.input_guardrails if kind == "input" else task.output_guardrails:
            checks = run_guardrails(kind, guardrails, subject, self._caller, work.span, self._broken_callables)
            await work.deadline.limit(checks, f"its {kind} guardrails")

    async def _ask_after(self, work: TaskWork, output: TaskOutput) -> tuple[TaskOutput, str | None]:
        """The output that the reviewer leaves, and the feedback with which it is to be redone, or None."""
        task = work.node.task
        reviewed, feedback = await self._gates.ask_after(work.resolved, output, work.span)
        if reviewed is not output:  # what a person wrote is the output now, and no table or the like that was there
            output_format = None if task.output_type is None else get_output_format(task.output_type)
            value = None if output_format is None else output_format.read_or_fail(reviewed.raw)
            reviewed = dataclasses.replace(reviewed, parsed_output=value)
        return reviewed, feedback

    async def _work_in_time(self, work: TaskWork, agent: Agent | None, llm: Any, *, is_fallback: bool) -> WorkResult:
        if agent is None:
            return await work.deadline.limit(run_handler(work, self._inputs, self._caller, self._draw), "its handler")
        # Getting a model ready (imports, weights) happens once for all, so it is on no task's clock.
        port = await self._models.get(llm, agent, work.resolved.description, work.span)
        return await work.deadline.limit(self._run_agent(work, agent, port, is_fallback=is_fallback), "nothing yet")

    async def _run_agent(self, work: TaskWork, agent: Agent, port: ChatPort, *, is_fallback: bool) -> WorkResult:
        request = await self._requests.build(work, agent, is_fallback=is_fallback)
        for message in warn_of_long_context(work.resolved.context):
            work.span.emit(Warned, message=message)
        result = await self._agent_runner.run(request, port, work.span, work.watch)
        if self._manager is not None:
            self._manager.check_constraints()
        return result


def _make_parent(spec: RunSpec, parent: ParentRun | None, source: ChatSource) -> ParentRun:
    """What holds for the runs inside: the limits of this run and of those around it, the outermost first."""
    accounts = () if parent is None else parent.accounts
    own = () if spec.budget is None else (open_account(spec.budget),)
    rate_limits = () if spec.rate_limit is None else (spec.rate_limit,)
    return ParentRun(
        (*accounts, *(each for each in own if each not in accounts)),
        (*(() if parent is None else parent.rate_limits), *rate_limits),
        source=source,
        capture_mode=spec.capture_mode,
        replayed_from=spec.replayed_from,
    )
