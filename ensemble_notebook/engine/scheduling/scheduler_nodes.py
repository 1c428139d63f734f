"""The tasks and phases of a run, as the scheduler sees them: what they wait for, and what became of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.planning.graph import Graph


class NodeState(Enum):
    """The state of a node. The last four are final, unless a phase is sent back.

    ``PASSED_OVER``: skipped since a condition was not met, which is no failure for those that depend on it.
    """

    HELD = auto()
    READY = auto()
    RUNNING = auto()
    AWAITING_REVIEW = auto()
    IN_REVIEW = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    SKIPPED = auto()
    PASSED_OVER = auto()


UNSTARTED: Final = (NodeState.HELD, NodeState.READY)
RESOLVED: Final = (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.SKIPPED, NodeState.PASSED_OVER)
MISSED: Final = (NodeState.FAILED, NodeState.SKIPPED)


class NodeGroup:
    """Nodes that open together and share an error strategy: the body of a phase, or the run as a whole.

    Attributes:
        owner: the phase; None for the run.
        unresolved_count: how many of its nodes are not.
        has_failed: a node failed, or was skipped for a failure elsewhere.
        failure_text: why nothing in it starts any more after a failure (FAIL_FAST); None where that is not so.
        is_cut_short: a node did not come to its end because nothing was to start any more, or everything was to stop.
    """

    __slots__ = ("failure_text", "has_failed", "is_cut_short", "nodes", "owner", "strategy", "unresolved_count")

    def __init__(self, owner: SchedulerNode | None, strategy: ErrorStrategy) -> None:
        self.owner = owner
        self.strategy = strategy
        self.nodes: list[SchedulerNode] = []
        self.unresolved_count = 0
        self.has_failed = False
        self.is_cut_short = False
        self.failure_text: str | None = None


class SchedulerNode:
    """A task, or a phase.

    Attributes:
        body: the tasks of a phase; None for a task.
        has_review: a phase that is reviewed.
        needs: what it depends on.
        item_source: the one of these for whose items it runs, without which there is nothing to do; None for most.
        wanted_places: how many of its items wait for a place, while it runs.
        conditions: its conditions by number, each with the node that must have succeeded for it to hold.
        own_conditions: numbers of the conditions on its own output.
        hold_count: how many nodes still hold it until they are resolved, its group included.
        readers: nodes of its group that can't do without it.
        followers: nodes of its group that only wait for it.
    """

    __slots__ = (
        "body",
        "conditions",
        "followers",
        "group",
        "has_review",
        "hold_count",
        "index",
        "item_source",
        "name",
        "needs",
        "own_conditions",
        "readers",
        "state",
        "wanted_places",
    )

    def __init__(self, index: int, name: str, group: NodeGroup) -> None:
        self.index = index
        self.name = name
        self.group = group
        self.body: NodeGroup | None = None
        self.has_review = False
        self.needs: tuple[SchedulerNode, ...] = ()
        self.item_source: SchedulerNode | None = None
        self.wanted_places = 0
        self.conditions: tuple[tuple[int, SchedulerNode], ...] = ()
        self.own_conditions: tuple[int, ...] = ()
        self.hold_count = 1
        self.readers: Sequence[SchedulerNode] = ()
        self.followers: Sequence[SchedulerNode] = ()
        self.state = NodeState.HELD
        group.nodes.append(self)
        group.unresolved_count += 1

    @property
    def outcome(self) -> str:
        """What became of a node that did not succeed."""
        return "failed" if self.state is NodeState.FAILED else "was skipped"

    @property
    def named_outcome(self) -> str:
        """The same, with its name."""
        return f"{self.name!r}, which {self.outcome}"


def find_dependents(nodes: Iterable[SchedulerNode]) -> list[SchedulerNode]:
    """Find these nodes of a group and all of it that depend on them, directly or through others, in order.

    A node depends on what it needs and on what its conditions test; what merely comes after it in a list does not.
    """
    found = set(nodes)
    to_follow = list(found)
    while to_follow:
        each = to_follow.pop()
        for other in (*each.readers, *each.followers):
            if other not in found and (each in other.needs or any(each is source for _, source in other.conditions)):
                found.add(other)
                to_follow.append(other)
    return sorted(found, key=lambda node: node.index)


def hold_again(nodes: Iterable[SchedulerNode]) -> None:
    """Let nodes of one group wait once more for their group and for each other; all else is resolved."""
    again = set(nodes)
    for node in again:
        node.state = NodeState.HELD
        node.hold_count = 1
    for node in again:
        for other in (*node.readers, *node.followers):
            if other in again:
                other.hold_count += 1


def get_body(phase: SchedulerNode) -> NodeGroup:
    """The tasks of a phase."""
    assert phase.body is not None
    return phase.body


class NodeTable:
    """The nodes of one graph, each linked with those that it waits for.

    Attributes:
        root: the group of the whole run: its phases, or its tasks where it has none.
        phases: by index.
        tasks: by index.
    """

    __slots__ = ("phases", "root", "tasks")

    def __init__(self, graph: Graph, strategy: ErrorStrategy) -> None:
        # Phases that don't depend on a failed one always go on (E26), whatever the strategy of the tasks is.
        self.root = NodeGroup(None, ErrorStrategy.CONTINUE_ON_ERROR if graph.phases else strategy)
        self.phases = tuple([SchedulerNode(phase.index, phase.name, self.root) for phase in graph.phases])
        for node in self.phases:
            node.body = NodeGroup(node, strategy)
        self.tasks: list[SchedulerNode] = []
        for task in graph.tasks:
            group = self.root if task.phase is None else get_body(self.phases[task.phase])
            self.tasks.append(SchedulerNode(task.index, task.name, group))
        self._link_tasks(graph)
        self._link_phases(graph)
        for condition in graph.conditions:
            self.tasks[condition.source].own_conditions += (condition.index,)

    def unlink(self) -> None:
        """Let nodes know no others any more, so that they are freed without the garbage collector."""
        self.root.nodes.clear()
        for node in (*self.phases, *self.tasks):
            node.needs, node.item_source, node.conditions = (), None, ()
            if node.body is not None:
                node.body.owner = None
                node.body.nodes.clear()

    def list_left_out(self, taking_part: Collection[int]) -> Iterator[SchedulerNode]:
        """The tasks that take no part, and the phases none of whose tasks does."""
        for task in self.tasks:
            if task.index not in taking_part:
                yield task
        for phase in self.phases:
            if all(task.index not in taking_part for task in get_body(phase).nodes):
                yield phase

    def _link_tasks(self, graph: Graph) -> None:
        for task in graph.tasks:
            node = self.tasks[task.index]
            node.needs = tuple([self.tasks[index] for index in task.context])
            if task.item_source is not None:
                node.item_source = self.tasks[task.item_source]
                node.needs = tuple(dict.fromkeys((*node.needs, node.item_source)))
            if task.when:
                sources = [self.tasks[graph.conditions[number].source] for number in task.when]
                node.conditions = tuple(zip(task.when, sources, strict=True))
            _add_holds(node, () if task.after is None else (self.tasks[task.after],))

    def _link_phases(self, graph: Graph) -> None:
        for phase in graph.phases:
            node = self.phases[phase.index]
            node.has_review = phase.phase.review is not None
            node.needs = tuple(self.phases[index] for index in phase.after)
            owners = (self.tasks[graph.conditions[number].source].group.owner for number in phase.when)
            node.conditions = tuple((number, owner) for number, owner in zip(phase.when, owners, strict=True) if owner)
            _add_holds(node, ())


def _add_holds(node: SchedulerNode, after: Iterable[SchedulerNode]) -> None:
    """Let a node wait for all that it depends on in its own group, and for what it merely comes after."""
    is_partial = node.group.strategy is ErrorStrategy.PARTIAL
    sources = dict.fromkeys(source for _, source in node.conditions)
    for each in node.needs:
        if each.group is node.group:
            if is_partial:
                each.followers = _append(each.followers, node)
            else:
                each.readers = _append(each.readers, node)
            node.hold_count += 1
    for each in (*sources, *after):
        if each.group is node.group:
            each.followers = _append(each.followers, node)
            node.hold_count += 1


def _append(nodes: Sequence[SchedulerNode], node: SchedulerNode) -> list[SchedulerNode]:
    """A list with one more node; made for the first one, since most nodes hold no other."""
    if isinstance(nodes, list):
        nodes.append(node)
        return nodes
    return [node]
