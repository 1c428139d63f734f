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

from ensemble_notebook.models.openai.chat_completions import AS_TEXT, is_object

if TYPE_CHECKING:
    from aiohttp import ClientResponse, StreamReader

    from ensemble_notebook.models.openai.connections import Connections

_DRAIN_S: Final = 0.1


class Wire:
    """The chat completions of one server, for one key.

    Args:
        connections: to the server.
        root: the ``openai.AsyncOpenAI`` that knows its address, the headers of the environment, and the errors.
        api_key: sent with each request.
    """

    def __init__(self, connections: Connections, root: Any, api_key: str) -> None:
        import httpx

        self._session = connections.session
        self._url = f"{root.base_url}chat/completions"
        self._request = httpx.Request("POST", self._url)  # for errors, which want to tell what failed
        self._headers = {name: value for name, value in root.default_headers.items() if isinstance(value, str)}
        self._headers["Authorization"] = f"Bearer {api_key}"
        self._root = root
        self.with_raw_response = _Unstreamed(self)

    async def create(self, **payload: Any) -> Any:
        """A stream of the chunks of a reply, as dicts."""
        return aclosing(self._chunks(payload))

    async def whole(self, payload: dict[str, Any]) -> WholeReply:
        """A reply in one piece."""
        async with self._sent(payload) as response:
            return WholeReply(response.headers, await response.read())

    async def _chunks(self, payload: dict[str, Any]) -> AsyncIterator[Any]:
        async with self._sent(payload) as response:
            async for said in events(response.content):
                if said.startswith(b"[DONE]"):
                    await _drain(response)
                    return
                yield self._checked(json.loads(said))

    @asynccontextmanager
    async def _sent(self, payload: dict[str, Any]) -> AsyncIterator[ClientResponse]:
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
                    raise self._refusal(response.status, response.headers, await response.read())
                yield response
        except aiohttp.ClientError as error:
            raise openai.APIConnectionError(request=self._request) from error  # type: ignore[arg-type]

    def _refusal(self, status: int, headers: Mapping[str, str], said: bytes) -> Exception:
        import httpx

        # What it said was unpacked already.
        kept = [(name, value) for name, value in headers.items() if name.lower() != "content-encoding"]
        response = httpx.Response(status, headers=kept, content=said, request=self._request)
        refusal: Exception = self._root._make_status_error_from_response(response)
        return refusal

    def _checked(self, chunk: Any) -> Any:
        """A chunk that is no error."""
        import openai

        error = chunk.get("error") if isinstance(chunk, dict) else None
        if error:
            said = error.get("message") if isinstance(error, dict) else None
            raise openai.APIError(said or str(error), request=self._request, body=error)  # type: ignore[arg-type]
        return chunk


@dataclass(frozen=True, slots=True)
class _Unstreamed:
    """What ``ChatOpenAI`` asks when it wants no stream."""

    wire: Wire

    async def create(self, **payload: Any) -> WholeReply:
        return await self.wire.whole(payload)


@dataclass(frozen=True, slots=True)
class WholeReply:
    """A reply as it came."""

    headers: Mapping[str, str]
    content: bytes

    def parse(self) -> Any:
        """Its JSON, put right where LangChain would raise."""
        completion = json.loads(self.content)
        choices = completion.get("choices") if isinstance(completion, dict) else None
        if choices == []:
            completion["choices"] = [{"finish_reason": "stop", "message": {"role": "assistant", "content": ""}}]
        for choice in choices or ():
            calls = (choice.get("message") or {}).get("tool_calls") or ()
            functions = [call["function"] for call in calls if call.get("function")]
            # All or none: LangChain keeps good and bad ones apart, and their order would be lost.
            if not all(is_object(function.get("arguments")) for function in functions):
                for function in functions:
                    function["arguments"] = f"{AS_TEXT}{function.get('arguments') or ''}"
        return completion


async def _drain(response: ClientResponse) -> None:
    """Read what is left, if it comes at once: only then can the connection be used again."""
    import aiohttp

    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_DRAIN_S):
            await response.read()


async def events(content: StreamReader) -> AsyncIterator[bytes]:
    """The data of server-sent events."""
    rest, lines = b"", []
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in map(bytes.rstrip, whole):
            if line.startswith(b"data:"):
                lines.append(line.removeprefix(b"data:").lstrip())
            elif not line and lines:
                yield b"\n".join(lines)
                lines = []
    if rest.startswith(b"data:"):
        lines.append(rest.removeprefix(b"data:").strip())
    if lines:
        yield b"\n".join(lines)
