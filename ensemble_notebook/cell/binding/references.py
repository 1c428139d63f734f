"""What names inside a cell refer to: tasks, also as ``phase.task``, and agents by key or role (C5).

Knows neither the notebook's names nor how definitions are made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ensemble_notebook.cell.reading.sections import Section, TaskGroup
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport, join_names, quote
from ensemble_notebook.cell.text.suggestions import suggest_name
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode

_NAME_IT: Final = "A task is called by its key, or by `name:` in a list."
_KEY_IT: Final = "Write agents as a mapping, and call them by their keys."


class TaskNames:
    """Every named task of a cell, and the name it gets in the ensemble, where names are unique."""

    def __init__(self, groups: Iterable[tuple[str | None, TaskGroup]], report: MistakeReport) -> None:
        self._by_name: dict[str, list[Section]] = {}
        self._paths: dict[str, list[Section]] = {}
        self._path_of: dict[int, str] = {}
        self._repeated: set[int] = set()
        for phase, group in groups:
            self._add_group(phase, group, report)

    def _add_group(self, phase: str | None, group: TaskGroup, report: MistakeReport) -> None:
        own: dict[str, Section] = {}
        for section in group.sections:
            if section.name is None:
                continue
            first = own.setdefault(section.name, section)
            if first is not section:
                message = (
                    f"the task name {quote(section.name)} stands twice; the first one is in line {first.place.line}."
                )
                report.add_mistake(section.find_place("name"), message, "Give each task its own name.")
                self._repeated.add(id(section))
                continue
            self._by_name.setdefault(section.name, []).append(section)
            if phase is not None:
                self._path_of[id(section)] = f"{phase}.{section.name}"
                self._paths.setdefault(f"{phase}.{section.name}", []).append(section)

    def get_name(self, section: Section) -> str | None:
        """Get the task's own name, or ``phase.task`` where another phase has a task of the same name."""
        if id(section) in self._repeated:
            return None
        if section.name is None or len(self._by_name.get(section.name, ())) < 2:
            return section.name
        return self._path_of.get(id(section), section.name)

    @property
    def names(self) -> tuple[str, ...]:
        """What tasks are called, as the tasks themselves have it."""
        return tuple(self._by_name)

    def has(self, word: str) -> bool:
        """Whether a task, or several, can be meant by a word."""
        return word in self._by_name or word in self._paths

    def find(self, node: ScalarNode) -> str:
        """Find the unique name of the task that a cell refers to.

        Raises:
            MisreadError: there is no such task, or several.
        """
        word = node.text
        found = list({id(each): each for each in (*self._by_name.get(word, ()), *self._paths.get(word, ()))}.values())
        if len(found) > 1:
            candidates = join_names(quote(self._path_of.get(id(each), word)) for each in found)
            message = f"there are {len(found)} tasks called {quote(word)}: {candidates}."
            raise MisreadError(node.place, message, "Write `phase.task`.")
        if found:
            return self.get_name(found[0]) or word
        known = [*self._by_name, *self._paths]
        hint = f"Tasks here: {join_names(self._by_name)}." if self._by_name else _NAME_IT
        raise MisreadError(node.place, f"there is no task {quote(word)} in this cell.{suggest_name(word, known)}", hint)


class AgentNames:
    """The agents of a cell by key and, where no key fits, by role."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._by_key: dict[str, list[Section]] = {}
        self._by_role: dict[str, list[Section]] = {}
        for section in sections:
            if section.name is not None:
                self._by_key.setdefault(section.name, []).append(section)
            if "role" in section.values:
                self._by_role.setdefault(section.values["role"].strip(), []).append(section)

    def find_by_key(self, word: str) -> Section | None:
        """Find the one agent of this key, or None."""
        found = self._by_key.get(word, [])
        return found[0] if len(found) == 1 else None

    def find(self, node: ScalarNode) -> Section:
        """Find the agent of this key or role.

        Raises:
            MisreadError: there is no such agent, or several.
        """
        word = node.text
        found = self._by_key.get(word) or self._by_role.get(word) or []
        if len(found) == 1:
            return found[0]
        if found:
            lines = join_names(str(each.place.line) for each in found)
            raise MisreadError(node.place, f"there are {len(found)} agents {quote(word)}, in lines {lines}.", _KEY_IT)
        hint = (
            f"Agents here: {join_names(self._by_key)}."
            if self._by_key
            else "Add it under `agents:`, or remove this line."
        )
        close = suggest_name(word, [*self._by_key, *self._by_role])
        raise MisreadError(node.place, f"there is no agent {quote(word)} in this cell.{close}", hint)


class PhaseNames:
    """The phases of a cell."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._names = dict.fromkeys(str(section.values["name"]) for section in sections)

    def find(self, node: ScalarNode) -> str:
        """Find the phase of this name.

        Raises:
            MisreadError: there is none.
        """
        if node.text in self._names:
            return node.text
        message = f"there is no phase {quote(node.text)} in this cell.{suggest_name(node.text, self._names)}"
        raise MisreadError(node.place, message, f"Phases here: {join_names(self._names)}.")
