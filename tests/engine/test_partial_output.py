"""A typed output read from the beginning of a reply (E132)."""

from __future__ import annotations

import datetime
import enum
import itertools
import json
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel

from ensemble_notebook.engine.agent.partial_output import PartialFormat, PartialReader, continues
from ensemble_notebook.engine.agent.structured_output import get_output_format


class Mood(enum.Enum):
    GOOD = "good"
    BETTER = "good enough"


class Cat(BaseModel):
    pet: Literal["cat"]
    lives: int


class Dog(BaseModel):
    pet: Literal["dog"]
    bark: str


class Node(BaseModel):
    name: str
    parts: list[Node] = []


class Report(BaseModel):
    title: str
    score: int
    share: float
    is_good: bool
    mood: Mood
    day: datetime.date | None
    price: Decimal
    code: str = Field(pattern="^[A-Z]{3}$")
    tags: list[Literal["a", "ab"]] = Field(min_length=2)
    pet: Annotated[Cat | Dog, Field(discriminator="pet")]
    other: Cat | str | None
    node: Node


names = st.text(max_size=8)
cats = st.fixed_dictionaries({"pet": st.just("cat"), "lives": st.integers()})
nodes = st.recursive(
    st.fixed_dictionaries({"name": names}),
    lambda inner: st.fixed_dictionaries({"name": names, "parts": st.lists(inner, max_size=2)}),
    max_leaves=3,
)
reports = st.fixed_dictionaries(
    {
        "title": names,
        "score": st.integers(),
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "is_good": st.booleans(),
        "mood": st.sampled_from(["good", "good enough"]),
        "day": st.dates().map(str) | st.none(),
        "price": st.floats(-1e9, 1e9),
        "code": st.sampled_from(["ABC", "XYZ"]),
        "tags": st.lists(st.sampled_from(["a", "ab"]), min_size=2, max_size=3),
        "pet": cats | st.fixed_dictionaries({"pet": st.just("dog"), "bark": names}),
        "other": cats | names | st.none(),
        "node": nodes,
    }
)
FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "at": {"oneOf": [{"type": "integer"}, {"enum": ["now", "nowhere"]}]}},
    "required": ["city", "at"],
}


def read_all(kind: Any, reply: str) -> list[dict[str, Any]]:
    """What is there after each character."""
    reader = PartialReader(PartialFormat(get_output_format(kind)))
    return [reader.read(reply[:end]) for end in range(1, len(reply) + 1)]


def changes(kind: Any, reply: str) -> list[dict[str, Any]]:
    """The same without what is as it was."""
    found = [{}, *read_all(kind, reply)]
    return [later for earlier, later in itertools.pairwise(found) if later != earlier]


@settings(max_examples=40)
@given(reports, st.booleans(), st.sampled_from([None, 1]), st.sampled_from(["{}", "```json\n{}\n```\n", "Here: {}"]))
def test_every_beginning_agrees_with_the_whole_and_only_adds_e132(
    report: dict[str, Any], is_ascii: bool, indent: int | None, around: str
) -> None:
    reply = around.replace("{}", json.dumps(report, ensure_ascii=is_ascii, indent=indent))
    found = read_all(Report, reply)
    for earlier, later in zip([{}, *found], [*found, report], strict=True):
        assert continues(later, earlier)
    assert found[-1] == report
    words = {(each.get("mood", "good"), each.get("code", "ABC"), *each.get("tags", ())) for each in found}
    assert {word for group in words for word in group} <= {"good", "good enough", "ABC", "XYZ", "a", "ab"}
    for each in found:
        for name in ("score", "share", "is_good", "mood", "day", "price", "code"):
            assert name not in each or each[name] == report[name]


def test_a_number_a_truth_and_a_word_are_there_once_they_are_whole_e132() -> None:
    assert changes(FIELDS, '{"at": "nowhere", "city": "Be"}') == [
        {"at": "nowhere"},
        {"at": "nowhere", "city": ""},
        {"at": "nowhere", "city": "B"},
        {"at": "nowhere", "city": "Be"},
    ]
    assert changes(FIELDS, '{"at": -12 }') == [{"at": -12}]
    assert changes(Report, '{"is_good": true, "score": 1e2') == [{"is_good": True}]


@pytest.mark.parametrize(
    "reply, last",
    [
        ('{"title": "a\nb', {"title": "a\nb"}),  # models write line breaks as they are
        ('{"title": "a\\', {"title": "a"}),
        ('{"title": "a\\u00', {"title": "a"}),
        ('{"title": "a\\ud83d', {"title": "a"}),
        ('{"title": "a\ud83d', {"title": "a"}),  # half a character, whose other half is in the next piece
        ('{"title": 5, "score": 3, ', {"score": 3}),
        ('{"pet": {"pet": "cat", "lives": "x', {"pet": {"pet": "cat"}}),
        (
            '{"node": {"name": "a", "parts": [{"name": 1}, {"name": "b"}',
            {"node": {"name": "a", "parts": [{}, {"name": "b"}]}},
        ),
        ('{"tags": ["a", "c", "ab"', {"tags": ["a"]}),
        ('{"unknown": 1, "title": "a', {"title": "a"}),
        ('{"title": "a", "title": "b', {}),
        ('{"title": "a", "score": nope', {}),
        ('{"title": "a", "share": NaN, ', {}),
        ('[{"title": "a"', {}),
        ('{"type": "object", "properties": {"title": {"type": "string"}}} {"title": "a', {"title": "a"}),
        ('See [1] and {x}, {"note": {"title": "no"}} or "{"title": "no"}"; then {"title": "a', {"title": "a"}),
        ('> {"title": "no"}\n{"title": "a', {"title": "a"}),
        ("“" + '{"title": "a', {"title": "a"}),
        ("", {}),
    ],
)
def test_what_is_not_sure_is_absent_e132(reply: str, last: dict[str, Any]) -> None:
    found = read_all(Report, reply)
    assert (found[-1] if found else {}) == last


def test_a_type_of_another_form_than_fields_has_no_beginning_e132() -> None:
    assert changes(RootModel[list[int]], "[1, 2, 3]") == []


def test_recursive_types_and_their_names_are_known_e132() -> None:
    reply = '{"name": "a", "odd": 1, "parts": [{"name": "b"}]}'
    assert changes(Node, reply)[-1] == {"name": "a", "parts": [{"name": "b"}]}


def test_a_schema_may_take_fields_that_it_does_not_name_e132() -> None:
    assert changes(FIELDS, '{"note": [1, 2], "city": "B"}')[-1] == {"note": [1, 2], "city": "B"}
    assert changes({**FIELDS, "additionalProperties": False}, '{"city": "B", "note": 1}')[-1] == {}


def test_a_reply_that_is_deeper_than_anyone_reads_is_passed_over_e132() -> None:
    reader = PartialReader(PartialFormat(get_output_format(Node)))
    assert reader.read('{"name": "", "parts": [' * 2000) == {}
