"""The chunks of a streamed reply, as dicts: read from the bytes that a server sends, whether or not it can stream.

Knows no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ensemble_notebook.models.openai.chunk_joining import join_chunks
from ensemble_notebook.models.openai.reply_body import MalformedReplyError, parse_completion, parse_json, to_chunks
from ensemble_notebook.models.openai.server_sent_events import iterate_event_groups
from ensemble_notebook.models.openai.streamed_calls import StreamedCalls
from ensemble_notebook.models.openai.usage_check import check_usage

_END_OF_STREAM: Final = "[DONE]"
# What the lines of a stream of events begin with; JSON and HTML begin otherwise.
_EVENT_LINE: Final = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?::|data|event|id|retry)")
_LONGEST_START: Final = 2048


async def iterate_chunks(stream: AsyncIterable[bytes]) -> AsyncIterator[Any]:
    """Iterate over the chunks, each as soon as it is complete, until the end that the server announces.

    Those that came at once are joined.

    Raises:
        MalformedReplyError: what came are no chunks, and no unstreamed reply either.
    """
    pieces = aiter(stream)
    start = await _read_start(pieces)
    if not is_event_stream(start):
        rest = [piece async for piece in pieces]
        for chunk in to_chunks(parse_completion(b"".join([start, *rest]))):
            yield chunk
        return
    reading = _Reading()
    async for events in iterate_event_groups(_join(start, pieces)):
        for chunk in join_chunks(reading.take(events)):
            yield chunk
        if reading.error is not None:
            raise reading.error
        if reading.is_over:
            break
    if not reading.has_event:
        raise MalformedReplyError(start.decode(errors="replace"))
    for chunk in reading.calls.finish():
        yield chunk


@dataclass(slots=True)
class _Reading:
    """How far a stream has been read, group of events by group of events.

    Attributes:
        error: of an event that is no chunk; those before it are good.
    """

    calls: StreamedCalls = field(default_factory=StreamedCalls)
    has_event: bool = False
    is_over: bool = False
    error: MalformedReplyError | None = None

    def take(self, events: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The chunks of these events."""
        for event in events:
            self.has_event = True
            text = event.strip()
            if text.startswith(_END_OF_STREAM):
                self.is_over = True
                return
            try:
                if text:  # some servers send empty ones to keep a connection open
                    yield self.calls.take(_check_chunk(text))
            except MalformedReplyError as error:
                self.error = error
                return


def is_event_stream(start: bytes) -> bool:
    """Whether a reply that begins like this is a stream of events."""
    return _EVENT_LINE.match(start) is not None


async def _read_start(pieces: AsyncIterator[bytes]) -> bytes:
    """Read as much as it takes to know what comes."""
    start = b""
    while len(start.strip()) < len(b"\xef\xbb\xbfevent") and len(start) < _LONGEST_START:
        piece = await anext(pieces, None)
        if piece is None:
            break
        start += piece
    return start


async def _join(start: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield start
    async for piece in pieces:
        yield piece


def _check_chunk(text: str) -> Any:
    chunk = parse_json(text)
    if not isinstance(chunk, dict):
        raise MalformedReplyError(text)
    if chunk.get("usage") is not None:  # all chunks but the last have none
        chunk["usage"] = check_usage(chunk["usage"])
    return chunk
