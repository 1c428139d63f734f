"""The first lesson."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, LessonTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("01-first-team.ipynb")


class TestFirstTeam(LessonTests):
    lesson = LESSON


def test_the_first_lesson_asks_no_model_and_runs_side_by_side_what_reads_nothing() -> None:
    assert all(trace["run"]["is_scripted"] for trace in LESSON.traces)
    rows = {row["name"]: row for row in rows_of(LESSON.trace("report"), "task")}
    assert list(rows) == ["brief", "story", "people", "cause"]
    brief = rows.pop("brief")
    assert max(row["start_ms"] for row in rows.values()) < min(row["end_ms"] for row in rows.values())
    assert brief["start_ms"] >= max(row["end_ms"] for row in rows.values())


def test_the_second_task_of_the_chain_is_told_the_words_of_the_first() -> None:
    shown = LESSON.below("messages = haiku")
    assert "### Writer: Describe the 1202 alarm in one sentence\nMinutes before the first landing" in shown
    assert "## Task\nWrite a haiku from it" in shown


def test_the_brief_reads_the_most_and_is_selected_in_the_timeline() -> None:
    assert LESSON.below("report.timeline.selection").splitlines()[-1].split()[1:4] == ["task", "brief", "Writer"]


def test_the_first_lesson_s_mistakes_are_named_at_their_place() -> None:
    shown = LESSON.below("gaol")
    assert "3 mistakes in this cell" in shown
    for word in ("'goal'", "'Poet'", "'haiku'"):
        assert f"Did you mean {word}?" in shown


def test_only_a_faster_writer_saves_all_that_it_saves() -> None:
    lines = [line.split() for line in LESSON.below("what_if").splitlines()]
    saved = {who: (float(works), float(ms)) for who, _, works, _, _, _, _, _, ms, _ in lines}
    assert saved["Historian"][0] > saved["Engineer"][0] > saved["Writer"][0]
    assert saved["Historian"][1] == 0 < saved["Engineer"][1] < saved["Writer"][1]


def test_a_writer_that_reads_nothing_tells_what_many_believe() -> None:
    assert "the computer broke down" in LESSON.below("-o mended")
