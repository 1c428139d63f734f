"""Delegation: the tools by which agents ask for it, and the way of one, from request to response (E23, E24).

Every delegation that names a role and a task has one request and one response, refusals included. What a refusal or a
failure of the delegate means is the delegator's to decide: it gets a text.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import (
    DELEGATE,
    DELEGATION_PARAMETERS,
    DelegationContext,
    DelegationPolicyResult,
    DelegationRequest,
    DelegationResponse,
    PolicyVerdict,
    normalize_role,
)
from ensemble_notebook.domain.definitions.enums import DelegationPriority, DelegationStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.output_type import find_output_type_fault
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT
from ensemble_notebook.domain.events import (
    DelegationCompleted,
    DelegationFailed,
    DelegationStarted,
    TaskInputPrepared,
    Warned,
)
from ensemble_notebook.domain.outputs.conversation import ShortenedHistory
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode, TeamMember, make_role_slug
from ensemble_notebook.domain.planning.managed_work import find_told
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolSpec
from ensemble_notebook.domain.value_text import describe_limited_table, read_json, write_value
from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.prompts import write_system_prompt, write_user_prompt
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import EngineTool
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.engine.task_gates import TaskGates
from ensemble_notebook.engine.task_lifecycle import abandonment_in, run_unplanned_task
from ensemble_notebook.errors import get_message, summarize_error


class TeamMembers:
    """Members by role, in any case; of two with the same role, the first."""

    def __init__(self, members: Sequence[TeamMember]) -> None:
        self._members: dict[str, TeamMember] = {}
        for member in members:
            self._members.setdefault(normalize_role(member.agent.role), member)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """All of them."""
        return tuple(member.agent for member in self._members.values())

    def list_roles(self, besides: str = "") -> tuple[str, ...]:
        """Who is there besides the one of this role."""
        return tuple(each.agent.role for role, each in self._members.items() if role != normalize_role(besides))

    def spell_role(self, role: str) -> str:
        """A role as its agent spells it; trimmed where there is no such agent."""
        member = self._members.get(normalize_role(role))
        return role.strip() if member is None else member.agent.role

    def get_member(self, role: str) -> TeamMember:
        """The member of a role.

        Raises:
            KeyError: there is none.
        """
        return self._members[normalize_role(role)]

    def find_objection(self, role: str, asked_by: str = "") -> str | None:
        """That there is nobody of this role, and who there is; None where there is somebody."""
        if normalize_role(role) in self._members:
            return None
        return f"There is no agent {role!r}. Available: {quote_roles(self.list_roles(asked_by))}"


def quote_roles(roles: Sequence[str]) -> str:
    """Write roles into a sentence."""
    return ", ".join(map(repr, roles)) or "nobody"


@dataclass(eq=False)
class Delegator:
    """Who delegates.

    Attributes:
        role: its own.
        tool: name of the tool by which it asks.
        depth: of what it asks for, from 1.
        work_prefix: begins the names of the work that it asks for.
        team: whom it may ask.
    """

    role: str
    tool: str
    depth: int
    work_prefix: str
    team: TeamMembers

    def list_roles(self) -> tuple[str, ...]:
        """The roles of those whom it can ask."""
        return self.team.list_roles()

    def find_objection(self, role: str) -> str | None:
        """Why it may not ask this one now; None where it may."""
        return self.team.find_objection(role)

    def note_approved(self, role: str) -> None:
        """It has asked this one, and the work begins."""

    def note_refused(self, role: str, reason: str) -> None:
        """What it asked of this one was refused, or has failed."""

    def note_completed(self, output: TaskOutput) -> None:
        """The work is done."""


@dataclass(eq=False)
class PeerDelegator(Delegator):
    """An agent that may ask the others of its team, at most so deep."""

    max_depth: int

    def list_roles(self) -> tuple[str, ...]:
        """All but its own."""
        return self.team.list_roles(besides=self.role)

    def find_objection(self, role: str) -> str | None:
        """As of others; and nobody asks itself, or too deep."""
        if self.depth > self.max_depth:
            return f"The delegation depth limit of {self.max_depth} is reached; do the work yourself"
        if normalize_role(role) == normalize_role(self.role):
            return f"Agent {self.role!r} can't delegate to itself. Available: {quote_roles(self.list_roles())}"
        return self.team.find_objection(role, asked_by=self.role)


class DelegationTools:
    """Makes the delegation tools of all agents of one run.

    Attributes:
        services: of the run.
        team: whom work can be delegated to.
        agent_runner: does the work.
        gates: of the run; delegated work stands under those of the task that it is part of.
        admission: lets one request at a time be looked at, in the order in which they were made, so that what guards,
            constraints and policies count is what they see. The work itself goes on side by side.
    """

    def __init__(self, services: RunServices, team: TeamMembers, agent_runner: AgentRunner, gates: TaskGates) -> None:
        self.services = services
        self.team = team
        self.agent_runner = agent_runner
        self.gates = gates
        self.admission = asyncio.Lock()
        planned = services.spec.plan.tasks
        self._written = [written for task in planned for written in task.managed]
        self._planned = frozenset(task.name for task in (*planned, *self._written))
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
        max_depth = self.services.spec.definition.max_delegation_depth
        return (self.make_tool(PeerDelegator(agent.role, DELEGATE, depth, f"{work}.", self.team, max_depth), node),)

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
            return await DelegationCall(self, delegator, node, request, span.child()).run()

        return EngineTool(spec, answer)

    def _read_request(self, arguments: Mapping[str, Any]) -> DelegationRequest:
        """What an agent asks for.

        Raises:
            ValueError: it can't be understood; says what the tool takes.
        """
        role, description = _read_text(arguments, "agent_role"), _read_text(arguments, "task_description")
        if not role or not description:
            raise ValueError("needs an agent_role and a task_description, and neither may be blank.")
        scope, priority = arguments.get("scope"), _read_text(arguments, "priority")
        if isinstance(scope, str):  # models write objects as JSON texts, too
            with suppress(ValueError):
                scope = read_json(scope)
        if scope and not isinstance(scope, Mapping):
            raise ValueError(f"takes as scope an object with names and values, got {type(scope).__name__}.")
        try:
            known_priority = DelegationPriority(priority.lower() or DelegationPriority.NORMAL)
        except ValueError:
            names = ", ".join(DelegationPriority)
            raise ValueError(f"takes as priority one of {names}, got {priority!r}.") from None
        return DelegationRequest(
            agent_role=self.team.spell_role(role),
            task_description=description,
            scope={str(name): each for name, each in (scope or {}).items()},
            priority=known_priority,
        )

    def make_name(self, delegator: Delegator, role: str, text: str) -> str:
        """A name for work, which no other work has: that of the written task that a manager's text tells of, if any."""
        told = find_told(text, self._written) if delegator.depth == 1 else []
        stem = told[0].name if told else f"{delegator.work_prefix}{make_role_slug(role)}"
        if told and not self._numbers[stem]:
            self._numbers[stem] = 1
            return stem
        while True:
            self._numbers[stem] += 1
            name = f"{stem}_{self._numbers[stem]}"
            if name not in self._planned:
                return name


