"""What each variant comes to: its mean with an interval, what failed, what it cost (V11); gates (V13)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, make_readable
from ensemble_notebook.evaluation import statistics
from ensemble_notebook.evaluation.clear_verdict import PLAIN, Sequenced, describe_sequence
from ensemble_notebook.evaluation.confidence_sequences import follow_mean
from ensemble_notebook.evaluation.scored_runs import (
    LEFT_OUT,
    UNNAMED,
    Amounts,
    Ending,
    Failed,
    Question,
    ScoredRun,
    Side,
    ask,
    find_measure,
    is_number,
    list_labels,
    list_scores,
    make_side,
    take_means,
)
from ensemble_notebook.trace.tables.table import Column, Table

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.row_table import RowFrame

Unit = Literal["points", "%", ""]
SHOWN = "shown"
WORSE = "shown to be worse"
UNPAIRED = "unpaired"
_MOST_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSummary:
    """What one side comes to, under one score.

    Attributes:
        variant: its name.
        score: of what; a label with the word that counts, as ``tone=praise``.
        rows: that count. repeats: of each, at most.
        failed, incomplete, unscored: runs that failed; that never ran or were cut short; that have no score.
        mean: over rows; None where none counts.
        interval: of the mean, 95%; None where there is none.
        cost: of a run, on average; None where it is not known of all.
        active_ms: how long something was at work in a run, likewise.
        passing: by how it is called, the shares of V11 with k repeats.
        kind: of the interval, in words.
    """

    variant: str
    score: str
    rows: int
    repeats: int
    failed: int
    incomplete: int
    unscored: int
    mean: float | None
    interval: statistics.Interval | None
    cost: float | None
    active_ms: float | None
    passing: Mapping[str, float | None]
    kind: str = PLAIN


SUMMARY: Final = Table(
    "variant and score",
    None,
    (
        Column("variant", "string", "its name", lambda each: each.variant or None),
        Column("score", "string", "name of the score; of a label, with the word that counts", is_nullable=False),
        Column("rows", "Int64", "that count", is_nullable=False),
        Column("repeats", "Int64", "of each row, at most", is_nullable=False),
        Column("failed", "Int64", "runs that failed", is_nullable=False),
        Column("incomplete", "Int64", "runs that never ran or were cut short; they are left out", is_nullable=False),
        Column("unscored", "Int64", "runs without a score; they are left out", is_nullable=False),
        Column("mean", "Float64", "over rows; of what passes, a share of one"),
        Column(
            "low",
            "Float64",
            "end of the mean's interval: 95%, or under until_clear one that holds after each row at once",
            lambda each: each.interval and each.interval[0],
        ),
        Column("high", "Float64", "the other end", lambda each: each.interval and each.interval[1]),
        Column("cost", "Float64", "of a run on average, in currency, without scoring; NA if not known of all"),
        Column(
            "active_ms",
            "Float64",
            "of a run on average, without its waits: something was at work; NA if not known of all",
        ),
    ),
)


def summarize_side(
    side: Side, question: Question, k: int | None = None, *, sequence: Sequenced | None = None
) -> SideSummary:
    """Sum up one side.

    Args:
        side: its runs.
        question: what is summed up.
        k: repeats of which one, or all, are to pass; None: nothing is said of that.
        sequence: how its rows were looked at, where each was.
    """
    by_row = take_means(side.values)
    means = np.asarray(list(by_row.values()))
    mean = float(means.mean()) if len(means) else None
    kind = PLAIN
    if mean is None:
        interval = None
    elif sequence is not None:
        in_order = [by_row[row] for row in sequence.rows if row in by_row]
        running = follow_mean(in_order, level=sequence.level, bounds=question.bounds)
        interval = None if running is None else running.interval
        kind = describe_sequence(sequence.level, is_approximate=question.bounds is None)
    elif question.is_share:
        interval = statistics.find_share_interval(mean, len(means))
    else:
        interval = statistics.find_mean_interval(means)
    passing: dict[str, float | None] = {}
    if k is not None:  # the shares with k repeats, averaged over the rows that have as many
        counts = [(sum(map(round, each.values())), len(each)) for each in side.values.values() if len(each) >= k]
        for name, find in (("pass@", statistics.find_pass_at), ("pass^", statistics.find_pass_each)):
            shares = [find(k, *count) for count in counts if question.is_share and not question.is_pair]
            passing[f"{name}{k}"] = fmean(shares) if shares else None
    return SideSummary(
        variant=side.name,
        score=question.score if question.is_ is None else f"{question.score}={question.is_}",
        rows=len(means),
        repeats=side.repeats,
        failed=side.failed,
        incomplete=side.incomplete,
        unscored=side.unscored,
        mean=mean,
        interval=interval,
        cost=average_run(side.costs, side.worked),
        active_ms=average_run(side.times, side.worked),
        passing=passing,
        kind=kind,
    )


def average_run(amounts: Amounts, runs: int) -> float | None:
    """The mean over runs; None where it is not known of all."""
    known = [amount for repeats in amounts.values() for amount in repeats.values()]
    return fmean(known) if known and len(known) >= runs else None


def summarize(
    sides: Mapping[str, Sequence[ScoredRun]], k: Any = None, failed: Failed = None, sequence: Sequenced | None = None
) -> RowFrame:
    """A table of all variants and scores; without any score, of what each variant has done.

    Args:
        sides: the runs of each variant, by its name.
        k: as in `summarize_side`.
        failed: what a row that failed counts as, where the score is a number.
        sequence: as in `summarize_side`.

    Raises:
        ValidationError: `k` is no number of repeats, or rows failed, and nothing says what they count as.
    """
    runs = [each for side in sides.values() for each in side]
    most = max((make_side("", each, _ANY).repeats for each in sides.values()), default=1)
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= most):
        raise ValidationError(f"k must be a whole number from 1 to {most}, the repeats of a row, got {k!r}.")
    found = [
        summarize_side(make_side(name, each, question), question, k, sequence=sequence)
        for question in list_questions(runs, failed)
        for name, each in sides.items()
    ]
    if not found and runs:
        work = []  # what each variant has done, where nothing is scored
        for name, each in sides.items():
            rows = {run.row for run in each if run.ending not in LEFT_OUT}
            work.append(replace(summarize_side(make_side(name, each, _ANY), _ANY), rows=len(rows)))
        frame = SUMMARY.to_frame(work).drop(columns=list(_OF_SCORES))
        return frame if any(sides) else frame.drop(columns="variant")
    frame = SUMMARY.to_frame(found)
    for column in found[0].passing if found else ():
        values: list[Any] = [math.nan if each.passing[column] is None else each.passing[column] for each in found]
        frame[column] = values
        frame[column] = frame[column].astype("Float64")
    return frame if any(sides) else frame.drop(columns="variant")


_ANY: Final = Question(score="", measure="passed")
_OF_SCORES: Final = ("score", "unscored", "mean", "low", "high")


def list_questions(runs: Sequence[ScoredRun], failed: Failed) -> Iterator[Question]:
    """What can be asked of these runs: each score, a label word by word.

    Args:
        runs: all that there are.
        failed: what a row that failed counts as, where the score is a number.

    Raises:
        ValidationError: a score is of several kinds.
    """
    is_lost = any(runs) and not any(each.ending is Ending.DONE for each in runs)  # nobody has said how it is called
    for name in list_scores(runs) or ([UNNAMED] if is_lost else []):
        records = [each.scores[name] for each in runs if name in each.scores]
        labels: Sequence[str | None] = list_labels(records) if find_measure(name, records) == "label" else [None]
        for label in labels:
            yield ask(runs, name, label, failed)


@dataclass(frozen=True, slots=True)
class Gate:
    """An answer that reads as a boolean, so that ``assert`` in a test says why.

    Attributes:
        status: ``"shown"``, ``"not shown with 40 rows (about 120 would)"``, ``"shown to be worse"``, or, where the map
            did not come to its end, ``"not complete"``, where too many rows of two maps have no partner,
            ``"unpaired"``.
        because: what was found.
    """

    status: str
    because: str

    def __bool__(self) -> bool:
        """Whether it is shown."""
        return self.status == SHOWN

    def __repr__(self) -> str:
        """The answer, and what was found."""
        return make_readable(f"{self.status}: {self.because}")


def decide(
    *,
    mark: float,
    estimate: float | None,
    interval: statistics.Interval | None,
    rows: int,
    spread: float,
    least: Callable[[float], float],
    gaps: Sequence[str],
    because: str,
) -> Gate:
    """Decide.

    Args:
        mark: what is to be reached; more is better.
        estimate: what was found; None where there is nothing.
        interval: of it.
        rows: that it comes from.
        spread: standard deviation over rows.
        least: the rows that the interval needs at a distance from the mark, were there no spread at all.
        gaps: why nothing can be promised.
        because: what was found, in words.
    """
    if gaps:
        incomplete = next((each for each in gaps if each.startswith("not complete")), None)
        if incomplete is not None:
            return Gate("not complete", f"{incomplete.partition(': ')[2]}; {because}")
        return Gate(f"not shown with {pluralize(rows, 'row')}", f"{gaps[0]}; {because}")
    if interval is not None and interval[0] >= mark:
        return Gate(SHOWN, because)
    if interval is not None and interval[1] < mark:
        return Gate(WORSE, because)
    answer = f"not shown with {pluralize(rows, 'row')}"
    distance = 0.0 if estimate is None else estimate - mark
    if distance > statistics.ZERO and interval is not None:
        wanted = max(statistics.find_rows_needed(spread, distance), statistics.round_up(least(distance)))
        if wanted > rows:
            answer += f" (about {wanted:,} would)"
    return Gate(answer, because)


def pass_mark(side: Side, question: Question, at_least: Any, sequence: Sequenced | None = None) -> Gate:
    """Whether the mean of a score is at least so much: true only where its whole interval is.

    Args:
        side: the runs.
        question: what is asked.
        at_least: the mark; of a score that passes or fails, a share of one.
        sequence: how its rows were looked at, where each was.

    Raises:
        ValidationError: the mark is no number, or no share where one is asked for.
    """
    if not is_number(at_least) or (question.is_share and not 0 < at_least < 1):
        wanted = "a share between 0 and 1, as 0.9" if question.is_share else "a number"
        raise ValidationError(f"at_least must be {wanted}, got {at_least!r}.")
    found = summarize_side(side, question, sequence=sequence)
    means = np.asarray(list(take_means(side.values).values()))
    return decide(
        mark=at_least,
        estimate=found.mean,
        interval=found.interval,
        rows=found.rows,
        spread=float(means.std(ddof=1)) if len(means) > 1 else 0.0,
        least=lambda _: statistics.Z**2 * at_least / (1 - at_least) if question.is_share else 2,
        gaps=[] if (gap := side.find_gap()) is None else [gap],
        because=describe_side(found, question),
    )


def describe_side(found: SideSummary, question: Question) -> str:
    """What a side comes to, in a sentence: ``accuracy 93% (95%: 85 to 97; 100 rows).``, and what it leaves out."""
    parts = []
    if found.mean is None:
        parts.append(f"{found.score} of no row")
    else:
        scale = Scale([found.mean, *(found.interval or ())], unit="%" if question.is_share else "")
        mean, *ends = scale.write_all()
        size = pluralize(found.rows, "row") + (f" x {found.repeats} repeats" if found.repeats > 1 else "")
        told = f"{found.kind}: {ends[0]} to {ends[1]}; {size}" if ends else f"{size}, which give no interval"
        parts.append(f"{found.score} {mean} ({told})")
    noun = "row" if found.repeats == 1 else "run"
    if found.failed:
        parts.append(f"{pluralize(found.failed, noun)} failed and {agree(question.name_failed(), found.failed)}")
    if found.unscored:
        verb, left = ("has" if found.unscored == 1 else "have"), agree("are left out", found.unscored)
        parts.append(f"{pluralize(found.unscored, noun)} {verb} no score and {left}")
    name = f"{found.variant}: " if found.variant else ""
    return f"{name}{'; '.join(parts)}."


class Scale:
    """How the amounts of one sentence are written: all with as many digits as tell them apart, and none as a false 0.

    Args:
        amounts: what is written; shares of one where there is a unit.
        unit: of shares: points of a hundred for differences, percent for others.
        is_round: whether digits that say nothing are left out.
    """

    def __init__(self, amounts: Sequence[float], unit: Unit = "", *, is_round: bool = False) -> None:
        self._unit = unit
        self._is_round = is_round
        self._amounts = [100 * each if unit else float(each) for each in amounts]
        widest = max(self._amounts) - min(self._amounts) or max(map(abs, self._amounts))
        digits = (0 if unit else 1) - math.floor(math.log10(widest)) if widest > 0 else 0
        self._digits = min(max(0, digits), _MOST_DIGITS)
        while self._digits < _MOST_DIGITS and any(each and not round(each, self._digits) for each in self._amounts):
            self._digits += 1

    def write_all(self) -> list[str]:
        """Plain amounts; the first with its unit."""
        first, *rest = map(self._write, self._amounts)
        return [self._add_unit(first), *rest]

    def write_signed(self) -> list[str]:
        """Differences; the last with its unit."""
        *first, last = [f"{'+' if each > 0 else ''}{self._write(each)}" for each in self._amounts]
        return [*first, self._add_unit(last)]

    def _add_unit(self, text: str) -> str:
        if self._unit == "points":
            return f"{text} {'point' if text == '1' else 'points'}"
        return f"{text}{self._unit}"

    def _write(self, amount: float) -> str:
        text = f"{amount:,.{self._digits}f}"
        if self._is_round and "." in text:
            text = text.rstrip("0").rstrip(".")
        return "0" if not float(text.replace(",", "")) else text


def format_p(p: float) -> str:
    """A p with two telling digits, rounded up, so that none reads as smaller than it is: ``= 0.02``, ``< 0.001``."""
    if p < 0.001:
        return "< 0.001"
    digits = 1 - math.floor(math.log10(p)) if p < 0.1 else 2
    raised = min(1.0, math.ceil(p * 10**digits - statistics.ZERO) / 10**digits)
    return f"= {raised:.{digits}f}".rstrip("0").rstrip(".") if raised < 1 else "= 1"


def agree(verb: str, number: int) -> str:
    """The plural verb of a sentence, or that of a single one."""
    return verb.replace("are ", "is ").replace("count ", "counts ") if number == 1 else verb
