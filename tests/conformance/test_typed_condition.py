"""Conditions on a field of a typed output, from Python and from cells (E33, C6)."""

from __future__ import annotations

import dataclasses
import datetime
import re
from enum import Enum, Flag
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from ensemble_notebook import Condition, Ensemble, Task, TaskExecutionError, ValidationError
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.conformance.scene import agent, done, run, say, scripted


class Kind(Enum):
    """Of a ticket."""

    BILLING = "billing"
    OTHER = "other"


class Rights(Flag):
    """That add up."""

    READ = 1
    WRITE = 2


class Place(BaseModel):
    """Where somebody is."""

    city: str


class Ticket(BaseModel):
    """With a field of every sort."""

    category: Kind
    score: float = 3
    is_new: bool = False
    tags: list[str] = ["hot"]
    mood: Literal["praise", "blame"] | int | None = None
    rights: Rights = Rights.READ
    since: datetime.date | None = None
    extra: Any = None
    place: Place | None = None


@dataclasses.dataclass
class Plain:
    """As a dataclass."""

    category: str


class Loose(TypedDict):
    """As a TypedDict."""

    category: str


SCHEMA = {"type": "object", "properties": {"category": {"type": "string"}}, "required": ["category"]}
TICKET = Ticket(category=Kind.BILLING, place=Place(city="Bergen"))


def runs_after(value: Any, output_type: Any, **condition: Any) -> bool:
    """Whether a task runs that has this condition on a task with this output."""
    triage = done("triage", handler=lambda task: value, output_type=output_type)
    output = run(triage, done("answer", when=Condition("triage", **condition)))
    assert [each.reason for each in output.skipped] in ([], ["condition not met"])
    return not output.skipped


@pytest.mark.parametrize(
    "output_type, value",
    [
        (Ticket, TICKET),
        (Plain, Plain("billing")),
        (Loose, {"category": "billing"}),
        (SCHEMA, {"category": "billing"}),
        (None, {"category": "billing"}),
        (None, Plain("billing")),
    ],
    ids=["pydantic", "dataclass", "TypedDict", "JSON schema", "a dict of a handler", "an object of a handler"],
)
def test_e33_a_field_of_every_kind_of_typed_output_is_compared(output_type: Any, value: Any) -> None:
    assert runs_after(value, output_type, field="category", equals="billing")
    assert not runs_after(value, output_type, field="category", equals="other")


@pytest.mark.parametrize(
    "condition, is_met",
    [
        ({"field": "score", "equals": 3}, True),
        ({"field": "score", "equals": "3"}, False),
        ({"field": "score", "equals": True}, False),
        ({"field": "is_new", "equals": False}, True),
        ({"field": "is_new", "equals": 0}, False),
        ({"field": "is_new", "matches": "^false$"}, True),
        ({"field": "category", "contains": "ill"}, True),
        ({"field": "tags", "contains": "hot"}, True),
        ({"field": "tags", "contains": "ho"}, False),
        ({"field": "place.city", "matches": "^B"}, True),
    ],
)
def test_e33_values_are_compared_as_json_has_them(condition: dict[str, Any], is_met: bool) -> None:
    assert runs_after(TICKET, None, **condition) is is_met  # of what no type is known, so that nothing is refused


@pytest.mark.parametrize(
    "condition, told",
    [
        ({"field": "is_new", "equals": "yes"}, "it is True or False, and never equals 'yes'. Did you mean True?"),
        ({"field": "is_new", "equals": "false"}, "and never equals 'false'. Did you mean False?"),
        ({"field": "is_new", "equals": 0}, "it is True or False, and never equals 0."),
        ({"field": "is_new", "contains": "no"}, "and never contains 'no'. Did you mean False?"),
        (
            {"field": "category", "equals": "biling"},
            "it is 'billing' or 'other', and never equals 'biling'. Did you mean",
        ),
        ({"field": "category", "contains": "bilin"}, "and never contains 'bilin'. Did you mean 'billing'?"),
        ({"field": "score", "equals": "3"}, "it is a number, and never equals '3'. Did you mean 3?"),
        ({"field": "score", "equals": True}, "it is a number, and never equals True."),
        (
            {"field": "tags", "equals": "hot"},
            "it is a list, and never equals 'hot'. Test one of its items with contains.",
        ),
        ({"field": "place.city", "equals": 4}, "it is a text, and never equals 4. Did you mean '4'?"),
        (
            {"field": "mood", "equals": "prais"},
            "it is 'praise', 'blame' or a number, and never equals 'prais'. Did you",
        ),
    ],
)
def test_e33_a_test_that_no_value_of_the_type_meets_is_found_before_a_model_is_asked(
    condition: dict[str, Any], told: str
) -> None:
    llm = scripted()
    triage = Task.of("Sort", name="triage", output_type=Ticket)
    with pytest.raises(ValidationError, match=f"^A condition tests the field .*{re.escape(told)}"):
        Ensemble(tasks=[triage, done("a", when=Condition("triage", **condition))], llm=llm).run()
    assert llm.calls == ()


@pytest.mark.parametrize(
    "condition",
    [
        {"field": "is_new", "equals": True},
        {"field": "is_new", "contains": "tru"},
        {"field": "category", "equals": "billing "},
        {"field": "category", "matches": "^bil"},
        {"field": "score", "equals": 3},
        {"field": "score", "contains": "3"},
        {"field": "tags", "contains": "hot"},
        {"field": "mood", "equals": "blame"},
        {"field": "mood", "equals": 7},
        {"field": "rights", "equals": 3},
        {"field": "since", "equals": "2026-11-27"},
        {"field": "extra", "equals": "x"},
    ],
)
def test_e33_a_test_that_some_value_of_the_type_meets_is_accepted(condition: dict[str, Any]) -> None:
    triage = Task.of("Sort", name="triage", output_type=Ticket)
    assert Ensemble(tasks=[triage, done("a", when=Condition("triage", **condition))], llm=scripted()).validate() == ()


