"""``output_type``: a class of the notebook, fields written in the cell, or a JSON schema (C4)."""

import sys
from dataclasses import dataclass
from typing import TypedDict

import pytest

from ensemble_notebook.cell.cell_reader import read_cell
from tests.support.cell import assert_mistakes, read


@dataclass
class Report:
    title: str


class Row(TypedDict):
    title: str


BROKEN = {"type": "object", "properties": {"a": {"enum": []}}}

TASK = "tasks: [{description: x, output_type: %s}]"


def shape(text, namespace=None):
    return read(TASK % text, namespace).definition.tasks[0].output_type


def test_fields_become_a_json_schema():
    assert shape("{title: str, score: int?, tags: [str], people: [{name: text, age: float}], more: {ok: bool}}") == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "score": {"type": ["integer", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "people": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "age": {"type": "number"}},
                    "required": ["name", "age"],
                    "additionalProperties": False,
                },
            },
            "more": {
                "type": "object",
                "properties": {"ok": {"type": "boolean"}},
                "required": ["ok"],
                "additionalProperties": False,
            },
        },
        "required": ["title", "tags", "people", "more"],
        "additionalProperties": False,
    }


def test_fields_may_be_called_as_words_of_schemas_are():
    assert set(shape("{type: str, items: [any], properties: [str]}")["properties"]) == {"type", "items", "properties"}


def test_json_schema_is_taken_as_it_is():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    assert shape("{type: object, properties: {n: {type: integer, minimum: 1}}, required: [n]}") == schema
    assert shape("{properties: {n: {anyOf: [{type: string}, true]}}, x-own: 1}")["x-own"] == 1


@pytest.mark.parametrize("kind", [Report, Row], ids=lambda kind: kind.__name__)
def test_class_of_the_notebook_is_found_by_name(kind):
    assert shape("Kind", {"Kind": kind}) is kind


def test_schema_of_the_notebook_is_found_by_name():
    schema = {"type": "object", "properties": {}}
    assert shape("schema", {"schema": schema}) is schema


def test_dotted_class_is_imported_when_the_cell_is_built(tmp_path, monkeypatch):
    (tmp_path / "cell_shape.py").write_text(
        "class Report:\n    @classmethod\n    def model_validate(cls, value): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    cell = read(TASK % "cell_shape.Report")
    assert "cell_shape" not in sys.modules
    assert cell.build().tasks[0].output_type is sys.modules.pop("cell_shape").Report


def test_class_is_taken_on_trust_where_no_notebook_is_known():
    assert read_cell(TASK % "Report").build({"Report": Report}).tasks[0].output_type is Report


def test_familiar_word_of_another_tool_is_read():
    cell = read("tasks: [{description: x, output_pydantic: Report}]", {"Report": Report})
    assert cell.definition.tasks[0].output_type is Report
    assert [notice.message for notice in cell.notices] == ["'output_pydantic' of task 1 is read as 'output_type'."]


@pytest.mark.parametrize(
    "text, told",
    [
        ("«Reprot»", r"no 'Reprot' in this notebook. Did you mean 'Report'\?"),
        ("«three»", "must be a class, fields such as {'title': 'str'}, or a JSON schema, got 3"),
        ("«str»", "takes fields, and this is the text 'str' alone"),
        ("«[str]»", "takes fields, and this is a list alone"),
        ("«Text»", "must not be a scalar alone"),
        ("«{}»", "has no fields"),
        ("{title: «strr»}", r"'strr' is none. Did you mean 'str'\?"),
        ("{title: «3»}", "takes a type, and '3' is none"),
        ("{«title»: }", "has no value"),
        ("{tags: «[]»}", "is a list: write the one type of its items in it"),
        ("{tags: «[str, int]»}", "is a list"),
        ("{tags: [«str?»]}", "an item of a list can't be missing"),
        ("{people: [{name: «sr»}]}", "the field 'name' takes a type"),
        ("{type: object, «propertes»: {}}", r"is no keyword of JSON schemas. Did you mean 'properties'\?"),
        ("{type: object, properties: {a: {type: «strin»}}}", r"'strin' is no type of JSON. Did you mean 'string'\?"),
        ("{type: object, properties: {a: «string»}}", "'a' takes a JSON schema, and this is the text 'string'"),
        ("{type: object, properties: {a: {items: {«minimun»: 1}}}}", r"Did you mean 'minimum'\?"),
        ("{type: object, required: «true»}", 'true is not of type "array"'),
        ("{type: object, properties: {a: {maximum: «x»}}}", 'output_type.*: "x" is not of type "number"'),
        ("{type: object, properties: {a: {pattern: «'('»}}}", "is no regular expression"),
        ("{type: object, properties: {a: {$ref: «'#/$defs/b'»}}}", "Pointer '/.defs/b' does not exist"),
        ("{type: object, properties: {a: {enum: «[]»}}}", "no value fits 'enum'"),
        ("{type: object, properties: {a: {minimum: 5, maximum: «3»}}}", "no value fits both 'minimum' and 'maximum'"),
        ("{properties: {a: {items: {enum: [b], const: «c»}}}}", "no value fits both 'enum' and 'const'"),
        ("{properties: {a: false}, required: «[a]»}", "no value fits both 'properties' and 'required'"),
        ("«broken»", "is a JSON schema with a mistake: at properties.a.enum, no value fits 'enum'"),
    ],
)
def test_mistake_in_a_shape_is_shown_in_its_place(text, told):
    assert_mistakes(TASK % text, told, namespace={"Report": Report, "three": 3, "Text": str, "broken": BROKEN})
