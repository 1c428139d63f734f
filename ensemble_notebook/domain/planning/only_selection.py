"""What ``only`` selects: one task of a run, and those that it builds on."""

from __future__ import annotations

from dataclasses import dataclass

from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.errors import ValidationError, did_you_mean


@dataclass(frozen=True, slots=True)
class GraphPart:
    """The tasks that take part in a run; all others are skipped."""

    task: int
    name: str
    tasks: frozenset[int]


def find_part(graph: Graph, only: Task | str | None, *, said_with: str = "only") -> GraphPart | None:
    """The part of a graph that a run of ``only`` takes; None for all of it.

    Args:
        graph: of the ensemble.
        only: the task, or its name.
        said_with: the argument that names it to users; of a fork it is ``until``.

    Raises:
        ValidationError: there is no such task, or it does not run by itself.
    """
    if only is None:
        return None
    wanted = only if isinstance(only, str) else only.name
    for node in graph.tasks:
        if node.task is only or only in (node.name, f"{graph.get_phase_name(node)}.{node.name}"):
            return take_part(graph, node)
    if graph.managed:
        raise ValidationError(f"{said_with} is for tasks that run by themselves: here a manager has all of them done.")
    if wanted is None or not isinstance(only, str):
        raise ValidationError(f"{said_with}={only!r} is no task of this ensemble.")
    names = tuple(node.name for node in graph.tasks)
    near = did_you_mean(wanted, names)
    raise ValidationError(f"{said_with}: no task {wanted!r}.{near} The tasks are {', '.join(names)}.")


def take_part(graph: Graph, node: TaskNode) -> GraphPart:
    """The part of a graph that a run of this one task takes."""
    found = {node.index}
    to_follow = [node]
    while to_follow:
        each = to_follow.pop()
        items = () if each.item_source is None else (each.item_source,)
        opens = () if each.phase is None else graph.phases[each.phase].when
        for index in (*each.context, *each.sources, *items, *(graph.conditions[number].source for number in opens)):
            if index not in found:
                found.add(index)
                to_follow.append(graph.tasks[index])
    return GraphPart(node.index, node.name, frozenset(found))
