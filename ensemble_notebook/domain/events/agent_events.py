"""The events of an agent at work: turns, model calls and their attempts, tool calls."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.event import Event, event


@event
class TurnStarted(Event):
    """A turn of the agent loop begins: a model reply, and the tool calls that it asks for.

    Attributes:
        agent: role.
        iteration: number of the turn, from 1.
        is_fallback: whether a fallback agent works.
        is_correction: whether the turn asks to correct a structured output.
        prompt: what the correction, or the summary, asks; otherwise empty.
        is_summary: whether it sums up what is left out of an earlier conversation; its number is 0.
    """

    agent: str
    iteration: int
    is_fallback: bool = False
    is_correction: bool = False
    prompt: str = ""
    is_summary: bool = False


@event
class TurnEnded(Event):
    """A turn is over.

    Attributes:
        status: OK, ERROR, CANCELLED, or SKIPPED where a person has ended the run in it.
    """

    status: SpanStatus


@event
class LlmCallStarted(Event):
    """A model is asked for a reply.

    Attributes:
        agent: role.
        model: its name, as requested.
        provider: who serves it; None if unknown.
        max_attempts: the most requests that are made.
        is_scripted: whether the model follows a script.
        rates: the own rates that its requests are priced by; None: the public price list.
    """

    agent: str
    model: str
    provider: str | None
    max_attempts: int
    is_scripted: bool
    rates: CostConfiguration | None = None


@event
class LlmAttemptStarted(Event):
    """A physical request starts. Its span is a child of the call's.

    Attributes:
        attempt: its number, from 1.
    """

    attempt: int


@event
class LlmToken(Event):
    """A piece of a streamed reply, in the span of the call.

    Attributes:
        text: the piece; concatenated, the pieces are the reply with the reasoning that its text begins with.
    """

    text: str


@event
class LlmAttemptEnded(Event):
    """A physical request is over. Usage is counted here, for failed requests too.

    Attributes:
        attempt: its number, from 1.
        status: OK, ERROR or CANCELLED.
        usage: its tokens.
        error: the exception, if it failed.
    """

    attempt: int
    status: SpanStatus
    usage: TokenUsage
    error: BaseException | None = None


@event
class LlmCallRetried(Event):
    """An attempt failed, and another one follows.

    Attributes:
        attempt: number of the failed attempt.
        delay_s: seconds until the next one.
        reason: why, in short, such as ``"429"``.
        error: the exception.
    """

    attempt: int
    delay_s: float
    reason: str
    error: BaseException


@event
class LlmCallCompleted(Event):
    """A model has replied.

    Attributes:
        text: of the reply, without the reasoning that it begins with.
        tool_calls: that it asks for.
        usage: tokens of the successful request; of a reused reply, as in the earlier run.
        model: its name, as the provider gave it; None if it gave none.
        finish_reason: as the provider gave it.
        time_to_first_token_s: seconds; None if the reply was not streamed.
        reused: whether the reply is from an earlier run, so that no request was made.
        reasoning: what the model thought before it; of what stands in the text with its tags, which is the beginning.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: TokenUsage
    model: str | None
    finish_reason: str | None
    time_to_first_token_s: float | None
    reused: bool = False
    reasoning: str = ""


@event
class LlmCallFailed(Event):
    """There is no reply, after all retries.

    Attributes:
        error: the exception.
        status: ERROR, CANCELLED, or SKIPPED if the budget allowed no request.
    """

    error: BaseException
    status: SpanStatus


@event
class ToolCallStarted(Event):
    """A requested tool call begins.

    Attributes:
        agent: role.
        tool: name of the tool.
        tool_call_id: as in the model's reply.
        arguments: JSON text, as the model wrote it if that is known.
    """

    agent: str
    tool: str
    tool_call_id: str
    arguments: str


@event
class ToolCallCompleted(Event):
    """A tool call is over.

    Attributes:
        tool: name of the tool.
        tool_call_id: as in the model's reply.
        status: OK, ERROR, CANCELLED, INTERRUPTED if its end is not known, or SKIPPED if the tool has not heard of it.
        outcome: how it ended; None if it was cancelled, or the run ended before it began.
        result: the text that the model got.
        error: what the tool raised; None if it raised nothing.
        structured_output: the value that a `ToolResult` had beside its text.
        reused: whether the answer is from an earlier run, so that the tool was not called.
    """

    tool: str
    tool_call_id: str
    status: SpanStatus
    outcome: ToolOutcome | None
    result: str
    error: BaseException | None = None
    structured_output: Any = None
    reused: bool = False

    @property
    def is_executed(self) -> bool:
        """Whether it counts as executed: the tool has heard of it in this run."""
        return self.status is not SpanStatus.SKIPPED and not self.reused
