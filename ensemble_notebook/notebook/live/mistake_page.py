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
_BLOCK: Final = (
    "white-space:pre;overflow-x:auto;overflow-wrap:normal;word-break:normal;margin:2px 0;padding:2px 6px;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.4;"
    "border-left:3px solid var(--jp-error-color1,#d32f2f);background:none;color:inherit"
)
_TEXT: Final = "overflow-wrap:break-word;word-break:normal;margin:0"
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
    line = f"{escape(frame.gutter + frame.before)}<strong>{escape(frame.marked)}</strong>{escape(frame.after)}"
    return f'<pre style="{_BLOCK}">{line.rstrip()}\n<strong>{escape(frame.caret_line)}</strong></pre>'
