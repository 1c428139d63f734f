"""Works on one task: prepares its input, then calls its handler or lets its agent loose (E1, E2, E10, E38)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from ensemble_notebook.domain.agent import Agent
from ensemble_notebook.domain.event import Noted, TaskInputPrepared, Warned
from ensemble_notebook.domain.graph import TaskNode
from ensemble_notebook.domain.model import ChatPort, ChatSource
from ensemble_notebook.domain.output import TaskOutput
from ensemble_notebook.domain.template import render
from ensemble_notebook.domain.tool import TaskInput, ToolResult
from ensemble_notebook.engine.agent_loop import AgentLoop
from ensemble_notebook.engine.call import Caller, keep_inside
from ensemble_notebook.engine.clock import Clock
from ensemble_notebook.engine.prompt import long_context_warnings, system_prompt, user_prompt
from ensemble_notebook.engine.stream import Scope
from ensemble_notebook.engine.toolbox import Toolbox, handler_function, result_text
from ensemble_notebook.errors import (
    AgentExecutionError,
    DeadlineExceededError,
    EnsembleError,
    ToolExecutionError,
    one_line,
)

Context = tuple[TaskOutput, ...]


class TaskRunner:
    """Runs the tasks of one run; keeps what they share: texts, models, tools."""

    def __init__(
        self,
        inputs: Mapping[str, Any],
        source: ChatSource,
        caller: Caller,
        clock: Clock,
        run: Scope,
        *,
        streams: bool,
    ) -> None:
        self._inputs = MappingProxyType(dict(inputs))
        self._source = source
        self._caller = caller
        self._clock = clock
        self._run = run
        self._streams = streams
        self._ports: dict[object, asyncio.Task[ChatPort]] = {}
        self._toolboxes: dict[tuple[int, ...], Toolbox] = {}

    def close(self) -> None:
        """Nobody waits for a model any more."""
        for preparing in self._ports.values():
            preparing.cancel()

    async def run(self, node: TaskNode, description: str, context: Context, scope: Scope) -> TaskOutput:
        """The output of a task.

        Raises:
            Exception: whatever ended it; a model's failure as `AgentExecutionError`, a handler's as it was raised.
        """
        started = self._clock.monotonic()
        work = _Work(node, description, render(node.task.expected_output, self._inputs), context, scope)
        # Getting a model ready (imports, weights) happens once for all, so it is on no task's clock.
        port = None if node.agent is None else await self._port(node, node.agent, description)
        if node.task.timeout is None:
            result = await self._work(work, port)
        else:
            result = await self._work_in_time(work, port, node.task.timeout)
        return TaskOutput(
            name=node.name,
            raw=result.text,
            task_description=description,
            agent_role=node.role,
            completed_at=self._clock.now(),
            duration=timedelta(seconds=self._clock.monotonic() - started),
            tool_call_count=result.tool_calls,
            parsed_output=result.value,
        )

    async def _work_in_time(self, work: _Work, port: ChatPort | None, limit: float) -> _Result:
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                return await self._work(work, port)
        except TimeoutError:
            if not deadline.expired():
                raise
            advice = "Raise the task's timeout or make it smaller."
            raise DeadlineExceededError("task", limit, work.activity(), advice) from None

    async def _work(self, work: _Work, port: ChatPort | None) -> _Result:
        agent = work.node.agent
        return await (self._handle(work) if agent is None or port is None else self._assign(agent, port, work))

    async def _handle(self, work: _Work) -> _Result:
        node = work.node
        work.activity = lambda: "its handler"
        names = tuple(each.name for each in work.context)
        work.scope.emit(TaskInputPrepared, system_prompt="", user_prompt=work.description, context=names)
        task_input = TaskInput(
            name=node.name,
            description=work.description,
            expected_output=work.expected_output,
            context=work.context,
            inputs=self._inputs,
        )
        result = await self._caller.call(f"handler of {node.name}", handler_function(node.task.handler), task_input)
        if isinstance(result, ToolResult):
            if not result.is_success:
                message = f"The handler of task {node.name!r} reported a failure: {result.error_message}"
                raise ToolExecutionError(message, tool_name=node.name, tool_input=work.description)
            return _Result(result_text(result), value=result.structured_output)
        return _Result(result_text(result), value=None if isinstance(result, str) else result)

    async def _assign(self, agent: Agent, port: ChatPort, work: _Work) -> _Result:
        system = system_prompt(agent, agent.goal if work.node.task.agent else work.description)
        user = user_prompt(work.description, work.expected_output, work.context)
        names = tuple(each.name for each in work.context)
        work.scope.emit(TaskInputPrepared, system_prompt=system, user_prompt=user, context=names)
        for message in long_context_warnings(work.context):
            work.scope.emit(Warned, message=message)
        if (agent.tools or work.node.task.tools) and not port.calls_tools:
            message = f"Agent {agent.role!r} has tools, but its model {port.name} does not call tools."
            work.scope.emit(Warned, message=message)
        toolbox = self._toolbox((*agent.tools, *work.node.task.tools))
        loop = AgentLoop(agent, work.description, port, toolbox, self._caller, streams=self._streams)
        work.activity = lambda: loop.activity
        result = await loop.run(system, user, work.scope)
        return _Result(result.text, tool_calls=result.tool_calls_made)

    async def _port(self, node: TaskNode, agent: Agent, description: str) -> ChatPort:
        """The model, prepared once per run however many tasks wait for it."""
        preparing = self._ports.get(node.llm_key)
        if preparing is None:
            preparing = self._ports[node.llm_key] = asyncio.ensure_future(keep_inside(self._prepare(node.llm)))
        try:
            return await asyncio.shield(preparing)
        except EnsembleError:
            raise
        except Exception as error:
            raise AgentExecutionError(
                f"The model of agent {agent.role!r} could not be made ready: {one_line(error)}",
                agent_role=agent.role,
                task_description=description,
            ) from error

    async def _prepare(self, llm: Any) -> ChatPort:
        port = await self._source.prepare(llm, lambda message: self._run.emit(Noted, message=message))
        if port.warning:
            self._run.emit(Warned, message=port.warning)
        return port

    def _toolbox(self, entries: tuple[Any, ...]) -> Toolbox:
        key = tuple(map(id, entries))
        if key not in self._toolboxes:
            self._toolboxes[key] = Toolbox(entries)
        return self._toolboxes[key]


class _Result:
    """The text of a task and what stands behind it."""

    __slots__ = ("text", "tool_calls", "value")

    def __init__(self, text: str, tool_calls: int = 0, value: Any = None) -> None:
        self.text = text
        self.tool_calls = tool_calls
        self.value = value


class _Work:
    """One task at work: what is resolved of it, and a way to say what it is doing."""

    __slots__ = ("activity", "context", "description", "expected_output", "node", "scope")

    def __init__(self, node: TaskNode, description: str, expected_output: str, context: Context, scope: Scope) -> None:
        self.node = node
        self.description = description
        self.expected_output = expected_output
        self.context = context
        self.scope = scope
        self.activity: Callable[[], str] = lambda: "nothing yet"
