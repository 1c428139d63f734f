"""Paths by which the spans of two runs are matched (T22): stable names from the outside in, never times or ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

RUN_PATH: Final = "/"

# Others go by their own name: of the task, tool, role, guardrail. That of a model call is its model, which may change.
_NAMES: Final = {
    SpanKind.TURN: "turn",
    SpanKind.LLM: "llm",
    SpanKind.ATTEMPT: "attempt",
    SpanKind.REVIEW: "review",
}


def find_paths(spans: Iterable[Span]) -> dict[str, str]:
    """The path of each span, by its id: names joined by ``/``. The second span of a path gets ``#2`` and so on.

    The order is that in which spans were planned, or began, inside their parent. The path of the run is ``/``.

    Args:
        spans: of one run, in order of first appearance.
    """
    paths: dict[str, str] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    taken: set[str] = set()
    for span in spans:
        if span.kind is SpanKind.RUN:
            path = RUN_PATH
        else:
            around = paths.get(span.enclosing_id or "", RUN_PATH)
            stem = ("" if around == RUN_PATH else f"{around}/") + _get_name(span)
            path = stem
            while path in taken or (path == stem and counts[stem]):
                counts[stem] += 1
                path = f"{stem}#{counts[stem]}"
            counts[stem] = max(1, counts[stem])
        taken.add(path)
        paths[span.span_id] = path
    return paths


def _get_name(span: Span) -> str:
    if span.kind is SpanKind.WAIT:
        return span.wait_kind or "wait"
    return _NAMES.get(span.kind, span.name)
