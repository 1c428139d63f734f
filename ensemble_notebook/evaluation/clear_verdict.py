"""When the verdict of a map is clear (V60): who looks after each row need not run those that change nothing more."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_notebook.domain.planning.map_design import UntilClear
from ensemble_notebook.evaluation.confidence_sequences import measure_p
from ensemble_notebook.evaluation.scored_runs import LEAVE_OUT, Question, ScoredRun, ask
from ensemble_notebook.evaluation.statistics import Interval


def order_rows(rows: Sequence[str], seed: int, seen: Container[str] = ()) -> list[str]:
    """The order in which rows run until the verdict is clear: a file may be sorted, and its first rows all alike.

    Args:
        rows: what stands for each, in the order of the file.
        seed: of the order.
        seen: those that an earlier map has run, which come first.
    """
    drawn = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    return sorted(drawn, key=lambda row: row not in seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequenced:
    """How rows were looked at.

    Attributes:
        rows: what stands for each, in the order in which they ran.
        level: of each comparison.
    """

    rows: Sequence[str]
    level: float


def describe_sequence(level: float, *, is_approximate: bool) -> str:
    """Of which kind an interval is that holds after each row at once, before its ends."""
    return f"{100 * (1 - level):.4g}% after each row at once{', approximate' if is_approximate else ''}"


def find_bounds(question: Question) -> Interval | None:
    """The least and the most that a difference can be; None where the score is a number without bounds."""
    return (-1.0, 1.0) if question.is_share else None


class ClearVerdict:
    """Compares variants with the first one, row by row in the order in which they run, until a difference is clear.

    Args:
        asked: what is to be clear.
        variants: their names; the first is what the others are compared with.
        rows: what stands for each row, in the order in which they run.
        repeats: how often each runs.
    """

    def __init__(self, asked: UntilClear, variants: Sequence[str], rows: Sequence[str], repeats: int) -> None:
        self._asked = asked
        self._baseline, *self._others = variants
        self._rows = rows
        self._repeats = repeats
        self._question: Question | None = None
        self._runs: dict[tuple[str, Hashable], list[ScoredRun]] = {}
        self._places = dict.fromkeys(self._others, 0)
        self._differences: dict[str, list[float]] = {name: [] for name in self._others}
        self._settled: set[str] = set()

    def is_needless(self, variant: str) -> bool:
        """Whether a row that has not begun need not run under this variant."""
        return variant in self._settled

    def add(self, run: ScoredRun) -> None:
        """Take in a run that has ended, and look whether a difference is clear now.

        Raises:
            ValidationError: the score that is compared is not there, is one of several, or is a label.
        """
        if self._question is None and run.scores:
            self._question = ask([run], self._asked.score, self._asked.is_, LEAVE_OUT)
        self._runs.setdefault((run.variant, run.row), []).append(run)
        for name in self._others if run.variant == self._baseline else [run.variant]:
            if self._question is None or name in self._settled or not self._add_rows(name, self._question):
                continue
            level = self._asked.level / len(self._others)
            if measure_p(self._differences[name], level=level, bounds=find_bounds(self._question)) <= level:
                self._settled.add(name)
        if self._settled.issuperset(self._others):
            self._settled.add(self._baseline)

    def _add_rows(self, name: str, question: Question) -> bool:
        """Add the rows that both sides have ended by now, and all before them; whether there are any."""
        known = len(self._differences[name])
        while self._places[name] < len(self._rows):
            row = self._rows[self._places[name]]
            sides = [self._runs.get((side, row), []) for side in (self._baseline, name)]
            if any(len(side) < self._repeats for side in sides):
                break
            self._places[name] += 1
            before, now = (
                {each.repeat: value for each in side if (value := question.read(each)) is not None} for side in sides
            )
            if both := before.keys() & now.keys():
                self._differences[name].append(sum(now[each] - before[each] for each in sorted(both)) / len(both))
        return len(self._differences[name]) > known
