"""The course as a whole: its order, and what leads from one lesson to the next.

Holds C125, with the tests of each lesson.
"""

from __future__ import annotations

from itertools import pairwise

from tests.support.lessons import FOLDER, Lesson

LESSONS = (
    "01-first-team.ipynb",
    "02-tools-and-the-loop.ipynb",
    "03-phases-at-work.ipynb",
    "04-manager-and-workers.ipynb",
    "05-when-things-fail.ipynb",
    "06-reading-traces.ipynb",
    "07-many-rows.ipynb",
    "08-which-is-better.ipynb",
    "09-fork-and-improve.ipynb",
)


def test_there_are_the_demo_and_the_lessons() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.ipynb")) == ["00-demo.ipynb", *LESSONS]


def test_each_lesson_leads_to_the_next() -> None:
    for before, after in pairwise(("00-demo.ipynb", *LESSONS)):
        texts = [cell.source for cell in Lesson(before).saved.cells if cell.cell_type == "markdown"]
        assert f"({after})" in texts[-1]
