"""The cell language as a JSON Schema, for editors: ``ensemble-cell.schema.json`` (C22).

Made from the vocabulary that cells are read by, so that both know the same keys, words and short forms. It says what
can be said of the data of a cell: forms, keys and kinds of values. Names, references and pitfalls are the reader's.
"""

from __future__ import annotations

import json
import re
from enum import Enum, StrEnum
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.reading.inline_types import (
    JSON_TYPES,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAPPING_KEYWORDS,
    VALUE_KEYWORDS,
)
from ensemble_notebook.cell.spellings import ASYNC_EXECUTION
from ensemble_notebook.cell.vocabulary import Key, SectionSchema, ValueKind
from ensemble_notebook.domain.definitions.output_type import NULL_WORDS, TYPE_WORDS
from ensemble_notebook.models.model_kinds import list_examples

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TITLE: Final = "A cell of ensemble-notebook"
_TEXT: Final[Form] = {"type": "string"}
_NUMBER: Final[Form] = {"type": "number"}
_WHOLE: Final[Form] = {"type": "integer"}
_FLAG: Final[Form] = {"type": "boolean"}
_MAPPING: Final[Form] = {"type": "object"}
_TEXTS: Final[Form] = {"type": "array", "items": _TEXT}
_ONE_OR_MORE: Final[Form] = {"anyOf": [_TEXT, {**_TEXTS, "uniqueItems": True}]}
_NAME: Final[Form] = {"type": ["string", "number"], "pattern": "^[^,]*$"}
"""A task may be called 1; several names in one text are a list that lost its brackets."""
_NAMES: Final[Form] = {
    "anyOf": [_NAME, {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "uniqueItems": True}]
}


def _refer(name: str) -> Form:
    return {"$ref": f"#/$defs/{name}"}


def _any_of(*forms: Form) -> Form:
    return {"anyOf": list(forms)}


def _one_or_list(form: Form) -> Form:
    return _any_of(form, {"type": "array", "items": form})


_AGENT_WITH_ROLE: Final[Form] = {**_refer("agent"), "required": ["role"]}
_FORMS: Final[dict[ValueKind, Form]] = {
    **dict.fromkeys((ValueKind.TEXT, ValueKind.CHOICE, *vocabulary.SINGLE_NAMES), _TEXT),
    **dict.fromkeys((ValueKind.NUMBER, ValueKind.SHARE, ValueKind.SECONDS, *vocabulary.MONEY), _NUMBER),
    ValueKind.WHOLE: _WHOLE,
    ValueKind.FLAG: _FLAG,
    ValueKind.SCALAR: {"type": ["string", "number", "boolean"]},
    **dict.fromkeys((ValueKind.INPUTS, ValueKind.EXTRAS), _MAPPING),
    ValueKind.TEXTS: _any_of(_TEXT, _TEXTS),
    **dict.fromkeys(vocabulary.LISTS_OF_NAMES, _NAMES),
    ValueKind.TOOLS: _any_of(
        _NAME,
        _refer("reviewed_tool"),
        {
            "type": "array",
            "items": _any_of({"type": ["string", "number", "boolean"]}, _refer("reviewed_tool")),
            "uniqueItems": True,
        },
    ),
    **dict.fromkeys(vocabulary.NAMES_OR_ONE, _ONE_OR_MORE),
    ValueKind.WORKER: _any_of(_TEXT, _AGENT_WITH_ROLE),
    ValueKind.MODEL: _any_of({**_TEXT, "examples": [*list_examples()]}, _refer("llm")),
    ValueKind.OUTPUT_TYPE: _refer("output_type"),
    ValueKind.AGENTS: _any_of(
        {"type": "object", "additionalProperties": _refer("agent")},
        {"type": "array", "items": _AGENT_WITH_ROLE},
    ),
    ValueKind.TASKS: _any_of(_refer("chain"), _refer("graph")),
    ValueKind.PHASES: {"type": "object", "minProperties": 1, "additionalProperties": _refer("phase_or_tasks")},
    **{kind: _refer(vocabulary.VALUE_SECTIONS[kind].name) for kind in vocabulary.PARTS},
    ValueKind.RATE: _any_of({**_TEXT, "examples": ["60/min", "2 per second"]}, _refer("rate")),
    ValueKind.BUDGET: _any_of({**_TEXT, "examples": ["$0.50", "$0.50, 20k tokens, 50 calls"]}, _refer("budget")),
    ValueKind.WHEN: _one_or_list(_refer("conditions")),
    ValueKind.REVIEW: _one_or_list(_refer("gate")),
    ValueKind.PHASE_REVIEW: _refer("phase_review_or_reviewer"),
    ValueKind.REVIEWER: _any_of(_TEXT, _refer("task")),
    ValueKind.STORE: {"type": ["boolean", "string"]},
    ValueKind.CAPS: {"type": "object", "additionalProperties": _WHOLE},
    ValueKind.STAGES: {"type": "array", "items": _ONE_OR_MORE},
    ValueKind.ITEM_SOURCE: {"type": ["string", "array"]},
}
FAMILIAR_FORMS: Final[dict[str, Form]] = {"max_rpm": _NUMBER, "human_input": _FLAG}
"""Words of other tools whose values differ from those of the keys that they mean."""


