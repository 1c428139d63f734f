"""The chat completions of a user's ``openai.AsyncOpenAI`` client, as langchain-openai calls them: more forgiving.

Stands between the two, below LangChain's callbacks and above HTTP. What is sent is the same to the byte but for the
order of the fields; replies that would make LangChain raise come out as what they are.
"""

from __future__ import annotations

from typing import Any

from ensemble_notebook.models.openai.malformed_arguments import mark_malformed_arguments


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
        return await self._completions.create(**_move_messages(payload))


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
        completion = self._response.parse()
        choices = getattr(completion, "choices", None)
        if choices == []:
            completion.choices = [_make_empty_choice()]
        for choice in choices or ():
            calls = getattr(getattr(choice, "message", None), "tool_calls", None) or ()
            functions = [call.function for call in calls if hasattr(call, "function")]
            marked = mark_malformed_arguments([function.arguments for function in functions])
            for function, arguments in zip(functions, marked, strict=True):
                function.arguments = arguments
        return completion


def _move_messages(payload: dict[str, Any]) -> dict[str, Any]:
    """Move the messages of a payload to where the client does not walk through them.

    They are plain JSON already. The walk costs half a millisecond a message, again on every turn of a conversation.
    """
    extra = payload.get("extra_body") or {}
    if "messages" not in payload or "messages" in extra:
        return payload
    return payload | {"messages": [], "extra_body": extra | {"messages": payload["messages"]}}


def _make_empty_choice() -> Any:
    """Make a choice for a server that gave none."""
    from openai.types.chat import ChatCompletionMessage
    from openai.types.chat.chat_completion import Choice

    return Choice(index=0, finish_reason="stop", message=ChatCompletionMessage(role="assistant", content=""))
