"""When the verdict of a map is clear (V60): who looks after each row need not run those that change nothing more."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ensemble_notebook.domain.outputs.score import find_name
from ensemble_notebook.domain.planning.map_design import UntilClear
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.evaluation.scored_runs import LEAVE_OUT, SHARES, Failed, Question, ScoredRun, ask, list_scores


def order_rows(rows: Sequence[str], seed: int, seen: Container[str] = ()) -> list[str]:
    """The order in which rows run until the verdict is clear: a file may be sorted, and its first rows all alike.

    Args:
        rows: what stands for each, in the order of the file.
        seed: of the order.
        seen: those that an earlier map has run, which come first.
    """
    import numpy as np

    drawn = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    return sorted(drawn, key=lambda row: row not in seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequenced:
    """How rows were looked at.

    Attributes:
        rows: what stands for each, in the order in which they ran.
        level: of each comparison.
    """

    rows: Sequence[Hashable]
    level: float


def describe_several(names: Sequence[str], level: float) -> str:
    """What to say of several scores, none of which was named."""
    told = " or ".join(f'{{"{each}": {level:g}}}' for each in names)
    return f"There are several scores: say which one is to be clear, until_clear={told}."


MOST_LOOKS: Final = 200
"""So many rows are looked at one by one, and of more each so many-th part: the interval misses nothing by that."""
PLAIN: Final = "95%"
"""Of which kind an interval is that may be looked at once."""


def describe_sequence(level: float, *, is_approximate: bool) -> str:
    """Of which kind an interval is that holds after each row at once, before its ends."""
    return f"{100 * (1 - level):.4g}% after each row at once{', approximate' if is_approximate else ''}"


Values = Mapping[tuple[str, int], float]
"""What stored runs count as, by row and repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSide:
    """An earlier map that a map without variants is held to.

    Attributes:
        loss: the most that may be lost; whether no more is, is what is to be clear.
        failed: what a row that failed counts as, where the score is a number.
        read: what its runs count as under a question, by the row of the later map that each is.
    """

    loss: float
    failed: Failed
    read: Callable[[Question], Values]


class ClearVerdict:
    """Compares variants with the first one, row by row in the order in which they run, until a difference is clear.

    Args:
        asked: what is to be clear.
        variants: their names; the first is what the others are compared with.
        rows: what stands for each row, in the order in which they run.
        repeats: how often each runs.
        stored: what the only variant is compared with; None: there are several.

    Attributes:
        fault: why nothing can be compared; None as long as nothing is wrong.
    """

    def __init__(
        self,
        asked: UntilClear,
        variants: Sequence[str],
        rows: Sequence[str],
        repeats: int,
        stored: StoredSide | None = None,
    ) -> None:
        self._asked = asked
        self._rows = rows
        self._repeats = repeats
        self._stored = stored
        self._baseline = variants[0]
        self._others = variants if stored is not None else variants[1:]
        self._question: Question | None = None
        self._before: Values = {}
        self._runs: dict[tuple[str, str], list[ScoredRun]] = {}
        self._places = dict.fromkeys(self._others, 0)
        self._due = dict.fromkeys(self._others, 1)
        self._differences: dict[str, list[float]] = {name: [] for name in self._others}
        self._settled: set[str] = set()
        self.fault: ValidationError | None = None

    def is_needless(self, variant: str) -> bool:
        """Whether a row that has not begun need not run under this variant."""
        return variant in self._settled

    def add(self, run: ScoredRun) -> None:
        """Take in a run that has ended, and look whether a difference is clear now."""
        self._runs.setdefault((run.variant, str(run.row)), []).append(run)
        try:
            question = self._read_question(run)
        except ValidationError as error:
            self.fault = error
            return
        if question is None:
            return
        affected = [run.variant] if run.variant in self._others else self._others
        for name in affected:
            if name not in self._settled and self._add_rows(name, question) and self._is_clear(name, question):
                self._settled.add(name)
        if self._settled.issuperset(self._others):
            self._settled.add(self._baseline)

    def _read_question(self, run: ScoredRun) -> Question | None:
        """What is compared, once a run has a score that says what kind it is.

        Raises:
            ValidationError: as `_make_question`.
        """
        if self._question is None:
            self._question = self._make_question(run)
            if self._question is not None and self._stored is not None:
                self._before = self._stored.read(self._question)
        elif self._question.measure == "value" and self._question.bounds is not None:
            record = run.scores.get(self._question.score)
            is_told = record is not None and record.value is not None
            if (
                is_told
                and ask([run], self._question.score, None, self._question.failed).bounds != self._question.bounds
            ):
                self._question = replace(self._question, bounds=None)  # runs say different things of them
        return self._question

    def _make_question(self, run: ScoredRun) -> Question | None:
        """What is compared, as this run tells it; None where it does not.

        Raises:
            ValidationError: the score is not there, is one of several, or gives labels of which none was named.
        """
        if not run.scores or any(each.error is not None for each in run.scores.values()):
            return None
        names = list_scores([run])
        if self._asked.score is None and len(names) > 1:
            raise ValidationError(describe_several(names, self._asked.level))
        name = find_name(self._asked.score or names[0], names)
        if name not in names:
            raise ValidationError(f"until_clear names a score {name!r} that is not given.{did_you_mean(name, names)}")
        measure = run.scores[name].measure
        if measure is None:
            return None
        if measure == "label" and self._stored is not None:
            raise ValidationError(f"{name!r} is a label, and no label is better than another.")
        if measure == "label" and self._asked.is_ is not None:  # another run may have the one that counts
            return Question(score=name, measure="passed", is_=self._asked.is_, bounds=SHARES)
        failed = LEAVE_OUT if self._stored is None else self._stored.failed
        return ask([run], name, self._asked.is_, failed)

    def _add_rows(self, name: str, question: Question) -> bool:
        """Add the rows that both sides have ended by now, and all before them; whether it is time to look at them."""
        known = len(self._differences[name])
        while self._places[name] < len(self._rows):
            row = self._rows[self._places[name]]
            sides = [name] if self._stored is not None else [self._baseline, name]
            runs = [self._runs.get((side, row), []) for side in sides]
            if any(len(each) < self._repeats for each in runs):
                break
            self._places[name] += 1
            values = [
                {each.repeat: value for each in side if (value := question.read(each)) is not None} for side in runs
            ]
            now = values[-1]
            before = values[0]
            if self._stored is not None:
                before = {repeat: self._before[row, repeat] for repeat in now if (row, repeat) in self._before}
            if both := before.keys() & now.keys():
                self._differences[name].append(sum(now[each] - before[each] for each in sorted(both)) / len(both))
        if (count := len(self._differences[name])) == known or count < self._due[name]:
            return False
        self._due[name] = count + 1 + count // MOST_LOOKS  # all rows are summed up again
        return True

    def _is_clear(self, name: str, question: Question) -> bool:
        """Whether the rows so far show a difference; beside a stored map, whether it is no worse, or is."""
        from ensemble_notebook.evaluation.confidence_sequences import follow_mean, measure_p

        values, level = self._differences[name], self._asked.share_level(len(self._others))
        bounds = question.difference_bounds
        if self._stored is None:
            if measure_p(values, level=level, bounds=bounds) > level:
                return False
            found = follow_mean(values, level=level, bounds=bounds)
            return found is not None and found.interval is not None
        found = follow_mean(values, level=level, bounds=bounds)
        if found is None or found.interval is None:
            return False
        sign = 1 if question.higher_is_better else -1
        low, high = sorted(sign * end for end in found.interval)
        return low >= -self._stored.loss or high < -self._stored.loss
