"""The lesson on maps."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, LessonTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("07-many-rows.ipynb")


class TestManyRows(LessonTests):
    lesson = LESSON


def read_lines(text: str) -> dict[str, list[str]]:
    return {words[0]: words[1:] for line in text.splitlines() if len(words := line.split()) > 1}


def test_a_row_that_failed_is_resumed_and_the_others_stay_as_they_were() -> None:
    failed = LESSON.below('"hits", "error"]')
    assert "LookupError: too few words that I know" in failed
    before, after = read_lines(failed), read_lines(LESSON.below("mended = ruled"))
    assert before["pl1"][:2] != ["completed", "Polish"] == after["pl1"][:2]
    for row in ("pl2", "pl3"):  # as sure of itself as it was
        assert after[row] == ["completed", "English", "1"]


def test_a_stricter_rule_leaves_out_what_was_right() -> None:
    assert LESSON.below("right=(").split()[-6:] == ["needed=1", "12", "12", "needed=2", "9", "9"]


def test_a_map_ends_with_its_account() -> None:
    asked = LESSON.trace("model")
    sent = [row for row in rows_of(asked, "llm") if row["status"] == "ok"]
    assert (asked["run"]["status"], len(sent)) == ("budget_exceeded", 6)
    assert "6 completed" in LESSON.below("--budget")


def test_a_map_that_goes_on_with_another_prompt_is_not_that_prompt_s() -> None:
    shown = LESSON.below("went_on = changed")
    assert shown.startswith("went on   6 calls,  6 of 12 right\nanew     12 calls,  3 of 12 right\n")
    assert ["English", "12"] in [line.split() for line in shown.splitlines()]


def test_the_checks_name_the_first_row_in_which_something_does_not_hold() -> None:
    assert "in 0 of 12 rows, not in 'en1': expected 'English', got 'I would say" in LESSON.below('equals("language")')
    assert "in 6 of 12 rows, not in 'it1': The run had used up its budget." in LESSON.below("check(rest, no_errors())")
    assert "one prompt has 12 jokes in it" in LESSON.below("check(digest")
