"""What led from one span to another: outputs that were read, work that was handed on, tries that followed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.planning.managed_work import find_told, title_written
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.timeline_wording import UNKNOWN_WORKER

LinkKind = Literal["context", "dependency", "delegation", "delegation_return", "retry", "fallback"]


@dataclass(frozen=True, slots=True)
class Link:
    """From one span to another one.

    Attributes:
        text: what was handed over; None where nothing was.
        author: the task that wrote the text; None where it was a request.
        tokens: of the text, where a model wrote it and its provider counted.
    """

    kind: LinkKind
    source: Span
    target: Span
    text: str | None = None
    author: Span | None = None
    tokens: int | None = None

    @property
    def characters(self) -> int | None:
        """The length of the text that was handed over; None where nothing was."""
        return None if self.text is None else len(self.text)


def find_contexts(tasks: Iterable[Span]) -> Iterator[Link]:
    """Outputs that were read by later tasks."""
    known = list(tasks)
    by_name = {task.name: task for task in known if task.is_planned}
    for task in known:
        for name in task.context:
            if (source := by_name.get(name)) is not None and source.output is not None:
                yield Link("context", source, task, source.output, source)


def find_delegated(tasks: Iterable[Span]) -> Iterator[Link]:
    """Requests, from the call that made them to the worker's task, and what came back."""
    for work in tasks:
        asked = work.parent
        if asked is None or asked.kind is not SpanKind.DELEGATION or asked.parent is None:
            continue
        yield Link("delegation", asked.parent, work, asked.input)
        if asked.output is not None:
            yield Link("delegation_return", work, asked.parent, asked.output, work)


def find_links(spans: Iterable[Span]) -> Iterator[Link]:
    """The links between these spans, kind by kind, each in order of what it leads to."""
    ran = [span for span in spans if span.start_ms is not None]
    tasks = [span for span in ran if span.kind is SpanKind.TASK]
    tokens = _count_output_tokens(ran)

    def count(links: Iterable[Link]) -> Iterator[Link]:
        return (
            each if each.author is None else replace(each, tokens=tokens.get(each.author.span_id)) for each in links
        )

    yield from count(find_contexts(tasks))
    yield from _find_waits(tasks)
    yield from _find_waits([span for span in ran if span.kind is SpanKind.PHASE])
    yield from count(find_delegated(tasks))
    beneath: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in ran:
        if span.kind in (SpanKind.ATTEMPT, SpanKind.TURN):
            beneath[span.parent_id].append(span)
    for siblings in beneath.values():
        for before, after in pairwise(siblings):
            if after.kind is SpanKind.ATTEMPT:
                yield Link("retry", before, after)
            elif after.is_fallback and not before.is_fallback:
                yield Link("fallback", before, after)


def _count_output_tokens(ran: Iterable[Span]) -> dict[str | None, int | None]:
    """Tokens of the outputs of tasks, by id; of those that are the last reply of a model."""
    last = {span.task_id: span for span in ran if span.kind is SpanKind.LLM and span.status is SpanStatus.OK}
    tokens = {}
    for task_id, call in last.items():
        task: Span | None = call
        while task is not None and task.kind is not SpanKind.TASK:
            task = task.parent
        if task is not None and call.totals is not None and task.output == call.output:
            written, reasoning = call.totals.output_tokens, call.totals.reasoning_tokens
            tokens[task_id] = None if written is None else written - (reasoning or 0)
    return tokens


def _find_waits(nodes: list[Span]) -> Iterator[Link]:
    """Between tasks, or between phases."""
    by_name = {
        node.name: node for node in nodes if node.is_planned or (node.kind is SpanKind.PHASE and node.nested_in is None)
    }
    for node in nodes:
        for name in node.depends_on:
            if name in by_name and name not in node.context:  # what was read is a link of its own
                yield Link("dependency", by_name[name], node)


def list_work(manager: Span) -> list[dict[str, Any]] | None:
    """What stands below a manager, in order: the written tasks by time, then what else was handed on, by worker (W27).

    Each has a ``title``; ``span_id`` of the task that a worker did, or of a delegation that was refused; ``agent``, who
    did it; and ``note``, in words, why there is no work to be seen. None for what manages nothing.
    """
    if not manager.managed and not manager.handed_on:
        return None
    told: dict[str, list[Span]] = {task.name: [] for task in manager.managed}
    others: dict[str, list[dict[str, Any]]] = {}
    for each in manager.handed_on:
        found = find_told(each.input, manager.managed)
        if found and each.worker is not None:
            for task in found:
                told[task.name].append(each)
        elif each.worker is not None:
            title, worker_id = each.worker.title or each.worker.name, each.worker.span_id
            others.setdefault(each.name, []).append({"title": title, "span_id": worker_id, "agent": each.name})
        elif each.status is SpanStatus.ERROR:
            note = f"refused: {each.reason or each.error_message or 'no reason'}"
            others.setdefault(each.name, []).append({"title": each.name, "span_id": each.span_id, "note": note})
    return [*_list_written(manager, told), *(item for group in others.values() for item in group)]


def _list_written(manager: Span, told: Mapping[str, Sequence[Span]]) -> list[dict[str, Any]]:
    """The tasks as they were written, each with the delegations that were told of it."""
    written: list[dict[str, Any]] = []
    begun: dict[str, float] = {}
    for task in manager.managed:
        title = title_written(task)
        for each in told[task.name]:
            if each.worker is not None:
                written.append({"title": title, "span_id": each.worker.span_id, "agent": each.name})
                begun[each.worker.span_id] = each.start_ms or 0.0
        if not told[task.name]:
            note = {} if manager.end_ms is None else {"note": UNKNOWN_WORKER}
            written.append({"title": title, **note})
    written.sort(key=lambda item: begun.get(item.get("span_id", ""), math.inf))
    shown: set[str] = set()
    for item in written:  # a text may quote several tasks: the work stands below the first of them
        if item.get("span_id") in shown:
            item["note"] = f"done by {item['agent']}, with another one"
            del item["span_id"]
        shown.add(item.get("span_id", ""))
    return written
