"""What ``ChatOpenAI`` calls to send and receive: our own transport for specs, and a user's client made more forgiving.

Stands below LangChain's callbacks, in place of ``AsyncOpenAI.chat.completions``. What servers send is put right by
`reply_body` and `streamed_reply`, on both ways alike. Knows nothing of conversations.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ensemble_notebook.models.openai.endpoint import find_base_url_of_environment, is_trusted_url, split_credentials
from ensemble_notebook.models.openai.kept_fields import put_back
from ensemble_notebook.models.openai.reply_body import (
    NO_PART,
    BrokenStreamError,
    MalformedReplyError,
    find_told_error,
    parse_completion,
    to_chunks,
    unwrap_error,
)
from ensemble_notebook.models.openai.sent_fields import find_sent_fields
from ensemble_notebook.models.openai.streamed_reply import ChunkCorrector, is_event_stream, iterate_chunks

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from httpx import Response
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_openai.chat_models.base import BaseChatOpenAI

    from ensemble_notebook.models.openai.connections import Connections


# --- The one module that uses names of langchain-openai and openai which are not public there -------------------------
#
# Three things are done below a ``ChatOpenAI`` for which it has no public way: its requests go through completions of
# our own, replies of our own models are asked for without its own way (both say why below), and a user's model gets a
# copy of its client that does not retry in secret. Where a later version has these names no more, a model stays plain:
# the openai package sends, and everything works, more slowly and with less patience for odd servers. A test says so
# when the names move.
#
# Knows names only: what is put in their place is given by the caller.


# The `AsyncOpenAI` of a model, and its `chat.completions`, through which a model sends.
_CLIENT: Final = "root_async_client"
_COMPLETIONS: Final = "async_client"
# Whether a request would go to OpenAI's newer interface, which has its own names for everything.
_USES_RESPONSES_API: Final = "_use_responses_api"
# From messages to a request, and from a reply to its message.
_MAKES_PAYLOAD: Final = "_get_request_payload"
_MAKES_RESULT: Final = "_create_chat_result"
_METHODS: Final = (_USES_RESPONSES_API, _MAKES_PAYLOAD, _MAKES_RESULT)


def find_missing_names(model_class: type) -> tuple[str, ...]:
    """List the names that this module uses and a class of chat models has no more; empty for versions that we know."""
    fields = getattr(model_class, "model_fields", {})
    missing = [name for name in (_CLIENT, _COMPLETIONS) if name not in fields]
    missing += [name for name in _METHODS if not callable(getattr(model_class, name, None))]
    return tuple(missing)


def has_replaceable_completions(model: object) -> bool:
    """Whether a model is one of langchain-openai whose requests can be sent by other completions than its own.

    Imports nothing: where langchain-openai is not loaded, no object is a model of it.
    """
    fields = getattr(type(model), "model_fields", {})
    return is_openai_model(model) and find_client(model) is not None and _COMPLETIONS in fields


def is_openai_model(model: object) -> bool:
    """Whether a model is a ``ChatOpenAI`` or a relative of it. Imports nothing."""
    module = sys.modules.get("langchain_openai.chat_models.base")
    base = getattr(module, "BaseChatOpenAI", None)
    return base is not None and isinstance(model, base)


def find_client(model: Any) -> Any | None:
    """Find the ``openai.AsyncOpenAI`` of a model; None where it has none under the name that we know."""
    return getattr(model, _CLIENT, None)


def find_base_url(model: BaseChatOpenAI) -> str:
    """Find the address that a model sends to."""
    client = find_client(model)
    if client is not None:
        return str(client.base_url)
    return model.openai_api_base or find_base_url_of_environment() or "https://api.openai.com/v1"


def replace_client(model: BaseChatOpenAI, client: Any) -> None:
    """Give a model another ``openai.AsyncOpenAI``; for models whose completions can be replaced."""
    setattr(model, _CLIENT, client)


def find_completions(model: Any) -> Any | None:
    """Find what a model sends through; None where it has nothing under the name that we know."""
    return getattr(model, _COMPLETIONS, None)


def has_convertible_payload(model: Any) -> bool:
    """Whether `make_payload` and `make_message` can be used."""
    return callable(getattr(model, _MAKES_PAYLOAD, None)) and callable(getattr(model, _MAKES_RESULT, None))


def make_payload(model: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> dict[str, Any]:
    """Make the request that a model would send for these messages."""
    payload: dict[str, Any] = getattr(model, _MAKES_PAYLOAD)(messages, **options)
    return payload


def make_message(model: Any, completion: dict[str, Any]) -> AIMessage:
    """Make the message that a model would give for this reply."""
    result = getattr(model, _MAKES_RESULT)(completion)
    (generation,) = result.generations
    message: AIMessage = generation.message
    message.response_metadata = {**result.llm_output, **generation.generation_info}
    return message


def replace_completions(model: BaseChatOpenAI, completions: Any) -> None:
    """Have a model send through other completions; for models whose completions can be replaced."""
    setattr(model, _COMPLETIONS, completions)


def is_responses_api_used(model: BaseChatOpenAI, options: Mapping[str, Any]) -> bool:
    """Whether a request with these options would go to the Responses API rather than to chat completions."""
    decide = getattr(model, _USES_RESPONSES_API, None)
    return bool(model.use_responses_api if decide is None else decide({**options}))


def make_status_error(client: Any, response: Response) -> Exception:
    """Make the error that the openai package raises for a reply whose status is an error."""
    import openai

    make = getattr(client, "_make_status_error_from_response", None)
    if make is not None:
        error: Exception = make(response)
        return error
    try:
        body = response.json()
    except json.JSONDecodeError:
        body = response.text
    message = f"Error code: {response.status_code} - {body}"
    return openai.APIStatusError(message, response=response, body=body)  # type: ignore[arg-type]


# --- Chat completions over HTTP for the specs that are ours -----------------------------------------------------------
#
# Why not the client's: its walks through every message and reply are most of what a call costs. The JSON on the wire is
# the same, and so are the errors: those of the openai package.


# The end of a stream is usually there already when its last event is.
_DRAIN_LIMIT_S: Final = 0.1
# What the openai package says of itself; all other headers that it has come from variables.
_SAFE_HEADER: Final = re.compile(r"Accept$|Content-Type$|User-Agent$|X-Stainless-", re.IGNORECASE)


def find_completions_url(base_url: str) -> tuple[str, str | None]:
    """Find where the completions of a server are, and the ``Authorization`` that its address says, if it does.

    Joined by the path, since an address without one would make the host another: ``http://gpuchat``.
    """
    url, basic = split_credentials(base_url)
    return f"{url.rstrip('/')}/chat/completions", basic


class ChatTransport:
    """The chat completions of one server, for one key. Whatever is not defined here is the client's own.

    Args:
        connections: to the server.
        client: the ``openai.AsyncOpenAI`` that knows its address, the headers of the environment, and the errors.
        api_key: sent with each request.
    """

    def __init__(self, connections: Connections, client: Any, api_key: str) -> None:
        import httpx

        self._session = connections.session
        base_url = str(client.base_url)
        self._url, basic = find_completions_url(base_url)
        self._request = httpx.Request("POST", self._url)  # for errors, which want to tell what failed
        self._headers = {name: value for name, value in client.default_headers.items() if isinstance(value, str)}
        if not is_trusted_url(
            base_url
        ):  # organization, project and OPENAI_CUSTOM_HEADERS are no other server's business
            self._headers = {name: value for name, value in self._headers.items() if _SAFE_HEADER.match(name)}
        # As the openai package has it: a user and password in the address go before a key.
        self._fields = find_sent_fields(self._url)
        self._headers["Authorization"] = basic or f"Bearer {api_key}"
        self._client = client
        self.with_raw_response = _RawTransport(self, client.chat.completions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client.chat.completions, _public(name))

    async def create(self, **payload: Any) -> Any:
        """Ask for a stream of the chunks of a reply, as dicts."""
        return aclosing(self._iterate_chunks(payload))

    async def request_reply(self, payload: dict[str, Any]) -> UnstreamedReply:
        """Ask for a reply in one piece."""
        async with self._open_response(payload) as response:
            return UnstreamedReply(self._url, response.headers, await response.read())

    async def _iterate_chunks(self, payload: dict[str, Any]) -> AsyncIterator[Any]:
        import aiohttp

        async with self._open_response(payload) as response:
            pieces, tools = response.content.iter_any(), payload.get("tools") or ()
            async for chunk in iterate_chunks(pieces, self._url, tools, lost=aiohttp.ClientError):
                check_chunk(chunk, self._request)
                yield chunk
            await _drain(response)

    @asynccontextmanager
    async def _open_response(self, payload: dict[str, Any]) -> AsyncIterator[ClientResponse]:
        """Send a request and wait for the head of its reply.

        Raises:
            openai.APIStatusError: the server refused it.
            openai.APIConnectionError: the server can't be reached, or the connection was cut, now or later.
        """
        import aiohttp
        import openai

        body = payload | {"messages": put_back(payload["messages"])}
        body |= body.pop("extra_body", None) or {}
        self._fields.fit(body)
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        try:
            # No redirects: nobody is contacted but the address that was named (E43).
            sending = self._session.post(self._url, data=data, headers=self._headers, allow_redirects=False)
            async with sending as response:
                if response.status >= 300:
                    error: Any = self._make_error(response.status, response.headers, await response.read())
                    self._fields.learn(error, body)
                    raise error
                yield response
        except aiohttp.ClientError as error:
            raise openai.APIConnectionError(request=self._request) from error  # type: ignore[arg-type]

    def _make_error(self, status: int, headers: Mapping[str, str], content: bytes) -> Exception:
        """Make the error that a reply with a bad status stands for."""
        import httpx

        # The content was unpacked already.
        kept = [(name, value) for name, value in headers.items() if name.lower() != "content-encoding"]
        response = httpx.Response(status, headers=kept, content=content, request=self._request)
        return make_status_error(self._client, response)


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


class _RawTransport:
    """What ``ChatOpenAI`` asks when it wants no stream."""

    def __init__(self, transport: ChatTransport, completions: Any) -> None:
        self._transport = transport
        self._completions = completions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions.with_raw_response, _public(name))

    async def create(self, **payload: Any) -> UnstreamedReply:
        return await self._transport.request_reply(payload)


@dataclass(frozen=True, slots=True)
class UnstreamedReply:
    """A reply as it came."""

    url: str
    headers: Mapping[str, str]
    content: bytes

    def parse(self) -> Any:
        """Parse its JSON, and put it right where LangChain would raise."""
        return parse_completion(self.content, self.url)


def _public(name: str) -> str:
    """Refuse a private name: one of our own that is not set yet would be looked up for ever."""
    if name.startswith("_"):
        raise AttributeError(name)
    return name


async def _drain(response: ClientResponse) -> None:
    """Read what is left, if it comes at once: only then can the connection be used again."""
    import aiohttp

    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_DRAIN_LIMIT_S):
            await response.read()


# --- The chat completions of a user's ``openai.AsyncOpenAI`` client, as langchain-openai calls them: more forgiving ---
#
# Why not our own transport, as for our own specs: the client is the user's, with headers, hooks and addresses that only
# it knows. What is sent is the same to the byte but for the order of the fields; what comes back is put right by the
# same functions as on our own way.


_WHOLE_TYPE: Final = re.compile(r"json|html")
_ANNOUNCED_END: Final = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)
_LONGEST_END: Final = 64


class TolerantCompletions:
    """Takes the place of ``AsyncOpenAI.chat.completions``; whatever is not defined here is the client's own.

    Args:
        completions: of the client.
        base_url: that it asks.
    """

    def __init__(self, completions: Any, base_url: str) -> None:
        self._completions = completions
        self._url, _ = find_completions_url(base_url)
        self.with_raw_response = _TolerantRawCompletions(completions.with_raw_response, self._url)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)

    async def create(self, **payload: Any) -> Any:
        """Ask for a reply; streamed ones come from here."""
        reply = await _create(self._completions, payload, self._url)
        return _TolerantStream(reply, self._url, payload.get("tools") or ()) if payload.get("stream") else reply


class _TolerantStream:
    """A stream of chunks, which may turn out to be a reply in one piece."""

    def __init__(self, stream: Any, url: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self._stream = stream
        self._url = url
        self._tools = tools

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
                for chunk in to_chunks(parse_completion(content, self._url)):
                    yield chunk
                return
        end, corrector = _EndOfBytes(response), ChunkCorrector(self._tools)
        async for chunk in self._iterate_chunks(response, end, corrector):
            yield chunk
        for chunk in corrector.finish(self._url, is_announced=end.is_announced):
            yield chunk

    async def _iterate_chunks(self, response: Any, end: _EndOfBytes, corrector: ChunkCorrector) -> AsyncIterator[Any]:
        import openai

        try:
            # Not read from the bytes, as ours are: who listens to the client hears of its chunks.
            async for each in self._stream:
                chunk = each if isinstance(each, dict) else _to_chunk(each, corrector)
                check_chunk(chunk, getattr(response, "request", None))
                yield corrector.take(chunk)
        except openai.APIConnectionError:
            if not corrector.has_reason:
                raise
        except openai.APIError as error:
            raise error from BrokenStreamError(NO_PART)
        except json.JSONDecodeError as error:
            if not (end.is_cut_off and corrector.has_reason):
                raise (BrokenStreamError(NO_PART) if end.is_cut_off or corrector.has_chunk else error) from error


def _to_chunk(said: Any, corrector: ChunkCorrector) -> dict[str, Any]:
    """Convert what the client gives for an event, as LangChain does it, too: a model, or JSON that is no object."""
    chunk = unwrap_error(said)
    if (dump := getattr(chunk, "model_dump", None)) is not None:
        chunk = dump(warnings=False)
    if isinstance(chunk, dict):
        return chunk
    raise BrokenStreamError(NO_PART) if corrector.has_chunk else MalformedReplyError(json.dumps(said, default=str))


class _EndOfBytes:
    """The last bytes of a response that somebody else reads, and does not tell how they ended."""

    def __init__(self, response: Any) -> None:
        self._last = b""
        self._read: Any = getattr(response, "aiter_bytes", None)
        if self._read is not None:
            response.aiter_bytes = self._watch

    @property
    def is_announced(self) -> bool:
        """Whether the server said that this is the end; so it is taken to be where nobody can look."""
        return self._read is None or _ANNOUNCED_END.search(self._last) is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether they end inside an event."""
        return self._last.rstrip(b"\r\n") == self._last

    async def _watch(self, *args: Any) -> AsyncIterator[bytes]:
        async for piece in self._read(*args):
            self._last = (self._last + piece)[-_LONGEST_END:]
            yield piece


