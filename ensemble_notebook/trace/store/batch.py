"""Events and documents as the store holds them: JSON, several in one piece, secrets masked (T7).

What is large is compressed. For a short text that costs more than all else that is done with it: each time the threads
of the interpreter take turns.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.codec.event_groups import read_groups, write_events
from ensemble_notebook.trace.codec.secret_search import make_secret_search

LARGEST: Final = 1 << 30
"""Bytes that a piece may unfold to: more is an attack, or nothing that could be read anyway (E71)."""

_LEVEL: Final = 1
_SHORT: Final = 2_048


def encode_events(events: Iterable[Event]) -> bytes:
    """One piece of events, in order.

    Raises:
        ValueError: one of them can't be written.
    """
    return fold(write_events(events))


def encode_document(document: Any) -> bytes:
    """One document: plain values, or what can be made plain.

    Raises:
        ValueError, RecursionError: it can't be written.
    """
    from pydantic_core import to_json

    return fold(to_json([to_plain(document)], inf_nan_mode="null"))


def encode_exchanges(makers: Sequence[Callable[[bool], Mapping[str, Any]]]) -> bytes:
    """One piece of exchanges, to be given again.

    Args:
        makers: make a document each: secrets masked, or, where they are told so, perhaps not yet.
    """
    from pydantic_core import to_json

    try:
        text = to_json([make(False) for make in makers])
        is_clean = not make_secret_search()(text)
    except ValueError:  # half a character somewhere, which is given again as it was
        is_clean = False
    if not is_clean:
        text = json.dumps([make(True) for make in makers], default=str, separators=(",", ":")).encode()
    return fold(text)


def fold(text: bytes) -> bytes:
    """A JSON array as a piece."""
    return text if len(text) < _SHORT else zlib.compress(text, _LEVEL)


def decode_piece(data: object) -> list[Any]:
    """The groups of events, or the documents, in a piece, as plain values.

    Raises:
        ValueError: it is none.
    """
    from pydantic_core import from_json

    if not isinstance(data, bytes):
        raise ValueError("no piece of bytes")
    text = data if data.startswith(b"[") else unfold(data)
    try:
        values = from_json(text, allow_inf_nan=False)
    except ValueError:  # it may be half a character in an exchange, which is taken as it is
        values = _load(text)
    if not isinstance(values, list):
        raise ValueError("no list of values")
    return values


def decode_event_piece(data: object) -> list[Any]:
    """The events in a piece, as plain values, in order.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is none.
    """
    return read_groups(decode_piece(data))


def unfold(data: bytes) -> bytes:
    """What was compressed.

    Raises:
        ValueError: it is damaged, cut off, or too large.
    """
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("a piece that is cut off, or too large")
    return text


def _load(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("values that lie too deep in each other") from error
