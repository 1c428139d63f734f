"""One agent at work, from its prompts to a result: the agent of a task, its fallback, or one that was delegated to.

Knows nothing of tasks in a graph, of gates or of retries by review; whoever makes the request does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ensemble_notebook.domain.events import Warned
from ensemble_notebook.domain.outputs.chat_message import make_conversation
from ensemble_notebook.domain.seams.chat_port import ChatPort
from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.agent.agent_request import AgentRequest, WorkResult
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.prepared_models import PreparedModels
from ensemble_notebook.engine.agent.reply_correction import ReplyCorrector
from ensemble_notebook.engine.agent.toolbox import Toolbox
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.limits.request_limits import RequestLimits
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import AgentExecutionError, summarize_error


class AgentRunner:
    """Gets agents to work; keeps what the agents of one run share.

    Args:
        models: of the run.
        caller: calls tools.
        limits: of all model requests of the run.
        streams: whether replies are streamed, because somebody watches (E17).
        draw: gives a random number from 0 to 1, for the waits between requests (E30).
    """

    def __init__(
        self,
        models: PreparedModels,
        caller: FunctionCaller,
        limits: RequestLimits,
        *,
        streams: bool,
        draw: Callable[[], float],
    ) -> None:
        self.models = models
        self._limits = limits
        self._caller = caller
        self._streams = streams
        self._draw = draw
        self._uncounted_models: set[str] = set()
        self._toolboxes: dict[tuple[int, ...], Toolbox] = {}

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
        user_prompt = request.write_user_prompt(instructions)
        if before is None:
            loop = self._make_loop(request, port, schema)
            if watch is not None:
                watch(loop)
            text = await loop.run(user_prompt, task)
        else:
            loop = before
            text = await loop.revise(user_prompt, task)
        value = None
        if request.write_reminder is not None and loop.tool_call_count < agent.max_iterations:
            text = await self._remind(request.write_reminder(), text, loop, task)
        if output_format is not None:
            corrector = ReplyCorrector(request, output_format, loop, self._caller)
            text, value = await corrector.read(text, task)
        return WorkResult(
            text=text,
            role=agent.role,
            value=value,
            tool_call_count=loop.tool_call_count,
            is_fallback=request.is_fallback,
            messages=make_conversation(request.system_prompt, request.earlier, user_prompt, text),
        )

    def _make_loop(self, request: AgentRequest, port: ChatPort, schema: Mapping[str, Any] | None) -> AgentLoop:
        agent = request.agent
        limits = self._limits.with_rate_limits(*request.rate_limits, agent.rate_limit)
        llm = LlmCaller(
            agent,
            request.description,
            port,
            streams=self._streams,
            draw=self._draw,
            max_retries=request.max_retries,
            limits=limits,
            uncounted_models=self._uncounted_models,
        )
        toolbox = self._get_toolbox(request.tools).with_engine_tools(request.engine_tools)
        return AgentLoop(request, port, llm, toolbox, self._caller, schema)

    async def _remind(self, reminder: str | None, text: str, loop: AgentLoop, task: SpanEmitter) -> str:
        """The final text once the agent was told what is missing; its first one where nothing is.

        A model that fails now has answered before, so its answer stands, and whoever asked for more looks at it.
        """
        if reminder is None:
            return text
        try:
            return await loop.go_on(reminder, task)
        except AgentExecutionError as error:
            task.emit(Warned, message=f"What was missing could not be asked for: {summarize_error(error)}")
            return text

    def _get_toolbox(self, entries: tuple[object, ...]) -> Toolbox:
        key = tuple(map(id, entries))
        if key not in self._toolboxes:
            self._toolboxes[key] = Toolbox(entries)
        return self._toolboxes[key]
