"""Replies of a call that was made again, for a page: a card for each, beside the one that the run had (F1).

A card has the words that changed, the tools that it asks for, and what it took. Nothing in it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.notebook.picture.diff_picture import render_words
from ensemble_notebook.trace.analysis.text_changes import TextChange
from ensemble_notebook.trace.spans.span_kinds import ERROR_COLOR

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.many_runs.rerun import Rerun

MOST_OPEN: Final = 10
"""More replies than this are folded one by one."""

MOST_SHOWN: Final = 100

_GRID: Final = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22em),1fr));gap:8px;margin-top:6px"
_CARD: Final = "border:1px solid rgba(128,128,128,0.35);border-radius:6px;padding:6px 10px;min-width:0"
_OWN: Final = f"{_CARD};border-style:dashed"


def make_rerun_bundle(rerun: Rerun) -> html.Bundle:
    """Replies as plain text and as HTML."""
    done = sum(each is not None for each in rerun.replies)
    count = pluralize(len(rerun), "reply") if done == len(rerun) else f"{done} of {len(rerun)} replies"
    changed = f", with {' and '.join(map(_name, rerun.changed))}" if rerun.changed else ", as it was"
    title = html.join(html.tag("strong", mask(rerun.name)), f" again{changed}: {count}")
    shown = min(len(rerun), MOST_SHOWN)
    cards = [*_render_own(rerun), *(_render_reply(rerun, number) for number in range(1, shown + 1))]
    notes = [html.tag("div", f"! {mask(each)}") for each in rerun.warnings]
    left = html.faint(f"and {len(rerun) - shown:,} more: .frame has all" if shown < len(rerun) else "")
    page = html.wrap(html.tag("div", title), *notes, html.tag("div", *cards, style=_GRID), left)
    return html.make_bundle(f"{rerun!r}\n{rerun.frame.to_string()}", page)


def _name(argument: str) -> str:
    words = {"llm": "another model", "messages": "other messages", "parameters": "other parameters"}
    return words.get(argument, f"another {argument.replace('_', ' ')}")


def _render_own(rerun: Rerun) -> Iterator[html.Html]:
    """The reply that the run had."""
    head = html.faint("the run's own reply" if rerun.before is not None else "the run had no reply")
    own = rerun.write_reply(0)
    yield html.tag("div", head, html.preformat(own or ""), style=_OWN)


def _render_reply(rerun: Rerun, number: int) -> html.Html:
    row = rerun.frame.loc[number].to_dict()
    title = html.join(html.tag("strong", f"{number}"), " ", html.faint(" · ".join(_list_amounts(rerun, row))))
    reply = rerun.replies[number - 1]
    if reply is None:
        body = html.tag("div", html.color(str(row["error"]), ERROR_COLOR))
    else:
        change = TextChange("reply", rerun.write_reply(0), rerun.write_reply(number) or "")
        is_same = change.before == change.after
        pieces = [] if is_same else change.pieces
        if any(each.mark == "same" and each.text.strip() for each in pieces):
            body = html.preformat(*map(render_words, pieces))
        else:  # all of it is new: marks would only be in the way
            body = html.preformat(change.after or "")
        body = html.join(body, html.faint("the same words") if is_same else "")
    if len(rerun) <= MOST_OPEN:
        return html.tag("div", title, body, style=_CARD)
    return html.tag("div", html.fold(title, body), style=_CARD)


def _list_amounts(rerun: Rerun, row: Mapping[Any, Any]) -> Iterator[str]:
    """What a reply took, and its scores, in words."""
    given = {name: value for name, value in row.items() if value is not None and value == value}
    if {"input_tokens", "output_tokens"} <= given.keys() and "error" not in given:
        yield f"{format_count(given['input_tokens'])} → {format_count(given['output_tokens'])} tokens"
    if "cost" in given and "error" not in given:
        yield format_money(given["cost"], rerun.result.metrics.currency)
    if "duration_ms" in given:
        yield format_duration(given["duration_ms"])
    for name in dict.fromkeys(each.name for each in rerun.score_records):
        if name in given:
            value = given[name]
            yield f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
