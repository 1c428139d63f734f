"""What a check has found, as a table (C120): what holds, what does not and why, and the span that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ensemble_notebook.errors import make_readable
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.trace.spans.span_kinds import DONE_COLOR, ERROR_COLOR

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.checking import CheckedExpectation, CheckReport

# One column for all that is said, so that a narrow page breaks its lines and not its words.
_COLUMNS: Final = (html.Column(""), html.Column("expected, and the span that shows it", style="white-space:normal"))


def make_check_bundle(report: CheckReport) -> html.Bundle:
    """The table as plain text and as HTML."""
    marks = {True: ("✓ holds", DONE_COLOR), False: ("✗ does not", ERROR_COLOR)}
    lines = [html.Line(cells=(html.color(*marks[each.holds]), _write_line(each))) for each in report.lines]
    title, note = html.tag("div", html.tag("strong", report.title)), report.note and html.tag("div", report.note)
    page = html.wrap(title, note, html.write_table(_COLUMNS, lines))
    told = [report.title, *filter(None, [report.note])]
    for each in report.lines:
        found = ", ".join(filter(None, [each.reason, each.span and f"shown by {each.span}"]))
        told.append(f"{marks[each.holds][0]}: {each.shown}{f' ({found})' if found else ''}")
    return html.make_bundle("\n".join(map(make_readable, told)), page)


def _write_line(checked: CheckedExpectation) -> html.Html:
    shown = html.join(html.tag("code", checked.shown), " ", html.faint(checked.span))
    return html.stack([shown, checked.reason])
