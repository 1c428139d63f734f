"""The lesson on phases."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, LessonTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("03-phases-at-work.ipynb")


class TestPhasesAtWork(LessonTests):
    lesson = LESSON


def test_the_kitchen_cooks_three_dishes_at_once_and_serves_last() -> None:
    dinner = LESSON.trace("kitchen")
    rows = {row["name"]: row for row in rows_of(dinner, "phase")}
    dishes = [rows[name] for name in ("steak", "salmon", "pasta")]
    assert max(row["start_ms"] for row in dishes) < min(row["end_ms"] for row in dishes)
    assert rows["serve"]["start_ms"] >= max(row["end_ms"] for row in dishes)
    assert dinner["run"]["is_scripted"]


def test_a_burnt_steak_skips_what_depends_on_it_and_spares_the_salmon() -> None:
    burnt = LESSON.trace("kitchen, burnt")
    status = {row["name"]: row["status"] for row in rows_of(burnt, "phase")}
    assert status == {"steak": "error", "salmon": "ok", "serve": "skipped", "clear": "skipped"}
    error = next(text for text in LESSON.texts if "PhaseExecutionError" in text)
    assert "the steak is charcoal" in error
    assert "Traceback" not in error


def test_a_faster_pan_saves_nothing() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in LESSON.below("what_if").splitlines()[1:]}
    assert next(iter(rows)) == "cook_steak"
    assert float(rows["cook_steak"][1]) == 0 < float(rows["prep_pasta"][1])


def test_a_sauce_is_good_in_the_third_round() -> None:
    lines = LESSON.below("said = sauce").splitlines()
    assert lines[0] == "completed"
    assert len(lines) == 7
    assert lines[-1].startswith("Good")
