"""What odd servers send, put right or refused with the beginning of what they said.

Malformed arguments, usage that can't be, replies without choices, whole replies where a stream was asked for: all who
read a reply come here, our own transport and users' clients alike. Knows the JSON of chat completions; nothing of HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ensemble_notebook.domain.seams.chat_port import REFUSED
from ensemble_notebook.domain.value_text import WrittenFloat, read_float, read_json
from ensemble_notebook.models.openai.kept_fields import note_fields, select_fields
from ensemble_notebook.models.openai.tool_calls import ToolCallPiece, read_calls

# --- Arguments of tool calls that are no JSON object, as a small model writes them: kept as text on their way ---------
#
# LangChain does not check what it parses: it raises over arguments that are a list or a number. So that the model is
# told what was wrong with its call, they have to arrive as they were written.


# Before arguments it makes them no JSON, so that LangChain keeps them as they are, among its invalid tool calls. With
# the bracket it sees at once that no JSON can come of them, in place of trying ever shorter texts.
_MARK: Final = "\ufeff]"


def mark_malformed_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Mark the arguments of the calls in one reply, where one of them is no JSON object.

    All are marked or none: LangChain keeps good and bad calls apart, and their order would be lost.
    """
    if all(map(_is_json_object, arguments)):
        return list(arguments)
    return [f"{_MARK}{each or ''}" for each in arguments]


def unmark_arguments(text: str) -> str:
    """Give arguments the text back that the model wrote."""
    return text.removeprefix(_MARK)


def _read_exactly(text: str) -> float:
    number = read_float(text)
    if isinstance(number, WrittenFloat):
        raise ValueError("LangChain would read another number")
    return number


def _is_json_object(arguments: Any) -> bool:
    try:
        return isinstance(read_json(arguments or "{}", strict=False, parse_float=_read_exactly), dict)
    except (AttributeError, TypeError, ValueError):
        return False


# --- What servers say a reply took: checked where it comes in, before anything adds it up (E65) -----------------------
#
# Counts that are no whole numbers, or contradict each other, are unknown: a budget then keeps what it has reserved.
# Knows OpenAI's form of usage and the sums that hold in any form; nothing of conversations.


# The largest whole number that JSON keeps exact everywhere, the timeline's JavaScript included.
_LARGEST: Final = 2**53
_LONGEST_QUOTE: Final = 200

# Parts of the input as OpenAI calls them, and where DeepSeek, Moonshot, Together, Anthropic and their proxies say them.
_CACHE_NAMES: Final = {
    "cached_tokens": ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"),
    "cache_write_tokens": ("cache_creation_input_tokens",),
}

# What was refused while a reply was read. LangChain has no place for it in its messages, and stands between the server
# and whoever warns.
_refused_usage: ContextVar[list[str] | None] = ContextVar("refused_usage", default=None)


@contextmanager
def collect_refused_usage() -> Iterator[list[str]]:
    """Collect what is refused in here, as texts to quote."""
    refused: list[str] = []
    token = _refused_usage.set(refused)
    try:
        yield refused
    finally:
        _refused_usage.reset(token)


