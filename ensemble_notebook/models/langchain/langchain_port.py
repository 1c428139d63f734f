"""A LangChain chat model behind the seam of `domain.seams.chat_port`: conversations in LangChain's own messages.

Knows messages, tools and streams; nothing of clients, keys or where the model came from.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.attachments import PDF, UNNAMED_PDF, EncodedAttachment, count_marked_tokens, split_text
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, RequestPlaces, ToolAnswer, ToolSpec
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.models.langchain.error_classification import classify_error, tell_server_words
from ensemble_notebook.models.langchain.langchain_model import (
    collect_bound_options,
    find_core_model,
    find_max_tokens,
    iterate_layers,
    limit_max_tokens,
    replace_core_model,
    streams_reasons,
)
from ensemble_notebook.models.langchain.replies import (
    assign_call_ids,
    extract_text,
    join_chunks,
    to_message,
    to_model_reply,
)
from ensemble_notebook.models.langchain.tracing import is_traced_by_environment
from ensemble_notebook.models.openai.kept_fields import KEPT, KeptFields
from ensemble_notebook.models.openai.reply_body import WITHOUT_REASON, BrokenStreamError, collect_refused_usage
from ensemble_notebook.models.openai.tool_calls import list_tool_names

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackHandler
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig


# --- Asks once more, after all other callbacks of a model, whether its request may still be sent (E66) ----------------
#
# A user's callback may take its time, keep the cancellation of a run that was stopped to itself, or block the event
# loop meanwhile. LangChain calls those that run inline one by one, and then the others side by side, where a
# cancellation is never lost: ours is one of these.


def make_send_config(check: Callable[[], None]) -> RunnableConfig:
    """Make the configuration of a request for which `check` is called before it is sent, and which ends if that raises.

    Callbacks in the context of whoever runs are kept. Only for models with callbacks: without, nothing is between
    whoever asks and the sending, and to call one takes a fifth of what a request costs beside its network.
    """
    from langchain_core.runnables.config import merge_configs

    inherited = _find_inherited()
    own: RunnableConfig = {"callbacks": [_get_handler_class()(check)]}
    return {"callbacks": merge_configs({"callbacks": inherited}, own)["callbacks"]} if inherited else own


def has_listeners(model: Any) -> bool:
    """Whether somebody else hears of the requests of a model; True where that can't be told, as for a chain."""
    from langchain_core.language_models import BaseChatModel

    for layer in iterate_layers(model):
        if any(getattr(layer, name, None) for name in ("callbacks", "config_factories", "verbose")):
            return True
        if (getattr(layer, "config", None) or {}).get("callbacks"):
            return True
    return not isinstance(layer, BaseChatModel) or has_listeners_here()


def has_listeners_here() -> bool:
    """Whether somebody hears of the requests of all models that are asked in this context."""
    if is_traced_by_environment():
        return True
    if "langchain_core" not in sys.modules:  # nobody can listen
        return False
    from langchain_core.globals import get_debug, get_verbose
    from langchain_core.tracers import context

    hooks = getattr(context, "_configure_hooks", ())
    return bool(_find_inherited()) or get_debug() or get_verbose() or any(hook[0].get() is not None for hook in hooks)


def keeps_replies() -> bool:
    """Whether LangChain keeps the replies of all models, to give them again."""
    known = sys.modules.get("langchain_core.globals")
    return known is not None and known.get_llm_cache() is not None


def _find_inherited() -> Any:
    from langchain_core.runnables.config import var_child_runnable_config

    return (var_child_runnable_config.get() or {}).get("callbacks")


@cache
def _get_handler_class() -> Callable[[Callable[[], None]], AsyncCallbackHandler]:
    """Make the class at first use: LangChain is imported when a model is used, and not before."""
    from langchain_core.callbacks import AsyncCallbackHandler

    class SendCheck(AsyncCallbackHandler):
        """Hears of the start of a request, and of nothing else."""

        ignore_agent = ignore_chain = ignore_custom_event = ignore_retriever = ignore_retry = True

        def __init__(self, check: Callable[[], None]) -> None:
            self._check = check

        async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            """A request of a chat model is about to be sent."""
            self._check()

        async def on_llm_start(self, *_: Any, **__: Any) -> None:
            """A request of a model of another kind is, such as one inside a chain."""
            self._check()

    return SendCheck


