"""Cells for tests: read them, and say where a mistake must be by marking the place in the text with «...»."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from ensemble_notebook.cell.cell_reader import Cell, read_cell
from ensemble_notebook.cell.reading.mistakes import CellError, Mistake


def marked(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """The text without its marks, and (line, column, end_column) of each «place»."""
    places = []
    for number, line in enumerate(text.split("\n"), start=1):
        removed = 0
        for match in re.finditer("«([^»]*)»", line):
            column = match.start() - removed + 1
            places.append((number, column, column + max(len(match[1]), 1)))
            removed += 2
    return text.replace("«", "").replace("»", ""), places


def place(mistake: Mistake) -> tuple[int, int, int]:
    return mistake.line, mistake.column, mistake.end_column


def mistakes_of(text: str, namespace: Mapping[str, Any] | None = None, **options: Any) -> tuple[Mistake, ...]:
    """The mistakes of a cell that can't be read."""
    with pytest.raises(CellError) as caught:
        read_cell(text, {} if namespace is None else namespace, **options)
    return caught.value.mistakes


def assert_mistakes(text: str, *patterns: str, namespace: Mapping[str, Any] | None = None, **options: Any) -> None:
    """A cell has exactly the marked mistakes, in order, with these messages, and each has a line of help (C10)."""
    plain, places = marked(text)
    found = mistakes_of(plain, namespace, **options)
    assert [place(each) for each in found] == places, [(place(each), each.message) for each in found]
    for each, pattern in zip(found, patterns, strict=True):
        assert re.search(pattern, each.message), each.message
        assert each.hint


def read(text: str, namespace: Mapping[str, Any] | None = None, **options: Any) -> Cell:
    """A cell without a mistake."""
    return read_cell(text, {} if namespace is None else namespace, **options)


def links(cell: Cell) -> dict[str, tuple[str, ...]]:
    """What each task reads, by name."""
    return {node.name: cell.graph.get_context_names(node) for node in cell.graph.tasks}


class Echo:
    """Something with the face of a chat model."""

    async def ainvoke(self, messages: Any, config: Any = None) -> Any:
        return messages
