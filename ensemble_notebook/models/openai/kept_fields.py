"""What a thinking model says beside its text, kept for the next requests of the same tool loop, as it wants it (E10).

``reasoning_content``, ``reasoning_details``, blocks of reasoning in the content, what stands on a call beside its
function: langchain-openai has no place for them, so that they go past it. Knows the JSON of chat completions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ensemble_notebook.models.openai.tool_calls import ToolCallPiece, join_fields

KEPT: Final = "ensemble_kept"
"""Where a LangChain message has them, among its ``additional_kwargs``, which langchain-openai does not send."""

_KEPT_NAMES: Final = re.compile(r"reasoning|think|thought|signature|^extra_content$|^provider_specific_fields$")
_COMMON: Final = frozenset({"role", "content", "tool_calls", "refusal", "annotations", "function_call", "audio"})


@dataclass(slots=True)
class KeptFields:
    """Of a request that is made inside of it (``with``), and of its reply.

    Attributes:
        sent: of each reply since somebody last spoke to the model, in order; empty where a reply had none.
        received: of the reply, when it is whole.
    """

    sent: Sequence[Mapping[str, Any]]
    received: dict[str, Any] = field(default_factory=dict)
    _token: Token[KeptFields | None] | None = None

    def __enter__(self) -> Self:
        """Begin to send and to collect."""
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        assert self._token is not None
        _current.reset(self._token)


_current: ContextVar[KeptFields | None] = ContextVar("kept_fields", default=None)


def note_fields(fields: Mapping[str, Any], blocks: Sequence[Any], calls: Sequence[ToolCallPiece]) -> None:
    """Note what a whole reply has, for whoever collects it.

    Args:
        fields: of its message.
        blocks: of its content, other than text.
        calls: all of it.
    """
    current = _current.get()
    if current is None:
        return
    current.received.clear()
    current.received.update(fields)
    if blocks:
        current.received["content"] = list(blocks)
    if any(call.extras for call in calls):
        current.received["tool_calls"] = [call.extras for call in calls]


def select_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Select the fields of a message, or a piece of one, that are to be kept."""
    rest = message.keys() - _COMMON
    return {name: message[name] for name in rest if message[name] is not None and _KEPT_NAMES.search(name)}


def put_back(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the last replies of a request what they had when they came; the messages that are given stay as they are."""
    current = _current.get()
    if current is None or not any(current.sent):
        return messages
    made, rest = list(messages), list(current.sent)
    for position in reversed(range(len(made))):
        if rest and made[position].get("role") == "assistant" and (fields := rest.pop()):
            made[position] = _join(made[position], fields)
    return made


def _join(message: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**message, **{name: value for name, value in fields.items() if name not in ("content", "tool_calls")}}
    if blocks := fields.get("content"):
        text = message.get("content")
        joined["content"] = [*blocks, *([{"type": "text", "text": text}] if text else ())]
    if extras := fields.get("tool_calls"):
        calls = message.get("tool_calls") or ()
        joined["tool_calls"] = [join_fields(each) for each in zip(calls, extras, strict=True)]
    return joined
