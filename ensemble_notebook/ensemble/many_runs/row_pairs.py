"""Which runs of a map are compared with each other (V65): those of one row, and one repeat, under each two variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.ensemble.scoring import CheckedScorers
from ensemble_notebook.evaluation.scorer import Scorer


class PairedRun(NamedTuple):
    """A run of a row: its name in the map, its row, and its variant as scores keep it."""

    name: str
    row: str
    repeat: int | None
    variant: str | None


class Pairing(NamedTuple):
    """A judge, and the names of two runs; that of the variant that stands before the other comes first."""

    scorer: Scorer
    first: str
    second: str


class RowPairings:
    """What judges of pairs have not been asked yet, while runs come to their end.

    Args:
        scorers: of the map.
        runs: all of it, in the order of the variants.

    Attributes:
        to_judge: the names of runs that were done before, and are to be compared with others that were.
    """

    def __init__(self, scorers: CheckedScorers, runs: Iterable[PairedRun]) -> None:
        self.to_judge: set[str] = set()
        self._scorers = scorers
        self._runs = {each.name: each for each in runs}
        self._names = {each[1:]: name for name, each in self._runs.items()}
        self._done: set[str] = set()
        self._open: dict[str, list[Pairing]] = {name: [] for name in self._runs}
        groups: dict[tuple[str, int | None], list[str]] = {}
        for each in self._runs.values() if scorers.pairs else ():
            groups.setdefault((each.row, each.repeat), []).append(each.name)
        for group in groups.values():
            for first, second in combinations(group, 2):
                made = [Pairing(scorer, first, second) for scorer in scorers.pairs]
                self._open[first] += made
                self._open[second] += made

    def take_over(self, scored: Mapping[str, Sequence[ScoreRecord]]) -> dict[str, list[ScoreRecord]]:
        """Take in runs that were done before, and give the scores of pairs that still hold, by the name of the run.

        They do where both runs were taken over; those of a judge with another prompt or model are to be given anew.

        Args:
            scored: the names of these runs, with their scores.
        """
        self._done |= scored.keys()
        carried: dict[str, list[ScoreRecord]] = {name: [] for name in scored}
        own = {each.name for each in self._scorers.all}
        for name, records in scored.items():
            run = self._runs[name]
            for each in records:
                other = self._names.get((run.row, run.repeat, each.against))
                if each.pair_of is None or other is None or other not in scored:
                    continue
                scorer = self._scorers.find_pair_scorer(each)
                if scorer is not None and run.variant is not None and each.against is not None:
                    named = self._scorers.name_pair(scorer, run.variant, each.against)
                    carried[name].append(replace(each, name=named))
                    self._close(scorer, {name, other})
                elif scorer is None and each.pair_of not in own:
                    carried[name].append(each)
        left = (each for name in scored for each in self._open[name])
        self.to_judge |= {each.second for each in left if each.first in scored and each.second in scored}
        return carried

    def add(self, name: str) -> list[Pairing]:
        """What is to be asked now that this run has come to its end; nothing is given twice."""
        self._done.add(name)
        found = [each for each in self._open[name] if {each.first, each.second} <= self._done]
        for each in found:
            self._close(each.scorer, {each.first, each.second})
        return found

    def _close(self, scorer: Scorer, names: set[str]) -> None:
        for name in names:
            self._open[name] = [
                each for each in self._open[name] if each.scorer is not scorer or {each.first, each.second} != names
            ]
