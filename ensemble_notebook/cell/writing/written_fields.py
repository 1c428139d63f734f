"""Selects the fields of a definition that are written: those that differ from their defaults.

It goes by the vocabulary, so that a new word is written once it has a row there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.cell.language.cell_schema import Key, SectionSchema
from ensemble_notebook.domain.definitions.definition import Definition

_PLAIN: Final = (str, int, float, bool, Enum)
_COLLECTIONS: Final = (tuple, dict, MappingProxyType)


def list_written(definition: Definition, schema: SectionSchema) -> Iterator[tuple[Key, Any]]:
    """List the keys of a definition that have to be written, with their values, in the order of the definition."""
    for key in schema.keys.values():
        value = getattr(definition, key.name)
        if not _is_default(definition, key, value):
            yield key, value


def _is_default(definition: Definition, key: Key, value: Any) -> bool:
    """Whether a value is what holds without its key."""
    kind: Any = type(definition)
    field = kind.__dataclass_fields__[key.name]
    default = key.default if field.default is MISSING else field.default
    if value is default:
        return True
    if default is None or default == ():
        return type(value) in _COLLECTIONS and not value
    return isinstance(default, _PLAIN) and isinstance(value, _PLAIN) and value == default
