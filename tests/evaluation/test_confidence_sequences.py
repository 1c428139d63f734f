"""Confidence sequences, held to figures that confseq 0.0.11 printed, and to what they promise (Monte Carlo)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ensemble_notebook.evaluation import confidence_sequences as sequences
from ensemble_notebook.evaluation.confidence_sequences import follow_mean
from ensemble_notebook.evaluation.statistics import Values

BOOLS = np.asarray([(place * 7919) % 100 < 80 for place in range(120)], float)
NUMBERS = np.asarray([(place * 37) % 101 / 100 * 0.6 + 0.3 for place in range(120)])
LOOKS = (1, 10, 60, 120)
DIFFERENCES = (-1.0, 1.0)


@pytest.mark.parametrize(
    "values, mean, capitals",
    [
        (BOOLS, 0.5, (0.75, 9.61083984375, 4125.25950659, 1267514.266)),
        (BOOLS, 0.7, (0.607142857143, 1.43492096186, 1.51233148862, 8.57223606849)),
        (BOOLS, 0.9, (0.527777777778, 0.406695972218, 1.15465475848, 4.22518510522)),
        (NUMBERS, 0.5, (0.6, 0.866620480161, 58.8423309561, 2540.11681728)),
        (NUMBERS, 0.7, (0.833333333333, 2.4788758178, 348.100122111, 20873.0340955)),
        (NUMBERS, 0.9, (2, 777.613784125, 11554155227.1, 2.1638879658e15)),
    ],
)
def test_capital_of_gamblers_is_that_of_confseq(values: Values, mean: float, capitals: tuple[float, ...]) -> None:
    """``betting_mart(x, mean, alpha=0.05)``."""
    both = [sequences._grow(values, sequences._plan_stakes(values, 0.05), mean, sign) for sign in (1, -1)]
    ours = np.exp(np.maximum(*both)) / 2
    assert [ours[look - 1] for look in LOOKS] == pytest.approx(capitals, rel=1e-9)


@pytest.mark.parametrize(
    "values, level, look, low, high",
    [
        (BOOLS, 0.05, 1, 0, 1),
        (BOOLS, 0.05, 10, 0.4435, 1),
        (BOOLS, 0.05, 60, 0.6314, 0.9398),
        (BOOLS, 0.05, 120, 0.6850, 0.9166),
        (BOOLS, 0.01, 60, 0.5966, 0.9564),
        (BOOLS, 0.01, 120, 0.6636, 0.9301),
        (NUMBERS, 0.05, 10, 0.2921, 0.7885),
        (NUMBERS, 0.05, 60, 0.5175, 0.6650),
        (NUMBERS, 0.05, 120, 0.5466, 0.6441),
        (NUMBERS, 0.01, 60, 0.4919, 0.6814),
        (NUMBERS, 0.01, 120, 0.5332, 0.6539),
    ],
)
def test_interval_of_bounded_values_is_that_of_confseq(
    values: Values, level: float, look: int, low: float, high: float
) -> None:
    """``betting_cs(x, alpha=level, breaks=10_000, running_intersection=True)``, which looks at 10,000 means."""
    assert sequences.find_bounded_interval(values[:look], level) == pytest.approx((low, high), abs=1.1e-4)


@pytest.mark.parametrize(
    "level, boundary",
    [
        (0.05, (17.5251991551, 30.3520899038, 102.512286832)),
        (0.01, (20.3466118057, 35.7162997087, 118.692588308)),
    ],
)
def test_boundary_of_values_without_bounds_is_that_of_confseq(level: float, boundary: tuple[float, ...]) -> None:
    """``normal_mixture_bound(rows, alpha=level, v_opt=100, alpha_opt=level, is_one_sided=False)``."""
    ours = sequences._find_boundary(np.asarray([30.0, 100.0, 1_000.0]), level)
    assert list(ours) == pytest.approx(boundary, rel=1e-9)


def test_p_of_values_without_bounds_is_that_of_confseq() -> None:
    """``normal_log_mixture(15, 30, 100, 0.05, False)``: thirty rows of mean 0.5 and standard deviation 1."""
    p = sequences.measure_approximate(np.tile([-0.5, 1.5], 15), 0.05)
    assert math.log(1 / p) == pytest.approx(2.03174725155, rel=1e-9)


@given(rows=some.integers(30, 300), gain=some.floats(0, 0.5), seed=some.integers(0, 99), level=some.floats(0.001, 0.2))
@pytest.mark.parametrize("bounds", [(-1.0, 1.0), None])
def test_p_is_at_most_the_level_where_the_interval_leaves_zero_out(
    rows: int, gain: float, seed: int, level: float, bounds: tuple[float, float] | None
) -> None:
    values = np.random.default_rng(seed).choice([1.0, 0.0, -1.0], rows, p=[gain, 1 - 1.5 * gain, gain / 2])
    found = follow_mean(values, level=level, bounds=bounds)
    assert found is not None
    if found.interval is not None and min(map(abs, found.interval)) > 1e-6:  # nearer than halving tells
        assert (found.p <= level) is (found.interval[0] > 0 or found.interval[1] < 0)


def test_interval_never_grows() -> None:
    values = np.random.default_rng(1).choice([1.0, 0.0, -1.0], 120)
    for bounds in ((-1.0, 1.0), None):
        found = [follow_mean(values[:rows], level=0.05, bounds=bounds) for rows in range(1, 121)]
        widths = [math.inf if each is None or each.interval is None else -np.subtract(*each.interval) for each in found]
        assert widths == sorted(widths, reverse=True)


def test_values_on_another_scale_have_the_same_interval_on_that_scale() -> None:
    plain = follow_mean(NUMBERS, level=0.05, bounds=(0, 1))
    stars = follow_mean(5 * NUMBERS, level=0.05, bounds=(0, 5))
    assert plain is not None
    assert stars is not None
    assert plain.interval is not None
    assert stars.interval == pytest.approx([5 * end for end in plain.interval])


def test_too_few_rows_without_bounds_have_no_interval() -> None:
    found = follow_mean(NUMBERS[:29], level=0.05, bounds=None)
    assert found is not None
    assert (found.interval, found.p, found.is_approximate) == (None, 1.0, True)
    later = follow_mean(NUMBERS[:30], level=0.05, bounds=None)
    assert later is not None
    assert later.interval is not None


@pytest.mark.parametrize("values", [[0.0] * 40, [0.3] * 40, [1e9] * 40])
def test_equal_values_without_bounds_have_no_interval(values: list[float]) -> None:
    found = follow_mean(values, level=0.05, bounds=None)
    assert found is not None
    assert (found.interval, found.p) == (None, 1.0)


def test_no_rows_say_nothing() -> None:
    assert follow_mean([], level=0.05, bounds=DIFFERENCES) is None


def test_value_outside_of_its_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="outside of their bounds, -1 to 1"):
        follow_mean([0.0, 1.5], level=0.05, bounds=DIFFERENCES)


def test_rows_that_came_sorted_have_no_interval() -> None:
    found = follow_mean([1.0] * 100 + [-1.0] * 300, level=0.05, bounds=DIFFERENCES)
    assert found is not None
    assert found.interval is None


# --- What is promised: looking after each row misleads at most so often -----------------------------------------------


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("bounds, most", [(DIFFERENCES, 0.05), (None, 0.07)])
def test_alike_sides_are_seldom_told_apart_at_any_row(
    repeats: int, bounds: tuple[float, float] | None, most: float
) -> None:
    random, told = np.random.default_rng(7), 0
    for _ in range(300):
        chances = random.beta(1.4, 0.6, 200)
        a, b = random.binomial(repeats, chances), random.binomial(repeats, chances)
        found = follow_mean((b - a) / repeats, level=0.05, bounds=bounds)
        told += found is not None and found.p <= 0.05
    assert told / 300 <= most


def test_difference_of_twenty_points_is_clear_in_a_third_of_300_rows() -> None:
    random, rows = np.random.default_rng(8), []
    for _ in range(60):
        differences = (random.random(300) < 0.86).astype(float) - (random.random(300) < 0.66)
        looks = (follow_mean(differences[:count], level=0.05, bounds=DIFFERENCES) for count in range(10, 301, 10))
        rows.append(next((each.rows for each in looks if each is not None and each.p <= 0.05), 300))
    assert np.median(rows) <= 100
