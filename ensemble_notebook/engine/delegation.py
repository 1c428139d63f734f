"""Delegation: the tools by which agents ask for it, and the way of one, from request to response (E23, E24).

Every delegation that names a role and a task has one request and one response, refusals included. What a refusal or a
failure of the delegate means is the delegator's to decide: it gets a text.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Protocol

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import (
    DELEGATE,
    DELEGATION_PARAMETERS,
    DelegationContext,
    DelegationPolicy,
    DelegationPolicyResult,
    DelegationRequest,
    DelegationResponse,
    PolicyVerdict,
    normalize_role,
)
from ensemble_notebook.domain.definitions.enums import DelegationPriority, DelegationStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.limits import RateLimit
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
from ensemble_notebook.engine.agent.agent_loop import AgentLoop, AgentRequest, RepeatGate, ToolGate
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.prompts import write_system_prompt, write_user_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat, get_output_format
from ensemble_notebook.engine.agent.toolbox import EngineTool
from ensemble_notebook.engine.events.event_stream import Clock, SpanEmitter
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run_spec import RunSpec
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


class Delegator(Protocol):
    """Who delegates.

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

    def list_roles(self) -> tuple[str, ...]:
        """The roles of those whom it can ask."""

    def find_objection(self, role: str) -> str | None:
        """Why it may not ask this one now; None where it may."""

    def note_approved(self, role: str) -> None:
        """It has asked this one, and the work begins."""

    def note_refused(self, role: str, reason: str) -> None:
        """What it asked of this one was refused, or has failed."""

    def note_completed(self, output: TaskOutput) -> None:
        """The work is done."""


class PeerDelegator:
    """An agent that may ask the others of its team."""

    tool: Final = DELEGATE

    def __init__(self, role: str, work: str, depth: int, max_depth: int, team: TeamMembers) -> None:
        self.role = role
        self.depth = depth
        self.work_prefix = f"{work}."
        self._max_depth = max_depth
        self._team = team

    def list_roles(self) -> tuple[str, ...]:
        return self._team.list_roles(besides=self.role)

    def find_objection(self, role: str) -> str | None:
        if self.depth > self._max_depth:
            return f"The delegation depth limit of {self._max_depth} is reached; do the work yourself"
        if normalize_role(role) == normalize_role(self.role):
            return f"Agent {self.role!r} can't delegate to itself. Available: {quote_roles(self.list_roles())}"
        return self._team.find_objection(role, asked_by=self.role)

    def note_approved(self, role: str) -> None:
        """Nothing is counted."""

    def note_refused(self, role: str, reason: str) -> None:
        """Nothing is kept: nobody has to be asked."""

    def note_completed(self, output: TaskOutput) -> None:
        """Nothing is kept: it is part of the delegator's own work."""


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
    ) -> None:
        self._services = DelegationServices(
            policies=spec.delegation_policies,
            max_depth=spec.max_delegation_depth,
            team=team,
            agent_runner=agent_runner,
            caller=caller,
            clock=clock,
            admission=asyncio.Lock(),
        )
        self._gates = gates
        self._written = [written for task in spec.plan.tasks for written in task.managed]
        self._planned = frozenset(task.name for task in (*spec.plan.tasks, *self._written))
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
        name = self._make_name(delegator, member.declared_role, request.task_description)
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
            ask_again=self._gates.make_repeat_gate(node, agent),
            mends_calls=self._gates.may_mend_calls(node),
        )

    def _make_name(self, delegator: Delegator, role: str, text: str) -> str:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationServices:
    """What all delegations of one run share.

    Attributes:
        policies: are asked about each request, in order.
        max_depth: of delegated work that delegates.
        team: whom work can be delegated to.
        agent_runner: does the work.
        caller: calls the policies.
        clock: tells durations.
        admission: lets one request at a time be looked at, in the order in which they were made, so that what guards,
            constraints and policies count is what they see. The work itself goes on side by side.
    """

    policies: Sequence[DelegationPolicy | Any]
    max_depth: int
    team: TeamMembers
    agent_runner: AgentRunner
    caller: FunctionCaller
    clock: Clock
    admission: asyncio.Lock


