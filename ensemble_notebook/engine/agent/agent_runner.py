"""One agent at work, from its prompts to a value: the agent of a task, its fallback, or one that work was delegated to.

Knows nothing of tasks in a graph, of gates or of retries by review; whoever assigns does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.events import Noted, TurnEnded, TurnStarted, Warned
from ensemble_notebook.domain.planning.graph import llm_key
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.agent.agent_loop import AgentLoop, LoopSetting, ToolApproval
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.prompts import correction_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat
from ensemble_notebook.engine.agent.toolbox import NativeTool, Toolbox
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.limits.request_limits import RequestLimits
from ensemble_notebook.engine.threads.function_caller import FunctionCaller, await_safely
from ensemble_notebook.errors import AgentExecutionError, EnsembleError, OutputParsingError, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """What one agent is to do.

    Attributes:
        agent: who.
        llm: the model object or spec.
        description: of the task, resolved; for errors.
        system: the system prompt.
        user: makes the user prompt from the output format that has to stand in it (empty: none), once, and tells it.
        tools: the user's, those of the agent and of the task.
        natives: the engine's own, for delegation and questions.
        output: what the reply must be readable as; None for any text.
        max_output_retries: corrections of a reply that is not.
        rate_limits: those of the task; the agent's own is known.
        approve: asked before each tool call; None lets all pass.
        is_fallback: marks its turns.
    """

    agent: Agent
    llm: Any
    description: str
    system: str
    user: Callable[[str], str]
    tools: tuple[Any, ...] = ()
    natives: tuple[NativeTool, ...] = ()
    output: OutputFormat | None = None
    max_output_retries: int = 0
    rate_limits: tuple[RateLimit, ...] = ()
    approve: ToolApproval | None = None
    is_fallback: bool = False


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The text, how many tools were executed, and the value read from the text where an output type was asked for."""

    text: str
    tool_calls: int = 0
    value: Any = None


class AgentRunner:
    """Gets agents to work; keeps what the jobs of one run share: ports, toolboxes and limits."""

    def __init__(
        self, source: ChatSource, caller: FunctionCaller, run: SpanEmitter, limits: RequestLimits, *, streams: bool
    ) -> None:
        self._source = source
        self._limits = limits
        self._caller = caller
        self._run = run
        self._streams = streams
        self._ports: dict[object, asyncio.Task[ChatPort]] = {}
        self._toolboxes: dict[tuple[int, ...], Toolbox] = {}

    def close(self) -> None:
        """Nobody waits for a model any more."""
        for preparing in self._ports.values():
            preparing.cancel()

    async def port(self, llm: Any, agent: Agent, description: str) -> ChatPort:
        """A model, prepared once per run however many jobs wait for it.

        Raises:
            AgentExecutionError: it can't be had.
        """
        key = llm_key(llm)
        preparing = self._ports.get(key)
        if preparing is None:
            preparing = self._ports[key] = asyncio.ensure_future(await_safely(self._prepare(llm)))
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

    async def work(
        self, request: AgentRequest, port: ChatPort, task: SpanEmitter, watch: Callable[[AgentLoop], None]
    ) -> WorkResult:
        """Have the agent do it, in the span `task`.

        Args:
            request: what it is to do.
            port: of the agent's model.
            task: the span around its turns.
            watch: given what works on it, before it begins.

        Raises:
            AgentExecutionError, MaxIterationsExceededError: as `AgentLoop.run`.
            OutputParsingError: no reply was of the output type, corrections included.
        """
        if (request.tools or request.natives) and not port.calls_tools:
            message = f"Agent {request.agent.role!r} has tools, but its model {port.name} does not call tools."
            task.emit(Warned, message=message)
        schema = request.output.schema if request.output is not None and port.takes_schema else None
        user = request.user(request.output.instructions if request.output is not None and schema is None else "")
        limits = self._limits.with_rate_limits(*request.rate_limits, request.agent.rate_limit)
        llm = LlmCaller(request.agent, request.description, port, streams=self._streams, limits=limits)
        setting = LoopSetting(
            agent=request.agent,
            task_description=request.description,
            port=port,
            toolbox=self._toolbox(request.tools).plus(request.natives),
            caller=self._caller,
            llm=llm,
            schema=schema,
            approve=request.approve,
            is_fallback=request.is_fallback,
        )
        loop = AgentLoop(setting)
        watch(loop)
        result = await loop.run(request.system, user, task)
        if request.output is None:
            return WorkResult(result.text, result.tool_calls_made)
        reader = _Reader(request, request.output, port, llm, schema)
        text, value = await reader.read(result.text, task, result.turns + 1)
        return WorkResult(text, result.tool_calls_made, value)

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


class _Reader:
    """Reads a reply as a value, and has the agent correct it until it can be read (E16)."""

    def __init__(
        self,
        request: AgentRequest,
        output: OutputFormat,
        port: ChatPort,
        llm: LlmCaller,
        schema: Mapping[str, Any] | None,
    ) -> None:
        self._request = request
        self._output = output
        self._port = port
        self._llm = llm
        self._schema = schema

    async def read(self, text: str, task: SpanEmitter, iteration: int) -> tuple[str, Any]:
        """The reply that could be read, and its value; the next turn has number `iteration`."""
        faults: list[str] = []
        for number in count(iteration):
            try:
                return text, self._output.read(text)
            except ValueError as error:
                faults.append(str(error))
            if len(faults) > self._request.max_output_retries:
                raise OutputParsingError(
                    raw_output=text, output_type=self._output.kind, parse_errors=faults, attempt_count=len(faults)
                )
            text = await self._correct(text, faults[-1], task, number)
        raise AssertionError("unreachable")

    async def _correct(self, previous: str, fault: str, task: SpanEmitter, iteration: int) -> str:
        turn = task.child()
        agent, is_fallback = self._request.agent.role, self._request.is_fallback
        prompt = correction_prompt(previous, fault, self._output.instructions)
        turn.emit(
            TurnStarted,
            agent=agent,
            iteration=iteration,
            is_fallback=is_fallback,
            is_correction=True,
            prompt=prompt,
        )
        status = SpanStatus.ERROR
        try:
            conversation = self._port.open(self._request.system, prompt, (), self._schema)
            reply = await self._llm.ask(conversation, turn)
            status = SpanStatus.OK
        except asyncio.CancelledError:
            status = SpanStatus.CANCELLED
            raise
        finally:
            turn.emit(TurnEnded, status=status)
        return reply.text
