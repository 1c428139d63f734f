"""Has agents work on the tasks of a run: models that are made ready, prompts, tools, delegation (E1, E22, E23)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.events import Warned
from ensemble_notebook.domain.outputs.chat_message import Messages
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.prepared_models import PreparedModels
from ensemble_notebook.engine.agent.prompts import warn_of_long_context
from ensemble_notebook.engine.delegation.delegation_tools import DelegationTools
from ensemble_notebook.engine.delegation.manager import Manager
from ensemble_notebook.engine.delegation.team_members import TeamMembers
from ensemble_notebook.engine.events.broken_callables import BrokenCallables
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.limits.request_limits import RequestLimits
from ensemble_notebook.engine.review.task_gates import TaskGates
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.task.task_request_builder import TaskRequestBuilder
from ensemble_notebook.engine.task.task_work import MemoryEntries, TaskWork
from ensemble_notebook.engine.threads.function_caller import FunctionCaller


class TaskAgents:
    """The agents of one run. A run of handlers has none, so this is made for the first agent.

    Args:
        spec: the run.
        inputs: of the run.
        source: where models come from.
        limits: of all model requests of the run.
        caller: calls tools, policies and the user's manager prompt.
        clock: tells durations.
        draw: gives a random number from 0 to 1, for the waits between requests (E30).
        run: the span of the run.
        gates: approve tool calls.
        broken_callables: of the run.

    Attributes:
        manager: of a hierarchical run; else None.
    """

    def __init__(
        self,
        spec: RunSpec,
        inputs: Mapping[str, Any],
        source: ChatSource,
        limits: RequestLimits,
        caller: FunctionCaller,
        clock: Clock,
        draw: Callable[[], float],
        run: SpanEmitter,
        gates: TaskGates,
        broken_callables: BrokenCallables,
    ) -> None:
        self._models = PreparedModels(source, run)
        self._runner = AgentRunner(self._models, caller, limits, streams=spec.streams, draw=draw)
        team = TeamMembers(spec.graph.team)
        delegation_tools = DelegationTools(spec, team, self._runner, gates, caller, clock, broken_callables)
        self.manager = Manager(spec, team) if spec.graph.managed else None
        self._requests = TaskRequestBuilder(inputs, spec.conversations, gates, delegation_tools, self.manager, caller)

    def close(self) -> None:
        """Release what is still being made ready: the run is over."""
        self._models.close()

    def make_messages(self, resolved: ResolvedTask, memory: MemoryEntries, reply: str) -> Messages:
        """The conversation of a task that an earlier run has done, as this run would have had it."""
        return self._requests.make_messages(resolved, memory, reply)

    async def run(self, work: TaskWork, agent: Agent, llm: Any, *, is_fallback: bool) -> WorkResult:
        """Have an agent do a task, in the time that this has.

        Raises:
            DeadlineExceededError: the time is over.
            AgentExecutionError: the model can't be had; or as `AgentRunner.run`.
        """
        # Getting a model ready (imports, weights) happens once for all, so it is on no task's clock.
        port = await self._models.get(llm, agent, work.resolved.description, work.span)
        return await work.deadline.limit(self._run_with(port, work, agent, is_fallback=is_fallback), "nothing yet")

    async def _run_with(self, port: ChatPort, work: TaskWork, agent: Agent, *, is_fallback: bool) -> WorkResult:
        before = None if is_fallback else work.loop_before
        request = await self._requests.build(work, agent, is_fallback=is_fallback, is_going_on=before is not None)
        for message in warn_of_long_context(work.resolved.context):
            work.span.emit(Warned, message=message)
        result = await self._runner.run(request, port, work.span, work.watch, before)
        if self.manager is not None:
            self.manager.check_constraints()
        return result
