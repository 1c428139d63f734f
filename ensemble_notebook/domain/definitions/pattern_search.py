"""Searches for a regular expression in a text that is not ours, within a time limit (E67).

Some expressions take longer than the world has for some texts: ``(a+)+$``. `re` can't be stopped, and holds the whole
process meanwhile; `regex` reads the same expressions, takes a time limit, and lets other threads go on.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from ensemble_notebook.errors import DeadlineExceededError

if TYPE_CHECKING:
    import regex

SEARCH_LIMIT_S: Final = 1.0
_FLAGS: Final = ("ASCII", "DOTALL", "IGNORECASE", "MULTILINE", "VERBOSE")
_LONGEST_SHOWN: Final = 100


def is_found(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a text holds the expression.

    Raises:
        DeadlineExceededError: that can't be told within a second.
    """
    try:
        return _translate(pattern).search(text, timeout=SEARCH_LIMIT_S, concurrent=True) is not None
    except TimeoutError:
        raise DeadlineExceededError(
            "condition",
            SEARCH_LIMIT_S,
            f"a search for {describe_pattern(pattern.pattern)} in a text of {len(text):,} characters",
            "Write it without a repetition inside a repetition, or use a predicate.",
        ) from None


def describe_pattern(pattern: object) -> str:
    """An expression as it is shown: as it is written, and cut where it is long."""
    text = repr(pattern)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


@cache
def _translate(pattern: re.Pattern[str]) -> regex.Pattern[str]:
    """The same expression for `regex`, whose flags have other numbers."""
    import regex

    flags = 0
    for name in _FLAGS:
        if pattern.flags & getattr(re, name):
            flags |= getattr(regex, name)
    return regex.compile(pattern.pattern, flags)
