"""A LangChain chat model behind the seam of `domain.seams.chat_port`: conversations in LangChain's own messages.

Knows messages, tools and streams; nothing of clients, keys or where the model came from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.outputs.metrics import TokenUsage
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, ToolAnswer, ToolCall, ToolSpec
from ensemble_notebook.models.langchain.error_classification import classify_error
from ensemble_notebook.models.langchain.langchain_model import (
    collect_bound_options,
    find_core_model,
    find_max_tokens,
    limit_max_tokens,
    replace_core_model,
)
from ensemble_notebook.models.langchain.replies import (
    assign_call_ids,
    extract_text,
    join_chunks,
    to_message,
    to_model_reply,
)
from ensemble_notebook.models.langchain.send_check import has_listeners, make_send_config
from ensemble_notebook.models.langchain.token_bounds import bound_message_tokens, bound_option_tokens
from ensemble_notebook.models.openai.chat_openai import bind_schema
from ensemble_notebook.models.openai.direct_stream import can_stream_directly, stream_directly
from ensemble_notebook.models.openai.usage_check import collect_refused_usage

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LangChainPort:
    """One chat model on one event loop (a `ChatPort`).

    Attributes:
        model: anything with LangChain's ``ainvoke`` and ``astream``.
        connection_handle: what keeps its connections open; held, never used.
        key_variable: the environment variable that its key comes from, for advice; None for a user's object.
    """

    model: Any
    name: str
    provider: str | None = None
    is_scripted: bool = False
    has_tool_support: bool = True
    has_schema_support: bool = False
    warning: str | None = None
    connection_handle: object = None
    key_variable: str | None = None

    @property
    def max_tokens(self) -> int | None:
        """The limit of one reply that the model was made with."""
        return find_max_tokens(self.model)

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> LangChainConversation:
        """Begin a conversation. Tools are bound once, here; a model that can't call any is not told of them."""
        from langchain_core.messages import HumanMessage, SystemMessage

        model = self.model
        if tools and self.has_tool_support:
            openai_tools = [to_openai_tool(each) for each in tools]
            model = replace_core_model(model, lambda core: core.bind_tools(openai_tools))
        if schema is not None and self.has_schema_support:
            options = _merge_bound_options(model)
            model = replace_core_model(model, lambda core: bind_schema(core, schema, options))
        conversation = LangChainConversation(model, is_scripted=self.is_scripted)
        conversation.add(SystemMessage(system))
        conversation.add(HumanMessage(user))
        return conversation

    def classify(self, error: Exception) -> Fault:
        """Decide what an exception of `LangChainConversation.reply` means."""
        return classify_error(error, key_variable=self.key_variable)


class LangChainConversation:
    """The messages of one task (a `Conversation`). Replies are kept as they came, so nothing in them is lost."""

    __slots__ = ("_call_count", "_input_bound", "_is_scripted", "_messages", "_model")

    def __init__(self, model: Any, *, is_scripted: bool = False) -> None:
        self._model = model
        self._is_scripted = is_scripted
        self._messages: list[BaseMessage] = []
        self._call_count = 0
        # A script adds nothing to what it is sent.
        self._input_bound = 0 if is_scripted else bound_option_tokens(collect_bound_options(model))

    def add(self, message: BaseMessage) -> None:
        """Append a message."""
        self._messages.append(message)
        self._input_bound += bound_message_tokens(message)

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        from langchain_core.messages import ToolMessage

        self.add(ToolMessage(text, tool_call_id=call.id, name=call.name))

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        from langchain_core.messages import HumanMessage

        self.add(HumanMessage(text))

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply of an earlier run. What was in it beside text and tool calls is not known any more."""
        self._call_count += len(reply.tool_calls)
        self.add(to_message(reply))

    def take_kept_reply(self) -> None:
        """Take none: nothing is kept here."""

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:  # noqa: ARG002
        """Run the tool: nothing is recorded here."""
        return await run()

    def input_bound(self) -> int:
        """Bound the tokens that the next request can have (E36)."""
        return self._input_bound

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,
        check_sending: Callable[[], None] | None = None,
    ) -> ModelReply:
        """Ask for the next reply, and append it."""
        model = self._model if max_tokens is None else limit_max_tokens(self._model, max_tokens)
        is_heard = has_listeners(model)
        config = make_send_config(check_sending) if is_heard and check_sending is not None else None
        with collect_refused_usage() as refused:
            if on_token is None:
                message, text = await model.ainvoke(self._messages, config), None
            elif is_heard:
                message, text = await self._stream(model, on_token, config)
            else:
                message, text = await self._stream_unheard(model, on_token)
            assign_call_ids(message, self._call_count)
            reply = to_model_reply(message, text, "scripted" if self._is_scripted else "provider")
        if refused:
            # All of it is unknown then, also where a stream said it several times.
            reply = replace(reply, usage=TokenUsage(source=reply.usage.source), refused_usage=refused[0])
        self._call_count += len(reply.tool_calls)
        self.add(message)
        return reply

    async def _stream_unheard(self, model: Any, on_token: Callable[[str], None]) -> tuple[Any, str | None]:
        """Ask a model without callbacks."""
        core, options = find_core_model(model), _merge_bound_options(model)
        if can_stream_directly(core, options):
            return await stream_directly(core, self._messages, options, on_token), None
        return await self._stream(model, on_token, None)

    async def _stream(self, model: Any, on_token: Callable[[str], None], config: Any) -> tuple[Any, str]:
        chunks, pieces = [], []
        async with aclosing(model.astream(self._messages, config)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                if piece := extract_text(chunk.content):
                    pieces.append(piece)
                    on_token(piece)
        return join_chunks(chunks), "".join(pieces)


def _merge_bound_options(model: Any) -> dict[str, Any]:
    return {name: value for each in reversed(collect_bound_options(model)) for name, value in each.items()}


def to_openai_tool(tool: ToolSpec) -> dict[str, Any]:
    """Convert a tool to OpenAI's form, which every LangChain model takes."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
