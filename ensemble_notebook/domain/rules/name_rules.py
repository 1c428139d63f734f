"""Names that people could not tell from each other (E71)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.errors import Problem

# Letters and marks that show as nothing, beside the characters of the categories below.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Co", "Cn"})
_SPACE: Final = re.compile(r"\s+")


def find_lookalike_names(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Tasks, phases and agents whose names differ in nothing that can be seen."""
    yield from _find_lookalikes("Task name", "name", ((node.name, node.task) for node in graph.tasks))
    yield from _find_lookalikes("Phase name", "name", ((phase.name, phase.phase) for phase in graph.phases))
    agents = dict.fromkeys([*ensemble.agents, *(node.task.agent for node in graph.tasks)])
    yield from _find_lookalikes("Agent role", "role", ((each.role, each) for each in agents if each is not None))


def _find_lookalikes(kind: str, field: str, names: Iterable[tuple[str, Any]]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, owner in names:
        other = seen.setdefault(make_visible(name), name)
        if other != name:
            message = (
                f"{kind} {name!a} differs from {other!a} only in characters that nobody can see. "
                f"Give one of them another name."
            )
            yield Problem(message, owner, field)


def make_visible(name: str) -> str:
    """Make a name of what can be seen of it, on one line."""
    if name.isascii() and name.isprintable():
        return " ".join(name.split())
    text = unicodedata.normalize("NFC", name)
    kept = (
        each for each in text if (each not in _BLANK and unicodedata.category(each) not in _INVISIBLE) or each.isspace()
    )
    return _SPACE.sub(" ", "".join(kept)).strip()
