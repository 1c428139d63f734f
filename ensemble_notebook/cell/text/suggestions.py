"""Suggests a known word for an unknown one in a cell, in bounded time (C12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ensemble_notebook.errors import find_nearest

_LONGEST_WORD: Final = 80
_MOST_WORDS: Final = 500


def find_nearest_name(word: str, known: Iterable[str]) -> str | None:
    """Find the known name closest to `word`, or None where none is close."""
    if len(word) > _LONGEST_WORD:
        return None
    names = [name for name in known if len(name) <= _LONGEST_WORD]
    return find_nearest(word, names[:_MOST_WORDS])


def suggest_name(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known name, or nothing."""
    close = find_nearest_name(word, known)
    return "" if close is None else f" Did you mean {close!r}?"
