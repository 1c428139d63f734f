"""Conditions (E33)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import ValidationError

TRIAGE = Task.of("Read it")


def refusal(make: Any = Condition, **fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make(**fields)
    return str(caught.value)


def is_short(output: Any) -> bool:
    return len(output.raw) < 80


@pytest.mark.parametrize(
    "fields, test",
    [
        ({"equals": "yes"}, "equals 'yes'"),
        ({"equals": ""}, "equals ''"),
        ({"contains": "urgent"}, "contains 'urgent'"),
        ({"matches": "^no$"}, "matches '^no$'"),
        ({"matches": re.compile("x", re.IGNORECASE)}, "matches 'x'"),
        ({"predicate": is_short}, "predicate is_short"),
        ({"default": True}, "default"),
    ],
    ids=["equals", "blank", "contains", "matches", "compiled", "predicate", "default"],
)
@pytest.mark.parametrize("source", ["triage", TRIAGE], ids=["name", "task"])
def test_a_condition_makes_one_test_of_one_task(source: Any, fields: dict[str, Any], test: str) -> None:
    condition = Condition(source, **fields)
    assert (condition.source, condition.test) == (source, test)
    assert repr(condition) == f"Condition({source!r}, {test})"


def test_a_condition_has_exactly_one_test() -> None:
    tests = "A Condition has exactly one of equals, contains, matches, predicate, default"
    assert refusal(source="triage") == f"{tests}; this one has none."
    assert refusal(source="triage", equals="a", default=True) == f"{tests}; this one has equals and default."


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"source": 3, "default": True}, "Condition source must be a task or a name, got int."),
        ({"equals": 3}, "Condition equals must be text, got int."),
        ({"contains": ["a"]}, "Condition contains must be text, got list."),
        ({"matches": "("}, "Condition matches must be a regular expression, and '(' is none: "),
        ({"matches": 3}, "Condition matches must be a regular expression, and 3 is none: "),
        ({"predicate": 3}, "Condition predicate must be a function (TaskOutput) -> bool, got 3."),
        ({"predicate": str}, "Condition predicate must be a function (TaskOutput) -> bool, got <class 'str'>."),
        ({"default": "yes"}, "Condition default must be True or False, got 'yes'."),
    ],
    ids=str,
)
def test_what_is_no_test_is_refused(fields: dict[str, Any], told: str) -> None:
    assert refusal(**{"source": "triage", **fields}).startswith(told)


@pytest.mark.parametrize(
    "make",
    [lambda when: Task.of("x", when=when), lambda when: Phase.of("p", TRIAGE, when=when)],
    ids=["task", "phase"],
)
def test_conditions_of_tasks_and_phases_become_a_tuple(make: Any) -> None:
    one, two = Condition("triage", default=True), Condition("triage", equals="x")
    assert make(None).when == ()
    assert make(one).when == (one,)
    assert make([one, two]).when == (one, two)


def test_a_when_of_something_else_shows_how_it_is_written() -> None:
    example = "Condition('triage', contains='urgent') or {'triage': {'contains': 'urgent'}}"
    fields = {"description": "x", "expected_output": "y"}
    assert refusal(Task, **fields, when=["a"]) == f"Task when must be conditions, such as {example}; got 'a'."
    assert refusal(Task, **fields, when="a") == f"Task when must be conditions, such as {example}; got 'a'."
