"""The agent loop: ask, run the tools that the reply asks for, feed back, until a text comes (E10-E14)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.events import ToolCallCompleted, ToolCallStarted, TurnEnded, TurnStarted, Warned
from ensemble_notebook.domain.seams.chat_port import ChatPort, Conversation, ModelReply, ToolCall
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.toolbox import ToolAnswer, Toolbox
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import AgentExecutionError, MaxIterationsExceededError, one_line

WARNINGS_BEFORE_END: Final = 2


ToolApproval = Callable[[ToolCall, SpanEmitter], Awaitable[ToolCall | ToolAnswer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSetting:
    """What one agent loop works with.

    Attributes:
        agent: who.
        task_description: resolved; for errors.
        port: the model.
        toolbox: the tools.
        caller: calls them.
        llm: asks the model.
        schema: the JSON schema that the model is held to natively (E16).
        approve: looks at each tool call in its span: the call to make, which may be another one, or an answer instead.
        is_fallback: marks the turns.
    """

    agent: Agent
    task_description: str
    port: ChatPort
    toolbox: Toolbox
    caller: FunctionCaller
    llm: LlmCaller
    schema: Mapping[str, Any] | None = None
    approve: ToolApproval | None = None
    is_fallback: bool = False


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The final text, how many tool calls were executed, and in how many turns."""

    text: str
    tool_calls_made: int
    turns: int


class AgentLoop:
    """One agent at work on one task."""

    def __init__(self, setting: LoopSetting) -> None:
        self._setting = setting
        self._agent = setting.agent
        self._task_description = setting.task_description
        self._port = setting.port
        self._toolbox = setting.toolbox
        self._llm = setting.llm
        self._tools_at_work = ""
        self._executed = 0
        self._refused = 0

    @property
    def activity(self) -> str:
        """What it is waiting for: tools, or the model."""
        return self._tools_at_work or self._llm.activity

    @property
    def tool_calls_made(self) -> int:
        """How many tool calls were executed by now, whatever came of them and comes of the request."""
        return self._executed

    async def run(self, system: str, user: str, task: SpanEmitter) -> AgentResult:
        """Work until the model replies with a text.

        Raises:
            AgentExecutionError: the model gave no reply, or does not take the tools (E14).
            MaxIterationsExceededError: it went on asking for tools after two warnings (E12).
        """
        conversation = self._open(system, user)
        iteration = 0
        while True:
            iteration += 1
            turn = task.child()
            is_fallback = self._setting.is_fallback
            turn.emit(TurnStarted, agent=self._agent.role, iteration=iteration, is_fallback=is_fallback)
            status = SpanStatus.ERROR
            try:
                reply = await self._llm.ask(conversation, turn)
                for call, answer in await self._tool_turn(reply, turn):
                    conversation.add_tool_result(call, answer.text)
                status = SpanStatus.OK
            except asyncio.CancelledError:
                status = SpanStatus.CANCELLED
                raise
            finally:
                turn.emit(TurnEnded, status=status)
            if not reply.tool_calls:
                return AgentResult(self._final_text(reply, task), self._executed, iteration)

    def _open(self, system: str, user: str) -> Conversation:
        try:
            return self._port.open(system, user, self._toolbox.specs, self._setting.schema)
        except Exception as error:
            raise AgentExecutionError(
                f"Agent {self._agent.role!r} can't begin to talk to {self._port.name}: {one_line(error)}",
                agent_role=self._agent.role,
                task_description=self._task_description,
            ) from error

    def _final_text(self, reply: ModelReply, task: SpanEmitter) -> str:
        if reply.text.strip():
            return reply.text
        task.emit(Warned, message=f"Agent {self._agent.role!r} returned an empty reply for task {task.task!r}.")
        return ""

    async def _tool_turn(self, reply: ModelReply, turn: SpanEmitter) -> list[tuple[ToolCall, ToolAnswer]]:
        """Run the requested calls side by side; answers come back in the order of the requests (E11)."""
        allowed = reply.tool_calls[: max(0, self._agent.max_iterations - self._executed)]
        refused = reply.tool_calls[len(allowed) :]
        self._executed += len(allowed)
        self._tools_at_work = ", ".join(f"tool {call.name}" for call in allowed)
        answers = await _gather([self._execute(call, turn) for call in allowed])
        self._tools_at_work = ""
        answers += [self._refuse(call, turn) for call in refused]
        if self._refused > WARNINGS_BEFORE_END:
            raise MaxIterationsExceededError(
                agent_role=self._agent.role,
                task_description=self._task_description,
                max_iterations=self._agent.max_iterations,
                tool_calls_made=self._executed,
            )
        return list(zip(reply.tool_calls, answers, strict=True))

    async def _execute(self, call: ToolCall, turn: SpanEmitter) -> ToolAnswer:
        span = self._started(call, turn)
        try:
            answer = await self._answer(call, span)
        except asyncio.CancelledError as stopped:
            self._completed(span, call, SpanStatus.CANCELLED, None, "", stopped)
            raise
        except Exception as error:
            self._completed(span, call, SpanStatus.ERROR, ToolOutcome.FAILURE, "", error)
            raise
        status = SpanStatus.OK if answer.outcome is ToolOutcome.SUCCESS else SpanStatus.ERROR
        self._completed(span, call, status, answer.outcome, answer.text, answer.error)
        return answer

    async def _answer(self, call: ToolCall, span: SpanEmitter) -> ToolAnswer:
        approved = call if self._setting.approve is None else await self._setting.approve(call, span)
        if isinstance(approved, ToolAnswer):
            return approved
        return await self._toolbox.answer(approved, self._setting.caller, span)

    def _refuse(self, call: ToolCall, turn: SpanEmitter) -> ToolAnswer:
        """Over the budget: the model is told to stop; after two such answers the task fails (E12)."""
        self._refused += 1
        limit = self._agent.max_iterations
        text = (
            f"STOP: the limit of {limit} tool calls is reached; this call was not made. "
            f"Give your best final answer now, from what you have."
        )
        span = self._started(call, turn)
        self._completed(span, call, SpanStatus.SKIPPED, ToolOutcome.SKIPPED_MAX_ITERATIONS, text, None)
        return ToolAnswer(text, ToolOutcome.SKIPPED_MAX_ITERATIONS)

    def _started(self, call: ToolCall, turn: SpanEmitter) -> SpanEmitter:
        span = turn.child()
        span.emit(
            ToolCallStarted,
            agent=self._agent.role,
            tool=call.name,
            tool_call_id=call.id,
            arguments=_arguments_text(call.arguments),
        )
        return span

    def _completed(
        self,
        span: SpanEmitter,
        call: ToolCall,
        status: SpanStatus,
        outcome: ToolOutcome | None,
        result: str,
        error: BaseException | None,
    ) -> None:
        span.emit(
            ToolCallCompleted,
            tool=call.name,
            tool_call_id=call.id,
            status=status,
            outcome=outcome,
            result=result,
            error=error,
        )


async def _gather(coroutines: list[Any]) -> list[ToolAnswer]:
    """All results in order; one call needs no task of its own. Where one raises, the others are stopped."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _arguments_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
