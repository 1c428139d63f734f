"""The body of a reply in one piece: read, whatever a server sends, or refused with the beginning of what it said.

Knows the JSON of chat completions; nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.domain.json_text import read_json
from ensemble_notebook.models.openai.malformed_arguments import mark_malformed_arguments
from ensemble_notebook.models.openai.usage_check import check_usage

# Longer numbers are no counts; Python refuses to read those of more than 4,300 digits at all.
_LONGEST_WHOLE_NUMBER: Final = 400


class MalformedReplyError(ValueError):
    """A server answered with something else than a chat completion.

    Attributes:
        said: what it answered, as a text.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    def __str__(self) -> str:
        """Say what was expected; what was said may be long, and is quoted where a person reads it."""
        return "The server's answer is no chat completion."


def parse_json(text: str | bytes) -> Any:
    """Parse the JSON of a reply, numbers of any length included.

    Raises:
        MalformedReplyError: it is none.
    """
    try:
        return read_json(text, parse_int=_parse_whole_number)
    except ValueError as error:
        raise MalformedReplyError(_to_text(text)) from error


def parse_completion(content: bytes) -> dict[str, Any]:
    """Parse an unstreamed reply, and put it right where LangChain would raise.

    Raises:
        MalformedReplyError: it is no chat completion, and no error that LangChain would tell.
    """
    completion = parse_json(content)
    if not isinstance(completion, dict):
        raise MalformedReplyError(_to_text(content))
    if completion.get("error"):
        return completion
    choices = completion.get("choices")
    if not isinstance(choices, list) or not all(map(_is_choice, choices)):
        raise MalformedReplyError(_to_text(content))
    if "usage" in completion:
        completion["usage"] = check_usage(completion["usage"])
    if not choices:
        completion["choices"] = [{"finish_reason": "stop", "message": {"role": "assistant", "content": ""}}]
    for choice in choices:
        calls = choice["message"].get("tool_calls") or ()
        functions = [call["function"] for call in calls if call.get("function")]
        marked = mark_malformed_arguments([function.get("arguments") for function in functions])
        for function, arguments in zip(functions, marked, strict=True):
            function["arguments"] = arguments
    return completion


def to_chunks(completion: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert an unstreamed reply to the chunks of a stream, for a server that takes no notice of ``stream``."""
    choices = completion["choices"]
    message = dict(choices[0]["message"])
    if message.get("tool_calls"):
        message["tool_calls"] = [{**call, "index": index} for index, call in enumerate(message["tool_calls"])]
    choice = {"index": 0, "delta": message, "finish_reason": choices[0].get("finish_reason") or "stop"}
    return [{**completion, "choices": [choice], "usage": None}, {**completion, "choices": []}]


def _is_choice(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def _parse_whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_WHOLE_NUMBER else float(digits)


def _to_text(said: str | bytes) -> str:
    return said if isinstance(said, str) else said.decode(errors="replace")
