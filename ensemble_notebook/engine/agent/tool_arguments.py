"""Fits the arguments that a model wrote to the schema of a tool: coerced where unambiguous, else explained (E13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.domain.json_text import read_json
from ensemble_notebook.errors import find_nearest

_NO_TEXT: Final = ("integer", "number", "boolean", "array", "object")


def fit_arguments(arguments: Any, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Arguments as a dict that has the schema's fields.

    A JSON text is parsed; arguments nested under one foreign key are taken out; a bare value goes to the only field.

    Returns:
        The dict and an empty text, or what came and a text naming the missing and unexpected fields.
    """
    properties = parameters.get("properties", {})
    required = tuple(parameters.get("required", ()))
    fitted = _as_fields(arguments, properties)
    if fitted is None:
        expected = ", ".join(repr(name) for name in properties) or "no fields"
        return {}, f"expected an object with {expected}, got {_shorten(arguments)}."
    missing = [name for name in required if name not in fitted]
    is_open = bool(parameters.get("additionalProperties"))
    unexpected = [] if is_open else [name for name in fitted if name not in properties]
    faults = []
    if missing:
        faults.append("missing " + ", ".join(repr(name) for name in missing))
    if unexpected:
        faults.append("unexpected " + ", ".join(_add_hint(name, properties) for name in unexpected))
    return fitted, "; ".join(faults) + "." if faults else ""


def _as_fields(arguments: Any, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """A dict of fields, or None where there is no unambiguous one."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        parsed = _parse_json(arguments)
        return _as_fields(parsed, properties) if isinstance(parsed, dict) else _to_only_field(arguments, properties)
    if not isinstance(arguments, dict):
        return _to_only_field(arguments, properties)
    if len(arguments) == 1:
        ((key, inner),) = arguments.items()
        if key not in properties:
            nested = _parse_json(inner) if isinstance(inner, str) else inner
            if isinstance(nested, dict) and nested and set(nested) <= set(properties):
                return nested
            if str(key).startswith("__arg"):
                return _to_only_field(inner, properties)
    return {str(key): value for key, value in arguments.items()}


def _to_only_field(value: Any, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """A bare value belongs to the one field there is; a text is read as JSON only where that field can't be a text."""
    if value == "" and not properties:
        return {}
    if len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    is_json = isinstance(value, str) and isinstance(schema, Mapping) and schema.get("type") in _NO_TEXT
    return {name: _parse_json(value) if is_json else value}


def _parse_json(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is none."""
    try:
        return read_json(text)
    except ValueError:
        return text


def _add_hint(name: str, properties: Mapping[str, Any]) -> str:
    close = find_nearest(name, properties)
    return f"{name!r} (did you mean {close!r}?)" if close else repr(name)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
