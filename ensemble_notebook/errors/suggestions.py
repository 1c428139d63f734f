"""The nearest known word to an unknown one, and the sentence that suggests it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Find the known word closest to `word`, ignoring case, or None when nothing is close."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known word, else the known words (at most eight), else nothing."""
    names = list(known)
    close = find_nearest(word, names)
    if close is not None:
        return f" Did you mean {close!r}?"
    if not names:
        return ""
    shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
    return f" Known: {shown}."
