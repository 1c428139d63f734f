"""Finds JSON values in what a model wrote, in time that is linear in its length, whatever its shape (E16, E67).

Why not simply try a decoder at every bracket: each try that fails may have read all of the text, so that 400 kB of
opening brackets take half a minute. Here every character is looked at a few times at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from ensemble_notebook.domain.json_text import DEEPEST, read_json

# Of more values than this in one reply, the rest is not looked at: each is held to the type, which takes its time.
MOST_VALUES: Final = 1000
# Nor is what stands behind so many brackets that begin no value.
MOST_STARTS: Final = 200_000
# So many characters are read a second time, which is enough for any reply that people read.
_MOST_REREAD: Final = 300_000

_FENCE: Final = re.compile(r"```[\w-]*+[ \t]*+\n(.*?)```", re.DOTALL)
_ONE_FENCE: Final = re.compile(r"\s*+```[\w-]*+[ \t]*+\n((?:(?!```).)*+)```\s*+", re.DOTALL)
# An opening bracket, and what may stand behind it in JSON.
_START: Final = re.compile(r'\{\s*+["}]|\[\s*+["\[{\]\dtfnNI-]')
_TOKEN: Final = re.compile(
    r'[ \t\n\r]*+(?:(?P<text>"[^"\\]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*+)*+")'
    r"|(?P<mark>[{}\[\]:,])"
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null|NaN|-?Infinity)"
)
_VALUES: Final = ("text", "plain", "{", "[")
_CLOSED: Final = "closed"
# What may come next, by what a scan waits for, and what it waits for then.
_GRAMMAR: Final[Mapping[str, Mapping[str, str]]] = {
    "key or end": {"text": "colon", "}": _CLOSED},
    "key": {"text": "colon"},
    "colon": {":": "field"},
    "field": dict.fromkeys(_VALUES, "after field"),
    "after field": {",": "key", "}": _CLOSED},
    "item or end": {**dict.fromkeys(_VALUES, "after item"), "]": _CLOSED},
    "item": dict.fromkeys(_VALUES, "after item"),
    "after item": {",": "item", "]": _CLOSED},
}
_FIRST: Final = {"{": "key or end", "[": "item or end"}


def find_json_values(text: str) -> Iterator[Any]:
    """Find JSON values, the likeliest first: fenced blocks, the whole text, then complete values in prose."""
    return islice(_find_all(text), MOST_VALUES)


def read_whole_json(text: str) -> Any:
    """Read the one JSON value that a text is, in a fence or without.

    Raises:
        ValueError: it is something else.
    """
    fenced = _ONE_FENCE.fullmatch(text)
    return read_json(fenced[1] if fenced else text, strict=False)


def _find_all(text: str) -> Iterator[Any]:
    for part in (*(match[1] for match in _FENCE.finditer(text)), text):
        yield from _decode(part)
    for start, end in _find_regions(text):
        yield from _decode(text[start:end])


def _decode(text: str) -> Iterator[Any]:
    """Decode a text that is one value; nothing where it is none."""
    try:
        yield read_json(text, strict=False)
    except ValueError:
        return


def _find_regions(text: str) -> Iterator[tuple[int, int]]:
    """Find where complete objects and lists begin and end: the outermost ones, from left to right."""
    position, rereading = 0, _MOST_REREAD
    for _ in range(MOST_STARTS):
        start = _START.search(text, position)
        if start is None:
            return
        regions, end = _scan(text, begin := start.start())
        is_whole = regions[-1:] == [(begin, end)]
        if is_whole or rereading < end - begin:
            yield from regions
            position = end
        else:
            # Prose has quotation marks, too: what was taken for a text may hold a value.
            rereading -= end - begin
            position = begin + 1


def _scan(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """Read from an opening bracket until its value is complete, or until what comes is no JSON.

    A value inside that is complete would be so, too, if it was begun with. One that is not is broken at the same
    place: it need not be tried again.

    Returns:
        The complete values, the whole one or else those inside, and where to go on.
    """
    opened: list[tuple[int, str]] = []  # where, and what is waited for once it is closed
    complete: list[tuple[int, int]] = []
    position, awaited = start, "item"
    while (token := _TOKEN.match(text, position)) is not None:
        at = token.end() - 1
        kind = text[at] if token.lastgroup == "mark" else token.lastgroup or "plain"
        after = _GRAMMAR[awaited].get(kind)
        if after is None or len(opened) > DEEPEST:
            break
        position, awaited = token.end(), after
        if kind in _FIRST:
            opened.append((at, after))
            awaited = _FIRST[kind]
        elif after is _CLOSED:
            begin, awaited = opened.pop()
            while complete and complete[-1][0] > begin:
                complete.pop()
            complete.append((begin, position))
            if not opened:
                break
    return complete, max(start + 1, position)
