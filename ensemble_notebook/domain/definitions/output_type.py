"""What a structured output may be: a pydantic model, a dataclass, a TypedDict, or a JSON schema (E2, E16).

Checks the form only, and imports no pydantic; reading values with it is the engine's.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.definition import Definition


def is_typed_dict(kind: Any) -> bool:
    """True for a `TypedDict` of `typing` or of `typing_extensions`, which are different things before Python 3.13."""
    return typing.is_typeddict(kind) or (
        isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")
    )


def find_output_type_fault(kind: Any) -> str | None:
    """Find what is wrong with the form of an output type; None when it can be used."""
    if isinstance(kind, Mapping):
        return _find_schema_fault(kind)
    if not isinstance(kind, type):
        return f"must be a class or a JSON schema, got {kind!r}"
    if dataclasses.is_dataclass(kind) or is_typed_dict(kind) or callable(getattr(kind, "model_validate", None)):
        return None
    label = kind.__name__
    if issubclass(kind, str | int | float | bool | bytes | complex | type(None)):
        return f"must not be a scalar alone ({label}). Wrap it: a class with one field"
    if issubclass(kind, Mapping | Sequence | set | frozenset):
        return f"must not be a bare {label}. Wrap it: a class with a field of that type"
    return f"must be a pydantic model, a dataclass, a TypedDict or a JSON schema, got the class {label}"


def _find_schema_fault(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type", "object" if "properties" in schema or "$ref" in schema else None)
    if kind == "object":
        return None
    return (
        f"must be a JSON schema of type 'object', got type {kind!r}. Wrap it: {{'type': 'object', 'properties': ...}}"
    )


def describe_output_type(kind: Any) -> str:
    """Name an output type, for people."""
    return str(kind.get("title", "JSON schema")) if isinstance(kind, Mapping) else str(kind.__name__)


def check_output_type(owner: Definition) -> None:
    """Check that the `output_type` of a definition, where it has one, is of a form that can be used.

    Raises:
        ValidationError: it is not.
    """
    kind: Any = getattr(owner, "output_type")  # noqa: B009 - the base of all definitions has none
    if kind is not None and (fault := find_output_type_fault(kind)):
        raise owner._refuse("output_type", f"{owner._label} output_type {fault}.")
