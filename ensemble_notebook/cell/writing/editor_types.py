"""Output types of a cell as JSON Schema: fields such as ``{title: str}``, or JSON schemas in their place (C4, C6a).

Says of the data of a cell what `inline_types` and `json_schema` say of its nodes.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ensemble_notebook.cell.reading.inline_types import NULL_WORDS, TYPE_WORDS
from ensemble_notebook.cell.reading.json_schema import (
    JSON_TYPES,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAPPING_KEYWORDS,
    VALUE_KEYWORDS,
)

Form = dict[str, Any]
"""A JSON schema."""

_WORDS: Final = "|".join(map(re.escape, TYPE_WORDS))
_MEMBERS: Final = "|".join(map(re.escape, (*TYPE_WORDS, *NULL_WORDS)))
_CHOICE: Final = rf"(?!\s*({_MEMBERS})\s*(\||\??\s*$))\s*[^|\s][^|]*"
_ONE_TYPE: Final = rf"^\s*({_WORDS})\??\s*$"
_UNION: Final = rf"^\s*({_MEMBERS})(\s*\|\s*({_MEMBERS}))+\??\s*$"
_ENUM: Final = rf"^{_CHOICE}(\|{_CHOICE})+$"
_NAME: Final = rf"^(?!\s*({_WORDS})\??\s*$)[^|]*$"


def make_type_forms() -> dict[str, Form]:
    """Make the forms of an output type, by the names under which they refer to each other."""
    return {
        "output_type": {"anyOf": [{"type": "string", "pattern": _NAME}, _make_inline_form()]},
        "fields": {"type": "object", "minProperties": 1, "additionalProperties": _refer("field_type")},
        "field_type": {"anyOf": [_make_word_form(), _refer("fields"), _make_list_form()]},
        "json_schema": _make_schema_form(),
    }


def _make_inline_form() -> Form:
    """A mapping that can only be meant as a JSON schema is one; every other one has fields."""
    is_schema = [
        {"properties": {"type": {"const": "object"}}, "required": ["type"]},
        {"properties": {"properties": {"type": "object"}}, "required": ["properties"]},
        {"not": {"propertyNames": {"pattern": "^[^$]"}}},
    ]
    return {
        "type": "object",
        "if": {"anyOf": is_schema},
        "then": _refer("json_schema"),
        "else": _refer("fields"),
    }


def _make_word_form() -> Form:
    return {
        "type": "string",
        "description": "A type, such as str, int?, or yes | no for one of these words.",
        "anyOf": [
            {"enum": list(TYPE_WORDS)},
            *({"pattern": each} for each in (_ONE_TYPE, _UNION, _ENUM)),
        ],
    }


def _make_list_form() -> Form:
    item = {"allOf": [_refer("field_type"), {"not": {"type": "string", "pattern": r"\?\s*$"}}]}
    return {
        "type": "array",
        "description": "A list of this type.",
        "items": item,
        "minItems": 1,
        "maxItems": 1,
    }


def _make_schema_form() -> Form:
    """A JSON schema whose words are checked; the values of most of them are the server's to judge."""
    inner = _refer("json_schema")
    types = {"enum": list(JSON_TYPES)}
    return {
        "type": ["object", "boolean"],
        "properties": {
            **dict.fromkeys(sorted(VALUE_KEYWORDS), True),
            **dict.fromkeys(sorted(SCHEMA_KEYWORDS), inner),
            **{word: {"items": inner} for word in sorted(SCHEMA_LIST_KEYWORDS)},
            **{word: {"additionalProperties": inner} for word in sorted(SCHEMA_MAPPING_KEYWORDS)},
            "type": {"anyOf": [types, {"type": "array", "items": types}]},
        },
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }


def _refer(name: str) -> Form:
    return {"$ref": f"#/$defs/{name}"}
