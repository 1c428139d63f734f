"""Chat models of langchain-openai: users' objects without hidden retries (E30), and specs that LangChain is to ask.

What a user's model calls to send and receive is made more forgiving: what servers send is put right by `reply_body` and
`streamed_reply`, as for specs. Knows nothing of conversations.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import runpy
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ensemble_notebook.models.openai.connections import find_proxy
from ensemble_notebook.models.openai.endpoint import (
    Endpoint,
    find_base_url_of_environment,
    find_completions_url,
    is_openai_url,
    is_trusted_url,
    read_account_headers,
    split_credentials,
)
from ensemble_notebook.models.openai.kept_fields import put_back
from ensemble_notebook.models.openai.reply_body import (
    NO_PART,
    BrokenStreamError,
    MalformedReplyError,
    check_chunk,
    parse_completion,
    to_chunks,
    unwrap_error,
)
from ensemble_notebook.models.openai.request_fields import find_sent_fields, make_response_format
from ensemble_notebook.models.openai.streamed_reply import ChunkCorrector, is_event_stream

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI
    from langchain_openai.chat_models.base import BaseChatOpenAI


# Names of langchain-openai that are not public there, for two things without a public way: a user's model gets a copy
# of its client that does not retry in secret, and its requests go through completions of ours. Where a later version
# has them no more, a model stays plain: it works, with less patience for odd servers. A test says when they move.

# The `AsyncOpenAI` of a model, and its `chat.completions`, through which a model sends.
_CLIENT: Final = "root_async_client"
_COMPLETIONS: Final = "async_client"
# Whether a request would go to OpenAI's newer interface, which has its own names for everything.
_USES_RESPONSES_API: Final = "_use_responses_api"


def make_chat_model(endpoint: Endpoint, settings: Mapping[str, Any]) -> ChatOpenAI:
    """Make a chat model for an endpoint, where LangChain is to ask it. Takes seconds, the first time.

    Args:
        endpoint: where it is.
        settings: further fields of the class.
    """
    from langchain_openai import ChatOpenAI
    from openai import Omit

    async def get_key() -> str:
        # With a plain key LangChain would make a second client, for synchronous calls.
        return endpoint.api_key

    url, basic = split_credentials(endpoint.url)
    authorization = {"Authorization": basic or f"Bearer {endpoint.api_key}"}
    model = ChatOpenAI(
        model=endpoint.name,
        base_url=url,
        api_key=get_key,
        openai_proxy=find_proxy(url),  # as for our own connections; its own variable is for all addresses
        default_headers=authorization,
        max_retries=0,
        timeout=None,
        stream_usage=True,
        stream_chunk_timeout=None,
        # Other servers speak chat completions only, whatever their models are called.
        use_responses_api=None if endpoint.base_url is None else False,
        **settings,
    )
    client = getattr(model, _CLIENT, None)
    if client is not None and not is_trusted_url(endpoint.base_url):
        # What stands in variables is no other server's business. The package reads them again for each copy.
        withheld = dict.fromkeys(["OpenAI-Organization", "OpenAI-Project", *read_account_headers()], Omit())
        client = client.copy(default_headers=withheld | authorization)
        setattr(model, _CLIENT, client)
        setattr(model, _COMPLETIONS, client.chat.completions)
    return model


@functools.cache
def _read_profiles() -> Mapping[str, Mapping[str, Any]]:
    """Read what langchain-openai knows of models, without loading it; empty where it has that no more."""
    package = importlib.util.find_spec("langchain_openai")
    places = () if package is None else package.submodule_search_locations or ()
    files = [Path(place) / "data" / "_profiles.py" for place in places]
    profiles: Mapping[str, Mapping[str, Any]] = {}
    for file in filter(Path.is_file, files):
        profiles = runpy.run_path(str(file)).get("_PROFILES", profiles)
    return profiles


def serves_schemas(endpoint: Endpoint) -> bool:
    """Whether a model is known to hold its replies to a schema: its profile says so, or OpenAI itself serves it."""
    said = find_profile(endpoint).get("structured_output")
    return is_openai_url(endpoint.url) if said is None else bool(said)


def find_profile(endpoint: Endpoint) -> Mapping[str, Any]:
    """Find what langchain-openai knows of a model; empty where that is nothing."""
    return _read_profiles().get(endpoint.name, {})


# Models of OpenAI that are asked by its Responses API, as langchain-openai knows them.
_RESPONSES_ONLY: Final = re.compile(r"gpt-5(?:\.\d+)?-pro|gpt-5\.6-sol|gpt-6|.*codex", re.IGNORECASE)


def needs_responses_api(endpoint: Endpoint) -> bool:
    """Whether an endpoint is asked by OpenAI's newer interface, which LangChain speaks and we don't."""
    return endpoint.base_url is None and _RESPONSES_ONLY.match(endpoint.name) is not None


def has_schema_support(model: Any) -> bool:
    """Whether a model is known to hold its replies to a schema: its profile says so, or OpenAI itself serves it."""
    if not is_openai_model(model):
        return False
    said = (model.profile or {}).get("structured_output")
    return is_openai_url(find_base_url(model)) if said is None else bool(said)


def bind_schema(model: BaseChatOpenAI, schema: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Bind `model` to reply with JSON that fits `schema`; `options` is what else it is bound to."""
    response_format = make_response_format(schema)
    if is_responses_api_used(model, options):
        return model.bind(response_format=response_format)
    # Said as one of its parameters, it would have the openai package refuse tools that are not strict as well.
    return model.bind(extra_body={**(model.extra_body or {}), "response_format": response_format})


