"""Writes plain data as readable YAML that our reader reads as the same data.

Short mappings and lists stand on one line, long texts in blocks. Knows no key of the language, except for one pitfall:
a text that begins like a key is quoted, as the reader demands.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.reading.mistakes import MisreadError
from ensemble_notebook.cell.reading.source_text import OPTIONS
from ensemble_notebook.cell.reading.values import to_plain_value
from ensemble_notebook.cell.reading.yaml_nodes import ScalarNode
from ensemble_notebook.domain.value_text import OLD_FLAGS

WIDTH: Final = 100
"""Columns of a line, as far as it can be broken."""

_INDENT: Final = "  "
_MOST_IN_FLOW: Final = 4
_LONGEST_KEY: Final = 100
_INDICATORS: Final = frozenset("-?:,[]{}#&*!|>'\"%@`=~")
_UNSAFE: Final = re.compile(r": |:$| #|\t|^\.\.\.|^<<$")
_UNSAFE_IN_FLOW: Final = re.compile(r"[,\[\]{}]|:(?!\w|//)")
_WORDS: Final = re.compile(r"\S+( \S+)*")


class Block(dict[str, Any]):
    """A mapping that is always written with a line for each key."""


class BlockList(list[Any]):
    """A list that is always written with a line for each item."""


@dataclass(frozen=True, slots=True)
class Digits:
    """A number that is written as these digits, so that none is lost."""

    text: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on lines of its own, in place of the value of a key; the key itself is not written."""

    text: str


def write_yaml(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Write data as a document that ends in a line feed.

    Args:
        data: mappings with text keys, lists, texts, numbers, flags, None, `Digits` and, as values, `Comment`.
    """
    return "\n".join(_write_block(data, "")) + "\n"


def _write_block(data: Any, indent: str) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if isinstance(value, Comment):
                for line in value.text.splitlines():
                    yield from (f"{indent}# {each}" for each in textwrap.wrap(line, WIDTH - len(indent) - 2) or [""])
            else:
                yield from _write_entry(f"{indent}{_write_key(key)}:", value, indent)
        return
    for item in data:
        if isinstance(item, Mapping) and not _fits(item, f"{indent}- "):
            lines = list(_write_block(item, f"{indent}{_INDENT}"))
            yield f"{indent}- {lines[0][len(indent) + len(_INDENT) :]}"
            yield from lines[1:]
        else:
            yield from _write_entry(f"{indent}-", item, indent)


def _write_entry(start: str, value: Any, indent: str) -> Iterator[str]:
    """Write a value behind its key or dash, on the same line or below it."""
    if isinstance(value, str) and (form := _choose_text_form(value, start)):
        yield f"{start} {form}"
        inner = f"{indent}{_INDENT}"
        if form == "|-":
            yield from (f"{inner}{line}" if line else "" for line in value.split("\n"))
        else:
            wrapper = textwrap.TextWrapper(WIDTH, inner, inner, break_long_words=False, break_on_hyphens=False)
            yield from wrapper.wrap(value)
    elif not isinstance(value, Mapping | list | tuple) or not value or _fits(value, f"{start} "):
        yield f"{start} {write_flow(value, is_inside=False)}"
    else:
        yield start
        yield from _write_block(value, f"{indent}{_INDENT}")


def _fits(value: Any, start: str) -> bool:
    """Whether a mapping or list stands on the line that begins so."""
    return _may_flow(value) and len(start) + len(write_flow(value, is_inside=False)) <= WIDTH


def _may_flow(value: Any, depth: int = 0) -> bool:
    if isinstance(value, Block | BlockList | Comment) or (isinstance(value, str) and "\n" in value):
        return False
    if isinstance(value, Mapping):
        parts = list(value.values())
        return (
            depth < _MOST_IN_FLOW and len(parts) <= _MOST_IN_FLOW and all(_may_flow(each, depth + 1) for each in parts)
        )
    if isinstance(value, list | tuple):
        return depth < _MOST_IN_FLOW and all(_may_flow(each, depth + 1) for each in value)
    return True


def write_flow(value: Any, *, is_inside: bool = True) -> str:
    """Write a value on one line; `is_inside` where brackets are around it."""
    if isinstance(value, Digits):
        return value.text
    if isinstance(value, Mapping):
        pairs = (f"{_write_key(key, is_inside=True)}: {write_flow(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(write_flow, value))}]"
    if isinstance(value, str):
        return _write_text(value, is_inside=is_inside)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    if text.lstrip("-") in ("inf", "nan"):
        return f"{'-' if text.startswith('-') else ''}.{text.lstrip('-')}"
    return text


def _write_key(key: str, *, is_inside: bool = False) -> str:
    return _write_text(key, is_inside=is_inside or len(key) > _LONGEST_KEY, is_key=True)


def _write_text(text: str, *, is_inside: bool, is_key: bool = False) -> str:
    if _is_plain(text, is_inside=is_inside, is_key=is_key):
        return text
    quoted = json.dumps(text, ensure_ascii=False)  # what is invisible is written by its number
    return "".join(each if each.isprintable() else _escape(each) for each in quoted)


def _is_plain(text: str, *, is_inside: bool, is_key: bool) -> bool:
    """Whether a text can stand without quotes, and is read as this text."""
    if not text or not text.isprintable() or text != text.strip() or text[0] in _INDICATORS or _UNSAFE.search(text):
        return False
    if is_inside and _UNSAFE_IN_FLOW.search(text):
        return False
    if text.lower() in OLD_FLAGS or (not is_key and text.partition(":")[0] in vocabulary.WORDS and ":" in text):
        return False
    try:
        is_text = to_plain_value(ScalarNode(0, 0, OPTIONS, text, is_plain=True)) is text
    except MisreadError:  # a number in a form that tools read differently
        return False
    return is_text and not (is_key and "{" in text)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _choose_text_form(text: str, start: str) -> str:
    """Choose ``|-`` for several lines, ``>-`` for one that is too long, and nothing where it fits as it is."""
    lines = text.split("\n")
    if text != text.strip() or not all(line.isprintable() for line in lines):
        return ""
    if len(lines) > 1:
        return "|-" if all(line.strip() or not line for line in lines) else ""
    is_long = len(start) + 1 + len(_write_text(text, is_inside=False)) > WIDTH
    return ">-" if is_long and _WORDS.fullmatch(text) and " " in text else ""
