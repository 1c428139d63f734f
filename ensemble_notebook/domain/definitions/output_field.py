"""Fields of typed outputs by their paths, such as ``address.city`` (E33).

Finds out before a run whether an output type has such a field, and reads it from a value after one. Imports no
pydantic: what is not loaded has no models.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final

from ensemble_notebook.errors import did_you_mean

_SCALARS: Final = (str, int, float, bool, Enum)
_ANYTHING: Final = object()
"""The type of a field of which nothing is known."""


def find_field_fault(output_type: Any, path: str) -> str | None:
    """Find why values of an output type can have no field of this path, as a sentence; None where they can."""
    found: list[Any] = [output_type]
    walked: list[str] = []
    for part in path.split("."):
        owner = f"field {'.'.join(walked)!r}" if walked else "output type"
        branches = [fields for each in found for fields in _list_fields(each, output_type)]
        if not branches:
            return f"its {owner} has no fields of its own."
        if _ANYTHING in branches:
            return None
        if not (found := [fields[part] for fields in branches if part in fields]):
            known = {name for fields in branches for name in fields}
            return f"its {owner} has no field {part!r}.{did_you_mean(part, sorted(known))}"
        walked.append(part)
    return None


def read_field(value: Any, path: str) -> Any:
    """Read a value as JSON has it: a text, a number, True or False, a list of these, or None.

    Raises:
        LookupError: there is no such field, or it holds fields in place of a value; the message is a sentence.
    """
    walked: list[str] = []
    for part in path.split("."):
        if value is None:
            where = f"its field {'.'.join(walked)!r} is null" if walked else "it has no typed output"
            raise LookupError(f"There is no field {path!r}: {where}.")
        fields = value if isinstance(value, Mapping) else _get_attributes(value)
        if part not in fields:
            where = f" in {'.'.join(walked)!r}" if walked else ""
            raise LookupError(f"There is no field {part!r}{where}.{did_you_mean(part, map(str, fields))}")
        value = fields[part]
        walked.append(part)
    if isinstance(value, list | tuple | AbstractSet):
        return [_to_scalar(each) for each in value]
    if isinstance(value, Mapping) or dataclasses.is_dataclass(value) or hasattr(type(value), "model_fields"):
        raise LookupError(f"The field {path!r} has fields of its own; a condition looks at one value.")
    return _to_scalar(value)


def is_same_scalar(first: object, second: object) -> bool:
    """Whether two values are the same in JSON: 1 is 1.0, and neither is true, nor the text of itself."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, str) and isinstance(second, str):
        return first.strip() == second.strip()
    return first == second


def to_scalar_text(value: object) -> str:
    """The text of a value as JSON writes it; a text without its quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _to_scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, _SCALARS):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _get_attributes(value: Any) -> Mapping[str, Any]:
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else None
    names = list(getattr(type(value), "model_fields", None) or vars(value)) if names is None else names
    return {name: getattr(value, name) for name in names if not name.startswith("_") and hasattr(value, name)}


def _list_fields(kind: Any, root: Any) -> list[Any]:
    """List the fields of each form that a type allows; `_ANYTHING` for one that is not known, none for a scalar."""
    if kind is _ANYTHING:
        return [_ANYTHING]
    if isinstance(kind, Mapping):
        return _list_schema_fields(kind, root)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return [fields for each in typing.get_args(kind) for fields in _list_fields(each, root)]
    if origin is typing.Annotated:
        return _list_fields(typing.get_args(kind)[0], root)
    if isinstance(kind, type) and issubclass(kind, (*_SCALARS, type(None), list, tuple, AbstractSet)):
        return []
    if origin in (list, tuple, set, frozenset, typing.Literal):
        return []
    models = getattr(kind, "model_fields", None)
    if isinstance(models, Mapping):
        return [{name: each.annotation for name, each in models.items()}]
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        try:
            return [typing.get_type_hints(kind)]
        except Exception:  # noqa: BLE001 - a type that only type checkers know
            return [_ANYTHING]
    return [_ANYTHING]


def _list_schema_fields(schema: Mapping[str, Any], root: Any) -> list[Any]:
    """The same for a JSON schema; what refers to another document, or names no fields, is not known."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = root
        for part in reference.removeprefix("#/").split("/"):
            found = found.get(part) if isinstance(found, Mapping) else None
        is_known = isinstance(found, Mapping) and found is not schema and "$ref" not in found
        return _list_schema_fields(found, root) if is_known else [_ANYTHING]
    branches = [each for word in ("anyOf", "oneOf") for each in schema.get(word, ()) if isinstance(each, Mapping)]
    if branches:
        return [fields for each in branches for fields in _list_schema_fields(each, root)]
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and not schema.get("additionalProperties") and "allOf" not in schema:
        return [dict(properties)]
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    is_scalar = "enum" in schema or (kind is not None and "object" not in kinds)
    return [] if is_scalar else [_ANYTHING]
