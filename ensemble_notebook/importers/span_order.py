"""The order in which spans that are all known can have begun and ended (T102), however their clocks differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ensemble_notebook.importers.foreign_span import ForeignSpan


def list_moments(spans: Iterable[ForeignSpan]) -> Iterable[tuple[ForeignSpan, bool]]:
    """Starts and ends in an order in which they can have happened: what is inside a span between its start and end."""
    known: dict[tuple[str, str], ForeignSpan] = {}
    for span in spans:
        known.setdefault((span.trace_id, span.span_id), span)
    inside: defaultdict[tuple[str, str] | None, list[ForeignSpan]] = defaultdict(list)
    for span in known.values():
        around = (span.trace_id, span.parent_id or "")
        inside[around if around in known and not _is_after(span, known[around], known) else None].append(span)
    for listed in inside.values():
        listed.sort(key=lambda each: each.start_ns)
    moments: list[tuple[int, int, ForeignSpan, bool]] = []
    seen = set[tuple[str, str]]()
    # A ring of parents has no top: each of its spans is begun with whatever is left.
    for first in (*inside[None], *known.values()):
        left: list[tuple[ForeignSpan, int, bool]] = [(first, first.start_ns, False)]
        while left:
            span, since_ns, is_end = left.pop()
            key = (span.trace_id, span.span_id)
            if is_end:
                moments.append((max(since_ns, span.end_ns or since_ns), len(moments), span, True))
            elif key not in seen:
                seen.add(key)
                began_ns = max(since_ns, span.start_ns)
                moments.append((began_ns, len(moments), span, False))
                if span.end_ns is not None:
                    left.append((span, began_ns, True))
                left += [(each, began_ns, False) for each in reversed(inside[key])]
    # An end never stands before the end of what is inside it, wherever their clocks differ.
    return [(span, is_end) for _, _, span, is_end in sorted(_raise_ends(moments), key=lambda each: each[:2])]


def _is_after(span: ForeignSpan, around: ForeignSpan, known: Mapping[tuple[str, str], ForeignSpan]) -> bool:
    """Whether a span begins after the end of a root, which some libraries go on to call the parent of what comes."""
    is_root = (around.trace_id, around.parent_id or "") not in known
    return around is span or (is_root and around.end_ns is not None and span.start_ns > around.end_ns)


def _raise_ends(moments: Sequence[tuple[int, int, ForeignSpan, bool]]) -> list[tuple[int, int, ForeignSpan, bool]]:
    latest: dict[tuple[str, str], int] = {}
    raised = []
    for at_ns, place, span, is_end in moments:
        key, around = (span.trace_id, span.span_id), (span.trace_id, span.parent_id or "")
        at_ns = max(at_ns, latest.get(key, at_ns)) if is_end else at_ns
        latest[around] = max(latest.get(around, at_ns), at_ns)
        raised.append((at_ns, place, span, is_end))
    return raised
