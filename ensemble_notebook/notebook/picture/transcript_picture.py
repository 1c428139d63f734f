"""A transcript as a chat, for a page (E115): who said what, tool calls folded, and how full the window was.

Reads well in light and dark and without styles. Every text is a text: nothing that a model says becomes markup, a link
or an image. Nothing in it runs, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.trace.analysis.transcript import Transcript
from ensemble_notebook.trace.messages.context_windows import SECTIONS, WindowUse
from ensemble_notebook.trace.messages.utterances import Utterance
from ensemble_notebook.trace.spans.span_kinds import TONE_COLORS

MOST_SHOWN: Final = 400
"""More utterances than these are in `.frame`."""
LONGEST_SHOWN: Final = 20_000
"""Characters of a text that are shown; `.frame` has all."""
LONGEST_OPEN: Final = 1_200
"""What is longer is folded, but for replies."""
LONGEST_BEGINNING: Final = 120
"""Characters of what is folded that stand in its title."""

SECTION_COLORS: Final = dict(
    zip(SECTIONS, ("#6c6ce6", "#2f9e57", "#0f97a0", "#b9801a", "#c05fa8", "#7b8088"), strict=True)
)
_BUBBLE: Final = "border-left:3px solid {color};padding:1px 0 1px 10px;margin:6px 0 6px {indent:g}em;max-width:62em"
_NOTE: Final = f"margin:10px 0 4px {{indent:g}}em;{html.BREAKS};{html.FAINT}"
_SAID: Final = f"margin:1px 0;white-space:pre-wrap;{html.BREAKS.partition(';')[2]}"
_COLORS: Final = {
    "assistant": TONE_COLORS["model"],
    "tool": TONE_COLORS["tool"],
    "review": TONE_COLORS["person"],
}
_FAINT_COLOR: Final = "rgba(128,128,128,0.45)"
_BAR: Final = "display:inline-flex;width:10em;height:8px;vertical-align:middle;background:rgba(128,128,128,0.18)"


def make_transcript_bundle(transcript: Transcript) -> html.Bundle:
    """A transcript as a log and as a chat."""
    windows = {each.call.span_id: each for each in transcript.windows}
    shown = transcript[:MOST_SHOWN]
    results = _find_results(shown)
    parts = [html.tag("div", f"! {note}") for note in transcript.notes]
    parts += [part for each in shown for part in _render(each, results, windows)]
    if (left := len(transcript) - len(shown)) > 0:
        parts.append(html.faint(f"and {pluralize(left, 'utterance')} more: .frame has all"))
    head = html.tag(
        "div", html.tag("strong", transcript.title), " ", html.faint(pluralize(len(transcript), "utterance"))
    )
    return html.make_bundle(transcript.write_log(MOST_SHOWN) or "(nothing was said)", html.wrap(head, *parts))


def _find_results(said: Sequence[Utterance]) -> Mapping[tuple[str, str], Utterance]:
    """The results of tool calls by task and call, which stand with what asked for them."""
    return {
        (each.task.span_id, each.span.tool_call_id): each
        for each in said
        if each.role == "tool" and each.task is not None and each.span.tool_call_id
    }


def _render(
    said: Utterance, results: Mapping[tuple[str, str], Utterance], windows: Mapping[str, WindowUse]
) -> Iterator[html.Html]:
    indent = 1.4 * said.depth
    if said.role == "note":
        yield html.tag("div", said.text, style=_NOTE.format(indent=indent))
        return
    task = "" if said.task is None else said.task.span_id
    if said.role == "tool" and results.get((task, said.span.tool_call_id or "")) is said:
        return  # folded into the reply that asks for it
    who = html.join(html.tag("strong", said.speaker), " ", html.faint(said.remark))
    inside = [*_render_text(said.text, is_folded=said.role in ("system", "user"))]
    if said.reasoning:
        inside.insert(0, html.fold("Reasoning, no part of the reply", html.tag("div", said.reasoning, style=_SAID)))
    for call in said.tool_calls:
        result = results.get((task, call.id))
        name = html.join("▪ ", html.tag("code", call.name), " ", html.faint(_begin(call.arguments)), " ")
        name = html.join(name, html.faint(result.remark if result else ""))
        texts = [*_render_text(call.arguments)]
        if result is not None:
            texts += [html.faint("gave"), *_render_text(result.text)]
        inside.append(html.fold(name, *texts))
    if (use := windows.get(said.span.span_id)) is not None and said.role == "assistant":
        inside.append(_render_window(use))
    style = _BUBBLE.format(color=_COLORS.get(said.role, _FAINT_COLOR), indent=indent)
    yield html.tag("div", html.tag("div", who), *inside, style=style)


def _begin(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_BEGINNING else f"{flat[:LONGEST_BEGINNING]}…"


def _render_text(text: str, *, is_folded: bool = False) -> Iterator[html.Html]:
    if not text:
        return
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}\n[{len(text) - LONGEST_SHOWN:,} more]"
    said = html.tag("div", shown, style=_SAID)
    if is_folded and len(text) > LONGEST_OPEN:
        yield html.fold(html.faint(f"{_begin(text)} ({len(text):,} characters)"), said)
    else:
        yield said


def _render_window(use: WindowUse) -> html.Html:
    """How full the window was, as a bar and in words."""
    whole = use.limit or use.tokens or 1
    pieces = [
        html.tag("span", style=f"width:{min(100.0, 100 * tokens / whole):.2f}%;background:{SECTION_COLORS[name]}")
        for name, tokens in use.sections.items()
        if tokens
    ]
    bar = html.tag("span", *pieces, style=_BAR, aria_hidden="true")
    return html.tag("div", bar, " ", html.faint(describe_window(use)), style="margin-top:2px")


def describe_window(use: WindowUse) -> str:
    """``1,204 of 128,000 tokens (1%): system ≈ 210, task ≈ 94``; what is an estimate has a mark."""
    if use.tokens is None:
        return "tokens unknown"
    said = f"{'' if use.is_counted else '≈ '}{use.tokens:,}"
    said += f" of {use.limit:,} tokens ({use.share:.0%})" if use.limit and use.share is not None else " tokens"
    parts = [f"{name} ≈ {tokens:,}" for name, tokens in use.sections.items() if tokens]
    return f"{said}: {', '.join(parts)}" if parts else said
