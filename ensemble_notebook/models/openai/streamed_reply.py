"""The chunks of a streamed reply, as dicts: read from the bytes that a server sends, whether or not it can stream.

Knows no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ensemble_notebook.domain.seams.chat_port import REFUSED
from ensemble_notebook.models.openai.kept_fields import note_fields, select_fields
from ensemble_notebook.models.openai.reply_body import (
    NO_PART,
    WITHOUT_REASON,
    BrokenStreamError,
    MalformedReplyError,
    check_usage,
    choose_calls,
    flatten_content,
    parse_completion,
    parse_json,
    servers_without_reasons,
    show_refusal,
    to_chunks,
    to_whole_calls,
    unwrap_error,
)
from ensemble_notebook.models.openai.tool_calls import CallJoiner, join_blocks, join_fields, list_tool_names, read_calls

# --- Chunks of a streamed reply that came at once, joined before anybody hears of them --------------------------------
#
# Why: each piece of a text is an event, and takes a tenth of a millisecond and more until views have it. A server that
# is faster than we are, or a slow moment of ours, leaves many chunks in one read, and nobody sees them one by one.


# What differs from chunk to chunk, and is told by the last one as well.
_VARYING: Final = frozenset({"choices", "usage", "created", "obfuscation"})
_TEXT: Final = frozenset({"role", "content"})
_CHOICE: Final = frozenset({"index", "delta", "finish_reason"})


def join_chunks(chunks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same in fewer chunks: pieces of text that follow each other, and the end and the usage behind them."""
    last: dict[str, Any] | None = None
    for chunk in chunks:
        joined = None if last is None else _join_chunks(last, chunk)
        if last is not None and joined is None:
            yield last
        last = joined or chunk
    if last is not None:
        yield last


def _join_chunks(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any] | None:
    """Both in one; None where that would tell something else."""
    if first.get("usage") is not None or _get_rest(first) != _get_rest(second):
        return None
    choice = _find_choice(first)
    if choice is None:
        return None
    if second.get("choices") == []:
        return {**second, "choices": [choice]}
    other = _find_choice(second)
    if other is None or choice.get("finish_reason") is not None or choice.get("index") != other.get("index"):
        return None
    deltas = (choice["delta"], other["delta"])
    texts = [each["content"] for each in deltas if each.get("content") is not None]
    role = next(filter(None, (each.get("role") for each in deltas)), None)
    delta = {"content": "".join(texts) if texts else None, **({} if role is None else {"role": role})}
    return {**second, "choices": [{**other, "delta": delta}]}


def _get_rest(chunk: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chunk.items() if name not in _VARYING}


