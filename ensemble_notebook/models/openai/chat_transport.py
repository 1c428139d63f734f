"""Chat completions over HTTP for the specs that are ours: what ``ChatOpenAI`` calls to send and receive.

Stands below LangChain's callbacks, in place of ``AsyncOpenAI.chat.completions``, whose walks through every message and
reply are most of what a call costs. The JSON on the wire is the same, and so are the errors: those of the openai
package. Knows nothing of conversations.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.models.openai.chat_openai_adapter import make_status_error
from ensemble_notebook.models.openai.endpoint import split_credentials
from ensemble_notebook.models.openai.reply_body import parse_completion
from ensemble_notebook.models.openai.streamed_reply import iterate_chunks

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from ensemble_notebook.models.openai.connections import Connections

# The end of a stream is usually there already when its last event is.
_DRAIN_LIMIT_S: Final = 0.1


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
        base_url, basic = split_credentials(str(client.base_url))
        self._url = f"{base_url}chat/completions"
        self._request = httpx.Request("POST", self._url)  # for errors, which want to tell what failed
        self._headers = {name: value for name, value in client.default_headers.items() if isinstance(value, str)}
        # As the openai package has it: a user and password in the address go before a key.
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
            return UnstreamedReply(response.headers, await response.read())

    async def _iterate_chunks(self, payload: dict[str, Any]) -> AsyncIterator[Any]:
        async with self._open_response(payload) as response:
            async for chunk in iterate_chunks(response.content.iter_any()):
                yield self._check_chunk(chunk)
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

        body = dict(payload)
        body |= body.pop("extra_body", None) or {}
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        try:
            # No redirects: nobody is contacted but the address that was named (E43).
            sending = self._session.post(self._url, data=data, headers=self._headers, allow_redirects=False)
            async with sending as response:
                if response.status >= 300:
                    raise self._make_error(response.status, response.headers, await response.read())
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

    def _check_chunk(self, chunk: Any) -> Any:
        """Give back a chunk of a stream.

        Raises:
            openai.APIError: it is an error, which a server that has begun to stream can tell in no other way.
        """
        import openai

        if error := chunk.get("error"):
            message = error.get("message") if isinstance(error, dict) else None
            raise openai.APIError(message or str(error), request=self._request, body=error)  # type: ignore[arg-type]
        return chunk


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

    headers: Mapping[str, str]
    content: bytes

    def parse(self) -> Any:
        """Parse its JSON, and put it right where LangChain would raise."""
        return parse_completion(self.content)


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