def refuse_usage(usage: Any) -> None:
    """Remember usage that can't be counted, for whoever collects it."""
    refused = _refused_usage.get()
    if refused is None:
        return
    try:
        text = json.dumps(usage, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = type(usage).__name__
    refused.append(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}...")


def check_usage(usage: Any) -> Any:
    """Give back the ``usage`` of a reply in OpenAI's form; None where it can't be counted, and is refused."""
    if isinstance(usage, Mapping):
        read, written = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
        parts = {
            name: value or next(filter(None, map(usage.get, others)), value)
            for (name, others), value in zip(_CACHE_NAMES.items(), _pick(read, *_CACHE_NAMES), strict=True)
        }
        counts = fit_counts(
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            usage.get("total_tokens"),
            input_parts=tuple(parts.values()),
            reasoning=next(iter(_pick(written, "reasoning_tokens"))),
        )
        if counts is not None:
            details = {"prompt_tokens_details": {**(read or {}), **parts}}
            return {**usage, "prompt_tokens": counts[0], "completion_tokens": counts[1], **details}
    refuse_usage(usage)
    return None


def fit_counts(
    input_tokens: Any, output_tokens: Any, total: Any, *, input_parts: tuple[Any, ...], reasoning: Any
) -> tuple[int, int] | None:
    """Give input and output tokens where the counts are whole numbers from 0 to 2^53 that fit together; else None.

    Args:
        input_tokens: must be there.
        output_tokens: must be there.
        total: their sum, or None.
        input_parts: each a part of the input, or None.
        reasoning: a part of the output, or None. Some servers count it beside the output, and what was read from a
            cache beside the input: where the total says so, it is added.
    """
    parts = [part for part in (*input_parts, reasoning, total) if part is not None]
    if not all(type(each) is int and 0 <= each <= _LARGEST for each in (input_tokens, output_tokens, *parts)):
        return None
    if total is not None and reasoning and total == input_tokens + output_tokens + reasoning:
        output_tokens += reasoning
    elif total is not None and total == input_tokens + output_tokens + (beside := sum(filter(None, input_parts))):
        input_tokens += beside
    if total not in (None, input_tokens + output_tokens) or (reasoning or 0) > output_tokens:
        return None
    if any((part or 0) > input_tokens for part in input_parts):
        return None
    return input_tokens, output_tokens


def _pick(details: Any, *names: str) -> tuple[Any, ...]:
    """The parts of a count; something that is none where the details have another shape."""
    if details is None:
        return (None,) * len(names)
    return tuple(details.get(name) for name in names) if isinstance(details, Mapping) else (details,) * len(names)


# --- The body of a reply in one piece: read, whatever a server sends, or refused with the beginning of what it said ---


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


WITHOUT_REASON: Final = "The connection was cut: the stream ended without a finish reason."
NO_PART: Final = "The connection was cut: what came in the stream is no part of a reply."


class BrokenStreamError(ConnectionError):
    """A streamed reply ended before it was whole: a lost connection, whatever the server sent last.

    Attributes:
        is_announced: the server said that this is the end, and only the reason is missing. Servers that never give a
            reason end so, too: a reply in one piece tells which it is.
    """

    def __init__(self, message: str, *, is_announced: bool = False) -> None:
        super().__init__(message)
        self.is_announced = is_announced


# What servers put in place of the choices of a reply where something went wrong, and what they mark it by.
_ERRORS: Final = ("errors", "detail", "error_msg", "error_message", "message", "msg")
_STATUS_MARKS: Final = frozenset({"status", "code", "status_code", "statusCode", "error_code"})
_MARKS: Final = ("object", "type", *_STATUS_MARKS)
_GOOD: Final = (0, 200, "0", "200", "ok", "success")


def find_told_error(said: Mapping[str, Any], *, is_chunk: bool) -> Mapping[str, Any] | None:
    """Find the error that a reply, or a chunk of one, tells though its status is good; None where it tells none.

    Without choices, words alone are an error in a stream; in place of a reply they may as well be another page's.
    """
    told = said.get("error")
    choices = said.get("choices")
    if choices:  # as in all chunks but a few
        first = choices[0] if isinstance(choices, list) else None
        told = told or (first.get("error") if isinstance(first, Mapping) else None)
    elif not told and any(isinstance(said.get(name), str | list) and said[name] for name in _ERRORS):
        marks = [said[name] for name in _MARKS if said.get(name) is not None]
        if any(mark not in _GOOD for mark in marks) or (is_chunk and not marks):
            told = said
    if not told:
        return None
    if isinstance(told, Mapping):
        return told
    status = {name: said[name] for name in _STATUS_MARKS & said.keys() if said[name] not in _GOOD}
    return {**status, "message": told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, default=str)}


servers_without_reasons: Final[set[str]] = set()
"""The addresses whose servers have given a reply in one piece, whose end nobody can doubt, without a finish reason: of
these, a stream that ends in good form may be whole without one."""


def check_chunk(chunk: Mapping[str, Any], request: Any) -> None:
    """Check that a chunk of a stream is a part of a reply.

    Raises:
        openai.APIError: it is an error, which a server that has begun to stream can tell in no other way.
    """
    told = find_told_error(chunk, is_chunk=True)
    if told is None:
        return
    import openai

    message = told.get("message")
    error = openai.APIError(message if isinstance(message, str) else str(told), request=request, body=told)
    raise error from BrokenStreamError(NO_PART)


def unwrap_error(said: Any) -> Any:
    """Give what stands alone in a list, as Google sends an error; all else as it is."""
    return said[0] if isinstance(said, list) and len(said) == 1 else said


def parse_json(text: str | bytes) -> Any:
    """Parse the JSON of a reply, numbers of any length included.

    Raises:
        MalformedReplyError: it is none.
    """
    try:
        return read_json(text, parse_int=_parse_whole_number)
    except ValueError as error:
        raise MalformedReplyError(_to_text(text)) from error


