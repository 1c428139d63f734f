"""What one agent is asked to do, and what comes of it: the two ends of an agent's work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.definitions.agent import USUAL_RETRY_WAIT_S, Agent
from ensemble_notebook.domain.definitions.amounts import HistoryLimit
from ensemble_notebook.domain.definitions.limits import CostConfiguration, RateLimit
from ensemble_notebook.domain.outputs.conversation import Messages, ShortenedHistory, ToolCall, guess_tokens
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.chat_port import ReviewedRun, ToolAnswer
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.engine.agent.structured_output import OutputFormat
from ensemble_notebook.engine.agent.toolbox import CallToReview, EngineTool
from ensemble_notebook.engine.events.event_stream import SpanEmitter

ToolGate = Callable[[ToolCall, SpanEmitter], Awaitable[ToolCall | ToolAnswer]]
RepeatGate = Callable[[ToolCall, str, SpanEmitter], Awaitable[ToolAnswer | None]]
CallGate = Callable[[CallToReview, ReviewedRun, SpanEmitter], Awaitable[ToolCall | ToolAnswer | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """What one agent is to do, whether a task of the plan or a delegation asks for it.

    Attributes:
        agent: who.
        description: of the task, resolved; for errors.
        system_prompt: complete.
        write_user_prompt: makes the user prompt from the output format that has to stand in it (empty: none), and from
            what is sent of the earlier conversation, for the event of the prompts, which it emits. It is called once,
            as soon as it is known whether the model is held to the format by itself.
        tools: the user's, those of the agent and of the task.
        engine_tools: the engine's own, for delegation and questions.
        output_format: what the reply must be readable as; None for any text.
        max_output_retries: corrections of a reply that is not.
        max_retries: of a request that fails transiently, in place of the agent's; None: the agent's.
        max_retry_wait_s: the longest wait before one of these.
        rate_limits: those of the task. The agent's own are read from the agent.
        approve: looks at each tool call in its span, and gives the call to make, which may be another one, or an
            answer instead; None lets all calls pass.
        ask_again: asks a person whether to make a call again that was begun in the run of this id, and whose end is not
            known; gives None where it is to be made, else an answer instead. None makes such calls again.
        review_call: looks at each call of a reviewed tool in its span, and gives the call to make, which may be another
            one; an answer instead; or None where the rule of the tool asks nobody. Raises `CallLeftPending` where
            nobody answers. Without it, no reviewed tool may be among `tools`.
        mends_calls: whether arguments that are nearly JSON may be mended, as of `fit_arguments`.
        write_reminder: is asked once, when the agent has given its final text; where it gives a text, the agent is told
            so and goes on.
        is_fallback: marks its turns and its result.
        earlier: the conversation that it goes on with, in turns; empty where it begins one.
        history: how much of that is sent; None for all of it.
        count_tokens: counts the tokens of a text, for that.
        rates: what its model costs; None: by the public price list.
    """

    agent: Agent
    description: str
    system_prompt: str
    write_user_prompt: Callable[[str, ShortenedHistory], str]
    tools: tuple[Any, ...] = ()
    engine_tools: tuple[EngineTool, ...] = ()
    output_format: OutputFormat | None = None
    max_output_retries: int = 0
    max_retries: int | None = None
    max_retry_wait_s: float = USUAL_RETRY_WAIT_S
    rate_limits: tuple[RateLimit, ...] = ()
    approve: ToolGate | None = None
    ask_again: RepeatGate | None = None
    review_call: CallGate | None = None
    mends_calls: bool = True
    write_reminder: Callable[[], str | None] | None = None
    is_fallback: bool = False
    earlier: Messages = ()
    history: HistoryLimit | None = None
    count_tokens: Callable[[str], int] = guess_tokens
    rates: CostConfiguration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResult:
    """What came of the work of an agent, or of a handler in place of one.

    This one type goes all the way up from the agent to the task, which makes its `TaskOutput` from it.

    Attributes:
        text: the final reply.
        role: of the agent, or ``"Handler"``.
        value: read from the text, where an output type was asked for.
        tool_call_count: how many tool calls were executed.
        is_fallback: whether it is the fallback's.
        messages: the conversation that it came of; empty where there was none.
    """

    text: str
    role: str
    value: Any = None
    tool_call_count: int = 0
    is_fallback: bool = False
    messages: Messages = ()

    def to_output(
        self, name: str, description: str, span: SpanEmitter, *, tool_call_count: int | None = None
    ) -> TaskOutput:
        """The output of the task with this name and resolved description, as of now; its end is still to come.

        Args:
            name: of the task.
            description: of the task, resolved.
            span: of the task.
            tool_call_count: of the whole task, where more than this work belongs to it.
        """
        declared_role = span.stream.find_declared_role(self.role)
        return TaskOutput(
            name=name,
            raw=mend_text(self.text),
            task_description=description,
            agent_role=self.role,
            completed_at=span.stream.now(),
            duration=span.timer.duration,
            tool_call_count=self.tool_call_count if tool_call_count is None else tool_call_count,
            parsed_output=self.value,
            from_fallback=self.is_fallback,
            messages=self.messages if declared_role is None else (),
            _declared_role=declared_role,
        )
