"""What was asked of a model, as it is compared, and what came of it, as it is written down (E42).

Secrets are masked on both ways in, from the run and from the file, so that what was the same stays the same (T7).
Knows no files and no ports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from ensemble_notebook.domain.outputs.metrics import TokenUsage
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, ToolCall, ToolSpec
from ensemble_notebook.models.recording.recording_format import InlineValue

Part = tuple[str, str]
"""What it is, in words, and its text."""

Request = tuple[Part, ...]
"""All that a model was told so far, the name of the model first. Two requests are the same when all texts are."""

_USAGE: Final = {each.name: each.default for each in fields(TokenUsage)}


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """The request failed: the type and text of the error, and what it meant."""

    error: str
    message: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class CancelledRequest:
    """Nobody waited for the reply any longer."""


Outcome = ModelReply | FailedRequest | CancelledRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """A request of a recording, and what came of it.

    Attributes:
        number: in the recording, from 1.
        request: what the model was told.
        outcome: the reply, or what came instead.
        pieces: those in which the reply was streamed; empty where it was not.
        seconds: from the request to the outcome.
    """

    number: int
    request: Request
    outcome: Outcome
    pieces: tuple[str, ...]
    seconds: float


def make_request(
    llm: str, system: str, user: str, tools: Sequence[ToolSpec], schema: Mapping[str, Any] | None
) -> Request:
    """What a conversation begins with."""
    parts = [("model", llm), ("system message", mask(system)), ("user message", mask(user))]
    for tool in tools:
        parts.append((f"description of the tool {tool.name}", mask(tool.description)))
        parts.append((f"schema of the tool {tool.name}", _to_masked_json(tool.parameters)))
    if schema is not None:
        parts.append(("schema of the reply", _to_masked_json(schema)))
    return tuple(parts)


def to_reply_parts(reply: ModelReply) -> Request:
    """What a reply adds to the next request of its conversation."""
    calls = ((f"call of the tool {call.name}", _to_masked_json([call.id, call.arguments])) for call in reply.tool_calls)
    return (("earlier reply", mask(reply.text)), *calls)


def to_result_part(call_id: str, tool: str, text: str) -> Part:
    """What the result of a tool call adds."""
    return f"result of the tool {tool} ({call_id})", mask(text)


def mask_json(value: Any) -> Any:
    """A value as of JSON, with the secrets in its texts masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(name)): mask_json(each) for name, each in value.items()}
    return [mask_json(each) for each in value] if isinstance(value, list | tuple) else value


def _to_masked_json(value: Any) -> str:
    return json.dumps(mask_json(value), ensure_ascii=False, default=str)


# ---------------------------------------------------------------------------------------------------------------------
# As documents: the two functions of each pair are inverse, but for secrets.


