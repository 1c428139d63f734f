"""What a plan shows before anything runs (E61)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import Agent, Condition, Ensemble, ExecutionPlan, Phase, PhaseReview, Review, ReviewRequest, Task
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import say

SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
CELL = """
agents:
  cook: {goal: Cook, llm: scripted, max_retries: 5}
  net: {goal: Help, llm: scripted}
phases:
  sort:
    tasks: [{name: triage, description: Sort, agent: cook, output_type: place}]
    review: {by: decide, max_retries: 3}
  urgent:
    after: sort
    when: {triage: {contains: urgent}}
    tasks: [{name: cook, description: Cook, agent: cook, fallback: net, review: before}]
  rest:
    after: sort
    tasks:
      - {name: rest, description: Rest, handler: idle}
      - {name: sleep, description: Sleep, handler: idle, when: {rest: {contains: tired}}}
"""


def decide(request: ReviewRequest) -> Any:
    """Answer in place of a person."""


def plan_in_python() -> ExecutionPlan:
    """A plan of an ensemble with all of it."""
    cook = Agent(role="cook", goal="Cook", llm="scripted", max_retries=5)
    net = Agent(role="net", goal="Help", llm="scripted")
    triage = Task.of("Sort", name="triage", agent=cook, output_type=SCHEMA)
    meal = Task.of("Cook", name="cook", agent=cook, fallback=net, review=Review("before"))
    tired = Condition(source="rest", contains="tired")
    idle = say("idle")
    phases = [
        Phase.of("sort", triage, review=PhaseReview(decide, max_retries=3)),
        Phase.of("urgent", meal, after=["sort"], when=Condition(source="triage", contains="urgent")),
        Phase.of(
            "rest",
            Task.of("Rest", name="rest", handler=idle),
            Task.of("Sleep", name="sleep", handler=idle, when=tired),
            after=["sort"],
        ),
    ]
    return Ensemble(phases=phases).plan()


def plan_in_a_cell() -> ExecutionPlan:
    """The same in a cell."""
    names = {"decide": decide, "idle": say("idle"), "place": SCHEMA}
    cell = read_cell(CELL, names)
    return cell.build(names).plan(cell.inputs)


@pytest.mark.parametrize("make", [plan_in_python, plan_in_a_cell])
def test_e61_a_plan_shows_conditions_retries_fallback_review_and_typed_output(make: Any) -> None:
    plan = make()
    plain = plan.to_dict()
    tasks = {each["name"]: each for each in plain["tasks"]}
    assert tasks["triage"]["settings"]["output_type"] == "JSON schema"
    assert (tasks["triage"]["max_retries"], tasks["rest"]["max_retries"]) == (5, 0)
    assert tasks["cook"]["settings"] == {"fallback": "net", "review": "before"}
    assert tasks["sleep"]["when"] == ["rest contains 'tired'"]
    assert {each["name"]: each["settings"] for each in plain["phases"]} == {
        "sort": {"review": "by decide, 3 retries"},
        "urgent": {"when": "triage contains 'urgent'"},
        "rest": {},
    }
    bundle = plan._repr_mimebundle_()
    for said in (
        "review by decide, 3 retries",
        "max_retries 5, output_type JSON schema",
        "fallback net, review before",
    ):
        assert said in bundle["text/plain"]
        assert said in bundle["text/html"]
    for condition in ("when triage contains 'urgent'", "when rest contains 'tired'"):
        assert condition in bundle["text/plain"]