# --- How many tokens a request can have at most, told from its bytes: no tokenizer is asked or fetched (E36) ----------
#
# A token stands for at least one byte of text. What a provider adds by itself is bounded by what the templates of known
# models add. Knows LangChain's messages by their fields.


# The marks around a message, its role, and those that open the reply.
_MESSAGE_OVERHEAD: Final = 16
_REQUEST_OVERHEAD: Final = 64
# Providers explain to a model how tools are called: in up to 530 tokens, as far as they say.
_TOOLS_OVERHEAD: Final = 768
ATTACHED_TYPES: Final = frozenset({"image", "file"})
_BOUNDED: Final = ("content", "additional_kwargs", "name", "tool_calls", "invalid_tool_calls", "tool_call_id")


def bound_message_tokens(message: Any) -> int:
    """Bound the tokens of a message in a request: LangChain's, or its JSON."""
    said = message if isinstance(message, Mapping) else vars(message)
    parts = [said.get(name) for name in _BOUNDED]
    is_users = said.get("type") == "human"
    if is_users and isinstance(content := parts[0], list):  # its pictures and PDFs are ours, and count by themselves
        parts[0] = [each for each in content if not (isinstance(each, Mapping) and each.get("type") in ATTACHED_TYPES)]
    return _MESSAGE_OVERHEAD + sum(_count_bytes(part) for part in parts if part)


def bound_option_tokens(options: Iterable[Mapping[str, Any]]) -> int:
    """Bound the tokens of what goes with the messages: tools, the format of the reply, and what else is bound."""
    given = list(options)
    has_tools = any(each.get("tools") or each.get("functions") for each in given)
    return _REQUEST_OVERHEAD + (_TOOLS_OVERHEAD if has_tools else 0) + sum(_count_bytes(each) for each in given if each)


def _count_bytes(value: Any) -> int:
    """Count the bytes, of a text as it is, of anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return len(text.encode(errors="surrogatepass"))


# --- A LangChain chat model behind the seam of `domain.seams.chat_port`: conversations in LangChain's own messages ----


EMPTY_REPLY: Final = "(empty reply)"
"""Sent in place of a reply without a text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AskedPort:
    """What is known of a model that is asked, by LangChain or by ourselves (of a `ChatPort`).

    Attributes:
        connection_handle: what keeps its connections open; held, never used.
        places: what a request takes of the places for connections; None where it opens none.
        key_variable: the environment variable that its key comes from, for advice; None for a user's object.
        advice: what to do about an answer with a status, where the spec knows; empty for a user's object.
        refused_kinds: which of pictures and PDFs it is known not to take.
    """

    name: str
    provider: str | None = None
    is_scripted: bool = False
    has_tool_support: bool = True
    has_schema_support: bool = False
    context_window: int | None = None
    warning: str | None = None
    connection_handle: object = None
    places: RequestPlaces | None = None
    key_variable: str | None = None
    advice: Mapping[int, str] = field(default_factory=dict)
    refused_kinds: Collection[str] = ()

    def classify(self, error: Exception) -> Fault:
        """Decide what an exception of `AskedConversation.reply` means."""
        fault = classify_error(error, key_variable=self.key_variable, advice=self.advice)
        sent = getattr(error, _SENT, None)
        if sent is None or fault.reason not in _REFUSALS:
            return fault
        told = f"The request has {sent}, which {self.name} may not take: use a model that takes it, or leave it out."
        return replace(fault, advice=f"{fault.advice} {told}" if fault.advice else told)


_SENT: Final = "_ensemble_sent"
_REFUSALS: Final = ("400", "404", "413", "415", "422")


