"""Texts of models, tools and people in HTML of ours, where they mean nothing to whoever reads it (C30a).

A page is read more than once. What exports a notebook may make Markdown of it, in which HTML ends with an empty line:
so no line ends in a text. And MathJax reads the text of a page, where an entity is the character again: so what can
begin a formula stands in an element of its own, since a formula is looked for within one text. That needs no class,
which GitHub and others take away.
"""

from __future__ import annotations

from html import escape
from typing import Final

from ensemble_notebook.errors import remove_control_characters

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
