"""Two runs compared, for a page (T22): what changed task by task, and the words that changed, marked.

Reads well in light and dark and without styles: words that were taken out are struck through and those that were put in
underlined by their elements alone. Nothing in it runs, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap
from typing import Final

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.notebook.picture.static_picture import Bundle, escape_text
from ensemble_notebook.trace.comparison.diff_lines import HEADS, DiffLine
from ensemble_notebook.trace.comparison.run_diff import RunDiff
from ensemble_notebook.trace.comparison.text_changes import TextChange, TextChanges
from ensemble_notebook.trace.comparison.word_diff import Piece, wrap_piece

MOST_OPEN: Final = 4
"""More changed texts than this are folded one by one."""

# Readable on white and on near-black, as those of the picture of a run.
_REMOVED: Final = "color:#e0364a;background:rgba(224,54,74,0.12)"
_ADDED: Final = "color:#2f9e57;background:rgba(47,158,87,0.14)"
_COLORS: Final = {
    "same": "opacity:0.7",
    "changed": "color:#b9801a",
    "added": "color:#2f9e57",
    "removed": "color:#e0364a",
}
_CELL: Final = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;white-space:nowrap;border:0"
_NUMBER: Final = _CELL.replace("left", "right", 1)
# In a narrow window, a long name takes several lines, and a difference stands below its amount: all stay in sight.
_NAME: Final = f"{_CELL.replace('nowrap', 'normal')};min-width:6em;max-width:20em;overflow-wrap:anywhere"
_PAIR: Final = _NUMBER.replace("nowrap", "normal").replace("10px", "18px")
_AMOUNT: Final = "display:inline-block;white-space:nowrap"
_DIFFERENCE: Final = f"{_AMOUNT};min-width:5em"
_PRE: Final = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;background:none;color:inherit"
_FAINT: Final = "opacity:0.7"
_ROW: Final = "border:0;background:none"


def make_diff_bundle(diff: RunDiff) -> Bundle:
    """A comparison as plain text and as HTML."""
    return {"text/plain": repr(diff), "text/html": render_diff_html(diff)}


def make_changes_bundle(changes: TextChanges) -> Bundle:
    """Changed texts as plain text and as HTML."""
    html = "".join(_render_change(change, is_open=True) for change in changes.changes)
    return {
        "text/plain": str(changes) or "(nothing changed)",
        "text/html": wrap_html(html or "<div>Nothing changed.</div>"),
    }


def render_diff_html(diff: RunDiff) -> str:
    """A comparison: both runs, the summary, a table of tasks, and what changed in texts, folded by sort."""
    sides = "".join(
        f'<div><strong>{side}</strong> <span style="{_FAINT}">{escape_text(said)}</span></div>'
        for side, said in diff.sides
    )
    notes = "".join(f"<div>! {escape_text(note)}</div>" for note in diff.notes)
    parts = "".join(_render_part(title, changes) for title, changes in diff.list_parts())
    summary = f'<div style="margin:4px 0">{escape_text(diff.summary)}</div>'
    return wrap_html(f"{sides}{summary}{notes}{_render_table(diff.lines)}{parts}")


def wrap_html(html: str) -> str:
    """In the type and size of all pictures; what is wider can be scrolled."""
    return f'<div style="font-size:13px;line-height:1.5;overflow-x:auto">{html}</div>'


def _render_table(lines: Iterable[DiffLine]) -> str:
    output, *pairs = filter(None, HEADS)
    heads = f'<th style="{_NUMBER};font-weight:normal">{output}</th>'
    heads += "".join(f'<th style="{_PAIR};font-weight:normal">{head}</th>' for head in pairs)
    rows = "".join(map(_render_line, lines))
    return (
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit">'
        f'<thead style="border:0"><tr style="{_ROW};{_FAINT}"><th style="{_CELL};font-weight:normal">task</th>'
        f'<th style="{_CELL};font-weight:normal"></th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _render_line(line: DiffLine) -> str:
    indent = f";padding-left:{1.4 * line.depth:g}em" if line.depth else ""
    name = escape_text(line.name)
    name = f"<strong>{name}</strong>" if line.is_whole else name
    status = f'<span style="{_COLORS[line.status]}">{line.sign} {line.status}</span>'
    output, *amounts = line.cells
    cells = f'<td style="{_NUMBER}">{escape_text(output)}</td>'
    cells += "".join(starmap(_render_pair, zip(amounts[::2], amounts[1::2], strict=True)))
    return f'<tr style="{_ROW}"><td style="{_NAME}{indent}">{name}</td><td style="{_CELL}">{status}</td>{cells}</tr>'


def _render_pair(amount: str, difference: str) -> str:
    return (
        f'<td style="{_PAIR}"><span style="{_AMOUNT}">{escape_text(amount)}</span> '
        f'<span style="{_DIFFERENCE}">{escape_text(difference)}</span></td>'
    )


def _render_part(title: str, changes: TextChanges) -> str:
    count = len(changes.changes)
    is_open = count <= MOST_OPEN
    inner = "".join(_render_change(change, is_open=is_open) for change in changes.changes)
    said = f'{title} <span style="{_FAINT}">({pluralize(count, "text")} changed)</span>'
    summary = f"<summary>{said}</summary>"
    return f'<details open style="margin:4px 0 0">{summary}<div style="padding-left:1.2em">{inner}</div></details>'


def _render_change(change: TextChange, *, is_open: bool) -> str:
    said = escape_text(change.where) + ("" if change.status == "changed" else f" ({change.status})")
    text = "".join(map(render_words, change.pieces))
    return (
        f'<details{" open" if is_open else ""} style="margin:2px 0"><summary>{said}</summary>'
        f'<pre style="margin:2px 0 8px 1.2em;{_PRE}">{text}</pre></details>'
    )


def render_words(piece: Piece) -> str:
    """A piece of a text, marked where it changed."""
    escaped = piece._replace(text=escape_text(piece.text))
    if piece.mark == "removed":
        return wrap_piece(escaped, f'<del style="{_REMOVED}">', "</del>")
    return wrap_piece(escaped, f'<ins style="{_ADDED}">', "</ins>") if piece.mark == "added" else escaped.text
