"""Where a request differs from the recorded one that it was meant to be, shown at the exact place (E42).

Knows requests as texts; nothing of files and models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Final

from ensemble_notebook.models.recording.exchange import Part, RecordedExchange, Request

_AROUND: Final = 36
_MISSING: Final = ("", "")


def find_nearest(request: Request, recorded: Iterable[RecordedExchange]) -> RecordedExchange | None:
    """The exchange whose request is most like this one; the first of equals."""
    return min(recorded, key=lambda exchange: _count_different_characters(request, exchange.request), default=None)


def describe_difference(now: Request, then: Request) -> str:
    """The first difference of two requests that do differ: which part, which line, and both texts at that place."""
    places = [(old, new) for old, new in zip_longest(then, now, fillvalue=_MISSING) if old != new]
    old, new = places[0]
    others = len(places) - 1
    more = f" ({others} other {'part differs' if others == 1 else 'parts differ'})" if others else ""
    if _MISSING in (old, new) or old[0] != new[0]:
        return f"the recording has {_describe_part(old)} where now is {_describe_part(new)}{more}"
    at = _count_common_start(old[1], new[1])
    line = new[1].count("\n", 0, at) + 1
    before = _cut_window(new[1], at)[0]
    return (
        f"the {new[0]} differs in line {line}{more}:\n"
        f"  recorded: {_quote_around(old[1], at)}\n"
        f"  now:      {_quote_around(new[1], at)}\n"
        f"            {' ' * len(before)}^"
    )


def _describe_part(part: Part) -> str:
    return f"the {part[0]}" if part != _MISSING else "nothing more"


def _count_different_characters(one: Request, other: Request) -> int:
    """So many characters are not common to both."""
    return sum(
        _count_different_in_part(old, new) for old, new in zip_longest(one, other, fillvalue=_MISSING) if old != new
    )


def _count_different_in_part(one: Part, other: Part) -> int:
    longer = max(len(one[1]), len(other[1])) + 1
    if one[0] != other[0]:
        return longer
    shorter = min(len(one[1]), len(other[1]))
    start = _count_common_start(one[1], other[1])
    end = _count_common_start(one[1][::-1], other[1][::-1])
    return longer - min(start + end, shorter)


def _count_common_start(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return _find_longest(min(len(one), len(other)), lambda count: one[:count] == other[:count])


def _find_longest(limit: int, holds: Callable[[int], bool]) -> int:
    """The highest number up to `limit` for which something holds that holds for all below it."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _cut_window(text: str, at: int) -> tuple[str, str]:
    """What stands before and after a place, as it is shown."""
    start, end = max(0, at - _AROUND), at + _AROUND
    before = ("..." if start else "") + _escape_unprintable(text[start:at])
    return f"'{before}", _escape_unprintable(text[at:end]) + ("..." if end < len(text) else "") + "'"


def _quote_around(text: str, at: int) -> str:
    return "".join(_cut_window(text, at))


def _escape_unprintable(text: str) -> str:
    """On one line, with whatever can't be seen written out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
