"""One agent at work, from its prompts to a result: the agent of a task, its fallback, or one that was delegated to.

Knows nothing of tasks in a graph, of gates or of retries by review; whoever makes the request does.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ensemble_notebook.domain.events import Warned
from ensemble_notebook.domain.outputs.conversation import (
    NO_HISTORY,
    ShortenedHistory,
    shorten_history,
)
from ensemble_notebook.domain.seams.chat_port import ChatPort
from ensemble_notebook.engine.agent.agent_loop import AgentLoop, turn_span
from ensemble_notebook.engine.agent.agent_request import AgentRequest, WorkResult
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.preparation import PreparedModels, PreparedTools
from ensemble_notebook.engine.agent.prompts import ONLY_REASONING, SUM_UP, write_correction_prompt, write_summary_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat
from ensemble_notebook.engine.agent.toolbox import Toolbox
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.request_limits import RequestLimits
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.errors import AgentExecutionError, summarize_error

# A longer reply is read on a thread: it takes a while, in which the run can be stopped (E67).
LONG_REPLY: Final = 100_000


class AgentRunner:
    """Gets agents to work; keeps what the agents of one run share.

    Args:
        services: of the run.
        models: of the run.
        limits: of all model requests of the run.
        tools: opens tools that are behind connections.
        ask: puts their questions to the person, with the role of the agent that called: see `AskInSpan`.
    """

    def __init__(
        self,
        services: RunServices,
        models: PreparedModels,
        limits: RequestLimits,
        tools: PreparedTools,
        ask: Callable[[str, str, str, SpanEmitter], Awaitable[str | None]],
    ) -> None:
        self.models = models
        self._services = services
        self._limits = limits
        self._tools = tools
        self._ask = ask
        self._toolboxes: dict[tuple[object, ...], Toolbox] = {}

    async def run(
        self,
        request: AgentRequest,
        port: ChatPort,
        task: SpanEmitter,
        watch: Callable[[AgentLoop], None] | None = None,
        before: AgentLoop | None = None,
    ) -> WorkResult:
        """Have an agent do what is asked of it.

        Args:
            request: what it is to do.
            port: of its model.
            task: the span around its turns.
            watch: given the loop of the agent before it begins.
            before: its loop at the attempt before, in whose conversation it goes on; None where it begins one.

        Raises:
            AgentExecutionError, MaxIterationsExceededError: as `AgentLoop.run`.
            OutputParsingError: no reply was of the output type, corrections included.
        """
        agent, output_format = request.agent, request.output_format
        if (request.tools or request.engine_tools) and not port.has_tool_support:
            message = f"Agent {agent.role!r} has tools, but its model {port.name} does not call tools."
            task.emit(Warned, message=message)
        schema = output_format.schema if output_format is not None and port.has_schema_support else None
        instructions = output_format.instructions if output_format is not None and schema is None else ""
        if before is None:
            history = await self._shorten(request, port, task)
            user_prompt = request.write_user_prompt(instructions, history)
            tools = await self._tools.open(request.tools, agent, request.description, task)
            key = (agent.role, *map(id, tools))
            if key not in self._toolboxes:
                self._toolboxes[key] = Toolbox(tools, functools.partial(self._ask, agent.role))
            toolbox = self._toolboxes[key].with_engine_tools(request.engine_tools)
            llm = self.make_llm(request, port)
            loop = AgentLoop(request, history, port, llm, toolbox, self._services, schema)
            if watch is not None:
                watch(loop)
            text = await loop.run(user_prompt, task)
        else:
            loop = before
            user_prompt = request.write_user_prompt(instructions, NO_HISTORY)
            text = await loop.revise(user_prompt, task)
        value = None
        reminder = request.write_reminder() if request.write_reminder is not None and loop.has_calls_left else None
        if reminder is not None:  # where it can't be asked for, the answer is what is there
            try:
                text = await loop.go_on(reminder, task)
            except AgentExecutionError as error:
                task.emit(Warned, message=f"What was missing could not be asked for: {summarize_error(error)}")
        if output_format is not None:
            text, value = await self._correct(request, output_format, loop, text, task)
        return WorkResult(
            text=text,
            role=agent.role,
            value=value,
            tool_call_count=loop.tool_call_count,
            is_fallback=request.is_fallback,
            messages=loop.make_conversation(user_prompt, text),
        )

    async def _shorten(self, request: AgentRequest, port: ChatPort, task: SpanEmitter) -> ShortenedHistory:
        """What is sent of the earlier conversation; where that is wanted, with a summary of what is left out."""
        limit = request.history
        if limit is None or not request.earlier:
            return ShortenedHistory(request.earlier)
        history = shorten_history(request.earlier, turns=limit.turns, tokens=limit.tokens, count=request.count_tokens)
        if not history.left_out or not limit.is_summarised:
            return history
        # By the same model, in a turn of its own.
        prompt = write_summary_prompt(history.left_out)
        try:
            with turn_span(task, agent=request.agent.role, iteration=0, prompt=prompt, is_summary=True) as turn:
                reply = await self.make_llm(request, port).ask(port.open("", prompt), turn)
        except AgentExecutionError as error:
            message = f"What is left out of the conversation was not summed up: {summarize_error(error)}"
            task.emit(Warned, message=message)
            return history
        if not (text := reply.text.strip()):
            task.emit(Warned, message="What is left out of the conversation was not summed up: the reply has no text.")
            return history
        return history.with_summary(SUM_UP, text)

    def make_llm(self, request: AgentRequest, port: ChatPort) -> LlmCaller:
        """What asks a model for an agent, within its limits and those of the run."""
        limits = self._limits.with_rate_limits(*request.rate_limits, request.agent.rate_limit)
        streams = self._services.spec.streams or self._services.span.stream.is_watched
        return LlmCaller(request, port, limits, self._services.draw, streams=streams)

    async def _correct(
        self, request: AgentRequest, output_format: OutputFormat, loop: AgentLoop, text: str, task: SpanEmitter
    ) -> tuple[str, Any]:
        """The reply that could be read, and its value; of one that was cut off, only where all of it is the value.

        Raises:
            OutputParsingError: no reply was of the output type, corrections included, or one was cut off.
            AgentExecutionError, MaxIterationsExceededError: as `AgentLoop.go_on`.
        """
        faults: list[str] = []
        while True:
            try:
                if loop.is_only_reasoning:
                    raise ValueError(ONLY_REASONING)
                read = output_format.read if loop.cut is None else output_format.read_whole
                if len(text) <= LONG_REPLY:
                    return text, read(text)
                return text, await self._services.caller.call(
                    f"reading a reply of {len(text):,} characters", read, text
                )
            except ValueError as error:
                faults.append(str(error))
            if loop.cut is not None:  # asked again, the model would be cut off again
                faults[-1] = f"it was cut off: {loop.cut}"
                raise output_format.make_error(text, faults, advice="")
            if len(faults) > request.max_output_retries:
                raise output_format.make_error(text, faults)
            prompt = write_correction_prompt(faults[-1], output_format.instructions, self._services.spec.texts)
            text = await loop.go_on(prompt, task, is_correction=True)