def _read_text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return "" if value is None else str(value).strip()


class DelegationCall:
    """One delegation at work.

    Args:
        tools: of the run.
        delegator: who asks.
        node: the task of the plan that the work is part of.
        request: what it asks for.
        span: of the delegation.
    """

    def __init__(
        self,
        tools: DelegationTools,
        delegator: Delegator,
        node: TaskNode,
        request: DelegationRequest,
        span: SpanEmitter,
    ) -> None:
        self._tools = tools
        self._delegator = delegator
        self._node = node
        self._request = request
        self._span = span
        self._started = tools.services.clock.monotonic()

    async def run(self) -> ToolAnswer:
        """What the delegator gets as an answer.

        Raises:
            TaskAbandoned, BudgetExceededError, asyncio.CancelledError: the whole task is not to go on.
        """
        delegator = self._delegator
        self._span.emit(DelegationStarted, delegator=delegator.role, depth=delegator.depth, request=self._request)
        try:
            await self._admit()
            output, artifacts = await self._do()
        except asyncio.CancelledError as stopped:
            self._fail("It was cancelled", SpanStatus.CANCELLED, stopped)
            raise
        except DelegationRefused as refusal:
            return self._fail(refusal.reason, SpanStatus.ERROR, refusal.error)
        except Exception as error:
            abandonment = abandonment_in(error)
            if abandonment is not None:
                self._fail(get_message(abandonment), SpanStatus.CANCELLED, abandonment)
                raise
            reason = f"Agent {self._request.agent_role!r} failed: {summarize_error(error)}"
            return self._fail(reason, SpanStatus.ERROR, error)
        status = DelegationStatus.SUCCESS if output.raw.strip() else DelegationStatus.PARTIAL
        parsed = output.parsed_output
        response = self._make_response(status, raw_output=output.raw, parsed_output=parsed, artifacts=artifacts)
        self._span.emit(DelegationCompleted, request=self._request, response=response, output=output)
        delegator.note_completed(output)
        return ToolAnswer(output.raw or f"Agent {output.agent_role!r} gave an empty answer.", ToolOutcome.SUCCESS)

    async def _admit(self) -> None:
        """Let guards and policies look at the request, which may be another one afterwards.

        Raises:
            DelegationRefused: one of them is against it.
        """
        services, delegator = self._tools.services, self._delegator
        made = services.spec.definition
        context = DelegationContext(
            caller_role=delegator.role,
            depth=delegator.depth,
            max_depth=made.max_delegation_depth,
            available_roles=delegator.list_roles(),
        )
        async with self._tools.admission:
            self._check_request()
            for policy in made.delegation_policies:
                try:
                    changed = await apply_policy(policy, self._request, context, services.caller)
                except DelegationRefused as refusal:
                    if refusal.error is not None:
                        message = f"{refusal.reason}. What it was asked about is refused."
                        self._span.emit_once(("policy", id(policy)), Warned, message=message)
                    raise
                if changed is not self._request:
                    role = self._tools.team.spell_role(changed.agent_role)
                    self._request = replace(changed, task_id=self._request.task_id, agent_role=role)
                    self._check_request()
            delegator.note_approved(self._request.agent_role)

    def _check_request(self) -> None:
        request = self._request
        if not request.agent_role or not request.task_description.strip():
            raise DelegationRefused("A policy left no agent or no task in the request")
        if (objection := self._delegator.find_objection(request.agent_role)) is not None:
            raise DelegationRefused(objection)

    def _fail(self, reason: str, status: SpanStatus, error: BaseException | None) -> ToolAnswer:
        response = self._make_response(DelegationStatus.FAILURE, errors=(reason,))
        self._span.emit(DelegationFailed, request=self._request, response=response, status=status, error=error)
        self._delegator.note_refused(self._request.agent_role, reason)
        return ToolAnswer(f"Error: {reason}", ToolOutcome.FAILURE)

    def _make_response(self, status: DelegationStatus, **facts: Any) -> DelegationResponse:
        request = self._request
        return DelegationResponse(
            task_id=request.task_id,
            status=status,
            worker_role=request.agent_role,
            metadata=request.metadata,
            duration=timedelta(seconds=self._tools.services.clock.monotonic() - self._started),
            **facts,
        )

    async def _do(self) -> tuple[TaskOutput, Mapping[str, Any]]:
        """Have the work done, in a span inside the delegation's: the output, and the artifacts of the response.

        Raises:
            Exception: whatever ended it.
        """
        tools, description = self._tools, self._request.task_description
        member = tools.team.get_member(self._request.agent_role)
        name = tools.make_name(self._delegator, member.declared_role, description)
        span = self._span.task_child(name, self._span.phase)
        loops: list[AgentLoop] = []

        async def work() -> TaskOutput:
            port = await tools.agent_runner.models.get(member.llm, member.agent, description, span)
            request = self._make_agent_request(member, name, span)
            result = await tools.agent_runner.run(request, port, span, loops.append)
            return result.to_output(name, description, span)

        output = await run_unplanned_task(span, work(), agent=member.agent.role, description=description)
        # The structured results of tools, and the typed answer; of several with one name, each further one is numbered.
        artifacts: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        for tool, value in (each for loop in loops for each in loop.structured_results):
            counts[tool] += 1
            artifacts[tool if counts[tool] == 1 else f"{tool}#{counts[tool]}"] = value
        if output.parsed_output is not None:
            artifacts["parsed_output"] = output.parsed_output
        return output, artifacts

    def _make_agent_request(self, member: TeamMember, name: str, span: SpanEmitter) -> AgentRequest:
        """The work of an approved request. It stands under the gates and limits of the task that it is part of."""
        agent, request, node, tools = member.agent, self._request, self._node, self._tools
        began_s = span.stream.offset_s()
        system_prompt = write_system_prompt(agent)
        # A schema in words is the expected output; one in JSON is held to as an output type.
        output_format = None
        with suppress(ValueError):
            kind: Any = read_json(request.expected_output_schema or "")
            if isinstance(kind, dict) and find_output_type_fault(kind) is None:
                output_format = get_output_format(kind)
        expected_output = request.expected_output_schema if output_format is None else None
        given = {name: write_value(value, config.max_table_chars) for name, value in request.scope.items()}
        for name, written in given.items():
            if written.shown:
                span.emit(Warned, message=describe_limited_table(f"What delegated work was given as {name!r}", written))

        texts = {name: written.text for name, written in given.items()}
        taken_s = span.stream.offset_s() - began_s

        def write_prompt(instructions: str, _: ShortenedHistory) -> str:
            began_s = span.stream.offset_s()
            text = write_user_prompt(
                request.task_description,
                expected_output or STOCK_EXPECTED_OUTPUT,
                given=texts,
                output_format=instructions,
            )
            build_s = taken_s + span.stream.offset_s() - began_s
            span.emit(TaskInputPrepared, system_prompt=system_prompt, user_prompt=text, context=(), build_s=build_s)
            return text

        return AgentRequest(
            agent=agent,
            description=request.task_description,
            system_prompt=system_prompt,
            write_user_prompt=write_prompt,
            tools=tuple(agent.tools),
            engine_tools=(
                *tools.gates.make_tools(node, agent, agent.tools),
                *tools.make_tools(node, agent, name, self._delegator.depth + 1),
            ),
            output_format=output_format,
            max_output_retries=request.max_output_retries,
            max_retry_wait_s=agent.find_max_retry_wait(member.llm),
            rates=member.rates,
            rate_limits=() if node.task.rate_limit is None else (node.task.rate_limit,),
            approve=tools.gates.make_tool_gate(node, agent),
            ask_again=tools.gates.make_repeat_gate(node, agent),
            review_call=tools.gates.calls.make_gate(node, agent),
            mends_calls=tools.gates.may_mend_calls(node),
        )


