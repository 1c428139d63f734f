"""The scores of many runs, sorted for questions to them: by variant, row and repeat, with what counts how (V11)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ensemble_notebook.domain.outputs.score import Measure, ScoreRecord, find_name
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean

if TYPE_CHECKING:
    from ensemble_notebook.evaluation.statistics import Interval

Amounts: TypeAlias = Mapping[Hashable, Mapping[int, float]]
"""Amounts of the runs of one variant, by row and repeat."""

LEAVE_OUT: Final = "leave out"
UNNAMED: Final = "score"
"""What a score is called where all rows failed, so that no scorer has said it."""
Failed: TypeAlias = float | Literal["leave out"] | None
"""What a row that failed counts as, where the score is a number."""

SHARES: Final = (0.0, 1.0)
"""The bounds of what passes or fails."""
_LONGEST_NAME: Final = 40
_MOST_UNSCORED: Final = 0.05
_WORDS: Final[Mapping[Measure, str]] = {"passed": "pass or fail", "value": "a number", "label": "a label"}


class Ending(Enum):
    """How a run ended, as far as scores go."""

    DONE = auto()
    FAILED = auto()
    """With an error of its own."""
    INCOMPLETE = auto()
    """It never ran, or was cut short: by Stop, a budget, a timeout of the map."""
    SETTLED = auto()
    """It was not needed: the verdict was clear before its turn."""


LEFT_OUT: Final = frozenset({Ending.INCOMPLETE, Ending.SETTLED})
"""Of runs that leave every pair and every mean."""


def find_ending(status: str, *, is_done: bool, is_failed: bool) -> Ending:
    """How a run of a row ended, by its status in tables."""
    if status == SETTLED:
        return Ending.SETTLED
    return Ending.DONE if is_done else Ending.FAILED if is_failed else Ending.INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """One run of one row under one variant, and what is said of it.

    Attributes:
        variant: its name; empty where there are none.
        row: the same for what is compared: the label and the inputs.
        repeat: from 1.
        ending: how it ended.
        scores: the current ones, by name.
        cost: of the work, without that of scoring; None where it is not known, or another run has paid.
        active_ms: how long something was at work in it; None likewise.
        pairs: of scores that compare variants: by name, and then by the other variant. Among `scores` these are one,
            the mean over the others.
    """

    variant: str
    row: Hashable
    repeat: int = 1
    ending: Ending = Ending.DONE
    scores: Mapping[str, ScoreRecord] = field(default_factory=dict)
    cost: float | None = None
    active_ms: float | None = None
    pairs: Mapping[str, Mapping[str | None, ScoreRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put the scores of pairs together."""
        plain: dict[str, ScoreRecord] = {}
        found: defaultdict[str, dict[str | None, ScoreRecord]] = defaultdict(dict)
        for name, each in self.scores.items():
            if each.pair_of is None or each.name == each.pair_of:
                plain[name] = each
            else:
                found[each.pair_of][each.against] = each
        if found:
            whole = {name: _sum_up(name, [*each.values()]) for name, each in found.items()}
            object.__setattr__(self, "scores", {**plain, **whole})
            object.__setattr__(self, "pairs", dict(found))

    def beside(self, variant: str) -> ScoredRun:
        """The same where it is compared with this variant alone."""
        if not self.pairs:
            return self
        plain = {name: each for name, each in self.scores.items() if name not in self.pairs}
        faced = {name: _sum_up(name, [each[variant]]) for name, each in self.pairs.items() if variant in each}
        return replace(self, scores={**plain, **faced})


