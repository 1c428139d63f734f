"""The items that are known before a run: those of given lists and tables, and of inputs (E53)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ensemble_notebook.domain.definitions.item_list import Items, NoListError, describe_count, list_items
from ensemble_notebook.domain.definitions.output_type import find_part
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_input_name, find_item_paths
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.errors import Problem, ValidationError

KnownItems = Mapping[int, Items]  # by index of the task that runs for them

NONE_KNOWN: KnownItems = MappingProxyType({})


def list_known_items(graph: Graph, values: Mapping[str, Any]) -> KnownItems:
    """List the items of the tasks whose source is no task; an input without a value is left out.

    Raises:
        ValidationError: inputs that are no lists, have too many items, or items without the fields that texts use.
    """
    found: dict[int, Items] = {}
    problems: list[Problem] = []
    for node in graph.tasks:
        source = node.task.for_each
        name = find_input_name(source) if isinstance(source, str) else None
        if isinstance(source, Items):
            found[node.index] = source
        elif name is not None and name in values:
            try:
                items = list_items(values[name])
            except NoListError as error:
                message = f"Task {node.name!r} runs for each item of the input {name!r}, which {error}."
                problems.append(Problem(message, node.task, "for_each"))
                continue
            found[node.index] = items
            problems += find_item_problems(node, items)
    if problems:
        raise ValidationError(problems)
    return found


def find_item_problems(node: TaskNode, items: Items) -> Iterator[Problem]:
    """Find what is wrong with the items of a task that are known: too many, or a field that none of them has."""
    if (fault := find_excess(node, items)) is not None:
        yield Problem(f"{fault} Raise it, or give fewer.", node.task, "for_each")
    for field in list_item_fields(node.task):
        for path in dict.fromkeys(find_item_paths(getattr(node.task, field))):
            faults = [_find_field_fault(each, path) for each in items] if path else []
            if faults and all(faults):
                message = f"Task {node.name!r} says {{item.{path}}}, and none of its items has that: {faults[0]}"
                yield Problem(message, node.task, field)


def list_item_fields(task: Task) -> tuple[str, ...]:
    """List the texts of a task that may speak of its item."""
    return ("description", "expected_output") if task.prompt is None else ("prompt", "description", "expected_output")


def find_excess(node: TaskNode, items: Items) -> str | None:
    """A sentence that says that a task has too many items; None if it has not."""
    limit = node.task.max_items
    if len(items) <= limit:
        return None
    return f"Task {node.name!r} would run for {describe_count(len(items))}, and its max_items is {limit:,}."


def _find_field_fault(item: Any, path: str) -> str | None:
    try:
        find_part(item, path)
    except LookupError as error:
        return str(error)
    return None
