"""The graph of an ensemble as views show it (W32): who works on what, in which order, and what is handed over.

It is made of a plan, before anything runs; the trace adds what only a run knows, to the same nodes, so that a run fills
the picture of its plan. All of it is declared or recorded; nothing is concluded from times.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ensemble_notebook.domain.definitions.agent import split_model_name
from ensemble_notebook.domain.definitions.definition import PlainValue
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedTask
from ensemble_notebook.domain.planning.graph_layout import Edge, Layout, Node, lay_out
from ensemble_notebook.domain.planning.graph_ways import Place
from ensemble_notebook.domain.wording import pluralize

NodeKind = Literal["phase", "round", "task", "worker", "written", "review", "rows", "group"]
EdgeKind = Literal["context", "items", "order", "condition", "delegation", "loop", "round"]

MOST_NODES: Final = 300
"""More nodes than these are shown as groups."""

WIDTH: Final = 200
HEIGHT: Final = 78
HEADS: Final[Mapping[str, int]] = {"phase": 44, "round": 28, "rows": 44}
"""How high what stands above the content of a box is, where that is no node by itself: a name, and figures below it."""
HEAD_ROOM: Final = 44
"""Of the width of a head what is not its name."""
LETTER: Final = 8.5
"""How wide a letter of a name is, in pixels; those that fonts draw twice as wide count twice."""
LONGEST_HEAD: Final = 60

_OBJECT: Final = re.compile(r"(.+) \(\w+\)")
"""How `execution_plan.describe_llm` has a model that is an object."""

_ON_EDGES: Final = ("when", "until", "for_each")
"""Settings that edges tell."""

_ORDER: Final = ("delegation", "loop", "round", "context", "items", "condition", "order")
"""Of two edges between the same nodes the one that comes first is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A node, or a box around others.

    Attributes:
        key: unique, and the same in the plan and in all graphs of its runs: a path of names.
        parent: key of the box around it; it comes before.
        kind: what it is.
        title: what views call it.
        agent, model: who does it, and the name of the model; empty where nobody is declared.
        settings: how it was declared, in words; empty where that is as usual.
        count: how many it stands for, or will; None where it is one, or nobody knows yet.
        is_many: it is a task that runs for each item of a list, however many there are.
    """

    key: str
    parent: str | None
    kind: NodeKind
    title: str
    agent: str = ""
    model: str = ""
    settings: str = ""
    count: int | None = None
    is_many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEdge:
    """From one node to another, by their keys.

    Attributes:
        kind: an output that is read (``context``), one whose items are worked on (``items``), one that a condition
            tests (``condition``), one that only has to be there (``order``); work that is handed on (``delegation``);
            work that may be repeated (``loop``), and from a round of it to the next one (``round``).
        words: the condition, what became of the round, or what a manager asked; empty where there is nothing to say.
        answer: what a manager was answered; empty as long as it was not.
    """

    source: str
    target: str
    kind: EdgeKind
    words: str = ""
    answer: str = ""


@dataclass(slots=True)
class ShownGraph:
    """All nodes, boxes before what is in them, and the edges between them.

    Attributes:
        note: what a person must know of it: that it has groups in place of nodes.
    """

    nodes: dict[str, ShownNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], ShownEdge] = field(default_factory=dict)
    note: str = ""

    def add_node(self, node: ShownNode) -> None:
        """Add a node, unless it is there."""
        self.nodes.setdefault(node.key, node)

    def add_edge(self, source: str, target: str, kind: EdgeKind, words: str = "") -> None:
        """Add an edge between nodes that are there; of several between the same ones the most telling stays."""
        if source not in self.nodes or target not in self.nodes:
            return
        known = self.edges.get((source, target))
        if known is None:
            self.edges[source, target] = ShownEdge(source=source, target=target, kind=kind, words=words)
        else:
            first = min(kind, known.kind, key=_ORDER.index)
            self.edges[source, target] = replace(known, kind=first, words=known.words or words)

    def has_form_of(self, other: ShownGraph) -> bool:
        """Whether it has the same nodes in the same boxes, and the same edges, and so the same layout."""
        return self._list_form() == other._list_form()

    def _list_form(self) -> tuple[list[object], list[object]]:
        nodes = [(each.key, each.parent) for each in self.nodes.values()]
        return [*nodes], [(place, bool(each.words)) for place, each in self.edges.items()]

    def lay_out(self, earlier: Mapping[str, Place] | None = None) -> Layout:
        """Where all of it stands; see `graph_layout`."""
        places = {key: number for number, key in enumerate(self.nodes)}
        nodes = [
            Node(
                key=node.key,
                parent=None if node.parent is None else places[node.parent],
                width=_measure(node),
                height=HEADS.get(node.kind, HEIGHT),
                is_centred=node.kind in HEADS,
            )
            for node in self.nodes.values()
        ]
        edges = [
            # What a manager will ask has its room from the beginning on.
            Edge(
                places[each.source], places[each.target], bool(each.words) or self.nodes[each.target].kind == "written"
            )
            for each in self.edges.values()
        ]
        return lay_out(nodes, edges, earlier)


def _measure(node: ShownNode) -> int:
    """How wide a node is at least: a box as its name, which is never cut unless it is very long."""
    if node.kind not in HEADS:
        return WIDTH
    letters = sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in node.title)
    return max(WIDTH, HEAD_ROOM + round(LETTER * min(letters, LONGEST_HEAD)))


def name_model(described: str) -> str:
    """The name alone of a model in a plan: ``gpt-4o`` of ``openai:gpt-4o@URL`` and ``gpt-4o (ChatOpenAI)``."""
    if found := _OBJECT.fullmatch(described):
        return found[1]
    _, _, rest = described.partition(":")
    name = split_model_name(rest)[0] or described
    return re.split(r"[\\/]", name)[-1] if name.lower().endswith(".gguf") else name


def make_key(kind: str, name: str, scope: str = "") -> str:
    """The key of what is declared: ``task:draft`` of a task of the run, ``task:draft/task:check`` of one inside."""
    return f"{scope}/{kind}:{name}" if scope else f"{kind}:{name}"


def add_plan(graph: ShownGraph, plan: ExecutionPlan, scope: str = "") -> None:
    """Add what a plan has.

    Args:
        graph: to add to.
        plan: of the run, or of an ensemble that does a task.
        scope: key of that task; empty for the run.
    """
    for name in plan.phases:
        settings = plan.phase_settings.get(name, {})
        said = _join_settings({each: value for each, value in settings.items() if each not in (*_ON_EDGES, "review")})
        key = make_key("phase", name, scope)
        graph.add_node(ShownNode(key=key, parent=scope or None, kind="phase", title=name, settings=said))
    for task in plan.tasks:
        _add_task(graph, task, scope)
    keys = {task.name: make_key("task", task.name, scope) for task in plan.tasks}
    for task in plan.tasks:
        conditions = find_tested(task.when, task.depends_on)
        for name in dict.fromkeys((*task.context, *task.depends_on)):
            words = " or ".join(conditions.get(name, ()))
            kind: EdgeKind = "condition" if words else "order"
            kind = "context" if name in task.context else "items" if name == task.for_each else kind
            graph.add_edge(keys.get(name, ""), keys[task.name], kind, words)
    for name, after in plan.phases.items():
        _add_phase_edges(graph, plan, name, after, scope)


def _add_task(graph: ShownGraph, task: PlannedTask, scope: str) -> None:
    key = make_key("task", task.name, scope)
    graph.add_node(
        ShownNode(
            key=key,
            parent=(scope or None) if task.phase is None else make_key("phase", task.phase, scope),
            kind="task",
            title=_title(task),
            agent=task.agent,
            model=name_model(task.llm or ""),
            settings=_join_settings({name: value for name, value in task.settings.items() if name not in _ON_EDGES}),
            count=task.item_count,
            is_many=task.for_each is not None,
        )
    )
    for written in task.managed:
        inner = make_key("written", written.name, key)
        graph.add_node(ShownNode(key=inner, parent=key, kind="written", title=_title(written)))
        graph.add_edge(key, inner, "delegation")
    if task.nested is not None:
        add_plan(graph, task.nested, key)


def _title(task: PlannedTask) -> str:
    return task.name if task.is_named is not False else mask(task.description) or task.name


def find_tested(conditions: Iterable[str], names: Sequence[str]) -> dict[str, list[str]]:
    """By the task whose output it tests, each condition: it begins with the name of that task, and then has a test."""
    found: dict[str, list[str]] = {}
    longest_first = sorted(names, key=len, reverse=True)
    for words in conditions:
        for name in longest_first:
            if words.startswith((f"{name} ", f"{name}.")):
                found.setdefault(name, []).append(words.removeprefix(name).lstrip())
                break
    return found


def _add_phase_edges(graph: ShownGraph, plan: ExecutionPlan, name: str, after: Sequence[str], scope: str) -> None:
    key, settings = make_key("phase", name, scope), plan.phase_settings.get(name, {})
    when = str(settings.get("when", ""))
    sources = [task for task in plan.tasks if task.phase is not None and task.phase in after]
    tested = find_tested([when] if when else (), [task.name for task in sources])
    for source, words in tested.items():  # of several conditions all words stand at the first
        graph.add_edge(make_key("task", source, scope), key, "condition", " or ".join(words))
    told = {task.phase for task in sources if task.name in tested}
    for each in after:
        if each not in told:
            graph.add_edge(make_key("phase", each, scope), key, "order")
    if until := settings.get("until"):
        graph.add_edge(key, key, "loop", f"until {until}")
    if review := settings.get("review"):
        graph.add_edge(key, key, "loop", f"review {review}")
        add_review(
            graph, key, [make_key("task", task.name, scope) for task in plan.tasks if task.phase == name], str(review)
        )


def add_review(graph: ShownGraph, phase: str, tasks: Sequence[str], settings: str = "") -> None:
    """Add the review of a phase, which comes after its tasks."""
    key = f"{phase}/review"
    graph.add_node(ShownNode(key=key, parent=phase, kind="review", title="review", settings=settings))
    awaited = {edge.source for edge in graph.edges.values() if edge.target in tasks}
    for task in tasks:
        if task not in awaited:
            graph.add_edge(task, key, "context")


def _join_settings(settings: Mapping[str, PlainValue]) -> str:
    return ", ".join(f"{name} {value}".rstrip() for name, value in settings.items())


def fold_many(graph: ShownGraph, members: dict[str, str] | None = None, most: int = MOST_NODES) -> ShownGraph:
    """The same graph, or where it has too many nodes, one with boxes closed, and then with nodes put together.

    Those of the same agent, and of columns side by side, are put together, so that no edge goes back.

    Args:
        graph: all of it.
        members: is filled with the key of the node that stands for each node.
        most: so many nodes are shown each for itself.
    """
    stands = {} if members is None else members
    stands.update({key: key for key in graph.nodes})
    total = len(graph.nodes)
    if total <= most:
        return graph
    outermost: dict[str, str] = {}
    for key, node in graph.nodes.items():  # a box comes before what is in it
        outermost[key] = key if node.parent is None else outermost[node.parent]
    graph = _join(graph, outermost, stands)
    if len(graph.nodes) > most:
        graph = _join(graph, _find_groups(graph, most), stands)
    graph.note = f"{pluralize(total, 'node')}, shown as {pluralize(len(graph.nodes), 'group')}"
    return graph


def _find_groups(graph: ShownGraph, most: int) -> dict[str, str]:
    """By the key of each node that of its group."""
    columns = _find_columns(graph)
    roles = {key: node.agent or node.title if node.kind == "phase" else node.agent for key, node in graph.nodes.items()}
    for is_by_role in (True, False):
        step = 1
        while step <= max(columns.values()) + 1:
            groups = {key: f"group:{columns[key] // step}:{roles[key] if is_by_role else ''}" for key in graph.nodes}
            if len(set(groups.values())) <= most:
                return groups
            step *= 2
    return dict.fromkeys(graph.nodes, "group:0:")


def _find_columns(graph: ShownGraph) -> dict[str, int]:
    """How many nodes come before each, one after the other; what is in a cycle counts once."""
    before: dict[str, list[str]] = {key: [] for key in graph.nodes}
    for source, target in graph.edges:
        before[target].append(source)
    columns: dict[str, int] = {}
    for key in graph.nodes:
        to_do = [key]
        seen = {key}
        while to_do:
            at = to_do[-1]
            missing = [each for each in before[at] if each not in columns and each not in seen]
            seen.update(missing)
            to_do += missing
            if not missing:
                to_do.pop()
                columns.setdefault(at, max((columns.get(each, -1) + 1 for each in before[at]), default=0))
    return columns


def _join(graph: ShownGraph, groups: Mapping[str, str], stands: dict[str, str]) -> ShownGraph:
    """One node for each group, with the edges between them."""
    inside: dict[str, list[ShownNode]] = {}
    for key, node in graph.nodes.items():
        inside.setdefault(groups[key], []).append(node)
    joined = ShownGraph()
    for group, nodes in inside.items():
        first = nodes[0]
        if len(nodes) == 1:
            joined.add_node(replace(first, key=group, parent=None))
            continue
        count = sum(each.count or 1 for each in nodes if each.kind not in HEADS)
        named = first.kind in HEADS or group == first.key
        title = first.title if named else first.agent or f"{first.title} …"
        joined.add_node(ShownNode(key=group, parent=None, kind="group", title=title, agent=first.agent, count=count))
    for source, target in graph.edges:
        if groups[source] != groups[target]:
            edge = graph.edges[source, target]
            joined.add_edge(groups[source], groups[target], edge.kind)
    for key, at in stands.items():
        stands[key] = groups[at]
    return joined
