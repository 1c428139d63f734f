"""The part of the fold that is about turns, model calls and tool calls: usage, prices, texts, lanes.

Usage and cost are booked once, on the attempt, and added to the sums of everything around it (T2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.limits import CostConfiguration, Price
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.conversation import ChatMessage, ToolCall, write_arguments
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.errors import ToolExecutionError
from ensemble_notebook.trace.folding.event_handlers import EventFold, on, on_open
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.spans.clean_text import StreamedText, clean_text
from ensemble_notebook.trace.spans.span import Message, RequestedCall, Role, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.span_tree import SpanTree, summarize_error, to_ms


class ConversationLog:
    """What agents and models said to each other, task by task (T5), secrets masked (T7).

    Attributes:
        messages: of each task, by its span id, in order.
    """

    def __init__(self) -> None:
        self.messages: dict[str, list[Message]] = {}
        self._count = 0
        self._last = ("", "")

    def add(
        self,
        event: Event,
        span: Span,
        role: Role,
        text: str,
        tool_calls: tuple[RequestedCall, ...] = (),
        reasoning: str = "",
        **earlier: Any,
    ) -> str:
        """Note a message that arose in a span, with what is known of one of an `earlier` run; gives its safe text."""
        safe = self.clean(text)
        self._last = (text, safe)
        message = Message(
            number=self._count,
            span=span,
            seq=event.seq,
            time=event.time,
            role=role,
            text=safe,
            tool_calls=tool_calls,
            reasoning=clean_text(reasoning) if reasoning else None,
            **earlier,
        )
        self._count += 1
        self.messages.setdefault(span.task_id or span.span_id, []).append(message)
        return safe

    def add_earlier(self, event: Event, span: Span, message: ChatMessage, **facts: bool) -> None:
        """Note a message that the model is told of what was said before."""
        known: tuple[Role, ...] = ("system", "assistant", "tool")
        role: Role = message.role if message.role in known else "user"  # a file may say anything (E71)
        calls = tuple(map(to_requested_call, message.tool_calls))
        answered: dict[str, Any] = {"earlier_tool": message.name, "earlier_call_id": message.tool_call_id}
        told: dict[str, Any] = {"is_earlier": True, **answered, **facts}
        self.add(event, span, role, message.text, calls, **told)

    def resend(self, event: Event, span: Span, messages: Iterable[ChatMessage]) -> None:
        """Note all that the model is told from here on, since a fork has changed it."""
        said = {(each.role, each.text) for each in self.messages.get(span.task_id or span.span_id, ())}
        for each in messages:
            was_said = (each.role, clean_text(each.text)) in said
            self.add_earlier(event, span, each, is_earlier=was_said, is_resent=True)

    def clean(self, text: str) -> str:
        """The text as it may be shown. The output of a task mostly is its last message, which is not masked again."""
        raw, safe = self._last
        return safe if text == raw else clean_text(text)


class LanePool:
    """The sub-lanes of one task, for calls that run side by side in it (W1): each gets the lowest one that is free."""

    __slots__ = ("_free", "_opened")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._opened = 0

    def take(self) -> int:
        """The lowest free lane."""
        if self._free:
            return heappop(self._free)
        self._opened += 1
        return self._opened - 1

    def give_back(self, lane: int) -> None:
        """The call on this lane is over."""
        heappush(self._free, lane)


class CallFold(EventFold):
    """Folds the events between the start and the end of a task.

    Attributes:
        streams: text streamed so far, by id of the LLM call; the latest change last.
        is_scripted: True once a script has answered for a model.
        rates: of calls that tell none of their own; None: the public list.
    """

    def __init__(
        self,
        tree: SpanTree,
        log: ConversationLog,
        rates: CostConfiguration | None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self.tree = tree
        self.streams: dict[str, StreamedText] = {}
        self.is_scripted = False
        self._log = log
        self.rates = rates
        self._rates: dict[str, CostConfiguration | None] = {}
        self._prices = prices
        self._lanes: dict[str | None, LanePool] = {}
        self._last_attempts: dict[str, Span] = {}
        self._tool_groups: dict[str | None, tuple[int, float]] = {}
        self._askers: dict[str | None, Span] = {}

    def abandon(self, event: ev.Event, span: Span) -> None:
        """A span never said how it ended: it ignored its cancellation, or its process was gone. It is over anyway."""
        if span.kind is SpanKind.TOOL:
            # It may have done its work, unless a person was still asked whether it should.
            reviews = (each for each in self.tree.open.values() if each.kind is SpanKind.REVIEW)
            if any(each.name == "tool" and each.parent is span for each in reviews):
                span.reason = "the run ended before it began"
                self.tree.end(event, span, SpanStatus.SKIPPED)
            else:
                span.outcome = ToolOutcome.UNKNOWN.value
                self.tree.end(event, span, SpanStatus.INTERRUPTED)
            self._count_tool(span)
            return
        is_cut_off = isinstance(event, ev.RunEnded) and event.is_cut_off
        self.tree.end(event, span, SpanStatus.INTERRUPTED if is_cut_off else SpanStatus.CANCELLED)
        if span.kind is SpanKind.ATTEMPT:
            self._add_usage(span, TokenUsage())
        elif span.kind is SpanKind.LLM:
            self._finish_call(span)

    @on(ev.TurnStarted)
    def _on_turn_started(self, event: ev.TurnStarted) -> None:
        name = "summary of the conversation" if event.is_summary else f"turn {event.iteration}"
        span = self.tree.begin(event, SpanKind.TURN, name, event.agent)
        span.iteration, span.is_fallback = event.iteration, event.is_fallback
        if event.is_correction:
            span.attributes = {"is_correction": True}
        if event.is_summary:
            span.attributes = {"is_summary": True}
        if event.prompt:
            self._log.add(event, span, "user", event.prompt)

    @on_open(ev.TurnEnded)
    def _on_turn_ended(self, event: ev.TurnEnded, span: Span) -> None:
        self.tree.end(event, span, event.status)

    @on(ev.LlmCallStarted)
    def _on_llm_started(self, event: ev.LlmCallStarted) -> None:
        span = self.tree.begin(event, SpanKind.LLM, event.model, event.agent)
        span.model_requested, span.provider = event.model, event.provider
        span.max_attempts, span.is_scripted = event.max_attempts, event.is_scripted
        span.tool_characters = event.tool_characters or None
        span.context_window = event.context_window
        span.lane = self._lanes.setdefault(span.task_id, LanePool()).take()
        self.is_scripted = self.is_scripted or event.is_scripted
        if event.rates is not None:
            self._rates[span.span_id] = event.rates
        if event.changed is not None:
            self._log.resend(event, span, event.changed)

    @on(ev.LlmAttemptStarted)
    def _on_attempt_started(self, event: ev.LlmAttemptStarted) -> None:
        span = self.tree.begin(event, SpanKind.ATTEMPT, f"attempt {event.attempt}")
        span.attempt = event.attempt
        for totals in self.tree.touch_totals_around(span):
            totals.add_attempt()
            totals.llm_call_count += event.attempt == 1  # a call that no budget let through was none
        call = span.parent
        if call is None:
            return
        span.provider, span.model_requested = call.provider, call.model_requested
        span.max_attempts, span.is_scripted, span.lane = call.max_attempts, call.is_scripted, call.lane
        call.attempt = event.attempt
        self._last_attempts[call.span_id] = span
        self.tree.set_status(call, SpanStatus.RUNNING)
        if call.span_id in self.streams:  # what an attempt has streamed before it failed stays
            self._get_stream(call).add(f"\n[attempt {event.attempt}]\n", self.tree.version)

    @on(ev.LlmToken)
    def _on_token(self, event: ev.LlmToken) -> None:
        call = self.tree.open.get(event.span_id)
        if call is None:
            return
        if call.time_to_first_token_ms is None and call.start_ms is not None:
            call.time_to_first_token_ms = to_ms(event.offset_s) - call.start_ms
            self.tree.touch(call)
        self._get_stream(call).add(event.text, self.tree.version)

    @on_open(ev.LlmAttemptEnded)
    def _on_attempt_ended(self, event: ev.LlmAttemptEnded, span: Span) -> None:
        self.tree.end(event, span, event.status, summarize_error(event.error))
        if event.cost is not None:
            span.cost, span.cost_source = event.cost, clean_text(event.cost_source or "")
        self._add_usage(span, event.usage)
        if (call := span.parent) is not None:
            call.latency_ms = span.duration_ms

    @on(ev.LlmCallRetried)
    def _on_llm_retried(self, event: ev.LlmCallRetried) -> None:
        call, attempt = self.tree.open.get(event.span_id), self._last_attempts.get(event.span_id)
        if call is None or attempt is None:
            return
        attempt.backoff_ms, attempt.retry_reason = to_ms(event.delay_s), clean_text(event.reason)
        self.tree.touch(attempt)
        self.tree.set_status(call, SpanStatus.WAITING)
        for totals in self.tree.touch_totals_around(attempt):
            totals.retry_count += 1
            totals.backoff_ms += attempt.backoff_ms

    @on_open(ev.LlmCallCompleted)
    def _on_llm_completed(self, event: ev.LlmCallCompleted, span: Span) -> None:
        self.tree.end(event, span, SpanStatus.OK)
        span.model, span.finish_reason, span.reused = event.model, event.finish_reason, event.reused
        if event.time_to_first_token_s is not None:
            span.time_to_first_token_ms = to_ms(event.time_to_first_token_s)
        span.tool_request_count = len(event.tool_calls)
        self._askers[span.parent_id] = span  # the wait for the tools of a turn is that of the call that asked for them
        if (attempt := self._finish_call(span)) is not None and event.model is not None:
            self._set_served_model(attempt, event.model, event.usage)
        self._rates.pop(span.span_id, None)
        calls = tuple(map(to_requested_call, event.tool_calls))
        span.output = self._log.add(event, span, "assistant", event.text, calls, reasoning=event.reasoning)

    @on_open(ev.LlmCallFailed)
    def _on_llm_failed(self, event: ev.LlmCallFailed, span: Span) -> None:
        self.tree.end(event, span, event.status, summarize_error(event.error))
        self._finish_call(span)
        self._rates.pop(span.span_id, None)

    def _finish_call(self, call: Span) -> Span | None:
        """A model call is over: frees its lane, ends its stream, gives its last attempt."""
        self._lanes[call.task_id].give_back(call.lane)
        if call.span_id in self.streams:
            self._get_stream(call).end(self.tree.version)
        return self._last_attempts.pop(call.span_id, None)

    def _get_stream(self, call: Span) -> StreamedText:
        """The stream of a call, moved to the end of `streams` since it is about to change."""
        stream = self.streams.pop(call.span_id, None) or StreamedText()
        self.streams[call.span_id] = stream
        return stream

    def _add_usage(self, attempt: Span, usage: TokenUsage) -> None:
        attempt.input_tokens, attempt.output_tokens = usage.input_tokens, usage.output_tokens
        attempt.cache_read_tokens, attempt.cache_write_tokens = usage.cache_read_tokens, usage.cache_write_tokens
        attempt.reasoning_tokens = usage.reasoning_tokens
        attempt.tokens_source = None if usage.input_tokens is usage.output_tokens is None else usage.source
        self._set_price(attempt, attempt.model_requested or "", usage)
        for totals in self.tree.touch_totals_around(attempt):
            totals.llm_ms += attempt.duration_ms or 0.0
            totals.add_usage(usage)
            totals.add_cost(attempt.cost)

    def _set_served_model(self, attempt: Span, model: str, usage: TokenUsage) -> None:
        """The reply names the model that wrote it, which is more exact than the name that was asked for."""
        attempt.model = model
        self.tree.touch(attempt)
        before = attempt.cost
        if model == attempt.model_requested or not self._set_price(attempt, model, usage):
            return
        for totals in self.tree.touch_totals_around(attempt):
            totals.take_back_cost(before)
            totals.add_cost(attempt.cost)

    def _set_price(self, attempt: Span, model: str, usage: TokenUsage) -> bool:
        """Price an attempt. Gives False where the price under this name is unknown, and nothing changed."""
        if attempt.cost_source is not None:  # whoever made it has said what it cost
            return False
        at = attempt.end_time or attempt.start_time
        if self._prices is not None:
            price = self._prices.get(attempt.span_id)
        elif at is not None:
            rates, currency = self._rates.get(attempt.parent_id or "", self.rates), self.tree.currency
            price = calculate_price(
                usage, provider=attempt.provider, model=model, at=at, rates=rates, currency=currency
            )
        else:
            price = None
        if price is None:
            return False
        attempt.cost_input, attempt.cost_output, attempt.cost = price.input, price.output, price.total
        return True

    @on(ev.ToolCallStarted)
    def _on_tool_started(self, event: ev.ToolCallStarted) -> None:
        span = self.tree.begin(event, SpanKind.TOOL, event.tool, event.agent)
        span.tool, span.tool_call_id, span.input = event.tool, event.tool_call_id, clean_text(event.arguments)
        span.lane = self._lanes.setdefault(span.task_id, LanePool()).take()
        running, since_ms = self._tool_groups.get(span.parent_id, (0, to_ms(event.offset_s)))
        self._tool_groups[span.parent_id] = (running + 1, since_ms)

    @on_open(ev.ToolCallCompleted)
    def _on_tool_completed(self, event: ev.ToolCallCompleted, span: Span) -> None:
        error = event.error
        if error is None and event.status is SpanStatus.ERROR:  # it did not raise, but told of a failure
            error = ToolExecutionError(event.result, tool_name=event.tool, tool_input="")
        self.tree.end(event, span, event.status, summarize_error(error))
        self._lanes[span.task_id].give_back(span.lane)
        span.outcome, span.reused = event.outcome and event.outcome.value, event.reused
        span.structured_output = event.structured_output
        span.output = self._log.add(event, span, "tool", event.result)
        span.pending = event.pending
        if event.status is SpanStatus.SKIPPED:
            span.reason = (span.output or "").removeprefix("Error: ") or None
        waited_ms = self._leave_tool_group(span)
        asker = self._askers.get(span.parent_id)
        if waited_ms and asker is not None and asker.totals is not None:
            asker.totals.tool_wait_ms += waited_ms
            self.tree.touch(asker)
        self._count_tool(span)
        for totals in self.tree.touch_totals_around(span, is_wait=True):
            totals.tool_wait_ms += waited_ms

    def _count_tool(self, span: Span) -> None:
        if span.is_executed:
            for totals in self.tree.touch_totals_around(span):
                totals.tool_call_count += 1
                totals.tool_ms += span.self_ms or 0.0

    def _leave_tool_group(self, span: Span) -> float:
        """How long the turn has waited for tools, in ms, once the last of those side by side is back; 0 before."""
        running, since_ms = self._tool_groups.pop(span.parent_id)
        if running > 1:
            self._tool_groups[span.parent_id] = (running - 1, since_ms)
            return 0.0
        return (span.end_ms or since_ms) - since_ms


def to_requested_call(call: ToolCall) -> RequestedCall:
    """Make what a trace has of a tool call."""
    return RequestedCall(id=call.id, name=call.name, arguments=clean_text(write_arguments(call.arguments)))
