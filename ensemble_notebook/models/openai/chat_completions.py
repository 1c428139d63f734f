"""The chat completions of a user's ``openai.AsyncOpenAI`` client, as langchain-openai calls them: more forgiving.

Stands between the two, below LangChain's callbacks and above HTTP. What is sent is the same to the byte but for the
order of the fields; replies that would make LangChain raise come out as what they are.
"""

from __future__ import annotations

import json
from typing import Any, Final

# Put before the arguments of a tool call, it makes them no JSON, so that LangChain keeps them as they are.
AS_TEXT: Final = "\ufeff"


class Completions:
    """In place of ``AsyncOpenAI.chat.completions``; whatever is not said here is the client's own."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.with_raw_response = _RawCompletions(own.with_raw_response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def create(self, **payload: Any) -> Any:
        """Ask for a reply; streamed ones come from here."""
        return await self._own.create(**_cheap(payload))


class _RawCompletions:
    """Unstreamed replies come from here."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def create(self, **payload: Any) -> _Response:
        return _Response(await self._own.create(**_cheap(payload)))


class _Response:
    """A reply of the server, and what it says once it has been put right."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def parse(self) -> Any:
        completion = self._own.parse()
        choices = getattr(completion, "choices", None)
        if choices == []:
            completion.choices = [_silence()]
        for choice in choices or ():
            calls = getattr(getattr(choice, "message", None), "tool_calls", None) or ()
            functions = [call.function for call in calls if hasattr(call, "function")]
            # All or none: LangChain keeps good and bad ones apart, and their order would be lost.
            if not all(is_object(function.arguments) for function in functions):
                for function in functions:
                    function.arguments = f"{AS_TEXT}{function.arguments}"
        return completion


def _cheap(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with its messages where the client does not walk through them.

    They are plain JSON already. The walk costs half a millisecond a message, again on every turn of a conversation.
    """
    extra = payload.get("extra_body") or {}
    if "messages" not in payload or "messages" in extra:
        return payload
    return payload | {"messages": [], "extra_body": extra | {"messages": payload["messages"]}}


def is_object(arguments: Any) -> bool:
    """Whether LangChain can take the arguments of a tool call, which it does not check itself."""
    try:
        return isinstance(json.loads(arguments or "{}", strict=False), dict)
    except (TypeError, ValueError):
        return False


def _silence() -> Any:
    """The choice of a server that gave none."""
    from openai.types.chat import ChatCompletionMessage
    from openai.types.chat.chat_completion import Choice

    return Choice(index=0, finish_reason="stop", message=ChatCompletionMessage(role="assistant", content=""))
