"""A line of a cell with a caret under a place in it. Draws plain text, and knows no mistakes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from ensemble_notebook.cell.text.source_text import Place, SourceText
from ensemble_notebook.domain.outputs.secrets import mask

_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A line, or a window of a long one. Keys are masked, and controls hidden.

    Attributes:
        line: its number.
        before, marked, after: its text; nothing is marked where a key in it was masked.
    """

    line: int
    before: str
    marked: str
    after: str

    @property
    def gutter(self) -> str:
        """The number of the line and a rule."""
        return f"{self.line or ' '} | "

    @property
    def caret_gutter(self) -> str:
        """What stands below the number of the line and its rule."""
        return f"{' ' * (len(self.gutter) - 2)}| "

    @property
    def carets(self) -> str:
        """What stands below the marked text; empty where nothing is marked."""
        return "^" * max(1, _measure_width(self.marked)) if self.marked else ""

    def draw(self, indent: str) -> list[str]:
        """The line, and the line with the carets."""
        text = f"{self.gutter}{self.before}{self.marked}{self.after}".rstrip()
        lines = (
            [text, f"{self.caret_gutter}{' ' * _measure_width(self.before)}{self.carets}"] if self.carets else [text]
        )
        return [f"{indent}{each}" for each in lines]


def make_frame(source: SourceText, place: Place) -> SourceFrame:
    """Make the frame of a place in a cell."""
    text = source.get_text(place)
    masked = mask(text)
    if masked != text:  # columns of the masked line differ, so its place can't be shown
        return SourceFrame(place.line, _replace_unprintable(masked[:_WIDTH]), "", "")
    first = max(0, place.column - 1 - _WIDTH // 2) if len(text) > _WIDTH else 0
    window = _replace_unprintable(text[first : first + _WIDTH])
    start, end = place.column - 1 - first, place.end_column - 1 - first
    return SourceFrame(place.line, window[:start], window[start:end] or " ", window[end:])


def _replace_unprintable(text: str) -> str:
    return "".join(
        each if each.isprintable() else " " if each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def _measure_width(text: str) -> int:
    """Measure the columns that a text takes in a monospaced font."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )
