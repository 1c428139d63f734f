"""The lesson on forks and better prompts."""

from __future__ import annotations

import re

import pytest

from tests.support.lessons import Lesson, LessonTests

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("09-fork-and-improve.ipynb")


class TestForkAndImprove(LessonTests):
    lesson = LESSON


def read_verdict(text: str) -> list[float]:
    """The two scores of a verdict on the held-out rows."""
    found = re.search(r"(\d\.\d\d) -> (\d\.\d\d) on 50 rows that it never saw", text)
    assert found is not None, text
    return [float(each) for each in found.groups()]


def test_one_of_three_replies_does_not_fit() -> None:
    fits = re.findall(r"completed +(True|False)", LESSON.below("%ensemble rerun report"))
    assert sorted(fits) == ["False", "True", "True"]


def test_the_fork_goes_by_what_it_is_given_and_calls_no_tool() -> None:
    shown = LESSON.below("storm = report.fork")
    assert "a storm is coming" in shown
    assert re.findall(r"(\w+) +(True|False) +(?:before the fork|it depends on the fork)", shown) == [
        ("read", "True"),
        ("weather", "False"),
        ("plan", "False"),
        ("reply", "False"),
    ]


def test_what_is_reused_goes_by_the_forecast_of_the_morning() -> None:
    shown = LESSON.below("-o shorter")
    assert shown.count("↳ reused: unchanged since run") == 3
    assert shown.count("↳ not reused: the description changed") == 1
    assert "Walk down slowly by the forest track, for three hours." in shown


def test_the_held_out_rows_confirm_the_rules_and_the_first_number_is_higher() -> None:
    shown = LESSON.below("%ensemble improve sorting")
    assert "Somebody who is overdue" in shown.rpartition("%%ensemble -o sorting")[2]
    before, after = read_verdict(shown)
    best = max(map(float, re.findall(r": (\d\.\d\d) on all rows of the search", shown)))
    assert best > after > before
    assert "No improvement" not in shown


def test_a_search_where_nothing_can_be_better_finds_a_best_one_that_is_not_confirmed() -> None:
    table = next(cell for cell in LESSON.code_cells if cell.source.startswith("polished = "))
    scores = [float(each) for each in re.findall(r">(0\.\d\d)<", table.outputs[0]["data"]["text/html"])]
    shown = LESSON.texts[LESSON.code_cells.index(table) + 1]
    assert shown.startswith("No improvement that the held-out rows confirm: ")
    before, after = read_verdict(shown)
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 0.1
    assert after <= before
