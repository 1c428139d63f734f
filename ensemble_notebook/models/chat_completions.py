"""A model behind the OpenAI protocol, asked by ourselves: what specs with an address become (a `ChatPort`).

Its messages are the JSON that is sent. No package of a provider is loaded, nor LangChain: that takes four times as long
as a first reply, and their walks through every message and reply are most of what a call costs. Errors alone are those
of the openai package, which is loaded for the first of them. Where somebody hears of requests, LangChain asks.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.attachments import PDF, UNNAMED_PDF, EncodedAttachment
from ensemble_notebook.domain.outputs.conversation import ToolCall, write_arguments
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import ModelReply, ToolSpec
from ensemble_notebook.domain.value_text import mend_text, mend_value
from ensemble_notebook.models.langchain.langchain_port import (
    EMPTY_REPLY,
    AskedConversation,
    AskedPort,
    bound_message_tokens,
    bound_option_tokens,
    to_openai_tool,
)
from ensemble_notebook.models.langchain.replies import (
    find_reasoning,
    parse_arguments,
    take_call_id,
)
from ensemble_notebook.models.openai.endpoint import (
    Endpoint,
    find_completions_url,
    is_trusted_url,
    read_account_headers,
)
from ensemble_notebook.models.openai.kept_fields import KEPT, KeptFields, put_back
from ensemble_notebook.models.openai.reply_body import (
    check_chunk,
    find_told_error,
    parse_completion,
    unmark_arguments,
)
from ensemble_notebook.models.openai.request_fields import find_sent_fields, make_response_format
from ensemble_notebook.models.openai.streamed_reply import iterate_chunks

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from ensemble_notebook.models.openai.connections import Connections

# The end of a stream is usually there already when its last event is.
_DRAIN_LIMIT_S: Final = 0.1
_LARGE_BODY: Final = 1_000_000
_STATUS_ERRORS: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
_loading: Final = threading.Lock()
_loaded: Final = threading.Event()
_errors_loaded: Final = threading.Event()


def load_client() -> None:
    """Import all that a first request needs, once. Takes a moment, so that a running loop leaves it to a thread.

    Whoever comes meanwhile on another thread waits: a module that is half imported looks like one that is there.
    """
    with _loading:
        importlib.import_module("aiohttp")
        _loaded.set()


def is_client_loaded() -> bool:
    """Whether `load_client` has come to its end, on any thread."""
    return _loaded.is_set()


# --- One request ------------------------------------------------------------------------------------------------------


class ChatTransport:
    """The chat completions of one server, for one key.

    Args:
        connections: to the server.
        endpoint: where it is, and the key.
    """

    def __init__(self, connections: Connections, endpoint: Endpoint) -> None:
        self._session = connections.session
        self._url, basic = find_completions_url(endpoint.url)
        self._fields = find_sent_fields(self._url)
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "ensemble-notebook",
            # What stands in variables is no other server's business.
            **(read_account_headers() if is_trusted_url(endpoint.base_url) else {}),
            # As the openai package has it: a user and password in the address go before a key.
            "Authorization": basic or f"Bearer {endpoint.api_key}",
        }

    async def request_reply(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for a reply in one piece.

        Raises:
            MalformedReplyError: the server sent no reply.
            openai.APIError: it refused, can't be reached, or was cut.
        """
        async with self._open_response(payload) as response:
            return parse_completion(await response.read(), self._url)

    async def stream_reply(self, payload: Mapping[str, Any], on_piece: Callable[[str], None] | None) -> dict[str, Any]:
        """Ask for a stream, of whose text `on_piece` hears; gives and raises as `request_reply`."""
        import aiohttp

        payload = {**payload, "stream": True, "stream_options": {"include_usage": True}}
        last: dict[str, Any] = {}
        texts: list[str] = []
        calls: list[Any] = []
        reason = usage = None
        async with self._open_response(payload) as response:
            pieces, tools = response.content.iter_any(), payload.get("tools") or ()
            async for last in iterate_chunks(pieces, self._url, tools, lost=aiohttp.ClientError):
                if find_told_error(last, is_chunk=True) is not None:
                    await _load_errors()
                    check_chunk(last, _make_request(self._url))
                usage = last.get("usage") or usage  # it comes whole, at the end
                choice: dict[str, Any] = next(iter(last.get("choices") or ()), {})
                reason = choice.get("finish_reason") or reason
                delta = choice.get("delta") or {}
                calls += delta.get("tool_calls") or ()  # all of them come whole, at the end
                if text := delta.get("content"):
                    texts.append(text)
                    if on_piece is not None:
                        on_piece(text)
            with suppress(TimeoutError, aiohttp.ClientError):  # only then can the connection be used again
                async with asyncio.timeout(_DRAIN_LIMIT_S):
                    await response.read()
        message = {"role": "assistant", "content": "".join(texts), "tool_calls": calls}
        return {**last, "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}

    @asynccontextmanager
    async def _open_response(self, payload: Mapping[str, Any]) -> AsyncIterator[ClientResponse]:
        """Send a request and wait for the head of its reply.

        Raises:
            openai.APIStatusError: the server refused it.
            openai.APIConnectionError: the server can't be reached, or the connection was cut, now or later.
        """
        import aiohttp

        body = {**payload, "messages": put_back(payload["messages"])}
        body |= body.pop("extra_body", None) or {}
        self._fields.fit(body)
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        try:
            # In pieces, so that the loop goes on meanwhile.
            sent: Any = io.BytesIO(data) if len(data) > _LARGE_BODY else data
            # No redirects: nobody is contacted but the address that was named (E43).
            sending = self._session.post(self._url, data=sent, headers=self._headers, allow_redirects=False)
            async with sending as response:
                if response.status >= 300:
                    content = await response.read()
                    await _load_errors()
                    error = _make_error(self._url, response.status, response.headers, content)
                    self._fields.learn(error, body)
                    raise error
                yield response
        except aiohttp.ClientError as error:
            openai = await _load_errors()
            raise openai.APIConnectionError(request=_make_request(self._url)) from error


async def _load_errors() -> Any:
    """Load the errors, on a thread: that takes a third of a second, once.

    Who comes meanwhile waits: a package that is half imported stands among the modules already.
    """
    if not _errors_loaded.is_set():
        await asyncio.to_thread(importlib.import_module, "openai")
        _errors_loaded.set()
    return sys.modules["openai"]


def _make_request(url: str) -> Any:
    import httpx

    return httpx.Request("POST", url)  # for errors, which want to tell what failed


def _make_error(url: str, status: int, headers: Mapping[str, str], content: bytes) -> Exception:
    """Make the error that the openai package raises for a reply with a bad status."""
    import httpx
    import openai

    # The content was unpacked already.
    kept = [(name, value) for name, value in headers.items() if name.lower() != "content-encoding"]
    response = httpx.Response(status, headers=kept, content=content, request=_make_request(url))
    body: Any = response.text.strip()
    with suppress(ValueError, RecursionError):
        body = json.loads(body)
    told = body.get("error", body) if isinstance(body, Mapping) else body
    words = told.get("message") if isinstance(told, Mapping) else None
    message = f"Error code: {status}{f' - {words}' if words and isinstance(words, str) else ''}"
    name = _STATUS_ERRORS.get(status, "InternalServerError" if status >= 500 else "APIStatusError")
    error: Exception = getattr(openai, name)(message, response=response, body=told)
    return error


def make_settings(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parameters of a model by the names of the protocol, without those that langchain-openai leaves out."""
    settings = {each: value for each, value in given.items() if value is not None and value != []}
    if (limit := settings.pop("max_tokens", None)) is not None:
        settings["max_completion_tokens"] = limit
    # These take no temperature but 1, unless they are not to reason.
    has_fixed = re.match(r"gpt-5(?!.*chat)", name, re.IGNORECASE) and settings.get("reasoning_effort") != "none"
    if has_fixed and settings.get("temperature") != 1:
        settings.pop("temperature", None)
    return settings


# --- A conversation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChatCompletionsPort(AskedPort):
    """One model on one event loop (a `ChatPort`).

    Attributes:
        transport: to its server.
        settings: what goes with each request, by the names of the protocol.
        is_streamed_inside: replies are streamed although nobody hears of their pieces.
        max_tokens: the limit of one reply.
    """

    transport: ChatTransport
    settings: Mapping[str, Any]
    is_streamed_inside: bool = False
    max_tokens: int | None = None

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> ChatCompletionsConversation:
        """Begin a conversation. A model that can't call any tools is not told of them."""
        settings = dict(self.settings)
        if tools and self.has_tool_support:
            settings["tools"] = [to_openai_tool(each) for each in tools]
        if schema is not None and self.has_schema_support:
            # Before one that the spec says: whoever asks reads what fits this schema.
            extra_body = settings.get("extra_body") or {}
            settings["extra_body"] = {**extra_body, "response_format": make_response_format(schema)}
        # OpenAI's models that reason take instructions by another name.
        role = "developer" if re.match(r"o\d", self.name) else "system"
        conversation = ChatCompletionsConversation(
            self, settings, [{"role": role, "content": system}] if system else []
        )
        conversation.add_user_message(user)
        return conversation


class ChatCompletionsConversation(AskedConversation):
    """The messages of one task (a `Conversation`), as they are sent."""

    __slots__ = ("_bound", "_messages", "_port", "_settings", "_unbounded")

    def __init__(self, port: ChatCompletionsPort, settings: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        super().__init__()
        self._port = port
        self._settings = settings
        self._messages = messages
        self._bound: int | None = None  # of what is not in `_unbounded`; nobody asks without a budget
        self._unbounded: list[Mapping[str, Any]] = [*messages]

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        message = {"role": "tool", "tool_call_id": call.id, "content": text}
        self._messages.append(message)
        self._unbounded.append({**message, "name": call.name})

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        self._messages.append({"role": "user", "content": self._write_content(text, _write_part)})
        self._unbounded.append({"content": text})
        self._kept.clear()

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply of an earlier run."""
        self._append(reply, [write_arguments(call.arguments) for call in reply.tool_calls])

    def _append(self, reply: ModelReply, arguments: Sequence[str]) -> None:
        """Append a reply; `arguments` of its calls are sent as the model wrote them, also where they are no JSON."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.tool_calls:
            message["content"] = reply.text or None
            message["tool_calls"] = [
                {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": text}}
                for call, text in zip(reply.tool_calls, arguments, strict=True)
            ]
        elif not reply.text.strip():
            message["content"] = EMPTY_REPLY
        self._call_ids.update(call.id for call in reply.tool_calls)
        self._messages.append(message)
        calls = [
            {"name": each.name, "args": each.arguments, "id": each.id, "type": "tool_call"} for each in reply.tool_calls
        ]
        self._unbounded.append({"content": message["content"], "tool_calls": calls, **reply.extras})
        self._kept.append((reply.extras.get("additional_kwargs") or {}).get(KEPT) or {})

    def input_bound(self) -> int:
        """Bound the tokens that the next request can have."""
        if self._bound is None:
            self._bound = bound_option_tokens([self._settings])
        self._bound += sum(map(bound_message_tokens, self._unbounded))
        self._unbounded.clear()
        return self._bound + self._bound_attached()

    async def _ask(
        self,
        on_piece: Callable[[str], None] | None,
        max_tokens: int | None,
        check_sending: Callable[[], None] | None,  # noqa: ARG002 - nothing stands between this and the sending
        kept: KeptFields,
    ) -> tuple[ModelReply, Callable[[], None]]:
        port = self._port
        payload = {"model": port.name, "messages": self._messages, **self._settings}
        if max_tokens is not None and max_tokens < (port.max_tokens or max_tokens + 1):
            payload["max_completion_tokens"] = max_tokens
        if on_piece is None and not port.is_streamed_inside:
            completion = await port.transport.request_reply(payload)
        else:
            completion = await port.transport.stream_reply(payload, on_piece)
        reply = self._read_reply(completion, kept.received)
        # Malformed arguments go back as the model wrote them; their reply has all of its calls marked, or none.
        said = [call["function"] for call in completion["choices"][0]["message"].get("tool_calls") or ()]
        texts = [mend_text(unmark_arguments(each["arguments"])) for each in said]
        plain = [write_arguments(call.arguments) for call in reply.tool_calls]
        return reply, lambda: self._append(reply, plain if [each["arguments"] for each in said] == texts else texts)

    def _read_reply(self, completion: Mapping[str, Any], kept: Mapping[str, Any]) -> ModelReply:
        """Read a reply that was put right by now.

        Raises:
            ValueError: it tells an error.
        """
        if completion.get("error"):
            raise ValueError(completion["error"])
        choice = completion["choices"][0]
        message, reason, model = choice["message"], choice.get("finish_reason"), completion.get("model")
        extras = {"additional_kwargs": {KEPT: kept}} if kept else {}
        return ModelReply(
            text=mend_text(message.get("content") or ""),
            tool_calls=tuple(
                ToolCall(
                    id=take_call_id(each.get("id"), self._call_ids),
                    name=mend_text(each["function"]["name"] or ""),
                    arguments=mend_value(parse_arguments(unmark_arguments(each["function"]["arguments"]))),
                )
                for each in message.get("tool_calls") or ()
            ),
            usage=_read_usage(completion.get("usage")),
            model=None if model is None else str(model),
            finish_reason=str(reason) if reason else None,
            reasoning=find_reasoning(kept, kept.get("content")) if kept else "",
            extras=json.loads(json.dumps(extras, default=str)) if kept else {},
        )


def _write_part(encoded: EncodedAttachment) -> dict[str, Any]:
    """A picture or PDF as the protocol has it."""
    attachment = encoded.attachment
    if attachment.media_type != PDF:
        return {"type": "image_url", "image_url": {"url": encoded.data_url}}
    return {"type": "file", "file": {"filename": attachment.name or UNNAMED_PDF, "file_data": encoded.data_url}}


def _read_usage(counted: Mapping[str, Any] | None) -> TokenUsage:
    """Read OpenAI's form of usage, which was checked by now."""
    if counted is None:
        return TokenUsage()
    read, written = counted.get("prompt_tokens_details") or {}, counted.get("completion_tokens_details") or {}
    return TokenUsage(
        input_tokens=counted["prompt_tokens"] or None,  # no request is empty: a server that counts none has not said it
        output_tokens=counted["completion_tokens"],
        cache_read_tokens=read.get("cached_tokens"),
        cache_write_tokens=read.get("cache_write_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
    )
