"""Known strengths, found again by judges that compare two at a time: 500 draws of each design, and whole maps.

A judge is sure of each pair, or draws anew with each order, so that it often changes its mind: that is a tie. Of a row
each variant has a liking of its own, so that its pairs depend on each other, or each pair is drawn by itself. The error
is the largest one of all log-ratios, the interval that of each strength. The maps run through the whole engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from ensemble_notebook import Ensemble, Task, TaskInput, scorers
from ensemble_notebook.evaluation.ranking import Points, fit_strengths
from tests.others.venv import Venv

DRAWS: Final = 500
NEAR: Final = 0.35
"""Log-ratios of 400 rows may be off by so much."""
PEERS: Final = (0.0, 0.5, 1.2)
FIVE: Final = (0.0, 0.3, 0.6, 1.5, 2.5)
NAMES: Final = ("a", "b", "c", "d", "e")


def draw_pairs(random: np.random.Generator, logs: Sequence[float], rows: int, orders: int) -> Points:
    """Each pair of a row by itself."""
    found = {}
    for i, j in combinations(range(len(logs)), 2):
        won = random.random((orders, rows)) < 1 / (1 + np.exp(logs[j] - logs[i]))
        found[NAMES[i], NAMES[j]] = dict(enumerate(won.mean(axis=0).tolist()))
    return found


def draw_rows(random: np.random.Generator, logs: Sequence[float], rows: int, orders: int) -> Points:
    """All variants of a row at once: one that is liked more than another is above it in each pair."""
    liked = np.asarray(logs) + random.gumbel(size=(orders, rows, len(logs)))
    return {
        (NAMES[i], NAMES[j]): dict(enumerate((liked[..., i] > liked[..., j]).mean(axis=0).tolist()))
        for i, j in combinations(range(len(logs)), 2)
    }


def find_logs(points: Points, count: int) -> tuple[Any, Any]:
    """The logarithms of the strengths, and of the ends of their intervals."""
    found = {each.variant: each for each in fit_strengths(NAMES[:count], points)}
    ranked = [found[name] for name in NAMES[:count]]
    return np.log([each.strength for each in ranked]), np.log([each.interval for each in ranked])


def find_error(logs: Any, known: Any) -> float:
    """The largest one of all log-ratios."""
    off = logs - np.asarray(known)
    return float(off.max() - off.min())


@pytest.mark.parametrize("draw", [draw_pairs, draw_rows])
@pytest.mark.parametrize("known", [PEERS, FIVE], ids=["three", "five"])
def test_known_strengths_are_found_within_their_intervals(
    draw: Callable[..., Points], known: Sequence[float], add_figures: Callable[..., None]
) -> None:
    for rows, orders in ((40, 1), (400, 1), (400, 2)):
        random, errors, held = np.random.default_rng(11), [], []
        centred = np.asarray(known) - np.mean(known)
        for _ in range(DRAWS):
            logs, ends = find_logs(draw(random, known, rows, orders), len(known))
            errors.append(find_error(logs, known))
            held.append((ends[:, 0] <= centred) & (centred <= ends[:, 1]))
        within = np.mean(np.asarray(errors) <= NEAR)
        add_figures(
            pairs="by themselves" if draw is draw_pairs else "of shared replies",
            judge="is sure" if orders == 1 else "draws anew",
            variants=str(len(known)),
            rows=str(rows),
            error_in_the_median=f"{np.median(errors):.2f}",
            near_enough=f"{within:.1%}",
            intervals_that_hold=f"{np.mean(held):.1%}",
        )
        assert np.mean(held) >= 0.93
        assert rows < 400 or within >= 0.95


def test_strengths_are_those_of_choix(make_venv: Callable[..., Venv], tmp_path: Path) -> None:
    """It has no ties, and no intervals; ours has half a row more on each side of a pair."""
    points = draw_rows(np.random.default_rng(12), FIVE, 400, 1)
    wins = []
    for (a, b), rows in points.items():
        i, j = NAMES.index(a), NAMES.index(b)
        wins += [[i, j] if share else [j, i] for share in rows.values()]
    (tmp_path / "wins.json").write_text(json.dumps(wins))
    program = "import choix, json; print(json.dumps([*choix.ilsr_pairwise(5, json.load(open('wins.json')))]))"
    told = make_venv("ranking", "choix", ours=None).run("python", "-c", program, cwd=tmp_path)
    assert find_error(find_logs(points, 5)[0], json.loads(told)) < 0.03


async def answer(given: TaskInput) -> str:
    return str(given.inputs["style"])


def make_judge(known: Sequence[float], random: np.random.Generator) -> Any:
    """Draws which of two it likes more, anew with each question."""

    async def judge(given: TaskInput) -> dict[str, str]:
        liked = [known[NAMES.index(given.inputs[each])] + random.gumbel() for each in ("first", "second")]
        return {"better": "first" if liked[0] > liked[1] else "second"}

    task = Task(description="{first} {second}", handler=judge, output_type={"better": "first | second | tie"})
    return scorers.judged_by(Ensemble(tasks=[task], name="judge"), pair=True)


def test_maps_of_400_rows_rank_known_strengths(add_figures: Callable[..., None]) -> None:
    ensemble = Ensemble(tasks=[Task(description="{style} {n}", handler=answer)])
    variants = ensemble.variants({name: {"inputs": {"style": name}} for name in NAMES[:3]})
    random, errors, rows = np.random.default_rng(13), [], [{"n": place} for place in range(400)]
    for _ in range(3):
        found = variants.map(rows, score={"better": make_judge(PEERS, random)}).ranking("better")
        strengths = found.set_index("variant").strength[[*NAMES[:3]]].astype(float).to_numpy()
        errors.append(find_error(np.log(strengths), PEERS))
        assert "The judge changed its mind with the order in " in repr(found)
    add_figures(
        pairs="of whole maps",
        judge="draws anew",
        variants="3",
        rows="400",
        error_in_the_median=f"{np.median(errors):.2f}",
        near_enough=f"{np.mean(np.asarray(errors) <= NEAR):.1%}",
        intervals_that_hold="",
    )
    assert max(errors) <= NEAR
