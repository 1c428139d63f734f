"""What the drawer shows of one span (W6): the conversation, inputs and outputs, the error. Bounded, and masked (T7)."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.links import find_contexts, find_delegated
from ensemble_notebook.trace.spans.span import Message, Span, find_sent
from ensemble_notebook.trace.spans.span_kinds import SpanKind

LONGEST_TEXT: Final = 20_000
LONG_TEXTS: Final = 20
LONGEST_PIECE: Final = 100_000

Handovers = Mapping[str, Sequence[dict[str, Any]]]
FIRST_MESSAGES: Final = 10
LAST_MESSAGES: Final = 90

_SEQ: Final = attrgetter("seq")


def to_details(
    fold: TraceFold, span_id: str, longest_text: int = LONGEST_TEXT, handovers: Handovers | None = None
) -> dict[str, Any]:
    """The details message of a span; one that is not in the run gets an error that says so.

    Of a text over `longest_text` characters there is the beginning, of one that is still being streamed the end;
    ``lengths`` says how long such texts are, by their fields, and `to_piece` gives the rest. The middle of a very long
    conversation is left out, with a note that says so. Who asks for many spans gives `handovers`, found once for all.
    """
    span = fold.find_span(span_id)
    if span is None:
        return _make_message(span_id, error={"type": "LookupError", "message": "This run has no such span."})
    texts, messages = _Texts(longest_text), _select_messages(fold, span)
    shown = [*messages[:FIRST_MESSAGES], *messages[FIRST_MESSAGES:][-LAST_MESSAGES:]]
    said = _read_texts(fold, span, shown, texts)
    if left_out := len(messages) - len(shown):
        note = {"role": "system", "name": "left_out", "text": f"[{left_out} messages left out]"}
        said["messages"].insert(FIRST_MESSAGES, note)
    error: dict[str, str] | None = None
    if span.error_type is not None:
        told = [span.error_message or "", "" if span.origin is None else f"at {span.origin}"]
        error = {"type": span.error_type, "message": "\n".join(filter(None, told))}
    if handovers is None and span.kind is SpanKind.TASK:
        handovers = index_handovers(fold)
    return _make_message(
        span_id,
        **said,
        error=error,
        lengths=texts.lengths,
        handovers=() if handovers is None or span.kind is not SpanKind.TASK else handovers.get(span_id, ()),
    )


def to_piece(fold: TraceFold, span_id: str, field: str, start: int) -> dict[str, Any]:
    """A piece of one text of a span, from character `start` on; empty where there is no such text."""
    span, texts = fold.find_span(span_id), _Texts(LONGEST_TEXT)
    if span is not None:
        _read_texts(fold, span, _select_messages(fold, span), texts)
    text = texts.whole.get(field) or ""
    piece = text[start : start + LONGEST_PIECE]
    return {"kind": "piece", "span_id": span_id, "field": field, "from": start, "text": piece, "length": len(text)}


def _read_texts(fold: TraceFold, span: Span, messages: Sequence[Message], texts: _Texts) -> dict[str, Any]:
    """The texts of a span and these of its messages, as far as there is room."""
    is_streaming = span.output is None and span.span_id in fold.streams
    return {
        "messages": [_to_chat_message(each, texts) for each in messages],
        "input": texts.begin("input", _read_input(fold, span)),
        "output": (texts.end if is_streaming else texts.begin)("output", _read_output(fold, span)),
    }


class _Texts:
    """Cuts texts to their limit, and notes how long they were. Once all are long together, the limit is short."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._left = longest * LONG_TEXTS
        self.lengths: dict[str, int] = {}
        self.whole: dict[str, str] = {}

    def begin(self, field: str, text: str | None) -> str | None:
        """The beginning of a text."""
        return text and text[: self._measure(field, text)]

    def end(self, field: str, text: str | None) -> str | None:
        """The end of a text."""
        return text and text[-self._measure(field, text) :]

    def _measure(self, field: str, text: str) -> int:
        """How much of it there is room for."""
        self.whole[field] = text
        size = min(len(text), max(self._longest // LONG_TEXTS, min(self._longest, self._left)))
        self._left -= size
        if size < len(text):
            self.lengths[field] = len(text)
        return size


def _read_input(fold: TraceFold, span: Span) -> str | None:
    return json.dumps(dict(fold.inputs)) if span is fold.run and fold.inputs else span.input


def _read_output(fold: TraceFold, span: Span) -> str | None:
    if span.output is None and span.span_id in fold.streams:
        return fold.streams[span.span_id].read()
    return span.output


def index_handovers(fold: TraceFold) -> Handovers:
    """The texts that came to each task from others, or went from it to others, with their lengths."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    tasks = [span for span in fold.spans.values() if span.kind is SpanKind.TASK and span.start_ms is not None]
    for each in (*find_contexts(tasks), *find_delegated(tasks)):
        ends = {"from": each.source.span_id, "to": each.target.span_id}
        for span_id in ends.values():
            found[span_id].append({"kind": each.kind, **ends, "characters": len(each.text or "")})
    return found


def has_details(fold: TraceFold, span: Span) -> bool:
    """Whether there is anything that details would show."""
    return bool(span.error_type or _select_messages(fold, span) or _read_input(fold, span) or _read_output(fold, span))


def _make_message(span_id: str, **content: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(("input", "output", "error"))
    empty: dict[str, Any] = {"messages": [], **unknown, "lengths": {}, "handovers": []}
    return {"kind": "details", "span_id": span_id, **empty, **content}


def _select_messages(fold: TraceFold, span: Span) -> Sequence[Message]:
    """A task has its whole conversation, a turn its part; a call has it up to its reply, an attempt what was sent."""
    messages = fold.messages.get(span.task_id or "", [])
    if span.kind is SpanKind.TASK:
        return messages
    end = len(messages) if span.end_seq is None else bisect_right(messages, span.end_seq, key=_SEQ)
    if span.kind is SpanKind.TURN:
        return messages[bisect_left(messages, span.seq, key=_SEQ) : end]
    if span.kind not in (SpanKind.LLM, SpanKind.ATTEMPT):
        return ()
    start = find_sent(messages[:end])
    return messages[start if start < end and messages[start].is_resent else 0 : end]


def _to_chat_message(message: Message, texts: _Texts) -> dict[str, Any]:
    field = f"message.{message.number}"
    said: dict[str, Any] = {"field": field, "role": message.role, "text": texts.begin(field, message.text)}
    if name := ", ".join(filter(None, [message.name, "not sent" if message.is_left_out else None])):
        said["name"] = name
    if message.reasoning:
        said["reasoning"] = texts.begin(f"{field}.reasoning", message.reasoning)
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": texts.begin(f"{field}.{place}", call.arguments)}
            for place, call in enumerate(message.tool_calls)
        ]
    return said