def has_replaceable_completions(model: object) -> bool:
    """Whether a model is one of langchain-openai whose requests can be sent by other completions than its own.

    Imports nothing: where langchain-openai is not loaded, no object is a model of it.
    """
    fields = getattr(type(model), "model_fields", {})
    return is_openai_model(model) and getattr(model, _CLIENT, None) is not None and _COMPLETIONS in fields


def is_openai_model(model: object) -> bool:
    """Whether a model is a ``ChatOpenAI`` or a relative of it. Imports nothing."""
    module = sys.modules.get("langchain_openai.chat_models.base")
    base = getattr(module, "BaseChatOpenAI", None)
    return base is not None and isinstance(model, base)


def find_base_url(model: BaseChatOpenAI) -> str:
    """Find the address that a model sends to."""
    client = getattr(model, _CLIENT, None)
    if client is not None:
        return str(client.base_url)
    return model.openai_api_base or find_base_url_of_environment() or "https://api.openai.com/v1"


def is_responses_api_used(model: BaseChatOpenAI, options: Mapping[str, Any]) -> bool:
    """Whether a request with these options would go to the Responses API rather than to chat completions."""
    decide = getattr(model, _USES_RESPONSES_API, None)
    return bool(model.use_responses_api if decide is None else decide({**options}))


def find_own_http_client(model: BaseChatOpenAI) -> Any | None:
    """Find the HTTP client that a user gave to a model, which may be bound to one loop; None when it was left out."""
    # A proxy makes langchain-openai fill in the field.
    return None if model.openai_proxy else model.http_async_client


def copy_without_retries(model: BaseChatOpenAI, http_client: Any) -> BaseChatOpenAI:
    """Copy a model whose completions can be replaced: it talks over `http_client`, and fails at the first failure.

    The copy asks for usage with streams, and sets no limit to their pauses. Everything else is the model's: callbacks,
    tags, parameters, headers. The model itself is not changed.
    """
    client = getattr(model, _CLIENT).copy(max_retries=0, http_client=http_client)
    copy = model.model_copy(
        update={
            "max_retries": 0,
            "http_async_client": http_client,
            "stream_usage": model.stream_usage is not False,
            # It waits with asyncio.wait_for, which on Python 3.11 may swallow a cancellation; the engine has a timeout.
            "stream_chunk_timeout": None,
        }
    )
    url, _ = find_completions_url(str(client.base_url))
    setattr(copy, _CLIENT, client)
    setattr(copy, _COMPLETIONS, _TolerantCompletions(client.chat.completions, url))
    return copy


# --- The chat completions of a user's ``openai.AsyncOpenAI`` client, as langchain-openai calls them: more forgiving ---
#
# Why not our own transport, as for specs: the client is the user's, with headers, hooks and addresses that only
# it knows. What is sent is the same to the byte but for the order of the fields; what comes back is put right by the
# same functions as on our own way.


_WHOLE_TYPE: Final = re.compile(r"json|html")
_ANNOUNCED_END: Final = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)
_LONGEST_END: Final = 64


class _Tolerant:
    """Takes the place of something of the client's; whatever is not defined here is its own.

    Args:
        own: of the client.
        url: that is asked.
    """

    def __init__(self, own: Any, url: str) -> None:
        self._own = own
        self._url = url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class _TolerantCompletions(_Tolerant):
    """Those of the client, in whose place it stands."""

    @property
    def with_raw_response(self) -> _TolerantRawCompletions:
        """Where unstreamed replies come from."""
        return _TolerantRawCompletions(self._own.with_raw_response, self._url)

    async def create(self, **payload: Any) -> Any:
        """Ask for a reply; streamed ones come from here."""
        reply = await _create(self._own, payload, self._url)
        return _TolerantStream(reply, self._url, payload.get("tools") or ()) if payload.get("stream") else reply


class _TolerantStream(_Tolerant):
    """A stream of chunks, which may turn out to be a reply in one piece."""

    def __init__(self, own: Any, url: str, tools: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(own, url)
        self._tools = tools

    async def __aenter__(self) -> Self:
        await self._own.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._own.__aexit__(*error)

    async def __aiter__(self) -> AsyncIterator[Any]:
        response = getattr(self._own, "response", None)
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
            async for each in self._own:
                chunk = each if isinstance(each, dict) else _to_chunk(each, corrector)
                check_chunk(chunk, getattr(response, "request", None))
                yield corrector.take(chunk)
        except openai.APIConnectionError:
            if not corrector.has_reason:
                raise
        except openai.APIError as error:
            raise error from BrokenStreamError(NO_PART)
        except json.JSONDecodeError as error:
            if end.is_cut_off and corrector.has_reason:
                return
            if end.is_cut_off or corrector.has_chunk:
                raise BrokenStreamError(NO_PART) from error
            raise


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


class _TolerantRawCompletions(_Tolerant):
    """Unstreamed replies come from here."""

    async def create(self, **payload: Any) -> _TolerantResponse:
        return _TolerantResponse(await _create(self._own, payload, self._url), self._url)


class _TolerantResponse(_Tolerant):
    """A reply of the server, put right when it is parsed."""

    def parse(self) -> Any:
        """Parse it into what the client gives: relatives of ``ChatOpenAI`` look into fields that a dict has not."""
        from openai.types.chat import ChatCompletion

        return ChatCompletion.construct(**parse_completion(self._own.content, self._url))


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
