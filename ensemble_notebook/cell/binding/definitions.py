"""Definitions made from drafts: whatever one of them refuses is reported in its place (C10).

A draft with mistakes still becomes a definition, with a stand-in for what is wrong, so that the rules between
definitions are checked as well and all mistakes show at once. Resolves no names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.reading.drafts import Draft
from ensemble_notebook.cell.text.mistakes import MisreadError, Report
from ensemble_notebook.cell.text.source import Place
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.cost import CostConfiguration
from ensemble_notebook.domain.definitions.definition import Checked
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.phase import PhaseReview
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import Problem, ValidationError

_STAND_IN: Final = "?"
_SUBSTITUTES: Final[Mapping[type, Mapping[str, Any]]] = {Condition: {"default": True}, Budget: {"max_llm_calls": 1}}
"""What stands for the one test or limit that was refused, since there must be one."""

D = TypeVar("D", bound=Checked)


class Construction:
    """Makes definitions, and remembers which draft each was made from."""

    def __init__(self, top: Draft, report: Report) -> None:
        self._top, self._report = top, report
        self._made: dict[int, tuple[Any, Draft]] = {}
        self._places: dict[tuple[int, str], Mapping[int | str, Place]] = {}

    def make(self, cls: type[D], draft: Draft, fields: dict[str, Any]) -> D:
        """The definition; a field that it refuses is reported and replaced until it is made.

        Raises:
            MisreadError: it can't be made even so; everything has been reported.
        """
        required = _required(cls)
        for name in required:
            fields.setdefault(name, _stand_in(cls, name))
        replaced: set[str | None] = set()
        while True:
            try:
                made = cls(**fields)
            except ValidationError as error:
                for problem in error.problems:
                    self._report_in(draft, problem)
                    if problem.field not in fields or problem.field in replaced:
                        raise MisreadError(draft.place) from error
                    replaced.add(problem.field)
                    del fields[problem.field]
                    if problem.field in required:
                        fields[problem.field] = _stand_in(cls, problem.field)
                    fields |= _SUBSTITUTES.get(cls, {})
            else:
                self._made[id(made)] = (made, draft)
                return made

    def place_items(self, draft: Draft, name: str, places: Mapping[int | str, Place]) -> None:
        """Remember where the items of a field stand, by their index or key in the definition."""
        self._places[id(draft), name] = places

    def report(self, problem: Problem) -> None:
        """Report what a rule between definitions found, where its subject is written."""
        self._report_in(self.draft_of(problem.subject) or self._top, problem)

    def draft_of(self, made: object) -> Draft | None:
        """What a definition was made from; None for what no cell wrote."""
        return self._made.get(id(made), (None, None))[1]

    def _report_in(self, draft: Draft, problem: Problem) -> None:
        key = draft.scope.keys.get(problem.field or "")
        hint = f"{key.name}: {key.meaning}." if key is not None else ""
        self._report.mistake(self._place(draft, problem.field, problem.item), problem.message, hint)

    def _place(self, draft: Draft, name: str | None, item: int | str | None) -> Place:
        places = self._places.get((id(draft), name or ""), {})
        return places[item] if item is not None and item in places else draft.place_of(name, item)


def stand_in_task() -> Task:
    """A task where there is none."""
    return Task(description=_STAND_IN, expected_output=_STAND_IN)


def _required(cls: type[Any]) -> list[str]:
    return [each.name for each in fields_of(cls) if each.default is MISSING and each.default_factory is MISSING]


def _stand_in(cls: type, name: str) -> Any:
    if name == "tasks":
        return (stand_in_task(),)
    if cls is PhaseReview:
        return stand_in_task()
    return {CostConfiguration: 0, RateLimit: 1}.get(cls, _STAND_IN)
