"""What was asked of a model, as it is compared, and what came of it (E42).

Secrets are masked on both ways in, from the run and from the file, so that what was the same stays the same (T7).
Knows no files and no ports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Self, TypeVar

from ensemble_notebook.domain.definitions.delegation import update_parameters
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.secrets import mask, mask_values
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import ChatPort, Fault, ModelReply, RequestPlaces, ToolSpec


class ReplayedError(Exception):
    """A failure of a recording. Its class has the name of the error that there was.

    Attributes:
        fault: what it meant.
    """

    fault: Fault

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by the name of its class, which is made again."""
        return make_replayed_error, (type(self).__name__, str(self), self.fault)


def make_replayed_error(name: str, message: str, fault: Fault | None = None) -> ReplayedError:
    """Make the error that a recording tells of."""
    error: ReplayedError = type(name, (ReplayedError,), {})(message)
    error.fault = fault or Fault(reason=name, is_transient=False)
    return error


class RequestPart(NamedTuple):
    """One text of a request, with a title that says what it is, in words."""

    title: str
    text: str


ModelRequest = tuple[RequestPart, ...]
"""All that a model was told so far, the name of the model first. Two requests are the same when all texts are."""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request that failed: the type and text of the error, and what it meant."""

    error: str
    message: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class CancelledRequest:
    """A request whose reply nobody waited for any longer."""


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
        is_masked: whether a secret was masked in the reply, so that it is not what the model said.
        task: the path of the task that it was for, where that is kept.
    """

    number: int
    request: ModelRequest
    outcome: Outcome
    pieces: tuple[str, ...]
    seconds: float
    is_masked: bool = False
    task: str | None = None


def make_request(
    llm: str, system: str, user: str, tools: Sequence[ToolSpec], schema: Mapping[str, Any] | None
) -> ModelRequest:
    """Make the request that a conversation begins with."""
    parts = [
        RequestPart("model", llm),
        RequestPart("system message", mask(system)),
        RequestPart("user message", mask(user)),
    ]
    for tool in tools:
        parts.append(RequestPart(f"description of the tool {tool.name}", mask(tool.description)))
        parts.append(
            RequestPart(f"schema of the tool {tool.name}", _to_masked_json(update_parameters(tool.parameters)))
        )
    if schema is not None:
        parts.append(RequestPart("schema of the reply", _to_masked_json(schema)))
    return tuple(parts)


def to_reply_parts(reply: ModelReply) -> ModelRequest:
    """Convert a reply to what it adds to the next request of its conversation."""
    return (RequestPart("earlier reply", mask(reply.text)), *map(to_call_part, reply.tool_calls))


def to_call_part(call: ToolCall) -> RequestPart:
    """Convert a tool call to its part of a request."""
    return RequestPart(f"call of the tool {call.name}", _to_masked_json([call.id, call.arguments]))


def to_result_part(call_id: str, tool: str, text: str) -> RequestPart:
    """Convert the result of a tool call to what it adds to the next request."""
    return RequestPart(f"result of the tool {tool} ({call_id})", mask(text))


def to_user_part(text: str) -> RequestPart:
    """Convert what is said to the model after a reply to what it adds to the next request."""
    return RequestPart("further user message", mask(text))


def _to_masked_json(value: Any) -> str:
    return json.dumps(mask_values(value), ensure_ascii=False, default=str)


# --- Exchanges as the documents of a recording, and back --------------------------------------------------------
#
# The two functions of each pair are inverse, but for secrets. Knows the fields of documents; how they are laid out in a
# file is known to `recording_file`.


# A request can't have taken longer, nor more, than a file may say (E71).
_LONGEST_S: Final = 86_400
_MOST_TOKENS: Final = 2**53
_USAGE_DEFAULTS: Final = {each.name: each.default for each in fields(TokenUsage)}


T = TypeVar("T")


def _leave(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True)
class InlineValue:
    """A value that is written on one line."""

    value: Any


def to_plain(value: Any) -> Any:
    """Convert a document to values of JSON, for those who don't mind how it is laid out; what is none becomes text."""
    if value is None or isinstance(value, str | int | float):  # nearly all are
        return value
    if isinstance(value, InlineValue):
        return to_plain(value.value)
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    return [to_plain(each) for each in value] if isinstance(value, list | tuple) else str(value)


def value_to_plain(value: Any) -> Any:
    """The same for a value of a user, which may hold itself."""
    try:
        return to_plain(value)
    except RecursionError:
        return f"<{type(value).__name__} that holds itself>"


