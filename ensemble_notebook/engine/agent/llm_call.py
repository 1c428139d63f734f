"""One model call: its attempts, their waits and limits, its deadline, and the events of all of them (E30, E38, T2)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from ensemble_notebook.domain import events
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.outputs.conversation import Messages
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.reasoning import describe_place, split_reasoning
from ensemble_notebook.domain.seams.chat_port import (
    REFUSED,
    ChangedRequest,
    ChatPort,
    Conversation,
    Fault,
    ModelReply,
    set_asking_span,
)
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.retry_delay import compute_retry_delay
from ensemble_notebook.engine.budget_reservation import Admission
from ensemble_notebook.engine.events.event_stream import SpanEmitter, find_status
from ensemble_notebook.engine.function_caller import call_safely
from ensemble_notebook.engine.request_limits import RequestLimits
from ensemble_notebook.errors import (
    AgentExecutionError,
    BudgetExceededError,
    DeadlineExceededError,
    EnsembleError,
    ModelRefusedError,
    RateLimitTimeoutError,
    summarize_error,
)

_LONGEST_REFUSAL: Final = 300


class LlmCaller:
    """Asks one model for replies on behalf of one agent.

    Args:
        request: what the agent is to do.
        port: the model.
        limits: of requests.
        draw: gives a random number from 0 to 1, for the waits between requests.
        streams: whether replies are streamed.

    Attributes:
        output_limit: the tokens that the budget allowed the last reply; None where it did not limit it.
        changed: all that a fork has the model told in the last call, in place of what it was; None where it did not.
        tool_characters: how long the descriptions of the tools are that the model is offered.
    """

    def __init__(
        self, request: AgentRequest, port: ChatPort, limits: RequestLimits, draw: Callable[[], float], *, streams: bool
    ) -> None:
        self._rates = request.rates
        self._request = request
        self._agent = request.agent
        self._max_retries = request.agent.max_retries if request.max_retries is None else request.max_retries
        self._port = port
        self._limits = limits
        self._draw = draw
        self._streams = streams
        self.output_limit: int | None = None
        self.changed: Messages | None = None
        self.tool_characters = 0
        self._wait = ""

    @property
    def activity(self) -> str:
        """What it is waiting for, in words."""
        return f"{self._wait}a request to {self._port.name}"

    async def ask(self, conversation: Conversation, turn: SpanEmitter) -> ModelReply:
        """The next reply: that of an earlier run, which costs nothing now, where there is one; else the model's.

        Raises:
            AgentExecutionError: no reply, retries included; the origin is its cause (E14).
            ModelRefusedError: the reply is a refusal.
            BudgetExceededError, RateLimitTimeoutError: a request was not sent, for one of the limits.
        """
        span = turn.child()
        set_asking_span(span.span_id)
        kept, self.changed, failure = None, None, None
        try:
            kept = conversation.take_kept_reply()
        except Exception as error:  # noqa: BLE001 - it is told as one of the request, in the span of that
            failure = error
        if isinstance(kept, ChangedRequest):
            self.changed, self._port = kept.messages, kept.port
            self._rates = None if kept.has_other_model else self._rates
            kept = None
        span.emit(
            events.LlmCallStarted,
            agent=self._agent.role,
            model=self._port.name,
            provider=self._port.provider,
            max_attempts=self._max_retries + 1,
            is_scripted=self._port.is_scripted,
            rates=self._rates,
            changed=self.changed,
            tool_characters=self.tool_characters,
            context_window=self._port.context_window,
        )
        if failure is not None:
            span.emit(events.LlmCallFailed, error=failure, status=find_status(failure))
            raise self._make_final_error(self._classify(failure), failure, 1) from failure
        self._limits.check_sending()
        if kept is not None:
            kept = self._set_reasoning_apart(kept, turn)
            self._emit_completed(kept, span, reused=True)
            return self._check_answer(kept)
        tokens = _TokenFeed(span) if self._streams else None
        try:
            reply = await self._try_until_it_answers(conversation, span, tokens)
        except (asyncio.CancelledError, AgentExecutionError, BudgetExceededError, RateLimitTimeoutError) as error:
            fault = error.__cause__ if isinstance(error, AgentExecutionError) else None
            status = SpanStatus.SKIPPED if isinstance(error, BudgetExceededError) else find_status(error)
            span.emit(events.LlmCallFailed, error=fault or error, status=status)
            raise
        name, limit, taken = self._port.name, self._port.max_tokens or self.output_limit, reply.usage.output_tokens
        if reply.refused_usage is not None:
            message = f"What {name} says that a reply took can't be counted, and is unknown: {reply.refused_usage}"
            turn.emit_once(("usage", name), events.Warned, message=message)
        if limit is not None and taken is not None and taken > limit and not self._port.is_scripted:
            message = (
                f"A reply of {name} took {taken:,} tokens, though it was limited to {limit:,}: its server does not "
                f"keep to max_tokens, and a budget may be passed by as much."
            )
            turn.emit_once(("limit", name), events.Warned, message=message)
        reply = self._set_reasoning_apart(reply, turn)
        self._emit_completed(reply, span, None if tokens is None else tokens.first_after_s)
        return self._check_answer(reply)

    def _set_reasoning_apart(self, reply: ModelReply, turn: SpanEmitter) -> ModelReply:
        """The reply without the reasoning that its text begins with: the conversation has it as it came."""
        reasoning, text = split_reasoning(reply.text)
        if not reasoning:
            return reply
        message = (
            f"What {self._port.name} writes {describe_place(reasoning)} at the beginning of a reply is taken for "
            f"its reasoning: it is shown folded, and is no part of the reply."
        )
        turn.emit_once(("reasoning", self._port.name), events.Noted, message=message)
        return replace(reply, text=text, reasoning="\n\n".join(filter(None, [reply.reasoning, reasoning])))

    def _check_answer(self, reply: ModelReply) -> ModelReply:
        if reply.finish_reason != REFUSED:
            return reply
        words = " ".join(reply.text.split())
        words = words if len(words) <= _LONGEST_REFUSAL else f"{words[:_LONGEST_REFUSAL]}..."
        raise ModelRefusedError(
            f"Agent {self._agent.role!r} got no answer from {self._port.name}: it refused, and said {words!r}. Word "
            f"the task or its inputs differently, or use another model.",
            agent_role=self._agent.role,
            task_description=self._request.description,
        )

    def _emit_completed(
        self, reply: ModelReply, span: SpanEmitter, first_after_s: float | None = None, *, reused: bool = False
    ) -> None:
        span.emit(
            events.LlmCallCompleted,
            text=reply.text,
            tool_calls=reply.tool_calls,
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
            time_to_first_token_s=first_after_s,
            reused=reused,
            reasoning=reply.reasoning,
        )

    async def _try_until_it_answers(
        self, conversation: Conversation, span: SpanEmitter, tokens: _TokenFeed | None
    ) -> ModelReply:
        free = 0  # attempts that only showed what the server does not take
        for attempt in count(1):
            # Before the attempt: a refusal of a limit is no fault of the model, and not tried again.
            self._wait = "a place under the limits for "
            admission = await self._limits.admit(self._port, conversation, span, self._rates)
            self._wait = ""
            self.output_limit = admission.max_tokens
            try:
                return await self._send_attempt(conversation, span.child(), attempt, tokens, admission)
            except Exception as error:
                fault = self._classify(error)
                free += fault.has_changed_request
                delay = compute_retry_delay(
                    fault, attempt - free, self._max_retries, self._draw(), self._request.max_retry_wait_s
                )
                if delay is None:
                    raise self._make_final_error(fault, error, attempt) from error
                span.emit(events.LlmCallRetried, attempt=attempt, delay_s=delay, reason=fault.reason, error=error)
            self._wait = f"a wait of {delay:.3g} s before "
            await asyncio.sleep(delay)
            self._wait = ""
        raise AssertionError("unreachable")

    async def _send_attempt(
        self,
        conversation: Conversation,
        span: SpanEmitter,
        attempt: int,
        tokens: _TokenFeed | None,
        admission: Admission,
    ) -> ModelReply:
        span.emit(events.LlmAttemptStarted, attempt=attempt)
        usage, model = TokenUsage(), None
        heard = 0 if tokens is None else tokens.count
        try:
            reply = await self._get_reply(conversation, tokens, admission.max_tokens)
            usage, model = reply.usage, reply.model
        except (asyncio.CancelledError, Exception) as error:
            if isinstance(error, Exception) and (tokens is None or tokens.count == heard):
                usage = self._classify(error).usage  # else some of it was made, and may be charged for
            span.emit(events.LlmAttemptEnded, attempt=attempt, status=find_status(error), usage=usage, error=error)
            raise
        finally:
            admission.settle(usage, model)
        span.emit(events.LlmAttemptEnded, attempt=attempt, status=SpanStatus.OK, usage=usage)
        return reply

    async def _get_reply(
        self, conversation: Conversation, tokens: _TokenFeed | None, max_tokens: int | None
    ) -> ModelReply:
        limit = self._agent.llm_timeout
        on_token = None if tokens is None else tokens.put
        deadline, work = asyncio.timeout(limit), asyncio.current_task()

        def check_sending() -> None:
            self._limits.check_sending()
            if work is not None and work.cancelling():  # and a callback has kept that to itself
                raise asyncio.CancelledError("the work was stopped")

        try:
            async with deadline:
                ask = functools.partial(
                    conversation.reply, on_token, max_tokens=max_tokens, check_sending=check_sending
                )
                return await call_safely(ask)
        except TimeoutError:
            if not deadline.expired() or limit is None:
                raise
            running = f"a request to {self._port.name} by {self._agent.role!r}"
            raise DeadlineExceededError("model request", limit, running, "Raise the agent's llm_timeout.") from None

    def _classify(self, error: Exception) -> Fault:
        """Say what an error means. Our own errors, that of `llm_timeout` included, are never tried again."""
        if isinstance(error, EnsembleError):
            return Fault(reason=type(error).__name__, is_transient=False)
        return self._port.classify(error)

    def _make_final_error(self, fault: Fault, error: Exception, attempts: int) -> AgentExecutionError:
        tries = "" if attempts == 1 else f" after {attempts} attempts"
        reason = str(error) if isinstance(error, DeadlineExceededError) else fault.reason
        if reason == type(error).__name__:  # the name of a class alone says too little
            reason = summarize_error(error)
        advice = f" {fault.advice}" if fault.advice else ""
        if (asked_s := fault.retry_after_s or 0.0) > self._request.max_retry_wait_s:
            advice += (
                f" It asks to wait for {asked_s:,.1f} s, longer than max_retry_wait, which is "
                f"{self._request.max_retry_wait_s:,.1f} s."
            )
        return AgentExecutionError(
            f"Agent {self._agent.role!r} got no reply from {self._port.name}{tries}: {reason.rstrip('.')}.{advice}",
            agent_role=self._agent.role,
            task_description=self._request.description,
        )


class _TokenFeed:
    """Passes streamed text on as events, and remembers when the first piece came."""

    def __init__(self, span: SpanEmitter) -> None:
        self._span = span
        self._asked_at = span.stream.offset_s()
        self.first_after_s: float | None = None
        self.count = 0

    def put(self, text: str) -> None:
        """Emit one piece of the text."""
        if self.first_after_s is None:
            self.first_after_s = self._span.stream.offset_s() - self._asked_at
        self.count += 1
        self._span.emit(events.LlmToken, text=text)
