"""A streamed reply of one of our own models, read without LangChain's stream.

Why: for each chunk LangChain makes and validates several objects, and for each stream as many again, which takes more
than the request. Where a model has no callbacks, nobody but us hears of the chunks. What a request holds and what a
whole reply means is still LangChain's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ensemble_notebook.models.openai.chat_openai_adapter import (
    find_completions,
    has_convertible_payload,
    is_responses_api_used,
    make_message,
    make_payload,
)
from ensemble_notebook.models.openai.chat_transport import ChatTransport

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


def can_stream_directly(model: Any, options: dict[str, Any]) -> bool:
    """Whether a model sends through our own transport, and its stream is one of chat completions."""
    return (
        isinstance(find_completions(model), ChatTransport)
        and has_convertible_payload(model)
        and not is_responses_api_used(model, options)
    )


async def stream_directly(
    model: Any, messages: Sequence[BaseMessage], options: dict[str, Any], on_token: Callable[[str], None]
) -> AIMessage:
    """Ask for a reply; `on_token` hears of each piece of its text as it comes.

    Raises:
        MalformedReplyError: the server sent no reply.
        openai.APIError: it refused, can't be reached, or was cut.
    """
    asked = {**options, "stream": True, "stream_options": {"include_usage": True}}
    reply = _Reply()
    transport: Any = find_completions(model)
    async with await transport.create(**make_payload(model, messages, asked)) as chunks:
        async for chunk in chunks:
            if text := reply.take(chunk):
                on_token(text)
    return make_message(model, reply.to_completion())


class _Reply:
    """One reply, put together from its chunks."""

    def __init__(self) -> None:
        self._last_chunk: dict[str, Any] = {}
        self._texts: list[str] = []
        self._calls: list[Any] = []
        self._finish_reason: str | None = None
        self._usage: Any = None

    def take(self, chunk: dict[str, Any]) -> str:
        """Take in a chunk; give the text in it."""
        self._last_chunk = chunk
        # Servers that tell it with each chunk tell the sum so far.
        self._usage = chunk.get("usage") or self._usage
        choice: dict[str, Any] = next(iter(chunk.get("choices") or ()), {})
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta") or {}
        self._calls += delta.get("tool_calls") or ()  # all of them come whole, in the last chunk
        text: str = delta.get("content") or ""
        if text:
            self._texts.append(text)
        return text

    def to_completion(self) -> dict[str, Any]:
        """The same as a reply in one piece."""
        message = {"role": "assistant", "content": "".join(self._texts), "tool_calls": self._calls}
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._last_chunk, "choices": [choice], "usage": self._usage}