class DelegationCall:
    """One delegation at work.

    Args:
        services: of the run.
        delegator: who asks.
        request: what it asks for.
        span: of the delegation.
        make_task: makes the work of the request, as it is once it is approved.
    """

    def __init__(
        self,
        services: DelegationServices,
        delegator: Delegator,
        request: DelegationRequest,
        span: SpanEmitter,
        make_task: Callable[[DelegationRequest], DelegatedTask],
    ) -> None:
        self._services = services
        self._delegator = delegator
        self._request = request
        self._span = span
        self._make_task = make_task
        self._started = services.clock.monotonic()

    async def run(self) -> ToolAnswer:
        """What the delegator gets as an answer.

        Raises:
            TaskAbandoned, BudgetExceededError, asyncio.CancelledError: the whole task is not to go on.
        """
        delegator, services = self._delegator, self._services
        self._span.emit(DelegationStarted, delegator=delegator.role, depth=delegator.depth, request=self._request)
        try:
            await self._admit()
            task = self._make_task(self._request)
            output, artifacts = await run_delegated(task, services.agent_runner, self._span)
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
        return self._complete(output, artifacts)

    async def _admit(self) -> None:
        """Let guards and policies look at the request, which may be another one afterwards.

        Raises:
            DelegationRefused: one of them is against it.
        """
        services, delegator = self._services, self._delegator
        context = DelegationContext(
            caller_role=delegator.role,
            depth=delegator.depth,
            max_depth=services.max_depth,
            available_roles=delegator.list_roles(),
        )
        async with services.admission:
            self._check_request()
            for policy in services.policies:
                changed = await self._ask_policy(policy, context)
                if changed is not self._request:
                    role = services.team.spell_role(changed.agent_role)
                    self._request = replace(changed, task_id=self._request.task_id, agent_role=role)
                    self._check_request()
            delegator.note_approved(self._request.agent_role)

    async def _ask_policy(self, policy: DelegationPolicy | Any, context: DelegationContext) -> DelegationRequest:
        try:
            return await apply_policy(policy, self._request, context, self._services.caller)
        except DelegationRefused as refusal:
            if refusal.error is not None:
                message = f"{refusal.reason}. What it was asked about is refused."
                self._span.emit_once(("policy", id(policy)), Warned, message=message)
            raise

    def _check_request(self) -> None:
        request = self._request
        if not request.agent_role or not request.task_description.strip():
            raise DelegationRefused("A policy left no agent or no task in the request")
        if (objection := self._delegator.find_objection(request.agent_role)) is not None:
            raise DelegationRefused(objection)

    def _complete(self, output: TaskOutput, artifacts: Mapping[str, Any]) -> ToolAnswer:
        status = DelegationStatus.SUCCESS if output.raw.strip() else DelegationStatus.PARTIAL
        response = self._make_response(
            status, raw_output=output.raw, parsed_output=output.parsed_output, artifacts=artifacts
        )
        self._span.emit(DelegationCompleted, request=self._request, response=response, output=output)
        self._delegator.note_completed(output)
        return ToolAnswer(output.raw or f"Agent {output.agent_role!r} gave an empty answer.", ToolOutcome.SUCCESS)

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
            duration=timedelta(seconds=self._services.clock.monotonic() - self._started),
            **facts,
        )


# --- Delegated work: a task in the span of its delegation, which stands in no plan ------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedTask:
    """What one member of a team is asked to do.

    Attributes:
        name: of the work.
        member: who.
        request: as policies left it.
        engine_tools, rate_limits, approve, ask_again, mends_calls: as of an `AgentRequest`; those of the task that the
            work is part of.
    """

    name: str
    member: TeamMember
    request: DelegationRequest
    engine_tools: tuple[EngineTool, ...] = ()
    rate_limits: tuple[RateLimit, ...] = ()
    approve: ToolGate | None = None
    ask_again: RepeatGate | None = None
    mends_calls: bool = True


async def run_delegated(
    task: DelegatedTask, agent_runner: AgentRunner, delegation: SpanEmitter
) -> tuple[TaskOutput, Mapping[str, Any]]:
    """Have the work done, in a span inside the delegation's: the output, and the artifacts of the response.

    Raises:
        Exception: whatever ended it.
    """
    span, description = delegation.task_child(task.name, delegation.phase), task.request.task_description
    loops: list[AgentLoop] = []
    work = _work(task, agent_runner, span, loops.append)
    output = await run_unplanned_task(span, work, agent=task.member.agent.role, description=description)
    return output, _collect_artifacts(loops, output)


async def _work(
    task: DelegatedTask, agent_runner: AgentRunner, span: SpanEmitter, watch: Callable[[AgentLoop], None]
) -> TaskOutput:
    agent, description = task.member.agent, task.request.task_description
    port = await agent_runner.models.get(task.member.llm, agent, description, span)
    result = await agent_runner.run(_make_request(task, span), port, span, watch)
    return result.to_output(task.name, description, span)


def _collect_artifacts(loops: Sequence[AgentLoop], output: TaskOutput) -> Mapping[str, Any]:
    """The structured results of tools, and the typed answer; of several with one name, each further one is numbered."""
    artifacts: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for name, value in (each for loop in loops for each in loop.structured_results):
        counts[name] += 1
        artifacts[name if counts[name] == 1 else f"{name}#{counts[name]}"] = value
    if output.parsed_output is not None:
        artifacts["parsed_output"] = output.parsed_output
    return artifacts


def _make_request(task: DelegatedTask, span: SpanEmitter) -> AgentRequest:
    agent, request = task.member.agent, task.request
    began_s = span.stream.offset_s()
    system_prompt = write_system_prompt(agent)
    output_format = _read_schema(request.expected_output_schema)
    # A schema in words is the expected output; one in JSON is held to as an output type.
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
            request.task_description, expected_output or STOCK_EXPECTED_OUTPUT, given=texts, output_format=instructions
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
        engine_tools=task.engine_tools,
        output_format=output_format,
        max_output_retries=request.max_output_retries,
        max_retry_wait_s=agent.find_max_retry_wait(task.member.llm),
        rates=task.member.rates,
        rate_limits=task.rate_limits,
        approve=task.approve,
        ask_again=task.ask_again,
        mends_calls=task.mends_calls,
    )


def _read_schema(schema: str | None) -> OutputFormat | None:
    """The format of an answer whose schema is written in JSON; None for one that is described in words."""
    try:
        kind: Any = read_json(schema or "")
    except ValueError:
        return None
    return get_output_format(kind) if isinstance(kind, dict) and find_output_type_fault(kind) is None else None


# --- Asks one policy about one delegation; whatever a policy does wrong is a refusal, never a silent yes --------------


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
    fault = f"Policy {name!r} must return allow(), reject(reason) or modify(request), and returned {_describe(result)}"
    raise DelegationRefused(fault, TypeError(fault))


def _describe(result: Any) -> str:
    if isinstance(result, DelegationPolicyResult):
        return f"{result.verdict} of {type(result.request).__name__}"
    return "None" if result is None else type(result).__name__
