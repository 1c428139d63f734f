"""How strong each variant is, by judges that compared two at a time (V66): the model of Bradley and Terry (1952).

A variant of strength s beats one of strength t in s / (s + t) of all rows. The fit is a page of numpy, since no library
that is kept well gives the strengths with intervals, rows being the sample: `choix` has no intervals, and those of a
binomial regression take the pairs of a row for independent, which they are not: they share their replies.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.evaluation import statistics
from ensemble_notebook.evaluation.comparison import describe_changed
from ensemble_notebook.evaluation.scored_runs import Ending, ScoredRun
from ensemble_notebook.trace.tables.table import Column, Table

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.score import ScoreRecord
    from ensemble_notebook.trace.analysis.row_table import RowFrame

_HALF: Final = 0.5
"""Of a row is added to both sides of each pair, as Haldane and Anscombe do for the log of odds: else one that wins
every row would be infinitely strong, and nobody could say how sure that is."""
_MOST_STEPS: Final = 100
_NEAR: Final = 1e-10
_LONGEST_STEP: Final = 2.0

Points = Mapping[tuple[str, str], Mapping[Hashable, float]]
"""By two variants, the share of each row that the first of them won, ties half; repeats are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """How strong a variant is.

    Attributes:
        variant: its name.
        strength: 1 is the middle of all that are ranked (their geometric mean); None where it can't be compared.
        interval: of it, 95%.
    """

    variant: str
    strength: float | None = None
    interval: statistics.Interval | None = None


RANKING: Final = Table(
    "variant, the strongest first",
    None,
    (
        Column("variant", "string", "its name", is_nullable=False),
        Column("strength", "Float64", "it beats another one in strength / (strength + that of the other) of all rows"),
        Column("low", "Float64", "end of its interval, 95%", lambda each: each.interval and each.interval[0]),
        Column("high", "Float64", "the other end", lambda each: each.interval and each.interval[1]),
    ),
)


def rank(sides: Mapping[str, Sequence[ScoredRun]], score: str) -> RowFrame:
    """Rank variants by a score that compares them, with notes on what that rests on.

    Args:
        sides: the runs of each variant, by what sentences call it.
        score: its name.
    """
    names = {runs[0].variant: name for name, runs in sides.items() if runs}
    points, judged = _list_points(sides, names, score)
    group = _find_group([*sides], points)
    found = fit_strengths([name for name in sides if name in group], points) if group else []
    found += [Strength(variant=name) for name in sides if name not in group]
    frame = RANKING.to_frame(found)
    notes = [mask(each) for each in _list_notes(sides, points, group, judged)]
    if not notes:
        return frame
    from ensemble_notebook.trace.analysis.noted_frame import NotedFrame

    return NotedFrame.make(frame, notes)


def _list_points(
    sides: Mapping[str, Sequence[ScoredRun]], names: Mapping[str, str], score: str
) -> tuple[Points, list[ScoreRecord]]:
    """What was won, and the scores of all pairs, each once."""
    places = {name: place for place, name in enumerate(sides)}
    given: dict[tuple[str, str], dict[Hashable, list[float]]] = {}
    judged = []
    for name, runs in sides.items():
        for run in runs:
            for variant, record in run.pairs.get(score, {}).items():
                other = names.get(variant or "")
                if other is None or places[other] < places[name] or record.value is None:
                    continue
                given.setdefault((name, other), {}).setdefault(run.row, []).append(record.value)
                judged.append(record)
    return {pair: {row: sum(e) / len(e) for row, e in rows.items()} for pair, rows in given.items()}, judged


def _find_group(names: Sequence[str], points: Points) -> Collection[str]:
    """The most variants that are compared with each other, directly or over others; of as many, those that come first.

    Strengths of two groups that nothing links mean nothing beside each other.
    """
    groups = [{name} for name in names]
    for pair in points:
        linked = [each for each in groups if each & {*pair}]
        groups = [each for each in groups if not each & {*pair}] + [set().union(*linked)]
    groups.sort(key=lambda group: (-len(group), min(map(names.index, group))))
    return groups[0] if groups and len(groups[0]) > 1 else set()


