"""The events of a run as spans of OpenTelemetry's GenAI conventions (T115): one fold for files and live spans.

Knows no library: who writes a file, or has a tracer, takes what this gives. The table of names is in docs/interop.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.outputs.conversation import ChatMessage, ToolCall
from ensemble_notebook.domain.outputs.secrets import mask, mask_values
from ensemble_notebook.domain.planning.graph import HANDLER_ROLE
from ensemble_notebook.domain.text_filter import mask_event
from ensemble_notebook.domain.value_text import mend_text

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
"""The one version whose names these are, which is a name: none of them is stable, so a reader has to know."""
SCOPE: Final = "ensemble_notebook"

USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
"""Our columns of tokens, and the conventions' names."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FINE: Final = frozenset({"ok", "completed", "exited_early", "skipped"})
_BEGINS: Final = (ev.RunStarted, ev.NestedRunStarted, ev.TaskStarted, ev.LlmAttemptStarted, ev.ToolCallStarted)
_TASK_ENDS: Final = (ev.TaskCompleted, ev.TaskFailed, ev.TaskSkipped)
_ENDS: Final = (ev.RunEnded, ev.NestedRunEnded, *_TASK_ENDS, ev.LlmAttemptEnded, ev.ToolCallCompleted)

Message = dict[str, Any]


@dataclass(slots=True)
class GenAiSpan:
    """One span; it has begun, and ended where `end_ns` is there."""

    span_id: str
    """Ours, with a number behind it where that begins once more."""
    parent_id: str | None
    """Likewise; None for the run."""
    name: str
    start_ns: int
    """Since the epoch."""
    is_client: bool
    """It asks another process, as a request of a model does."""
    attributes: dict[str, Any] = field(default_factory=dict)
    end_ns: int | None = None
    error: str | None = None
    """What went wrong; empty where that has no words. None: nothing did."""


