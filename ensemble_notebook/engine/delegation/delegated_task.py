"""Delegated work: a task in the span of its delegation, which stands in no plan (E23)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ensemble_notebook.domain.definitions.delegation import DelegationRequest
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.output_type import output_type_fault
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT
from ensemble_notebook.domain.events import TaskCompleted, TaskFailed, TaskInputPrepared, TaskSkipped, TaskStarted
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import Member
from ensemble_notebook.engine.agent.agent_loop import ToolApproval
from ensemble_notebook.engine.agent.agent_runner import AgentRequest, AgentRunner, WorkResult
from ensemble_notebook.engine.agent.prompts import system_prompt, user_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat, output_format
from ensemble_notebook.engine.agent.toolbox import NativeTool, result_text
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.specs.resolved_task import abandonment_in
from ensemble_notebook.errors import message_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedTask:
    """What one member of a team is asked to do.

    Attributes:
        name: of the work.
        member: who.
        request: as policies left it.
        natives, rate_limits, approve: as of an `AgentRequest`; those of the task that the work is part of.
    """

    name: str
    member: Member
    request: DelegationRequest
    natives: tuple[NativeTool, ...] = ()
    rate_limits: tuple[RateLimit, ...] = ()
    approve: ToolApproval | None = None


async def run_delegated(
    delegated: DelegatedTask, agent_runner: AgentRunner, clock: Clock, delegation: SpanEmitter
) -> TaskOutput:
    """Have the work done, in a span inside the delegation's.

    Raises:
        Exception: whatever ended it.
    """
    agent, request = delegated.member.agent, delegated.request
    stream, started = delegation.stream, clock.monotonic()
    span = SpanEmitter(stream, stream.new_span_id(), delegation.span_id, delegated.name, delegation.phase)
    description = request.task_description
    span.emit(TaskStarted, agent=agent.role, description=description, index=None, total=None, queued_s=0.0)
    try:
        port = await agent_runner.port(delegated.member.llm, agent, description)
        result = await agent_runner.work(_request(delegated, span), port, span, lambda _: None)
    except asyncio.CancelledError as stopped:
        span.emit(TaskFailed, agent=agent.role, error=stopped, status=SpanStatus.CANCELLED)
        raise
    except Exception as error:
        if (drop := abandonment_in(error)) is not None:
            span.emit(TaskSkipped, reason=message_of(drop))
        else:
            span.emit(TaskFailed, agent=agent.role, error=error, status=SpanStatus.ERROR)
        raise
    output = _output(delegated, result, clock, started)
    span.emit(TaskCompleted, output=output)
    return output


def _output(delegated: DelegatedTask, result: WorkResult, clock: Clock, started: float) -> TaskOutput:
    return TaskOutput(
        name=delegated.name,
        raw=result.text,
        task_description=delegated.request.task_description,
        agent_role=delegated.member.agent.role,
        completed_at=clock.now(),
        duration=timedelta(seconds=clock.monotonic() - started),
        tool_call_count=result.tool_calls,
        parsed_output=result.value,
    )


def _request(delegated: DelegatedTask, span: SpanEmitter) -> AgentRequest:
    agent, request = delegated.member.agent, delegated.request
    system = system_prompt(agent, agent.goal)
    output = _format(request.expected_output_schema)
    expected = request.expected_output_schema if output is None else None
    given = {name: value if isinstance(value, str) else result_text(value) for name, value in request.scope.items()}

    def user(output_format: str) -> str:
        text = user_prompt(
            request.task_description, expected or STOCK_EXPECTED_OUTPUT, given=given, output_format=output_format
        )
        span.emit(TaskInputPrepared, system_prompt=system, user_prompt=text, context=())
        return text

    return AgentRequest(
        agent=agent,
        llm=delegated.member.llm,
        description=request.task_description,
        system=system,
        user=user,
        tools=tuple(agent.tools),
        natives=delegated.natives,
        output=output,
        max_output_retries=request.max_output_retries,
        rate_limits=delegated.rate_limits,
        approve=delegated.approve,
    )


def _format(schema: str | None) -> OutputFormat | None:
    """The format of an answer whose schema is written in JSON; None for one that is described in words."""
    try:
        kind: Any = json.loads(schema or "")
    except ValueError:
        return None
    return output_format(kind) if isinstance(kind, dict) and output_type_fault(kind) is None else None
