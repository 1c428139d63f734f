"""E53, C34: no edit of a list goes unnoticed by an item whose code has looked at all of it."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import Ensemble, EnsembleOutput, Task, TaskInput, TaskReused
from tests.conformance.scene import of, run_cell

pytestmark = pytest.mark.usefixtures("store_path")

CELL = "tasks:\n- {name: each, description: Rank, for_each: '{names}', handler: rank}\n"


def rank(given: TaskInput) -> str:
    """The place of a name among all."""
    return f"{given.item}: {sorted(given.inputs['names']).index(given.item)}"


def rank_by_copy(given: TaskInput) -> str:
    """The same, of a copy of all inputs."""
    return rank(TaskInput(**{**_list_fields(given), "inputs": dict(given.inputs)}))


def shout(given: TaskInput) -> str:
    """Looks at another input, and at no list."""
    return f"{given.item}{given.inputs['mark']}"


def is_first(given: TaskInput) -> str | None:
    """An input guardrail that looks at the list."""
    return None if given.inputs["names"] else "nobody is there"


def _list_fields(given: TaskInput) -> dict[str, Any]:
    return {name: getattr(given, name) for name in ("name", "description", "expected_output", "item")}


def reused(output: EnsembleOutput) -> list[str | None]:
    return sorted(str(event.task) for event in of(output, TaskReused))


@pytest.mark.parametrize("fields", [{"handler": rank}, {"handler": rank_by_copy}])
def test_e53_items_that_look_at_the_list_run_again_once_another_one_is_in_it(fields: dict[str, Any]) -> None:
    ensemble = Ensemble(tasks=[Task.of("Rank", name="each", for_each="{names}", **fields)])
    ensemble.run(names=["b", "c"])
    assert reused(ensemble.run(names=["b", "c"], reuse=True)) == ["each[0]", "each[1]"]
    edited = ensemble.run(names=["b", "c", "a"], reuse=True)
    assert (edited["each"].parsed_output, reused(edited)) == (["b: 1", "c: 2", "a: 0"], [])
    assert reused(ensemble.run(names=["b", "c", "a"], reuse=True)) == ["each[0]", "each[1]", "each[2]"]
    assert ensemble.run(names=["b", "c"], reuse=True)["each"].parsed_output == ["b: 0", "c: 1"]


def test_e53_those_that_do_not_are_reused_one_by_one() -> None:
    ensemble = Ensemble(tasks=[Task.of("Shout", name="each", for_each="{names}", handler=shout)])
    ensemble.run(names=["a", "b"], mark="!")
    assert reused(ensemble.run(names=["c", "b", "a"], mark="!", reuse=True)) == ["each[1]", "each[2]"]
    assert reused(ensemble.run(names=["a", "b"], mark="?", reuse=True)) == []


def test_e53_a_guardrail_that_looks_at_the_list_counts_too() -> None:
    task = Task.of("Shout", name="each", for_each="{names}", handler=shout, input_guardrails=is_first)
    ensemble = Ensemble(tasks=[task])
    ensemble.run(names=["a", "b"], mark="!")
    assert reused(ensemble.run(names=["a", "b"], mark="!", reuse=True)) == ["each[0]", "each[1]"]
    assert reused(ensemble.run(names=["a"], mark="!", reuse=True)) == []


def test_e53_in_a_cell_too() -> None:
    for names, expected in ((["b"], ["b: 0"]), (["b", "a"], ["b: 1", "a: 0"])):
        output = run_cell(CELL, rank=rank, names=names)
        assert output["each"].parsed_output == expected
    again = output.ensemble.run(names=["b"], reuse=True)
    assert (again["each"].parsed_output, reused(again)) == (["b: 0"], ["each[0]"])


def test_c34_a_task_for_each_item_says_how_many_of_its_items_were_reused() -> None:
    def run(items: list[str], *, reuse: bool) -> Any:
        task = Task.of("Do {item}", name="do", handler=lambda given: given.description, for_each=items)
        return Ensemble(tasks=[task], name="items").run(reuse=reuse).frames.tasks.set_index("task").reuse_reason

    assert run(["a", "b"], reuse=False).isna().all()
    assert run(["a", "b"], reuse=True)["do"] == "it is put together from its items; reused: 2 of 2"
    assert run(["a", "c"], reuse=True)["do"] == "it is put together from its items; reused: 1 of 2"
