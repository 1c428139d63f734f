"""The verdict on better texts as a notebook shows it: the sentence, the words that changed, every candidate (W178)."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.notebook.picture.diff_picture import render_words
from ensemble_notebook.notebook.picture.verdict_picture import draw_differences
from ensemble_notebook.trace.analysis.text_changes import TextChange

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.improving.improvement import Improvement
    from ensemble_notebook.ensemble.improving.text_search import Candidate

MOST_SHOWN: Final = 50
_COLUMNS: Final = (
    html.Column("candidate"),
    html.Column("of", is_number=True),
    html.Column("score", is_number=True),
    html.Column("first rows", is_number=True),
    html.Column("spent", is_number=True),
    html.Column("came to"),
)


def make_improvement_bundle(improvement: Improvement) -> html.Bundle:
    """The verdict as plain text, with the texts that changed, and as HTML."""
    before, changes = improvement.before, dict(improvement.changes)
    plain = [repr(improvement)]
    for place, text in changes.items():
        plain.append(f"{place}:\n{indent(mask(before[place]), '- ')}\n{indent(mask(text), '+ ')}")
    parts = [html.tag("div", html.tag("strong", repr(improvement)))]
    for place, text in changes.items():
        pieces = TextChange(place, mask(before[place]), mask(text)).pieces
        parts.append(html.tag("div", html.faint(place), style="margin-top:6px"))
        parts.append(html.preformat(*map(render_words, pieces)))
    if improvement.comparison is not None and improvement.comparison.interval is not None:
        parts.append(draw_differences(improvement.comparison))
    tried = improvement.tried
    shown = [*tried[: MOST_SHOWN // 2], *tried[-MOST_SHOWN // 2 :]] if len(tried) > MOST_SHOWN else [*tried]
    table = html.write_table(_COLUMNS, [html.Line(cells=[*_list_cells(each)]) for each in shown])
    left = html.faint(
        f"{len(tried) - len(shown):,} are left out here: .candidates has all" if len(tried) > len(shown) else ""
    )
    parts.append(html.fold(f"{len(tried) - 1} candidates", table, left, is_open=len(tried) > 1))
    return html.make_bundle("\n\n".join(plain), html.wrap(*parts))


def _list_cells(candidate: Candidate) -> Iterator[Any]:
    yield candidate.name
    yield "" if candidate.parent is None else f"{candidate.parent}"
    yield "" if candidate.score is None else f"{candidate.score:.2f}"
    first = (
        "" if candidate.first_score is None else f"{candidate.first_score:.2f}, was {candidate.parent_score or 0.0:.2f}"
    )
    yield first
    yield candidate.spent
    yield mask(f"{candidate.status}: {candidate.reason}" if candidate.reason else candidate.status)
