"""The arguments of tools: what a model gave, as the fields of a schema (E13).

What is nearly JSON is mended where it can mean but one thing, and never run as a bare text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.json_schema import make_validator
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.engine.agent.structured_output import strip_fence
from ensemble_notebook.errors import find_nearest

_NO_TEXT: Final = ("integer", "number", "boolean", "array", "object")


def fit_arguments(arguments: Any, parameters: Mapping[str, Any], *, mends: bool = True) -> tuple[dict[str, Any], str]:
    """Arguments as a dict that has the schema's fields.

    A JSON text is parsed; arguments nested under one foreign key are taken out; a bare value goes to the only field.

    Args:
        arguments: as they came.
        parameters: the JSON schema of the tool.
        mends: whether a text that is nearly one JSON object may be taken for it.

    Returns:
        The dict and an empty text, or what came and a text naming the missing and unexpected fields.
    """
    properties, required, is_open = _list_fields(parameters), parameters.get("required") or (), _is_open(parameters)
    given = _parse_json(arguments) if is_open and isinstance(arguments, str) else arguments
    if is_open and isinstance(given, dict) and given.keys() >= set(required):
        return given, ""  # whatever is in it is what it may be
    fitted = _as_fields(arguments, properties, mends=mends)
    if fitted is None:
        expected = ", ".join(repr(name) for name in properties) or ("any fields" if is_open else "no fields")
        text = repr(arguments)
        return {}, f"expected an object with {expected}, got {text if len(text) <= 80 else text[:77] + '...'}."
    missing = [name for name in properties if name in required and name not in fitted]
    unexpected = [] if is_open else [name for name in fitted if name not in properties]
    faults = []
    if missing:
        faults.append("missing " + ", ".join(repr(name) for name in missing))
    if unexpected:
        close = {name: find_nearest(name, properties) for name in unexpected}
        hints = {name: f" (did you mean {near!r}?)" if near else "" for name, near in close.items()}
        faults.append("unexpected " + ", ".join(f"{name!r}{hint}" for name, hint in hints.items()))
    return fitted, "; ".join(faults) + "." if faults else ""


def check_given_arguments(
    given: Mapping[str, Any], parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[tuple[str | int, ...], str]]]:
    """Arguments that a person has given, held to the whole schema.

    Returns:
        The arguments, and each fault with the keys and indices that lead to it: none for what is wrong with all.
    """
    arguments, fault = fit_arguments(dict(given), parameters, mends=False)
    if fault:
        return arguments, [((), fault)]
    found = make_validator(parameters).iter_errors(arguments)
    return arguments, [(tuple(each.instance_path), each.message) for each in found]


def fit_text(text: str, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """As `fit_arguments`, of what a task said: as a value it stands as it is, whatever call it looks like."""
    said, properties = _parse_json(text), _list_fields(parameters)
    given = said if isinstance(said, dict) else _to_only_field(text, properties)
    return fit_arguments(text if given is None else given, parameters, mends=False)


def _list_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas of the fields that the schema of a tool names, if only as required."""
    named = parameters.get("properties") or {}
    return {**named, **{name: {} for name in parameters.get("required") or () if name not in named}}


_MORE_FIELDS: Final = frozenset(
    {"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"}
)


def _is_open(parameters: Mapping[str, Any]) -> bool:
    """Whether the schema of a tool takes fields beside those that it names at its top.

    By JSON Schema one that says nothing of them takes all, but most that name their fields mean no others.
    """
    if "additionalProperties" in parameters and "patternProperties" not in parameters:
        return parameters["additionalProperties"] is not False
    return "properties" not in parameters or not _MORE_FIELDS.isdisjoint(parameters)