class _TolerantRawCompletions:
    """Unstreamed replies come from here."""

    def __init__(self, completions: Any, url: str) -> None:
        self._completions = completions
        self._url = url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)

    async def create(self, **payload: Any) -> _TolerantResponse:
        return _TolerantResponse(await _create(self._completions, payload, self._url), self._url)


class _TolerantResponse:
    """A reply of the server, put right when it is parsed."""

    def __init__(self, response: Any, url: str) -> None:
        self._response = response
        self._url = url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def parse(self) -> Any:
        """Parse it into what the client gives: relatives of ``ChatOpenAI`` look into fields that a dict has not."""
        from openai.types.chat import ChatCompletion

        return ChatCompletion.construct(**parse_completion(self._response.content, self._url))


async def _create(completions: Any, payload: dict[str, Any], url: str) -> Any:
    """Send a request as the server takes it, as far as that is known."""
    import openai

    fields = find_sent_fields(url)
    fields.fit(payload)
    try:
        return await completions.create(**_move_messages(payload))
    except openai.APIStatusError as error:
        fields.learn(error, payload)
        raise


def _move_messages(payload: dict[str, Any]) -> dict[str, Any]:
    """Move the messages of a payload to where the client does not walk through them.

    They are plain JSON already. The walk costs half a millisecond a message, again on every turn of a conversation.
    """
    extra = payload.get("extra_body") or {}
    if "messages" not in payload or "messages" in extra:
        return payload
    return payload | {"messages": [], "extra_body": extra | {"messages": put_back(payload["messages"])}}


