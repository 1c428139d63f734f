"""The keys and items of a cell that is being written, and where in them a text ends.

A half-written cell is no YAML yet, so it is not parsed: lines are read by their indentation, ``{...}`` and ``[...]`` by
their brackets, and whatever fits nowhere is a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ensemble_notebook.cell.reading.yaml_nodes import DEEPEST

Path = tuple[str | int, ...]
"""The keys and the positions of items that lead somewhere, from the outermost."""

_KEY: Final = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s#&*!|>%@`"'{}\[\],-][^#{}\[\],"']*?|-[^\s:]+?):(?=\s|$)""")
_BLOCK_TEXT: Final = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")
_OPEN_QUOTE: Final = re.compile(r""""[^"]*|'[^']*""")
_DASH: Final = re.compile(r"- +")
_COMMENT: Final = re.compile(r"(^|\s)#.*$")


class Slot(Enum):
    """What may stand somewhere."""

    KEY = auto()
    VALUE = auto()
    START = auto()
    """A key or a value: a line, or the item of a list."""
    TEXT = auto()
    """Nothing but a text: it has begun, with a quote or a bar, or words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key, or an item of a list.

    Attributes:
        path: of itself.
        value: what follows on its line, without quotes; empty for a mapping or list.
    """

    path: Path
    value: str


@dataclass(frozen=True, slots=True)
class Caret:
    """The end of a text.

    Attributes:
        path: of the mapping for a key, of the key or item itself for its value.
        slot: what may stand there.
        word: what of it is there.
    """

    path: Path
    slot: Slot
    word: str


@dataclass(slots=True)
class _Bracket:
    """A mapping or list in brackets that is still open."""

    path: Path
    is_list: bool
    count: int = 0
    key: str | None = None
    begun: str = ""

    @property
    def place(self) -> Path:
        """The path of the value that is being written."""
        if self.is_list:
            return (*self.path, self.count)
        return self.path if self.key is None else (*self.path, self.key)


