"""The part of a graph that a run with ``only`` needs: one task and what it depends on (C34)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ensemble_notebook.domain.planning.graph import Graph, TaskNode


@dataclass(frozen=True, slots=True)
class GraphPart:
    """The tasks that take part in a run; all others are skipped."""

    task: int
    name: str
    tasks: frozenset[int]


def take_part(graph: Graph, node: TaskNode) -> GraphPart:
    """The part of a graph that a run of this one task takes."""
    found = {node.index}
    to_follow = [node]
    while to_follow:
        for index in _list_sources(graph, to_follow.pop()):
            if index not in found:
                found.add(index)
                to_follow.append(graph.tasks[index])
    return GraphPart(node.index, node.name, frozenset(found))


def _list_sources(graph: Graph, node: TaskNode) -> Iterator[int]:
    yield from node.context
    yield from node.sources
    if node.item_source is not None:
        yield node.item_source
    if node.phase is not None:
        for number in graph.phases[node.phase].when:
            yield graph.conditions[number].source
