"""Confidence sequences: intervals of a mean that hold after each row at once, so that looking early misleads nobody.

Usual intervals hold at a number of rows that was fixed before. Who looks after each row, and stops at the first one
that claims a difference, is wrong far more often than 5 times in a hundred. Pure: numbers in, numbers out.

The sample is rows in the order in which they were drawn; whoever calls has averaged the repeats of a row before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ensemble_notebook.evaluation.statistics import ZERO, Interval, Values

FEWEST_APPROXIMATE: Final = 30
"""A sequence without bounds holds in the limit of many rows, and is told from here on."""
_TUNED_FOR: Final = 100
"""The number of rows at which a sequence without bounds is narrowest."""
_MOST_STAKED: Final = 0.5
"""Of the capital, on one row: more could be lost whole."""
_HALVINGS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMean:
    """What is known of a mean so far.

    Attributes:
        rows: so far.
        mean: of them.
        interval: that holds after each row at once, with 1 - level; None where nothing can be said yet, and where no
            mean fits all of the rows, as where they came sorted.
        p: of the mean being 0, that holds after each row at once.
        is_approximate: whether the interval holds in the limit of many rows, since the numbers have no bounds.
    """

    rows: int
    mean: float
    interval: Interval | None
    p: float
    is_approximate: bool


def follow_mean(values: Sequence[float], *, level: float, bounds: Interval | None) -> RunningMean | None:
    """What is known of the mean of these rows, in the order in which they were drawn.

    With several comparisons, each has its share of the level: 0.05 over two of them is 0.025 for each.

    Args:
        values: of rows: scores, or differences of scores.
        level: how often the interval may fail to hold the mean, at any row; more than 0 and less than 1.
        bounds: the least and the most that a value can be; None where there are none.

    Returns:
        None for no rows.

    Raises:
        ValueError: a value is outside of its bounds.
    """
    rows = np.asarray(values, float)
    if not len(rows):
        return None
    interval = find_approximate_interval(rows, level)
    if bounds is not None:
        low, high = bounds
        ends = find_bounded_interval(_to_shares(rows, bounds), level)
        interval = low + (high - low) * ends[0], low + (high - low) * ends[1]
    if interval is not None and interval[0] > interval[1]:
        interval = None
    p = measure_p(rows, level=level, bounds=bounds)
    return RunningMean(rows=len(rows), mean=float(rows.mean()), interval=interval, p=p, is_approximate=bounds is None)


def measure_p(values: Sequence[float] | Values, *, level: float, bounds: Interval | None) -> float:
    """The p of `RunningMean`, which takes less time than its interval; 1 where nothing can be said.

    Args:
        values: as of `follow_mean`.
        level: likewise.
        bounds: likewise.

    Raises:
        ValueError: a value is outside of its bounds.
    """
    rows = np.asarray(values, float)
    if bounds is None:
        return measure_approximate(rows, level)
    low, high = bounds
    if not len(rows) or not low < 0 < high:
        return 1.0
    return 1 / max(1.0, _bet_against(_to_shares(rows, bounds), -low / (high - low), level))


def _to_shares(rows: Values, bounds: Interval) -> Values:
    """Values between 0 and 1, of values between their bounds."""
    low, high = bounds
    if rows.min() < low - ZERO or rows.max() > high + ZERO:
        raise ValueError(f"values are outside of their bounds, {low:g} to {high:g}")
    return np.clip((rows - low) / (high - low), 0, 1)


# --- Bounded values ---------------------------------------------------------------------------------------------------


def find_bounded_interval(values: Values, level: float) -> Interval:
    """The hedged betting interval of a mean.

    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, Journal of the Royal Statistical
    Society B 86, 2024; with stakes that were planned by the spread so far, their "predictable plug-in".

    Two gamblers bet half of a capital each, one that the mean is higher and one that it is lower. A mean against which
    either has ever made 1 / level of the capital is left out: were it true, they would in at most `level` of all draws.

    Args:
        values: between 0 and 1, in the order in which they were drawn.
        level: as of `follow_mean`.
    """
    stakes, most = _plan_stakes(values, level), math.log(2 / level)

    def is_left_out(mean: float, sign: int) -> bool:
        return float(_grow(values, stakes, mean, sign).max()) >= most

    # a mean farther up is harder to beat for who bets on more, so each end is found by halving
    low = _halve(lambda mean: is_left_out(mean, 1))
    return low, 1 - _halve(lambda distance: is_left_out(1 - distance, -1))


def _halve(is_left_out: Callable[[float], bool]) -> float:
    """The farthest from 0, of what lies between 0 and 1, that is left out together with all that is nearer to 0."""
    near, far = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if is_left_out(middle) else (near, middle)
    return near


def _bet_against(values: Values, mean: float, level: float) -> float:
    """The most capital that either gambler has had, who began with half of 1 each."""
    stakes = _plan_stakes(values, level)
    return math.exp(min(700.0, max(float(_grow(values, stakes, mean, sign).max()) for sign in (1, -1)))) / 2


def _plan_stakes(values: Values, level: float) -> Values:
    """How much is bet on each value, from those before it alone: much where they spread little."""
    count = np.arange(1, len(values) + 1)
    means = (0.5 + np.cumsum(values)) / (count + 1)
    spreads = (0.25 + np.cumsum((values - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spreads[:-1]])
    stakes: Values = np.sqrt(2 * math.log(2 / level) / (count * np.log1p(count) * before))
    return stakes


def _grow(values: Values, stakes: Values, mean: float, sign: int) -> Values:
    """The logarithm of the capital of a gambler against this mean, after each value."""
    farthest = mean if sign > 0 else 1 - mean
    staked = np.minimum(stakes, _MOST_STAKED / farthest) if farthest > 0 else stakes
    return np.cumsum(np.log1p(sign * staked * (values - mean)))


# --- Values without bounds --------------------------------------------------------------------------------------------


def find_approximate_interval(values: Values, level: float) -> Interval | None:
    """The asymptotic interval of a mean.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence
    sequences, Annals of Statistics 52, 2024. Its boundary is the normal mixture of Howard, Ramdas, McAuliffe and
    Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 49, 2021.

    Args:
        values: in the order in which they were drawn.
        level: as of `follow_mean`.

    Returns:
        None for fewer than 30 rows, and where all are equal: they say nothing of how far they spread.
    """
    found = _measure_spreads(values)
    if found is None:
        return None
    count, means, spreads = found
    reach = spreads / count * _find_boundary(count, level)
    return float((means - reach).max()), float((means + reach).min())


def measure_approximate(values: Values, level: float) -> float:
    """The p of the mean being 0, of the same mixture: an interval of this level leaves 0 out where p is at most that.

    Returns:
        1 where there is no interval.
    """
    found = _measure_spreads(values)
    if found is None:
        return 1.0
    count, means, spreads = found
    weight = _find_weight(level)
    sums = means * count / spreads
    evidence = sums**2 / (2 * (count + weight)) - np.log((count + weight) / weight) / 2
    return math.exp(-max(0.0, float(evidence.max())))


def _measure_spreads(values: Values) -> tuple[Values, Values, Values] | None:
    """How many rows, their means and standard deviations, from the 30th row on; None where they do not spread."""
    count = np.arange(1, len(values) + 1, dtype=float)
    centred = values - values[0] if len(values) else values
    means = np.cumsum(centred) / count
    variances = np.maximum(np.cumsum(centred**2) / count - means**2, 0.0)
    told = (count >= FEWEST_APPROXIMATE) & (variances > ZERO * max(1.0, float(np.abs(centred).max(initial=0)) ** 2))
    if not told.any():
        return None
    return count[told], means[told] + values[0], np.sqrt(variances[told])


def _find_boundary(count: Values, level: float) -> Values:
    """How far from 0 the sum of so many rows may be, in standard deviations of one."""
    weight = _find_weight(level)
    return np.sqrt((count + weight) * np.log((count + weight) / (level**2 * weight)))


def _find_weight(level: float) -> float:
    """The weight of the mixture that is best at the number of rows that it is tuned for."""
    return _TUNED_FOR / (2 * math.log(1 / level) + math.log(1 + 2 * math.log(1 / level)))