class GenAiSpans:
    """Reads the events of one run in order.

    Args:
        has_texts: whether messages, arguments and results are told, as far as the run keeps them.
    """

    def __init__(self, *, has_texts: bool) -> None:
        self._has_texts = has_texts
        self._open: dict[str, GenAiSpan] = {}
        self._begun: dict[str, int] = {}
        self._places: dict[str, str | None] = {}  # of any span of ours the one here that is around its children
        self._calls: dict[str, ev.LlmCallStarted] = {}
        self._answered: dict[str, GenAiSpan] = {}  # by its call, the request whose reply is told a moment later
        self._system: dict[str | None, str] = {}
        self._messages: dict[str | None, list[Message]] = {}

    def read(self, event: ev.Event) -> Sequence[GenAiSpan]:
        """What begins or ends with an event, in order."""
        if isinstance(event, ev.LlmToken):
            return ()  # there are many, and the reply is told whole
        if event.span_id not in self._places:
            self._places[event.span_id] = None if event.parent_id is None else self._places.get(event.parent_id)
        around = self._places[event.span_id]
        if isinstance(event, ev.LlmCallStarted):
            self._calls[event.span_id] = event
            if event.changed is not None and self._has_texts:
                self._set_conversation(around, "", event.changed)
        elif self._has_texts:
            self._hear(event, around)
        if isinstance(event, _BEGINS):
            return self._begin(event)
        if isinstance(event, ev.LlmCallCompleted | ev.LlmCallFailed):
            return self._end_call(event)
        return self._end(event) if isinstance(event, _ENDS) else ()

    def _hear(self, event: ev.Event, task: str | None) -> None:
        """Keep what a model is told by its next request."""
        if isinstance(event, ev.TaskInputPrepared):
            self._set_conversation(task, event.system_prompt, event.earlier)
            self._tell(task, "user", event.user_prompt)
        elif isinstance(event, ev.TurnStarted):
            self._tell(task, "user", event.prompt)
        elif isinstance(event, ev.ToolCallCompleted):
            part = {"type": "tool_call_response", "id": mask(event.tool_call_id), "response": mask(event.result)}
            owner = None if event.parent_id is None else self._places.get(event.parent_id)
            self._messages.setdefault(owner, []).append({"role": "tool", "parts": [part]})

    def _set_conversation(self, task: str | None, system: str, earlier: Sequence[ChatMessage]) -> None:
        told = system or "\n\n".join(each.text for each in earlier if each.role == "system")
        self._system[task] = mask(told)
        written = [_write_message(each) for each in earlier if each.role != "system"]
        self._messages[task] = [mask_values(each) for each in written if each["parts"]]

    def _tell(self, task: str | None, role: str, text: str) -> None:
        if text:
            part = {"type": "text", "content": mask(text)}
            self._messages.setdefault(task, []).append({"role": role, "parts": [part]})

    def _begin(self, event: Any) -> Sequence[GenAiSpan]:
        if isinstance(event, ev.TaskStarted) and event.agent == HANDLER_ROLE:
            return ()  # a function: what it asks hangs under what is around it
        operation, subject, names = self._describe(event)
        parent_id = None if event.parent_id is None else self._places.get(event.parent_id)
        attributes = {key: _clean(value) for key, value in names.items() if value}
        if operation == "chat" and self._has_texts:
            attributes |= self._write_input(self._places.get(event.parent_id))
        begun = self._begun[event.span_id] = self._begun.get(event.span_id, 0) + 1
        span = GenAiSpan(
            event.span_id if begun == 1 else f"{event.span_id}/{begun}",  # a task of a phase that is done again
            parent_id,
            _clean(f"{operation} {subject}".rstrip()),
            _to_ns(event.time),
            operation == "chat",
            {"gen_ai.operation.name": operation, **attributes},
        )
        self._open[event.span_id] = span
        self._places[event.span_id] = span.span_id
        return (span,)

    def _describe(self, event: Any) -> tuple[str, str, dict[str, str | None]]:
        """The operation, what it is done with, and what else is known of it at its begin; not masked."""
        if isinstance(event, ev.RunStarted | ev.NestedRunStarted):
            run_id = event.nested_run_id if isinstance(event, ev.NestedRunStarted) else event.run_id
            facts = {"gen_ai.agent.name": event.name, "gen_ai.conversation.id": run_id}
            return "invoke_workflow", event.name or "", facts
        if isinstance(event, ev.TaskStarted):
            return "invoke_agent", event.agent, {"gen_ai.agent.name": event.agent}
        if isinstance(event, ev.ToolCallStarted):
            arguments = event.arguments if self._has_texts else None
            facts = {"gen_ai.tool.name": event.tool, "gen_ai.tool.call.id": event.tool_call_id}
            return "execute_tool", event.tool, {**facts, "gen_ai.tool.call.arguments": arguments}
        call = self._calls.get(event.parent_id)
        model = "" if call is None else call.model
        facts = {"gen_ai.request.model": model, "gen_ai.provider.name": None if call is None else call.provider}
        return "chat", model, facts

    def _write_input(self, task: str | None) -> dict[str, str]:
        """What a model is told with a request. Masked when it was heard: JSON hides what a key looks like."""
        told = {}
        if system := self._system.get(task):
            told["gen_ai.system_instructions"] = _write([{"type": "text", "content": system}])
        if messages := self._messages.get(task):
            told["gen_ai.input.messages"] = _write(messages)
        return told

    def _end(self, event: Any) -> Sequence[GenAiSpan]:
        span = self._open.pop(event.span_id, None)
        if span is None:
            return ()
        span.end_ns = max(span.start_ns, _to_ns(event.time))
        _set_status(span, event)
        if isinstance(event, ev.LlmAttemptEnded):
            counts = {name: getattr(event.usage, column) for column, name in USAGE.items()}
            span.attributes |= {name: count for name, count in counts.items() if count is not None}
            if event.status is SpanStatus.OK and event.parent_id is not None:
                self._answered[event.parent_id] = span
                return ()
        elif isinstance(event, ev.ToolCallCompleted) and self._has_texts and event.result:
            span.attributes["gen_ai.tool.call.result"] = _clean(event.result)
        return (*self._end_rest(event.time), span) if isinstance(event, ev.RunEnded) else (span,)

    def _end_call(self, event: ev.LlmCallCompleted | ev.LlmCallFailed) -> Sequence[GenAiSpan]:
        """The request that was answered is told now, with its reply."""
        span = self._answered.pop(event.span_id, None)
        if isinstance(event, ev.LlmCallFailed):
            return () if span is None else (span,)
        event = mask_event(event)
        reply = _make_reply(event) if self._has_texts else None
        if reply is not None:
            self._messages.setdefault(self._places[event.span_id], []).append(reply)
        if span is None:
            return ()
        if event.model:
            span.attributes["gen_ai.response.model"] = mend_text(event.model)
        if event.finish_reason:
            span.attributes["gen_ai.response.finish_reasons"] = (mend_text(event.finish_reason),)
        if event.time_to_first_token_s is not None:
            span.attributes["gen_ai.response.time_to_first_chunk"] = event.time_to_first_token_s
        if reply is not None:
            told = {**reply, "finish_reason": event.finish_reason or "stop"}
            span.attributes["gen_ai.output.messages"] = _write([told])
        return (span,)

    def _end_rest(self, time: datetime) -> Sequence[GenAiSpan]:
        """What is open when the run is over, the innermost first."""
        rest = [*self._answered.values()]
        for span in reversed(self._open.values()):
            span.end_ns = max(span.start_ns, _to_ns(time))
            span.attributes["error.type"], span.error = "interrupted", ""
            rest.append(span)
        self._answered.clear()
        self._open.clear()
        return rest

    def list_open(self) -> Sequence[GenAiSpan]:
        """What has begun and has no end yet."""
        return (*self._answered.values(), *self._open.values())


def _set_status(span: GenAiSpan, event: Any) -> None:
    """What failed says with what; `error.type` has few values, as the conventions ask."""
    error: BaseException | None = getattr(event, "error", None)
    status: Any = getattr(event, "status", None)
    if error is None and (status is None or status.value in _FINE):
        return
    span.attributes["error.type"] = status.value if error is None else type(error).__name__
    span.error = "" if error is None else _clean(str(error))


def _make_reply(event: ev.LlmCallCompleted) -> Message | None:
    thought = [{"type": "reasoning", "content": event.reasoning}] if event.reasoning else []
    parts = [*thought, *_write_parts(event.text, event.tool_calls)]
    return {"role": "assistant", "parts": parts} if parts else None


def _write_message(message: ChatMessage) -> Message:
    if message.role == "tool":
        answer = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}
        return {"role": "tool", "parts": [answer]}
    return {"role": message.role, "parts": _write_parts(message.text, message.tool_calls)}


def _write_parts(text: str, calls: Sequence[ToolCall]) -> list[Message]:
    asked = [{"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    return [*([{"type": "text", "content": text}] if text else []), *asked]


def _write(value: Any) -> str:
    return mend_text(json.dumps(value, ensure_ascii=False, default=str))


def _clean(text: str) -> str:
    return mask(mend_text(text))


def _to_ns(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