TYPED = """
tasks:
  triage: {description: Sort it, output_type: {ok: bool, mood: praise | blame}}
  a: {description: A, when: {triage: [{field: ok, equals: yes}, {field: ok, matches: "("}]}}
"""


def test_e33_a_cell_shows_a_test_that_its_type_can_not_meet_at_its_first_character() -> None:
    with pytest.raises(CellError) as caught:
        read_cell(TYPED, {})
    unmet, broken = caught.value.mistakes
    assert unmet.message == (
        "A condition tests the field 'ok' of task 'triage': it is true or false, and never equals 'yes'. "
        "Did you mean true?"
    )
    line = TYPED.splitlines()[unmet.line - 1]
    assert line[unmet.column - 1 : unmet.end_column - 1] == "yes"
    assert "must be a regular expression" in broken.message  # and no test stands for it that is a mistake, too


def test_e81_a_phase_until_something_that_can_never_be_is_refused_where_that_stands() -> None:
    text = """
phases:
  work:
    tasks:
      check: {description: Check, output_type: {ok: bool, mood: praise | blame}}
    until: [{check: {field: ok, equals: "true"}}, {check: {field: mood, equals: prais}}]
    max_rounds: 3
"""
    with pytest.raises(CellError) as caught:
        read_cell(text, {})
    shown = [text.splitlines()[each.line - 1][each.column - 1 : each.end_column - 1] for each in caught.value.mistakes]
    assert shown == ['"true"', "prais"]
    assert [each.message.rpartition(". ")[2] for each in caught.value.mistakes] == [
        "Did you mean true?",
        "Did you mean 'praise'?",
    ]


def test_e33_a_field_that_may_be_missing_meets_no_test_and_leaves_it_to_the_default() -> None:
    triage = done("triage", handler=say(Ticket(category=Kind.OTHER)), output_type=Ticket)  # type: ignore[arg-type]
    output = run(
        triage,
        done("north", when=Condition("triage", field="place.city", equals="Bergen")),
        done("anywhere", when=Condition("triage", default=True)),
    )
    assert [each.name for each in output.task_outputs] == ["triage", "anywhere"]


@pytest.mark.parametrize(
    "path, told",
    [
        ("categry", "the field 'categry' of task 'triage': its output type has no field 'categry'. Did you mean"),
        ("place.town", "its field 'place' has no field 'town'. Known: 'city'"),
        ("score.low", "its field 'score' has no fields of its own"),
    ],
)
def test_e33_a_field_that_the_output_type_lacks_is_found_before_a_model_is_asked(path: str, told: str) -> None:
    llm = scripted()
    triage = Task.of("Sort", name="triage", output_type=Ticket)
    ensemble = Ensemble(tasks=[triage, done("a", when=Condition("triage", field=path, equals="x"))], llm=llm)
    with pytest.raises(ValidationError, match=told):
        ensemble.run()
    assert llm.calls == ()


def test_e33_a_field_of_a_task_without_an_output_type_is_refused() -> None:
    triage = Task.of("Sort", name="triage", agent=agent())
    with pytest.raises(ValidationError, match="it has no output_type, so its output is one text"):
        Ensemble(tasks=[triage, done("a", when=Condition(triage, field="x", equals="y"))]).validate()


def test_e33_a_handler_without_an_output_type_that_lacks_the_field_fails_what_waits_for_it() -> None:
    triage = done("triage", handler=lambda task: {"category": "billing"})
    with pytest.raises(TaskExecutionError, match=r"There is no field 'categry'\. Did you mean 'category'") as caught:
        run(triage, done("answer", when=Condition("triage", field="categry", equals="billing")))
    assert [each.name for each in caught.value.output.failures] == ["answer"]


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"field": "a..b", "equals": "x"}, "must be a path such as 'category' or 'address.city', got 'a..b'"),
        ({"field": "a", "default": True}, "default looks at the whole output; leave out field='a'"),
        ({"field": "a"}, "exactly one of .* this one has none"),
        ({"equals": 3}, "equals must be text, got int"),
    ],
)
def test_e33_what_a_field_can_not_stand_beside_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Condition("triage", **fields)


CELL = """
llm: model
tasks:
  triage: {description: Sort it, output_type: {category: billing | other, score: int}}
  pay: {description: Pay back, when: {triage: {field: category, equals: billing}}}
  praise: {description: Praise, when: {triage: {field: score, equals: 9}}}
  chat: {description: Chat, when: {triage: default}}
"""


@pytest.mark.parametrize(
    "reply, ran",
    [
        ('{"category": "billing", "score": 1}', "pay"),
        ('{"category": "other", "score": 9}', "praise"),
        ('{"category": "other", "score": 1}', "chat"),
    ],
)
def test_e33_a_cell_routes_by_a_field(reply: str, ran: str) -> None:
    cell = read_cell(CELL, {"model": scripted(reply, "Done.")})
    assert cell.plan.tasks[1].when == ("triage.category equals 'billing'",)
    output = cell.build().run()
    assert [each.name for each in output.task_outputs] == ["triage", ran]