def request_to_document(
    llm: str, system: str, user: str, tools: Sequence[ToolSpec], schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The request that begins a conversation."""
    document: dict[str, Any] = {"model": llm, "system": mask(system), "user": mask(user)}
    if tools:
        document["tools"] = [_tool_to_document(tool) for tool in tools]
    if schema is not None:
        document["schema"] = InlineValue(mask_json(schema))
    return document


def request_from_document(document: Mapping[str, Any]) -> Request:
    """The request that was written down."""
    tools = [_tool_from_document(each) for each in document.get("tools", ())]
    return make_request(
        _read_text(document, "model"),
        _read_text(document, "system"),
        _read_text(document, "user"),
        tools,
        document.get("schema"),
    )


def _tool_to_document(tool: ToolSpec) -> dict[str, Any]:
    parameters = InlineValue(mask_json(tool.parameters))
    return {"name": tool.name, "description": mask(tool.description), "parameters": parameters}


def _tool_from_document(document: Mapping[str, Any]) -> ToolSpec:
    description = _read_text(document, "description")
    return ToolSpec(name=_read_text(document, "name"), description=description, parameters=document["parameters"])


def result_to_document(call: ToolCall, text: str) -> dict[str, Any]:
    """The answer to a tool call."""
    return {"call": call.id, "tool": call.name, "text": mask(text)}


def result_from_document(document: Mapping[str, Any]) -> Part:
    """Its part of a request."""
    return to_result_part(_read_text(document, "call"), _read_text(document, "tool"), _read_text(document, "text"))


def outcome_to_document(outcome: Outcome, pieces: Sequence[str]) -> dict[str, Any]:
    """What came of a request: a ``reply``, a ``fault``, or that it was ``stopped``."""
    match outcome:
        case ModelReply():
            return {"reply": _reply_to_document(outcome, pieces)}
        case FailedRequest():
            return {"fault": _failed_to_document(outcome)}
        case CancelledRequest():
            return {"stopped": True}


def outcome_from_document(document: Mapping[str, Any]) -> tuple[Outcome, tuple[str, ...]]:
    """The outcome, and the pieces of a streamed reply."""
    if document.get("stopped"):
        return CancelledRequest(), ()
    if "fault" in document:
        return _failed_from_document(document["fault"]), ()
    return _reply_from_document(document["reply"])


def _failed_to_document(failed: FailedRequest) -> dict[str, Any]:
    fault = failed.fault
    facts = {
        "error": failed.error,
        "message": mask(failed.message),
        "reason": mask(fault.reason),
        "is_transient": fault.is_transient,
        "retry_after_s": fault.retry_after_s,
        "advice": fault.advice,
    }
    return _without_unknown(facts) | {"usage": _usage_to_document(fault.usage)}


def _failed_from_document(document: Mapping[str, Any]) -> FailedRequest:
    fault = Fault(
        reason=_read_text(document, "reason"),
        is_transient=bool(document["is_transient"]),
        retry_after_s=document.get("retry_after_s"),
        usage=TokenUsage(**document["usage"]),
        advice=document.get("advice"),
    )
    return FailedRequest(_read_text(document, "error"), _read_text(document, "message"), fault)


def _reply_to_document(reply: ModelReply, pieces: Sequence[str]) -> dict[str, Any]:
    text = mask(reply.text)
    calls = [
        InlineValue({"id": call.id, "name": call.name, "arguments": mask_json(call.arguments)})
        for call in reply.tool_calls
    ]
    # Where something is masked, the pieces are those of another text.
    lengths = InlineValue([len(piece) for piece in pieces]) if pieces and text == reply.text else None
    facts = {
        "text": text,
        "tool_calls": calls or None,
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "pieces": lengths,
    }
    return _without_unknown(facts) | {"usage": _usage_to_document(reply.usage)}


def _reply_from_document(document: Mapping[str, Any]) -> tuple[ModelReply, tuple[str, ...]]:
    text = _read_text(document, "text")
    calls = (
        ToolCall(id=_read_text(each, "id"), name=_read_text(each, "name"), arguments=each["arguments"])
        for each in document.get("tool_calls", ())
    )
    reply = ModelReply(
        text=text,
        tool_calls=tuple(calls),
        usage=TokenUsage(**document["usage"]),
        model=document.get("model"),
        finish_reason=document.get("finish_reason"),
    )
    return reply, _split_pieces(text, document.get("pieces", ()))


def _split_pieces(text: str, lengths: Sequence[int]) -> tuple[str, ...]:
    """The text in pieces of these lengths; in one piece where somebody has edited the text."""
    if sum(lengths) != len(text):
        return (text,)
    pieces, start = [], 0
    for length in lengths:
        pieces.append(text[start : start + length])
        start += length
    return tuple(pieces)


def _usage_to_document(usage: TokenUsage) -> InlineValue:
    counts = ((name, getattr(usage, name), default) for name, default in _USAGE.items())
    return InlineValue({name: value for name, value, default in counts if value != default})


def _without_unknown(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _read_text(document: Mapping[str, Any], name: str) -> str:
    value = document[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    return value