class Form(NamedTuple):
    """How the values of a document are written.

    Attributes:
        mask, mask_value: of a text, and of a JSON value with texts in it.
        inline: marks a value that stands on one line, where it matters how a document is laid out.
    """

    mask: Callable[[str], str]
    mask_value: Callable[[Any], Any]
    inline: Callable[[Any], Any]


FOR_PEOPLE: Final = Form(mask, mask_values, InlineValue)
PLAIN: Final = Form(mask, mask_values, _leave)
UNMASKED: Final = Form(_leave, to_plain, _leave)
"""For those who search much text at once for secrets, and make the document again where there may be one."""


def request_to_document(
    llm: str, system: str, user: str, tools: Sequence[ToolSpec], schema: Mapping[str, Any] | None, form: Form
) -> dict[str, Any]:
    """Convert the request that begins a conversation."""
    document: dict[str, Any] = {"model": llm, "system": form.mask(system), "user": form.mask(user)}
    if tools:
        document["tools"] = [
            {
                "name": tool.name,
                "description": form.mask(tool.description),
                "parameters": form.inline(form.mask_value(tool.parameters)),
            }
            for tool in tools
        ]
    if schema is not None:
        document["schema"] = form.inline(form.mask_value(schema))
    return document


def request_from_document(document: Mapping[str, Any]) -> ModelRequest:
    """Read the request that a document holds."""
    tools = [
        ToolSpec(
            name=read_text(each, "name"),
            description=read_text(each, "description"),
            parameters=each["parameters"],
        )
        for each in document.get("tools", ())
    ]
    return make_request(
        read_text(document, "model"),
        read_text(document, "system"),
        read_text(document, "user"),
        tools,
        document.get("schema"),
    )


def result_to_document(call: ToolCall, text: str | None, form: Form) -> dict[str, Any]:
    """Convert the result of a tool call; without a text where that is written with the call."""
    document = {"call": call.id, "tool": call.name}
    return document if text is None else document | {"text": form.mask(text)}


def outcome_to_document(outcome: Outcome, pieces: Sequence[str], form: Form) -> dict[str, Any]:
    """Convert what came of a request: a ``reply``, a ``fault``, or that it was ``stopped``."""
    if isinstance(outcome, CancelledRequest):
        return {"stopped": True}
    if isinstance(outcome, FailedRequest):
        kind, fault = "fault", outcome.fault
        usage = fault.usage
        facts: dict[str, Any] = {
            "error": outcome.error,
            "message": form.mask(outcome.message),
            "reason": form.mask(fault.reason),
            "is_transient": fault.is_transient,
            "retry_after_s": fault.retry_after_s,
            "has_changed_request": fault.has_changed_request or None,
            "advice": fault.advice,
        }
    else:
        kind, text, usage = "reply", form.mask(outcome.text), outcome.usage
        arguments = [form.mask_value(call.arguments) for call in outcome.tool_calls]
        calls = [
            form.inline({"id": call.id, "name": call.name, "arguments": each})
            for call, each in zip(outcome.tool_calls, arguments, strict=True)
        ]
        is_masked = text != outcome.text or arguments != [call.arguments for call in outcome.tool_calls]
        # Where something is masked, the pieces are those of another text.
        lengths = form.inline([len(piece) for piece in pieces]) if pieces and text == outcome.text else None
        facts = {
            "text": text,
            "tool_calls": calls or None,
            "model": outcome.model,
            "finish_reason": outcome.finish_reason,
            "reasoning": form.mask(outcome.reasoning) if outcome.reasoning else None,
            "pieces": lengths,
            "refused_usage": None if outcome.refused_usage is None else form.mask(outcome.refused_usage),
            "extras": form.inline(form.mask_value(outcome.extras)) if outcome.extras else None,
            "masked": is_masked or None,
        }
    known = {name: value for name, value in facts.items() if value is not None}
    counts = {name: value for name, each in _USAGE_DEFAULTS.items() if (value := getattr(usage, name)) != each}
    return {kind: known | {"usage": form.inline(counts)}}


