"""Questions about a task that an ensemble does, answered from the tasks inside it (E54)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ensemble_notebook.domain.definitions.enums import ReuseMode
from ensemble_notebook.domain.definitions.nested_ensemble import MAX_DEPTH, describe_ensemble
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import Graph, TaskNode

_SHOWN_ENDS: Final = 4


def walk_tasks(graph: Graph) -> Iterator[TaskNode]:
    """All tasks, each followed by those of the ensemble that does it."""
    for node in graph.all_tasks:
        yield node
        if node.nested is not None:
            yield from walk_tasks(node.nested)


def find_typed_task(node: TaskNode) -> Task:
    """Find the task whose output a task has: the final one of the ensemble that does it, or itself."""
    while node.nested is not None and len(last := find_final_tasks(node.nested)) == 1:
        node = node.nested.tasks[last[0]]
    return node.task


def is_never_reused(node: TaskNode) -> bool:
    """Whether a task, or any inside it, has side effects, so that it is always run (C34)."""
    inside = () if node.nested is None else node.nested.all_tasks
    return node.task.reuse is ReuseMode.NEVER or any(map(is_never_reused, inside))


def find_path_too_deep(node: TaskNode) -> tuple[str, ...] | None:
    """Find the names of the ensembles on a way through a task that goes deeper than runs may be nested."""
    if node.task.ensemble is None:
        return None
    name = describe_ensemble(node.task.ensemble)
    if node.nested is None:
        return (name,)
    inside = (find_path_too_deep(each) for each in node.nested.all_tasks)
    path = next((each for each in inside if each is not None), None)
    return None if path is None else (name, *path)


def describe_too_deep(path: tuple[str, ...]) -> str:
    """Say that ensembles are nested too deep, with the path."""
    shown = path if len(path) <= 2 * _SHOWN_ENDS else (*path[:_SHOWN_ENDS], "...", *path[-_SHOWN_ENDS:])
    return (
        f"Ensembles are nested deeper than {MAX_DEPTH}: {' -> '.join(shown)}. Does one of them reach itself, through a "
        f"tool or a name that was bound again?"
    )
