"""One model call made again, as it was made or with a change: asked once, its tools offered and never called (F1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import TaskInputPrepared, Warned
from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.seams.chat_port import ChatPort, Said, ToolSpec, say_again, to_message
from ensemble_notebook.engine.agent.agent_loop import turn_span
from ensemble_notebook.engine.agent.agent_request import AgentRequest, WorkResult
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.errors import EnsembleError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallAgain:
    """The handler of a task that makes a model call again. The engine knows it; nobody else can call it.

    Attributes:
        agent: whose call it is.
        llm: who is asked.
        rates: what that costs; None: by the public price list.
        system, user: with what the conversation begins.
        said: what was said after that.
        tools: that the model is offered.
        schema: the JSON schema that it is held to, where it can be; None for any text.
        output_type: what its reply is read as; None for any text.
    """

    agent: Agent
    llm: Any
    rates: CostConfiguration | None = None
    system: str
    user: str
    said: tuple[Said, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None
    output_type: Any = None

    def __call__(self, _: TaskInput) -> NoReturn:
        """Nobody but a run can make the call.

        Raises:
            EnsembleError: always.
        """
        raise EnsembleError("A call that is made again is no function: only a run can make it.")

    def make_request(self, description: str) -> AgentRequest:
        """What the agent is asked, for errors, retries and prices."""
        return AgentRequest(
            agent=self.agent,
            description=description,
            system_prompt=self.system,
            write_user_prompt=lambda _, __: self.user,
            rates=self.rates,
        )

    async def ask(self, port: ChatPort, llm: LlmCaller, task: SpanEmitter) -> WorkResult:
        """Make the call.

        Raises:
            AgentExecutionError, ModelRefusedError, BudgetExceededError, RateLimitTimeoutError: as `LlmCaller.ask`.
        """
        conversation = port.open(self.system, self.user, self.tools, self.schema if port.has_schema_support else None)
        say_again(conversation, self.said)
        told = [ChatMessage(role="user", text=self.user), *map(to_message, self.said)]
        prompt = told.pop().text if told[-1].role == "user" else ""
        task.emit(
            TaskInputPrepared,
            system_prompt=self.system,
            user_prompt=prompt,
            context=(),
            build_s=0.0,
            earlier=tuple(told),
        )
        with turn_span(task, agent=self.agent.role, iteration=1) as turn:
            reply = await llm.ask(conversation, turn)
        value = None
        if self.output_type is not None and not reply.tool_calls:
            try:
                value = get_output_format(self.output_type).read(reply.text)
            except ValueError as error:
                task.emit(Warned, message=f"A reply is not of the output type: {error}")
        return WorkResult(text=reply.text, role=self.agent.role, value=value)
