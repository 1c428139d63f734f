"""The base of plain records: their ``repr`` and their pickles hold no secrets (E63, E69)."""

from __future__ import annotations

import functools
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import Pickled, remove_control_characters

R = TypeVar("R")


class Record(Pickled):
    """For dataclasses with ``repr=False``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """All fields, secrets masked."""
        kind: Any = type(self)
        shown = ", ".join(
            f"{each.name}={getattr(self, each.name)!r}" for each in fields(cast("Any", self)) if each.repr
        )
        return mask(remove_control_characters(f"{kind.__qualname__}({shown})"))


def change_record(record: R, changes: dict[str, Any]) -> R:
    """A record with other values of some fields; `dataclasses.replace` takes twice as long."""
    kind: Any = type(record)
    for name in _list_given_fields(kind):
        if name not in changes:
            changes[name] = getattr(record, name)
    made: R = kind(**changes)
    return made


@functools.cache
def _list_given_fields(kind: type) -> tuple[str, ...]:
    """The fields that the constructor of a dataclass takes."""
    return tuple(each.name for each in fields(kind) if each.init)


def fill_slots_directly(cls: type[R]) -> type[R]:
    """Give a frozen, slotted, keyword-only dataclass a quicker constructor, with the same parameters.

    That of `dataclasses` sets a field by ``object.__setattr__``, which looks the name up each time; here the slots are
    called themselves, which takes 60 % of the time. For records of which a run makes some for each task. Like
    `dataclasses`, it writes the function as a text, since no loop over the fields is as quick.
    """
    kind: Any = cls
    every = fields(kind)
    scope: dict[str, Any] = {"MISSING": MISSING}
    lines = [f"def __init__(self, *, {', '.join(each.name for each in every)}):"]
    for each in every:
        name, value = each.name, each.name
        scope[f"set_{name}"] = getattr(kind, name).__set__
        if each.default_factory is not MISSING:
            scope[f"make_{name}"] = each.default_factory
            value = f"make_{name}() if {name} is MISSING else {name}"
        lines.append(f"    set_{name}(self, {value})")
    exec("\n".join(lines), scope)  # the text has nothing but names of fields
    made = scope["__init__"]
    is_optional = {each.name: each.default is not MISSING or each.default_factory is not MISSING for each in every}
    made.__kwdefaults__ = {each.name: each.default for each in every if is_optional[each.name]}
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    made.__annotations__ = kind.__init__.__annotations__
    kind.__init__ = made
    return cls
