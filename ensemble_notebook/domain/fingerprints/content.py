"""The content of one object: a part of its own, and the objects that it holds or reaches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

SCALARS: Final = frozenset({str, int, float, bool, bytes, complex, type(None), type(...)})

# A label and the object. Labels say how a person would name the way there: ``clean`` for a name that code reaches,
# ``.limit`` for an attribute; empty for all else.
Child = tuple[str, Any]


class IncomparableError(Exception):
    """An object can't be compared: its state changes with every use, or is outside Python."""


@dataclass(slots=True)
class Content:
    """What one object consists of.

    Attributes:
        own: what it is by itself, in bytes that are the same in every process.
        children: what it holds, in an order that is part of it.
        is_unordered: whether the order of the children is no part of it.
        is_code: a function or class of the user's, whose children have names that mean something to a person.
        is_foreign: an object of an installed package; people know it by its class, not by what is in it.
    """

    own: bytes
    children: Sequence[Child] = ()
    is_unordered: bool = False
    is_code: bool = False
    is_foreign: bool = False


def digest(*pieces: bytes) -> bytes:
    """A digest of 16 bytes of these pieces."""
    return digest_framed(frame(*pieces))


def frame(*pieces: bytes) -> bytes:
    """Join pieces so that different pieces never give the same bytes."""
    framed = b""
    for piece in pieces:  # they are one or two: a list of them would take longer than all else
        framed += b"%d:%b" % (len(piece), piece)
    return framed


def digest_framed(framed: bytes) -> bytes:
    """The same digest for pieces that are framed already."""
    return blake2b(framed, digest_size=16).digest()


def encode_scalar(value: Any) -> bytes:
    """Encode a value whose type is one of `SCALARS`; different values never give the same bytes."""
    kind = type(value)
    if kind is str:
        data = value.encode("utf-8", "surrogatepass")
    elif kind is bytes:
        data = value
    else:
        data = repr(value).encode()
    return b"%s %d:%s" % (kind.__name__.encode(), len(data), data)


def encode_all(values: Iterable[Any], children: list[Child], label: str = "") -> bytes:
    """Encode values in order. A value that is no scalar leaves a gap, and becomes a child."""
    written = []
    for value in values:
        if type(value) in SCALARS:
            written.append(encode_scalar(value))
        else:
            written.append(b"*")
            children.append((label, value))
    return b"".join(written)


def encode_name(*words: object) -> bytes:
    """Encode the name of something."""
    return encode_scalar(" ".join(map(str, words)))
