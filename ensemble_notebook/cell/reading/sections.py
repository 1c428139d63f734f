"""The sections of a cell: values by field, each with its place, before names are looked up and definitions made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ensemble_notebook.cell.reading.source_text import Place
from ensemble_notebook.cell.reading.yaml_nodes import ListNode, MappingNode, Node
from ensemble_notebook.cell.vocabulary import SectionSchema


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key and its value, where they stand."""

    key: Place
    value: Node


@dataclass(slots=True, eq=False)
class Section:
    """The cell, an agent, task or phase, or a part with keys of its own.

    Attributes:
        schema: what it is.
        label: how messages call it, e.g. ``agent 'Writer'``.
        place: its key, or its first line.
        name: what the rest of the cell calls it; None where it has no name.
        values: field -> value; names are nodes, members are sections. What could not be read is not in it.
        key_values: field -> key and value where it was written, unreadable ones included.
        has_unknown: True when a key could not be understood.
    """

    schema: SectionSchema
    label: str
    place: Place
    name: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    key_values: dict[str, KeyValue] = field(default_factory=dict)
    has_unknown: bool = False

    def find_place(self, name: str | None, item: int | str | None = None) -> Place:
        """Find where a field, or an item of it, stands; the place of the section if it is not written."""
        if name is None or name not in self.key_values:
            return self.place
        node = self.key_values[name].value
        if isinstance(node, ListNode):
            is_item = isinstance(item, int) and item < len(node.items)
            return node.items[int(item)].place if is_item and item is not None else node.place
        if isinstance(node, MappingNode):
            return self.find_key_places(name).get(str(item), self.key_values[name].key)
        return node.place

    def walk(self) -> Iterator[Section]:
        """Yield all sections in it, in the order of the text, each before those inside it."""
        for value in self.values.values():
            parts = value.sections if isinstance(value, TaskGroup) else value if isinstance(value, list) else [value]
            for part in parts:
                if isinstance(part, Section):
                    yield part
                    yield from part.walk()

    def find_key_places(self, name: str) -> dict[str, Place]:
        """Find where the keys of a field stand, if it is a mapping."""
        node = self.key_values[name].value if name in self.key_values else None
        return {key.text: key.place for key, _ in node.pairs} if isinstance(node, MappingNode) else {}


@dataclass(slots=True, eq=False)
class TaskGroup:
    """The tasks of a cell or phase; a list is a chain, a mapping a graph."""

    sections: list[Section]
    is_list: bool
