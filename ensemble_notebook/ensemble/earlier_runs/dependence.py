"""What of a run depends on one of its spans, and so is done anew by a fork there (F2).

By what is given to whom, not by what it says: a reply is a new draw, even where it comes out equal. Knows spans and the
graph; nothing of answers or stores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

BEFORE: Final = "before the fork"
INDEPENDENT: Final = "does not depend on the fork"


class Dependence:
    """What a fork keeps of a run.

    Args:
        fold: of the run.
        events: of the run.
        graph: of its ensemble, as it is now.
        point: where the fork is.

    Attributes:
        point: as given.
        task: the task of the plan that the point is in.
    """

    def __init__(self, fold: TraceFold, events: Iterable[ev.Event], graph: Graph, point: Span) -> None:
        self.point = point
        self._chain = {each.span_id: each for each in list_around(point)}
        self._inner = dict(zip(self._chain, (None, *self._chain.values()), strict=False))  # the next one inwards
        self.task: Span = next(each for each in self._chain.values() if each.is_own_task and each.item_of is None)
        self._paths = {path: span for span in fold.spans.values() if (path := find_path(span)) is not None}
        self._completed: dict[str, list[int]] = defaultdict(list)
        retried: dict[str, int] = {}
        for event in events:
            if isinstance(event, ev.TaskCompleted):
                self._completed[event.span_id].append(event.seq)
            elif isinstance(event, ev.PhaseRetried) and event.phase is not None and event.seq > point.seq:
                retried.setdefault(event.phase, event.seq)
        self._dependents = frozenset(self._list_dependents(graph))
        # What a phase does once more, for what it had made of the point, depends on that.
        self._sent_back = {
            phase: seq
            for phase, seq in retried.items()
            if any(each.phase == phase and path in self._dependents for path, each in self._paths.items())
        }

    def find_task(self, path: str) -> Span | None:
        """The span of a task by its path, as a `KeptTask` has it."""
        return self._paths.get(path)

    def explain(self, span: Span) -> str | None:
        """Why a span is kept, in words; None where it is done anew."""
        if span.end_seq is not None and span.end_seq < self.point.seq:
            return BEFORE
        return None if self._depends(span) else INDEPENDENT

    def explain_result(self, path: str, number: int) -> str | None:
        """Why the result of a task is kept; None where it is not.

        Args:
            path: of the task, as a `KeptTask` has it.
            number: of the result, from 0, since a task may be done several times.
        """
        span = self._paths.get(path)
        if span is None or not (ends := self._completed[span.span_id]):
            return None
        seq = ends[min(number, len(ends) - 1)]
        if seq < self.point.seq:
            return BEFORE
        is_later_round = seq > self._sent_back.get(span.phase or "", seq)
        return None if is_later_round or self._depends(span) else INDEPENDENT

    def _depends(self, span: Span) -> bool:
        around = list_around(span)
        common = next(each for each in around if each.span_id in self._chain)
        inner = self._inner[common.span_id]  # towards the point
        if inner is None or common is span:  # it is within the point, or around it
            return True
        at = around.index(common) - 1
        other = around[at]
        match common.kind:
            case SpanKind.RUN | SpanKind.PHASE if common.nested_in is None:
                return self._depends_by_plan(span)
            case SpanKind.TURN:
                return other.kind is SpanKind.LLM or inner.kind is SpanKind.LLM
            case SpanKind.TASK if common.item_count is not None and other.item_of is not None:
                return False
        return inner.end_seq is None or other.seq > inner.end_seq

    def _depends_by_plan(self, span: Span) -> bool:
        """Whether a span of another task, or the review of a phase, depends on the task of the point."""
        task = next((each for each in list_around(span) if each.is_own_task and each.item_of is None), None)
        if task is None or not task.is_planned:  # somebody looks at a phase
            return any(each.phase == span.phase and path in self._dependents for path, each in self._paths.items())
        if find_path(task) in self._dependents:
            return True
        return span.seq > self._sent_back.get(task.phase or "", span.seq)

    def _list_dependents(self, graph: Graph) -> Iterator[str]:
        """The paths of the task of the point and of all that are given what it makes."""
        nodes = {make_task_path(node.name, graph.get_phase_name(node)): node for node in graph.tasks}
        found, to_follow = set[int](), []
        if (node := nodes.get(find_path(self.task) or "")) is not None:
            to_follow.append(node)
        while to_follow:
            source = to_follow.pop()
            found.add(source.index)
            for each in graph.tasks:
                opens = () if each.phase is None else graph.phases[each.phase].when
                read = {*each.context, *each.sources, each.item_source, *(graph.conditions[at].source for at in opens)}
                span = self._paths.get(make_task_path(each.name, graph.get_phase_name(each)))
                remembers = not set(each.task.memory).isdisjoint(source.task.memory)
                is_later = span is None or span.seq > self.point.seq
                if each.index not in found and (source.index in read or (remembers and is_later)):
                    to_follow.append(each)
        yield from (path for path, node in nodes.items() if node.index in found)
        yield find_path(self.task) or ""


def list_around(span: Span) -> list[Span]:
    """A span, and those that it is in, the innermost first."""
    found = [span]
    while (parent := found[-1].parent) is not None:
        found.append(parent)
    return found


def find_path(span: Span) -> str | None:
    """What a task is kept under: that of a nested run below the task around it; None for what is no task."""
    if span.kind is not SpanKind.TASK or span.delegation_id is not None:
        return None
    return _find_prefix(span) + make_task_path(span.name, span.phase)


def _find_prefix(span: Span) -> str:
    """What stands before the paths of the run that a span is in: the tasks and nested runs around it."""
    if span.nested_in is None:
        return ""
    run = next(each for each in list_around(span) if each.span_id == span.nested_in)
    around = next((each for each in list_around(run) if each.kind is SpanKind.TASK), None)
    return f"{run.name}/" if around is None else f"{_find_prefix(around)}{around.name}/{run.name}/"
