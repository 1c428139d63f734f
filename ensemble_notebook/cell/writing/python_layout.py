"""Lays out Python expressions as formatters do: on one line if it fits, otherwise one line for each part.

Knows nothing of ensembles.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

WIDTH: Final = 88
"""Columns of a line, as formatters have it by default."""

_INDENT: Final = "    "
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Code:
    """An expression that is written as it is: a name, as a rule."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call.

    Attributes:
        function: as it is written.
        arguments: those without a name, in order.
        keywords: those with one.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] | None = None


def write_statement(name: str, value: Any) -> str:
    """Write ``name = value``.

    Args:
        name: of the variable.
        value: `Code`, `Call`, or data: texts, numbers, flags, None, lists and mappings, of such values.
    """
    return "\n".join(_lay_out(f"{name} = ", value, "", ""))


def write_import(module: str, names: Sequence[str]) -> str:
    """Write the import of some names of a module."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"{_INDENT}{name}," for name in names), ")"])


def _lay_out(start: str, value: Any, end: str, indent: str) -> Iterator[str]:
    """Write a value between what stands before and behind it on its first and its last line."""
    flat = f"{indent}{start}{_write_flat(value)}{end}"
    parts = _split(value)
    if parts is None or len(flat) <= WIDTH:
        yield flat
        return
    opening, items, closing, comma = parts
    yield f"{indent}{start}{opening}"
    for before, item in items:
        if comma:
            yield from _lay_out(before, item, ",", f"{indent}{_INDENT}")
        else:
            yield f"{indent}{_INDENT}{_write_text(item)}"
    yield f"{indent}{closing}{end}"


def _split(value: Any) -> tuple[str, list[tuple[str, Any]], str, bool] | None:
    """Split a value into parts that may stand on lines of their own; None where it has none."""
    if isinstance(value, Call):
        keywords = [(f"{name}=", each) for name, each in (value.keywords or {}).items()]
        items = [("", each) for each in value.arguments] + keywords
        return (f"{value.function}(", items, ")", True) if items else None
    if isinstance(value, Mapping):
        pairs = [(f"{_write_flat(key)}: ", each) for key, each in value.items()]
        return ("{", pairs, "}", True) if pairs else None
    if isinstance(value, list | tuple):
        return ("[", [("", each) for each in value], "]", True) if value else None
    if isinstance(value, str):
        pieces = _split_text(value)
        return ("(", [("", piece) for piece in pieces], ")", False) if len(pieces) > 1 else None
    return None


def _write_flat(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, float) and repr(value).lstrip("-") in ("inf", "nan"):
        return f'float("{value!r}")'
    parts = _split(value)
    if parts is None:
        return f"{value.function}()" if isinstance(value, Call) else _write_empty(value)
    opening, items, closing, _ = parts
    return f"{opening}{', '.join(f'{before}{_write_flat(item)}' for before, item in items)}{closing}"


def _write_empty(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, list | tuple) else repr(value).replace("e+", "e")


def _write_text(text: str) -> str:
    """Write a text in double quotes, or in single ones where that escapes less."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return f"{mark}{''.join(_escape(each, mark) for each in text)}{mark}"


def _escape(character: str, mark: str) -> str:
    if character == mark:
        return f"\\{mark}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else repr(character)[1:-1]


def _split_text(text: str) -> list[str]:
    """Split a text into pieces: behind the ends of its lines, and where a line is too long."""
    pieces = []
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\n")
        wrapped = _wrap(body)
        wrapped[-1] += line[len(body) :]
        pieces += wrapped
    return pieces


def _wrap(line: str) -> list[str]:
    """Split a line before words, so that each piece has about the width of a line; spaces stay where they are."""
    pieces = [""]
    for word in textwrap.TextWrapper(break_long_words=False, break_on_hyphens=False)._split(line):
        if pieces[-1] and len(pieces[-1]) + len(word) > WIDTH - 3 * len(_INDENT):
            pieces.append("")
        pieces[-1] += word
    return pieces
