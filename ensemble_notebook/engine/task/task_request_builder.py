"""Makes what an agent is asked for a task of the plan: its prompts, its tools, and what its reply must be."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.events import TaskInputPrepared
from ensemble_notebook.domain.outputs.chat_message import Messages, make_conversation
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.prompts import frame_prompt, write_system_prompt, write_task_sections
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.delegation.delegation_tools import DelegationTools
from ensemble_notebook.engine.delegation.manager import Manager
from ensemble_notebook.engine.review.task_gates import TaskGates
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.task.task_work import MemoryEntries, TaskWork
from ensemble_notebook.engine.threads.function_caller import FunctionCaller


class TaskRequestBuilder:
    """Makes the requests of one run.

    Args:
        inputs: of the run.
        conversations: that tasks go on with, by their names.
        gates: give the approval of tool calls, and the tool by which an agent asks a person.
        delegation_tools: give the tools by which agents delegate.
        manager: of a hierarchical run, whose only task is the manager's; else None.
        caller: calls the user's manager prompt.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any],
        conversations: Mapping[str, Messages],
        gates: TaskGates,
        delegation_tools: DelegationTools,
        manager: Manager | None,
        caller: FunctionCaller,
    ) -> None:
        self._inputs = inputs
        self._conversations = conversations
        self._gates = gates
        self._delegation_tools = delegation_tools
        self._manager = manager
        self._caller = caller

    async def build(
        self, work: TaskWork, agent: Agent, *, is_fallback: bool, is_going_on: bool = False
    ) -> AgentRequest:
        """What an agent is asked to do for a task; one that `is_going_on` has been told who it is, and what was said.

        Raises:
            Exception: what the user's manager prompt raised.
        """
        node, task = work.node, work.node.task
        earlier, began_s = self._conversations.get(node.name, ()), work.span.stream.offset_s()
        system_prompt, sections = await self._write_prompts(work, agent)
        taken_s = work.span.stream.offset_s() - began_s
        tools = (*agent.tools, *task.tools)
        engine_tools = (
            *self._gates.make_tools(node, agent, tools),
            *self._delegation_tools.make_tools(node, agent, node.name),
        )
        if self._manager is not None:
            engine_tools = (*engine_tools, self._delegation_tools.make_tool(self._manager, node))
        return AgentRequest(
            agent=agent,
            description=work.resolved.description,
            system_prompt=system_prompt,
            write_user_prompt=functools.partial(
                _write_user_prompt,
                work,
                "" if is_going_on else system_prompt,
                () if is_going_on else earlier,
                sections,
                taken_s,
            ),
            tools=tools,
            engine_tools=engine_tools,
            output_format=None if task.output_type is None else get_output_format(task.output_type),
            max_output_retries=task.max_output_retries,
            max_retries=task.max_retries,
            rate_limits=() if task.rate_limit is None else (task.rate_limit,),
            approve=self._gates.make_tool_gate(node, agent),
            write_reminder=None if self._manager is None else self._manager.write_reminder,
            is_fallback=is_fallback,
            earlier=earlier,
        )

    def make_messages(self, resolved: ResolvedTask, memory: MemoryEntries, reply: str) -> Messages:
        """The conversation of a task that an earlier run has done, as this run would have had it."""
        agent = resolved.node.agent
        if agent is None or self._manager is not None:
            return ()
        sections = write_task_sections(resolved.description, resolved.expected_output)
        prompt = frame_prompt(
            sections, resolved.context, missing=resolved.missing, memory=memory, revision=resolved.revision
        )
        earlier = self._conversations.get(resolved.node.name, ())
        return make_conversation(write_system_prompt(agent), earlier, prompt, reply)

    async def _write_prompts(self, work: TaskWork, agent: Agent) -> tuple[str, str]:
        """The system prompt, and the sections of the user prompt that say what is to be done."""
        resolved = work.resolved
        if self._manager is not None:
            return await self._manager.write_prompts(resolved.description, self._inputs, self._caller)
        return write_system_prompt(agent), write_task_sections(resolved.description, resolved.expected_output)


def _write_user_prompt(
    work: TaskWork, system_prompt: str, earlier: Messages, sections: str, taken_s: float, output_format: str
) -> str:
    """The whole user prompt; emits the event of all prompts, of which `taken_s` was spent on the other parts."""
    resolved, began_s = work.resolved, work.span.stream.offset_s()
    text = frame_prompt(
        sections,
        resolved.context,
        missing=resolved.missing,
        memory=work.memory,
        revision=work.revision,
        output_format=output_format,
    )
    names = tuple(each.name for each in resolved.context)
    build_s = taken_s + work.span.stream.offset_s() - began_s
    work.span.emit(
        TaskInputPrepared,
        system_prompt=system_prompt,
        user_prompt=text,
        context=names,
        build_s=build_s,
        earlier=earlier,
    )
    return text