def _sum_up(name: str, pairs: Sequence[ScoreRecord]) -> ScoreRecord:
    """The score of a run beside several others: the mean, and whether a judge changed its mind in any."""
    given = [each for each in pairs if each.value is not None]
    if not given:
        return replace(pairs[0], name=name)
    value = sum(each.value or 0.0 for each in given) / len(given)
    changed = any(each.has_changed_mind for each in given)
    return replace(given[0], name=name, value=value, has_changed_mind=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a score.

    Attributes:
        score: its name.
        measure: what kind of score it is; a label that is asked for is one that passes or fails.
        is_: the label that counts as passed; None where the score is no label.
        failed: what a row that failed counts as, where the score is a number.
        higher_is_better: whether more of it is better; None where that has no meaning, as for labels.
        bounds: the least and the most that a value can be; None where nobody has said.
        is_pair: whether it compares variants: a value is the share of pairs won, ties half, and a row that failed makes
            no pair.
    """

    score: str
    measure: Measure
    is_: str | None = None
    is_pair: bool = False
    failed: Failed = None
    higher_is_better: bool | None = True
    bounds: Interval | None = None

    @property
    def is_share(self) -> bool:
        """Whether its values are shares of one."""
        return self.measure == "passed"

    @property
    def difference_bounds(self) -> Interval | None:
        """The least and the most that the difference of two values can be; None where nobody has said."""
        return None if self.bounds is None else (self.bounds[0] - self.bounds[1], self.bounds[1] - self.bounds[0])

    @property
    def unit(self) -> Literal["points", ""]:
        """Of a difference."""
        return "points" if self.is_share else ""

    def read(self, run: ScoredRun) -> float | None:
        """What a run counts as; None where it is left out."""
        if run.ending in LEFT_OUT or (self.is_pair and run.ending is Ending.FAILED):
            return None
        if run.ending is Ending.FAILED:
            return 0.0 if self.is_share else None if isinstance(self.failed, str) else self.failed
        record = run.scores.get(self.score)
        if record is None or record.measure is None:
            return None
        if self.is_ is not None:
            return float(record.label == self.is_)
        value = record.passed if self.is_share and not self.is_pair else record.value
        return None if value is None or not math.isfinite(value) else float(value)

    def name_failed(self) -> str:
        """What became of rows that failed, after "7 rows failed under tersely and"."""
        if self.is_pair:
            return "are left out"
        if self.is_share:
            return "count as not passed" if self.is_ is None else f"count as not {self.is_}"
        return "are left out" if self.failed == LEAVE_OUT else f"count as {self.failed:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One variant, or one result, under a question.

    Attributes:
        name: as a person reads it.
        values: of the runs that count.
        costs, times: of the runs that came to an end, where they are known; a time is that in which something was at
            work.
        rows: all of them.
        runs: how many there are.
        repeats: of each row, at most.
        failed, incomplete, settled, unscored: how many runs are such.
        scored: the runs.
    """

    name: str
    values: Amounts
    costs: Amounts
    times: Amounts
    rows: frozenset[Hashable]
    repeats: int
    failed: int
    incomplete: int
    settled: int
    unscored: int
    scored: Sequence[ScoredRun]

    @property
    def worked(self) -> int:
        """How many came to an end."""
        return self.runs - self.incomplete - self.settled

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.scored)

    def count(self, number: int) -> str:
        """A number of runs in words: as rows, where each ran once."""
        return pluralize(number, "row" if self.repeats == 1 else "run")

    def find_gap(self) -> str | None:
        """Why nothing can be promised of it: it is not complete, or too many runs have no score; None: nothing."""
        if self.incomplete:
            verb = "was" if self.incomplete == 1 else "were"
            return f"not complete: {self.count(self.incomplete)} never ran or {verb} cut short"
        if self.unscored > _MOST_UNSCORED * self.runs:
            return f"{self.unscored:,} of {self.count(self.runs)} have no score, and more than 5% may not"
        return None


def take_means(amounts: Amounts) -> dict[Hashable, float]:
    """The mean over the repeats of each row."""
    return {row: sum(repeats.values()) / len(repeats) for row, repeats in amounts.items() if repeats}


def make_side(name: str, runs: Sequence[ScoredRun], question: Question) -> Side:
    """Sort the runs of one variant.

    Raises:
        ValidationError: rows failed, and nothing says what they count as.
    """
    endings = Counter(each.ending for each in runs)
    if endings[Ending.FAILED] and not question.is_share and question.failed is None:
        raise ValidationError(
            f"{pluralize(endings[Ending.FAILED], 'run')} failed under {name or 'this ensemble'}, and "
            f"{question.score!r} is a number: say what they count as with failed=0 or another number, or "
            f"failed={LEAVE_OUT!r}."
        )
    values, costs, times = (defaultdict[Hashable, dict[int, float]](dict) for _ in range(3))
    unscored = 0
    for each in runs:
        value = question.read(each)
        unscored += value is None and each.ending is Ending.DONE
        spent = (None, None) if each.ending in LEFT_OUT else (each.cost, each.active_ms)
        for amounts, amount in zip((values, costs, times), (value, *spent), strict=True):
            if amount is not None:
                amounts[each.row][each.repeat] = amount
    repeats = Counter(each.row for each in runs)
    return Side(
        name=name,
        values=values,
        costs=costs,
        times=times,
        rows=frozenset(repeats),
        repeats=max(repeats.values(), default=1),
        failed=endings[Ending.FAILED],
        incomplete=endings[Ending.INCOMPLETE],
        settled=endings[Ending.SETTLED],
        unscored=unscored,
        scored=runs,
    )


