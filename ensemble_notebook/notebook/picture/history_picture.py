"""The last runs of a notebook as one table: what each took and was given, and what changed since the one before.

What changed stands in lines of their own, as wide as the page: in a column it would push the amounts out of sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ensemble_notebook.notebook.picture.diff_picture import render_words, wrap_html
from ensemble_notebook.notebook.picture.static_picture import Bundle, escape_text
from ensemble_notebook.trace.comparison.run_diff import RunDiff
from ensemble_notebook.trace.comparison.run_history import ComparedRun, RunHistory, describe_amounts
from ensemble_notebook.trace.comparison.text_changes import TextChange
from ensemble_notebook.trace.comparison.word_diff import Piece, shorten_same

MOST_CHANGES: Final = 4
"""How many changed texts of a sort are shown; the frame has all."""

WORDS_AROUND: Final = 3
LONGEST: Final = 240
"""Characters of a changed text, or of an input, that are shown."""

_HEADS: Final = ("run", "status", "began (UTC)", "time", "tokens", "cost", "inputs")
_CELL: Final = "text-align:left;vertical-align:top;padding:3px 10px 3px 0;border:0"
_NARROW: Final = f"{_CELL};white-space:nowrap"
_WIDE: Final = f"{_CELL};overflow-wrap:anywhere"
_FAINT: Final = "opacity:0.7"
_ROW: Final = "border:0;background:none"
_FIRST_ROW: Final = "border:0;border-top:1px solid rgba(128,128,128,0.35);background:none"


def make_history_bundle(history: RunHistory) -> Bundle:
    """The table as plain text and as HTML."""
    return {"text/plain": repr(history), "text/html": render_history_html(history)}


def render_history_html(history: RunHistory) -> str:
    """A row for each run, newest first, and one for what changed."""
    if not history.runs:
        return wrap_html(f"<div>{escape_text(repr(history))}</div>")
    heads = "".join(f'<th style="{_NARROW};font-weight:normal;{_FAINT}">{head}</th>' for head in _HEADS)
    rows = "".join(map(_render_run, history.runs))
    head = f'<thead style="border:0"><tr style="{_ROW}">{heads}</tr></thead>'
    style = "border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit"
    return wrap_html(f'<table style="{style}">{head}<tbody>{rows}</tbody></table>')


def _render_run(compared: ComparedRun) -> str:
    fold, diff = compared.fold, compared.diff
    began = "" if fold.run is None or fold.run.start_time is None else f"{fold.run.start_time:%Y-%m-%d %H:%M:%S}"
    who = f"<strong>{escape_text(fold.name or 'run')}</strong> {escape_text(fold.run_id[:8])}"
    facts = [who, escape_text(fold.status.value.replace("_", " ")), escape_text(began)]
    amounts = [_stack(map(escape_text, parts)) for parts in describe_amounts(compared)]
    inputs = _stack(
        f"{escape_text(name)}: {escape_text(_shorten(value, LONGEST))}" for name, value in fold.inputs.items()
    )
    cells = [*(_make_cell(html, _NARROW) for html in (*facts, *amounts)), _make_cell(inputs, _WIDE)]
    row = f'<tr style="{_FIRST_ROW}">{"".join(cells)}</tr>'
    if diff is None:
        return row
    said = f'<td colspan="{len(_HEADS)}" style="{_WIDE};padding-left:1.2em">{_stack(_list_changes(diff))}</td>'
    return f'{row}<tr style="{_ROW}">{said}</tr>'


def _list_changes(diff: RunDiff) -> Iterator[str]:
    """What changed, in lines: how many tasks, then the first texts of each sort, then the sorts that are the same."""
    yield _faint(f"since {diff.before.run_id[:8]}: {diff.task_summary}")
    for title, changes in diff.list_parts():
        for change in changes.changes[:MOST_CHANGES]:
            yield f"{_faint(f'{title}, {_name(change)}:')} {_render_pieces(change)}"
        if (left := len(changes.changes) - MOST_CHANGES) > 0:
            yield _faint(f"{title}: and {left} more")
    yield _faint(diff.describe_rest())


def _name(change: TextChange) -> str:
    return change.where if change.status == "changed" else f"{change.where} ({change.status})"


def _render_pieces(change: TextChange) -> str:
    """The first of the words that changed, with those around each change."""
    html, left = "", LONGEST
    for piece in shorten_same(change.pieces, WORDS_AROUND):
        if left <= 0:
            return f"{html} […]"
        text = _shorten(piece.text, left)
        html += render_words(Piece(piece.mark, text))
        left -= len(text)
    return html


def _stack(parts: Iterable[str]) -> str:
    return "".join(f"<div>{part}</div>" for part in parts if part)


def _faint(text: str) -> str:
    return f'<span style="{_FAINT}">{escape_text(text)}</span>' if text else ""


def _shorten(text: str, limit: int) -> str:
    """At most so many characters, on one line."""
    flat = text.replace("\n", " ")
    return flat if len(flat) <= limit else f"{flat[:limit]}…"


def _make_cell(html: str, style: str) -> str:
    return f'<td style="{style}">{html}</td>'
