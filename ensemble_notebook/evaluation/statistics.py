"""The statistics of verdicts, as textbooks and papers have them. Pure: numbers in, numbers out; every seed is fixed.

The sample is rows everywhere: whoever calls has averaged the repeats of a row before (V12).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.int64]
Interval: TypeAlias = tuple[float, float]

CONFIDENCE: Final = 0.95
Z: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
SEED: Final = 20_130_506
"""Of all draws, so that the same scores always give the same verdict."""
ZERO: Final = 1e-9
"""An end of an interval this near to 0 is 0, and sums of differences this near to each other are equal."""

FEWEST_DIFFERING: Final = 6
"""Fewer rows that differ have no two-sided sign-flip p of at most 0.05: it is at least 2 / 2^5 = 0.0625."""
FEWEST_FOR_T: Final = 10
MOST_CONVOLVED: Final = 1_000
MOST_ENUMERATED: Final = 16
_MOST_COUNTS: Final = 500_000
_MOST_WHOLE: Final = 2.0**53
_DRAWS: Final = 10_000
_RESAMPLES: Final = 2_000
_CHUNK: Final = 2_000_000


# --- Intervals --------------------------------------------------------------------------------------------------------


@cache
def find_t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t.

    The distribution function is the finite sum of Abramowitz and Stegun, Handbook of Mathematical Functions (1964),
    26.7.3 and 26.7.4, which is exact for whole degrees of freedom. Newton's method inverts it.

    Args:
        share: of the distribution that lies below; more than 0 and less than 1.
        freedom: degrees of freedom, a whole number from 1.
    """
    if share < 0.5:
        return -find_t_quantile(1 - share, freedom)
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    t = NormalDist().inv_cdf(share)
    for _ in range(100):  # from below, where the function is concave, Newton's steps never pass the quantile
        density = math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = (share - 0.5 - _find_t_share(t, freedom) / 2) / density
        t += step
        if abs(step) <= 1e-13 * max(1.0, t):
            break
    return t


