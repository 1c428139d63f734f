"""Verdicts on runs whose truth is known: how often they claim a difference, how often intervals hold it (V12)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import scipy

from ensemble_notebook.evaluation import statistics
from tests.support.scored_runs import compare, make_runs

Values = npt.NDArray[np.float64]


def judge(differences: Values, repeats: int, truth: float) -> tuple[bool, bool]:
    """Whether a difference is claimed of shares, and whether the interval holds the truth."""
    found = statistics.find_difference_interval(differences, is_share=True)
    assert found is not None
    low, high = found
    p = statistics.measure_sign_flips(differences, repeats)
    return (low > 0 or high < 0) and p <= 0.05, low <= truth <= high


def take_shares(differences: Iterator[Values], repeats: int, truth: float) -> tuple[float, float]:
    claimed, covered = zip(*(judge(each, repeats, truth) for each in differences), strict=True)
    return float(np.mean(claimed)), float(np.mean(covered))


def draw_equal(seed: int, count: int, rows: int, repeats: int) -> Iterator[Values]:
    """Differences of two variants that are the same: each row has a chance of its own, Beta(1.4, 0.6)."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        chances = random.beta(1.4, 0.6, rows)
        a, b = random.binomial(repeats, chances), random.binomial(repeats, chances)
        yield (b - a) / repeats


def draw_paired(seed: int, count: int, rows: int, gain: float, loss: float) -> Iterator[Values]:
    """Differences of rows that ran once, of which some are gained and some are lost."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.choice([1.0, -1.0, 0.0], rows, p=[gain, loss, 1 - gain - loss])


def test_equal_variants_are_claimed_to_differ_in_at_most_six_of_a_hundred() -> None:
    claimed, covered = take_shares(draw_equal(1, 4_000, 40, 3), 3, 0.0)
    assert claimed <= 0.06
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("gain, loss, power", [(0.25, 0.15, 0.875), (0.20, 0.10, 0.951)])
def test_differences_are_found_as_often_as_by_mcnemars_exact_test(gain: float, loss: float, power: float) -> None:
    claimed, covered = take_shares(draw_paired(2, 1_500, 400, gain, loss), 1, gain - loss)
    assert claimed == pytest.approx(power, abs=0.03)
    exact = [
        scipy.stats.binomtest(int((each > 0).sum()), max(1, int((each != 0).sum()))).pvalue <= 0.05
        for each in draw_paired(2, 1_500, 400, gain, loss)
    ]
    assert claimed == pytest.approx(np.mean(exact), abs=0.03)
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("rows", [5, 10, 20])
@pytest.mark.parametrize("repeats", [1, 3])
def test_intervals_of_few_rows_hold_the_truth(rows: int, repeats: int) -> None:
    _, covered = take_shares(draw_equal(3, 5_000, rows, repeats), repeats, 0.0)
    assert covered >= 0.925


@pytest.mark.parametrize("share", [0.98, 0.95, 0.90])
def test_intervals_beside_a_variant_that_is_always_right_hold_the_truth(share: float) -> None:
    _, covered = take_shares(draw_paired(4, 5_000, 40, 0.0, 1 - share), 1, share - 1)
    assert covered >= 0.925


def test_what_is_simulated_is_what_a_comparison_does() -> None:
    random = np.random.default_rng(5)
    for _ in range(50):
        a, b = (random.random((12, 3)) < 0.6 for _ in range(2))
        found, differences = compare(make_runs(a), make_runs(b)), b.mean(1) - a.mean(1)
        assert found.interval == pytest.approx(statistics.find_difference_interval(differences, is_share=True))
        assert found.p == pytest.approx(statistics.measure_sign_flips(differences, 3))
        assert found.is_different == judge(differences, 3, 0.0)[0]