def parse_completion(content: bytes, url: str) -> dict[str, Any]:
    """Parse an unstreamed reply, and put it right where LangChain would raise.

    Args:
        content: of the reply.
        url: where it came from.

    Raises:
        MalformedReplyError: it is no chat completion, and no error that LangChain would tell.
    """
    completion = unwrap_error(parse_json(content))
    if not isinstance(completion, dict):
        raise MalformedReplyError(_to_text(content))
    if (told := find_told_error(completion, is_chunk=False)) is not None:
        return {"error": told}
    choices = completion.get("choices")
    if not isinstance(choices, list) or (choices and not any(map(_is_choice, choices))):
        raise MalformedReplyError(_to_text(content))
    if "usage" in completion:
        completion["usage"] = check_usage(completion["usage"])
    if not choices:
        completion["choices"] = [{"finish_reason": "stop", "message": {"role": "assistant", "content": ""}}]
        return completion
    choice, *others = filter(_is_choice, choices)
    if not choice.get("finish_reason"):
        servers_without_reasons.add(url)
    _correct_choice(choice, others)
    completion["choices"] = [choice]
    return completion


_PLAIN: Final = frozenset({"role", "content", "refusal", "annotations"})


def _correct_choice(choice: dict[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Bring the message of a whole reply into the form that LangChain knows; nobody asks for `others` beside it."""
    message = choice["message"]
    message["role"] = "assistant"
    if not others and message.keys() <= _PLAIN and type(message.get("content")) is str and not message.get("refusal"):
        return  # a text and nothing else, as most are
    blocks = flatten_content(message)
    if message.get("refusal"):
        show_refusal(message)
        choice["finish_reason"] = REFUSED
    calls = choose_calls([(read_calls(each["message"]), each.get("finish_reason")) for each in (choice, *others)])
    for name in ("tool_calls", "function_call"):
        message.pop(name, None)
    if calls:
        message["tool_calls"] = to_whole_calls(calls)
    note_fields(select_fields(message), blocks, calls)
    for name in ("id", "name"):
        if not isinstance(message.get(name), str):
            message.pop(name, None)


def flatten_content(said: dict[str, Any]) -> list[Any]:
    """Make the content of a message, or a piece of one, its text, whatever form it has; give its other parts."""
    content = said.get("content")
    if content is None or isinstance(content, str):
        return []
    texts, refusals, others = [], [], []
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, Mapping):
            texts.append("" if part is None else str(part))
        elif part.get("type") in ("text", "output_text", None):
            texts.append(str(part.get("text") or ""))
        elif part.get("type") == "refusal":
            refusals.append(str(part.get("refusal") or ""))
        else:
            others.append(part)
    said["content"] = "".join(texts)
    if any(refusals):
        said["refusal"] = "".join(refusals)
    return others


def choose_calls(choices: Sequence[tuple[list[ToolCallPiece], Any]]) -> list[ToolCallPiece]:
    """The calls of a reply that came in several choices, each given with its finish reason.

    Some servers put the text into one and the calls into the next. Those of one that was cut off are left out.
    """
    for position, (calls, reason) in enumerate(choices):
        if calls and (position == 0 or reason in (None, "stop", "tool_calls", "function_call")):
            return calls
    return []


def to_whole_calls(calls: Sequence[ToolCallPiece]) -> list[dict[str, Any]]:
    """Convert the calls of one reply to their one form, malformed arguments marked."""
    whole = [call.to_json(index) for index, call in enumerate(calls)]
    marked = mark_malformed_arguments([call["function"]["arguments"] for call in whole])
    for call, arguments in zip(whole, marked, strict=True):
        call["function"]["arguments"] = arguments
    return whole


def show_refusal(said: dict[str, Any]) -> None:
    """Move the words of a refusal to the text of a message, or a piece of one: nobody would hear of them else."""
    words = said.pop("refusal")
    said["content"] = "\n".join(filter(None, [said.get("content"), str(words)]))


def to_chunks(completion: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert an unstreamed reply to the chunks of a stream, for a server that takes no notice of ``stream``.

    Raises:
        ValueError: it is an error; as LangChain raises it of a reply that was asked for in one piece.
    """
    if "error" in completion:
        raise ValueError(completion["error"])
    whole = completion["choices"][0]
    choice = {"index": 0, "delta": whole["message"], "finish_reason": whole.get("finish_reason") or "stop"}
    return [{**completion, "choices": [choice], "usage": None}, {**completion, "choices": []}]


def _is_choice(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def _parse_whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_WHOLE_NUMBER else float(digits)


def _to_text(said: str | bytes) -> str:
    return said if isinstance(said, str) else said.decode(errors="replace")
