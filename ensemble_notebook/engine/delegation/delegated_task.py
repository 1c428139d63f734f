"""Delegated work: a task in the span of its delegation, which stands in no plan (E23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.delegation import DelegationRequest
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.output_type import find_output_type_fault
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT
from ensemble_notebook.domain.events import TaskInputPrepared, Warned
from ensemble_notebook.domain.json_text import read_json
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TeamMember
from ensemble_notebook.domain.value_text import describe_limited_table, write_value
from ensemble_notebook.engine.agent.agent_request import AgentRequest, ToolGate
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.prompts import write_system_prompt, write_user_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat, get_output_format
from ensemble_notebook.engine.agent.toolbox import EngineTool
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.lifecycle.task_lifecycle import run_unplanned_task


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedTask:
    """What one member of a team is asked to do.

    Attributes:
        name: of the work.
        member: who.
        request: as policies left it.
        engine_tools, rate_limits, approve: as of an `AgentRequest`; those of the task that the work is part of.
    """

    name: str
    member: TeamMember
    request: DelegationRequest
    engine_tools: tuple[EngineTool, ...] = ()
    rate_limits: tuple[RateLimit, ...] = ()
    approve: ToolGate | None = None


async def run_delegated(task: DelegatedTask, agent_runner: AgentRunner, delegation: SpanEmitter) -> TaskOutput:
    """Have the work done, in a span inside the delegation's.

    Raises:
        Exception: whatever ended it.
    """
    span = delegation.task_child(task.name, delegation.phase)
    work = _work(task, agent_runner, span)
    return await run_unplanned_task(span, work, agent=task.member.agent.role, description=task.request.task_description)


async def _work(task: DelegatedTask, agent_runner: AgentRunner, span: SpanEmitter) -> TaskOutput:
    agent, description = task.member.agent, task.request.task_description
    port = await agent_runner.models.get(task.member.llm, agent, description, span)
    result = await agent_runner.run(_make_request(task, span), port, span)
    return result.to_output(task.name, description, span)


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
            span.emit(Warned, message=describe_limited_table(f"What a policy gave as {name!r}", written))

    texts = {name: written.text for name, written in given.items()}
    taken_s = span.stream.offset_s() - began_s

    def write_prompt(instructions: str) -> str:
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
        rate_limits=task.rate_limits,
        approve=task.approve,
    )


def _read_schema(schema: str | None) -> OutputFormat | None:
    """The format of an answer whose schema is written in JSON; None for one that is described in words."""
    try:
        kind: Any = read_json(schema or "")
    except ValueError:
        return None
    return get_output_format(kind) if isinstance(kind, dict) and find_output_type_fault(kind) is None else None
