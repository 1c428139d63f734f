"""Server-sent events, read from bytes as they come: the data of each event as a text.

Source: WHATWG HTML, section 9.2.6 (https://html.spec.whatwg.org/multipage/server-sent-events.html), with one departure:
an event that the end of the stream cuts off before its blank line is given out, since some servers end so.

Why not a library: `httpx-sse` reads responses of httpx only, and ours are aiohttp's; the decoder of the openai package
is private to it, keeps a byte order mark, and took quadratic time for long lines in versions that we allow; the clients
for aiohttp connect and reconnect by themselves, and are not maintained; `sseclient-py` reads synchronous streams only.

Knows nothing of HTTP. Only ``data`` is kept of an event: ``id`` and ``retry`` are for those who connect again, and what
kind of event it is, servers of chat completions say in the data.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ServerSentEventDecoder:
    """Makes events of the pieces of one stream, however it is cut. Takes time in proportion to what it is fed."""

    def __init__(self) -> None:
        # Pieces of a line whose end has not come; joined once, since a line may come in thousands of them.
        self._unfinished: list[bytes] = []
        self._is_at_start = True
        self._has_ended_with_cr = False
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[str]:
        """Take in some bytes; give the data of the events that are complete with them."""
        if not piece:
            return []
        if self._has_ended_with_cr and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a line end, whose first half has ended the line already
        self._has_ended_with_cr = piece.endswith(b"\r")
        *lines, rest = _LINE_END.split(piece)
        if lines:
            lines[0] = b"".join([*self._unfinished, lines[0]])
            self._unfinished.clear()
        if rest:
            self._unfinished.append(rest)
        return [event for line in lines if (event := self._take_line(line)) is not None]

    def finish(self) -> list[str]:
        """Take in the end of the stream; give the data of the event that it cuts off, if there is one."""
        last = [self._take_line(b"".join(self._unfinished)), self._take_line(b"")]
        self._unfinished.clear()
        return [event for event in last if event is not None]

    def _take_line(self, line: bytes) -> str | None:
        """Take in one line; a blank one ends an event, whose data is given."""
        if self._is_at_start:
            self._is_at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        if not self._data:
            return None
        event = b"\n".join(self._data).decode(errors="replace")
        self._data.clear()
        return event


async def iterate_event_groups(stream: AsyncIterable[bytes]) -> AsyncIterator[list[str]]:
    """Iterate over the data of the events in a stream of bytes: together those that one piece completes."""
    decoder = ServerSentEventDecoder()
    async for piece in stream:
        if events := decoder.feed(piece):
            yield events
    if events := decoder.finish():
        yield events
