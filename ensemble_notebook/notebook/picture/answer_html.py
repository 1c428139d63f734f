"""An answer as HTML of our own (C30a): its formatting is kept, and nothing in it can link, load or run.

It is read once, here: HTML, links and images are off, so they show as they were written. What is written has tags from
a fixed list, without any attribute that the text made, and texts without a mark of their own (`html_table`). No other
reader's idea of Markdown counts, which no re-encoded source can meet: each reads other spans in it.

Every character of the text is shown, but for the marks of formatting. What readers of Markdown leave out stays: cells
beyond the last column, what is nested too deep, the word behind a fence, definitions of links.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, list_block, table

from ensemble_notebook.notebook.picture.answer_formulas import FORMULA, find_formulas, is_harmless
from ensemble_notebook.notebook.picture.html_table import escape_formula, escape_markdown

if TYPE_CHECKING:
    from markdown_it.token import Token

_Rule = Callable[[StateBlock, int, int, bool], bool]

_DEEPEST: Final = 32
"""Levels of blocks, of which a list takes two, and of emphasis in each other. Pages have their own limits."""

_TAG: Final = re.compile("p|h[1-6]|ul|ol|li|blockquote|table|thead|tbody|t[rhd]|strong|em|s")
# Further down than in the notebook around it, whose chapters they are not. Pages set the last ones smaller than text.
_HEADINGS: Final = {"h1": "h4", "h2": "h5", "h3": "h6"}
_SIZES: Final = {"h4": "1.3em", "h5": "1.15em", "h6": "1em"}
_HEADING: Final = "font-size:{};font-style:normal;font-weight:600;margin:0.8em 0 0.4em"
# The same looks as those of a text in the timeline.
_FRAME: Final = "border:1px solid rgba(128,128,128,0.35);border-radius:6px;padding:2px 12px"
_CODE: Final = '<code style="background:rgba(128,128,128,0.15);border-radius:4px;padding:1px 4px">{}</code>'
_PRE: Final = (
    '<pre style="background:rgba(128,128,128,0.08);border:1px solid rgba(128,128,128,0.35);border-radius:6px;'
    'padding:9px 12px"><code style="background:none;padding:0">{}</code></pre>'
)
_WROTE: Final = '<div style="opacity:0.75;font-size:85%">{} wrote:</div>'
_ALIGNED: Final = {f"text-align:{side}": f' style="text-align:{side}"' for side in ("left", "center", "right")}
_LEFT: Final = _ALIGNED["text-align:left"]  # JupyterLab sets numbers: from the right, unless it is told
_NUMBERED: Final = '<ul style="list-style:none">'
_NUMBER: Final = '<span style="float:left;min-width:1.6em;margin-left:-2em;text-align:right">{}</span> '
_LANGUAGE: Final = '<div style="opacity:0.7;font-size:85%">{}</div>'
_LEFT_ALONE: Final = "ensemble-answer mathjax_ignore tex2jax_ignore"
_TYPESET: Final = "mathjax_process tex2jax_process"
# Characters that a page does not show, as pictures of themselves; line breaks and tabs stay.
_CONTROLS: Final = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"},
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    0x7F: 0x2421,
}
_CELL_END: Final = re.compile(r"(?<!\\)\|")


def write_answer(text: str, ending: str = "", author: str = "") -> str:
    """The HTML of an answer.

    Args:
        text: Markdown, of anybody.
        ending: HTML of ours, which stands below it.
        author: who wrote it, named above it in a thin frame around all; empty: no frame.
    """
    tokens = _make_parser().parse(text.translate(_CONTROLS))
    blocks = f"{''.join(_write_blocks(tokens))}{ending}"
    if not author:
        return f'<div class="{_LEFT_ALONE}">{blocks}</div>'
    return f'<div class="{_LEFT_ALONE}" style="{_FRAME}">{_WROTE.format(escape_markdown(author))}{blocks}</div>'


@functools.cache
def _make_parser() -> MarkdownIt:
    # Its own limit of nesting drops what is deeper.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 4 * _DEEPEST})
    parser.enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline", "autolink", "link", "image", "reference", "entity"])
    parser.block.ruler.at("blockquote", _limit_depth(blockquote), {"alt": ["paragraph", "blockquote", "list"]})
    parser.block.ruler.at("list", _limit_depth(list_block), {"alt": ["paragraph", "blockquote"]})
    parser.block.ruler.at("table", _read_table, {"alt": ["paragraph"]})
    find_formulas(parser)
    return parser


def _limit_depth(rule: _Rule) -> _Rule:
    """The rule, but for what is too deep, which is a paragraph."""
    return lambda state, first, end, silent: state.level < _DEEPEST and rule(state, first, end, silent)


def _read_table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A table with all cells of its rows: those that have no column are added behind the last one."""
    start = len(state.tokens)
    if not table(state, first, end, silent):
        return False
    tokens = state.tokens[start:]
    del state.tokens[start:]
    shown = line = 0
    for token in tokens:
        if token.type == "tr_open" and token.map:
            shown, line = 0, token.map[0]
        elif token.type == "tr_close":
            for cell in _split_row(state, line)[shown:]:
                state.push("td_open", "td", 1)
                inline = state.push("inline", "", 0)
                inline.content, inline.children = cell, []
                state.push("td_close", "td", -1)
        shown += token.type == "inline"
        state.tokens.append(token)
    return True


