"""Agents in the constraints on a manager: keys of the cell as roles, each with its place (E25).

Whether there is such a role, and whether the constraints can be met, is the definitions' to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ensemble_notebook.cell.binding.definition_builder import DefinitionBuilder
from ensemble_notebook.cell.language.cell_schema import Key
from ensemble_notebook.cell.reading.sections import Section
from ensemble_notebook.cell.text.mistakes import MistakeReport, quote
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode
from ensemble_notebook.domain.definitions.hierarchy import normalize_role


class RoleBinder:
    """Binds the kinds of values that name agents as workers.

    Args:
        find_role: gives the role that a name in the cell means.
        builder: is told the places.
        report: gets the mistakes.
    """

    def __init__(
        self, find_role: Callable[[ScalarNode], str], definition_builder: DefinitionBuilder, report: MistakeReport
    ) -> None:
        self._find_role, self._definition_builder, self._report = find_role, definition_builder, report

    def bind_roles(self, section: Section, key: Key, value: list[ScalarNode]) -> tuple[str, ...]:
        """Bind a list of names as a list of roles."""
        found = list(self._drop_repeated(key.name, value))
        self._definition_builder.note_item_places(
            section, key.name, {item: node.place for item, (_, node) in enumerate(found)}
        )
        return tuple(role for role, _ in found)

    def bind_caps(self, section: Section, key: Key, value: list[tuple[ScalarNode, Any]]) -> dict[str, Any]:
        """Bind a mapping of names to numbers as one of roles to numbers."""
        numbers = {id(node): number for node, number in value}
        found = list(self._drop_repeated(key.name, [node for node, _ in value]))
        self._definition_builder.note_item_places(section, key.name, {role: node.place for role, node in found})
        return {role: numbers[id(node)] for role, node in found}

    def bind_stages(self, section: Section, key: Key, value: list[list[ScalarNode]]) -> tuple[tuple[str, ...], ...]:
        """Bind a list of lists of names as stages of roles."""
        found = [list(self._drop_repeated(key.name, stage)) for stage in value]
        self._definition_builder.note_item_places(
            section, key.name, {role: node.place for stage in found for role, node in stage}
        )
        return tuple(tuple(role for role, _ in stage) for stage in found)

    def _drop_repeated(self, name: str, nodes: Iterable[ScalarNode]) -> Iterator[tuple[str, ScalarNode]]:
        """Yield each role with its node; report an agent that is named twice, by its key and by its role."""
        seen: dict[str, ScalarNode] = {}
        for node in nodes:
            role = self._find_role(node)
            first = seen.setdefault(normalize_role(role), node)
            if first is node:
                yield role, node
                continue
            message = f"{quote(node.text)} and {quote(first.text)} in {name!r} are the same agent."
            self._report.add_mistake(node.place, message, "Remove one of them.")
