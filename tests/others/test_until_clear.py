"""400 maps of alike sides, of 60 rows, and 120 where one is 0.25 better, of 200 rows: each until clear at 5%.

They run through the whole engine, four rows at once, so that what is under way when it is clear counts, too. The
usual interval is Student's t, from the tenth row on, on the same draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ensemble_notebook import Ensemble, Score, Task, TaskInput
from ensemble_notebook.evaluation.statistics import find_t_quantile

LEVEL: Final = 0.05
APPROXIMATE: Final = 0.07
"""Of scores without bounds, whose intervals are true of many rows."""
ALIKE, DIFFERENT = 400, 120
DESIGNS: Final = 6
FIRST_PEEK: Final = 10
VARIANTS: Final = {name: {"inputs": {"style": name}} for name in ("before", "after")}
Numbers = npt.NDArray[np.float64]


async def answer(given: TaskInput) -> str:
    return str(given.inputs["style"])


ENSEMBLE: Final = Ensemble(tasks=[Task(description="{style} {n}", handler=answer)])


def draw_bools(random: np.random.Generator, rows: int, repeats: int, gain: float) -> Numbers:
    chances = random.beta(1.4, 0.6, rows) * (1 - gain)
    return np.stack([random.binomial(1, (chances + more)[:, None], (rows, repeats)) for more in (0.0, gain)]) * 1.0


def draw_bounded(random: np.random.Generator, rows: int, repeats: int, gain: float) -> Numbers:
    levels = random.beta(4, 2, (rows, 1)) * (1 - gain)
    noise = random.normal(0, 0.2, (2, rows, repeats))
    return np.clip(levels + np.asarray([0.0, gain])[:, None, None] + noise, 0, 1)


def draw_numbers(random: np.random.Generator, rows: int, repeats: int, gain: float) -> Numbers:
    """Scores that nobody has given bounds."""
    levels = random.normal(5, 1, (rows, 1))
    return levels + np.asarray([0.0, gain])[:, None, None] + random.standard_t(5, (2, rows, repeats))


def run(drawn: Numbers, seed: int, to_score: Callable[[float], Any]) -> Any:
    """A map whose scores were drawn before."""
    left = [[list(row) for row in side] for side in drawn]

    def mark(output: Any, inputs: Any) -> Any:
        return to_score(left[output.raw == "after"][inputs["n"]].pop())

    rows = [{"n": place} for place in range(drawn.shape[1])]
    repeats = drawn.shape[2]
    return ENSEMBLE.variants(VARIANTS).map(
        rows, repeat=repeats, score=mark, until_clear=LEVEL, seed=seed, concurrency=4
    )


def is_claimed_by_peeking(drawn: Numbers) -> bool:
    differences = (drawn[1] - drawn[0]).mean(1)
    for count in range(FIRST_PEEK, len(differences) + 1):
        seen = differences[:count]
        reach = find_t_quantile(1 - LEVEL / 2, count - 1) * seen.std(ddof=1) / count**0.5
        if abs(seen.mean()) > reach > 0:
            return True
    return False


def test_maps_of_alike_sides_claim_a_difference_in_at_most_5_of_100(add_figures: Callable[..., None]) -> None:
    random, false, maps = np.random.default_rng(6), 0, 0
    for place in range(DESIGNS):
        draw, to_score = [(draw_bools, bool), (draw_bounded, lambda value: Score(value, low=0, high=1))][place % 2]
        repeats, count = place // 2 + 1, ALIKE // DESIGNS + (place < ALIKE % DESIGNS)
        claimed, peeked = 0, 0
        for seed in range(count):
            drawn = draw(random, 60, repeats, 0.0)
            claimed += run(drawn, seed, to_score).compare().is_different
            peeked += is_claimed_by_peeking(drawn)
        saved = []
        for seed in range(DIFFERENT // DESIGNS):
            result = run(draw(random, 200, repeats, 0.25), seed, to_score)
            assert result.compare().better == "after"
            settled = sum(each.status == "settled" for each in result)
            saved.append(settled / repeats / 2)
        false, maps = false + claimed, maps + count
        add_figures(
            score="bool" if draw is draw_bools else "bounded",
            repeats=str(repeats),
            maps=str(count),
            false_verdicts=f"{claimed / count:.1%}",
            false_verdicts_by_peeking=f"{peeked / count:.1%}",
            rows_saved_of_200=f"{np.median(saved):.0f}",
        )
    assert maps == ALIKE
    assert false <= LEVEL * ALIKE


def test_scores_without_bounds_claim_a_difference_in_at_most_7_of_100_maps(add_figures: Callable[..., None]) -> None:
    random, maps = np.random.default_rng(7), 200
    claimed, peeked, saved = 0, 0, []
    for seed in range(maps):
        drawn = draw_numbers(random, 60, 1, 0.0)
        claimed += run(drawn, seed, float).compare().is_different
        peeked += is_claimed_by_peeking(drawn)
    for seed in range(DIFFERENT // DESIGNS):
        result = run(draw_numbers(random, 200, 1, 1.5), seed, float)
        assert result.compare().better == "after"
        assert "approximate" in repr(result.compare())
        saved.append(sum(each.status == "settled" for each in result) / 2)
    add_figures(
        score="without bounds",
        repeats="1",
        maps=str(maps),
        false_verdicts=f"{claimed / maps:.1%}",
        false_verdicts_by_peeking=f"{peeked / maps:.1%}",
        rows_saved_of_200=f"{np.median(saved):.0f}",
    )
    assert claimed <= APPROXIMATE * maps
