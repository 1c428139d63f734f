"""An event with its texts masked, as ``output.events`` has it (E69). What is not text stays the object that it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar, cast

from ensemble_notebook.domain.outputs.secrets import mask, mask_named
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.event import Event

E = TypeVar("E", bound=Event)


def mask_event(event: E) -> E:
    """The event itself, where nothing in it is a secret; else a copy of it without."""
    return cast("E", _mask(event))


def _mask(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value) if type(value) is str else value  # an enum's member is no text
    if isinstance(value, tuple):
        masked = tuple(map(_mask, value))
        return value if all(map(_is, masked, value)) else masked
    if isinstance(value, list):
        return [_mask(each) for each in value]
    if isinstance(value, Mapping):
        return _mask_items(value)
    if isinstance(value, TaskOutput) or not is_dataclass(value) or isinstance(value, type):
        return value  # the text of an output is the user's; its `repr` and pickles are masked
    changes = {
        each.name: masked
        for each in fields(value)
        if each.init and (masked := _mask(before := getattr(value, each.name))) is not before
    }
    return replace(value, **changes) if changes else value


def _mask_items(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    masked = {
        _mask(name): mask_named(name, each) if isinstance(name, str) and isinstance(each, str) else _mask(each)
        for name, each in value.items()
    }
    if masked == value:
        return value
    return MappingProxyType(masked) if isinstance(value, MappingProxyType) else masked


def _is(one: object, other: object) -> bool:
    return one is other
