"""The difference of two texts, word by word, for people to read.

Lines are matched first, then the words of lines that differ. A part that was moved or rewritten is shown as removed and
added as a whole, not word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

Mark = Literal["same", "removed", "added"]


class Piece(NamedTuple):
    """A part of two texts: in both, only in the first, or only in the second."""

    mark: Mark
    text: str


MOST_WORDS: Final = 3_000
"""Longer parts without a common line are not matched by words: the time for it grows with the square."""

LEAST_ALIKE: Final = 0.25
"""What has less in common, 0 to 1, is taken as rewritten."""

WORDS_AROUND: Final = 12
"""How many words are shown before and after a change."""

_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")
_GAP: Final = " […] "


def diff_words(before: str, after: str) -> list[Piece]:
    """The pieces, in order. Without the added ones they are the first text, without the removed ones the second."""
    first, second = before.splitlines(keepends=True), after.splitlines(keepends=True)
    pieces: list[Piece] = []
    for tag, start, end, other_start, other_end in SequenceMatcher(None, first, second).get_opcodes():
        removed, added = "".join(first[start:end]), "".join(second[other_start:other_end])
        pieces += [Piece("same", removed)] if tag == "equal" else _diff_part(removed, added)
    return _join(pieces)


def shorten_same(pieces: Sequence[Piece], around: int = WORDS_AROUND) -> list[Piece]:
    """The pieces, with at most `around` unchanged words on each side of a change."""
    shown = []
    for place, piece in enumerate(pieces):
        if piece.mark != "same":
            shown.append(piece)
            continue
        words = _WORD.findall(piece.text)
        head = 0 if place == 0 else 2 * around  # a word and the space after it
        tail = 0 if place == len(pieces) - 1 else 2 * around
        if len(words) > head + tail + 2:
            kept = "".join(words[:head]).rstrip(), "".join(words[len(words) - tail :]).lstrip()
            shown.append(Piece("same", _GAP.join(kept).lstrip(" " if not kept[0] else "")))
        else:
            shown.append(piece)
    return shown


def mark_words(pieces: Iterable[Piece]) -> str:
    """The pieces as plain text, in the notation of ``git diff --word-diff``: ``[-removed-]{+added+}``."""
    marks = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
    return "".join(wrap_piece(piece, *marks.get(piece.mark, ("", ""))) for piece in pieces)


def wrap_piece(piece: Piece, begin: str, end: str) -> str:
    """A piece between two marks. A final line feed is put behind the second mark."""
    words = piece.text.rstrip("\n")
    return f"{begin}{words}{end}{piece.text[len(words) :]}"


def _diff_part(removed: str, added: str) -> Iterator[Piece]:
    """The pieces of a part that has no line in common."""
    first, second = _WORD.findall(removed), _WORD.findall(added)
    if first and second and max(len(first), len(second)) <= MOST_WORDS:
        matcher = SequenceMatcher(str.isspace, first, second, autojunk=False)
        if matcher.ratio() >= LEAST_ALIKE:
            for tag, start, end, other_start, other_end in matcher.get_opcodes():
                if tag == "equal":
                    yield Piece("same", "".join(first[start:end]))
                else:
                    yield Piece("removed", "".join(first[start:end]))
                    yield Piece("added", "".join(second[other_start:other_end]))
            return
    yield Piece("removed", removed)
    yield Piece("added", added)


def _join(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge neighbouring pieces of a kind, and changes with only a space or a comma between them."""
    given = [piece for piece in pieces if piece.text]
    joined: list[Piece] = []
    removed, added = "", ""
    for place, (mark, text) in enumerate(given):
        between = mark == "same" and 0 < place < len(given) - 1 and (removed or added) and len(text.strip()) <= 1
        if mark != "same":
            removed, added = removed + text * (mark == "removed"), added + text * (mark == "added")
        elif between and "\n" not in text:
            removed, added = removed + text, added + text
        else:
            joined += [*_settle(removed, added), Piece("same", text)]
            removed, added = "", ""
    joined += _settle(removed, added)
    return joined


def _settle(removed: str, added: str) -> list[Piece]:
    """The pieces of one change; white space at the end that did not change is a piece of its own."""
    tail = removed[len(removed.rstrip()) :]
    while not added.endswith(tail):
        tail = tail[1:]
    removed, added = removed.removesuffix(tail), added.removesuffix(tail)
    pieces: tuple[Piece, ...] = (Piece("removed", removed), Piece("added", added), Piece("same", tail))
    return [piece for piece in pieces if piece.text]
