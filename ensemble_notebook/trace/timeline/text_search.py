"""Where words stand in the texts of a run (W28): the kernel searches what a page does not hold.

A text is found where it arose, and nowhere else: a prompt in its task, a reply in its model call, what a tool gave in
the call of the tool. What was handed on is not found again in everything that it was handed to, except in the prompt
that it became a part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import SpanKind

MOST_WORDS: Final = 12
MOST_SNIPPETS: Final = 200
BEFORE: Final = 24
AFTER: Final = 96
"""How many characters of a text stand before and after a word in a snippet: a narrow view shows only the beginning."""


def search_texts(fold: TraceFold, words: Sequence[str]) -> dict[str, Any]:
    """The spans in whose texts any of these words stand, each with the numbers of the words and a snippet.

    Words are parts of texts, upper and lower case alike. Only the first `MOST_SNIPPETS` spans have a snippet. May be
    called while the run goes on; the fold is held only while its texts are listed.

    Returns:
        ``words`` as they were asked for, ``n``, the number of the last event that was looked at, and ``spans``: for
        each the id, the numbers of the words in it, and a snippet or None.
    """
    wanted = [word.lower() for word in words[:MOST_WORDS]]
    with fold.lock:
        count = fold.count
        texts = list(_list_texts(fold))
    found: dict[str, tuple[set[int], str, dict[int, int]]] = {}
    for span_id, text in texts:
        lowered = text.lower()
        places = {number: place for number, word in enumerate(wanted) if (place := lowered.find(word)) >= 0}
        if places:  # of the texts of a span, the snippet is from that with most of the words
            numbers, best, most = found.get(span_id, (set(), "", {}))
            best, most = (text, places) if len(places) > len(most) else (best, most)
            found[span_id] = numbers | {*places}, best, most
    spans = []
    for place, (span_id, (numbers, text, places)) in enumerate(found.items()):
        first = min(places)
        snippet = cut_snippet(text, places[first], len(wanted[first])) if place < MOST_SNIPPETS else None
        spans.append([span_id, sorted(numbers), snippet])
    return {"kind": "found", "words": list(words), "n": count, "spans": spans}


def cut_snippet(text: str, place: int, length: int) -> str:
    """The words around a place in a text, in one line; where it goes on, there is an ellipsis."""
    start, end = max(0, place - BEFORE), min(len(text), place + length + AFTER)
    words = " ".join(text[start:end].split())
    return f"{'…' if start > 0 else ''}{words}{'…' if end < len(text) else ''}"


def _list_texts(fold: TraceFold) -> Iterator[tuple[str, str]]:
    """All texts of a run, each with the id of the span where it arose."""
    for span in (*fold.taken_over.values(), *fold.spans.values()):
        if not span.kind.traits.is_shown or span.kind is SpanKind.TURN:
            continue
        messages = fold.messages.get(span.span_id)
        # What a task gave is mostly what its model has said last.
        is_reply = messages is not None and messages[-1].role == "assistant" and messages[-1].text == span.output
        stream = fold.streams.get(span.span_id) if span.output is None else None
        written = None if stream is None else stream.read()
        for text in (span.input, None if is_reply else span.output, span.error_message, written):
            if text:
                yield span.span_id, text
    for task_id, messages in fold.messages.items():
        for message in messages:
            # What a model has said and a tool has given is the output of their spans.
            if message.role in ("system", "user") or message.is_earlier:
                yield task_id, message.text
            if message.reasoning:
                yield message.span.span_id, message.reasoning
