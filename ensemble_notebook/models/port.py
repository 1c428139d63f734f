"""A LangChain chat model behind the seam of `domain.model`: conversations in LangChain's own messages.

Knows messages, tools and streams; nothing of clients, keys or where the model came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.model import Fault, ModelReply, ToolCall, ToolSpec
from ensemble_notebook.models.adoption import with_core
from ensemble_notebook.models.fault import classify
from ensemble_notebook.models.reply import identify_calls, joined, reply_of, text_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LangChainPort:
    """One chat model on one event loop (a `ChatPort`).

    Attributes:
        model: anything with LangChain's ``ainvoke`` and ``astream``.
        lease: what keeps its connections open; held, never used.
        key_variable: the environment variable that its key comes from, for advice; None for a user's object.
    """

    model: Any
    name: str
    provider: str | None = None
    is_scripted: bool = False
    calls_tools: bool = True
    takes_schema: bool = False
    max_tokens: int | None = None
    warning: str | None = None
    lease: object = None
    key_variable: str | None = None

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> LangChainConversation:
        """Begin a conversation. Tools are bound once, here; a model that can't call any is not told of them."""
        from langchain_core.messages import HumanMessage, SystemMessage

        model = self.model
        if tools and self.calls_tools:
            functions = [_to_function(each) for each in tools]
            model = with_core(model, lambda core: core.bind_tools(functions))
        messages: list[BaseMessage] = [SystemMessage(system), HumanMessage(user)]
        return LangChainConversation(model, messages, "scripted" if self.is_scripted else "provider")

    def classify(self, error: Exception) -> Fault:
        """What an exception of `LangChainConversation.reply` means."""
        return classify(error, key_variable=self.key_variable)


class LangChainConversation:
    """The messages of one task (a `Conversation`). Replies are kept as they came, so nothing in them is lost."""

    __slots__ = ("_calls", "_messages", "_model", "_source")

    def __init__(self, model: Any, messages: list[BaseMessage], source: str) -> None:
        self._model = model
        self._messages = messages
        self._source = source
        self._calls = 0

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        from langchain_core.messages import ToolMessage

        self._messages.append(ToolMessage(text, tool_call_id=call.id, name=call.name))

    def input_bound(self) -> int:
        """Bytes of all messages, each of which is at least one token, and room for what stands around them."""
        return sum(len(str(message.model_dump()).encode()) + 16 for message in self._messages)

    async def reply(
        self, on_token: Callable[[str], None] | None = None, *, max_tokens: int | None = None
    ) -> ModelReply:
        """Ask for the next reply, and append it."""
        if on_token is None:
            message, text = await self._model.ainvoke(self._messages), None
        else:
            message, text = await self._stream(on_token)
        identify_calls(message, self._calls)
        reply = reply_of(message, text, self._source)
        self._calls += len(reply.tool_calls)
        self._messages.append(message)
        return reply

    async def _stream(self, on_token: Callable[[str], None]) -> tuple[Any, str]:
        chunks, pieces = [], []
        async with aclosing(self._model.astream(self._messages)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                if piece := text_of(chunk.content):
                    pieces.append(piece)
                    on_token(piece)
        return joined(chunks), "".join(pieces)


def _to_function(tool: ToolSpec) -> dict[str, Any]:
    """A tool in OpenAI's form, which every LangChain model takes."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
