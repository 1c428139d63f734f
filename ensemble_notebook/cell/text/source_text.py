"""The text of a cell and the places in it. Knows no YAML."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A stretch of one line.

    Attributes:
        line: from 1; 0 is the options' line above the text.
        column: of the first character, from 1.
        end_column: behind the last character, > `column`.
    """

    line: int
    column: int
    end_column: int


OPTIONS: Final = Place(0, 1, 2)


class SourceText:
    """A cell's text with its line table. Offsets are into `text`, whose lines end with a line feed only."""

    def __init__(self, text: str) -> None:
        self.text = _LINE_END.sub("\n", text)
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    @property
    def line_count(self) -> int:
        """Number of lines, at least 1."""
        return len(self._starts)

    def line_number(self, offset: int) -> int:
        """The line, from 1, that holds the character at `offset`."""
        return bisect_right(self._starts, offset)

    def line_start(self, line: int) -> int:
        """Offset of the first character of a line."""
        return self._starts[line - 1]

    def line_end(self, line: int) -> int:
        """Offset behind the last character of a line."""
        return self._starts[line] - 1 if line < len(self._starts) else len(self.text)

    def line(self, line: int) -> str:
        """One line without its end."""
        return self.text[self.line_start(line) : self.line_end(line)]

    def locate(self, start: int, end: int | None = None) -> Place:
        """Locate the place from `start` to `end` (one character without it), cut where the line ends."""
        line = self.line_number(start)
        first = self.line_start(line)
        stop = min(start + 1 if end is None else end, first + len(self.line(line).rstrip()))
        column = start - first + 1
        return Place(line, column, max(stop - first, column) + 1)

    def locate_line(self, line: int) -> Place:
        """Locate the whole line without the white space around it."""
        text = self.line(line)
        column = len(text) - len(text.lstrip()) + 1
        return Place(line, column, max(len(text.rstrip()), column) + 1)
