"""One model call: its attempts, their waits, its deadline, and the events of all of them (E30, E38, T2)."""

from __future__ import annotations

import asyncio
from itertools import count

from ensemble_notebook.domain.agent import Agent
from ensemble_notebook.domain.choice import SpanStatus
from ensemble_notebook.domain.event import (
    LlmAttemptEnded,
    LlmAttemptStarted,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallRetried,
    LlmCallStarted,
    LlmToken,
)
from ensemble_notebook.domain.metric import TokenUsage
from ensemble_notebook.domain.model import ChatPort, Conversation, Fault, ModelReply
from ensemble_notebook.engine.call import keep_inside
from ensemble_notebook.engine.retry import retry_delay
from ensemble_notebook.engine.stream import Scope
from ensemble_notebook.errors import AgentExecutionError, DeadlineExceededError, one_line


class LlmCaller:
    """Asks one model for replies on behalf of one agent."""

    def __init__(self, agent: Agent, task_description: str, port: ChatPort, *, streams: bool) -> None:
        self._agent = agent
        self._task_description = task_description
        self._port = port
        self._streams = streams
        self._wait_s: float | None = None

    @property
    def activity(self) -> str:
        """What it is waiting for, in words."""
        if self._wait_s is None:
            return f"a request to {self._port.name}"
        return f"a wait of {self._wait_s:g} s before the next request to {self._port.name}"

    async def ask(self, conversation: Conversation, turn: Scope) -> ModelReply:
        """The next reply.

        Raises:
            AgentExecutionError: no reply, retries included; the origin is its cause (E14).
        """
        scope = turn.child()
        scope.emit(
            LlmCallStarted,
            agent=self._agent.role,
            model=self._port.name,
            provider=self._port.provider,
            max_attempts=self._agent.max_retries + 1,
            is_scripted=self._port.is_scripted,
        )
        tokens = _TokenFeed(scope) if self._streams else None
        try:
            reply = await self._attempts(conversation, scope, tokens)
        except asyncio.CancelledError as stopped:
            scope.emit(LlmCallFailed, error=stopped, status=SpanStatus.CANCELLED)
            raise
        except AgentExecutionError as error:
            scope.emit(LlmCallFailed, error=error.__cause__ or error, status=SpanStatus.ERROR)
            raise
        scope.emit(
            LlmCallCompleted,
            text=reply.text,
            tool_calls=reply.tool_calls,
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
            time_to_first_token_s=None if tokens is None else tokens.first_after_s,
        )
        return reply

    async def _attempts(self, conversation: Conversation, scope: Scope, tokens: _TokenFeed | None) -> ModelReply:
        for attempt in count(1):
            try:
                return await self._attempt(conversation, scope.child(), attempt, tokens)
            except Exception as error:
                fault = self._port.classify(error)
                delay = retry_delay(fault, attempt, self._agent.max_retries)
                if delay is None:
                    raise self._given_up(fault, error, attempt) from error
                scope.emit(LlmCallRetried, attempt=attempt, delay_s=delay, reason=fault.reason, error=error)
            self._wait_s = delay
            await asyncio.sleep(delay)
            self._wait_s = None
        raise AssertionError("unreachable")

    async def _attempt(
        self, conversation: Conversation, scope: Scope, attempt: int, tokens: _TokenFeed | None
    ) -> ModelReply:
        scope.emit(LlmAttemptStarted, attempt=attempt)
        try:
            reply = await self._reply(conversation, tokens)
        except asyncio.CancelledError as stopped:
            scope.emit(LlmAttemptEnded, attempt=attempt, status=SpanStatus.CANCELLED, usage=TokenUsage(), error=stopped)
            raise
        except Exception as error:
            usage = self._port.classify(error).usage
            scope.emit(LlmAttemptEnded, attempt=attempt, status=SpanStatus.ERROR, usage=usage, error=error)
            raise
        scope.emit(LlmAttemptEnded, attempt=attempt, status=SpanStatus.OK, usage=reply.usage)
        return reply

    async def _reply(self, conversation: Conversation, tokens: _TokenFeed | None) -> ModelReply:
        limit = self._agent.llm_timeout
        on_token = None if tokens is None else tokens.put
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                return await keep_inside(conversation.reply(on_token))
        except TimeoutError:
            if not deadline.expired() or limit is None:
                raise
            running = f"a request to {self._port.name} by {self._agent.role!r}"
            raise DeadlineExceededError("model request", limit, running, "Raise the agent's llm_timeout.") from None

    def _given_up(self, fault: Fault, error: Exception, attempts: int) -> AgentExecutionError:
        tries = "" if attempts == 1 else f" after {attempts} attempts"
        reason = str(error) if isinstance(error, DeadlineExceededError) else fault.reason
        if reason == type(error).__name__:  # not a fault that everybody knows by its number
            reason = one_line(error)
        advice = f" {fault.advice}" if fault.advice else ""
        return AgentExecutionError(
            f"Agent {self._agent.role!r} got no reply from {self._port.name}{tries}: {reason.rstrip('.')}.{advice}",
            agent_role=self._agent.role,
            task_description=self._task_description,
        )


class _TokenFeed:
    """Passes streamed text on as events, and remembers when the first piece came."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._asked_at = scope.stream.offset_s()
        self.first_after_s: float | None = None

    def put(self, text: str) -> None:
        """One piece."""
        if self.first_after_s is None:
            self.first_after_s = self._scope.stream.offset_s() - self._asked_at
        self._scope.emit(LlmToken, text=text)
