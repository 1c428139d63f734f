"""The demo, which plays recorded runs."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, NotebookTests

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("00-demo.ipynb")


class TestDemo(NotebookTests):
    lesson = LESSON
    largest = 550_000  # it has a map of 300 rows under two variants


def test_the_demo_asks_no_model_and_has_what_its_runs_had() -> None:
    report, clock, letters = runs = LESSON.traces
    assert [each["run"]["replayed_from"] for each in runs] == ["demo report", "demo manager", "demo map"]
    assert letters["run"]["tasks_done"] < letters["run"]["tasks_total"]
    assert "rows and $0." in LESSON.below("letters.compare()")
    assert (report["run"]["status"], clock["run"]["status"]) == ("budget_exceeded", "completed")
    assert LESSON.below('report["report"].raw').startswith("## Two nights for all")
    assert "stage 1 is not yet complete" in LESSON.below("story.frames.delegations.reason")
