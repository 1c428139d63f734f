"""How far two scores of the same runs agree: a judge and a person, two judges, a judge and code (V12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.evaluation import statistics
from ensemble_notebook.evaluation.scored_runs import ScoredRun, find_measure, list_scores

FEWEST_CHECKED: Final = 20
"""Fewer rows that a person has scored, too, do not check a judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far two scores agree.

    Attributes:
        first: name of one of them.
        second: name of the other.
        measure: ``"kappa"`` for what passes or fails and for labels, ``"weighted kappa"`` for levels, ``"concordance"``
            for other numbers.
        value: 1 where they agree on all, 0 as chance would have it; None where one of them always says the same.
        interval: of it, 95%, by a bootstrap over rows; None where there is none.
        rows: that have both scores.
        runs: likewise, repeats counted.
        agreed: runs of which both say the same.
    """

    first: str
    second: str
    measure: str
    value: float | None
    interval: statistics.Interval | None
    rows: int
    runs: int
    agreed: int

    def describe(self) -> str:
        """What stands in a verdict: ``36 of 40 rows (kappa 0.71, 0.48 to 0.90)``."""
        noun = "row" if self.rows == self.runs else "run"
        if self.value is None:
            who = "both always say" if self.agreed == self.runs else "one of them always says"
            how = f"no {self.measure}, since {who} the same"
        else:
            value, *ends = (f"{round(each, 2) + 0.0:.2f}" for each in (self.value, *(self.interval or ())))  # no -0.00
            how = f"{self.measure} {value}{f', {ends[0]} to {ends[1]}' if ends else ''}"
        return f"{self.agreed:,} of {pluralize(self.runs, noun)} ({how})"

    def __repr__(self) -> str:
        """One sentence."""
        return f"{self.first} and {self.second} agree on {self.describe()}."


class _Pair(NamedTuple):
    row: Hashable
    first: ScoreRecord
    second: ScoreRecord


def measure_agreement(
    runs: Sequence[ScoredRun], first: str, second: str, levels: Sequence[int] | None = None
) -> Agreement:
    """Measure how far two scores agree.

    Args:
        runs: all there are.
        first: name of a score.
        second: name of another one.
        levels: the whole numbers that both give, in order; near misses then count less.

    Raises:
        ValidationError: there is no such score, no run has both, they are of different kinds, or `levels` do not fit.
    """
    names = list_scores(runs)
    for name in (first, second):
        if name not in names:
            raise ValidationError(f"No score is called {name!r}.{did_you_mean(name, names)}")
    pairs = [
        _Pair(each.row, each.scores[first], each.scores[second])
        for each in runs
        if all(name in each.scores and each.scores[name].measure is not None for name in (first, second))
    ]
    if not pairs:
        raise ValidationError(f"No run has both scores, {first!r} and {second!r}.")
    return _measure(first, second, pairs, levels)


def _measure(first: str, second: str, pairs: Sequence[_Pair], levels: Sequence[int] | None = None) -> Agreement:
    kind = find_measure(first, [pair.first for pair in pairs])
    other = find_measure(second, [pair.second for pair in pairs])
    if kind != other:
        raise ValidationError(f"{first!r} and {second!r} can't agree: one is {kind}, the other {other}.")
    said = [[_read(pair.first) for pair in pairs], [_read(pair.second) for pair in pairs]]
    known: list[float | str] = list(dict.fromkeys([*said[0], *said[1]])) if levels is None else list(levels)
    if levels is not None and (kind != "value" or not {*said[0], *said[1]} <= set(known)):
        raise ValidationError(f"levels= are the whole numbers that both scores give, got {levels!r}.")
    is_free = kind == "value" and levels is None
    measure = "concordance" if is_free else "kappa" if levels is None else "weighted kappa"
    a, b = (np.asarray(each if is_free else list(map(known.index, each))) for each in said)

    def find(at: statistics.Places) -> float:
        if is_free:
            return statistics.measure_concordance(a[at], b[at])
        return statistics.measure_kappa(a[at], b[at], len(known), is_ordered=levels is not None)

    rows: dict[Hashable, list[int]] = {}
    for place, pair in enumerate(pairs):
        rows.setdefault(pair.row, []).append(place)
    is_telling = all(len(set(each)) > 1 for each in said)  # else it is 0 whatever the other one says
    value = find(np.arange(len(pairs))) if is_telling else math.nan
    return Agreement(
        first=first,
        second=second,
        measure=measure,
        value=None if math.isnan(value) else value,
        interval=None if math.isnan(value) else statistics.bootstrap([np.asarray(at) for at in rows.values()], find),
        rows=len(rows),
        runs=len(pairs),
        agreed=sum(a == b for a, b in zip(*said, strict=True)),
    )


def _read(record: ScoreRecord) -> float | str:
    return record.label if record.label is not None else float(record.value or 0)


def describe_judge(
    runs: Sequence[ScoredRun], score: str, find_earlier: Callable[[], Iterable[ScoredRun]] = tuple
) -> str | None:
    """What a verdict says of the judge that it rests on; None where the score is not by a judge.

    A person's scores check the judge as it is now: those of another prompt or model say nothing of it.

    Args:
        runs: all that the verdict is about.
        score: its name.
        find_earlier: gives runs of earlier maps, which count, too, where these have too few of a person's scores.
    """
    judged = [each for each in runs if score in each.scores and each.scores[score].kind is ScoreKind.JUDGE]
    if not judged:
        return None
    versions = {each.scores[score].scorer_version for each in judged}
    if len(versions) > 1:
        return "by a judge that was changed in between"
    name, pairs = _find_checked(judged, score)
    if is_earlier := len({pair.row for pair in pairs}) < FEWEST_CHECKED:
        same = (  # by the judge as it is now
            each
            for each in find_earlier()
            if (given := each.scores.get(score)) is not None
            and given.kind is ScoreKind.JUDGE
            and given.scorer_version in versions
        )
        name, pairs = _find_checked([*judged, *same], score)
    if len({pair.row for pair in pairs}) < FEWEST_CHECKED:
        return "by a judge that nobody has checked"
    also = ", earlier maps included" if is_earlier else ""
    return f"the judge agreed with a person on {_measure(score, name, pairs).describe()}{also}"


def _find_checked(runs: Iterable[ScoredRun], score: str) -> tuple[str, list[_Pair]]:
    """The score of a person that stands beside a judge's in the most runs, and these runs."""
    checked: dict[str, list[_Pair]] = {}
    for each in runs:
        said = each.scores[score]
        for name, other in each.scores.items():
            if other.kind is ScoreKind.HUMAN and other.measure is not None and other.measure == said.measure:
                checked.setdefault(name, []).append(_Pair(each.row, said, other))
    return max(checked.items(), key=lambda item: len(item[1]), default=("", []))
