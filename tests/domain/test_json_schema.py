"""What is wrong with a JSON schema, and where (E16): what is none, and what no value fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from ensemble_notebook import Task, ValidationError
from ensemble_notebook.domain.definitions.json_schema import find_kind, find_schema_faults


def made_of(field: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": field}, **fields}


@pytest.mark.parametrize(
    "schema, path, message",
    [
        (made_of({}, required=True), ("required",), 'true is not of type "array".'),
        (made_of({"maximum": "x"}), ("properties", "a", "maximum"), '"x" is not of type "number".'),
        (made_of({"minLength": -1}), ("properties", "a", "minLength"), "-1 is less than the minimum of 0."),
        (made_of({"pattern": "("}), ("properties", "a", "pattern"), '"(" is no regular expression.'),
        (made_of(3), ("properties", "a"), '3 is not of types "boolean", "object".'),
        (made_of({"$ref": "#/$defs/no"}), ("properties", "a", "$ref"), "Pointer '/$defs/no' does not exist."),
        (
            made_of({"items": {"$ref": "http://127.0.0.1:9/x"}}),
            ("properties", "a", "items", "$ref"),
            "http://127.0.0.1:9/x is not fetched; put its definitions under $defs.",
        ),
        ({"type": "object", "$schema": "http://127.0.0.1:9/x"}, ("$schema",), "Unknown meta-schema"),
        (made_of({"enum": {1, 2}}), (), "ValueError: Unsupported type: 'set'"),
    ],
)
def test_what_is_no_schema_is_told_with_its_place(schema: Any, path: tuple[Any, ...], message: str) -> None:
    (fault,) = find_schema_faults(schema)
    assert (fault.path, fault.message.startswith(message)) == (path, True)


@pytest.mark.parametrize(
    "schema, path, words",
    [
        (made_of({"enum": []}), "properties a enum", "'enum'"),
        (made_of({"minimum": 5, "maximum": 3}), "properties a maximum", "both 'minimum' and 'maximum'"),
        (made_of({"type": "integer", "minimum": 0.2, "maximum": 0.8}), "properties a maximum", "both 'minimum'"),
        (made_of({"exclusiveMinimum": 3, "maximum": 3}), "properties a exclusiveMinimum", "both"),
        (made_of({"minLength": 5, "maxLength": 3}), "properties a maxLength", "both 'minLength' and 'maxLength'"),
        (made_of({"minItems": 5, "maxItems": 3}), "properties a maxItems", "both 'minItems' and 'maxItems'"),
        (made_of({"minProperties": 5, "maxProperties": 3}), "properties a maxProperties", "both"),
        (made_of({"const": 1, "enum": [2]}), "properties a const", "both 'enum' and 'const'"),
        (made_of({"type": "string", "enum": [1]}), "properties a enum", "'enum'"),
        (made_of({"type": "array", "items": {"enum": []}}), "properties a items enum", "'enum'"),
        (made_of({"anyOf": [{"enum": []}, {"type": "string"}]}), "properties a anyOf 0 enum", "'enum'"),
        (made_of({"allOf": [{"type": "string"}, {"type": "integer"}]}), "properties a allOf 1 type", "'type'"),
        (made_of(False, required=["a"]), "required", "both 'properties' and 'required'"),
        ({"type": "object", "required": ["b"], "additionalProperties": False}, "required", "both"),
        (
            made_of({"$ref": "#/$defs/n"}, required=["a"], **{"$defs": {"n": {"type": "number", "enum": ["x"]}}}),
            "$defs n enum",
            "'enum'",
        ),
        (made_of({"$ref": "#"}, required=["a"]), "", "it: it needs itself inside itself"),
    ],
)
def test_what_no_value_fits_is_told_at_the_last_of_the_words_that_exclude_each_other(
    schema: Any, path: str, words: str
) -> None:
    (fault,) = find_schema_faults(schema)
    assert (" ".join(map(str, fault.path)), fault.message.startswith(f"no value fits {words}")) == (path, True)


@pytest.mark.parametrize(
    "schema",
    [
        made_of({"type": "integer", "minimum": 3, "maximum": 3}),
        made_of(False),
        made_of({"$ref": "#"}),
        made_of({"not": {"enum": []}}),
        made_of({"if": {"const": 3}, "then": {"minimum": 1}}),
        made_of({"const": {"minimum": 5, "maximum": 3}}),
        made_of({"default": {"enum": []}, "x-own": 1}),
        {"type": "object", "properties": {"minimum": {"type": "integer"}, "maximum": {"enum": [1]}}},
        {
            "type": "object",
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"a": {"type": "null"}},
        },
    ],
)
def test_a_schema_that_a_value_fits_has_no_fault(schema: dict[str, Any]) -> None:
    assert find_schema_faults(schema) == []


BOUNDS = {"minimum": st.integers(-3, 3), "maximum": st.integers(-3, 3), "multipleOf": st.integers(1, 4)}
WORDS = {**BOUNDS, "enum": st.lists(st.integers(-3, 3), max_size=3), "const": st.integers(-3, 3)}


@given(st.fixed_dictionaries({"type": st.just("integer")}, optional=WORDS))
def test_a_fault_is_told_where_no_integer_fits_and_only_there(field: dict[str, Any]) -> None:
    fits = any(validator_for(field).is_valid(number) for number in range(-12, 13))
    assert bool(find_schema_faults(made_of(field))) is not fits


def test_a_faulty_schema_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ValidationError) as caught:
        Task(description="x", output_type=made_of({"enum": [], "pattern": "x"}, required=["a"]))
    told = "Task output_type is a JSON schema with a mistake: at properties.a.enum, no value fits 'enum'. Change it."
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "schema, kind",
    [
        ({"$ref": "#/$defs/Far"}, "integer"),
        ({"$ref": "#/$defs/Itself"}, None),
        ({"$ref": "#/$defs/There"}, None),
        ({"anyOf": [{"$ref": "#/$defs/Choice"}, {"type": "null"}]}, None),
        ({"$ref": "#/$defs/Tree"}, "object"),
        ({"$ref": "#/$defs/Nowhere"}, None),
    ],
)
def test_the_kind_of_a_schema_that_leads_to_itself_is_found_or_none(schema: dict[str, Any], kind: str | None) -> None:
    definitions = {
        "Far": {"$ref": "#/$defs/Near"},
        "Near": {"type": "integer"},
        "Itself": {"$ref": "#/$defs/Itself"},
        "There": {"$ref": "#/$defs/Back"},
        "Back": {"$ref": "#/$defs/There"},
        "Choice": {"anyOf": [{"$ref": "#/$defs/Choice"}, {"type": "string"}]},
        "Tree": {"type": "object", "properties": {"child": {"$ref": "#/$defs/Tree"}}},
    }
    assert find_kind(schema, {"$defs": definitions}) == kind
