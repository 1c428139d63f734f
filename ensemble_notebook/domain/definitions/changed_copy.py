"""Copies of a definition with some parts replaced at any depth; tasks and agents are found by identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from ensemble_notebook.domain.definitions.definition import Definition

D = TypeVar("D", bound=Definition)


def replace_parts(definition: D, parts: Mapping[Definition, Definition]) -> D:
    """Make a copy in which each of these parts is another one, wherever it stands; itself where none of them is in it.

    Args:
        definition: it may be an ensemble, a phase, a task, or whatever holds such.
        parts: what stands in place of what. Definitions are keys by their identity (E2).

    Raises:
        ValidationError: a part can't stand there.
    """
    return cast("D", _Copy(parts).make(definition))


class _Copy:
    """Makes the copies, one of each definition, so that what was the same object is the same again."""

    def __init__(self, parts: Mapping[Definition, Definition]) -> None:
        self._parts = parts
        self._made: dict[Definition, Definition] = {}

    def make(self, value: Any) -> Any:
        """The value with its parts replaced; the very object where nothing in it changes."""
        if isinstance(value, Definition):
            if value not in self._made:
                self._made[value] = self._copy(value)
            return self._made[value]
        if isinstance(value, tuple):
            made = tuple(self.make(each) for each in value)
            return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
        return value

    def _copy(self, old: Definition) -> Definition:
        new: Any = self._parts.get(old, old)
        values = {each.name: getattr(new, each.name) for each in fields(new) if each.init}
        changed = {name: made for name, value in values.items() if (made := self.make(value)) is not value}
        result: Definition = replace(new, **changed) if changed else new
        return result
