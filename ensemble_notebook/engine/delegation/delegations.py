"""Delegation at work: from the tool call of an agent to the answer of another one (E23, E24).

Every attempt that names a role and a task has one request and one response, refusals included. What a refusal or a
failed worker means is the delegator's to decide: it gets a text. Knows nothing of managers; one is a `Delegator`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import DelegationContext, DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import DelegationStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.hierarchy import DELEGATE, same_role
from ensemble_notebook.domain.events import DelegationCompleted, DelegationFailed, DelegationStarted
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.derived_agent import role_slug
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.toolbox import NativeTool, ToolAnswer
from ensemble_notebook.engine.delegation.delegated_task import DelegatedTask, run_delegated
from ensemble_notebook.engine.delegation.delegation_policies import DelegationRefused, apply_policy
from ensemble_notebook.engine.delegation.team_members import TeamMembers, quote_roles
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.review.task_gates import TaskGates
from ensemble_notebook.engine.specs.resolved_task import abandonment_in
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import message_of, one_line

_FIELDS: Final = {
    "agent_role": "Role of the agent that is to do it.",
    "task_description": "What is to be done, with all that the agent has to know; it sees nothing else.",
}


class Delegator(Protocol):
    """Who delegates: an agent to its peers, or the manager to its workers.

    Attributes:
        role: its own.
        tool: name of the tool by which it asks.
        depth: of what it asks for, from 1.
        work_prefix: begins the names of the work that it asks for.
    """

    @property
    def role(self) -> str: ...

    @property
    def tool(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def work_prefix(self) -> str: ...

    def available(self) -> tuple[str, ...]:
        """Whom it can ask."""

    def objection(self, role: str) -> str | None:
        """Why it may not ask this one now; None where it may."""

    def approved(self, role: str) -> None:
        """It has asked this one, and the work begins."""

    def completed(self, output: TaskOutput) -> None:
        """The work is done."""


class Peer:
    """An agent that may ask the others of its team."""

    tool: Final = DELEGATE

    def __init__(self, role: str, work: str, depth: int, max_depth: int, team: TeamMembers) -> None:
        self.role = role
        self.depth = depth
        self.work_prefix = f"{work}."
        self._max_depth = max_depth
        self._team = team

    def available(self) -> tuple[str, ...]:
        return self._team.roles(besides=self.role)

    def objection(self, role: str) -> str | None:
        if self.depth > self._max_depth:
            return f"The delegation depth limit of {self._max_depth} is reached; do the work yourself"
        if same_role(role) == same_role(self.role):
            return f"Agent {self.role!r} can't delegate to itself. Available: {quote_roles(self.available())}"
        return self._team.objection(role, asked_by=self.role)

    def approved(self, role: str) -> None:
        """Nothing is counted."""

    def completed(self, output: TaskOutput) -> None:
        """Nothing is kept: it is part of the delegator's own work."""


class Delegations:
    """All delegations of one run.

    Requests are admitted one at a time, in the order in which they were made, so that what guards, constraints and
    policies count is what they see; the work itself goes on side by side.
    """

    def __init__(
        self,
        spec: RunSpec,
        team: TeamMembers,
        agent_runner: AgentRunner,
        gates: TaskGates,
        caller: FunctionCaller,
        clock: Clock,
    ) -> None:
        self.policies = spec.delegation_policies
        self.max_depth = spec.max_delegation_depth
        self.team = team
        self.agent_runner = agent_runner
        self.gates = gates
        self.caller = caller
        self.clock = clock
        self.admission = asyncio.Lock()
        self._planned = frozenset(task.name for task in spec.plan.tasks)
        self._numbers: Counter[str] = Counter()

    def tools(self, node: TaskNode, agent: Agent, work: str, depth: int = 1) -> tuple[NativeTool, ...]:
        """The tool of an agent that may delegate to its peers.

        Args:
            node: the task of the plan that it works on, or works for.
            agent: who.
            work: name of what it works on, be that delegated.
            depth: of what it asks for.
        """
        if not agent.allow_delegation:
            return ()
        return (self.tool(Peer(agent.role, work, depth, self.max_depth, self.team), node),)

    def tool(self, delegator: Delegator, node: TaskNode) -> NativeTool:
        """The tool by which a delegator asks."""
        spec = ToolSpec(
            name=delegator.tool,
            description=f"Have another agent do a piece of work, and get its result. Agents: "
            f"{quote_roles(delegator.available())}.",
            parameters={
                "type": "object",
                "properties": {name: {"type": "string", "description": text} for name, text in _FIELDS.items()},
                "required": list(_FIELDS),
            },
        )

        async def answer(arguments: dict[str, Any], span: SpanEmitter) -> ToolAnswer:
            role, description = (_text(arguments, name) for name in _FIELDS)
            if not role or not description:
                text = f"Error: {delegator.tool} needs an agent_role and a task_description, and neither may be blank."
                return ToolAnswer(text, ToolOutcome.FAILURE)
            request = DelegationRequest(agent_role=self.team.canonical(role), task_description=description)
            return await _Attempt(self, delegator, node, request, span.child()).run()

        return NativeTool(spec, answer)

    def name(self, delegator: Delegator, role: str) -> str:
        """A name for work, which no task of the plan and no other work has."""
        stem = f"{delegator.work_prefix}{role_slug(role)}"
        while True:
            self._numbers[stem] += 1
            name = f"{stem}_{self._numbers[stem]}"
            if name not in self._planned:
                return name


