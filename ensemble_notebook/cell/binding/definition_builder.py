"""Makes definitions from sections, and reports in its place whatever a definition refuses (C10).

A section with mistakes still becomes a definition, with a stand-in for what is wrong, so that the rules between
definitions are checked as well and all mistakes show at once. Resolves no names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.language.remedies import to_cell_words
from ensemble_notebook.cell.reading.sections import Section
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport
from ensemble_notebook.cell.text.source_text import Place
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import Problem, ValidationError

_STAND_IN: Final = "?"
_SUBSTITUTES: Final[Mapping[type, Mapping[str, Any]]] = {Condition: {"matches": "."}, Budget: {"max_llm_calls": 1}}
"""What stands for the one test or limit that was refused, since there must be one."""

D = TypeVar("D", bound=Definition)


class DefinitionBuilder:
    """Makes definitions, and remembers which section each was made from."""

    def __init__(self, top: Section, report: MistakeReport) -> None:
        self._top, self._report = top, report
        self._made: dict[int, tuple[Any, Section]] = {}
        self._places: dict[tuple[int, str], Mapping[int | str, Place]] = {}

    def make(self, cls: type[D], section: Section, fields: dict[str, Any]) -> D:
        """Make the definition; report every field that it refuses, and replace the field until it is made.

        Raises:
            MisreadError: it can't be made even so; everything has been reported.
        """
        kind: Any = cls
        for name in _find_required_fields(kind):
            if name not in fields:
                fields[name] = _make_placeholder(cls, name)
        replaced: set[str | None] = set()
        while True:
            try:
                made = cls(**fields)
            except ValidationError as error:
                for problem in error.problems:
                    self._report_in(section, problem)
                    if problem.field not in fields or problem.field in replaced:
                        raise MisreadError(section.place) from error
                    replaced.add(problem.field)
                    _replace(cls, fields, problem.field)
            else:
                self._made[id(made)] = (made, section)
                return made

    def note_item_places(self, section: Section, name: str, places: Mapping[int | str, Place]) -> None:
        """Remember where the items of a field stand, by their index or key in the definition."""
        self._places[id(section), name] = places

    def report_problem(self, problem: Problem) -> None:
        """Report what a rule between definitions found, where its subject is written."""
        self._report_in(self.find_section(problem.subject) or self._top, problem)

    def find_section(self, made: object) -> Section | None:
        """Find the section that a definition was made from; None if it was not written in the cell."""
        return self._made.get(id(made), (None, None))[1]

    def _report_in(self, section: Section, problem: Problem) -> None:
        key = section.schema.keys.get(problem.field or "")
        hint = f"{key.name}: {key.meaning}." if key is not None else ""
        self._report.add_mistake(
            self._find_item_place(section, problem.field, problem.item), to_cell_words(problem.message), hint
        )

    def _find_item_place(self, section: Section, name: str | None, item: int | str | None) -> Place:
        places = self._places.get((id(section), name or ""), {})
        return places[item] if item is not None and item in places else section.find_place(name, item)


def _replace(cls: type, fields: dict[str, Any], name: str) -> None:
    """Take a field away that was refused, and put in its place what its definition can't do without."""
    del fields[name]
    if name in _find_required_fields(cls):
        fields[name] = _make_placeholder(cls, name)
    if name != "field":  # the path of a condition, beside which its test stays
        fields |= _SUBSTITUTES.get(cls, {})
    if cls is Phase:
        complete_rounds(fields, name)


def complete_rounds(fields: dict[str, Any], lacking: str) -> None:
    """Let the fields of a phase do without one that was refused, so that its absence is no second mistake."""
    if lacking == "until":
        for name in ("max_rounds", "on_exhausted"):
            fields.pop(name, None)
    elif lacking == "max_rounds" and fields.get("until"):
        fields["max_rounds"] = 1


def make_placeholder_task() -> Task:
    """Make a task that stands for one that could not be read."""
    return Task(description=_STAND_IN, expected_output=_STAND_IN)


@functools.cache
def _find_required_fields(cls: type[Any]) -> list[str]:
    return [each.name for each in fields_of(cls) if each.default is MISSING and each.default_factory is MISSING]


def _make_placeholder(cls: type, name: str) -> Any:
    if name == "tasks":
        return (make_placeholder_task(),)
    if cls is PhaseReview:
        return make_placeholder_task()
    return {CostConfiguration: 0, RateLimit: 1}.get(cls, _STAND_IN)
