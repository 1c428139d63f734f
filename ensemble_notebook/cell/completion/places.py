"""What a path in a cell leads to: a place where keys stand, or the value of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ensemble_notebook.cell.completion.outline import Path
from ensemble_notebook.cell.language.cell_schema import (
    AGENT,
    BUDGET,
    CELL,
    CONDITION,
    CONSTRAINTS,
    COST,
    MODEL,
    PHASE,
    PHASE_REVIEW,
    RATE,
    REVIEW,
    TASK,
    Key,
    SectionSchema,
)
from ensemble_notebook.cell.language.vocabulary import ValueKind

Place = SectionSchema | Key | None
"""A section, the value of a key, or nothing that is known."""

SECTIONS: Final[Mapping[ValueKind, SectionSchema]] = {
    ValueKind.WORKER: AGENT,
    ValueKind.MODEL: MODEL,
    ValueKind.COST: COST,
    ValueKind.RATE: RATE,
    ValueKind.BUDGET: BUDGET,
    ValueKind.REVIEW: REVIEW,
    ValueKind.PHASE_REVIEW: PHASE_REVIEW,
    ValueKind.CONSTRAINTS: CONSTRAINTS,
}
"""What the keys of a mapping are that stands as a value."""
_MEMBERS: Final[Mapping[ValueKind, SectionSchema]] = {
    ValueKind.AGENTS: AGENT,
    ValueKind.TASKS: TASK,
    ValueKind.PHASES: PHASE,
    ValueKind.WHEN: CONDITION,
}
"""What each member of a mapping or list is."""


def find_place(path: Path) -> Place:
    """Find what a path leads to; None where nothing is known of it."""
    place: Place = CELL
    for part in path:
        place = _find_next(place, part)
    return place


def find_section(place: Place) -> SectionSchema | None:
    """Find the keys that may stand in a place, also where a mapping may be its value."""
    if isinstance(place, Key):
        return SECTIONS.get(place.kind)
    return place


def find_key(section: SectionSchema, word: str) -> Key | None:
    """Find a key by what it is called, also in short."""
    return section.keys.get(section.short_words.get(word, word))


def _find_next(place: Place, part: str | int) -> Place:
    if place is CELL and isinstance(part, int):
        return TASK  # a cell that is a list of tasks
    if isinstance(place, Key):
        return _find_in_value(place, part)
    if place is None or isinstance(part, int):
        return TASK if place is PHASE else None  # a phase that is a list of tasks
    if (key_group := place.key_groups.get(part)) is not None:
        return key_group.schema
    key = find_key(place, part)
    return TASK if key is None and place is PHASE else key


def _find_in_value(key: Key, part: str | int) -> Place:
    if (member := _MEMBERS.get(key.kind)) is not None:
        return key if key.kind is ValueKind.WHEN and isinstance(part, int) else member
    if isinstance(part, int):
        return key  # a list of what could stand there alone
    section = SECTIONS.get(key.kind)
    return None if section is None else find_key(section, part)
