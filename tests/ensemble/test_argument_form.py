"""The arguments of a call as a form: what its fields are, and what somebody has written into them (W165)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook.ensemble.argument_form import LONGEST_TEXT, LONGEST_TEXTS, make_form, read_form

SCHEMA: dict[str, Any] = {
    "properties": {
        "order": {"type": "string", "description": "Its number."},
        "amount": {"type": "integer", "minimum": 1},
        "reason": {"enum": ["late", "broken"]},
        "urgent": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "note": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "to": {"$ref": "#/$defs/Place"},
        "level": {"$ref": "#/$defs/Level"},
    },
    "required": ["order", "amount"],
    "$defs": {
        "Place": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
        "Level": {"enum": [1, 2], "type": "integer"},
    },
}
HUGE = 12345678901234567890123
ARGUMENTS: dict[str, Any] = {"order": "A\u202e7", "amount": HUGE, "to": {"town": "Bath"}, "level": 2}


def test_each_field_takes_what_the_schema_says_w165() -> None:
    fields = {each["name"]: each for each in make_form(ARGUMENTS, SCHEMA)}
    assert fields["order"] == {
        "name": "order",
        "kind": "text",
        "text": "A[U+202E]7",
        "about": "Its number.",
        "is_required": True,
    }
    assert (fields["amount"]["kind"], fields["amount"]["text"]) == ("number", str(HUGE))
    assert fields["reason"] == {"name": "reason", "kind": "choice", "text": None, "choices": ["late", "broken"]}
    assert fields["urgent"]["choices"] == ["true", "false"]
    assert (fields["level"]["choices"], fields["level"]["text"]) == (["1", "2"], "2")
    assert (fields["to"]["kind"], fields["to"]["text"]) == ("json", '{"town": "Bath"}')


def test_what_nobody_changed_stays_what_it_was_to_the_last_digit_w165() -> None:
    changes = {"reason": "broken", "lines": "[1, 2]", "level": "1", "urgent": "true"}
    edited, faults = read_form(changes, ARGUMENTS, SCHEMA)
    assert (edited, faults) == (
        {**ARGUMENTS, "reason": "broken", "lines": [1, 2], "level": 1, "urgent": True},
        {},
    )
    assert read_form({"order": "B[U+202E]8"}, ARGUMENTS, SCHEMA)[0]["order"] == "B\u202e8"
    assert read_form({"level": ""}, ARGUMENTS, SCHEMA) == ({k: v for k, v in ARGUMENTS.items() if k != "level"}, {})


@pytest.mark.parametrize(
    "changes, place, fault",
    [
        ({"amount": "many"}, "amount", "A number is needed, such as 12 or 0.5."),
        ({"amount": "true"}, "amount", "A number is needed, such as 12 or 0.5."),
        ({"amount": "NaN"}, "amount", "A number is needed, such as 12 or 0.5."),
        ({"amount": ""}, "amount", "A number is needed, such as 12 or 0.5."),
        ({"amount": "0.5"}, "amount", '0.5 is not of type "integer"'),
        ({"amount": "0"}, "amount", "0 is less than the minimum of 1"),
        ({"reason": "lost"}, "reason", "One of late, broken is needed."),
        ({"lines": "[1, "}, "lines", "This is no JSON: Expecting value: line 1 column 5 (char 4)."),
        ({"lines": '[1, "x"]'}, "lines", '1: "x" is not of type "integer"'),
        ({"to": '{"town": 5}'}, "to", 'town: 5 is not of type "string"'),
        ({"nothing": "5"}, "", "This can't be edited here."),
        ({"order": 5}, "order", "This can't be edited here."),
    ],
)
def test_a_fault_is_told_at_its_field_w165(changes: dict[str, Any], place: str, fault: str) -> None:
    assert read_form(changes, ARGUMENTS, SCHEMA)[1] == {place: fault}


def test_a_masked_secret_stays_unless_all_of_it_is_written_anew_w165() -> None:
    given = {"order": "A7", "amount": 5, "note": "with sk-abcdefghijklmnopqrstuvwxyz"}
    field = next(each for each in make_form(given, SCHEMA) if each["name"] == "note")
    assert field["text"] == "with ***"
    assert read_form({"amount": "6"}, given, SCHEMA)[0] == {**given, "amount": 6}
    (fault,) = read_form({"note": "with *** now"}, given, SCHEMA)[1].values()
    assert fault == "A secret is masked in it (***): write all of it, or leave it as it was."
    assert read_form({"note": "without"}, given, SCHEMA)[0]["note"] == "without"


def test_a_text_that_is_too_long_is_cut_and_stays_as_it_is_w165() -> None:
    given = {"order": "x" * 1_000_000, "amount": 5}
    field = make_form(given, SCHEMA)[0]
    assert (len(field["text"]), field["left_out"]) == (LONGEST_TEXT, 1_000_000 - LONGEST_TEXT)
    many = make_form({f"k{number}": "x" * LONGEST_TEXT for number in range(300)}, {})
    assert sum(len(each["text"]) for each in many) == LONGEST_TEXTS
    assert read_form({"amount": "6"}, given, SCHEMA) == ({**given, "amount": 6}, {})
    assert read_form({"order": "y"}, given, SCHEMA)[1] == {"order": "This can't be edited here."}


def test_what_the_schema_does_not_name_is_a_field_by_its_value_w165() -> None:
    given = {"a": "x", "b": 1.5, "c": True, "d": None, "e": [1]}
    assert [each["kind"] for each in make_form(given, {})] == ["text", "number", "json", "json", "json"]
    odd = {
        "properties": {"a": True, "b": {"enum": [1, "1"]}, "c": {"$ref": "#/$defs/C"}, "d": {"$ref": "#/$defs/D"}},
        "$defs": {"C": {"$ref": "#/$defs/D"}, "D": {"$ref": "#/$defs/C"}},
    }
    assert [each["kind"] for each in make_form({"a": 1}, odd)] == ["number", "json", "json", "json"]
