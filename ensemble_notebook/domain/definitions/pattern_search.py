"""Searches for users' regular expressions in a text, within limits (E67).

Some expressions take exponential time for some texts, such as ``(a+)+$``. `re` can't be interrupted and blocks the
whole process meanwhile. `regex` reads the same expressions, has a timeout, and releases the GIL. Compiling has no
timeout in either, so expressions that would take seconds to compile are refused by their size: long ones, and those
whose repetitions are long when written out (``(a{1000}){1000}``).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from ensemble_notebook.errors import DeadlineExceededError

if TYPE_CHECKING:
    import regex

SEARCH_LIMIT_S: Final = 1.0
_FLAGS: Final = {"ASCII": "a", "DOTALL": "s", "IGNORECASE": "i", "MULTILINE": "m", "VERBOSE": "x"}
LONGEST_PATTERN: Final = 2_000
LARGEST_PATTERN: Final = 100_000
_LONGEST_SHOWN: Final = 100
# What one part of an expression may be, beside a single character.
_PART: Final = re.compile(r"\((?:\?(?:[:=!>]|<[=!]))?|\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)


def read_pattern(given: object) -> re.Pattern[str]:
    """An expression, as a text or already compiled, that can be searched for.

    Raises:
        ValueError: it is none, or too large; says which, as the end of a sentence about it.
    """
    text = given.pattern if isinstance(given, re.Pattern) else given
    if not isinstance(text, str):
        raise ValueError(f"is none: it is no text, but {type(text).__name__}")
    if len(text) > LONGEST_PATTERN:
        raise ValueError(
            f"is too long: it has {len(text):,} characters, and may have {LONGEST_PATTERN:,}; use a predicate"
        )
    if (size := _measure_size(text)) > LARGEST_PATTERN:
        told = f"is too large: it stands for {size:,} characters, and may stand for {LARGEST_PATTERN:,}"
        raise ValueError(f"{told}; repeat less in its repetitions, or use a predicate")
    try:
        pattern = given if isinstance(given, re.Pattern) else re.compile(text)
        _translate(pattern)
    except RecursionError:
        raise ValueError("is none: it is nested too deeply") from None
    except Exception as error:  # besides `re.error` and OverflowError, what `regex` can't read
        raise ValueError(f"is none: {error}") from error
    return pattern


def _measure_size(text: str) -> int:
    """How many characters an expression has at least, when all that it repeats is written out."""
    sizes = [0]  # of the groups that are open
    last = 0  # of the part that a repetition would repeat
    for part in _PART.finditer(text):
        if part[0].startswith("("):
            sizes.append(0)
            last = 0
        elif part[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif part[1] is not None:
            more = last * (max(1, int(part[1][:9])) - 1)
            sizes[-1] += more
            last += more
        elif part[0] not in "*+?|":
            last = 1
            sizes[-1] += 1
    return sum(sizes)


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


def write_pattern(pattern: re.Pattern[str]) -> str:
    """An expression as one text that means the same, with its flags in it."""
    if re.compile(pattern.pattern).flags == pattern.flags:
        return pattern.pattern
    letters = "".join(letter for name, letter in _FLAGS.items() if pattern.flags & getattr(re, name))
    return f"(?{letters}){pattern.pattern}"


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