def _find_choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """The one choice of a chunk, if it tells nothing but a piece of an assistant's text, and maybe the end."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice: dict[str, Any] = choices[0]
    delta = choice.get("delta")
    if not isinstance(delta, dict) or any(choice[name] is not None for name in choice.keys() - _CHOICE):
        return None
    is_text = all(value is None or name in _TEXT for name, value in delta.items())
    is_text = is_text and isinstance(delta.get("content"), str | None) and delta.get("role") in (None, "assistant")
    return choice if is_text else None


# --- Server-sent events, read from bytes as they come: the data of each event as a text -------------------------------
#
# Source: WHATWG HTML, section 9.2.6 (https://html.spec.whatwg.org/multipage/server-sent-events.html), with one
# departure: an event that the end of the stream cuts off before its blank line is given out, since some servers end so.
#
# Why not a library: `httpx-sse` reads responses of httpx only, and ours are aiohttp's; the decoder of the openai
# package is private to it, keeps a byte order mark, and took quadratic time for long lines in versions that we allow;
# the clients for aiohttp connect and reconnect by themselves, and are not maintained; `sseclient-py` reads synchronous
# streams only.
#
# Knows nothing of HTTP. Only ``data`` is kept of an event, and whether it is an error: ``id`` and ``retry`` are for
# those who connect again, and what else an event is, servers of chat completions say in the data.


_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ErrorData(str):
    """The data of an event that is called an error, whatever form it has."""

    __slots__ = ()


class ServerSentEventDecoder:
    """Makes events of the pieces of one stream, however it is cut. Takes time in proportion to what it is fed.

    Attributes:
        is_cut_off: the stream has ended inside an event.
    """

    def __init__(self) -> None:
        self.is_cut_off = False
        self._is_error = False
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
        self.is_cut_off = bool(self._unfinished or self._data)
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
            elif name == b"event":
                self._is_error = value.strip() == b"error"
            elif name == b"error":  # as llama.cpp sends it
                self._is_error = True
                self._data.append(value.removeprefix(b" "))
            return None
        is_error, self._is_error = self._is_error, False
        if not self._data:
            return None
        event = b"\n".join(self._data).decode(errors="replace")
        self._data.clear()
        return ErrorData(event) if is_error else event


async def iterate_event_groups(
    stream: AsyncIterable[bytes], decoder: ServerSentEventDecoder | None = None
) -> AsyncIterator[list[str]]:
    """Iterate over the data of the events in a stream of bytes: together those that one piece completes."""
    decoder = decoder or ServerSentEventDecoder()
    async for piece in stream:
        if events := decoder.feed(piece):
            yield events
    if events := decoder.finish():
        yield events


# --- The tool calls of a streamed reply, put together from their pieces before LangChain sees them (E67) --------------
#
# Why not leave it to LangChain: it completes the JSON of each piece and of their sum by trying ever shorter texts,
# which takes minutes for 400 KB that are no JSON. Nobody watches arguments as they come, so nothing is lost by waiting.


# What some servers send for none, in every chunk but the last.
_NO_REASONS: Final = ("null", "none")
_CONTENTS: Final = frozenset({"role", "content"})
# Of a chunk, which LangChain adds up; it refuses to where their types differ.
_FACTS: Final = ("model", "service_tier", "system_fingerprint")


@dataclass(slots=True)
class _Choice:
    """What one choice of a reply has beside its text."""

    joiner: CallJoiner
    finish_reason: Any = None


class ChunkCorrector:
    """Puts the chunks of one reply right: texts are texts, and calls and usage are given whole at the end.

    Args:
        tools: on offer, as they stand in the request.

    Attributes:
        has_chunk: one has come.
        has_reason: one has said why the reply ended, so that nothing of it is still to come.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        self.has_chunk = False
        self.has_reason = False
        self._tools = tools
        self._choices: dict[int, _Choice] = {}
        self._first: int | None = None
        self._fields: list[Mapping[str, Any]] = []
        self._blocks: list[Any] = []
        self._is_refused = False
        self._usage: Any = None
        self._last_chunk: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """Take in a chunk; give it back with the text of the first choice alone."""
        self.has_chunk = True
        if (usage := chunk.get("usage")) is not None:
            # Servers that tell it with each chunk tell the sum so far, and LangChain adds all of them up.
            self._usage, chunk["usage"] = usage, None
        self._last_chunk = chunk
        choices = chunk.get("choices")
        if not choices or self._is_plain(choices):
            return chunk
        odd = {name: str(chunk[name]) for name in _FACTS if not isinstance(chunk.get(name), str | None)}
        return {**chunk, **odd, "choices": self._take_choices(choices)}

    def _is_plain(self, choices: Any) -> bool:
        """Whether these are a piece of text of the first choice and nothing else, as nearly all are."""
        if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
            return False
        choice = choices[0]
        delta = choice.get("delta")
        return (
            choice.get("index") == self._first
            and type(delta) is dict
            and delta.keys() <= _CONTENTS
            and type(delta.get("content")) is str
            and delta.get("role") is None
            and choice.get("finish_reason") is None
        )

    def _take_choices(self, choices: Any) -> list[dict[str, Any]]:
        """The first choice of the reply, where it is among these."""
        kept = []
        for choice in choices if isinstance(choices, list) else [choices]:
            if not isinstance(choice, Mapping):
                continue
            index = choice.get("index")
            key = index if type(index) is int else self._first or 0
            if self._first is None:
                self._first = key
            known = self._choices.setdefault(key, _Choice(CallJoiner(lambda: list_tool_names(self._tools))))
            reason = _read_reason(choice)
            known.finish_reason = reason or known.finish_reason
            said = choice.get("delta") or choice.get("message")  # a whole reply in one event has no delta
            delta = dict(said) if isinstance(said, Mapping) else {}
            for piece in read_calls(delta):
                known.joiner.add(piece)
            if key == self._first:
                delta = self._correct(delta)
                self.has_reason |= reason is not None
                told = REFUSED if reason and self._is_refused else reason
                kept.append({**choice, "delta": delta, "finish_reason": told})
                self._usage = self._usage or choice.get("usage")
        return kept

    def _correct(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Correct a piece of the message, and note what it has beside its text."""
        self._blocks += flatten_content(delta)
        if fields := select_fields(delta):
            self._fields.append(fields)
        if delta.get("role") is not None:
            delta["role"] = "assistant"
        if delta.get("refusal"):
            show_refusal(delta)
            self._is_refused = True
        for name in ("tool_calls", "function_call", "id"):
            delta.pop(name, None)
        return delta

    def finish(self, url: str, *, is_announced: bool) -> list[dict[str, Any]]:
        """Take in the end of the stream; give a chunk with all calls, and one with the usage, where there are any.

        Args:
            url: where the reply comes from.
            is_announced: the server said that it is the end.

        Raises:
            BrokenStreamError: the end came before that of the reply (E30).
        """
        if not self.has_reason and not (is_announced and url in servers_without_reasons):
            raise BrokenStreamError(WITHOUT_REASON, is_announced=is_announced)
        calls = choose_calls([(each.joiner.finish(), each.finish_reason) for each in self._choices.values()])
        note_fields(join_fields(self._fields), join_blocks(self._blocks), calls)
        chunks = []
        if calls:
            choice = {"index": 0, "delta": {"tool_calls": to_whole_calls(calls)}, "finish_reason": None}
            chunks.append({**self._last_chunk, "choices": [choice], "usage": None})
        if self._usage is not None:
            chunks.append({**self._last_chunk, "choices": [], "usage": check_usage(self._usage)})
        return chunks


def _read_reason(choice: Mapping[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return None if not reason or reason in _NO_REASONS else str(reason)


# ----------------------------------------------------------------------------------------------------------------------
# The chunks of a streamed reply, as dicts: read from the bytes that a server sends, whether or not it can stream.


_END_OF_STREAM: Final = "[DONE]"
# What the lines of a stream of events begin with; JSON and HTML begin otherwise.
_EVENT_LINE: Final = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?::|data|event|id|retry|error:)")
_LONGEST_START: Final = 2048


async def iterate_chunks(
    stream: AsyncIterable[bytes], url: str, tools: Sequence[Mapping[str, Any]] = (), *, lost: type[Exception]
) -> AsyncIterator[Any]:
    """Iterate over the chunks, each as soon as it is complete, until the end that the server announces.

    Those that came at once are joined.

    Args:
        stream: what the server sends.
        url: where it comes from.
        tools: on offer, as they stand in the request.
        lost: what `stream` raises where the connection is lost.

    Raises:
        BrokenStreamError: the stream ended before the reply did.
        MalformedReplyError: what came are no chunks, and no unstreamed reply either.
    """
    pieces = aiter(stream)
    start = await _read_start(pieces)
    if not is_event_stream(start):
        rest = [piece async for piece in pieces]
        for chunk in to_chunks(parse_completion(b"".join([start, *rest]), url)):
            yield chunk
        return
    reading = _Reading(start, ChunkCorrector(tools))
    try:
        async for events in iterate_event_groups(_prepend(start, pieces), reading.decoder):
            for chunk in join_chunks(reading.take(events)):
                yield chunk
            if reading.is_over or reading.error is not None:
                break
    except lost:
        if not reading.corrector.has_reason:
            raise
    for chunk in reading.finish(url):
        yield chunk


@dataclass(slots=True)
class _Reading:
    """How far a stream has been read, group of events by group of events.

    Attributes:
        start: of what came.
        error: of an event that is no chunk; those before it are good.
    """

    start: bytes
    corrector: ChunkCorrector
    decoder: ServerSentEventDecoder = field(default_factory=ServerSentEventDecoder)
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
                if isinstance(event, ErrorData):
                    yield _to_error(text)
                elif text:  # some servers send empty ones to keep a connection open
                    chunk = unwrap_error(parse_json(text))
                    if not isinstance(chunk, dict):
                        raise MalformedReplyError(text)
                    yield self.corrector.take(chunk)
            except MalformedReplyError as error:
                self.error = error
                return

    def finish(self, url: str) -> list[dict[str, Any]]:
        """The last chunks, of a reply that is whole."""
        is_cut_off, corrector = self.decoder.is_cut_off, self.corrector
        if not self.has_event and not is_cut_off and not self.start.lstrip().startswith(b":"):
            raise MalformedReplyError(self.start.decode(errors="replace"))
        if self.error is not None and not (is_cut_off and corrector.has_reason):
            if corrector.has_chunk or is_cut_off:
                raise BrokenStreamError(NO_PART) from self.error
            raise self.error
        return corrector.finish(url, is_announced=self.is_over)


def _to_error(text: str) -> dict[str, Any]:
    """The chunk that tells an error, whose form need not be one of a chunk."""
    try:
        said = unwrap_error(parse_json(text))
    except MalformedReplyError:
        said = text
    return said if isinstance(said, dict) and said.get("error") else {"error": said or "The server says no more."}


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


async def _prepend(start: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield start
    async for piece in pieces:
        yield piece
