"""Pieces of a page, and the one table that all of ours are: written here, so that they look alike and none is unsafe.

What is put into a piece is escaped, unless it was made here: so every cell holds the text that it was given, whoever
wrote it (C30a). Styles stand on the elements, since a saved notebook has no style sheet of ours; they
undo what pages do to tables, and say no colour of the page, so that they read well in light and dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from ensemble_notebook.errors import remove_control_characters

Bundle = dict[str, Any]
"""A picture in every form, by media type."""

FAINT: Final = "opacity:0.7"
"""The style of what is looked at last."""

BREAKS: Final = "white-space:normal;overflow-wrap:anywhere"
"""The style of texts that take several lines in a narrow window, and break anywhere."""

_CELL: Final = "text-align:left;vertical-align:top;padding:1px 14px 1px 0;white-space:nowrap;border:0"
_NUMBER: Final = _CELL.replace("left", "right", 1)
_ROW: Final = "border:0;background:none"
_RULE: Final = ";border-top:1px solid rgba(128,128,128,0.35)"
_TABLE: Final = "border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit"
_NOTE: Final = f"{BREAKS};max-width:70em"
_PRE: Final = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;background:none;color:inherit"

# A page is read more than once. What exports a notebook may make Markdown of it, in which HTML ends with an empty line:
# so no line ends in a text. And MathJax reads the text of a page, where an entity is the character again: so what can
# begin a formula stands in an element of its own, since a formula is looked for within one text. That needs no class,
# which GitHub and others take away.
_LINE_ENDS: Final = {ord("\n"): "&#10;"}
_FORMULA_STARTS: Final = {ord("$"): "<span>&#36;</span>", ord("\\"): "<span>&#92;</span>"}
_NUMBERS: Final = {code: f"&#{code};" for code in range(128) if not (chr(code).isalnum() or chr(code) == " ")}


def escape_text(text: str) -> str:
    """A text for a page, without characters that control a terminal or a page."""
    return escape(remove_control_characters(text)).translate(_LINE_ENDS | _FORMULA_STARTS)


def escape_markdown(text: str) -> str:
    """The same of a text in which every reader of Markdown finds something else.

    The proof is the alphabet: of ASCII there are letters, digits and spaces, and a number for every other character.
    """
    return remove_control_characters(text).translate(_NUMBERS | _FORMULA_STARTS)


def escape_formula(text: str) -> str:
    """The same where MathJax is to find a formula."""
    return remove_control_characters(text).translate(_NUMBERS)


class Html(str):
    """A piece of a page, in which every text is escaped. What is made of it by ``+`` or ``f""`` is a text again."""

    __slots__ = ()


def join(*parts: str) -> Html:
    """Pieces and texts one after the other; the texts are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape_text(part) for part in parts))


def tag(name: str, *parts: str, style: str = "", **attributes: str) -> Html:
    """An element with pieces and texts in it.

    Args:
        name: of the element.
        parts: the texts of these are escaped.
        style: of the element.
        attributes: others; an underscore in a name is a hyphen.
    """
    given = {"style": style, **attributes} if style else attributes
    said = "".join(f' {key.replace("_", "-")}="{escape(value)}"' for key, value in given.items())
    return Html(f"<{name}{said}>{join(*parts)}</{name}>")


def image(source: str, words: str, style: str) -> Html:
    """A picture, and what it is for those who don't see it. Its source is our own."""
    return Html(f'<img src="{escape(source)}" alt="{escape_text(words)}" style="{escape(style)}">')


def faint(text: str) -> Html:
    """A text that is looked at last; an empty one stays empty."""
    return tag("span", text, style=FAINT) if text else Html()


def color(text: str, shade: str) -> Html:
    """A text in a color that is readable on white and on near-black."""
    return tag("span", text, style=f"color:{shade}")


def stack(parts: Iterable[str]) -> Html:
    """One below the other, without those that are empty."""
    return join(*(tag("div", part) for part in parts if part))


def wrap(*parts: str) -> Html:
    """A whole picture, in the type and size of all; what is wider than the page can be scrolled."""
    return tag("div", *parts, style="font-size:13px;line-height:1.5;overflow-x:auto")


def make_bundle(plain: str, page: Html) -> Bundle:
    """A picture as plain text and as HTML, each a `str` by its type: marimo shows nothing of a bundle with another."""
    return {"text/plain": str(plain), "text/html": str(page)}


def fold(title: str, *parts: str, is_open: bool = False) -> Html:
    """Parts below a title that opens and closes them."""
    opened = {"open": ""} if is_open else {}
    inside = tag("div", *parts, style="padding-left:1.2em")
    return tag("details", tag("summary", title), inside, style="margin:2px 0", **opened)


def preformat(*parts: str) -> Html:
    """A text with the line breaks and spaces that it has."""
    return tag("pre", *parts, style=f"margin:2px 0 8px;{_PRE}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        head: above it.
        is_number: it is read from the right.
        is_faint: it is looked at last.
        style: more of its cells.
    """

    head: str
    is_number: bool = False
    is_faint: bool = False
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a table.

    Attributes:
        cells: texts and pieces, one for each column.
        depth: how far the first cell is indented.
        has_rule: a line is drawn above it.
        notes: what stands below it.
    """

    cells: Sequence[str]
    depth: int = 0
    has_rule: bool = False
    notes: Sequence[str] = ()


def write_table(columns: Sequence[Column], lines: Iterable[Line], noted: int | None = None) -> Html:
    """A table with a head.

    Args:
        columns: from the left.
        lines: from the top.
        noted: how many columns from the left notes are as wide as: those that a narrow window shows. None: as all.
    """
    styles = [f"{_NUMBER if each.is_number else _CELL}{f';{each.style}' if each.style else ''}" for each in columns]
    heads = (
        tag("th", each.head, style=f"{style};font-weight:normal;{FAINT}")
        for each, style in zip(columns, styles, strict=True)
    )
    looks = [f"{style};{FAINT}" if each.is_faint else style for each, style in zip(columns, styles, strict=True)]
    head = tag("thead", tag("tr", *heads, style=_ROW), style="border:0")
    body = tag("tbody", *(row for line in lines for row in _write_line(line, looks, noted or len(looks))))
    return tag("table", head, body, style=_TABLE)


def _write_line(line: Line, looks: Sequence[str], noted: int) -> Iterable[Html]:
    indents = [_indent(line.depth), *[""] * (len(looks) - 1)]
    cells = (
        tag("td", text, style=look + indent) for text, look, indent in zip(line.cells, looks, indents, strict=True)
    )
    yield tag("tr", *cells, style=_ROW + (_RULE if line.has_rule else ""))
    for note in line.notes:
        style = f"{_CELL};{_NOTE}{_indent(line.depth + 1)}"
        yield tag("tr", tag("td", note, style=style, colspan=str(noted)), style=_ROW)


def _indent(depth: int) -> str:
    return f";padding-left:{1.4 * depth:g}em" if depth else ""
