"""The lesson on tools."""

from __future__ import annotations

import re

import pytest

from tests.support.lessons import Lesson, LessonTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("02-tools-and-the-loop.ipynb")


class TestToolsAndTheLoop(LessonTests):
    lesson = LESSON


def test_a_model_is_sent_the_docstring_and_the_types_of_a_tool_and_each_turn_reads_more() -> None:
    shown = LESSON.below("show_offered")
    assert '"description": "Find notes of the archive. Gives their names and titles."' in shown
    assert "archive.search" not in shown
    reads = [int(line.split()[2]) for line in shown.splitlines() if re.fullmatch(r"\d +\d+ +\d+ +\d+ *", line)]
    assert len(reads) == 3
    assert reads == sorted(set(reads))
    first, second = (row for row in rows_of(LESSON.trace("answer"), "tool") if row["name"] == "read")
    assert second["start_ms"] < first["end_ms"]


def test_a_tool_that_there_is_not_is_an_error_in_words_and_a_loop_ends_after_six_calls() -> None:
    lines = LESSON.below("trouble.frames.tool_calls").splitlines()
    assert "Error: there is no tool named 'searchs'. Did you mean 'search'?" in lines[0]
    stubborn = [line for line in lines if line.startswith("Stubborn")]
    assert len(stubborn) == 6
    assert sum("STOP" in line for line in stubborn) == 3
    assert {row["name"]: row["status"] for row in rows_of(LESSON.trace("trouble"), "task")} == {
        "one": "ok",
        "other": "error",
    }


def test_what_a_letter_orders_is_done_unless_somebody_is_asked() -> None:
    assert "notes left: 0" in LESSON.below("-o robbed")
    assert LESSON.trace("robbed")["run"]["status"] == "completed"
    guarded = LESSON.below("-o guarded")
    assert 'delete(name="all") waits for an answer' in guarded
    assert "notes left" not in guarded


def test_a_long_note_that_is_read_first_is_paid_for_in_each_turn() -> None:
    said = re.findall(r"(\d+) model calls +([\d,]+) input tokens", LESSON.below("one by one"))
    calls, tokens = ([int(text.replace(",", "")) for text in column] for column in zip(*said, strict=True))
    assert calls == [4, 4, 2]
    assert tokens == sorted(tokens, reverse=True)
