"""What the drawer shows of one span (W6): the conversation, inputs and outputs, the error. Bounded, and masked (T7)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import shorten
from ensemble_notebook.trace.spans.span import Message, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

LONGEST_TEXT: Final = 20_000
FIRST_MESSAGES: Final = 10
LAST_MESSAGES: Final = 90


def to_details(fold: TraceFold, span_id: str, longest_text: int = LONGEST_TEXT) -> dict[str, Any]:
    """The details message of a span; one that is not in the run gets an error that says so.

    Texts over `longest_text` characters are cut, with a note of how much was left out; so is the middle of a very long
    conversation.
    """
    span = fold.spans.get(span_id)
    if span is None:
        return _make_message(span_id, error={"type": "LookupError", "message": "This run has no such span."})
    output = span.output
    if output is None and span_id in fold.streams:
        output = fold.streams[span_id].read_since(-1)
    return _make_message(
        span_id,
        messages=_to_conversation(_select_messages(fold, span), longest_text),
        input=_shorten_text(
            json.dumps(dict(fold.inputs)) if span is fold.run and fold.inputs else span.input, longest_text
        ),
        output=_shorten_text(output, longest_text),
        error=_describe_error(span),
    )


def _describe_error(span: Span) -> dict[str, str] | None:
    if span.error_type is None:
        return None
    told = [span.error_message or "", "" if span.origin is None else f"at {span.origin}"]
    return {"type": span.error_type, "message": "\n".join(filter(None, told))}


def is_empty(details: dict[str, Any]) -> bool:
    """True where there is nothing to show."""
    return not any(details[key] for key in ("messages", "input", "output", "error"))


def _make_message(span_id: str, **content: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"messages": [], "input": None, "output": None, "error": None}
    return {"kind": "details", "span_id": span_id, **empty, **content}


def _select_messages(fold: TraceFold, span: Span) -> Sequence[Message]:
    """A task has its whole conversation, a turn its part; a call has it up to its reply, an attempt what was sent."""
    messages = fold.messages.get(span.task_id or "", [])
    if span.kind is SpanKind.TASK:
        return messages
    until = math.inf if span.end_seq is None else span.end_seq
    if span.kind is SpanKind.TURN:
        return [each for each in messages if span.seq <= each.seq <= until]
    if span.kind in (SpanKind.LLM, SpanKind.ATTEMPT):
        return [each for each in messages if each.seq <= until]
    return ()


def _to_conversation(messages: Sequence[Message], longest_text: int) -> list[dict[str, Any]]:
    left_out = len(messages) - FIRST_MESSAGES - LAST_MESSAGES
    if left_out <= 0:
        return [_to_chat_message(each, longest_text) for each in messages]
    note = {"role": "system", "name": "left_out", "text": f"[{left_out} messages left out]"}
    first, last = messages[:FIRST_MESSAGES], messages[-LAST_MESSAGES:]
    return [
        *(_to_chat_message(each, longest_text) for each in first),
        note,
        *(_to_chat_message(each, longest_text) for each in last),
    ]


def _to_chat_message(message: Message, longest_text: int) -> dict[str, Any]:
    chat_message: dict[str, Any] = {"role": message.role, "text": shorten(message.text, longest_text)}
    if message.name is not None:
        chat_message["name"] = message.name
    if message.tool_calls:
        chat_message["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": shorten(call.arguments, longest_text)}
            for call in message.tool_calls
        ]
    return chat_message


def _shorten_text(text: str | None, longest_text: int) -> str | None:
    return None if text is None else shorten(text, longest_text)