class DelegationRefused(Exception):  # noqa: N818 - no error
    """A delegation that is not to be. `error` is what broke, where nobody refused and something did."""

    def __init__(self, reason: str, error: Exception | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


async def apply_policy(
    policy: Any, request: DelegationRequest, context: DelegationContext, caller: FunctionCaller
) -> DelegationRequest:
    """The request to go on with: the same one, or what the policy made of it.

    Whatever a policy does wrong is a refusal, never a silent yes.

    Raises:
        DelegationRefused: the policy rejects, raises, or says nothing that can be understood.
    """
    name = getattr(policy, "__name__", type(policy).__name__)
    function = getattr(policy, "evaluate", None) or policy
    try:
        result = await caller.call(f"policy {name}", function, request, context)
    except Exception as error:
        raise DelegationRefused(f"Policy {name!r} failed: {summarize_error(error)}", error) from error
    match result:
        case DelegationPolicyResult(verdict=PolicyVerdict.ALLOW):
            return request
        case DelegationPolicyResult(verdict=PolicyVerdict.REJECT):
            raise DelegationRefused(
                str(result.reason or "").strip() or f"Policy {name!r} rejected it, and gave no reason"
            )
        case DelegationPolicyResult(verdict=PolicyVerdict.MODIFY, request=DelegationRequest() as changed):
            return changed
    returned = "None" if result is None else type(result).__name__
    if isinstance(result, DelegationPolicyResult):
        returned = f"{result.verdict} of {type(result.request).__name__}"
    fault = f"Policy {name!r} must return allow(), reject(reason) or modify(request), and returned {returned}"
    raise DelegationRefused(fault, TypeError(fault))
