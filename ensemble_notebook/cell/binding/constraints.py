"""Agents in the constraints on a manager: keys of the cell as roles, each with its place (E25).

Whether there is such a role, and whether the constraints can be met, is the definitions' to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ensemble_notebook.cell.binding.definitions import Construction
from ensemble_notebook.cell.language.cell_schema import Key
from ensemble_notebook.cell.reading.drafts import Draft
from ensemble_notebook.cell.text.mistakes import Report, quoted
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode
from ensemble_notebook.domain.definitions.hierarchy import same_role


class Roles:
    """Binds the kinds of values that name agents as workers.

    Args:
        role_of: the role that a name in the cell means.
        construction: is told the places.
        report: gets the mistakes.
    """

    def __init__(self, role_of: Callable[[ScalarNode], str], construction: Construction, report: Report) -> None:
        self._role_of, self._construction, self._report = role_of, construction, report

    def listed(self, draft: Draft, key: Key, value: list[ScalarNode]) -> tuple[str, ...]:
        """A list of roles."""
        found = list(self._once(key.name, value))
        self._construction.place_items(draft, key.name, {item: node.place for item, (_, node) in enumerate(found)})
        return tuple(role for role, _ in found)

    def capped(self, draft: Draft, key: Key, value: list[tuple[ScalarNode, Any]]) -> dict[str, Any]:
        """Roles with their numbers."""
        numbers = {id(node): number for node, number in value}
        found = list(self._once(key.name, [node for node, _ in value]))
        self._construction.place_items(draft, key.name, {role: node.place for role, node in found})
        return {role: numbers[id(node)] for role, node in found}

    def staged(self, draft: Draft, key: Key, value: list[list[ScalarNode]]) -> tuple[tuple[str, ...], ...]:
        """Stages of roles."""
        found = [list(self._once(key.name, stage)) for stage in value]
        self._construction.place_items(draft, key.name, {role: node.place for stage in found for role, node in stage})
        return tuple(tuple(role for role, _ in stage) for stage in found)

    def _once(self, name: str, nodes: Iterable[ScalarNode]) -> Iterator[tuple[str, ScalarNode]]:
        """Each role with where it stands; one that stands twice, by its key and its role, is reported."""
        seen: dict[str, ScalarNode] = {}
        for node in nodes:
            role = self._role_of(node)
            first = seen.setdefault(same_role(role), node)
            if first is node:
                yield role, node
                continue
            message = f"{quoted(node.text)} and {quoted(first.text)} in {name!r} are the same agent."
            self._report.mistake(node.place, message, "Remove one of them.")
