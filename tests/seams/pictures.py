"""What holds of a run wherever it was begun: its spans and messages, without times, ids and what is around it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from typing import Final

from ensemble_notebook import ExecutionTrace
from ensemble_notebook.trace.spans.span import Span

_FOREIGN: Final = re.compile(
    r".*(_id|_ms|_time|seq|tok_per_s)|position|version|depth|lane|critical|nested_in|parent|returns|sent_back|worker|handed_on|inactive_intervals|waits|"
    r"totals|attempt_totals|is_planned|child_error|open_children|own_totals|row"
)
"""The fields of a span that tell of the moment, or of the run around it."""
_FIELDS: Final = tuple(each.name for each in fields(Span) if not _FOREIGN.fullmatch(each.name))
PLANNED: Final = ("depends_on", "context", "settings", "managed")
"""What a run inside a task does not tell there."""
AROUND: Final = ("task", "agent", "iteration")
"""What those inside a task have of it, too, where no task of their own does."""
_ID: Final = re.compile(r"\b[0-9a-f]{12}\b")


def list_spans(trace: ExecutionTrace, part: str | None = None, *, is_inside: bool = False) -> list[str]:
    """The spans of the ensemble as sorted lines: where each is, and what it says.

    Args:
        trace: of the run.
        part: the name of the task in which it ran, in a larger run.
        is_inside: whether it is told as such a run tells it: without its plan, and what never began.
    """
    root = trace.spans[0]
    if part is not None:
        root = next(each for each in trace.spans if each.kind == "task" and each.name == part)
        runs = (each for each in trace.spans if each.kind == "nested" and _find_task(each) is root)
        root = next(runs, root)
    return sorted(
        _describe(each, root, (*PLANNED, *(AROUND if each.kind in ("phase", "review") else ())) if is_inside else ())
        for each in trace.spans
        if root in list(_spans_up(each))
        and each.kind != "wait"  # these depend on the moment
        and not (is_inside and each.status == "skipped")
    )


def _spans_up(span: Span) -> Iterator[Span]:
    at = span.parent
    while at is not None:
        yield at
        at = at.parent


def _find_task(span: Span) -> Span | None:
    return next((each for each in _spans_up(span) if each.kind == "task"), None)


def _describe(span: Span, root: Span, without: Collection[str]) -> str:
    path = [span.name]
    for each in _spans_up(span):
        if each is root:
            break
        path.append(each.name)
    told = {name: getattr(span, name) for name in _FIELDS if name not in without}
    kept = {name: value for name, value in (span.attributes or {}).items() if not _FOREIGN.fullmatch(name)}
    told["attributes"] = {name: value for name, value in kept.items() if name not in without}
    text = json.dumps({name: value for name, value in told.items() if value not in (None, (), {}, False)}, default=str)
    return _ID.sub("ID", f"{' < '.join(path)}: {text}")