def ask(runs: Sequence[ScoredRun], score: str | None, is_: str | None = None, failed: Failed = None) -> Question:
    """Make a question of what a person asks for.

    Args:
        runs: all that it is about.
        score: name of it; None: the only one.
        is_: the label that counts as passed.
        failed: as in `Question`.

    Raises:
        ValidationError: there is no such score, its values are of several kinds, or a label is asked for as a number.
    """
    names = list_scores(runs)
    if failed is not None and failed != LEAVE_OUT and not is_number(failed):
        raise ValidationError(f"failed must be a number or {LEAVE_OUT!r}, got {failed!r}.")
    if score is not None:
        name = find_name(score, names)
    elif len(names) > 1:
        *first, last = map(repr, names)
        raise ValidationError(f"There are several scores: say which with score=, {', '.join(first)} or {last}.")
    elif names or (runs and all(each.ending is not Ending.DONE for each in runs)):
        name = (names or [UNNAMED])[0]
    else:
        raise ValidationError(
            "There are no scores yet: add some with result.score(SCORER), or map(rows, score=SCORER)."
        )
    records = [each.scores[name] for each in runs if name in each.scores]
    if not records and any(each.ending is Ending.DONE for each in runs):
        raise ValidationError(f"No score is called {name!r}.{did_you_mean(name, names) or ' There are none yet.'}")
    measure = find_measure(name, records)
    if measure != "label":
        if is_ is not None:
            raise ValidationError(f"is_ asks for a label, and {name!r} is {_WORDS[measure]}.")
        return _ask_amount(name, measure, records, failed)
    labels = list_labels(records)
    if is_ not in labels:
        known = " or ".join(f"is_={each!r}" for each in labels[:5])
        raise ValidationError(
            f"{name!r} is a label: say which one counts, {known}."
            if is_ is None
            else f"No run has the label {is_!r} for {name!r}.{did_you_mean(is_, labels)}"
        )
    return Question(score=name, measure="passed", is_=is_, higher_is_better=None, bounds=SHARES)


def _ask_amount(name: str, measure: Measure, records: Sequence[ScoreRecord], failed: Failed) -> Question:
    """A question of what is no label."""
    if any(each.pair_of is not None for each in records):
        return Question(score=name, measure="passed", is_pair=True, bounds=SHARES)
    higher = all(each.higher_is_better for each in records)
    bounds = find_bounds(records, failed) if measure == "value" else SHARES
    return Question(score=name, measure=measure, failed=failed, higher_is_better=higher, bounds=bounds)


def find_bounds(records: Iterable[ScoreRecord], failed: Failed = None) -> Interval | None:
    """The least and the most that a number can be, where all scores say the same of it; else None.

    Args:
        records: of one score.
        failed: what a row that failed counts as.
    """
    said = {(each.low, each.high) for each in records if each.value is not None}
    ((low, high),) = said if len(said) == 1 else [(None, None)]
    if low is None or high is None:
        return None
    counted = failed if isinstance(failed, int | float) else low
    return min(low, counted), max(high, counted)


def group_by_run(records: Iterable[ScoreRecord], *, is_stored: bool = False) -> dict[str, list[ScoreRecord]]:
    """The scores of each run, by its id; of each that the store has, whose rows are no runs of their own there."""
    found: dict[str, list[ScoreRecord]] = {}
    for each in records:
        found.setdefault(each.stored_run_id if is_stored else each.run_id, []).append(each)
    return found


def name_scores(records: Iterable[ScoreRecord]) -> dict[str, dict[str, ScoreRecord]]:
    """The scores of each run as a whole, by its id and then by name: the last of each name."""
    whole = group_by_run(each for each in records if each.is_of_run)
    return {run_id: {each.current_name: each for each in scores} for run_id, scores in whole.items()}


def list_scores(runs: Iterable[ScoredRun]) -> list[str]:
    """The names of all scores, in order."""
    return list(dict.fromkeys(name for each in runs for name in each.scores))


def list_labels(records: Iterable[ScoreRecord]) -> list[str]:
    """All labels, in order of appearance."""
    return list(dict.fromkeys(each.label for each in records if each.label is not None))


def find_measure(name: str, records: Iterable[ScoreRecord]) -> Measure:
    """What kind of score it is; one that passes or fails where nobody has said anything.

    Raises:
        ValidationError: it is of several kinds.
    """
    kinds = Counter(each.measure for each in records if each.measure is not None)
    if len(kinds) > 1:
        told = ", ".join(f"{_WORDS[kind]} in {pluralize(count, 'run')}" for kind, count in kinds.items())
        raise ValidationError(f"{name!r} mixes kinds of scores, so it can't be summed up: it is {told}.")
    return next(iter(kinds), "passed")


def is_number(value: Any) -> bool:
    """Whether a person's argument is a number that can be counted with; a bool is none."""
    try:
        return not isinstance(value, bool) and math.isfinite(value)
    except TypeError:
        return False


def shorten_names(names: Sequence[str]) -> list[str]:
    """Names of variants, as short as is unambiguous: ``style=kindly`` is ``kindly`` beside ``style=tersely``.

    Args:
        names: of all variants; those that `--vary` makes say what each was given.
    """
    split = [[part.partition("=")[::2] for part in name.split(", ")] for name in names]
    keys = [[key for key, _ in parts] for parts in split]
    if not names or any(each != keys[0] for each in keys) or any("=" not in name for name in names):
        return list(names)
    varied = [place for place in range(len(keys[0])) if len({parts[place] for parts in split}) > 1]
    short = [", ".join(parts[place][1] for place in varied) for parts in split]
    cut = [each if len(each) <= _LONGEST_NAME else f"{each[: _LONGEST_NAME - 1]}…" for each in short]
    for found in (cut, short):
        if all(found) and len(set(found)) == len(names):
            return found
    return list(names)