def _as_fields(arguments: Any, properties: Mapping[str, Any], *, mends: bool) -> dict[str, Any] | None:
    """A dict of fields, or None where there is no unambiguous one."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        return _read_fields(arguments, properties, mends=mends)
    if not isinstance(arguments, dict):
        return _to_only_field(arguments, properties)
    if len(arguments) == 1:
        ((key, inner),) = arguments.items()
        if key not in properties:
            nested = _parse_json(inner) if isinstance(inner, str) else inner
            if isinstance(nested, dict) and nested and set(nested) <= set(properties):
                return nested
            if str(key).startswith("__arg"):
                return _as_fields(inner, properties, mends=mends)
    return {str(key): value for key, value in arguments.items()}


def _read_fields(text: str, properties: Mapping[str, Any], *, mends: bool) -> dict[str, Any] | None:
    """The fields of a text that is a JSON object, or may be mended to one; else it is the value of the only field.

    None for what was meant as an object and is none, or is a text in quotes that was cut: its JSON is nobody's value.
    """
    if _OPEN_TEXT.match(text):
        return None
    value = _parse_json(text)
    if isinstance(value, dict | list):
        return _as_fields(value, properties, mends=mends)
    if isinstance(value, str) and _is_meant_as_object(value, properties):
        if value != text:
            return _read_fields(value, properties, mends=mends)
        mended = _mend_object(text) if mends else None
        return mended if isinstance(mended, dict) and set(mended) <= set(properties) else None
    return _to_only_field(text, properties)


def _to_only_field(value: Any, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """A bare value belongs to the one field there is; a text is read as JSON only where that field can't be a text."""
    if value == "" and not properties:
        return {}
    if len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" and isinstance(value, dict | list):
        return None
    return {name: _parse_json(value) if isinstance(value, str) and kind in _NO_TEXT else value}


# Where a call was cut, or something stands beside its object, the rest of what was meant is not known.
_OBJECT_START: Final = re.compile(
    r"""\s*+(?:```[\w-]++\s*+\Z|(?:```[\w-]*+\s*+)?+(?:\{\s*+(?:["'“}]|\Z)|\[\s*+["'“{]))"""
)
_OPEN_TEXT: Final = re.compile(r"""\s*+"(?:[^"\\]|\\.)*+\\?\Z""", re.DOTALL)
_CALL_MARK: Final = re.compile(r"</?tool_calls?>|<\|\w++\|>|\[/?TOOL_CALLS?\]")
# A text that is left open reaches to the end, so that nothing in it is looked at again.
_MENDABLE: Final = re.compile(
    r""""(?:[^"\\]|\\.?)*+(?:"|\Z)|'(?P<single>(?:[^'\\]|\\.?)*+)(?P<end>'|\Z)"""
    r"""|\b(?:True|False|None)\b|(?P<comma>,)(?=\s*+[}\]])""",
    re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_QUOTE: Final = re.compile(r"""\\(.)|\"""", re.DOTALL)


def _is_meant_as_object(text: str, properties: Mapping[str, Any]) -> bool:
    """Whether a text is a call, an object of fields or a list, or part of one."""
    if _OBJECT_START.match(text) or _CALL_MARK.search(text):
        return True
    names = "|".join(map(re.escape, properties))
    return bool(names) and re.search(rf"""(?<!\w)(?:{names})\\*+["'”]\s*+:|\{{\s*+(?:{names})\s*+:""", text) is not None


def _mend_object(text: str) -> Any:
    """What a text says without the fence around it, one trailing comma, and Python's quotes and words.

    None where that is no JSON, as with an open string or brace, or with anything behind the object.
    """
    commas = 0

    def mend(part: re.Match[str]) -> str:
        nonlocal commas
        if part["comma"]:
            commas += 1
            return ""
        if part["end"]:
            # A quote, or what is escaped, in a text in single quotes, as JSON has it.
            double = _QUOTE.sub(
                lambda each: '\\"' if each[1] is None else "'" if each[1] == "'" else each[0], part["single"]
            )
            return f'"{double}"'
        return _WORDS.get(part[0], part[0])

    mended = _parse_json(_MENDABLE.sub(mend, strip_fence(text)))
    return mended if commas <= 1 else None


def _parse_json(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is none."""
    try:
        return read_json(text, strict=False)
    except ValueError:
        return text
