"""The lesson on phases."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, NotebookTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("03-phases-at-work.ipynb")


class TestPhasesAtWork(NotebookTests):
    lesson = LESSON


def test_the_kitchen_cooks_three_dishes_at_once_and_serves_last() -> None:
    dinner, _ = LESSON.traces
    rows = {row["name"]: row for row in rows_of(dinner, "phase")}
    dishes = [rows[name] for name in ("steak", "salmon", "pasta")]
    assert max(row["start_ms"] for row in dishes) < min(row["end_ms"] for row in dishes)
    assert rows["serve"]["start_ms"] >= max(row["end_ms"] for row in dishes)
    assert dinner["run"]["is_scripted"]


def test_a_burnt_steak_skips_what_depends_on_it_and_spares_the_salmon() -> None:
    _, burnt = LESSON.traces
    status = {row["name"]: row["status"] for row in rows_of(burnt, "phase")}
    assert status == {"steak": "error", "salmon": "ok", "serve": "skipped", "clear": "skipped"}
    error = next(text for text in LESSON.texts if "PhaseExecutionError" in text)
    assert "the steak is charcoal" in error
    assert "Traceback" not in error
