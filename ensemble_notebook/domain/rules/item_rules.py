"""The rules of tasks that run for each item: where items can come from, and what their texts can say (E53)."""

from __future__ import annotations

from collections.abc import Iterator

from ensemble_notebook.domain.definitions.item_list import Items
from ensemble_notebook.domain.definitions.output_field import find_field_fault, find_list_fields
from ensemble_notebook.domain.definitions.templates import find_item_paths, find_variables
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.domain.planning.known_items import find_item_problems
from ensemble_notebook.errors import Problem


def find_for_each_problems(graph: Graph) -> Iterator[Problem]:
    """Find sources that can give no items, fields that no item has, and reviewers that would run several times."""
    for node in graph.tasks:
        if isinstance(node.task.for_each, Items):
            yield from find_item_problems(node, node.task.for_each)
        elif node.item_source is not None:
            yield from _find_source_problems(node, graph.tasks[node.item_source])
    for phase in graph.phases:
        if phase.reviewer is not None and phase.reviewer.task.for_each is not None:
            message = f"The reviewer of phase {phase.name!r} has a for_each; a review is one answer. Leave it out."
            yield Problem(message, phase.reviewer.task, "for_each")


def _find_source_problems(node: TaskNode, source: TaskNode) -> Iterator[Problem]:
    output_type = source.task.output_type
    if output_type is None:
        return
    label = f"Task {node.name!r} runs for each item of {source.name!r}"
    if source.task.for_each is not None:  # its output is the list of what its items put out
        item_type = output_type
    else:
        fields = find_list_fields(output_type)
        if fields is None:
            return
        if len(fields) != 1:
            found = f"has the lists {', '.join(fields)}" if fields else "has no field that holds a list"
            message = f"{label}, whose output_type {found}: it must have exactly one."
            yield Problem(message, node.task, "for_each")
            return
        item_type = next(iter(fields.values()))
    for field in ("description", "expected_output"):
        for path in dict.fromkeys(find_item_paths(getattr(node.task, field))):
            if path and (fault := find_field_fault(item_type, path, output_type)) is not None:
                message = f"{label} and says {{item.{path}}}: {fault.replace('its output type', 'an item', 1)}"
                yield Problem(message, node.task, field)


def find_item_warnings(graph: Graph) -> Iterator[str]:
    """Find texts that say the same for each item, and texts that speak of an item where there is none."""
    for node in graph.tasks:
        texts = (node.task.description, node.task.expected_output)
        has_item = any(True for text in texts for _ in find_item_paths(text))
        if node.task.for_each is not None and node.agent is not None and not has_item:
            yield (
                f"Task {node.name!r} runs for each item, and its texts say {{item}} nowhere: "
                f"its agent is asked the same each time."
            )
        elif node.task.for_each is None:
            paths = [path for text in texts for path in find_item_paths(text) if path]
            if paths and not any(name == "item" for text in texts for name in find_variables(text)):
                yield (
                    f"Task {node.name!r} says {{item.{paths[0]}}} and has no for_each, so it stays as it is. "
                    f"Give it a for_each, and it runs for each item."
                )
