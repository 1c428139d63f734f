"""The tools by which agents delegate (E23, E24), and all that the delegations of one run share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import DELEGATION_PARAMETERS, DelegationRequest
from ensemble_notebook.domain.definitions.enums import DelegationPriority, ToolOutcome
from ensemble_notebook.domain.planning.graph import TaskNode, make_role_slug
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolSpec
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.toolbox import EngineTool
from ensemble_notebook.engine.delegation.delegation_call import DelegatedTask, DelegationCall, DelegationServices
from ensemble_notebook.engine.delegation.team_members import Delegator, PeerDelegator, TeamMembers, quote_roles
from ensemble_notebook.engine.events.event_stream import BrokenCallables, Clock, SpanEmitter
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.engine.task_gates import TaskGates


class DelegationTools:
    """Makes the delegation tools of all agents of one run."""

    def __init__(
        self,
        spec: RunSpec,
        team: TeamMembers,
        agent_runner: AgentRunner,
        gates: TaskGates,
        caller: FunctionCaller,
        clock: Clock,
        broken_callables: BrokenCallables,
    ) -> None:
        self._services = DelegationServices(
            policies=spec.delegation_policies,
            max_depth=spec.max_delegation_depth,
            team=team,
            agent_runner=agent_runner,
            caller=caller,
            clock=clock,
            broken_callables=broken_callables,
            admission=asyncio.Lock(),
        )
        self._gates = gates
        self._planned = frozenset(task.name for task in spec.plan.tasks)
        self._numbers: Counter[str] = Counter()

    def make_tools(self, node: TaskNode, agent: Agent, work: str, depth: int = 1) -> tuple[EngineTool, ...]:
        """The tool of an agent that may delegate to its peers; none for others.

        Args:
            node: the task of the plan that it works on, or works for.
            agent: who.
            work: name of what it works on, be that delegated.
            depth: of what it asks for.
        """
        if not agent.allow_delegation:
            return ()
        services = self._services
        return (self.make_tool(PeerDelegator(agent.role, work, depth, services.max_depth, services.team), node),)

    def make_tool(self, delegator: Delegator, node: TaskNode) -> EngineTool:
        """The tool by which a delegator asks."""
        spec = ToolSpec(
            name=delegator.tool,
            description=f"Have another agent do a piece of work, and get its result. Agents: "
            f"{quote_roles(delegator.list_roles())}.",
            parameters=DELEGATION_PARAMETERS,
        )

        async def answer(arguments: dict[str, Any], span: SpanEmitter) -> ToolAnswer:
            try:
                request = self._read_request(arguments)
            except ValueError as fault:
                return ToolAnswer(f"Error: {delegator.tool} {fault}", ToolOutcome.FAILURE)

            def make_task(approved: DelegationRequest) -> DelegatedTask:
                return self._make_task(delegator, node, approved)

            return await DelegationCall(self._services, delegator, request, span.child(), make_task).run()

        return EngineTool(spec, answer)

    def _read_request(self, arguments: Mapping[str, Any]) -> DelegationRequest:
        """What an agent asks for.

        Raises:
            ValueError: it can't be understood; says what the tool takes.
        """
        role, description = _read_text(arguments, "agent_role"), _read_text(arguments, "task_description")
        if not role or not description:
            raise ValueError("needs an agent_role and a task_description, and neither may be blank.")
        return DelegationRequest(
            agent_role=self._services.team.spell_role(role),
            task_description=description,
            scope=_read_scope(arguments.get("scope")),
            priority=_read_priority(_read_text(arguments, "priority")),
        )

    def _make_task(self, delegator: Delegator, node: TaskNode, request: DelegationRequest) -> DelegatedTask:
        """The work of an approved request. It stands under the gates and limits of the task that it is part of."""
        member = self._services.team.get_member(request.agent_role)
        agent = member.agent
        name = self._make_name(delegator, member.declared_role)
        return DelegatedTask(
            name=name,
            member=member,
            request=request,
            engine_tools=(
                *self._gates.make_tools(node, agent, agent.tools),
                *self.make_tools(node, agent, name, delegator.depth + 1),
            ),
            rate_limits=() if node.task.rate_limit is None else (node.task.rate_limit,),
            approve=self._gates.make_tool_gate(node, agent),
        )

    def _make_name(self, delegator: Delegator, role: str) -> str:
        """A name for work, which no task of the plan and no other work has."""
        stem = f"{delegator.work_prefix}{make_role_slug(role)}"
        while True:
            self._numbers[stem] += 1
            name = f"{stem}_{self._numbers[stem]}"
            if name not in self._planned:
                return name


def _read_text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return "" if value is None else str(value).strip()


def _read_scope(value: Any) -> dict[str, Any]:
    """The facts beside a task; models write objects as JSON texts, too."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = read_json(value)
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"takes as scope an object with names and values, got {type(value).__name__}.")
    return {str(name): each for name, each in value.items()}


def _read_priority(text: str) -> DelegationPriority:
    try:
        return DelegationPriority(text.lower() or DelegationPriority.NORMAL)
    except ValueError:
        raise ValueError(f"takes as priority one of {', '.join(DelegationPriority)}, got {text!r}.") from None
