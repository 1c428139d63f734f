"""Texts on their way into a trace and out of it: made safe, shortened, handed on piece by piece as they stream."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from ensemble_notebook.domain.outputs.secrets import mask, mask_named
from ensemble_notebook.domain.value_text import mend_text

# What keys and tokens are made of. Text that could be the beginning of one is held back until it is over.
_KEY_CHARACTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.~"
_LONGEST_KEY: Final = 256


def clean_text(text: str) -> str:
    """The text as it may be recorded and shown: secrets masked, and no half characters, which no file can hold."""
    return mask(mend_text(text))


def clean_value(name: str, text: str) -> str:
    """The value of something that has a name, masked: the name may tell that it is a secret (``api_key``)."""
    return mask_named(name, mend_text(text))


def shorten(text: str, limit: int) -> str:
    """The text, or its first `limit` characters and a note of how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[{len(text) - limit:,} more characters left out]"


class StreamedText:
    """The text that an LLM call has streamed so far, readable from any earlier point on.

    Attributes:
        version: of the last change; versions only grow.
    """

    __slots__ = ("_is_ended", "_length", "_lengths", "_pieces", "_versions", "version")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._versions: list[int] = []
        self._lengths: list[int] = []
        self._is_ended = False
        self.version = 0

    def add(self, piece: str, version: int) -> None:
        """Append a piece."""
        self._pieces.append(piece)
        self._length += len(piece)
        self._versions.append(version)
        self._lengths.append(self._length)
        self.version = version

    def end(self, version: int) -> None:
        """Nothing follows any more, so what was held back may be read."""
        self._is_ended = True
        self.version = version

    def read(self) -> str:
        """All that can be read by now, made safe."""
        return self.read_since(-1)[1]

    def read_since(self, version: int) -> tuple[int, str]:
        """What came after `version`, made safe, and where in the whole it begins.

        The parts read one after the other make up the whole text.
        """
        text = "".join(self._pieces)
        self._pieces = [text]
        known = bisect_right(self._versions, version)
        start = _count_readable(text, self._lengths[known - 1]) if known else 0
        # Masked as a whole, since what comes before may tell that something is a secret.
        begins = len(clean_text(text[:start]))
        if version >= self.version:
            return begins, ""
        end = self._length if self._is_ended else _count_readable(text, self._length)
        return begins, clean_text(text[:end])[begins:]


def _count_readable(text: str, length: int) -> int:
    """How much of the first `length` characters can be shown: no word that may still become a key."""
    tail = text[max(0, length - _LONGEST_KEY - 1) : length]
    held_back = len(tail) - len(tail.rstrip(_KEY_CHARACTERS))
    return length if held_back > _LONGEST_KEY else length - held_back
