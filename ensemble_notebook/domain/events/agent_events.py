"""The events of an agent at work: turns, model calls and their attempts, tool calls."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.outputs.metrics import TokenUsage
from ensemble_notebook.domain.seams.chat_port import ToolCall
from ensemble_notebook.domain.seams.event import Event, event


@event
class TurnStarted(Event):
    """One round of the agent loop: a model reply and the tool calls it asks for. `iteration` counts from 1.

    A correction of a structured output (E16) is a round, too; `prompt` is what it asks, else empty. `is_fallback` where
    a fallback agent is at work.
    """

    agent: str
    iteration: int
    is_fallback: bool = False
    is_correction: bool = False
    prompt: str = ""


@event
class TurnEnded(Event):
    """The round is over."""

    status: SpanStatus


@event
class LlmCallStarted(Event):
    """A reply is asked for. `model` is the name as requested, `provider` who serves it, where known."""

    agent: str
    model: str
    provider: str | None
    max_attempts: int
    is_scripted: bool


@event
class LlmAttemptStarted(Event):
    """One physical request; its span is a child of the call's. `attempt` counts from 1."""

    attempt: int


@event
class LlmToken(Event):
    """A piece of streamed text, in the span of the call."""

    text: str


@event
class LlmAttemptEnded(Event):
    """A physical request is over; the leaf that carries usage, also when it failed (T2)."""

    attempt: int
    status: SpanStatus
    usage: TokenUsage
    error: BaseException | None = None


@event
class LlmCallRetried(Event):
    """Attempt number `attempt` failed for `reason` (``"429"``, ...); the next one follows after `delay_s` seconds."""

    attempt: int
    delay_s: float
    reason: str
    error: BaseException


@event
class LlmCallCompleted(Event):
    """The reply. `model` is the name that the provider gave; `time_to_first_token_s` is None when not streamed."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: TokenUsage
    model: str | None
    finish_reason: str | None
    time_to_first_token_s: float | None


@event
class LlmCallFailed(Event):
    """No reply, retries included; `status` is ERROR, CANCELLED, or SKIPPED where the budget let no request through."""

    error: BaseException
    status: SpanStatus


@event
class ToolCallStarted(Event):
    """A requested tool call begins. `arguments` is the text of its JSON, as the model wrote it where known."""

    agent: str
    tool: str
    tool_call_id: str
    arguments: str


@event
class ToolCallCompleted(Event):
    """A tool call is over.

    `result` is the text that the model got; `error` what the tool raised, if it did; `structured_output` the value that
    a `ToolResult` had beside its text.
    """

    tool: str
    tool_call_id: str
    status: SpanStatus
    outcome: ToolOutcome | None
    result: str
    error: BaseException | None = None
    structured_output: Any = None