class _Attempt:
    """One delegation, from the request to the response."""

    def __init__(
        self, desk: Delegations, delegator: Delegator, node: TaskNode, request: DelegationRequest, span: SpanEmitter
    ) -> None:
        self._desk = desk
        self._delegator = delegator
        self._node = node
        self._request = request
        self._span = span
        self._started = desk.clock.monotonic()

    async def run(self) -> ToolAnswer:
        """What the delegator is told.

        Raises:
            TaskAbandoned, BudgetExceededError, asyncio.CancelledError: the whole task is not to go on.
        """
        delegator = self._delegator
        self._span.emit(DelegationStarted, delegator=delegator.role, depth=delegator.depth, request=self._request)
        try:
            await self._admit()
            output = await self._work()
        except asyncio.CancelledError as stopped:
            self._fail("It was cancelled", SpanStatus.CANCELLED, stopped)
            raise
        except DelegationRefused as refusal:
            return self._fail(refusal.reason, SpanStatus.ERROR, refusal.error)
        except Exception as error:
            drop = abandonment_in(error)
            if drop is not None:
                self._fail(message_of(drop), SpanStatus.CANCELLED, drop)
                raise
            reason = f"Agent {self._request.agent_role!r} failed: {one_line(error)}"
            return self._fail(reason, SpanStatus.ERROR, error)
        return self._complete(output)

    async def _admit(self) -> None:
        """Let guards and policies look at the request, which may be another one afterwards.

        Raises:
            DelegationRefused: one of them is against it.
        """
        desk, delegator = self._desk, self._delegator
        context = DelegationContext(
            caller_role=delegator.role,
            depth=delegator.depth,
            max_depth=desk.max_depth,
            available_roles=delegator.available(),
        )
        async with desk.admission:
            self._guard()
            for policy in desk.policies:
                changed = await apply_policy(policy, self._request, context, desk.caller)
                if changed is not self._request:
                    role = desk.team.canonical(changed.agent_role)
                    self._request = replace(changed, task_id=self._request.task_id, agent_role=role)
                    self._guard()
            delegator.approved(self._request.agent_role)

    def _guard(self) -> None:
        request = self._request
        if not request.agent_role or not request.task_description.strip():
            raise DelegationRefused("A policy left no agent or no task in the request")
        if (objection := self._delegator.objection(request.agent_role)) is not None:
            raise DelegationRefused(objection)

    async def _work(self) -> TaskOutput:
        desk, node, request = self._desk, self._node, self._request
        member = desk.team.member(request.agent_role)
        agent = member.agent
        name, depth = desk.name(self._delegator, agent.role), self._delegator.depth + 1
        natives = (*desk.gates.tools(node, agent, agent.tools), *desk.tools(node, agent, name, depth))
        delegated = DelegatedTask(
            name=name,
            member=member,
            request=request,
            natives=natives,
            rate_limits=() if node.task.rate_limit is None else (node.task.rate_limit,),
            approve=desk.gates.approval(node, agent),
        )
        return await run_delegated(delegated, desk.agent_runner, desk.clock, self._span)

    def _complete(self, output: TaskOutput) -> ToolAnswer:
        status = DelegationStatus.SUCCESS if output.raw.strip() else DelegationStatus.PARTIAL
        response = self._response(status, raw_output=output.raw, parsed_output=output.parsed_output)
        self._span.emit(DelegationCompleted, request=self._request, response=response, output=output)
        self._delegator.completed(output)
        return ToolAnswer(output.raw or f"Agent {output.agent_role!r} gave an empty answer.", ToolOutcome.SUCCESS)

    def _fail(self, reason: str, status: SpanStatus, error: BaseException | None) -> ToolAnswer:
        response = self._response(DelegationStatus.FAILURE, errors=(reason,))
        self._span.emit(DelegationFailed, request=self._request, response=response, status=status, error=error)
        return ToolAnswer(f"Error: {reason}", ToolOutcome.FAILURE)

    def _response(self, status: DelegationStatus, **facts: Any) -> DelegationResponse:
        request = self._request
        return DelegationResponse(
            task_id=request.task_id,
            status=status,
            worker_role=request.agent_role,
            metadata=request.metadata,
            duration=timedelta(seconds=self._desk.clock.monotonic() - self._started),
            **facts,
        )


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return "" if value is None else str(value).strip()