def make_editor_schema() -> dict[str, Any]:
    """Make the schema of a whole cell, draft 2020-12, of plain values."""
    groups = {f"cell_{word}": group.schema for word, group in vocabulary.CELL.key_groups.items()}
    grouped = [id(schema) for schema in groups.values()]
    review_keys = [{"required": [name]} for name in vocabulary.PHASE_REVIEW.keys]
    review = {"type": "object", "if": {"anyOf": review_keys}, "then": _refer("phase_review"), "else": _refer("task")}
    test = _any_of(_TEXT, _refer("condition"))
    own = {schema.name.replace(" ", "_"): schema for schema in vocabulary.SCHEMAS if id(schema) not in grouped}
    return {
        "$schema": DIALECT,
        "title": _TITLE,
        "description": "What stands below %%ensemble: a list of tasks, or a mapping with tasks or phases.",
        "anyOf": [_refer("chain"), _refer("cell")],
        "$defs": {
            **{name: _make_section_form(schema, name) for name, schema in (own | groups).items()},
            "chain": {"type": "array", "minItems": 1, "items": _refer("text_or_task")},
            "graph": _make_graph_form(),
            "text_or_task": _any_of(_TEXT, _refer("task")),
            "phase_or_tasks": _make_phase_form(),
            "conditions": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": _any_of(*test["anyOf"], {"type": "array", "minItems": 1, "items": test}),
            },
            "gate": _any_of({"const": True}, _make_value_form(vocabulary.REVIEW.keys["timing"]), _refer("review")),
            "phase_review_or_reviewer": _any_of(_TEXT, review),
            **make_type_forms(),
        },
    }


def write_editor_schema() -> str:
    """Write it as the text of its file."""
    return json.dumps(make_editor_schema(), indent=2) + "\n"


# sections


def _make_section_form(schema: SectionSchema, name: str) -> Form:
    """Make the form of a mapping with keys of its own.

    Other tools' spellings are patterns: they are accepted and marked, and no editor proposes them.
    """
    place = f"#/$defs/{name}/properties"
    properties = {name: _make_key_form(key) for name, key in schema.keys.items()}
    properties |= {word: {"$ref": f"{place}/{name}"} for word, name in schema.short_words.items()}
    for word, group in schema.key_groups.items():
        value = _make_value_form(group.schema.keys[group.lead])
        lead = [form for form in value["anyOf"] if "$ref" not in form]  # a mapping has the keys of the group
        properties[word] = {"description": group.meaning, **_any_of(*lead, _refer(f"cell_{word}"))}
    form: Form = {"type": "object", "properties": properties, "additionalProperties": False}
    if spellings := _make_spelling_forms(schema, place):
        form["patternProperties"] = spellings
    if schema.short_words:
        form["dependentSchemas"] = {word: {"properties": {name: False}} for word, name in schema.short_words.items()}
    return form | _make_requirements(schema)


def _make_key_form(key: Key) -> Form:
    form = _make_value_form(key)
    if key.word.is_nullable:
        form = _any_of(form, {"type": "null"})
    description = f"{key.meaning}; without it, {key.word.default}" if key.word.default else key.meaning
    described = {"description": description, **form}
    default = key.default.value if isinstance(key.default, Enum) else key.default
    if not key.word.default and isinstance(default, str | int | float):
        described["default"] = default
    return described


def _make_value_form(key: Key) -> Form:
    """Make the form of a value; the words of enums may be written in either case, as the reader takes them."""
    choices = key.word.choices
    if not choices:
        return _FORMS[key.kind]
    words = [str(each) for each in choices]
    if not isinstance(choices[0], StrEnum):
        return {"enum": words}
    patterns = ["".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in word) for word in words]
    return _any_of({"enum": words}, {"type": "string", "pattern": f"^({'|'.join(patterns)})$"})


def _make_spelling_forms(schema: SectionSchema, place: str) -> Form:
    """Make the forms of camelCase and of other tools' words for the keys."""
    patterns = {
        _make_pattern(name): {"$ref": f"{place}/{name}", "deprecated": True}
        for name in schema.keys
        if _to_camel_case(name) != name
    }
    for word, name in schema.familiar_words.items():
        meant = FAMILIAR_FORMS.get(word, {"$ref": f"{place}/{name}"})
        patterns[_make_pattern(word, is_own=False)] = {
            **meant,
            "description": f"Read as {name}.",
            "deprecated": True,
        }
    if schema is vocabulary.TASK:
        patterns[_make_pattern(ASYNC_EXECUTION, is_own=False)] = {**_FLAG, "deprecated": True}
    return patterns


