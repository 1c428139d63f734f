"""One delegation: from the request of an agent to the response of another one (E23, E24).

Every delegation that names a role and a task has one request and one response, refusals included. What a refusal or a
failure of the delegate means is the delegator's to decide: it gets a text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ensemble_notebook.domain.definitions.delegation import (
    DelegationContext,
    DelegationPolicy,
    DelegationRequest,
    DelegationResponse,
)
from ensemble_notebook.domain.definitions.enums import DelegationStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.events import DelegationCompleted, DelegationFailed, DelegationStarted
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.chat_port import ToolAnswer
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.delegation.delegated_task import DelegatedTask, run_delegated
from ensemble_notebook.engine.delegation.delegation_policies import DelegationRefused, apply_policy
from ensemble_notebook.engine.delegation.delegators import Delegator
from ensemble_notebook.engine.delegation.team_members import TeamMembers
from ensemble_notebook.engine.events.broken_callables import BrokenCallables
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.lifecycle.task_abandonment import abandonment_in
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import get_message, summarize_error


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
        broken_callables: of the run.
        admission: lets one request at a time be looked at, in the order in which they were made, so that what guards,
            constraints and policies count is what they see. The work itself goes on side by side.
    """

    policies: Sequence[DelegationPolicy | Any]
    max_depth: int
    team: TeamMembers
    agent_runner: AgentRunner
    caller: FunctionCaller
    clock: Clock
    broken_callables: BrokenCallables
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
            output = await run_delegated(task, services.agent_runner, self._span)
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
        return self._complete(output)

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
                self._services.broken_callables.warn_once(("policy", id(policy)), message, self._span)
            raise

    def _check_request(self) -> None:
        request = self._request
        if not request.agent_role or not request.task_description.strip():
            raise DelegationRefused("A policy left no agent or no task in the request")
        if (objection := self._delegator.find_objection(request.agent_role)) is not None:
            raise DelegationRefused(objection)

    def _complete(self, output: TaskOutput) -> ToolAnswer:
        status = DelegationStatus.SUCCESS if output.raw.strip() else DelegationStatus.PARTIAL
        response = self._make_response(status, raw_output=output.raw, parsed_output=output.parsed_output)
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
