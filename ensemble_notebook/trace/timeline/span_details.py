"""What the drawer shows of one span (W6): the conversation, inputs and outputs, the error. Bounded, and masked (T7)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.safe_text import shorten
from ensemble_notebook.trace.spans.span import Message, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

LONGEST_TEXT: Final = 20_000
FIRST_MESSAGES: Final = 10
LAST_MESSAGES: Final = 90


def details_of(fold: TraceFold, span_id: str, longest_text: int = LONGEST_TEXT) -> dict[str, Any]:
    """The details message of a span; one that is not in the run gets an error that says so.

    ``attributes`` are what only spans of this kind have, such as the scope of a delegation. Texts over `longest_text`
    characters are cut, with a note of how much was left out; so is the middle of a very long conversation.
    """
    span = fold.spans.get(span_id)
    if span is None:
        return _message(span_id, error={"type": "LookupError", "message": "This run has no such span."})
    output = span.output
    if output is None and span_id in fold.streams:
        output = fold.streams[span_id].since(-1)
    return _message(
        span_id,
        messages=_conversation(_messages(fold, span), longest_text),
        input=_cut(json.dumps(dict(fold.inputs)) if span is fold.run and fold.inputs else span.input, longest_text),
        output=_cut(output, longest_text),
        attributes=None if span.attributes is None else dict(span.attributes),
        error=None if span.error_type is None else {"type": span.error_type, "message": span.error_message or ""},
    )


def is_empty(details: dict[str, Any]) -> bool:
    """True where there is nothing to show."""
    return not any(details[key] for key in ("messages", "input", "output", "error"))


def _message(span_id: str, **content: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"messages": [], "input": None, "output": None, "attributes": None, "error": None}
    return {"kind": "details", "span_id": span_id, **empty, **content}


def _messages(fold: TraceFold, span: Span) -> Sequence[Message]:
    """A task has its whole conversation, a turn its part; a call has it up to its reply, an attempt what was sent."""
    said = fold.messages.get(span.task_id or "", [])
    if span.kind is SpanKind.TASK:
        return said
    until = math.inf if span.end_seq is None else span.end_seq
    if span.kind is SpanKind.TURN:
        return [each for each in said if span.seq <= each.seq <= until]
    if span.kind in (SpanKind.LLM, SpanKind.ATTEMPT):
        return [each for each in said if each.seq <= until]
    return ()


def _conversation(messages: Sequence[Message], longest_text: int) -> list[dict[str, Any]]:
    left_out = len(messages) - FIRST_MESSAGES - LAST_MESSAGES
    if left_out <= 0:
        return [_bubble(each, longest_text) for each in messages]
    note = {"role": "system", "name": "left_out", "text": f"[{left_out} messages left out]"}
    first, last = messages[:FIRST_MESSAGES], messages[-LAST_MESSAGES:]
    return [*(_bubble(each, longest_text) for each in first), note, *(_bubble(each, longest_text) for each in last)]


def _bubble(message: Message, longest_text: int) -> dict[str, Any]:
    bubble: dict[str, Any] = {"role": message.role, "text": shorten(message.text, longest_text)}
    if message.name is not None:
        bubble["name"] = message.name
    if message.tool_calls:
        bubble["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": shorten(call.arguments, longest_text)}
            for call in message.tool_calls
        ]
    return bubble


def _cut(text: str | None, longest_text: int) -> str | None:
    return None if text is None else shorten(text, longest_text)
