"""Mistakes of a cell as a page shows them: HTML beside the plain text (C14).

Only for frontends where somebody watches; terminals and headless runs get the plain text of the error alone.
"""

from __future__ import annotations

import re
from typing import Any, Final

from IPython.display import display as untyped_display

from ensemble_notebook.cell.reading.mistakes import CellError, SourceFrame
from ensemble_notebook.notebook.picture.html_table import Html, make_bundle, tag

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
_REPLACEMENT: Final = re.compile(r"(?<=Did you mean )'(.+?)'(?=\?)")


def display_mistakes(error: CellError) -> None:
    """Show the mistakes of a cell on its page; the error itself is then shown as one line."""
    plain = "\n".join(error.draw()[1:])
    _display(make_bundle(plain, make_html(error)), raw=True)
    error.is_displayed = True


def make_html(error: CellError) -> Html:
    """The mistakes as HTML; all text of the cell is escaped."""
    parts = []
    for mistake, frame in error.shown:
        # The words that are to stand there instead are bold: every second piece of the split.
        pieces = _REPLACEMENT.split(mistake.message)
        said = [tag("strong", piece) if number % 2 else piece for number, piece in enumerate(pieces)]
        lines = [tag("p", f"{mistake.where}: ", *said, style=_TEXT)]
        lines += [] if frame is None else [_make_block(frame)]
        lines += [tag("p", mistake.hint, style=f"{_TEXT};opacity:.85")] if mistake.hint else []
        parts.append(tag("div", *lines, style="margin:0 0 10px"))
    if left := len(error.mistakes) - len(parts):
        parts.append(tag("p", f"... and {left} more", style=_TEXT))
    return tag("div", *parts, role="group", aria_label=error.title)


def _make_block(frame: SourceFrame) -> Html:
    """The line in four columns, and the carets in the third; a line without a mark is shown from its beginning."""
    before, after = (frame.before, frame.after) if frame.carets else ("", frame.before)
    line = [
        tag("span", frame.gutter),
        tag("span", tag("span", before, style=_AS_WRITTEN), style=_BEFORE),
        tag("strong", frame.marked),
        tag("span", after.rstrip(), style=_PART),
    ]
    if frame.carets:
        line += [tag("span", frame.caret_gutter), tag("span"), tag("strong", frame.carets)]
    return tag("pre", *line, style=_BLOCK)
