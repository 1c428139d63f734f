"""Values read from what a model wrote, and what is said about those that can't be (E16)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
from decimal import Decimal
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from ensemble_notebook.engine.agent.structured_output import MOST_VALUES, get_output_format


class Verdict(BaseModel):
    title: str
    score: int = Field(ge=0, le=10)


@dataclasses.dataclass
class Place:
    name: str
    tags: list[str]


class Trip(TypedDict):
    place: Place
    days: int


SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "Tides", "score": 7}',
        '```json\n{"title": "Tides", "score": 7}\n```',
        'Here it is:\n\n```\n{"title": "Tides", "score": 7}\n```\nI hope it helps.',
        'Sure! {"title": "Tides", "score": 7} is my answer.',
        'I thought of {x} and [1, but {"title": "Tides", "score": 7}',
        '{"note": "first"} and then {"title": "Tides", "score": 7}',
        '{"title": "Tides",\n "score": "7"}',
    ],
)
def test_a_value_is_read_from_a_fence_the_whole_text_or_prose(text: str) -> None:
    assert get_output_format(Verdict).read(text) == Verdict(title="Tides", score=7)


def test_every_kind_of_type_is_read() -> None:
    place = {"name": "Brest", "tags": ["sea"]}
    assert get_output_format(Place).read(json.dumps(place)) == Place("Brest", ["sea"])
    assert get_output_format(Trip).read(json.dumps({"place": place, "days": 2})) == {
        "place": Place("Brest", ["sea"]),
        "days": 2,
    }
    assert get_output_format(SCHEMA).read('{"city": "Brest"}') == {"city": "Brest"}


@pytest.mark.parametrize(
    "kind, text, fault",
    [
        (Verdict, "No idea.", "it holds no complete JSON value"),
        (Verdict, '{"title": "Tides", "score": ', "it holds no complete JSON value"),
        (Verdict, '{"title": "Tides"}', "score: Field required"),
        (Verdict, '{"title": "Tides", "score": 11}', "score: Input should be less than or equal to 10"),
        (Trip, '{"place": {"name": "x", "tags": 3}, "days": 1}', "place.tags: Input should be a valid list"),
        (SCHEMA, "{}", 'the value: "city" is a required property'),
        (SCHEMA, '{"city": 3}', 'city: 3 is not of type "string"'),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(kind: Any, text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        get_output_format(kind).read(text)
    assert str(caught.value) == fault


def test_a_schema_has_a_title_and_stands_in_the_instructions() -> None:
    made = get_output_format(SCHEMA)
    assert made.schema == {"title": "Output", "type": "object", **SCHEMA}
    assert json.dumps(made.schema, indent=2) in made.instructions
    assert get_output_format(Verdict) is get_output_format(Verdict)


class Options(BaseModel):
    city: str | None = None
    days: int = 3


OPEN = {"type": "object"}
TIDES = Verdict(title="Tides", score=7)


@pytest.mark.parametrize(
    "kind, text, value",
    [
        (Verdict, 'So {"title": "Tides", "score": 7}.\n```json\n{"score": 7, "title": "Tides"}\n```', TIDES),
        (Verdict, '{"title": "Tides", "score": 7} or {"title": "Tides", "score": "7"}', TIDES),
        (Options, 'Without input it gives {}. Mine: {"city": "Brest"}', Options(city="Brest")),
        (Options, '{"city": "Brest"} and {"city": "Brest", "days": 3}', Options(city="Brest")),
        (Options, "As in [1], I have none: {}", Options()),
        (OPEN, '{"a": NaN}\n```\n{"a": NaN}\n```'.replace("NaN", "1.5"), {"a": 1.5}),
        (OPEN, "1. [1] says so; [2] not. {}", {}),
        (Verdict, '{"title": "{title: Waves}", "score": 7}', Verdict(title="{title: Waves}", score=7)),
        (Verdict, 'Where {sea: blue}: {"title": "Tides", "score": 7}', TIDES),
    ],
)
def test_equal_values_are_one_and_an_empty_one_is_none_beside_another(kind: Any, text: str, value: Any) -> None:
    assert get_output_format(kind).read(text) == value


@pytest.mark.parametrize(
    "kind, text, why",
    [
        (Verdict, '{"title": "Tides", "score": 7}\n```\n{"title": "Tides", "score": 8}\n```', "all of them fit"),
        (Verdict, '{"title": "Tides", "score": 7}{"title": "Waves", "score": 7}', "all of them fit"),
        (Verdict, '{"title": "Tides", "score": 7}, no: {"title": "Tides", "score": "low"}', "one does not fit .score:"),
        (Verdict, '{"title": "Tides", "score": 7}, no: {"score": 0}', "one does not fit .title: Field required"),
        (
            Verdict,
            """It says {"title": "Tides", "score": 7}, mine: {'title': 'Tides', 'score': 0}""",
            "one does not fit .title:",
        ),
        (
            Verdict,
            'It says {"title": "Tides", "score": 7}, mine: {score: 0}',
            "one does not fit .score: it stands without",
        ),
        (SCHEMA, '{"city": "Brest"} {"city": null}', "one does not fit .city: null is not of type"),
        (OPEN, '{"a": 1} {"a": 2}', "all of them fit"),
    ],
)
def test_values_that_differ_are_no_answer(kind: Any, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^it holds several JSON values that differ, and {why}.*write only the one"):
        get_output_format(kind).read(text)


def test_very_many_values_are_no_answer_e67() -> None:
    text = '{"a": 1} ' + " ".join(f"[{number}]" for number in range(MOST_VALUES))
    with pytest.raises(ValueError, match="it holds more than 1,000 JSON values; write only one"):
        get_output_format(OPEN).read(text)
    assert get_output_format(OPEN).read('{"a": 1} [1]' * 5000) == {"a": 1}


@given(st.text())
def test_no_text_leads_to_anything_but_a_value_or_a_fault(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(get_output_format(SCHEMA).read(text)["city"], str)


@given(st.fixed_dictionaries({"title": st.text(), "score": st.integers(0, 10)}), st.text(alphabet="abc .,\n"))
def test_a_value_in_any_prose_without_braces_comes_back(value: dict[str, Any], prose: str) -> None:
    assert get_output_format(Verdict).read(f"{prose}{json.dumps(value)}{prose}") == Verdict(**value)


def test_a_long_run_of_brackets_is_given_up_soon() -> None:
    with pytest.raises(ValueError, match="no complete JSON value"):
        get_output_format(SCHEMA).read("[" * 20_000)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/place.json", "file:///etc/hostname"])
def test_a_schema_elsewhere_is_not_fetched(address: str) -> None:
    with pytest.raises(Exception, match="not fetched; put its definitions under"):
        get_output_format({"type": "object", "properties": {"place": {"$ref": address}}})


@dataclasses.dataclass
class Bill:
    """Amounts that no float holds."""

    total: Decimal
    parts: list[Decimal | None] = dataclasses.field(default_factory=list)
    share: float = 0.0
    note: Any = None


class BillModel(BaseModel):
    """The same as a model of pydantic."""

    total: Decimal
    parts: list[Decimal | None] = []


class BillDict(TypedDict):
    """The same as a dict."""

    total: Decimal
    parts: list[Decimal | None]


DIGITS = "12345678901234567.890123456789"


@pytest.mark.parametrize("kind", [Bill, BillModel, BillDict])
@pytest.mark.parametrize("text", ["{}", "```json\n{}\n```", "It comes to {}, in all."])
def test_decimals_have_every_digit_of_the_reply_e16(kind: Any, text: str) -> None:
    reply = text.replace("{}", f'{{"total": {DIGITS}, "parts": [1e400, 0.1, null, 9007199254740993]}}')
    found = get_output_format(kind).read(reply)
    total, parts = (found["total"], found["parts"]) if isinstance(found, dict) else (found.total, found.parts)
    assert total == Decimal(DIGITS)
    assert parts == [Decimal("1e400"), Decimal("0.1"), None, Decimal(9007199254740993)]


def test_decimals_of_a_reply_that_was_cut_off_have_every_digit_e58() -> None:
    assert get_output_format(Bill).read_whole(f'{{"total": {DIGITS}}}').total == Decimal(DIGITS)


def test_other_numbers_of_a_reply_are_floats_as_ever_e16() -> None:
    found = get_output_format(Bill).read(f'{{"total": 1, "share": {DIGITS}, "note": {DIGITS}}}')
    assert (type(found.share), found.share) == (float, float(DIGITS))
    assert (found.note, str(found.note)) == (float(DIGITS), DIGITS)
    assert str(pickle.loads(pickle.dumps(found)).note) == DIGITS
    assert json.dumps(found.note) == json.dumps(float(DIGITS))
    plain = get_output_format({"type": "object", "properties": {"n": {"type": "number"}}}).read(f'{{"n": {DIGITS}}}')
    assert type(plain["n"]) is float
