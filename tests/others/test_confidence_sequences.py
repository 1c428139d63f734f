"""2,000 draws of 300 rows, looked at after each, at a level of 5%: by confidence sequences and the usual interval.

False verdicts are of sides that are alike, rows saved of sides of which one is 0.2 better, in the median. The usual
interval is Student's t, from the tenth row on, on the same draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from ensemble_notebook.evaluation import confidence_sequences as sequences
from ensemble_notebook.evaluation.statistics import Values, find_t_quantile

DRAWS: Final = 2_000
ROWS: Final = 300
LEVEL: Final = 0.05
FIRST_PEEK: Final = 10
QUANTILES: Final = np.asarray([0, 0, *(find_t_quantile(1 - LEVEL / 2, rows) for rows in range(1, ROWS))])


def draw_bools(random: np.random.Generator, repeats: int, gain: float) -> Values:
    """Differences of shares: each row has a chance of its own, Beta(1.4, 0.6) if nothing is gained."""
    chances = random.beta(1.4, 0.6, ROWS) * (1 - gain)
    return (random.binomial(repeats, chances + gain) - random.binomial(repeats, chances)) / repeats


def draw_bounded(random: np.random.Generator, repeats: int, gain: float) -> Values:
    """Differences of numbers between 0 and 1: each row has a level of its own, Beta(4, 2) if nothing is gained."""
    levels = random.beta(4, 2, (ROWS, 1)) * (1 - gain)
    noise = random.normal(0, 0.2, (2, ROWS, repeats))
    return (np.clip(levels + gain + noise[0], 0, 1) - np.clip(levels + noise[1], 0, 1)).mean(1)


def find_bounded(differences: Values) -> Values:
    """After each row, whether a difference is claimed."""
    shares = (differences + 1) / 2
    stakes = sequences._plan_stakes(shares, LEVEL)
    capitals = [sequences._grow(shares, stakes, 0.5, sign) for sign in (1, -1)]
    return np.maximum(*capitals) >= np.log(2 / LEVEL)


def find_approximate(differences: Values) -> Values:
    """Likewise, as if the differences had no bounds."""
    count, means, spreads = sequences._measure_spreads(differences) or [np.ones(0)] * 3
    claimed = np.abs(means) > spreads / count * sequences._find_boundary(count, LEVEL)
    return np.concatenate([np.zeros(ROWS - len(claimed), bool), claimed])


def find_usual(differences: Values) -> Values:
    """Likewise, by Student's t interval of what is there so far."""
    count = np.arange(1, ROWS + 1)
    means = np.cumsum(differences) / count
    squares = np.maximum(np.cumsum(differences**2) - count * means**2, 0)
    reach = QUANTILES[count] * np.sqrt(squares / np.maximum(count - 1, 1) / count)
    return (count >= FIRST_PEEK) & (reach > 0) & (np.abs(means) > reach)


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("score, draw", [("bool", draw_bools), ("bounded", draw_bounded)])
def test_alike_sides_are_told_apart_in_at_most_5_of_100_draws(
    score: str, draw: Callable[..., Values], repeats: int, add_figures: Callable[..., None]
) -> None:
    random, finders = np.random.default_rng(30), (find_bounded, find_approximate, find_usual)
    alike = [draw(random, repeats, 0.0) for _ in range(DRAWS)]
    false = [float(np.mean([find(each).any() for each in alike])) for find in finders]
    apart = [draw(random, repeats, 0.2) for _ in range(DRAWS)]
    saved = [float(np.median([count_saved(find(each)) for each in apart])) for find in finders]
    add_figures(
        score=score,
        repeats=str(repeats),
        false_verdicts=f"{false[0]:.1%}",
        rows_saved=f"{saved[0]:.0f}",
        false_verdicts_without_bounds=f"{false[1]:.1%}",
        rows_saved_without_bounds=f"{saved[1]:.0f}",
        false_verdicts_by_the_usual_interval=f"{false[2]:.1%}",
    )
    assert false[0] <= LEVEL
    assert false[1] <= 0.07
    assert false[2] > 0.2  # what peeking does
    assert min(saved[:2]) > ROWS / 2


def count_saved(claimed: Values) -> int:
    """How many rows were not needed."""
    return ROWS - 1 - int(claimed.argmax()) if claimed.any() else 0
