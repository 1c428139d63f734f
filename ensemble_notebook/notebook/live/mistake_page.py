"""Mistakes of a cell as a page shows them: HTML beside the plain text (C14).

Only for frontends where somebody watches; terminals and headless runs get the plain text of the error alone.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any, Final

from IPython.display import display as untyped_display

from ensemble_notebook.cell.text.mistakes import CellError, Mistake
from ensemble_notebook.cell.text.source_frame import SourceFrame

_display: Any = untyped_display

# Styles stand on the elements: a saved notebook has no style sheet of ours. JupyterLab breaks words anywhere in <pre>.
# The place of the mistake is always in sight: in a narrow cell, what stands before and after it gives way. Each of the
# two scrolls by itself, the one before from its end, which is what its direction is for. A scroll bar would push the
# carets away from the line.
_BLOCK: Final = (
    "white-space:pre;overflow-x:auto;overflow-wrap:normal;word-break:normal;margin:2px 0;padding:2px 6px;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.4;"
    "border-left:3px solid var(--jp-error-color1,#d32f2f);background:none;color:inherit;"
    "display:grid;grid-template-columns:max-content minmax(0,max-content) max-content minmax(0,max-content)"
)
_PART: Final = "overflow-x:auto;scrollbar-width:none"
_BEFORE: Final = f"{_PART};direction:rtl"
_AS_WRITTEN: Final = "display:inline-block;direction:ltr"
# A word that is longer than the cell is wide is scrolled, too.
_TEXT: Final = "overflow-wrap:normal;word-break:normal;overflow-x:auto;margin:0"
_REPLACEMENT: Final = re.compile(r"(?<=Did you mean )&#x27;(.+?)&#x27;(?=\?)")


def display_mistakes(error: CellError) -> None:
    """Show the mistakes of a cell on its page; the error itself is then shown as one line."""
    plain = "\n".join(error.draw()[1:])
    _display({"text/html": make_html(error), "text/plain": plain}, raw=True)
    error.is_displayed = True


def make_html(error: CellError) -> str:
    """The mistakes as HTML; all text of the cell is escaped."""
    parts = [_make_part(mistake, frame) for mistake, frame in error.shown]
    if left := len(error.mistakes) - len(parts):
        parts.append(f'<p style="{_TEXT}">... and {left} more</p>')
    return f'<div role="group" aria-label="{escape(error.title)}">{"".join(parts)}</div>'


def _make_part(mistake: Mistake, frame: SourceFrame | None) -> str:
    message = _REPLACEMENT.sub(r"<strong>\1</strong>", escape(mistake.message))
    text = f'<p style="{_TEXT}">{escape(mistake.where)}: {message}</p>'
    block = "" if frame is None else _make_block(frame)
    hint = f'<p style="{_TEXT};opacity:.85">{escape(mistake.hint)}</p>' if mistake.hint else ""
    return f'<div style="margin:0 0 10px">{text}{block}{hint}</div>'


def _make_block(frame: SourceFrame) -> str:
    """The line in four columns, and the carets in the third; a line without a mark is shown from its beginning."""
    before, after = (frame.before, frame.after) if frame.carets else ("", frame.before)
    line = (
        f"<span>{escape(frame.gutter)}</span>"
        f'<span style="{_BEFORE}"><span style="{_AS_WRITTEN}">{escape(before)}</span></span>'
        f"<strong>{escape(frame.marked)}</strong>"
        f'<span style="{_PART}">{escape(after.rstrip())}</span>'
    )
    if frame.carets:
        line += f"<span>{escape(frame.caret_gutter)}</span><span></span><strong>{frame.carets}</strong>"
    return f'<pre style="{_BLOCK}">{line}</pre>'
