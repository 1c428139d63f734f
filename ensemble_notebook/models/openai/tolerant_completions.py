"""The chat completions of a user's ``openai.AsyncOpenAI`` client, as langchain-openai calls them: more forgiving.

Stands between the two, below LangChain's callbacks and above HTTP. What is sent is the same to the byte but for the
order of the fields; replies that would make LangChain raise come out as what they are.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final, Self

from ensemble_notebook.models.openai.malformed_arguments import mark_malformed_arguments
from ensemble_notebook.models.openai.reply_body import MalformedReplyError, parse_completion, to_chunks
from ensemble_notebook.models.openai.streamed_calls import StreamedCalls
from ensemble_notebook.models.openai.streamed_reply import is_event_stream
from ensemble_notebook.models.openai.usage_check import check_usage

_WHOLE_TYPE: Final = re.compile(r"json|html")


class TolerantCompletions:
    """Takes the place of ``AsyncOpenAI.chat.completions``; whatever is not defined here is the client's own.

    Why not our own transport, as for our own specs: the client is the user's, with headers, hooks and addresses that
    only it knows.
    """

    def __init__(self, completions: Any) -> None:
        self._completions = completions
        self.with_raw_response = _TolerantRawCompletions(completions.with_raw_response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)

    async def create(self, **payload: Any) -> Any:
        """Ask for a reply; streamed ones come from here."""
        reply = await self._completions.create(**_move_messages(payload))
        return _TolerantStream(reply) if payload.get("stream") else reply


class _TolerantStream:
    """A stream of chunks, which may turn out to be a reply in one piece."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)

    async def __aiter__(self) -> AsyncIterator[Any]:
        response = getattr(self._stream, "response", None)
        if response is not None and _WHOLE_TYPE.search(response.headers.get("content-type", "")):
            content = await response.aread()  # kept there, for the stream that it may still be
            if not is_event_stream(content):
                for chunk in to_chunks(parse_completion(content)):
                    yield chunk
                return
        calls = StreamedCalls()
        async for chunk in self._stream:
            _check_usage(chunk)
            # As LangChain does it, too, unless it is a dict.
            yield calls.take(chunk if isinstance(chunk, dict) else chunk.model_dump(warnings=False))
        for chunk in calls.finish():
            yield chunk


class _TolerantRawCompletions:
    """Unstreamed replies come from here."""

    def __init__(self, completions: Any) -> None:
        self._completions = completions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)

    async def create(self, **payload: Any) -> _TolerantResponse:
        return _TolerantResponse(await self._completions.create(**_move_messages(payload)))


class _TolerantResponse:
    """A reply of the server, put right when it is parsed."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def parse(self) -> Any:
        try:
            completion = self._response.parse()
        except (ValueError, RecursionError) as error:
            raise MalformedReplyError(self._response.text) from error
        choices = getattr(completion, "choices", None)
        # The openai package checks nothing: it gives a text for what is no JSON, and whatever object else.
        if not getattr(completion, "error", None) and not (isinstance(choices, list) and all(map(_is_choice, choices))):
            raise MalformedReplyError(self._response.text)
        _check_usage(completion)
        if choices == []:
            completion.choices = [_make_empty_choice()]
        for choice in choices or ():
            calls = choice.message.tool_calls or ()
            functions = [call.function for call in calls if hasattr(call, "function")]
            marked = mark_malformed_arguments([function.arguments for function in functions])
            for function, arguments in zip(functions, marked, strict=True):
                function.arguments = arguments
        return completion


def _is_choice(choice: Any) -> bool:
    return hasattr(getattr(choice, "message", None), "tool_calls")


def _move_messages(payload: dict[str, Any]) -> dict[str, Any]:
    """Move the messages of a payload to where the client does not walk through them.

    They are plain JSON already. The walk costs half a millisecond a message, again on every turn of a conversation.
    """
    extra = payload.get("extra_body") or {}
    if "messages" not in payload or "messages" in extra:
        return payload
    return payload | {"messages": [], "extra_body": extra | {"messages": payload["messages"]}}


def _check_usage(reply: Any) -> None:
    """Take usage that can't be counted out of a reply or chunk (E65)."""
    usage = getattr(reply, "usage", None)
    if usage is None:
        return
    counts = usage.model_dump(warnings=False) if hasattr(usage, "model_dump") else usage
    checked = check_usage(counts)
    if checked is None:
        reply.usage = None
    elif checked is not counts:
        usage.completion_tokens = checked["completion_tokens"]


def _make_empty_choice() -> Any:
    """Make a choice for a server that gave none."""
    from openai.types.chat import ChatCompletionMessage
    from openai.types.chat.chat_completion import Choice

    return Choice(index=0, finish_reason="stop", message=ChatCompletionMessage(role="assistant", content=""))
