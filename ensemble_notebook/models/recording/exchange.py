"""What was asked of a model, as it is compared, and what came of it (E42).

Secrets are masked on both ways in, from the run and from the file, so that what was the same stays the same (T7).
Knows no files and no ports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, ToolCall, ToolSpec


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
        parts.append(RequestPart(f"schema of the tool {tool.name}", _to_masked_json(tool.parameters)))
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


def mask_json(value: Any) -> Any:
    """Mask the secrets in the texts of a JSON value."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(name)): mask_json(each) for name, each in value.items()}
    return [mask_json(each) for each in value] if isinstance(value, list | tuple) else value


def _to_masked_json(value: Any) -> str:
    return json.dumps(mask_json(value), ensure_ascii=False, default=str)
