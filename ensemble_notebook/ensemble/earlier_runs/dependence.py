"""What of a run depends on one of its spans, and so is done anew by a fork there (F2).

By what is given to whom, not by what it says: a reply is a new draw, even where it comes out equal. Knows spans and the
graph; nothing of answers or stores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.planning.delegation import add_team, build_team_graph
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.ensemble.ensemble_tool import find_ensemble
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

BEFORE: Final = "before the fork"
INDEPENDENT: Final = "does not depend on the fork"


class _MemoryUse(NamedTuple):
    """A task of a run, by its path there, reads or writes a scope of the memory; and at which event."""

    path: str
    scope: str
    is_written: bool
    seq: int


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
        self._paths: dict[str, list[Span]] = defaultdict(list)
        self._in_runs: dict[str | None, list[Span]] = defaultdict(list)  # the tasks of each run, those nested too
        for span in fold.spans.values():
            if (path := find_path(span)) is not None:
                self._paths[path].append(span)
                self._in_runs[span.nested_in].append(span)
        self._completed: dict[str, list[tuple[int, Span]]] = defaultdict(list)
        events = tuple(events)
        self._memory = _list_memory_uses(fold, events)
        retried: dict[str, list[int]] = defaultdict(list)  # by the span of a phase or task
        for event in events:
            if isinstance(event, ev.TaskCompleted):
                if (done := fold.spans.get(event.span_id)) is not None and (path := find_path(done)) is not None:
                    self._completed[path].append((event.seq, done))
            elif isinstance(event, ev.PhaseRetried | ev.TaskRetried) and event.seq > point.seq:
                retried[event.span_id].append(event.seq)
        self._retried = [(fold.spans[each], seq) for each, seqs in retried.items() for seq in seqs]
        # Of the run, and of each nested one around the point whose graph is known, by the span of that.
        self._plans: dict[str | None, _PlannedRun] = {}
        known: Graph | None = graph
        for each in reversed(self._chain.values()):
            if each.kind is SpanKind.NESTED:
                known = None if known is None else self._find_nested_graph(each, known)
            if known is not None and (each.kind is SpanKind.NESTED or (each.nested_in is None and not self._plans)):
                place = each.span_id if each.kind is SpanKind.NESTED else None
                self._plans[place] = self._follow_plan(place, known)

    def find_task(self, path: str) -> Span | None:
        """The span of a task by its path, as a `KeptTask` has it; of several, the last."""
        return self._paths[path][-1] if path in self._paths else None

    def is_clear(self, path: str) -> bool:
        """Whether only one task is found by this path: functions may run an ensemble, phases ask a reviewer, again."""
        return len(self._paths.get(path, ())) == 1

    def explain(self, span: Span) -> str | None:
        """Why a span is kept, in words; None where it is done anew."""
        if span.end_seq is not None and span.end_seq < self.point.seq:
            return BEFORE
        return None if self._depends(span, span.seq) else INDEPENDENT

    def explain_result(self, path: str, number: int) -> str | None:
        """Why the result of a task is kept; None where it is not.

        Args:
            path: of the task, as a `KeptTask` has it.
            number: of the result, from 0, since a task may be done several times.
        """
        if not (ends := self._completed.get(path)):
            return None
        seq, span = ends[min(number, len(ends) - 1)]
        if seq < self.point.seq:
            return BEFORE
        return None if self._depends(span, seq) else INDEPENDENT

    def _depends(self, span: Span, seq: int) -> bool:
        """Whether what a span did at an event depends on the point; it did not end before that."""
        around = list_around(span)
        at = next(at for at, each in enumerate(around) if each.span_id in self._chain)
        common = around[at]
        inner = self._inner[common.span_id]  # towards the point
        if inner is None or common is span:  # it is within the point, or around it
            return True
        other = around[at - 1]
        match common.kind:
            case SpanKind.RUN | SpanKind.PHASE | SpanKind.NESTED:
                place = common.span_id if common.kind is SpanKind.NESTED else common.nested_in
                if (plan := self._plans.get(place)) is not None:
                    return plan.depends(span, place, seq)
            case SpanKind.TURN:
                return other.kind is SpanKind.LLM or inner.kind is SpanKind.LLM
            case SpanKind.TASK if common.item_count is not None and other.item_of is not None:
                # Items know nothing of each other, until they are sent back as a whole.
                again = [seq for span, seq in self._retried if span is common or span is common.parent]
                return any(self.point.seq < each < other.seq for each in again)
        return inner.end_seq is None or other.seq > inner.end_seq

    def _find_nested_graph(self, nested: Span, around: Graph) -> Graph | None:
        """The graph of a nested run, where its ensemble is that of a task or of a tool; None where code runs it."""
        parent = nested.parent
        task = next((each for each in list_around(nested) if each.kind is SpanKind.TASK), None)
        if parent is None or task is None or task.delegation_id is not None:
            return None
        name = task.item_of or task.name
        node = next(
            (each for each in around.tasks if (each.name, around.get_phase_name(each)) == (name, find_phase(task))),
            None,
        )
        if node is None:
            return None
        if parent.kind is SpanKind.TASK:
            inner: Any = node.task.ensemble
            return None if node.nested is None else add_team(inner, node.nested)
        tools = (*node.task.tools, *(() if node.agent is None else node.agent.tools))
        tool = next((each for each in tools if getattr(each, "name", None) == parent.tool), None)
        ensemble = find_ensemble(tool)
        return None if ensemble is None else build_team_graph(ensemble)

    def _follow_plan(self, place: str | None, graph: Graph) -> _PlannedRun:
        """What depends on the point among the tasks of a run, that of a nested one by its span."""
        inside = [each for each in self._chain.values() if each.kind is SpanKind.TASK and each.nested_in == place]
        task = next(each for each in inside if each.delegation_id is None and each.item_of is None)
        retried = [(span.name, seq) for span, seq in self._retried if _is_phase_in(span, place)]
        return _PlannedRun(graph, self._in_runs[place], retried, self._memory.get(place, ()), task, self.point.seq)


class _PlannedRun:
    """The tasks of a run that depend on one of them, each from an event on: that may be a later round of its phase.

    Args:
        graph: of the run.
        spans: of its tasks.
        retried: the phases that were sent back after the point, and when.
        memory: how its tasks used it.
        task: with the point in it.
        start: number of the event at which the point begins.
    """

    def __init__(
        self,
        graph: Graph,
        spans: Iterable[Span],
        retried: Sequence[tuple[str, int]],
        memory: Sequence[_MemoryUse],
        task: Span,
        start: int,
    ) -> None:
        self._graph = graph
        self._memory = memory
        self._spans = {make_task_path(each.name, find_phase(each)): each for each in spans}
        self._from: dict[str, int] = {make_task_path(task.name, find_phase(task)): start}
        paths = {node.index: make_task_path(node.name, graph.get_phase_name(node)) for node in graph.tasks}
        nodes = {paths[node.index]: node for node in graph.tasks}
        readers = self._list_readers()
        to_follow = [*self._from]
        while to_follow:
            path = to_follow.pop()
            since, source = self._from[path], nodes.get(path)
            if source is None:  # it reviews a phase
                found = [
                    (paths[each], seq) for name, seq in retried if seq > since for each in self._list_tasks(name, task)
                ]
            else:
                found = [(paths[each], since) for each in readers[source.index]]
                found += self._list_remembering(source, path, since)
                found += self._list_sent_back(source, retried, since, paths).items()
            for reader, seq in found:
                if seq < self._from.get(reader, seq + 1):
                    self._from[reader] = seq
                    to_follow.append(reader)

    def depends(self, span: Span, place: str | None, seq: int) -> bool:
        """Whether what a span did at an event depends on the point.

        Args:
            span: of another task of this run, or somewhere in one; or of the review of a phase.
            place: the span of this run, where it is a nested one.
            seq: number of the event.
        """
        inside = [each for each in list_around(span) if each.kind is SpanKind.TASK and each.nested_in == place]
        task = next((each for each in inside if each.delegation_id is None and each.item_of is None), None)
        since = None if task is None else self._from.get(make_task_path(task.name, find_phase(task)))
        if since is None and (task is None or task.parent is None or task.parent.kind is SpanKind.REVIEW):
            reviewed = [since for path, since in self._from.items() if self._get_phase(path) == find_phase(span)]
            since = min(reviewed, default=None)  # somebody looks at a phase
        return since is not None and seq >= since

    def _get_phase(self, path: str) -> str | None:
        span = self._spans.get(path)
        return None if span is None else find_phase(span)

    def _list_tasks(self, phase: str, task: Span) -> Sequence[int]:
        """The tasks of the phase that a task reviews."""
        return next((each.tasks for each in self._graph.phases if each.name == phase == find_phase(task)), ())

    def _list_readers(self) -> Mapping[int, Sequence[int]]:
        """By the index of each task, those that are given something of it."""
        graph, readers = self._graph, defaultdict[int, list[int]](list)
        for node in graph.tasks:
            opens = () if node.phase is None else graph.phases[node.phase].when
            read = {*node.context, *node.sources, *(graph.conditions[at].source for at in opens)}
            for each in read if node.item_source is None else {*read, node.item_source}:
                readers[each].append(node.index)
        return readers

    def _list_remembering(self, source: TaskNode, path: str, since: int) -> Iterator[tuple[str, int]]:
        """The tasks that read what another one has written into a memory since an event, or would have; each from when.

        Args:
            source: the other one.
            path: of that.
            since: number of the event.
        """
        span = self._spans.get(path)
        for scope in source.task.memory:
            end = since if span is None or span.end_seq is None else max(since, span.end_seq)  # where it has failed
            uses = [each for each in self._memory if each.scope == scope and each.seq > since]
            written = next((each.seq for each in uses if each.is_written and each.path == path), end)
            yield from ((each.path, each.seq) for each in uses if not each.is_written and each.seq > written)

    def _list_sent_back(
        self, source: TaskNode, retried: Sequence[tuple[str, int]], since: int, paths: Mapping[int, str]
    ) -> Mapping[str, int]:
        """What a phase does once more, for what it had made of a task: from when on that depends on the task."""
        if source.phase is None:
            return {}
        phase = self._graph.phases[source.phase]
        if phase.until and all(self._graph.conditions[each].source != source.index for each in phase.until):
            return {}
        seq = min((seq for name, seq in retried if name == phase.name and seq > since), default=None)
        return {} if seq is None else {paths[each]: seq for each in phase.tasks}


def _list_memory_uses(fold: TraceFold, events: Iterable[ev.Event]) -> Mapping[str | None, Sequence[_MemoryUse]]:
    """How the tasks of each run used its memory, in order; those of a nested one by its span."""
    found = defaultdict[str | None, list[_MemoryUse]](list)
    for event in events:
        if isinstance(event, ev.MemoryStarted) and (used := fold.spans.get(event.span_id)) is not None:
            around = (each for each in list_around(used) if each.kind is SpanKind.TASK and each.item_of is None)
            task = next(each for each in around if each.delegation_id is None)
            path = make_task_path(task.name, find_phase(task))
            found[task.nested_in].append(_MemoryUse(path, event.scope, event.operation == "store", event.seq))
    return found


def _is_phase_in(span: Span, place: str | None) -> bool:
    """Whether a span is a phase of the run itself, or of the nested one of this span."""
    return span.kind is SpanKind.PHASE and span.nested_in == place


def list_around(span: Span) -> list[Span]:
    """A span, and those that it is in, the innermost first."""
    found = [span]
    while (parent := found[-1].parent) is not None:
        found.append(parent)
    return found


def find_phase(span: Span) -> str | None:
    """The phase of its own run that a span is in: what is in a nested run is in none of the run around that."""
    if span.nested_in is None:
        return span.phase
    around = (each for each in list_around(span) if each.kind is SpanKind.PHASE or each.span_id == span.nested_in)
    found = next(around, None)
    return found.name if found is not None and found.kind is SpanKind.PHASE else None


def find_path(span: Span) -> str | None:
    """What a task is kept under: that of a nested run below the task around it; None for what is no task."""
    if span.kind is not SpanKind.TASK or span.delegation_id is not None:
        return None
    return _find_prefix(span) + make_task_path(span.name, find_phase(span))


def _find_prefix(span: Span) -> str:
    """What stands before the paths of the run that a span is in: the tasks and nested runs around it."""
    if span.nested_in is None:
        return ""
    run = next(each for each in list_around(span) if each.span_id == span.nested_in)
    around = next((each for each in list_around(run) if each.kind is SpanKind.TASK), None)
    return f"{run.name}/" if around is None else f"{_find_prefix(around)}{around.name}/{run.name}/"