def _find_t_share(t: float, freedom: int) -> float:
    """How much of Student's t lies between -t and t."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    steps = np.arange(2 + odd, freedom - 1, 2)
    sum_of_terms = 1.0 + float(np.cumprod((steps - 1) / steps * cosine**2).sum())
    if not odd:
        return sine * sum_of_terms
    return 2 / math.pi * (angle + (sine * cosine * sum_of_terms if freedom > 1 else 0.0))


def find_mean_interval(values: Values) -> Interval | None:
    """Student's t interval of a mean: mean ± t s / √n (Student, The probable error of a mean, Biometrika 6, 1908).

    Returns:
        None for fewer than two values, and where all are equal: they say nothing of how far they spread.
    """
    count = len(values)
    if count < 2 or is_constant(values):
        return None
    reach = find_t_quantile((1 + CONFIDENCE) / 2, count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
    return _settle(float(values.mean()) - reach, float(values.mean()) + reach)


def find_share_interval(share: float, rows: int) -> Interval:
    """Wilson's score interval of a share (Wilson, Probable inference, JASA 22, 1927). It is never without a width.

    Args:
        share: mean over the rows, of their own shares.
        rows: at least 1.
    """
    square = Z * Z / rows
    middle = (share + square / 2) / (1 + square)
    reach = Z * math.sqrt(share * (1 - share) / rows + square / (4 * rows)) / (1 + square)
    return max(0.0, _settle(middle - reach, 0)[0]), min(1.0, middle + reach)


def find_paired_interval(differences: Values) -> Interval:
    """The interval of a difference of paired shares of Bonett and Price.

    Two rows are added, one that differs by +1 and one by -1, and then it is Wald's interval over n + 2 rows (Adjusted
    Wald confidence interval for a difference of binomial proportions based on paired data, Journal of Educational and
    Behavioral Statistics 37, 2012). Without repeats, sums and squares are counts of rows, as they have it.

    Args:
        differences: of rows, between -1 and 1.
    """
    count = len(differences) + 2
    mean = float(differences.sum()) / count
    variance = (float((differences**2).sum()) + 2) / count - mean * mean
    reach = Z * math.sqrt(max(variance, 0.0) / count)
    low, high = _settle(mean - reach, mean + reach)
    return max(-1.0, low), min(1.0, high)


def find_difference_interval(differences: Values, *, is_share: bool) -> Interval | None:
    """The interval of a mean of row differences: Student's t, and Bonett and Price's where t promises too much.

    With shares of which few rows differ, t is too narrow: were all rows of one side right and 98% of the other, it
    would hold the truth 56 times in a hundred. So it is where all rows differ by the same.

    Args:
        differences: of rows.
        is_share: whether they are differences of shares of one.
    """
    if is_share and len(differences) and (count_differing(differences) < FEWEST_FOR_T or is_constant(differences)):
        return find_paired_interval(differences)
    found = find_mean_interval(differences)
    return (max(-1.0, found[0]), min(1.0, found[1])) if is_share and found is not None else found


def count_differing(differences: Values) -> int:
    """How many are not 0."""
    return int(np.count_nonzero(np.abs(differences) > ZERO))


def is_constant(values: Values) -> bool:
    """Whether all values are equal, but for the rounding of floats."""
    return bool(np.ptp(values) <= ZERO * max(1.0, float(np.abs(values).max()))) if len(values) else True


def _settle(low: float, high: float) -> Interval:
    return (0.0 if abs(low) <= ZERO else low), (0.0 if abs(high) <= ZERO else high)


# --- Tests ------------------------------------------------------------------------------------------------------------


def measure_sign_flips(differences: Values, unit: int | None = None) -> float:
    """The two-sided p of the sign-flip test: were both sides alike, each difference might as well be its negative.

    It is the share of all patterns of signs whose sum is as far from 0 as the one that is there, or farther (Fisher,
    The Design of Experiments, 1935, section 21). Where all differences are -1, 0 and 1, it is McNemar's exact test.

    Exact for up to 1,000 differing rows of whole counts, by convolution, and for up to 16 of others, by enumeration.
    Else (1 + hits) / (1 + draws) of 10,000 seeded draws (Phipson and Smyth, Permutation p-values should never be
    zero, Statistical Applications in Genetics and Molecular Biology 9, 2010).

    Args:
        differences: of rows.
        unit: makes whole counts of all of them by multiplication; None where they are no counts.
    """
    sizes = np.abs(differences[np.abs(differences) > ZERO])
    if not len(sizes):
        return 1.0
    if unit is not None and len(sizes) <= MOST_CONVOLVED and float(sizes.sum()) * unit < _MOST_WHOLE:
        counts = np.rint(differences * unit).astype(np.int64)
        counts //= np.gcd.reduce(counts)
        if np.abs(counts).sum() <= _MOST_COUNTS:
            return _convolve(np.abs(counts[counts != 0]), abs(int(counts.sum())))
    observed_sum = abs(float(differences.sum())) - ZERO * float(sizes.sum())
    if len(sizes) <= MOST_ENUMERATED:
        patterns = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float(np.mean(np.abs((2 * patterns - 1) @ sizes) >= observed_sum))
    return (1 + _count_hits(sizes, observed_sum)) / (1 + _DRAWS)


def _convolve(counts: Places, observed: int) -> float:
    """How likely a sum of these counts, each with either sign, is at least as far from 0 as the one observed."""
    chances = np.ones(1)
    for count in counts:  # after each, position p stands for the sum 2p - (sum of the counts so far)
        longer = np.zeros(len(chances) + int(count))
        longer[: len(chances)] += chances
        longer[int(count) :] += chances
        chances = longer / 2
    sums = 2 * np.arange(len(chances)) - int(counts.sum())
    return min(1.0, float(chances[np.abs(sums) >= observed].sum()))


def _count_hits(sizes: Values, observed: float) -> int:
    random, hits = np.random.default_rng(SEED), 0
    chunk = max(1, _CHUNK // len(sizes))
    for start in range(0, _DRAWS, chunk):
        signs = random.integers(0, 2, (min(chunk, _DRAWS - start), len(sizes)), dtype=np.int8)
        hits += int(np.count_nonzero(np.abs((2.0 * signs - 1) @ sizes) >= observed))
    return hits


def adjust_by_holm(ps: Sequence[float]) -> list[float]:
    """The p of several tests, so that one false claim among all has a chance of 5%.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979.
    """
    order = np.argsort(ps, kind="stable")
    raised = np.maximum.accumulate(np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1))
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(raised, 1.0)
    return [float(each) for each in adjusted]


# --- Agreement --------------------------------------------------------------------------------------------------------


def measure_kappa(a: Places, b: Places, levels: int, *, is_ordered: bool = False) -> float:
    """Cohen's kappa: how much more two raters agree than chance would have them.

    Cohen, A coefficient of agreement for nominal scales, Educational and Psychological Measurement 20, 1960; with
    quadratic weights: Cohen, Weighted kappa, Psychological Bulletin 70, 1968.

    Args:
        a: what one of them says, as numbers from 0.
        b: likewise; of the same length.
        levels: how many categories there are.
        is_ordered: with quadratic weights, so that near misses count less.

    Returns:
        NaN where both always say the same one category.
    """
    table = np.zeros((levels, levels))
    np.add.at(table, (a, b), 1 / len(a))
    steps = np.arange(levels)[:, None] - np.arange(levels)
    weights = steps**2.0 if is_ordered else (steps != 0).astype(float)
    by_chance = float((weights * np.outer(table.sum(1), table.sum(0))).sum())
    return 1 - float((weights * table).sum()) / by_chance if by_chance > 0 else math.nan


def measure_concordance(a: Values, b: Values) -> float:
    """Lin's concordance of two raters' numbers: 1 where they are equal, not only in proportion.

    Lin, A concordance correlation coefficient to evaluate reproducibility, Biometrics 45, 1989; with moments over n.

    Returns:
        NaN where both always say the same one number.
    """
    apart = float(a.var() + b.var() + (a.mean() - b.mean()) ** 2)
    return 2 * float(np.mean((a - a.mean()) * (b - b.mean()))) / apart if apart > 0 else math.nan


def bootstrap(rows: Sequence[Places], measure: Callable[[Places], float]) -> Interval | None:
    """The percentile interval of a measure over rows that are drawn again, 2,000 times, by a fixed seed.

    Efron, Bootstrap methods: another look at the jackknife, Annals of Statistics 7, 1979.

    Args:
        rows: for each row, the positions of its values, which stay together.
        measure: of the values at these positions. Draws of which it is NaN are left out.

    Returns:
        None where it is NaN for all.
    """
    random = np.random.default_rng(SEED)
    found = [
        measure(np.concatenate([rows[each] for each in random.integers(0, len(rows), len(rows))]))
        for _ in range(_RESAMPLES)
    ]
    known = np.asarray([each for each in found if not math.isnan(each)])
    if not len(known):
        return None
    low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


# --- Repeats and rows -------------------------------------------------------------------------------------------------


def find_pass_at(k: int, passed: int, repeats: int) -> float:
    """The chance that at least one of k repeats passes: 1 - C(n-c, k) / C(n, k).

    Chen et al., Evaluating large language models trained on code, arXiv 2107.03374, 2021.
    """
    return 1 - math.comb(repeats - passed, k) / math.comb(repeats, k)


def find_pass_each(k: int, passed: int, repeats: int) -> float:
    """The chance that all of k repeats pass, "pass^k": C(c, k) / C(n, k).

    Yao et al., τ-bench, arXiv 2406.12045, 2024.
    """
    return math.comb(passed, k) / math.comb(repeats, k)


def find_rows_needed(spread: float, difference: float) -> int:
    """How many rows show a difference with a power of 80%: ((1.96 + 0.84) s / d)², rounded up to two digits.

    Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988: the paired t test, by the normal distribution.

    Args:
        spread: standard deviation of the differences of rows.
        difference: that is to be shown; not 0.
    """
    return round_up((2.8 * spread / difference) ** 2)


def round_up(number: float) -> int:
    """To the next whole number with two telling digits: 327.2 is 330."""
    whole = math.ceil(number - ZERO)
    unit = int(10 ** max(0, len(str(whole)) - 2))
    return -(-whole // unit) * unit