class AskedConversation:
    """How the next reply is asked for (of a `Conversation`), whoever sends the request."""

    __slots__ = ("_asks_whole", "_attached", "_call_ids", "_kept")

    def __init__(self) -> None:
        self._attached: list[EncodedAttachment] = []  # held, so that they are encoded once while anybody sends them
        self._call_ids: set[str] = set()
        self._kept: list[Mapping[str, Any]] = []  # of each reply since somebody last spoke to the model
        self._asks_whole = False  # since nobody can tell whether the last stream was

    def take_kept_reply(self) -> None:
        """Take none: nothing is kept here."""

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:  # noqa: ARG002
        """Run the tool: nothing is recorded here."""
        return await run()

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,
        check_sending: Callable[[], None] | None = None,
    ) -> ModelReply:
        """Ask for the next reply, and append it."""
        on_piece = None if self._asks_whole else on_token
        with collect_refused_usage() as refused, KeptFields(self._kept) as kept:
            try:
                reply, append = await self._ask(on_piece, max_tokens, check_sending, kept)
            except Exception as error:
                self._asks_whole |= isinstance(error, BrokenStreamError) and error.is_announced
                tell_server_words(error)
                if self._attached:
                    kinds = Counter(each.attachment.kind for each in self._attached)
                    with suppress(AttributeError):
                        setattr(error, _SENT, " and ".join(pluralize(count, kind) for kind, count in kinds.items()))
                raise
        if on_token is not None and on_piece is None and reply.text:
            on_token(reply.text)
        self._asks_whole = False
        if refused:
            # All of it is unknown then, also where a stream said it several times.
            reply = replace(reply, usage=TokenUsage(source=reply.usage.source), refused_usage=refused[0])
        append()
        return reply

    async def _ask(
        self,
        on_piece: Callable[[str], None] | None,
        max_tokens: int | None,
        check_sending: Callable[[], None] | None,
        kept: KeptFields,
    ) -> tuple[ModelReply, Callable[[], None]]:
        """Send the request; give the reply, and what appends it to the messages."""
        raise NotImplementedError

    def _write_content(self, text: str, write: Callable[[EncodedAttachment], dict[str, Any]]) -> Any:
        """What a user says, as a message has it: a text, or blocks where it has pictures or PDFs."""
        parts = split_text(text)
        if all(isinstance(each, str) for each in parts):
            return text
        content: list[dict[str, Any]] = []
        for each in parts:
            if isinstance(each, str):
                content.append({"type": "text", "text": each})
            else:
                self._attached.append(each.encoded)
                content.append(write(each.encoded))
        return content

    def _bound_attached(self) -> int:
        return sum(count_marked_tokens(each.attachment.mark) for each in self._attached)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LangChainPort(AskedPort):
    """One chat model of LangChain on one event loop (a `ChatPort`).

    Attributes:
        model: anything with LangChain's ``ainvoke`` and ``astream``.
        max_tokens: the limit of one reply that the model was made with; looked up once, since each request asks for it.
    """

    model: Any
    max_tokens: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Look the limit up."""
        object.__setattr__(self, "max_tokens", find_max_tokens(self.model))

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> LangChainConversation:
        """Begin a conversation. Tools are bound once, here; a model that can't call any is not told of them."""
        from langchain_core.messages import SystemMessage

        model = self.model
        if tools and self.has_tool_support:
            openai_tools = [to_openai_tool(each) for each in tools]
            model = replace_core_model(model, lambda core: core.bind_tools(openai_tools))
        if schema is not None and self.has_schema_support:
            from ensemble_notebook.models.openai.chat_openai import bind_schema

            options = _merge_bound_options(model)
            model = replace_core_model(model, lambda core: bind_schema(core, schema, options))
        conversation = LangChainConversation(model, is_scripted=self.is_scripted)
        if system:
            conversation.add(SystemMessage(system))
        conversation.add_user_message(user)
        return conversation


