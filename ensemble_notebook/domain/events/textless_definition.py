"""Definitions without texts, as the pickled output of a run that kept none has them (T6a).

What a person declares is theirs, and keeps its texts. An output that is pickled is written somewhere, like a trace: it
has the shape of what was run, with names, and no description, goal, input or expression.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar, cast

from ensemble_notebook.errors import Pickled
from ensemble_notebook.errors.pickling import make_blank, set_state

T = TypeVar("T")

_NAMES: Final = frozenset({"name", "source", "field", "llm", "manager_llm", "currency", "on_timeout", "on_exhausted"})
_ROLES: Final = frozenset({"role", "required_workers", "allowed_workers", "required_stages", "max_calls_per_worker"})


class DefinitionFilter:
    """Takes the texts out of definitions. What is the same object before is the same object afterwards."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def apply(self, value: T, *, keeps_roles: bool) -> T:
        """The same without texts. Roles that were resolved for a run may hold inputs, and are then to go, too."""
        return cast("T", self._strip(value, "", _NAMES | _ROLES if keeps_roles else _NAMES))

    def _strip(self, value: Any, name: str, names: frozenset[str]) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return value if name in names else ""
        if isinstance(value, re.Pattern):
            return None
        if isinstance(value, tuple | list):
            return type(value)(self._strip(each, name, names) for each in value)
        if isinstance(value, Mapping):
            return {key: self._strip(each, name, names) for key, each in value.items()}
        if isinstance(value, Pickled) and hasattr(value, "__dataclass_fields__"):
            return self._strip_fields(value, names)
        return value

    def _strip_fields(self, value: Any, names: frozenset[str]) -> Any:
        if id(value) in self._made:
            return self._made[id(value)][1]
        made = make_blank(type(value))
        self._made[id(value)] = value, made  # the original, too, so that its id stays its own
        state = {
            each.name: self._strip(getattr(value, each.name), each.name, names) for each in dataclasses.fields(value)
        }
        return set_state(made, state)
