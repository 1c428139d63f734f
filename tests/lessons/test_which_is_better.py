"""The lesson on comparisons."""

from __future__ import annotations

import ast

import pytest

from tests.support.lessons import Lesson, NotebookTests

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("08-which-is-better.ipynb")


class TestWhichIsBetter(NotebookTests):
    lesson = LESSON


def test_the_last_lesson_shows_what_few_rows_can_and_can_not_show() -> None:
    assert len(set(ast.literal_eval(LESSON.below("for _ in range(4)")))) > 1
    assert LESSON.below('compare("one", "other")').startswith("No difference that 40 rows can show")
    assert LESSON.below("few = both.map").startswith("No difference that 40 rows can show")
    assert LESSON.below("many = both.map").startswith("carefully passes 15 points more often than quickly")
    early = LESSON.below("early = hurried.map")
    assert early.startswith("quickly passes ")
    assert " rows saved." in early
    means = dict(line.rsplit(maxsplit=1) for line in LESSON.below("held = three").splitlines()[1:3])
    assert float(means["if sure"]) == 1.0 > float(means["quickly"])
    assert "15 rows failed under if sure and count as not passed" in LESSON.below('compare("quickly", "if sure")')
    assert "by a judge that nobody has checked" in LESSON.below("judged = many.score")
    assert "the judge agreed with a person on 13 of 40 rows" in LESSON.texts[-4]