def _make_pattern(word: str, *, is_own: bool = True) -> str:
    camel = _to_camel_case(word)
    forms = [camel] if is_own else dict.fromkeys((word, camel))
    return f"^({'|'.join(forms)})$"


def _to_camel_case(word: str) -> str:
    first, *others = word.split("_")
    return first + "".join(each.title() for each in others)


def _make_requirements(schema: SectionSchema) -> Form:
    """Say which keys can't be left out, in whichever spelling they are written."""
    if schema is vocabulary.CELL:
        return {"oneOf": [{"required": ["tasks"]}, {"required": ["phases"]}]}
    if schema is vocabulary.CONDITION:
        return {
            "if": {"required": ["field"]},
            "then": {"minProperties": 2, "maxProperties": 2},
            "else": {"minProperties": 1, "maxProperties": 1, "properties": {"equals": _TEXT}},
        }
    form: Form = {}
    for key in schema.keys.values():
        spellings = [key.name, _to_camel_case(key.name), *key.word.unless]
        ways = list(dict.fromkeys(spellings))
        if key.is_required and len(ways) == 1:
            form.setdefault("required", []).append(key.name)
        elif key.is_required:
            form.setdefault("allOf", []).append(_any_of(*({"required": [way]} for way in ways)))
    return form


# members and parts that may be written in several forms


def _make_graph_form() -> Form:
    """Tasks by name; a word of the language with a text is a line that has lost its indentation."""
    stray = sorted(vocabulary.WORDS - vocabulary.TASK_NAMES)
    return {
        "type": "object",
        "minProperties": 1,
        "patternProperties": {
            f"^({'|'.join(stray)})$": _refer("task"),
            f"^({'|'.join(sorted(vocabulary.TASK_NAMES))})$": _any_of(
                {"type": "string", "pattern": r"\S\s+\S"}, _refer("task")
            ),
        },
        "additionalProperties": _refer("text_or_task"),
    }


def _make_phase_form() -> Form:
    """A phase with its keys, if one of them stands there, else its tasks."""
    review_keys = [{"required": [name]} for name in vocabulary.PHASE_REVIEW.keys]
    review = _any_of(
        {"type": "object", "anyOf": review_keys},
        {"type": "string", "not": {"pattern": r"\S\s+\S"}},
        {"type": ["boolean", "number"]},
    )
    has_keys = [{"required": [name]} for name in sorted(vocabulary.PHASE_KEYS)]
    return _any_of(
        _refer("chain"),
        {
            "type": "object",
            "if": {"anyOf": [*has_keys, {"required": ["review"], "properties": {"review": review}}]},
            "then": _refer("phase"),
            "else": _refer("graph"),
        },
    )


# Says of the data of a cell what `inline_types` says of its nodes.

Form = dict[str, Any]
"""A JSON schema."""

_WORDS: Final = "|".join(map(re.escape, TYPE_WORDS))
_MEMBERS: Final = "|".join(map(re.escape, (*TYPE_WORDS, *NULL_WORDS)))
_CHOICE: Final = rf"(?!\s*({_MEMBERS})\s*(\||\??\s*$))\s*[^|\s][^|]*"
_ONE_TYPE: Final = rf"^\s*({_WORDS})\??\s*$"
_UNION: Final = rf"^\s*({_MEMBERS})(\s*\|\s*({_MEMBERS}))+\??\s*$"
_ENUM: Final = rf"^{_CHOICE}(\|{_CHOICE})+$"
_ONE_NAME: Final = rf"^(?!\s*({_WORDS})\??\s*$)[^|]*$"


def make_type_forms() -> dict[str, Form]:
    """Make the forms of an output type, by the names under which they refer to each other."""
    is_schema = [
        {"properties": {"type": {"const": "object"}}, "required": ["type"]},
        {"properties": {"properties": {"type": "object"}}, "required": ["properties"]},
        {"not": {"propertyNames": {"pattern": "^[^$]"}}},
    ]
    # a mapping that can only be meant as a JSON schema is one; every other one has fields
    inline = {
        "type": "object",
        "if": {"anyOf": is_schema},
        "then": _refer("json_schema"),
        "else": _refer("fields"),
    }
    word = {
        "type": "string",
        "description": "A type, such as str, int?, or yes | no for one of these words.",
        "anyOf": [{"enum": list(TYPE_WORDS)}, *({"pattern": each} for each in (_ONE_TYPE, _UNION, _ENUM))],
    }
    listed = {
        "type": "array",
        "description": "A list of this type.",
        "items": {"allOf": [_refer("field_type"), {"not": {"type": "string", "pattern": r"\?\s*$"}}]},
        "minItems": 1,
        "maxItems": 1,
    }
    return {
        "output_type": {"anyOf": [{"type": "string", "pattern": _ONE_NAME}, inline]},
        "fields": {"type": "object", "minProperties": 1, "additionalProperties": _refer("field_type")},
        "field_type": {"anyOf": [word, _refer("fields"), listed]},
        "json_schema": _make_schema_form(),
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