def fit_strengths(names: Sequence[str], points: Points) -> list[Strength]:
    """Fit the strengths of variants that are all linked by pairs, the strongest first.

    The interval is that of a normal distribution of the logarithm. Its variance is the larger one of two: that of the
    model, and that of rows, whose pairs are not independent (White's, with the rows as clusters). Ties count half.

    Args:
        names: of the variants.
        points: what they won of each other.
    """
    places = {name: place for place, name in enumerate(names)}
    size = len(names)
    own = {(places[a], places[b]): rows for (a, b), rows in points.items() if a in places}
    won, played = np.zeros((size, size)), np.zeros((size, size))
    for (i, j), rows in own.items():
        total = math.fsum(rows.values())
        won[i, j], won[j, i] = total + _HALF, len(rows) - total + _HALF
        played[i, j] = played[j, i] = len(rows) + 2 * _HALF
    logs = _fit_logs(won, played)
    shares, spread = _find_spread(logs, played)
    pulls: defaultdict[Hashable, statistics.Values] = defaultdict(lambda: np.zeros(size))
    for (i, j), rows in own.items():
        for row, share in rows.items():
            pull, gap = pulls[row], share - shares[i, j]
            pull[i] += gap
            pull[j] -= gap
    variances = np.diag(spread)
    if len(pulls) > 1:
        of_rows = np.asarray([*pulls.values()])
        clustered = spread @ (of_rows.T @ of_rows) @ spread * len(pulls) / (len(pulls) - 1)
        variances = np.maximum(variances, np.diag(clustered))
    found = []
    for name, log, variance in zip(names, logs, variances, strict=True):
        reach = statistics.Z * math.sqrt(variance)
        interval = math.exp(log - reach), math.exp(log + reach)
        found.append(Strength(variant=name, strength=math.exp(log), interval=interval))
    return sorted(found, key=lambda each: -(each.strength or 0.0))


def _fit_logs(won: statistics.Values, played: statistics.Values) -> statistics.Values:
    """The logarithms of the strengths, of mean 0: Newton's method, of which no step is long."""
    logs: statistics.Values = np.zeros(len(won))
    for _ in range(_MOST_STEPS):
        shares, spread = _find_spread(logs, played)
        step = spread @ (won - played * shares).sum(axis=1)
        longest = float(np.abs(step).max(initial=0.0))
        logs += step * min(1.0, _LONGEST_STEP / max(longest, _NEAR))
        if longest < _NEAR:
            break
    return logs


def _find_spread(logs: statistics.Values, played: statistics.Values) -> tuple[statistics.Values, statistics.Values]:
    """The share that each wins of each other, and the covariance of the logarithms that the model gives."""
    shares: statistics.Values = 1 / (1 + np.exp(logs[None, :] - logs[:, None]))
    weights = played * shares * (1 - shares)
    mean = 1 / len(logs)  # which the shares say nothing of: it is held at 0, and the inverse is taken beside it
    return shares, np.asarray(np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + mean) - mean, dtype=np.float64)


def _list_notes(
    sides: Mapping[str, Sequence[ScoredRun]],
    points: Points,
    group: Collection[str],
    judged: Sequence[ScoreRecord],
) -> Iterator[str]:
    """What a person should know of a ranking."""
    if changed := describe_changed(judged):
        yield f"{changed[0].upper()}{changed[1:]}."
    runs = Counter((run.row, run.repeat) for side in sides.values() for run in side if run.ending is not Ending.SETTLED)
    if lost := sum(math.comb(count, 2) for count in runs.values()) - len(judged):
        verb = "was" if lost == 1 else "were"
        told = "a row failed or was cut short, or the judge gave no answer"
        yield f"{pluralize(lost, 'pair')} {verb} not compared: {told}."
    if left := [name for name in sides if name not in group]:
        beside = f" with {' and '.join(name for name in sides if name in group)}" if group else ""
        verb = "was" if len(left) == 1 else "were"
        yield f"{' and '.join(left)} {verb} never compared{beside}, so nothing can be said of how strong."
    for name in sides:
        word = _find_streak(name, points)
        if word == "won" or (word == "lost" and len(group) > 2):  # of two, the one says it of the other
            yield f"{name} {word} every row, so nobody can tell by how far: each side of a pair has half a row added."


def _find_streak(name: str, points: Points) -> str | None:
    """Whether a variant won all of its rows, or lost them; None where neither."""
    shares = {
        share if name == pair[0] else 1 - share
        for pair, rows in points.items()
        if name in pair
        for share in rows.values()
    }
    return "won" if shares == {1.0} else "lost" if shares == {0.0} else None