def outcome_from_document(document: Mapping[str, Any]) -> tuple[Outcome, tuple[str, ...]]:
    """Read the outcome, and the pieces of a streamed reply."""
    if document.get("stopped"):
        return CancelledRequest(), ()
    if (said := document.get("fault")) is not None:
        fault = Fault(
            reason=read_text(said, "reason"),
            is_transient=bool(said["is_transient"]),
            retry_after_s=None if said.get("retry_after_s") is None else read_seconds(said, "retry_after_s"),
            has_changed_request=bool(said.get("has_changed_request")),
            usage=_read_usage(said["usage"]),
            advice=_read_optional_text(said, "advice"),
        )
        error = read_text(said, "error")
        if not error.isidentifier():
            raise ValueError(f"{error!r} is no name of a class of errors")
        return FailedRequest(error, read_text(said, "message"), fault), ()
    said = document["reply"]
    text, extras = read_text(said, "text"), said.get("extras") or {}
    if not isinstance(extras, Mapping):
        raise TypeError(f"extras must be a mapping, got {extras!r}")
    calls = (
        ToolCall(id=read_text(each, "id"), name=read_text(each, "name"), arguments=each["arguments"])
        for each in said.get("tool_calls", ())
    )
    reply = ModelReply(
        text=text,
        tool_calls=tuple(calls),
        usage=_read_usage(said["usage"]),
        model=_read_optional_text(said, "model"),
        finish_reason=_read_optional_text(said, "finish_reason"),
        refused_usage=said.get("refused_usage"),
        reasoning=_read_optional_text(said, "reasoning") or "",
        extras=extras,
    )
    return reply, _split_pieces(text, said.get("pieces", ()))


def read_seconds(document: Mapping[str, Any], name: str) -> float:
    """Read a length of time that a request can have taken, or be made to wait.

    Raises:
        ValueError: it is none; NaN would make a replay wait for ever.
    """
    seconds = float(document[name])
    if not 0 <= seconds <= _LONGEST_S:
        raise ValueError(f"{name} must be from 0 to {_LONGEST_S}, got {document[name]!r}")
    return seconds


def _read_usage(document: Mapping[str, Any]) -> TokenUsage:
    for name, value in document.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
        if not (isinstance(value, str) if name == "source" else is_count or value is None):
            raise ValueError(f"{name} is no number of tokens: {value!r}")
    return TokenUsage(**document)


def _read_optional_text(document: Mapping[str, Any], name: str) -> str | None:
    return None if document.get(name) is None else read_text(document, name)


def _split_pieces(text: str, lengths: Sequence[int]) -> tuple[str, ...]:
    """Split the text into pieces of these lengths; in one piece where somebody has edited the text."""
    if not all(type(each) is int and each >= 0 for each in lengths) or sum(lengths) != len(text):
        return (text,)
    pieces, start = [], 0
    for length in lengths:
        pieces.append(text[start : start + length])
        start += length
    return tuple(pieces)


def read_text(document: Mapping[str, Any], name: str) -> str:
    """Read a text.

    Raises:
        TypeError, ValueError: it is none, or holds half a character.
    """
    value = document[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    value.encode()  # half a character is none, and nobody could write it down again
    return value


# What does not change from day to day: its key in a recording, the attribute, and what it must be. The keys are those
# of the first version, in which two attributes had other names.
_RECORDED_KEYS: Final[Mapping[str, tuple[str, Any]]] = {
    "name": ("name", str),
    "provider": ("provider", str | None),
    "is_scripted": ("is_scripted", bool),
    "calls_tools": ("has_tool_support", bool),
    "takes_schema": ("has_schema_support", bool),
    "max_tokens": ("max_tokens", int | None),
}

_REFUSES: Final = "refuses"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortInfo:
    """The attributes of a `ChatPort`, without the port."""

    name: str
    provider: str | None
    is_scripted: bool
    has_tool_support: bool
    has_schema_support: bool
    max_tokens: int | None
    context_window: int | None = None
    warning: str | None = None
    places: RequestPlaces | None = None
    refused_kinds: Collection[str] = ()

    @classmethod
    def from_port(cls, known: ChatPort | PortInfo, /, **more: Any) -> Self:
        """Read the attributes that a port has now, or had; `more` are those of a class that derives from this."""
        return cls(**{each.name: getattr(known, each.name) for each in fields(PortInfo)}, **more)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PortInfo:
        """Read what `to_document` has written."""
        attributes: dict[str, Any] = {}
        for key, (name, expected) in _RECORDED_KEYS.items():
            if not isinstance(document[key], expected):
                raise TypeError(f"{key} can't be {document[key]!r}")
            attributes[name] = document[key]
        refused = document.get(_REFUSES, [])
        if not isinstance(refused, list) or not all(isinstance(each, str) for each in refused):
            raise TypeError(f"{_REFUSES} can't be {refused!r}")
        return PortInfo(**attributes, refused_kinds=tuple(refused))

    def to_document(self) -> dict[str, Any]:
        """Convert all but the warning and the places, which are for requests that nobody makes in a replay."""
        refused = {_REFUSES: sorted(self.refused_kinds)} if self.refused_kinds else {}
        return {key: getattr(self, name) for key, (name, _) in _RECORDED_KEYS.items()} | refused
