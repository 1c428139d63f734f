"""Runs compared, for a page: two of them (T22), and the last ones of a notebook.

Of two, what changed task by task, and the words that changed, marked. Of the last ones, what each took and was given,
and what changed since the one before. What changed stands in lines of its own, as wide as the page: in a column it
would push the amounts out of sight.

Reads well in light and dark and without styles: words that were taken out are struck through and those that were put in
underlined by their elements alone. Nothing in it runs, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ensemble_notebook.domain.wording import format_moment, format_zone, pluralize
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.trace.analysis.run_diff import ComparedRun, RunDiff, RunHistory, describe_amounts
from ensemble_notebook.trace.analysis.span_diffs import HEADS, DiffLine
from ensemble_notebook.trace.analysis.text_changes import (
    Piece,
    TextChange,
    TextChanges,
    shorten_same,
    split_line_ends,
)
from ensemble_notebook.trace.spans.span_kinds import DONE_COLOR, ERROR_COLOR, TONE_COLORS
from ensemble_notebook.trace.spans.timeline_wording import name_status

MOST_OPEN: Final = 4
"""More changed texts than this are folded one by one."""

MOST_CHANGES: Final = 4
"""How many changed texts of a sort are shown of each of the last runs; the frame has all."""

WORDS_AROUND: Final = 3
LONGEST: Final = 240
"""Characters of a changed text, or of an input, that are shown of each of the last runs."""

_MARKS: Final = {
    "removed": ("del", f"color:{ERROR_COLOR};background:rgba(224,54,74,0.12)"),
    "added": ("ins", f"color:{DONE_COLOR};background:rgba(47,158,87,0.14)"),
}
_COLORS: Final = {"changed": TONE_COLORS["pause"], "added": DONE_COLOR, "removed": ERROR_COLOR}
# In a narrow window, a long name takes several lines, and a difference stands below its amount: all stay in sight.
_NAME: Final = f"{html.BREAKS};min-width:6em;max-width:20em;padding-right:10px"
_NARROW: Final = "padding-right:10px"
_PAIR: Final = "white-space:normal"
_AMOUNT: Final = "display:inline-block;white-space:nowrap"
_DIFFERENCE: Final = f"{_AMOUNT};min-width:5em"
_WIDE: Final = f"{html.BREAKS};min-width:12em"
_HISTORY: Final = (
    *(html.Column(head) for head in ("run", "status", "began", "time", "tokens", "cost")),
    html.Column("inputs", style=_WIDE),
)


def make_changes_bundle(changes: TextChanges) -> html.Bundle:
    """Changed texts as plain text and as HTML."""
    parts = [_render_change(change, is_open=True) for change in changes.changes]
    page = html.wrap(*parts or [html.tag("div", "Nothing changed.")])
    return html.make_bundle(str(changes) or "(nothing changed)", page)


def make_history_bundle(history: RunHistory) -> html.Bundle:
    """The last runs as plain text and as HTML: a row for each, newest first, and below it what changed."""
    shown = (
        html.write_table(_HISTORY, map(_render_run, history.runs)) if history.runs else html.tag("div", repr(history))
    )
    return html.make_bundle(repr(history), html.wrap(shown))


def make_diff_bundle(diff: RunDiff) -> html.Bundle:
    """A comparison as plain text and as HTML.

    Both runs, the summary, a table of tasks, and what changed in texts, folded by sort.
    """
    sides = [html.tag("div", html.tag("strong", side), " ", html.faint(said)) for side, said in diff.sides]
    notes = [html.tag("div", f"! {note}") for note in diff.notes]
    table, folds = [], []
    if diff.lines:
        output, *pairs = filter(None, HEADS)
        columns = [
            html.Column("task", style=_NAME),
            html.Column("", style=_NARROW),
            html.Column(output, is_number=True, style=_NARROW),
            *(html.Column(head, is_number=True, style=_PAIR) for head in pairs),
        ]
        table = [html.write_table(columns, map(_render_line, diff.lines))]
    for title, changes in diff.list_parts():
        count = len(changes.changes)
        inner = [_render_change(change, is_open=count <= MOST_OPEN) for change in changes.changes]
        head = html.join(title, " ", html.faint(f"({pluralize(count, 'text')} changed)"))
        folds.append(html.fold(head, *inner, is_open=True))
    page = html.wrap(*sides, html.tag("div", diff.summary, style="margin:4px 0"), *notes, *table, *folds)
    return html.make_bundle(repr(diff), page)


def _render_line(line: DiffLine) -> html.Line:
    name = html.tag("strong", line.name) if line.is_whole else line.name
    said = f"{line.sign} {line.status}"
    status = html.color(said, _COLORS[line.status]) if line.status in _COLORS else html.faint(said)
    output, *amounts = line.cells
    pairs = [
        html.join(html.tag("span", amount, style=_AMOUNT), " ", html.tag("span", difference, style=_DIFFERENCE))
        for amount, difference in zip(amounts[::2], amounts[1::2], strict=True)
    ]
    return html.Line(cells=[name, status, output, *pairs], depth=line.depth)


def _render_change(change: TextChange, *, is_open: bool) -> html.Html:
    return html.fold(_name(change), html.preformat(*map(render_words, change.pieces)), is_open=is_open)


def _name(change: TextChange) -> str:
    return change.where if change.status == "changed" else f"{change.where} ({change.status})"


def render_words(piece: Piece) -> html.Html:
    """A piece of a text, marked where it changed; not so the end of its last line."""
    if piece.mark not in _MARKS:
        return html.join(piece.text)
    element, style = _MARKS[piece.mark]
    words, rest = split_line_ends(piece.text)
    return html.join(html.tag(element, words, style=style), rest)


def _render_run(compared: ComparedRun) -> html.Line:
    """One of the last runs."""
    told, diff = compared.fold, compared.diff
    start = None if told.run is None else told.run.start_time
    began = "" if start is None else f"{format_moment(start)} {format_zone(start)}"
    who = html.join(html.tag("strong", told.name or "run"), " ", told.run_id[:8])
    amounts = map(html.stack, describe_amounts(compared))
    inputs = html.stack(f"{name}: {_shorten(value, LONGEST)}" for name, value in told.inputs.items())
    notes = [] if diff is None else [html.stack(_list_changes(diff))]
    return html.Line(cells=[who, name_status(told.status), began, *amounts, inputs], has_rule=True, notes=notes)


def _list_changes(diff: RunDiff) -> Iterator[str]:
    """What changed, in lines: how many tasks, then the first texts of each sort, then the sorts that are the same."""
    yield html.faint(f"since {diff.before.run_id[:8]}: {diff.task_summary}")
    for title, changes in diff.list_parts():
        for change in changes.changes[:MOST_CHANGES]:
            yield html.join(html.faint(f"{title}, {_name(change)}:"), " ", *_render_start(change))
        if (left := len(changes.changes) - MOST_CHANGES) > 0:
            yield html.faint(f"{title}: and {left} more")
    yield html.faint(diff.describe_rest())


def _render_start(change: TextChange) -> Iterator[str]:
    """The first of the words that changed, with those around each change."""
    left = LONGEST
    for piece in shorten_same(change.pieces, WORDS_AROUND):
        if left <= 0:
            yield " […]"
            return
        text = _shorten(piece.text, left)
        yield render_words(Piece(piece.mark, text))
        left -= len(text)


def _shorten(text: str, limit: int) -> str:
    """At most so many characters, on one line."""
    flat = text.replace("\n", " ")
    return flat if len(flat) <= limit else f"{flat[:limit]}…"