# --- A reply of one of our own models, asked for without LangChain's own way ------------------------------------------
#
# Why: for each request LangChain looks for callbacks, makes and validates a dozen objects and goes through a thread,
# which takes a third of what a call costs, and for each chunk of a stream it makes several objects more. Where a model
# has no callbacks, nobody but us hears of any. What a request holds and what a whole reply means is still LangChain's
# to say.


def can_ask_directly(model: Any, options: Mapping[str, Any]) -> bool:
    """Whether a model sends through our own transport, asks for chat completions, and keeps no replies for reuse."""
    return (
        isinstance(find_completions(model), ChatTransport)
        and has_convertible_payload(model)
        and not is_responses_api_used(model, options)
        and not _has_cache(model)
    )


def _has_cache(model: Any) -> bool:
    from langchain_core.globals import get_llm_cache

    return bool(model.cache) or get_llm_cache() is not None


async def ask_directly(
    model: Any,
    messages: Sequence[BaseMessage],
    sent: list[dict[str, Any]],
    options: Mapping[str, Any],
    on_token: Callable[[str], None] | None,
) -> AIMessage:
    """Ask for a reply: in one piece, or streamed where `on_token` hears of each piece of its text as it comes.

    Args:
        model: one that can be asked so.
        messages: of the whole conversation.
        sent: the first of them as they stand in its earlier requests; what is made of the others now joins them.
        options: what the model is bound to.
        on_token: None for nobody.

    Raises:
        MalformedReplyError: the server sent no reply.
        openai.APIError: it refused, can't be reached, or was cut.
    """
    is_streamed = on_token is not None or model.streaming
    asked = {**options, "stream": True, "stream_options": {"include_usage": True}} if is_streamed else options
    payload = make_payload(model, messages[len(sent) :], asked)
    sent += payload["messages"]
    payload["messages"] = sent
    transport: Any = find_completions(model)
    if not is_streamed:
        whole = await transport.request_reply(payload)
        return make_message(model, whole.parse())
    reply = _Reply()
    async with await transport.create(**payload) as chunks:
        async for chunk in chunks:
            if (text := reply.take(chunk)) and on_token is not None:
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
        self._usage = chunk.get("usage") or self._usage  # it comes whole, at the end
        choice: dict[str, Any] = next(iter(chunk.get("choices") or ()), {})
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta") or {}
        self._calls += delta.get("tool_calls") or ()  # all of them come whole, at the end
        text: str = delta.get("content") or ""
        if text:
            self._texts.append(text)
        return text

    def to_completion(self) -> dict[str, Any]:
        """The same as a reply in one piece."""
        message = {"role": "assistant", "content": "".join(self._texts), "tool_calls": self._calls}
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._last_chunk, "choices": [choice], "usage": self._usage}
