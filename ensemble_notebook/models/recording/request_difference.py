"""Where a request differs from the recorded one that it was meant to be, shown at the exact place (E42).

Why not `difflib`: it takes a second to compare two prompts of four pages, and a request is compared with each exchange
of a recording. Knows requests as texts; nothing of files and models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Final

from ensemble_notebook.models.recording.exchange import ModelRequest, RecordedExchange, RequestPart

_AROUND: Final = 36
_MISSING: Final = RequestPart("", "")


def find_nearest(request: ModelRequest, recorded: Iterable[RecordedExchange]) -> RecordedExchange | None:
    """Find the exchange whose request is most like this one; the first of equals."""
    return min(recorded, key=lambda exchange: _count_different_characters(request, exchange.request), default=None)


def describe_difference(now: ModelRequest, then: ModelRequest) -> str:
    """Describe the first difference of two requests that do differ: which part and line, and both texts there."""
    places = [(old, new) for old, new in zip_longest(then, now, fillvalue=_MISSING) if old != new]
    old, new = places[0]
    others = len(places) - 1
    more = f" ({others} other {'part differs' if others == 1 else 'parts differ'})" if others else ""
    if _MISSING in (old, new) or old.title != new.title:
        return f"the recording has {_describe_part(old)} where now is {_describe_part(new)}{more}"
    at = _count_common_start(old.text, new.text)
    line = new.text.count("\n", 0, at) + 1
    before = _cut_window(new.text, at)[0]
    return (
        f"the {new.title} differs in line {line}{more}:\n"
        f"  recorded: {_quote_around(old.text, at)}\n"
        f"  now:      {_quote_around(new.text, at)}\n"
        f"            {' ' * len(before)}^"
    )


def _describe_part(part: RequestPart) -> str:
    return f"the {part.title}" if part != _MISSING else "nothing more"


def _count_different_characters(one: ModelRequest, other: ModelRequest) -> int:
    """Count the characters that are not common to both."""
    return sum(
        _count_different_in_part(old, new) for old, new in zip_longest(one, other, fillvalue=_MISSING) if old != new
    )


def _count_different_in_part(one: RequestPart, other: RequestPart) -> int:
    longer = max(len(one.text), len(other.text)) + 1
    if one.title != other.title:
        return longer
    shorter = min(len(one.text), len(other.text))
    start = _count_common_start(one.text, other.text)
    end = _count_common_start(one.text[::-1], other.text[::-1])
    return longer - min(start + end, shorter)


def _count_common_start(one: str, other: str) -> int:
    """Count the characters that two texts begin with alike."""
    # By halves, whose comparisons run in C: a loop over the characters of long prompts takes seconds in all.
    return _find_longest(min(len(one), len(other)), lambda count: one[:count] == other[:count])


def _find_longest(limit: int, holds: Callable[[int], bool]) -> int:
    """Find the highest number up to `limit` for which something holds that holds for all below it."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _cut_window(text: str, at: int) -> tuple[str, str]:
    """Cut out what stands before and after a place, as it is shown."""
    start, end = max(0, at - _AROUND), at + _AROUND
    before = ("..." if start else "") + _escape_unprintable(text[start:at])
    return f"'{before}", _escape_unprintable(text[at:end]) + ("..." if end < len(text) else "") + "'"


def _quote_around(text: str, at: int) -> str:
    return "".join(_cut_window(text, at))


def _escape_unprintable(text: str) -> str:
    """Write a text on one line, with escapes for what can't be seen."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
