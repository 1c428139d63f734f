"""What led from one span to another: outputs that were read, work that was handed over, tries that followed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.span_tree import Handover, find_contexts, find_delegated
from ensemble_notebook.trace.tables.table import Column, Table, mark_known

LinkKind = Literal["context", "dependency", "delegation", "delegation_return", "retry", "fallback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From one span to another one.

    Attributes:
        text: what was handed over; None where nothing was.
        tokens: of the text, where a model wrote it and its provider counted.
    """

    kind: LinkKind
    source: Span
    target: Span
    text: str | None = None
    tokens: int | None = None

    @property
    def characters(self) -> int | None:
        """The length of the text that was handed over; None where nothing was."""
        return None if self.text is None else len(self.text)


LINKS: Final = Table(
    "link between two spans that ran: context (an output was read), dependency (one waited for the other without "
    "reading it), delegation (from the tool call to the worker's task), delegation_return (back), retry (from an "
    "attempt to the next one) or fallback (from the last turn of an agent to the first one of its substitute)",
    None,
    (
        *mark_known(
            (
                Column("kind", "category", "as above"),
                Column("src_name", "category", "name of the span where it begins", "source.name"),
                Column("dst_name", "category", "name of the span where it ends", "target.name"),
            )
        ),
        Column("characters", "Int64", "length of the text that was handed over; NA where there was none"),
        Column("tokens", "Int64", "of that text, where a model wrote it and its provider counted"),
        Column("src", "string", "span_id of where it begins", "source.span_id", is_nullable=False),
        Column("dst", "string", "span_id of where it ends", "target.span_id", is_nullable=False),
    ),
)


def find_links(spans: list[Span]) -> Iterator[Link]:
    """The links between these spans, kind by kind, each in order of what it leads to."""
    ran = [span for span in spans if span.start_ms is not None]
    tasks = [span for span in ran if span.kind is SpanKind.TASK]
    tokens = _count_output_tokens(ran)
    yield from _to_links(find_contexts(tasks), tokens)
    yield from _find_waits(tasks)
    yield from _find_waits([span for span in ran if span.kind is SpanKind.PHASE])
    yield from _to_links(find_delegated(tasks), tokens)
    yield from _find_retries(ran)


def _count_output_tokens(ran: list[Span]) -> dict[str, int | None]:
    """Tokens of the outputs of tasks, by id; of those that are the last reply of a model."""
    last = {span.task_id: span for span in ran if span.kind is SpanKind.LLM and span.status is SpanStatus.OK}
    tokens = {}
    for task_id, call in last.items():
        totals, task = call.totals, _find_task(call)
        if task_id is not None and task is not None and totals is not None and task.output == call.output:
            output_tokens = totals.output_tokens
            tokens[task_id] = None if output_tokens is None else output_tokens - (totals.reasoning_tokens or 0)
    return tokens


def _find_task(span: Span) -> Span | None:
    around: Span | None = span
    while around is not None and around.kind is not SpanKind.TASK:
        around = around.parent
    return around


def _find_waits(nodes: list[Span]) -> Iterator[Link]:
    """Between tasks, or between phases."""
    by_name = {
        node.name: node for node in nodes if node.is_planned or (node.kind is SpanKind.PHASE and node.nested_in is None)
    }
    for node in nodes:
        for name in node.depends_on:
            if name in by_name and name not in node.context:
                yield Link(kind="dependency", source=by_name[name], target=node)


def _to_links(handovers: Iterable[Handover], tokens: dict[str, int | None]) -> Iterator[Link]:
    for each in handovers:
        size = None if each.author is None else tokens.get(each.author.span_id)
        yield Link(kind=each.kind, source=each.source, target=each.target, text=each.text, tokens=size)


def _find_retries(ran: list[Span]) -> Iterator[Link]:
    beneath: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in ran:
        if span.kind in (SpanKind.ATTEMPT, SpanKind.TURN):
            beneath[span.parent_id].append(span)
    for siblings in beneath.values():
        for before, after in pairwise(siblings):
            if after.kind is SpanKind.ATTEMPT:
                yield Link(kind="retry", source=before, target=after)
            elif after.is_fallback and not before.is_fallback:
                yield Link(kind="fallback", source=before, target=after)
