"""The lesson on comparisons."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.lessons import Lesson, LessonTests

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("08-which-is-better.ipynb")


class TestWhichIsBetter(LessonTests):
    lesson = LESSON


def read_numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_one_run_of_40_rows_shows_nothing() -> None:
    assert len(set(ast.literal_eval(LESSON.below("for _ in range(4)")))) > 1
    alike, other = (line for line in LESSON.below('compare("one", "other")').splitlines() if line)
    assert alike.startswith("No difference that 40 rows can show")
    assert other.startswith("No difference that 40 rows can show")


def test_repeats_show_what_is_there_while_the_intervals_of_both_overlap() -> None:
    shown = LESSON.below("many = both.map")
    assert shown.startswith("carefully passes 15 points more often than quickly (95%: 6 to 24; 40 rows x 5 repeats")
    assert "In the long run: +12%" in shown
    *_, quickly, carefully = (line.split() for line in shown.splitlines() if line)
    assert (quickly[1], carefully[1]) == ("quickly", "carefully")
    assert float(quickly[-1]) > float(carefully[-2])


def test_the_mean_of_a_column_leaves_out_the_rows_that_failed() -> None:
    shown = LESSON.below("held = three")
    means = ast.literal_eval(shown.splitlines()[0])
    assert means["if sure"] == 1.0 > means["quickly"]
    assert "15 rows failed under if sure and count as not passed" in shown
    last = shown.splitlines()[-1].split()
    assert (last[1:3], last[4]) == (["if", "sure"], "15")
    assert float(last[5]) == 25 / 40


def test_a_judge_that_passes_all_shows_no_difference_and_has_no_kappa() -> None:
    judged = LESSON.below("judged = few.score")
    assert "in flatterer that 40 rows can show (-7 to +7 points), by a judge that nobody has checked" in judged
    flatterer, coin = (line for line in LESSON.below("labelled = judged").splitlines() if line)
    assert "no kappa, since one of them always says the same" in flatterer
    kappa, low, high = read_numbers(coin.partition("kappa")[2])
    assert low < 0 < high
    assert abs(kappa) < 0.1


def test_a_look_after_each_row_claims_what_is_not_there() -> None:
    shown = LESSON.below("print(peek(")
    looks = [read_numbers(line) for line in shown.splitlines()[2:5]]
    assert [count for count, *_ in looks] == [40, 100, 400]
    assert all(max(once, until_clear) <= 5 < 2 * 5 < often for _, once, often, until_clear in looks)
    assert looks[0][2] < looks[1][2] < looks[2][2]
    assert "quickly passes 65 points more often than in a hurry (95% after each row at once: 15 to 91" in shown
    assert "20 rows saved" in shown
    assert "In the long run: +42%" in shown


def test_the_checks_try_a_scorer_and_a_judge_on_answers() -> None:
    assert "in 1 of 4 rows, not in 'paris': the output is 'paris'" in LESSON.below(
        'check(say("Paris", "paris", "It is Paris.", '
    )
    judge = LESSON.below("rejects(judge)")
    assert "judge (in 3 of 3 rows)" in judge
    assert "in 0 of 3 rows, not in 'Rome': it passes 'Rome'" in judge
