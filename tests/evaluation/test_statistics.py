"""The statistics of verdicts, held to scipy, statsmodels and the published formulas (V11, V12)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as some

from ensemble_notebook.evaluation import statistics

COUNTS = (2, 3, 5, 10, 40, 333, 10_000)
EXACT = 1e-9


def draw_numbers(seed: int, count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0.3, 2.0, count)


def draw_flips(seed: int, count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], count, p=[0.1, 0.7, 0.2])


@given(share=some.floats(0.0005, 0.9995), freedom=some.integers(1, 10_000))
def test_quantile_of_students_t_is_that_of_scipy(share: float, freedom: int) -> None:
    ours, theirs = statistics.find_t_quantile(share, freedom), float(scipy.stats.t.ppf(share, freedom))
    assert ours == pytest.approx(theirs, rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("freedom", [*range(1, 60), 99, 100, 999, 1_000, 9_998, 9_999])
def test_quantile_that_intervals_use_is_that_of_scipy(freedom: int) -> None:
    assert statistics.find_t_quantile(0.975, freedom) == pytest.approx(scipy.stats.t.ppf(0.975, freedom), rel=EXACT)


@pytest.mark.parametrize("count", COUNTS)
def test_interval_of_a_mean_is_that_of_scipy(count: int) -> None:
    values = draw_numbers(count, count)
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert statistics.find_mean_interval(values) == pytest.approx((expected.low, expected.high), rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("values", [[], [0.3], [0.1 + 0.2, 0.3, 0.3], [0.0] * 40, [5.0] * 2])
def test_equal_numbers_and_single_ones_have_no_interval(values: list[float]) -> None:
    assert statistics.find_mean_interval(np.asarray(values)) is None


def test_end_that_is_zero_but_for_rounding_is_zero() -> None:
    values = np.asarray([-1.0, 1.0])
    assert statistics.find_mean_interval(values + statistics.find_mean_interval(values)[1])[0] == 0.0  # type: ignore[index]


@given(rows=some.integers(1, 10_000), share=some.floats(0, 1))
def test_interval_of_a_share_is_wilsons_and_has_a_width(rows: int, share: float) -> None:
    from statsmodels.stats.proportion import proportion_confint

    low, high = statistics.find_share_interval(share, rows)
    assert (low, high) == pytest.approx(proportion_confint(share * rows, rows, method="wilson"), rel=EXACT, abs=EXACT)
    assert 0 <= low < high <= 1


def test_paired_interval_is_the_published_formula() -> None:
    # Bonett and Price 2012: p12 = (f12 + 1) / (n + 2), p21 = (f21 + 1) / (n + 2).
    for f12, f21, count in [(0, 0, 40), (3, 1, 40), (0, 9, 12), (1, 1, 2), (1, 0, 1), (4, 2, 10_000)]:
        p12, p21 = (f12 + 1) / (count + 2), (f21 + 1) / (count + 2)
        reach = scipy.stats.norm.ppf(0.975) * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / (count + 2))
        expected = (max(-1, p12 - p21 - reach), min(1, p12 - p21 + reach))
        differences = np.asarray([1.0] * f12 + [-1.0] * f21 + [0.0] * (count - f12 - f21))
        assert statistics.find_paired_interval(differences) == pytest.approx(expected, rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("count", COUNTS)
def test_sign_flips_of_passes_are_mcnemars_exact_test(count: int) -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    for seed in range(5):
        flips = draw_flips(seed, count)[: statistics.MOST_CONVOLVED * 3]
        table = [[0, int((flips == 1).sum())], [int((flips == -1).sum()), 0]]
        assert statistics.measure_sign_flips(flips, 1) == pytest.approx(mcnemar(table).pvalue, rel=EXACT)


def enumerate_flips(differences: npt.NDArray[np.float64]) -> float:
    """All patterns of signs, one by one, by whole numbers."""
    seen = abs(int(differences.sum()))
    patterns = itertools.product([1, -1], repeat=len(differences))
    return float(
        np.mean([abs(sum(s * int(d) for s, d in zip(signs, differences, strict=True))) >= seen for signs in patterns])
    )


@given(some.lists(some.integers(-3, 3), min_size=1, max_size=9))
def test_convolution_and_enumeration_find_every_pattern_of_signs(counts: list[int]) -> None:
    differences = np.asarray(counts, float)
    expected = enumerate_flips(differences)
    assert statistics.measure_sign_flips(differences / 3, 3) == pytest.approx(expected, rel=EXACT)
    assert statistics.measure_sign_flips(differences / 3) == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("count", [2, 5, 10, 16])
def test_sign_flips_of_numbers_are_scipys_permutation_test(count: int) -> None:
    values = draw_numbers(count, count)
    expected = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert statistics.measure_sign_flips(values) == pytest.approx(expected.pvalue, rel=EXACT)


@pytest.mark.parametrize("count", [17, 333, 10_000])
def test_draws_of_sign_flips_are_near_the_normal_p_and_always_the_same(count: int) -> None:
    values = draw_numbers(count, count) - 0.3 + 1.5 * 2 / math.sqrt(count)
    z = abs(values.sum()) / math.sqrt((values**2).sum())
    found = statistics.measure_sign_flips(values)
    assert found == pytest.approx(2 * scipy.stats.norm.sf(z), abs=0.02)
    assert found == statistics.measure_sign_flips(values)
    assert found >= 1 / 10_001


def test_many_differing_rows_of_whole_counts_are_drawn_and_agree_with_mcnemar() -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    flips = np.asarray([1.0] * 580 + [-1.0] * 520)
    expected = mcnemar([[0, 580], [520, 0]]).pvalue
    assert statistics.measure_sign_flips(flips, 1) == pytest.approx(expected, abs=0.02)


def test_counts_of_rows_with_very_different_repeats_are_drawn_and_not_overrun() -> None:
    repeats = [997, 991, 983, 977, 971, 967, 953, 947, 941, 937, 929, 919, 911, 907, 887, 883, 881, 877, 863, 859]
    differences = np.asarray([1.0 if number % 4 else -1.0 for number in range(20)])
    found = statistics.measure_sign_flips(differences, math.lcm(*repeats))
    assert found == pytest.approx(scipy.stats.binomtest(5, 20).pvalue, abs=0.01)


def test_five_differing_rows_never_reach_the_level_and_six_do() -> None:
    assert statistics.measure_sign_flips(np.ones(statistics.FEWEST_DIFFERING - 1), 1) > 0.05
    assert statistics.measure_sign_flips(np.ones(statistics.FEWEST_DIFFERING), 1) <= 0.05


def test_no_difference_at_all_has_a_p_of_one() -> None:
    assert statistics.measure_sign_flips(np.zeros(40), 1) == statistics.measure_sign_flips(np.zeros(1)) == 1.0


@pytest.mark.parametrize("ps", [[0.04], [0.04, 0.01, 0.03], [0.02] * 4, [0.9, 0.001, 0.8, 0.5], [1.0, 0.0]])
def test_holm_is_that_of_statsmodels(ps: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    assert statistics.adjust_by_holm(ps) == pytest.approx(multipletests(ps, method="holm")[1], rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("levels", [2, 3, 5])
def test_kappa_is_that_of_statsmodels(count: int, levels: int) -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    random = np.random.default_rng(count)
    a = np.concatenate([[0, 1], random.integers(0, levels, count)])
    b = np.where(random.random(count + 2) < 0.6, a, random.integers(0, levels, count + 2))
    table = np.zeros((levels, levels))
    np.add.at(table, (a, b), 1)
    plain, squared = (cohens_kappa(table, wt=weights, return_results=False) for weights in (None, "fc"))
    assert statistics.measure_kappa(a, b, levels) == pytest.approx(plain, rel=EXACT, abs=EXACT)
    assert statistics.measure_kappa(a, b, levels, is_ordered=True) == pytest.approx(squared, rel=EXACT, abs=EXACT)


def test_agreement_on_one_value_alone_is_unknown() -> None:
    ones = np.ones(20, np.int64)
    assert math.isnan(statistics.measure_kappa(ones, ones, 2))
    assert math.isnan(statistics.measure_concordance(ones * 1.0, ones * 1.0))
    assert statistics.bootstrap([np.asarray([0])] * 5, lambda _: math.nan) is None


@pytest.mark.parametrize("count", COUNTS)
def test_concordance_is_lins_formula(count: int) -> None:
    a, b = draw_numbers(count, count), draw_numbers(count + 1, count)
    covariance = np.cov(a, b, ddof=0)
    expected = 2 * covariance[0, 1] / (covariance[0, 0] + covariance[1, 1] + (a.mean() - b.mean()) ** 2)
    assert statistics.measure_concordance(a, b) == pytest.approx(expected, rel=EXACT, abs=EXACT)
    assert statistics.measure_concordance(a, a) == pytest.approx(1)
    assert statistics.measure_concordance(a, a + 5) < 0.9


def test_bootstrap_of_a_mean_is_near_that_of_scipy_and_always_the_same() -> None:
    values = draw_numbers(3, 60)
    rows = [np.asarray([number]) for number in range(60)]
    measure: Callable[[npt.NDArray[np.int64]], float] = lambda places: float(values[places].mean())  # noqa: E731
    found = statistics.bootstrap(rows, measure)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert found == pytest.approx((theirs.low, theirs.high), abs=0.08)
    assert found == statistics.bootstrap(rows, measure)


def test_bootstrap_draws_whole_rows() -> None:
    rows = [np.asarray([0, 1, 2]), np.asarray([3, 4, 5])]
    seen: list[tuple[int, ...]] = []
    statistics.bootstrap(rows, lambda places: float(seen.append(tuple(places)) or 0))
    assert set(seen) == {a + b for a in ((0, 1, 2), (3, 4, 5)) for b in ((0, 1, 2), (3, 4, 5))}


def test_pass_at_k_and_pass_each_count_the_choices_of_repeats() -> None:
    for repeats, passed in itertools.product(range(1, 7), range(7)):
        if passed > repeats:
            continue
        results = [True] * passed + [False] * (repeats - passed)
        for k in range(1, repeats + 1):
            choices = list(itertools.combinations(results, k))
            assert statistics.find_pass_at(k, passed, repeats) == pytest.approx(np.mean([any(c) for c in choices]))
            assert statistics.find_pass_each(k, passed, repeats) == pytest.approx(np.mean([all(c) for c in choices]))


def test_rows_that_are_needed_show_the_difference_four_times_in_five() -> None:
    assert statistics.find_rows_needed(0.323, 0.05) == 330
    random = np.random.default_rng(5)
    found = [scipy.stats.ttest_1samp(random.normal(0.05, 0.323, 330), 0).pvalue <= 0.05 for _ in range(2_000)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("number, rounded", [(0.0, 0), (3.0, 3), (12.1, 13), (327.2, 330), (1_201, 1_300), (99.5, 100)])
def test_rows_are_rounded_up_to_two_digits(number: float, rounded: int) -> None:
    assert statistics.round_up(number) == rounded
