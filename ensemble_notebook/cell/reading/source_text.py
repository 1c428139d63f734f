"""The text of a cell and the places in it, and the files that it is read from. Knows no YAML.

A cell may be in two parts, its body and a file that it builds on. They stand in one text, one below the other, so that
one offset is one place; lines are counted in each part by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ensemble_notebook.errors import ValidationError

_LINE_END: Final = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A stretch of one line.

    Attributes:
        line: from 1; 0 is the options' line above the text.
        column: of the first character, from 1.
        end_column: behind the last character, > `column`.
        file: that the line is in; empty for the body of the cell.
    """

    line: int
    column: int
    end_column: int
    file: str = ""


OPTIONS: Final = Place(0, 1, 2)


class SourceText:
    """A cell's text with its line table. Offsets are into `text`, whose lines end with a line feed only.

    Args:
        text: the body of the cell.
        file_text: that of the file that it builds on; None where there is none.
        file: its name.
        options: what stands behind the magic above the text.
    """

    def __init__(self, text: str, file_text: str | None = None, file: str = "", *, options: str = "") -> None:
        self._options = f"%%ensemble {options.strip()}" if options.strip() else ""
        body = _LINE_END.sub("\n", text)
        below = "" if file_text is None else _LINE_END.sub("\n", file_text)
        self._file, self._has_file, self._body_end = file, file_text is not None, len(body)
        self.text = f"{body}\n{below}" if self._has_file else body
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self._body_lines = body.count("\n") + 1

    @property
    def parts(self) -> tuple[range, ...]:
        """The offsets of the body and, where there is one, of the file."""
        body = range(self._body_end)
        return (body, range(self._body_end + 1, len(self.text))) if self._has_file else (body,)

    @property
    def top(self) -> Place:
        """The beginning of the cell, which is that of the file where there is no body."""
        is_file = self._has_file and not self.text[: self._body_end].strip()
        return Place(1, 1, 2, self._file if is_file else "")

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
        return self._make_place(line, column, max(stop - first, column) + 1)

    def locate_line(self, line: int) -> Place:
        """Locate the whole line without the white space around it."""
        text = self.line(line)
        column = len(text) - len(text.lstrip()) + 1
        return self._make_place(line, column, max(len(text.rstrip()), column) + 1)

    def locate_option(self, value: str) -> Place:
        """Locate a value among the options; their line as a whole where it is not to be found."""
        match = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", self._options) if value else None
        return OPTIONS if match is None else Place(OPTIONS.line, match.start() + 1, match.end() + 1)

    def get_text(self, place: Place) -> str:
        """Get the line that a place is in; of the options, too."""
        return self._options if place.line == OPTIONS.line else self.line(self.find_line(place))

    def find_line(self, place: Place) -> int:
        """Find the line of the whole text that a place is in."""
        return place.line + self._body_lines if place.file else place.line

    def _make_place(self, line: int, column: int, end_column: int) -> Place:
        if self._has_file and line > self._body_lines:
            return Place(line - self._body_lines, column, end_column, self._file)
        return Place(line, column, end_column)


MOST_BYTES: Final = 10_000_000


def read_text_file(path: Path, most: int = MOST_BYTES, more: str = "load it in Python") -> str:
    """Read a file as UTF-8, without a byte order mark. A path is relative to the working folder; ``~`` is the home.

    Args:
        path: of the file.
        most: bytes that it may have.
        more: what to do with a larger one.

    Raises:
        ValidationError: it is not there, a folder, a device or a pipe, too large, no text in UTF-8, or can't be opened.
    """
    try:
        there = path.expanduser()
        if there.is_dir():
            raise ValueError("it is a folder; name a file in it")
        if there.exists() and not there.is_file():  # to open a pipe would wait for whoever writes to it
            raise ValueError("it is a device or a pipe; name a file")
        with there.open("rb") as file:
            text = file.read(most + 1)  # its size may be told as 0
        if len(text) > most:
            size = max(there.stat().st_size, len(text))
            raise ValueError(f"it has {size:,} bytes, and {most:,} is the most; {more}")
        return text.decode("utf-8-sig")
    except FileNotFoundError:
        reason = "there is no such file" + ("" if path.is_absolute() else f" in {Path.cwd()}")
    except UnicodeDecodeError as error:
        reason = f"it is no text in UTF-8, from byte {error.start + 1:,} on; save it as UTF-8"
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
    raise ValidationError(f"{path} can't be read: {reason}.")
