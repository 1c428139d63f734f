"""What all definitions share: keyword-only, frozen, slotted, strict about field names, identified by identity."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import INHERIT, Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ReviewTiming, Workflow
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import ValidationError

EXAMPLES: dict[type, dict[str, Any]] = {
    Agent: {"role": "Writer", "goal": "Write"},
    Task: {"description": "Write", "expected_output": "A page"},
    Phase: {"name": "draft", "tasks": [Task.of("Write")]},
    EnsembleDefinition: {"tasks": [Task.of("Write")], "inputs": {"topic": "tides"}},
    CostConfiguration: {"input_rate": 1, "output_rate": 2},
    HierarchicalConstraints: {"required_workers": ["Writer"], "max_calls_per_worker": {"Writer": 2}},
    Budget: {"max_tokens": 5},
}


def label(kind: type) -> str:
    """What people write: ``Ensemble``, which derives from ``EnsembleDefinition`` and adds no field."""
    return "Ensemble" if kind is EnsembleDefinition else kind.__name__


every_kind = pytest.mark.parametrize("kind, values", EXAMPLES.items(), ids=lambda each: getattr(each, "__name__", ""))


@every_kind
def test_a_definition_is_frozen_and_has_no_dict(kind: type, values: dict[str, Any]) -> None:
    made = kind(**values)
    with pytest.raises(AttributeError):
        setattr(made, next(iter(values)), None)
    assert not hasattr(made, "__dict__")


@every_kind
def test_a_definition_takes_keywords_only(kind: type, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{label(kind)} takes keyword arguments only") as caught:
        kind(*values.values())
    assert len(caught.value.problems) == 1


@every_kind
def test_a_misspelt_field_is_refused_with_the_right_one_named_e5(kind: type, values: dict[str, Any]) -> None:
    right = next(iter(values))
    wrong = right + "x"
    with pytest.raises(ValidationError) as caught:
        kind(**{wrong: values[right], **{name: each for name, each in values.items() if name != right}})
    assert str(caught.value) == f"{label(kind)} has no field {wrong!r}. Did you mean {right!r}?"
    assert caught.value.problems[0].subject is kind
    assert caught.value.problems[0].field == wrong


@pytest.mark.parametrize(
    "made, fields",
    [
        (Condition("triage", default=True), {"source": "triage"}),
        (RateLimit(60, 30), {"requests": 60, "period": 30.0}),
        (Review("before"), {"timing": ReviewTiming.BEFORE}),  # type: ignore[arg-type]
        (PhaseReview(len), {"by": len}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_leading_fields_of_small_definitions_are_taken_by_position(made: Any, fields: dict[str, Any]) -> None:
    assert {name: getattr(made, name) for name in fields} == fields


def test_a_place_beyond_the_leading_fields_is_refused() -> None:
    with pytest.raises(ValidationError, match="RateLimit takes keyword arguments only: requests, period, wait_timeout"):
        RateLimit(60, 30, 5)  # type: ignore[misc]


def test_a_field_is_not_taken_twice_by_position_and_by_name() -> None:
    with pytest.raises(ValidationError, match=r"Condition got source twice, by position and by name\."):
        Condition("triage", source="triage", default=True)


def test_every_missing_and_every_unknown_field_is_reported_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        Task(colour="red", whence=None)  # type: ignore[call-arg]
    found = [problem.field for problem in caught.value.problems]
    assert found == ["colour", "whence", "description"]


def test_a_field_that_was_only_misspelt_is_not_reported_as_missing_too() -> None:
    with pytest.raises(ValidationError) as caught:
        Task(descripton="Write", expected_output="A page")  # type: ignore[call-arg]
    assert [problem.field for problem in caught.value.problems] == ["descripton"]


@every_kind
def test_equal_definitions_are_two_e2(kind: type, values: dict[str, Any]) -> None:
    one, other = kind(**values), kind(**values)
    assert one != other
    assert len({one, other}) == 2


@every_kind
def test_replace_derives_a_changed_copy_that_is_checked_too(kind: type, values: dict[str, Any]) -> None:
    made = kind(**values)
    same = dataclasses.replace(made)
    assert [getattr(same, name) for name in get_field_names(kind)] == [
        getattr(made, name) for name in get_field_names(kind)
    ]
    with pytest.raises(ValidationError):
        dataclasses.replace(made, **{next(iter(values)): object()})


@every_kind
@pytest.mark.parametrize(
    "remake", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))], ids=["copy", "pickle"]
)
def test_a_definition_can_be_copied_and_pickled(kind: type, values: dict[str, Any], remake: Any) -> None:
    made = kind(**values)
    again = remake(made)
    assert type(again) is kind
    for name in get_field_names(kind):
        if name != "tasks":
            assert getattr(again, name) == getattr(made, name)


def test_what_is_one_object_stays_one_object_in_a_pickle() -> None:
    agent = Agent(role="Writer", goal="Write")
    first = Task.of("Write", agent=agent)
    ensemble = EnsembleDefinition(agents=[agent], tasks=[first, Task.of("Edit", agent=agent, context=[first])])
    again = pickle.loads(pickle.dumps(ensemble))
    assert again.tasks[0].agent is again.tasks[1].agent is again.agents[0]
    assert again.tasks[1].context == (again.tasks[0],)
    assert again.agents[0].llm is INHERIT


def test_sequences_are_copied_to_tuples() -> None:
    tools = [len]
    agent = Agent(role="Writer", goal="Write", tools=tools)
    tools.append(max)
    assert agent.tools == (len,)


def test_mappings_are_copied_and_read_only() -> None:
    inputs = {"topic": "tides"}
    ensemble = EnsembleDefinition(tasks=[Task.of("Write")], inputs=inputs)
    inputs["topic"] = "moons"
    assert ensemble.inputs == {"topic": "tides"}
    with pytest.raises(TypeError):
        ensemble.inputs["topic"] = "moons"  # type: ignore[index]


@pytest.mark.parametrize("value", [1, None, {"a"}, (each for each in ())], ids=lambda each: type(each).__name__)
def test_a_list_or_tuple_is_expected_where_several_values_belong(value: Any) -> None:
    with pytest.raises(ValidationError, match=f"Task context must be a list or tuple, got {type(value).__name__}"):
        Task.of("Write", context=value)


@pytest.mark.parametrize("value", [Workflow.PARALLEL, "parallel", "PARALLEL", "Parallel"], ids=repr)
def test_a_choice_is_a_member_or_its_name_in_any_case(value: Any) -> None:
    assert EnsembleDefinition(tasks=[Task.of("Write")], workflow=value).workflow is Workflow.PARALLEL


def test_an_unknown_choice_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValidationError, match=r"Ensemble workflow can't be 'paralel'\. Did you mean 'parallel'\?"):
        EnsembleDefinition(tasks=[Task.of("Write")], workflow="paralel")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, True, "60", float("nan"), float("inf")], ids=repr)
def test_seconds_are_a_finite_number_above_0(value: Any) -> None:
    with pytest.raises(ValidationError, match="Task timeout must be seconds > 0 or None"):
        Task.of("Write", timeout=value)


@pytest.mark.parametrize("value", [1, 0.25, None])
def test_seconds_may_be_whole_broken_or_absent(value: Any) -> None:
    assert Task.of("Write", timeout=value).timeout == value


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None], ids=repr)
def test_a_count_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ValidationError, match="Agent max_iterations must be a whole number >= 1"):
        Agent(role="Writer", goal="Write", max_iterations=value)


@pytest.mark.parametrize("value", [1, 0, "yes", None], ids=repr)
def test_a_switch_is_true_or_false(value: Any) -> None:
    with pytest.raises(ValidationError, match="Agent verbose must be True or False"):
        Agent(role="Writer", goal="Write", verbose=value)


@pytest.mark.parametrize("given", [{"promt": "Say it"}, {"prompt_": "Say it"}, {"descripton": "Say it"}])
def test_misspelt_field_that_another_one_follows_from_is_one_problem_e5(given):
    with pytest.raises(ValidationError) as caught:
        Task(**given)
    (problem,) = caught.value.problems
    assert "Did you mean" in problem.message
