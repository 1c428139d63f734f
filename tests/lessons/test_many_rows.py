"""The lesson on maps."""

from __future__ import annotations

import ast

import pytest

from tests.support.lessons import Lesson, NotebookTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("07-many-rows.ipynb")


class TestManyRows(NotebookTests):
    lesson = LESSON


def test_a_row_that_failed_is_resumed_and_the_others_stay_as_they_were() -> None:
    failed = LESSON.below('"hits", "error"]')
    assert "LookupError: too few words that I know" in failed
    resumed = {line.split()[0]: line.split()[1:3] for line in LESSON.below("resume=ruled").splitlines()[1:]}
    assert resumed["pl1"] == ["completed", "Polish"]
    assert resumed["pl2"] == resumed["pl3"] == ["completed", "English"]
    assert LESSON.below("right=(").split()[-6:] == ["needed=1", "12", "12", "needed=2", "9", "9"]


def test_a_map_ends_with_its_account() -> None:
    asked = LESSON.trace("model")
    sent = [row for row in rows_of(asked, "llm") if row["status"] == "ok"]
    assert (asked["run"]["status"], len(sent)) == ("budget_exceeded", 6)
    assert "6 completed" in LESSON.below("--budget")


def test_ways_of_asking_are_scored_and_compared() -> None:
    assert LESSON.below("score=is_right").startswith("No difference that 12 rows can show")
    assert "[-French-]{+English+}" in LESSON.below("result.diff(")
    said = [[int(word) for word in line.split()[1:]] for line in LESSON.below("pd.crosstab").splitlines()[2:]]
    assert sum(map(sum, said)) == 12
    assert sum(row[place] for place, row in enumerate(said)) == 8


def test_a_task_for_each_row_is_reduced_to_one_answer() -> None:
    tasks = {row["name"]: row["status"] for row in rows_of(LESSON.trace("map and reduce"), "task")}
    assert tasks["label[2]"] == tasks["count"] == "ok"
    counted = ast.literal_eval(LESSON.below("-o digest").splitlines()[-1])
    assert sum(counted.values()) == 3
    assert set(counted) <= {"people", "machines", "code"}
