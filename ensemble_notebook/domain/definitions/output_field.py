"""Fields of typed outputs by their paths, such as ``address.city`` (E33).

Finds out before a run whether an output type has such a field, and reads it from a value after one. Imports no
pydantic: what is not loaded has no models.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final

from ensemble_notebook.errors import did_you_mean

_SCALARS: Final = (str, int, float, bool, Enum)
_ANYTHING: Final = object()
"""The type of a field of which nothing is known."""


def find_field_fault(output_type: Any, path: str, root: Any = None) -> str | None:
    """Find why values of an output type can have no field of this path, as a sentence; None where they can.

    `root` is the whole output type, where `output_type` is a part of it: a schema refers to its own whole.
    """
    root = output_type if root is None else root
    found: list[Any] = [output_type]
    walked: list[str] = []
    for part in path.split("."):
        owner = f"field {'.'.join(walked)!r}" if walked else "output type"
        branches = [fields for each in found for fields in _list_fields(each, root)]
        if not branches:
            return f"its {owner} has no fields of its own."
        if _ANYTHING in branches:
            return None
        if not (found := [fields[part] for fields in branches if part in fields]):
            known = {name for fields in branches for name in fields}
            return f"its {owner} has no field {part!r}.{did_you_mean(part, sorted(known))}"
        walked.append(part)
    return None


def find_list_fields(output_type: Any) -> dict[str, Any] | None:
    """Find the fields of an output type that hold lists, with the type of their items; None where that is not known."""
    found: dict[str, Any] = {}
    for fields in _list_fields(output_type, output_type):
        if fields is _ANYTHING:
            return None
        for name, kind in fields.items():
            if (items := _find_item_type(kind, output_type)) is not None:
                found[name] = items
    return found


def _find_item_type(kind: Any, root: Any) -> Any:
    """Find the type of the items of a list; None for what is no list."""
    if isinstance(kind, Mapping):
        kind = _follow_reference(kind, root)
        is_list = kind.get("type") == "array" or (isinstance(kind.get("type"), list) and "array" in kind["type"])
        branches = [each for word in ("anyOf", "oneOf") for each in kind.get(word, ()) if isinstance(each, Mapping)]
        if is_list:
            items = kind.get("items")
            return items if isinstance(items, Mapping) else _ANYTHING
    else:
        origin, branches = typing.get_origin(kind), []
        if origin in (typing.Union, types.UnionType):
            branches = list(typing.get_args(kind))
        elif origin is typing.Annotated:
            branches = [typing.get_args(kind)[0]]
        elif kind in (list, tuple) or origin in (list, tuple, Sequence):
            return next(iter(typing.get_args(kind)), _ANYTHING)
    return next((each for each in (_find_item_type(branch, root) for branch in branches) if each is not None), None)


def find_part(value: Any, path: str) -> Any:
    """Find what stands at a path of a mapping, a record, or any object with attributes.

    Raises:
        LookupError: nothing does; the message is a sentence.
    """
    walked: list[str] = []
    for part in path.split("."):
        if value is None:
            where = f"its field {'.'.join(walked)!r} is null" if walked else "it has no typed output"
            raise LookupError(f"There is no field {path!r}: {where}.")
        fields = get_parts(value)
        if part not in fields:
            where = f" in {'.'.join(walked)!r}" if walked else ""
            raise LookupError(f"There is no field {part!r}{where}.{did_you_mean(part, map(str, fields))}")
        value = fields[part]
        walked.append(part)
    return value


def read_field(value: Any, path: str) -> Any:
    """Read a value as JSON has it: a text, a number, True or False, a list of these, or None.

    Raises:
        LookupError: there is no such field, or it holds fields in place of a value; the message is a sentence.
    """
    value = find_part(value, path)
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


def get_parts(value: Any) -> Mapping[str, Any]:
    """Get what a value has by name: the pairs of a mapping, the fields of a record, else its public attributes."""
    if isinstance(value, Mapping):
        return value
    if not hasattr(value, "__dict__") and not dataclasses.is_dataclass(value):
        return {}
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


def _follow_reference(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any]:
    """The part of the whole that a JSON schema refers to; itself where it is none, or refers elsewhere."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    found = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) and "$ref" not in found else schema


def _list_schema_fields(schema: Mapping[str, Any], root: Any) -> list[Any]:
    """The same for a JSON schema; what refers to another document, or names no fields, is not known."""
    schema = _follow_reference(schema, root)
    if "$ref" in schema:
        return [_ANYTHING]
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
