"""The layout of the lines of a cell: entries and levels, found without a parser after a parser has failed.

Knows neither mistakes nor keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ensemble_notebook.cell.text.source_text import SourceText

_LINE: Final = re.compile(
    r"""(?P<lead>[ ]*(?:-[ ]+)*)
        (?:(?P<key>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'\[{\#&*!|>%@`,][^\n]*?):(?=[ ]|$)[ ]*)?
        (?P<value>[^\n]*)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class LineParts:
    """One line as ``- key: value``; offsets into the text."""

    line: int
    indent: int
    key: str | None
    value_start: int
    value: str


def read_line_parts(source: SourceText, line: int) -> LineParts:
    """Take a line apart, by its look alone."""
    text = source.line(line)
    match = _LINE.match(text)
    if match is None:
        return LineParts(line, 0, None, source.line_start(line), text)
    column = match.start("key") if match["key"] is not None else max(match["lead"].rfind("-"), 0)
    return LineParts(
        line, column, match["key"], source.line_start(line) + match.start("value"), match["value"].rstrip()
    )


def find_open_levels(source: SourceText, line: int) -> Iterator[tuple[int, int]]:
    """Find the levels that are open above a line, the innermost first: indentation, and a line that has it."""
    least = None
    for number in range(line - 1, 0, -1):
        text = source.line(number)
        indent = len(text) - len(text.lstrip(" "))
        if text.strip() and not text.lstrip().startswith("#") and (least is None or indent < least):
            yield indent, number
            least = indent
        if least == 0:
            return
