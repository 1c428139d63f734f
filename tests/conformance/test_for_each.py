"""E53: a task that runs once for each item of a list, from Python and from cells."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel

from ensemble_notebook import (
    CircularDependencyError,
    Condition,
    Ensemble,
    Phase,
    PhaseReview,
    PromptTemplateError,
    Task,
    ValidationError,
    Workflow,
)
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import agent, done
from tests.support.cell import assert_mistakes, mistakes_of

TIDES = pd.DataFrame({"text": ["low", "high"], "height": [1, 4]})


class Step(BaseModel):
    """One of a plan."""

    title: str
    hours: float = 1


class Steps(BaseModel):
    """With exactly one list."""

    about: str
    steps: list[Step]


class Pair(BaseModel):
    """With two."""

    left: list[str]
    right: list[str]


def check(*tasks: Task, **fields: Any) -> None:
    Ensemble(tasks=tasks, **{"workflow": Workflow.PARALLEL, **fields}).validate()


def for_each(source: Any, description: str = "Do {item}", **fields: Any) -> Task:
    return Task.of(description, name="each", for_each=source, agent=agent(), **fields)


# --- What is refused, and where ---


@pytest.mark.parametrize(
    "source, words",
    [
        ({"a": 1}, "for_each is a mapping, which has no order"),
        (5, "for_each is no list, but a value of type int"),
        (" ", "for_each must not be blank"),
        ("{a} {b}", r'for_each takes one input, "{name}"'),
        ("each", "can't run for each item of itself"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "for_each has several columns called 'a'"),
        (range(3), "for_each is no list, but a value of type range"),
    ],
)
def test_e53_source_that_can_give_no_items_is_refused_when_the_task_is_made(source: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        for_each(source)


def test_e53_more_items_than_max_items_are_refused_before_the_run() -> None:
    with pytest.raises(ValidationError, match=r"for_each has 3 items, and max_items is 2: raise it"):
        for_each([1, 2, 3], max_items=2)
    ensemble = Ensemble(tasks=[for_each("{list}", max_items=2)])
    with pytest.raises(ValidationError, match=r"would run for 3 items, and its max_items is 2\."):
        ensemble.run(list=[1, 2, 3])
    with pytest.raises(ValidationError, match="max_items must be a whole number >= 1"):
        for_each([1], max_items=0)


def test_e53_references_that_lead_nowhere_are_refused() -> None:
    plan = Task.of("Plan", name="plan", agent=agent())
    with pytest.raises(ValidationError, match=r"for_each names task 'plam'.*Did you mean 'plan'\?.*\"\{plam\}\""):
        check(plan, for_each("plam"))
    with pytest.raises(ValidationError, match=r"'each' runs for each item of .* not in the list"):
        check(for_each(plan))
    with pytest.raises(ValidationError, match=r"'each' runs for each item of 'plan', which appears later"):
        check(for_each(plan), plan, workflow=Workflow.SEQUENTIAL)
    with pytest.raises(CircularDependencyError, match="each -> plan -> each"):
        check(for_each("plan"), Task.of("Plan", name="plan", context=["each"]))
    with pytest.raises(ValidationError, match="manager has each of its tasks done once"):
        check(plan, for_each(plan), workflow=Workflow.HIERARCHICAL)
    late = Phase.of("late", plan)
    with pytest.raises(ValidationError, match="of phase 'late', which does not come before it"):
        Ensemble(phases=[Phase.of("early", for_each(plan)), late]).validate()
    reviewed = Phase(name="p", tasks=[plan], review=PhaseReview(for_each([1])))
    with pytest.raises(ValidationError, match="a review is one answer"):
        Ensemble(phases=[reviewed]).validate()
    with pytest.raises(ValidationError, match="runs for each item, so its output is a list"):
        check(for_each([1], output_type=Step), done("b", when=Condition("each", equals="x", field="title")))


@pytest.mark.parametrize(
    "output_type, description, words",
    [
        (Step, "{item}", "output_type has no field that holds a list"),
        (Pair, "{item}", "output_type has the lists left, right: it must have exactly one"),
        (Steps, "{item.titel}", r"an item has no field 'titel'\. Did you mean 'title'\?"),
        (
            {"type": "object", "properties": {"subtasks": {"type": "array", "items": {"type": "string"}}}},
            "{item.x}",
            "an item has no fields of its own",
        ),
    ],
)
def test_e53_types_that_give_no_such_items_are_refused_before_the_run(
    output_type: Any, description: str, words: str
) -> None:
    plan = Task.of("Plan", name="plan", agent=agent(), output_type=output_type)
    with pytest.raises(ValidationError, match=words):
        check(plan, for_each("plan", description))
    check(Task.of("Plan", name="plan", agent=agent(), output_type=Steps), for_each("plan", "{item.title}"))


def test_e53_field_that_no_item_has_is_refused_before_the_run() -> None:
    with pytest.raises(ValidationError, match=r"says {item.txt}, and none of its items has that: .*'text'\?"):
        check(for_each(TIDES, "Read {item.txt}"))
    with pytest.raises(ValidationError, match=r"runs for each item of the input 'list', which is no list"):
        Ensemble(tasks=[for_each("{list}")]).run(list=5)
    with pytest.raises(PromptTemplateError) as caught:
        Ensemble(tasks=[for_each("{list}", "Say {item} to {whom}")]).run()
    assert caught.value.missing_variables == ("whom", "list")


def test_e53_item_without_for_each_is_a_mistake_with_its_remedy() -> None:
    with pytest.raises(PromptTemplateError, match="A task with for_each runs for each item"):
        Ensemble(tasks=[Task.of("Do {item}", agent=agent())]).run()
    text = "- Do «{item}»\n- Read «{item.text}»"
    assert_mistakes(text, "stands for an item, and this task has none", "is a field of an item, and this task has none")
    assert all("for_each" in each.hint for each in mistakes_of(text.replace("«", "").replace("»", "")))
    assert read_cell("- Do {item}", {}, overrides={"inputs": {"item": "it"}}).inputs == {"item": "it"}


# --- Cells ---


def test_e53_name_in_a_cell_is_a_task_or_a_variable_and_never_both() -> None:
    cell = "tasks:\n  plan: Plan\n  each: {for_each: «plan», description: 'Do {item}'}"
    assert_mistakes(cell, "'plan' is a task of this cell and a variable", namespace={"plan": [1]})
    assert read_cell(cell.replace("«", "").replace("»", ""), {}).plan.tasks[1].for_each == "plan"
    cell = "- {for_each: «tide», description: 'Do {item.text}'}"
    assert_mistakes(cell, "is no task of this cell, and no list .* Did you mean 'tides'", namespace={"tides": TIDES})
    (unknown,) = mistakes_of("- {for_each: tide, description: x}", {"tides": TIDES, "In": [""], "Out": {}})
    assert "Lists here: tides." in unknown.hint
    assert_mistakes(cell, "'tide' is no list of items but a value of type str", namespace={"tide": "low"})
    for source in ("tides", '"{tides}"', "[{text: low}, {text: high}]"):
        read = read_cell(f"- {{for_each: {source}, description: 'Do {{item.text}}'}}", {"tides": TIDES})
        assert read.plan.tasks[0].item_count == 2
    assert_mistakes("- {for_each: {tides}, description: '{item}'}".replace("{tides}", "«{tides}»"), "mapping for YAML")
    assert_mistakes(
        "- {for_each: [1, 2], max_items: 1, description: '{item}'}".replace("[1, 2]", "«[1, 2]»"), "2 items"
    )
    assert_mistakes(
        '- {for_each: «"{n}"», description: "{item}"}', "the input 'n', which is no list", namespace={"n": 3}
    )


def test_e53_source_is_context_only_where_that_is_said_also_in_chains() -> None:
    text = "- {name: plan, description: Plan}\n- {name: each, for_each: plan, description: '{item}'%s}\n- Join"
    _, each, last = read_cell(text % "", {}).plan.tasks
    assert (each.context, each.depends_on, last.context) == ((), ("plan",), ("each",))
    assert read_cell(text % ", context: plan", {}).plan.tasks[1].context == ("plan",)
    other = "- Look around\n- {name: each, for_each: [1], description: '{item}'}"
    assert read_cell(other, {}).plan.tasks[1].context == ("researcher_1",)


# --- The plan and what it will cost ---


def test_e53_plan_and_estimate_know_how_often_it_runs_where_that_is_known() -> None:
    plan = Task.of("Plan", name="plan", agent=agent())
    ensemble = Ensemble(tasks=[plan, for_each("plan", "Do {item} on {day}")], inputs={"day": "Monday"})
    planned = ensemble.plan().tasks[1]
    assert (planned.times, planned.for_each, planned.description) == ("x ?", "plan", "Do {item} on Monday")
    calls = ensemble.estimate().tasks[1].llm_calls
    assert (calls.low, calls.high) == (0, 1000)

    ensemble = Ensemble(tasks=[for_each("{list}")])
    assert ensemble.plan().tasks[0].times == "x ?"
    assert ensemble.plan(list=["a", "b"]).tasks[0].times == "x 2"
    once, thrice = (ensemble.estimate(list=["a"] * count).tasks[0] for count in (1, 3))
    assert (thrice.llm_calls.low, thrice.llm_calls.high) == (3, 3)
    assert thrice.input_tokens.high == 3 * once.input_tokens.high
    assert ensemble.estimate(list=[]).llm_calls.high == 0
    (given,) = Ensemble(tasks=[for_each(TIDES, "{item.text}")]).plan().to_dict()["tasks"]
    assert (given["for_each"], given["item_count"], given["settings"]) == ("2 items", 2, {"for_each": "2 items"})


def test_e53_texts_that_forget_the_item_are_a_warning() -> None:
    output = read_cell("- {for_each: [1], description: Do it}", {})
    assert "its texts say {item} nowhere" in output.warnings[0]
