"""A real HTTP server on loopback that speaks Anthropic's protocol of messages, with the answers of `OpenAIServer`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from tests.support.openai_server import WORD, Answer, OpenAIServer, Request


class AnthropicServer(OpenAIServer):
    """Answers ``POST /v1/messages``, streamed and in one piece; the ledger and the script are as of `OpenAIServer`.

    Attributes:
        thinking: the blocks that each reply begins with.
    """

    thinking: Sequence[Mapping[str, Any]] = ()

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.port}"

    async def _reply(self, asked: web.BaseRequest, request: Request, answer: Answer) -> web.StreamResponse:
        assert asked.path == "/v1/messages", asked.path
        if answer.delay:
            await asyncio.sleep(answer.delay)
        request.status = answer.status_code
        if answer.status_code >= 400:
            error = {"type": answer.code or "invalid_request_error", "message": answer.message}
            return web.json_response({"type": "error", "error": error}, status=answer.status_code)
        request.usage = answer.usage
        if not request.is_streamed:
            content = [block for block, _ in _make_blocks(answer, self.thinking)]
            return web.json_response(make_message(answer, content, _find_stop_reason(answer)))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        for event in make_events(answer, self.thinking):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            if answer.pause and event["type"] == "content_block_delta":
                await asyncio.sleep(answer.pause)
        await response.write_eof()
        return response


def _find_stop_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_use" if answer.calls else "end_turn")


def make_message(answer: Answer, content: list[Any], stop_reason: str | None) -> dict[str, Any]:
    """A reply in one piece, or the one that a stream begins with."""
    read, written = answer.usage or (0, 0)
    usage = (
        {"input_tokens": read, "output_tokens": written} if answer.odd_usage is None else json.loads(answer.odd_usage)
    )
    facts = {"content": content, "stop_reason": stop_reason, "stop_sequence": None, "usage": usage}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": answer.model, **facts}


def _make_blocks(
    answer: Answer, thinking: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], list[dict[str, Any]]]]:
    """The blocks of a reply, each with the pieces in which it is streamed."""
    for block in thinking:
        yield (
            block,
            [{"type": f"{name}_delta", name: block[name]} for name in ("thinking", "signature") if name in block],
        )
    if answer.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in WORD.findall(answer.text)]
        yield {"type": "text", "text": answer.text}, pieces
    for number, (name, arguments) in enumerate(answer.calls, start=1):
        piece = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}, [piece]


_EMPTY: Final = {
    "text": {"text": ""},
    "tool_use": {"input": {}},
    "thinking": {"thinking": "", "signature": ""},
}


def make_events(answer: Answer, thinking: Iterable[Mapping[str, Any]] = ()) -> Iterator[dict[str, Any]]:
    """The events of a streamed reply."""
    yield {"type": "message_start", "message": make_message(answer, [], None)}
    for index, (block, pieces) in enumerate(_make_blocks(answer, thinking)):
        empty = _EMPTY.get(block["type"], {})
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for piece in pieces:
            yield {"type": "content_block_delta", "index": index, "delta": piece}
        yield {"type": "content_block_stop", "index": index}
    usage = {"output_tokens": (answer.usage or (0, 0))[1]}
    if answer.odd_usage is not None:  # all but how long a cache is kept, which its end of a stream has no field for
        usage = {name: count for name, count in json.loads(answer.odd_usage).items() if name != "cache_creation"}
    delta = {"stop_reason": _find_stop_reason(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": usage}
    yield {"type": "message_stop"}
