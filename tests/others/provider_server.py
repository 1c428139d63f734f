"""A loopback server that answers each provider's package in the wire format that it reads, and counts what comes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from tests.support.anthropic_server import make_events, make_message
from tests.support.openai_server import Answer, OpenAIServer, Request

TOKENS = (11, 7)
TEXT = "Soup."


class ProviderServer(OpenAIServer):
    """Answers by the path of a request; what it is asked there for is a text, in one piece or streamed."""

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def _reply(self, asked: web.BaseRequest, request: Request, answer: Answer) -> web.StreamResponse:
        path = asked.path
        is_completion = path.endswith("/chat/completions")
        if answer.status_code >= 400 or answer.cut or (is_completion and request.is_streamed):
            return await super()._reply(asked, request, answer)
        await asyncio.sleep(answer.delay)
        request.status = answer.status_code
        if is_completion:
            return web.json_response(_COMPLETION)
        if path.endswith(("/messages", ":rawPredict", "/invoke")) and not request.is_streamed:
            message = make_message(answer, [{"type": "text", "text": TEXT}], "end_turn")
            return web.json_response(message, headers=_INVOKE_USAGE if path.endswith("/invoke") else None)
        if path.endswith(("/messages", ":streamRawPredict")):
            return _stream(make_events(answer))
        if path.endswith(("-stream", "/converse")):
            return _reply_as_bedrock(path, answer)
        if path.endswith("ateContent"):  # generateContent and streamGenerateContent
            return _stream([_GEMINI]) if "stream" in path else web.json_response(_GEMINI)
        if path == "/v2/chat":
            return _stream(_COHERE_STREAM) if request.is_streamed else web.json_response(_COHERE)
        if path.endswith("/responses"):
            return _stream(_RESPONSES_STREAM) if request.is_streamed else web.json_response(_RESPONSES)
        return web.json_response({"error": {"message": f"no path {path}"}}, status=404)


def _reply_as_bedrock(path: str, answer: Answer) -> web.Response:
    """Reply in the forms of Amazon's own."""
    if path.endswith("/converse"):
        return web.json_response(_CONVERSE)
    if path.endswith("/converse-stream"):
        return _stream_frames(_CONVERSE_STREAM)
    pieces = [base64.b64encode(json.dumps(event).encode()).decode() for event in make_events(answer)]
    return _stream_frames([("chunk", {"bytes": piece}) for piece in pieces])


def _stream(events: Iterable[Mapping[str, Any]]) -> web.Response:
    text = ""
    for each in events:
        name = f"event: {each['type']}\n" if "type" in each else ""  # which Google's package does not read
        text += f"{name}data: {json.dumps(each)}\n\n"
    return web.Response(text=text, content_type="text/event-stream")


def _stream_frames(events: Iterable[tuple[str, Mapping[str, Any]]]) -> web.Response:
    """Amazon's event stream: frames with their lengths, headers and checksums."""
    body = b"".join(_make_frame(kind, json.dumps(payload).encode()) for kind, payload in events)
    return web.Response(body=body, content_type="application/vnd.amazon.eventstream")


def _make_frame(kind: str, payload: bytes) -> bytes:
    facts = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in facts.items()
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + payload
    return frame + struct.pack(">I", binascii.crc32(frame))


_READ, _WRITTEN = TOKENS
_COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": None,  # as OpenRouter's own package wants it
    "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": _READ, "completion_tokens": _WRITTEN, "total_tokens": _READ + _WRITTEN},
}
_INVOKE_USAGE = {
    "x-amzn-bedrock-input-token-count": str(_READ),
    "x-amzn-bedrock-output-token-count": str(_WRITTEN),
}
_CONVERSE_USAGE = {"inputTokens": _READ, "outputTokens": _WRITTEN, "totalTokens": _READ + _WRITTEN}
_CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": TEXT}]}},
    "stopReason": "end_turn",
    "usage": _CONVERSE_USAGE,
    "metrics": {"latencyMs": 1},
}
_CONVERSE_STREAM = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": TEXT}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": _CONVERSE_USAGE, "metrics": {"latencyMs": 1}}),
]
_GEMINI = {
    "candidates": [{"content": {"parts": [{"text": TEXT}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {
        "promptTokenCount": _READ,
        "candidatesTokenCount": _WRITTEN,
        "totalTokenCount": _READ + _WRITTEN,
    },
    "modelVersion": "gemini",
}
_COHERE_COUNTS = {"input_tokens": _READ, "output_tokens": _WRITTEN}
_COHERE_USAGE = {"billed_units": _COHERE_COUNTS, "tokens": _COHERE_COUNTS}
_COHERE = {
    "id": "c",
    "message": {"role": "assistant", "content": [{"type": "text", "text": TEXT}]},
    "finish_reason": "COMPLETE",
    "usage": _COHERE_USAGE,
}
_COHERE_STREAM = [
    {
        "type": "message-start",
        "id": "c",
        "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}},
    },
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": TEXT}}}},
    {"type": "content-end", "index": 0},
    {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": _COHERE_USAGE}},
]
_RESPONSES_ITEM = {
    "type": "message",
    "id": "m",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}
_RESPONSES = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [_RESPONSES_ITEM],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": _READ,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": _WRITTEN,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": _READ + _WRITTEN,
    },
}
_PLACE = {"item_id": "m", "output_index": 0, "content_index": 0}
_RESPONSES_STREAM = [
    {"type": "response.created", "sequence_number": 0, "response": {**_RESPONSES, "output": []}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": _RESPONSES_ITEM},
    {
        "type": "response.content_part.added",
        "sequence_number": 2,
        **_PLACE,
        "part": {"type": "output_text", "text": "", "annotations": []},
    },
    {"type": "response.output_text.delta", "sequence_number": 3, **_PLACE, "delta": TEXT, "logprobs": []},
    {"type": "response.completed", "sequence_number": 4, "response": _RESPONSES},
]
