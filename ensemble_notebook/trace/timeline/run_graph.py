"""The graph of a run (W32): that of its plan, filled with the spans that did the work, and with what only a run knows.

Delegated work, the runs inside a task, items and rounds are nodes once they have begun. ``aggregated`` has one node for
a name, ``expanded`` one for each item, row and round. Nothing here asks for times: what comes after what was declared.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, Literal

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.planning.graph_layout import Layout
from ensemble_notebook.domain.planning.managed_work import find_told
from ensemble_notebook.domain.planning.shown_graph import (
    MOST_NODES,
    EdgeKind,
    NodeKind,
    ShownGraph,
    ShownNode,
    add_plan,
    add_review,
    fold_many,
    make_key,
)
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Round, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.table import Table
from ensemble_notebook.trace.tables.timeline_columns import GRAPH_EDGES, GRAPH_MEMBERS, GRAPH_NODES
from ensemble_notebook.trace.timeline.row_columns import pack_table, to_texts

Mode = Literal["aggregated", "expanded"]

_ROWS: Final = "rows"
_LONGEST: Final = 160
"""So much of what a manager asked, and was answered, stands on an edge."""
_ASIDE: Final = 0.001
"""Milliseconds by which the first go of a round may seem to begin before it: both are rounded."""


@dataclass(frozen=True, slots=True)
class GraphMember:
    """A span that a node stands for.

    Attributes:
        key: of the node.
        go: which go at its work, from 1; None for all of it.
    """

    span_id: str
    key: str
    go: int | None = None


@dataclass(slots=True)
class RunGraph:
    """A graph, and the spans behind it."""

    graph: ShownGraph
    members: list[GraphMember]


class GraphMemory:
    """Where the nodes of a run stood when it was last asked for, so that they stay there while it grows."""

    def __init__(self) -> None:
        self._known: dict[Mode, tuple[ShownGraph, Layout]] = {}
        self._lock = threading.Lock()

    def pack(self, graphs: Mapping[Mode, RunGraph]) -> dict[Mode, dict[str, Any]]:
        """Graphs of the run with where everything is: the columns of the tables of graphs, as texts."""
        with self._lock:
            for mode, made in graphs.items():
                known = self._known.get(mode)
                if known is None or not known[0].has_form_of(made.graph):
                    self._known[mode] = made.graph, made.graph.lay_out(known and known[1].inner)
            return {mode: _pack(made, self._known[mode][1]) for mode, made in graphs.items()}


def _pack(made: RunGraph, layout: Layout) -> dict[str, Any]:
    nodes, edges = made.graph.nodes, made.graph.edges
    numbers = {key: number for number, key in enumerate(nodes)}
    node_rows = [
        SimpleNamespace(node=node, parent=numbers.get(node.parent or ""), place=place)
        for node, place in zip(nodes.values(), layout.places, strict=True)
    ]
    edge_rows = [
        SimpleNamespace(edge=edge, source=numbers[edge.source], target=numbers[edge.target], way=way)
        for edge, way in zip(edges.values(), layout.ways, strict=True)
    ]
    member_rows = [SimpleNamespace(span_id=each.span_id, node=numbers[each.key], go=each.go) for each in made.members]
    return {
        "note": made.graph.note,
        "size": [layout.width, layout.height],
        "nodes": _pack_table(GRAPH_NODES, node_rows),
        "edges": _pack_table(GRAPH_EDGES, edge_rows),
        "members": _pack_table(GRAPH_MEMBERS, member_rows),
    }


def _pack_table(table: Table, rows: Sequence[Any]) -> dict[str, Any]:
    return {"count": len(rows), "columns": to_texts(pack_table(table, rows))}


def make_run_graph(fold: TraceFold, mode: Mode) -> RunGraph:
    """The graph of a run as it stands; of ``expanded`` no more than tells that it has too many nodes to be of use."""
    builder = _Builder(fold, is_expanded=mode == "expanded")
    builder.build()
    graph, stands = _sort_by_depth(builder.graph), dict[str, str]()
    if mode == "aggregated":
        graph = fold_many(graph, stands)
    members = [replace(each, key=stands.get(each.key, each.key)) for each in builder.members]
    counts = Counter(each.key for each in members if each.go is None)
    for key, node in graph.nodes.items():
        if node.kind != "review" and counts[key] > 1:
            graph.nodes[key] = replace(node, count=counts[key])
    return RunGraph(graph, members)


def make_run_graphs(fold: TraceFold) -> dict[Mode, RunGraph]:
    """Both, the second one where it is another one, and small enough to be looked at."""
    made: dict[Mode, RunGraph] = {"aggregated": make_run_graph(fold, "aggregated")}
    # There are items, rows or rounds, or work that was handed on.
    if fold.task_noun.is_run or any(
        span.sent_back or span.item_of is not None or span.delegation_id is not None
        for span in fold.spans.values()
        if span.kind in (SpanKind.TASK, SpanKind.PHASE)
    ):
        expanded = make_run_graph(fold, "expanded")
        if len(expanded.graph.nodes) <= MOST_NODES and [*expanded.graph.nodes] != [*made["aggregated"].graph.nodes]:
            made["expanded"] = expanded
    return made


def _sort_by_depth(graph: ShownGraph) -> ShownGraph:
    """The same with boxes before what is in them."""
    depths: dict[str, int] = {}

    def find_depth(key: str) -> int:
        if key not in depths:
            parent = graph.nodes[key].parent
            depths[key] = 0 if parent is None else find_depth(parent) + 1
        return depths[key]

    nodes = {key: graph.nodes[key] for key in sorted(graph.nodes, key=find_depth)}
    return ShownGraph(nodes=nodes, edges=graph.edges, note=graph.note)


class _Builder:
    """Goes over the spans in order of appearance, which has what is around before what is inside."""

    def __init__(self, fold: TraceFold, *, is_expanded: bool) -> None:
        self.graph: Final = ShownGraph()
        self.members: Final[list[GraphMember]] = []
        self._fold = fold
        self._is_expanded = is_expanded
        self._keys: dict[str, str] = {}
        self._scopes: dict[str, str] = {}
        self._rounds: dict[str, Sequence[Round]] = {}
        self._handed_on: Counter[str] = Counter()

    def build(self) -> None:
        plan = self._fold.plan
        if plan is not None and not self._fold.task_noun.is_run:
            add_plan(self.graph, plan)
        elif plan is not None and not self._is_expanded:
            self._add_rows_box()
            if plan.row_plan is not None:
                add_plan(self.graph, plan.row_plan, _ROWS)
        for span in self._fold.spans.values():
            if self._is_expanded and len(self.graph.nodes) > MOST_NODES:
                return
            match span.kind:
                case SpanKind.PHASE:
                    self._add_phase(span)
                case SpanKind.TASK:
                    self._add_task(span)
                case SpanKind.REVIEW:
                    self._add_phase_review(span)
                case SpanKind.DELEGATION:
                    self._add_refusal(span)
        self._repeat_edges()

    def _find_around(self, span: Span) -> tuple[Span | None, Span | None]:
        """The task or phase around a span, None where that is the run; and the delegation between them, if any."""
        delegation: Span | None = None
        around = span.parent
        while around is not None and around.span_id not in self._keys:
            if around.kind is SpanKind.DELEGATION and delegation is None:
                delegation = around
            around = around.parent
        return around, delegation

    def _add_phase(self, span: Span) -> None:
        around, _ = self._find_around(span)
        scope = "" if around is None else self._keys[around.span_id]
        key = make_key("phase", span.name, scope)
        self._add(key, scope or None, "phase", span)
        self._scopes[span.span_id] = scope
        for name in span.depends_on:
            self.graph.add_edge(make_key("phase", name, scope), key, "order")
        rounds = span.rounds
        if len(rounds) > 1 and self._is_expanded:
            self._rounds[span.span_id] = rounds
            self._add_rounds(key, rounds, "round")
        elif rounds:
            self.graph.add_edge(key, key, "loop")

    def _add_task(self, span: Span) -> None:
        around, delegation = self._find_around(span)
        if span.parent is not None and span.parent.kind is SpanKind.REVIEW:
            self._add_phase_review(span)
        elif span.item_of is not None and around is not None:
            self._keys[span.span_id] = box = self._keys[around.span_id]
            if self._is_expanded:  # else all of them are that task
                key = make_key("item", span.name, box)
                self._add(key, box, "task", span)
                self._add_drafts(span, key)
        elif delegation is not None and around is not None:
            self._add_worker(span, around, delegation)
        elif self._fold.task_noun.is_run and around is None:
            self._add_row(span)
        else:
            self._add_declared(span, around)

    def _add_declared(self, span: Span, around: Span | None) -> None:
        """A task of the plan, or of that of a run inside of one."""
        scope, parent = "", None
        if around is not None:
            parent = self._keys[around.span_id]
            scope = self._scopes[around.span_id] if around.kind is SpanKind.PHASE else parent
        key = make_key("task", span.name, scope)
        goes = self._rounds.get("" if around is None else around.span_id)
        if goes is not None and parent is not None:
            self._add_goes(span, key, parent, goes)
        else:
            self._add(key, parent, "task", span)
            if around is None or not around.rounds:  # what its phase does again is told there
                self._add_drafts(span, key)
        for name in (*span.context, *span.depends_on):
            kind: EdgeKind = "context" if name in span.context else "order"
            self.graph.add_edge(make_key("task", name, scope), key, kind)

    def _add_worker(self, span: Span, task: Span, delegation: Span) -> None:
        """Work that was handed on: a task as it was written, where the text tells which one, else that of a worker."""
        around = self._keys[task.span_id]
        told = find_told(delegation.input, task.managed)
        if told:
            key = make_key("written", told[0].name, around)
        else:
            key = make_key("worker", delegation.name, around)
            self._handed_on[key] += 1
            key = f"{key}#{self._handed_on[key]}" if self._is_expanded and self._handed_on[key] > 1 else key
        self._add(key, around, "worker", span)
        self.graph.add_edge(around, key, "delegation")
        if task.managed:
            self._say(around, key, delegation)

    def _say(self, manager: str, worker: str, delegation: Span) -> None:
        """Put on the edge what a manager asked last, and the answer."""
        words, answer = (" ".join((text or "")[:_LONGEST].split()) for text in (delegation.input, delegation.output))
        edge = self.graph.edges[manager, worker]
        self.graph.edges[manager, worker] = replace(edge, words=words, answer=answer)

    def _add_refusal(self, span: Span) -> None:
        """Work that nobody took on."""
        around, _ = self._find_around(span)
        if span.worker is not None or span.status is not SpanStatus.ERROR or around is None:
            return
        manager = self._keys[around.span_id]
        key = make_key("worker", span.name, manager)
        self._add(key, manager, "worker", span, is_around=False)
        self.graph.add_edge(manager, key, "delegation")
        if around.managed:
            self._say(manager, key, span)

    def _add_row(self, span: Span) -> None:
        """A row of a map, or one of several runs; all of them are one box, unless each is to be seen."""
        if self._is_expanded:
            key = make_key("task", span.name)
            self._add(key, None, "task", span)
            plan = self._fold.plan
            if span.start_ms is not None and plan is not None and plan.row_plan is not None:
                add_plan(self.graph, plan.row_plan, key)
            return
        self._add_rows_box()
        self._keys[span.span_id] = _ROWS
        self.members.append(GraphMember(span.span_id, _ROWS))

    def _add_rows_box(self) -> None:
        noun = pluralize(2, self._fold.task_noun.value).partition(" ")[2]
        self.graph.add_node(ShownNode(key=_ROWS, parent=None, kind="rows", title=noun))

    def _add_phase_review(self, span: Span) -> None:
        """The review of a phase, by a function or a task; that of a task shows in its node."""
        asked = span if span.kind is SpanKind.REVIEW else span.parent
        phase = None if asked is None else asked.parent
        if asked is None or phase is None or phase.kind is not SpanKind.PHASE or phase.span_id not in self._keys:
            return
        around = self._keys[phase.span_id]
        key = f"{around}/review"
        if key not in self.graph.nodes:
            add_review(self.graph, around, [each.key for each in self.graph.nodes.values() if each.parent == around])
        rounds = self._rounds.get(phase.span_id)
        if rounds is not None:
            number = _find_round(rounds, asked.start_ms)
            key = self._put_into_round(key, around, number)
        self._keys[span.span_id] = key
        self.members.append(GraphMember(span.span_id, key))

    def _add(self, key: str, parent: str | None, kind: NodeKind, span: Span, *, is_around: bool = True) -> None:
        """Add the node of a span, unless the plan has it."""
        title = span.title or span.name
        self.graph.add_node(ShownNode(key=key, parent=parent, kind=kind, title=title, agent=span.agent or ""))
        if is_around:
            self._keys[span.span_id] = key
        self.members.append(GraphMember(span.span_id, key))

    def _add_rounds(self, key: str, rounds: Sequence[Round], kind: NodeKind) -> None:
        """A box or a node for each round inside of what was repeated, one after the other."""
        word = "draft" if kind == "task" else "round"
        for number in range(1, len(rounds) + 1):
            node = ShownNode(key=f"{key}/{word}:{number}", parent=key, kind=kind, title=f"{word} {number}")
            self.graph.add_node(node)
            if number > 1:
                said = rounds[number - 2].verdict or ""
                self.graph.add_edge(f"{key}/{word}:{number - 1}", node.key, "round", said)
        self.graph.edges.pop((key, key), None)

    def _add_drafts(self, span: Span, key: str) -> None:
        """What was sent back: a loop, or each draft."""
        rounds = span.rounds
        if not rounds:
            return
        if not self._is_expanded:
            self.graph.add_edge(key, key, "loop")
            return
        self._add_rounds(key, rounds, "task")
        drafts = (GraphMember(span.span_id, f"{key}/draft:{go}", go) for go in range(1, len(rounds) + 1))
        self.members.extend(drafts)

    def _add_goes(self, span: Span, key: str, phase: str, rounds: Sequence[Round]) -> None:
        """A task of a phase that was repeated: a node in each round in which it ran."""
        self._add(key, phase, "task", span)
        self.members.pop()
        goes = span.rounds
        numbers = [_find_round(rounds, go.start_ms) for go in goes] or [_find_round(rounds, span.start_ms)]
        for go, number in enumerate(numbers, start=1):
            at = self._put_into_round(key, phase, number)
            self.members.append(GraphMember(span.span_id, at, go if goes else None))

    def _put_into_round(self, key: str, phase: str, number: int) -> str:
        """Have a node stand in a round of its phase; its key there."""
        node = self.graph.nodes[key]
        around = f"{phase}/round:{number}"
        if node.parent == phase:  # where it was planned
            self.graph.nodes[key] = replace(node, parent=around)
            return key
        if node.parent == around:
            return key
        again = f"{key}@{number}"
        self.graph.add_node(replace(node, key=again, parent=around))
        return again

    def _repeat_edges(self) -> None:
        """In each round what is between the same nodes in the first one."""
        numbers = range(2, max((len(rounds) for rounds in self._rounds.values()), default=0) + 1)
        for (source, target), edge in [*self.graph.edges.items()]:
            for number in numbers:
                self.graph.add_edge(f"{source}@{number}", f"{target}@{number}", edge.kind, edge.words)


def _find_round(rounds: Sequence[Round], start_ms: float | None) -> int:
    """In which round something began, from 1; what never did belongs to the last one."""
    if start_ms is None:
        return len(rounds)
    return max(1, sum(each.start_ms <= start_ms + _ASIDE for each in rounds))