class LangChainConversation(AskedConversation):
    """The messages of one task (a `Conversation`). Replies are kept as they came, so nothing in them is lost."""

    __slots__ = ("_bounded_count", "_input_bound", "_is_scripted", "_messages", "_model")

    def __init__(self, model: Any, *, is_scripted: bool = False) -> None:
        super().__init__()
        self._model = model
        self._is_scripted = is_scripted
        self._messages: list[BaseMessage] = []
        self._input_bound: int | None = None  # of as many messages as `_bounded_count`; nobody asks without a budget
        self._bounded_count = 0

    def add(self, message: BaseMessage) -> None:
        """Append a message. An empty one of the model is sent with words that say so: servers refuse those.

        Left out, it would leave two messages of the user side by side, which others refuse.
        """
        if message.type == "ai" and not (message.tool_calls or message.invalid_tool_calls):  # type: ignore[attr-defined]
            content = message.content
            if not extract_text(content).strip():
                said: Any = (
                    [*content, {"type": "text", "text": EMPTY_REPLY}] if isinstance(content, list) else EMPTY_REPLY
                )
                message = message.model_copy(update={"content": said})
        self._messages.append(message)
        if message.type == "human":
            self._kept.clear()
        elif message.type == "ai":
            self._kept.append(message.additional_kwargs.get(KEPT) or {})

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        from langchain_core.messages import ToolMessage

        self.add(ToolMessage(text, tool_call_id=call.id, name=call.name))

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        from langchain_core.messages import HumanMessage

        # A script reads words, and finds the mark of a picture among them.
        self.add(HumanMessage(text if self._is_scripted else self._write_content(text, _write_block)))

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply of an earlier run."""
        self._call_ids.update(call.id for call in reply.tool_calls)
        self.add(to_message(reply))

    def input_bound(self) -> int:
        """Bound the tokens that the next request can have."""
        if self._input_bound is None:
            # A script adds nothing to what it is sent.
            self._input_bound = 0 if self._is_scripted else bound_option_tokens(collect_bound_options(self._model))
        self._input_bound += sum(map(bound_message_tokens, self._messages[self._bounded_count :]))
        self._bounded_count = len(self._messages)
        return self._input_bound + self._bound_attached()

    async def _ask(
        self,
        on_piece: Callable[[str], None] | None,
        max_tokens: int | None,
        check_sending: Callable[[], None] | None,
        kept: KeptFields,
    ) -> tuple[ModelReply, Callable[[], None]]:
        model, text = self._model if max_tokens is None else limit_max_tokens(self._model, max_tokens), None
        config = make_send_config(check_sending) if check_sending and has_listeners(model) else None
        if on_piece is not None:
            message, text = await self._stream(model, on_piece, config)
        else:
            is_streamed_inside = getattr(find_core_model(model), "streaming", False)
            options = {"stream": False} if self._asks_whole and is_streamed_inside else {}
            message = await model.ainvoke(self._messages, config, **options)
        if kept.received:
            message.additional_kwargs[KEPT] = kept.received
        assign_call_ids(message, self._call_ids)
        reply = to_model_reply(message, text, "scripted" if self._is_scripted else "provider")
        if text is not None and reply.finish_reason is None and streams_reasons(model):
            raise BrokenStreamError(WITHOUT_REASON, is_announced=True)
        return reply, lambda: self.add(message)

    async def _stream(self, model: Any, on_token: Callable[[str], None], config: Any) -> tuple[Any, str]:
        chunks, pieces = [], []
        async with aclosing(model.astream(self._messages, config)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                if piece := extract_text(chunk.content):
                    pieces.append(piece)
                    on_token(piece)
        return (
            join_chunks(chunks, lambda: list_tool_names(_merge_bound_options(self._model).get("tools") or ())),
            "".join(pieces),
        )


def _write_block(encoded: EncodedAttachment) -> dict[str, Any]:
    """A picture or PDF as LangChain's standard block, which the package of each provider puts into its own form."""
    attachment = encoded.attachment
    block = {"base64": encoded.base64, "mime_type": attachment.media_type}
    if attachment.media_type != PDF:
        return {"type": "image", **block}
    return {"type": "file", **block, "filename": attachment.name or UNNAMED_PDF}


def _merge_bound_options(model: Any) -> dict[str, Any]:
    return {name: value for each in reversed(collect_bound_options(model)) for name, value in each.items()}


def to_openai_tool(tool: ToolSpec) -> dict[str, Any]:
    """Convert a tool to OpenAI's form, which every LangChain model takes."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