class Outline:
    """The entries of a text, in order.

    Args:
        lines: of the text.

    Attributes:
        entries: what there is.
        caret: where the text ends.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.entries: list[Entry] = []
        self.caret = Caret((), Slot.START, "")
        self._around: list[tuple[int, Path]] = []  # the columns of the keys and items that are open
        self._counts: Counter[Path] = Counter()
        self._brackets: list[_Bracket] = []
        self._quote = ""
        self._text: tuple[int, Path] | None = None  # a text over lines, below a key in this column
        for line in lines:
            self._read_line(line)

    def list_keys(self, path: Path) -> list[str]:
        """List the keys of a mapping."""
        inside = [each.path[-1] for each in self.entries if each.path[:-1] == path]
        return [each for each in dict.fromkeys(inside) if isinstance(each, str)]

    def find_value(self, *path: str | int) -> str:
        """Find the value of a key; empty where it has none."""
        return next((each.value for each in self.entries if each.path == path), "")

    def _read_line(self, line: str) -> None:
        start = len(line) - len(line.lstrip(" "))
        innermost = self._around[-1][0] if self._around else -1
        if self._brackets and line.strip() and start <= innermost and line.lstrip()[0] not in "}]":
            self._brackets.clear()  # they were forgotten: what is in brackets stands further in
            self._quote = ""
        if self._brackets:
            self._read_brackets(line)
            return
        if self._text is not None and start > self._text[0]:
            self.caret = Caret(self._text[1], Slot.TEXT, line.strip())
            return
        if not line.strip():  # it ends nothing that goes on below it
            around = [path for column, path in self._around if column < start]
            self.caret = Caret(around[-1] if around else (), Slot.START, "")
            return
        self._text = None
        if line.lstrip().startswith("#"):
            self.caret = Caret((), Slot.TEXT, line)
            return
        self._read_block(line, start)

    def _read_block(self, line: str, column: int) -> None:
        """Read what begins in a column: items, and in the last one a key or a value."""
        while len(self._around) < DEEPEST and (dash := _DASH.match(line, column)):
            self._close(column, keeps_key=True)
            self._counts[self._innermost] += 1
            self._around.append((column, (*self._innermost, self._counts[self._innermost] - 1)))
            column = dash.end()
        rest = line[column:]
        if match := _KEY.match(rest):
            self._close(column)
            path = (*self._innermost, match["key"].strip().strip("\"'"))
            self._around.append((column, path))
            self._read_value(line, column + match.end(), path, column)
            return
        is_item = bool(self._around) and self._around[-1][0] < column and isinstance(self._around[-1][1][-1], int)
        self._close(column)
        if rest[:1] in ("{", "["):
            self._read_brackets(rest, self._innermost)
        else:
            self.caret = Caret(self._innermost, _judge(rest, Slot.START), rest)
            if is_item and rest:
                self._add(self._innermost, _unquote(rest))

    def _read_value(self, line: str, column: int, path: Path, key_column: int) -> None:
        """Read what follows a key and its colon."""
        rest = line[column:]
        value = rest.strip()
        if value[:1] in ("{", "["):
            self._add(path, "")
            self._read_brackets(value, path)
            return
        if _BLOCK_TEXT.match(value) or _OPEN_QUOTE.fullmatch(value):
            self._text = key_column, path
        self._add(path, _unquote(value))
        self.caret = Caret(path, _judge(value, Slot.VALUE) if rest else Slot.TEXT, rest.lstrip())

    @property
    def _innermost(self) -> Path:
        return self._around[-1][1] if self._around else ()

    def _close(self, column: int, *, keeps_key: bool = False) -> None:
        """End what does not go on in this column. An item may stand right below the key that it belongs to."""
        while self._around:
            at, path = self._around[-1]
            if at < column or (keeps_key and at == column and not isinstance(path[-1], int)):
                return
            self._around.pop()

    def _add(self, path: Path, value: str) -> None:
        if path:  # the cell itself is no entry
            self.entries.append(Entry(path, value))

    def _read_brackets(self, text: str, path: Path = ()) -> None:
        """Read on in brackets, up to the last that is closed."""
        for place, char in enumerate(text):
            inside = self._brackets[-1] if self._brackets else None
            if inside is None and char not in "{[":
                break
            if inside is not None and (
                self._quote or char not in ("{[}],:" if len(self._brackets) < DEEPEST else "}],:")
            ):
                if self._quote:
                    self._quote = "" if char == self._quote else self._quote
                elif char in "\"'" and not inside.begun.strip():
                    self._quote = char
                inside.begun += char
            elif char in "{[":
                self._open(path if inside is None else inside.place, inside, is_list=char == "[")
            elif inside is not None:
                self._read_mark(char, inside, is_last=text[place + 1 : place + 2] in ("", " "))
        if not self._brackets:
            self.caret = Caret((), Slot.TEXT, "")
            return
        inside = self._brackets[-1]
        slot = Slot.START if inside.is_list else Slot.KEY if inside.key is None else Slot.VALUE
        word = inside.begun.lstrip()
        if self._quote:
            slot = Slot.TEXT
        self.caret = Caret(inside.place, _judge(word, slot), word)

    def _open(self, path: Path, inside: _Bracket | None, *, is_list: bool) -> None:
        if inside is not None:
            self._add(path, "")
            inside.begun = ""
        self._brackets.append(_Bracket(path, is_list))

    def _read_mark(self, char: str, inside: _Bracket, *, is_last: bool) -> None:
        """Read a bracket that closes, a comma, or a colon, which is one only where its word ends."""
        if char == ":":
            if inside.is_list or inside.key is not None or not is_last:
                inside.begun += char
            else:
                inside.key, inside.begun = _unquote(inside.begun.strip()), ""
            return
        value = inside.begun.strip()
        if (inside.is_list and value) or (inside.key is not None and value):
            self._add(inside.place, _unquote(value))
        inside.begun = ""
        if char == ",":
            inside.count, inside.key = inside.count + 1, None
        else:
            self._brackets.pop()


def _judge(word: str, slot: Slot) -> Slot:
    """A word with a quote or a bar is a text."""
    return Slot.TEXT if word[:1] in ("'", '"', "|", ">", "#") else slot


def _unquote(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:].rpartition(value[0])[0]
    return "" if _BLOCK_TEXT.match(value) else _COMMENT.sub("", value).strip()
