"""Tests for how often the garbage collector runs while much is under way."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ensemble_notebook import Ensemble, Task, TaskInput
from ensemble_notebook.engine.threads.collector_pace import collect_less_often

USUAL = (700, 10, 10)
RAISED = (20_000, 10, 10)
MANY = 500


@pytest.fixture(autouse=True)
def usual_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_that_a_map_of_many_rows_raises_the_threshold_until_its_end() -> None:
    seen = set()

    async def look(_task: TaskInput) -> str:
        seen.add(gc.get_threshold())
        return "seen"

    ensemble = Ensemble(tasks=[Task(description="Look", expected_output="seen", handler=look)])
    ensemble.map([{"number": number} for number in range(MANY)])
    assert seen == {RAISED}
    assert gc.get_threshold() == USUAL


def test_that_few_tasks_leave_the_collector_alone() -> None:
    with collect_less_often(MANY - 1):
        assert gc.get_threshold() == USUAL


def test_that_the_last_of_several_puts_the_threshold_back() -> None:
    first, second = collect_less_often(MANY), collect_less_often(MANY)
    with first:
        with second:
            assert gc.get_threshold() == RAISED
        assert gc.get_threshold() == RAISED
    assert gc.get_threshold() == USUAL


def test_that_the_threshold_comes_back_after_an_error() -> None:
    with pytest.raises(KeyError), collect_less_often(MANY):
        raise KeyError
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("own", [0, 50_000])
def test_that_a_program_that_collects_less_often_itself_or_never_has_its_way(own: int) -> None:
    gc.set_threshold(own, 5, 5)
    with collect_less_often(MANY):
        assert gc.get_threshold() == (own, 5, 5)
    assert gc.get_threshold() == (own, 5, 5)


def test_that_a_threshold_that_was_set_meanwhile_stays() -> None:
    with collect_less_often(MANY):
        gc.set_threshold(1_000, 10, 10)
    assert gc.get_threshold() == (1_000, 10, 10)
