"""A DataFrame that a person reads: one calm line for each row, with what is looked for first on the left.

The data has all columns, in their dtypes. What is made of it, by `head` or a query, shows itself as pandas does.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pandas as pd

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import make_readable
from ensemble_notebook.notebook.picture.diff_picture import wrap_html
from ensemble_notebook.notebook.picture.static_picture import escape_text

LONGEST: Final = 48
"""Characters of a cell that is shortened."""
LONGEST_IN_A_NARROW_TERMINAL: Final = 20
"""The same where the lines would be longer than those of the terminal."""

_CELL: Final = "text-align:left;vertical-align:top;padding:1px 14px 1px 0;white-space:nowrap;border:0"
_WRAPPED: Final = "text-align:left;vertical-align:top;padding:1px 14px 1px 0;border:0;min-width:12em"
_NUMBER: Final = _CELL.replace("left", "right", 1)
_FAINT: Final = ";opacity:0.7"
_ROW: Final = "border:0;background:none"

Row = Mapping[Hashable, Any]
"""The index and the columns by name; None is unknown."""


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column as a person sees it.

    Attributes:
        head: above it.
        write: makes the text of a row.
        is_number: it stands on the right. is_faint: it is looked at last. is_whole: it is never shortened.
    """

    head: str
    write: Callable[[Row], str]
    is_number: bool = False
    is_faint: bool = False
    is_whole: bool = False

    @property
    def style(self) -> str:
        """Of its cells in HTML."""
        style = _NUMBER if self.is_number else _WRAPPED if self.is_whole else _CELL
        return style + (_FAINT if self.is_faint else "")

    def read(self, row: Row, longest: int = LONGEST) -> str:
        """The text of a row, on one line."""
        text = " ".join(make_readable(self.write(row)).split())
        return text if self.is_whole or len(text) <= longest else f"{text[: longest - 1]}…"


class ShownTable(pd.DataFrame):
    """A frame with a look of its own, as long as its columns are those that it was made with.

    Attributes:
        made_of: names of the columns.
        shown: what is shown of them.
        nothing: what an empty one says.
    """

    made_of: ClassVar[tuple[str, ...]]
    shown: ClassVar[tuple[ShownColumn, ...]]
    nothing: ClassVar[str]

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        """Aligned lines below their heads; in a terminal no longer than its own, so that none of them wraps."""
        if not self._is_as_made:
            return repr(pd.DataFrame(self))
        if self.empty:
            return self.nothing
        room = shutil.get_terminal_size((sys.maxsize, 0)).columns
        columns = self._align_columns(LONGEST)
        if _measure(columns) > room:
            columns = self._align_columns(LONGEST_IN_A_NARROW_TERMINAL)
        while len(columns) > 1 and _measure(columns) > room and not self.shown[len(columns) - 1].is_whole:
            columns.pop()
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        missing = [each.head for each in self.shown[len(columns) :]]
        return "\n".join([*lines, *self._say_rest(), *_say_missing(missing, room)])

    def _align_columns(self, longest: int) -> list[list[str]]:
        """The columns, their heads first, each with texts of one length."""
        rows = [[each.head for each in self.shown], *self._read_cells(longest)]
        aligned = []
        for each, texts in zip(self.shown, zip(*rows, strict=True), strict=True):
            width = max(map(len, texts))
            aligned.append([text.rjust(width) if each.is_number else text.ljust(width) for text in texts])
        return aligned

    def _repr_html_(self) -> str | None:
        """The same as a table."""
        if not self._is_as_made:
            html: str | None = pd.DataFrame(self)._repr_html_()  # type: ignore[operator]
            return html
        if self.empty:
            return wrap_html(f"<div>{escape_text(self.nothing)}</div>")
        heads = "".join(
            f'<th style="{each.style};font-weight:normal{_FAINT}">{escape_text(each.head)}</th>' for each in self.shown
        )
        rows = "".join(self._render_row(cells) for cells in self._read_cells())
        rest = "".join(f'<div style="opacity:0.7">{escape_text(line)}</div>' for line in self._say_rest())
        return wrap_html(
            '<table style="border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit">'
            f'<thead style="border:0"><tr style="{_ROW}">{heads}</tr></thead><tbody>{rows}</tbody></table>{rest}'
        )

    def _render_row(self, cells: Sequence[str]) -> str:
        parts = zip(cells, self.shown, strict=True)
        known = "".join(f'<td style="{each.style}">{escape_text(text)}</td>' for text, each in parts)
        return f'<tr style="{_ROW}">{known}</tr>'

    @property
    def _is_as_made(self) -> bool:
        return tuple(self.columns) == self.made_of

    @property
    def _most(self) -> int:
        """How many rows are shown: as many as pandas shows."""
        most = pd.get_option("display.max_rows")
        return len(self) if not most else min(most, len(self))

    def _read_cells(self, longest: int = LONGEST) -> list[list[str]]:
        some = pd.DataFrame(self).iloc[: self._most].reset_index().astype(object)
        rows: list[dict[Hashable, Any]] = some.where(some.notna(), None).to_dict("records")
        return [[each.read(row, longest) for each in self.shown] for row in rows]

    def _say_rest(self) -> list[str]:
        left = len(self) - self._most
        return [f"and {pluralize(left, 'more row')}, which this DataFrame has, too"] if left else []


def _measure(columns: Sequence[Sequence[str]]) -> int:
    """How long a line of these columns is."""
    return sum(len(texts[0]) for texts in columns) + 2 * (len(columns) - 1)


def _say_missing(heads: Sequence[str], room: int) -> list[str]:
    """What a narrow terminal has no room for, on lines that it has room for."""
    said = f"and {', '.join(heads)}, which a wider terminal shows"
    return textwrap.wrap(said, room) if heads else []