def _split_row(state: StateBlock, line: int) -> list[str]:
    """The cells of a row."""
    row = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()
    cells = _CELL_END.split(row)
    first, last = int(cells[0] == ""), len(cells) - (cells[-1] == "" and len(cells) > 1)
    return [cell.replace("\\|", "|").strip() for cell in cells[first:last]]


def _write_blocks(tokens: Sequence[Token]) -> Iterator[str]:
    lists = _find_lists(tokens)
    for place, token in enumerate(tokens):
        if token.type == "inline":
            yield from _write_inline(token.children or ())
        elif token.type in ("fence", "code_block"):
            yield _LANGUAGE.format(escape_markdown(token.info.strip())) if token.info.strip() else ""
            yield _PRE.format(escape_markdown(token.content))
        elif token.type == FORMULA:
            yield _write_formula(token, "div", _PRE)
        elif token.type == "hr":
            yield "<hr>"
        elif token.type.startswith("ordered_list") and not lists[place]:
            yield _NUMBERED if token.nesting > 0 else "</ul>"
        elif not token.hidden:
            yield _write_tag(token)
            if place in lists and token.type == "list_item_open" and not lists[place]:
                yield _NUMBER.format(escape_markdown(token.info + token.markup))


def _find_lists(tokens: Sequence[Token]) -> dict[int, bool]:
    """The places of numbered lists and of their items: whether a page counts them as the text does.

    That is from 1 on, or, as some write, with 1 each time. A page could begin elsewhere by an attribute only.
    """
    is_counted: dict[int, bool] = {}
    open_lists: list[list[int]] = []
    for place, token in enumerate(tokens):
        if token.type in ("ordered_list_open", "bullet_list_open"):
            open_lists.append([])
        if token.type in ("ordered_list_open", "ordered_list_close") or (token.type == "list_item_open" and token.info):
            open_lists[-1].append(place)
        if token.type in ("ordered_list_close", "bullet_list_close"):
            places = open_lists.pop()
            numbers = [int(tokens[each].info) for each in places[1:-1]]
            plain = numbers == [1] * len(numbers) or numbers == [*range(1, len(numbers) + 1)]
            is_counted |= dict.fromkeys(places, plain)
    return is_counted


def _write_inline(tokens: Sequence[Token]) -> Iterator[str]:
    depth = 0
    for token in tokens:
        if token.type == "text":
            yield escape_markdown(token.content)
        elif token.type == "code_inline":
            yield _CODE.format(escape_markdown(token.content))
        elif token.type == FORMULA:
            yield _write_formula(token, "span", _CODE)
        elif token.type == "softbreak":
            yield "&#10;"
        elif token.type == "hardbreak":
            yield "<br>"
        else:
            depth += max(token.nesting, 0)
            yield _write_tag(token) if depth <= _DEEPEST else escape_markdown(token.markup)
            depth += min(token.nesting, 0)


def _write_tag(token: Token) -> str:
    if not _TAG.fullmatch(token.tag):  # none, unless another version of the reader knows more
        return ""
    tag = _HEADINGS.get(token.tag, token.tag)
    if token.nesting < 0:
        return f"</{tag}>"
    if tag in _SIZES:
        return f'<{tag} style="{_HEADING.format(_SIZES[tag])}">'
    aligned = _ALIGNED.get(str(token.attrs.get("style")), _LEFT) if token.tag in ("th", "td") else ""
    return f"<{tag}{aligned}>"


def _write_formula(token: Token, tag: str, as_source: str) -> str:
    source = token.markup + token.content + token.info
    if is_harmless(token.content):
        return f'<{tag} class="{_TYPESET}">{escape_formula(source)}</{tag}>'
    return as_source.format(escape_markdown(source))
