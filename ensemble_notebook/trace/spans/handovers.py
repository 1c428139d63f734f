"""Texts that went from one span to another: as context, as a request for work, as the answer to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

HandoverKind = Literal["context", "delegation", "delegation_return"]


@dataclass(frozen=True, slots=True)
class Handover:
    """From one span to another one.

    Attributes:
        author: the task that wrote the text; None where it was a request.
    """

    kind: HandoverKind
    source: Span
    target: Span
    text: str | None
    author: Span | None = None


def find_contexts(tasks: Iterable[Span]) -> Iterator[Handover]:
    """Outputs that were read by later tasks."""
    known = list(tasks)
    by_name = {task.name: task for task in known if task.is_planned}
    for task in known:
        for name in task.context:
            if (source := by_name.get(name)) is not None and source.output is not None:
                yield Handover("context", source, task, source.output, source)


def find_delegated(tasks: Iterable[Span]) -> Iterator[Handover]:
    """Requests, from the call that made them to the worker's task, and what came back."""
    for work in tasks:
        asked = work.parent
        if asked is None or asked.kind is not SpanKind.DELEGATION or asked.parent is None:
            continue
        yield Handover("delegation", asked.parent, work, asked.input)
        if asked.output is not None:
            yield Handover("delegation_return", work, asked.parent, asked.output, work)
