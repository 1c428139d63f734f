"""One answer of a script, as a chat model gives it: words, tool calls, counted tokens, a delay, or an error (E41)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from ensemble_notebook.models.langchain.replies import extract_text
from ensemble_notebook.models.langchain.script import Fail, Reply, ToolUse

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
# Each piece costs some 50 µs on its way to a listener, and a megabyte has 200,000 words.
_MOST_PIECES: Final = 1_000
_PIECE: Final = re.compile(r"\s*\S+|\s+")


class ScriptedReply:
    """One reply of a scripted model.

    Args:
        entry: of the script; no function any more.
        messages: of the request.
        number: of the request, from 1; makes the ids of its tool calls.
        model_name: shown in views.
        max_tokens: what is longer is cut off.

    Attributes:
        error: what is raised in place of a reply, or None.
        delay: seconds.
        text: of the reply.

    Raises:
        TypeError: the entry is none.
    """

    def __init__(
        self, entry: Any, messages: Sequence[BaseMessage], number: int, model_name: str, max_tokens: int | None
    ) -> None:
        self.error: BaseException | None = None
        reply = Reply()
        match entry:
            case str():
                reply = Reply(entry)
            case ToolUse():
                reply = Reply(calls=[entry])
            case Reply():
                reply = entry
            case Fail():
                self.error = entry.exception()
                reply = Reply(delay=entry.delay)
            case BaseException():
                self.error = entry
            case _:
                raise TypeError(f"A script takes texts, Reply, ToolUse and Fail, not {type(entry).__name__}.")
        self.delay = reply.delay
        full = [reply.text, *(_to_json(call.arguments) for call in reply.calls)]
        self.text, *arguments = kept = _cut_to_tokens(full, max_tokens)
        self._calls = [
            (f"call_{number}_{place}", call.name, text)
            for place, (call, text) in enumerate(zip(reply.calls, arguments, strict=False))
        ]
        input_tokens = sum(count_tokens(extract_text(each.content)) for each in messages)
        output_tokens = count_tokens(self.text) + sum(count_tokens(arguments) for _, _, arguments in self._calls)
        self._usage = UsageMetadata(
            input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
        )
        finish_reason = "length" if kept != full else "tool_calls" if self._calls else "stop"
        self._metadata = {"model_name": model_name, "finish_reason": finish_reason, "model_provider": "scripted"}

    def to_result(self) -> ChatResult:
        """Give the reply in one piece, or raise what the script says."""
        if self.error is not None:
            raise self.error
        first, *others = self._make_messages([self.text])  # to add up a piece for each word takes a while
        whole = sum(others, first)
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    def to_chunks(self) -> list[ChatGenerationChunk]:
        """Give the reply word by word, a long one in larger pieces, then its tool calls, then its usage."""
        words = _PIECE.findall(self.text)
        size = -(-len(words) // _MOST_PIECES) or 1
        pieces = ["".join(words[start : start + size]) for start in range(0, len(words), size)]
        return [ChatGenerationChunk(message=each) for each in self._make_messages(pieces)]

    def _make_messages(self, pieces: Sequence[str]) -> list[AIMessageChunk]:
        messages = [AIMessageChunk(content=piece) for piece in pieces]
        messages += [
            AIMessageChunk(
                content="", tool_call_chunks=[ToolCallChunk(name=name, args=arguments, id=identity, index=index)]
            )
            for index, (identity, name, arguments) in enumerate(self._calls)
        ]
        last = AIMessageChunk(
            content="", usage_metadata=self._usage, response_metadata=self._metadata, chunk_position="last"
        )
        return [*messages, last]


def count_tokens(text: str) -> int:
    """Count words and punctuation marks: the same for every script, on every machine."""
    return len(_TOKEN.findall(text))


def _cut_to_tokens(texts: Sequence[str], max_tokens: int | None) -> list[str]:
    """Cut texts to so many tokens in all; those after the end are missing, but for the first."""
    kept: list[str] = []
    rest = max_tokens
    for text in texts:
        ends = [token.end() for token in _TOKEN.finditer(text)]
        if rest is not None and len(ends) > rest:
            return [*kept, text[: ends[rest - 1]]] if rest else (kept or [""])
        kept.append(text)
        rest = None if rest is None else rest - len(ends)
    return kept


def _to_json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
