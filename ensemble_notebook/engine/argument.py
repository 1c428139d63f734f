"""Fits the arguments that a model wrote to the schema of a tool: coerced where unambiguous, else explained (E13)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ensemble_notebook.errors import nearest


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
        return {}, f"expected an object with {expected}, got {_shown(arguments)}."
    missing = [name for name in required if name not in fitted]
    is_open = bool(parameters.get("additionalProperties"))
    unexpected = [] if is_open else [name for name in fitted if name not in properties]
    faults = []
    if missing:
        faults.append("missing " + ", ".join(repr(name) for name in missing))
    if unexpected:
        faults.append("unexpected " + ", ".join(_with_hint(name, properties) for name in unexpected))
    return fitted, "; ".join(faults) + "." if faults else ""


def _as_fields(arguments: Any, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """A dict of fields, or None where there is no unambiguous one."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        parsed = _parsed(arguments)
        if isinstance(parsed, dict):
            return _as_fields(parsed, properties)
        return _to_only_field(arguments if parsed is None else parsed, properties)
    if not isinstance(arguments, dict):
        return _to_only_field(arguments, properties)
    if len(arguments) == 1:
        key, inner = next(iter(arguments.items()))
        if key not in properties:
            inner = _parsed(inner) or inner if isinstance(inner, str) else inner
            if isinstance(inner, dict) and inner and set(inner) <= set(properties):
                return inner
            if not isinstance(inner, dict) and key.startswith("__arg"):
                return _to_only_field(inner, properties)
    return {str(key): value for key, value in arguments.items()}


def _to_only_field(value: Any, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    if value == "" and not properties:
        return {}
    return {next(iter(properties)): value} if len(properties) == 1 else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _with_hint(name: str, properties: Mapping[str, Any]) -> str:
    close = nearest(name, properties)
    return f"{name!r} (did you mean {close!r}?)" if close else repr(name)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
