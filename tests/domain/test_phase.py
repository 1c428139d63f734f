"""Phases (E3)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import ValidationError

BOIL, SERVE = Task.of("Boil"), Task.of("Serve")


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Phase(**{"name": "pasta", "tasks": [BOIL], **fields})
    return str(caught.value)


def test_of_takes_the_tasks_one_by_one_e3() -> None:
    phase = Phase.of("pasta", BOIL, SERVE, workflow="parallel")
    assert (phase.name, phase.tasks, phase.workflow, phase.after) == ("pasta", (BOIL, SERVE), Workflow.PARALLEL, ())


def test_a_phase_inherits_its_workflow_unless_it_has_one() -> None:
    assert Phase.of("pasta", BOIL).workflow is None


def test_a_name_is_not_blank() -> None:
    assert refusal(name=" ") == "Phase name must not be blank."


def test_a_phase_has_at_least_one_task_e3() -> None:
    assert refusal(tasks=[]) == "Phase 'pasta' needs at least one task."


def test_phases_are_not_nested_e3() -> None:
    assert refusal(tasks=[BOIL, Phase.of("inner", SERVE)]) == "Phase 'pasta' holds a phase; phases are not nested."


def test_only_tasks_belong_into_a_phase() -> None:
    assert refusal(tasks=["Boil"]) == "Phase 'pasta' holds a str where a Task belongs."


@pytest.mark.parametrize("workflow", ["hierarchical", "HIERARCHICAL"])
def test_a_phase_is_never_hierarchical_e3(workflow: str) -> None:
    assert refusal(workflow=workflow).startswith("Phase 'pasta' can't be hierarchical")


def test_an_unknown_workflow_is_refused_with_the_nearest() -> None:
    assert refusal(workflow="seqential") == "Phase workflow can't be 'seqential'. Did you mean 'sequential'?"


def test_after_is_phases_or_names_that_may_refer_forward_e3() -> None:
    first = Phase.of("first", BOIL)
    assert Phase.of("pasta", SERVE, after=[first, "later"]).after == (first, "later")
    assert refusal(after=[BOIL]) == "Phase after takes phases or names, got Task."


def test_a_phase_can_not_come_after_itself() -> None:
    assert refusal(after=["pasta"]) == "Phase 'pasta' can't come after itself."


def test_a_repr_is_name_and_size() -> None:
    assert repr(Phase.of("pasta", BOIL, SERVE)) == "Phase('pasta', 2 tasks)"
