"""What names inside a cell refer to: tasks, also as ``phase.task``, and agents by key or role (C5).

Knows neither the notebook's names nor how definitions are made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ensemble_notebook.cell.reading.drafts import Draft, Group
from ensemble_notebook.cell.text.mistakes import MisreadError, Report, listed, meant, quoted
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode

_NAME_IT: Final = "A task is called by its key, or by `name:` in a list."
_KEY_IT: Final = "Write agents as a mapping, and call them by their keys."


class TaskNames:
    """Every named task of a cell, and the name it gets in the ensemble, where names are unique."""

    def __init__(self, groups: Iterable[tuple[str | None, Group]], report: Report) -> None:
        self._by_name: dict[str, list[Draft]] = {}
        self._paths: dict[str, list[Draft]] = {}
        self._path_of: dict[int, str] = {}
        self._repeated: set[int] = set()
        for phase, group in groups:
            self._add_group(phase, group, report)

    def _add_group(self, phase: str | None, group: Group, report: Report) -> None:
        own: dict[str, Draft] = {}
        for draft in group.drafts:
            if draft.name is None:
                continue
            first = own.setdefault(draft.name, draft)
            if first is not draft:
                message = (
                    f"the task name {quoted(draft.name)} stands twice; the first one is in line {first.place.line}."
                )
                report.mistake(draft.place_of("name"), message, "Give each task its own name.")
                self._repeated.add(id(draft))
                continue
            self._by_name.setdefault(draft.name, []).append(draft)
            if phase is not None:
                self._path_of[id(draft)] = f"{phase}.{draft.name}"
                self._paths.setdefault(f"{phase}.{draft.name}", []).append(draft)

    def name_of(self, draft: Draft) -> str | None:
        """The task's own name, or ``phase.task`` where another phase has one of the same name."""
        if id(draft) in self._repeated:
            return None
        if draft.name is None or len(self._by_name.get(draft.name, ())) < 2:
            return draft.name
        return self._path_of.get(id(draft), draft.name)

    def find(self, node: ScalarNode) -> str:
        """The unique name of the task that is meant.

        Raises:
            MisreadError: there is no such task, or several.
        """
        word = node.text
        found = list({id(each): each for each in (*self._by_name.get(word, ()), *self._paths.get(word, ()))}.values())
        if len(found) > 1:
            candidates = listed(quoted(self._path_of.get(id(each), word)) for each in found)
            message = f"there are {len(found)} tasks called {quoted(word)}: {candidates}."
            raise MisreadError(node.place, message, "Write `phase.task`.")
        if found:
            return self.name_of(found[0]) or word
        known = [*self._by_name, *self._paths]
        hint = f"Tasks here: {listed(self._by_name)}." if self._by_name else _NAME_IT
        raise MisreadError(node.place, f"there is no task {quoted(word)} in this cell.{meant(word, known)}", hint)


class AgentNames:
    """The agents of a cell by key and, where no key fits, by role."""

    def __init__(self, drafts: Iterable[Draft]) -> None:
        self._by_key: dict[str, list[Draft]] = {}
        self._by_role: dict[str, list[Draft]] = {}
        for draft in drafts:
            if draft.name is not None:
                self._by_key.setdefault(draft.name, []).append(draft)
            if "role" in draft.values:
                self._by_role.setdefault(draft.values["role"].strip(), []).append(draft)

    def by_key(self, word: str) -> Draft | None:
        """The one agent of this key, or None."""
        found = self._by_key.get(word, [])
        return found[0] if len(found) == 1 else None

    def find(self, node: ScalarNode) -> Draft:
        """The agent that is meant.

        Raises:
            MisreadError: there is no such agent, or several.
        """
        word = node.text
        found = self._by_key.get(word) or self._by_role.get(word) or []
        if len(found) == 1:
            return found[0]
        if found:
            lines = listed(str(each.place.line) for each in found)
            raise MisreadError(node.place, f"there are {len(found)} agents {quoted(word)}, in lines {lines}.", _KEY_IT)
        hint = (
            f"Agents here: {listed(self._by_key)}." if self._by_key else "Add it under `agents:`, or remove this line."
        )
        close = meant(word, [*self._by_key, *self._by_role])
        raise MisreadError(node.place, f"there is no agent {quoted(word)} in this cell.{close}", hint)


class PhaseNames:
    """The phases of a cell."""

    def __init__(self, drafts: Iterable[Draft]) -> None:
        self._names = dict.fromkeys(str(draft.values["name"]) for draft in drafts)

    def find(self, node: ScalarNode) -> str:
        """The phase that is meant.

        Raises:
            MisreadError: there is none.
        """
        if node.text in self._names:
            return node.text
        message = f"there is no phase {quoted(node.text)} in this cell.{meant(node.text, self._names)}"
        raise MisreadError(node.place, message, f"Phases here: {listed(self._names)}.")
