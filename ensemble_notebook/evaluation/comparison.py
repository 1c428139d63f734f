"""The verdict (V12): whether one variant is better than another, told in one honest sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.planning.map_design import RowPairs
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import format_money, format_percent, pluralize
from ensemble_notebook.errors import Pickled, ValidationError, make_readable
from ensemble_notebook.evaluation import statistics
from ensemble_notebook.evaluation.agreement import describe_judge
from ensemble_notebook.evaluation.clear_verdict import PLAIN, Sequenced, describe_sequence
from ensemble_notebook.evaluation.confidence_sequences import RunningMean, follow_mean
from ensemble_notebook.evaluation.scored_runs import (
    Amounts,
    Question,
    ScoredRun,
    Side,
    is_number,
    make_side,
    take_means,
)
from ensemble_notebook.evaluation.summary import (
    UNPAIRED,
    Gate,
    Scale,
    SideSummary,
    agree,
    average_run,
    decide,
    format_p,
    summarize_side,
)
from ensemble_notebook.trace.tables.table import Column, Table

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.row_table import RowFrame

Named = tuple[str, Sequence[ScoredRun]]
"""What a side is called, and its runs."""

LEVEL: Final = 0.05
POINTS: Final = 0.05
"""The difference of shares that is to be settled, unless a person says another one."""
_SAME: Final = 0.005
_MOST_NAMED: Final = 5
_MOST_SMALL: Final = 6
"""Digits behind the point of a small amount, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much one side has more than the other, paired over rows.

    Attributes:
        a, b: means over the rows that both have.
        value: b less a.
        interval: of it, 95%; None where there is none.
    """

    a: float
    b: float
    value: float
    interval: statistics.Interval | None

    @property
    def ratio(self) -> float | None:
        """How many times as much b has as a; None where a has nothing."""
        return self.b / self.a if self.a > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two sides compared.

    Attributes:
        a, b: the sides.
        question: what is compared.
        rows: that both sides have a score for. repeats: of each, at most.
        differing: rows in which the sides differ.
        difference: of the scores; None where there is no row.
        spread: standard deviation of the row differences.
        p: of the sign-flip test, or after each row at once. adjusted_p: by Holm, where several are compared; not
            after each row, where they share the level.
        comparisons: how many are.
        costs, times: of runs, as differences; None where they are not known of all. Times are those in which something
            was at work.
        judge: what is to be said of the judge; None where there is none.
        pairs: which row of b is which of a, where they are of two maps; None within one, where rows are the same.
        is_only_score: whether the sides have no other score, so that nobody asks which it is.
        currency: of the costs.
        sequence: how the rows were looked at; None: at the end alone.
        running: what holds after each row at once, where the map looked after each (V60); None elsewhere.
    """

    a: Side
    b: Side
    question: Question
    rows: int
    repeats: int
    differing: int
    difference: Difference | None
    spread: float
    p: float
    adjusted_p: float
    comparisons: int = 1
    costs: Difference | None
    times: Difference | None
    judge: str | None
    pairs: RowPairs | None
    is_only_score: bool
    currency: str | None
    sequence: Sequenced | None = None
    running: RunningMean | None = None

    @property
    def level(self) -> float:
        """How often the interval may fail to hold the difference."""
        return LEVEL if self.sequence is None else self.sequence.level

    @property
    def interval(self) -> statistics.Interval | None:
        """Of the difference, 95%; None where there is none."""
        return None if self.difference is None else self.difference.interval

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval does not hold 0."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)

    @property
    def is_different(self) -> bool:
        """Whether a difference is claimed: the interval excludes 0, and p, by Holm, is at most 0.05 or the level."""
        return self.excludes_zero and self.adjusted_p <= self.level

    @property
    def better(self) -> str | None:
        """The name of the better side; None where none is claimed, or the score knows no better."""
        if not self.is_different or self.question.higher_is_better is None or self.difference is None:
            return None
        return self.b.name if (self.difference.value > 0) is self.question.higher_is_better else self.a.name

    @property
    def kind(self) -> str:
        """Of which kind the interval is: ``95%``, or ``95% after each row at once``."""
        if self.running is None:
            return PLAIN
        return describe_sequence(self.level, is_approximate=self.running.is_approximate)

    @property
    def size(self) -> str:
        """What was compared: ``120 rows x 3 repeats``."""
        return pluralize(self.rows, "row") + (f" x {self.repeats} repeats" if self.repeats > 1 else "")


def compare_sides(
    a: Named,
    b: Named,
    question: Question,
    *,
    pairs: RowPairs | None = None,
    is_only_score: bool = True,
    currency: str | None = None,
    find_earlier: Callable[[], Iterable[ScoredRun]] = tuple,
    sequence: Sequenced | None = None,
) -> Pair:
    """Compare two sides, row by row.

    Args:
        a: name and runs of what is there before.
        b: of what changes it.
        question: what is compared.
        pairs: as in `Pair`.
        is_only_score: likewise.
        currency: of the costs.
        find_earlier: as in `describe_judge`.
        sequence: how the rows were looked at, where each was.

    Raises:
        ValidationError: rows failed, and nothing says what they count as.
    """
    first, second = (make_side(name, runs, question) for name, runs in _face(a, b))
    paired = _pair(first.values, second.values)
    differences = np.asarray([mine - theirs for theirs, mine, _ in paired])
    counts = [count for *_, count in paired]
    unit = math.lcm(*counts) if question.is_share and counts else None
    difference, running = _subtract(paired, is_share=question.is_share), None
    if sequence is None:
        p = statistics.measure_sign_flips(differences, unit)
    else:
        in_order = (_pair_row(first.values.get(row, {}), second.values.get(row, {})) for row in sequence.rows)
        values = [each[1] - each[0] for each in in_order if each is not None]
        running = follow_mean(values, level=sequence.level, bounds=question.difference_bounds)
        p = 1.0 if running is None else running.p
        if difference is not None and running is not None:
            difference = replace(difference, interval=running.interval)
    return Pair(
        a=first,
        b=second,
        question=question,
        rows=len(paired),
        repeats=max(counts, default=1),
        differing=statistics.count_differing(differences),
        difference=difference,
        spread=float(differences.std(ddof=1)) if len(differences) > 1 else 0.0,
        p=p,
        adjusted_p=p,
        costs=_subtract_spent(first, second, "costs"),
        times=_subtract_spent(first, second, "times"),
        judge=describe_judge([*first.scored, *second.scored], question.score, find_earlier),
        pairs=pairs,
        is_only_score=is_only_score,
        currency=currency,
        sequence=sequence,
        running=running,
    )


def _face(a: Named, b: Named) -> Iterator[Named]:
    """The two as they stand beside each other, where a judge has compared each of more with each other."""
    for (name, runs), (_, others) in ((a, b), (b, a)):
        yield name, [each.beside(others[0].variant) for each in runs] if others else runs


def _pair(a: Amounts, b: Amounts) -> list[tuple[float, float, int]]:
    """For each row of both: the means over the repeats that both have, and how many these are."""
    found = (_pair_row(a[row], b[row]) for row in a.keys() & b.keys())
    return sorted(filter(None, found))  # the order of sets is that of hashes, and sums of floats depend on it


def _pair_row(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[float, float, int] | None:
    """Of one row; None where no repeat is in both."""
    both = [each for each in a if each in b]
    if not both:
        return None
    return sum(a[each] for each in both) / len(both), sum(b[each] for each in both) / len(both), len(both)


def _subtract(paired: Sequence[tuple[float, float, int]], *, is_share: bool = False) -> Difference | None:
    if not paired:
        return None
    a, b, _ = (np.asarray(each) for each in zip(*paired, strict=True))
    differences = b - a
    interval = statistics.find_difference_interval(differences, is_share=is_share)
    return Difference(a=float(a.mean()), b=float(b.mean()), value=float(differences.mean()), interval=interval)


def _subtract_spent(a: Side, b: Side, name: str) -> Difference | None:
    """The difference of costs or times; None where they are not known of all runs."""
    first, second = getattr(a, name), getattr(b, name)
    if any(average_run(each, side.worked) is None for each, side in ((first, a), (second, b))):
        return None
    return _subtract(_pair(first, second))


def _count(name: str) -> Callable[[Pair], int | None]:
    return lambda pair: None if pair.pairs is None else len(getattr(pair.pairs, name))


def _read(name: str, part: str) -> Callable[[Pair], float | None]:
    return lambda pair: None if getattr(pair, name) is None else getattr(getattr(pair, name), part)


def _get_end(name: str, place: int) -> Callable[[Pair], float | None]:
    def get(pair: Pair) -> float | None:
        difference: Difference | None = getattr(pair, name)
        return None if difference is None or difference.interval is None else difference.interval[place]

    return get


COMPARISONS: Final = Table(
    "comparison of two sides; intervals are 95% each, not adjusted, or hold after each row at once",
    None,
    (
        Column("a", "string", "what is there before", "a.name", is_nullable=False),
        Column("b", "string", "what changes it", "b.name", is_nullable=False),
        Column("score", "string", "name of the score", "question.score", is_nullable=False),
        Column("rows", "Int64", "that both sides have a score for", is_nullable=False),
        Column("repeats", "Int64", "of each row, at most", is_nullable=False),
        Column("paired", "Int64", "rows of two maps that are the same", _count("partners")),
        Column("changed", "Int64", "of these, with the same id and other inputs", _count("changed")),
        Column("new", "Int64", "rows of b alone", _count("new")),
        Column("gone", "Int64", "rows of a alone", _count("gone")),
        Column("mean_a", "Float64", "over these rows", _read("difference", "a")),
        Column("mean_b", "Float64", "likewise", _read("difference", "b")),
        Column("difference", "Float64", "b less a", _read("difference", "value")),
        Column("low", "Float64", "end of its interval", _get_end("difference", 0)),
        Column("high", "Float64", "the other end", _get_end("difference", 1)),
        Column("p", "Float64", "of the sign-flip test, or after each row at once; not adjusted", is_nullable=False),
        Column("adjusted_p", "Float64", "by Holm, where several are compared", is_nullable=False),
        Column("is_different", "boolean", "a difference is claimed", is_nullable=False),
        Column("cost_difference", "Float64", "of a run, b less a", _read("costs", "value")),
        Column("cost_low", "Float64", "end of its interval", _get_end("costs", 0)),
        Column("cost_high", "Float64", "the other end", _get_end("costs", 1)),
        Column("time_difference_ms", "Float64", "of the active_ms of a run, likewise", _read("times", "value")),
        Column("time_low_ms", "Float64", "end of its interval", _get_end("times", 0)),
        Column("time_high_ms", "Float64", "the other end", _get_end("times", 1)),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowComparison:
    """A row under two sides.

    Attributes:
        pair: the sides.
        row_a, row_b: what they call the row; None on the side that does not have it.
        is_changed: whether the row has the same id in both, and other inputs.
        value_a, value_b: what it comes to, over its repeats; None without a score.
    """

    pair: Pair
    row_a: str | None
    row_b: str | None
    is_changed: bool
    value_a: float | None
    value_b: float | None

    @property
    def difference(self) -> float | None:
        """Of the values, b less a."""
        return None if self.value_a is None or self.value_b is None else self.value_b - self.value_a


def list_rows(pair: Pair) -> Iterator[RowComparison]:
    """The rows of both sides, in the order of b; those of a alone come last."""
    pairs, (before, now) = pair.pairs, (take_means(side.values) for side in (pair.a, pair.b))
    later = {} if pairs is None else {theirs: mine for mine, theirs in pairs.partners.items()}
    for row in dict.fromkeys(run.row for side in (pair.b, pair.a) for run in side.scored):
        name = row[1] if isinstance(row, tuple) else str(row)  # a row of one of two maps alone has its side with it
        row_b = later.get(name, name) if row in pair.b.rows else None
        yield RowComparison(
            pair=pair,
            row_a=name if row in pair.a.rows else None,
            row_b=row_b,
            is_changed=pairs is not None and row_b in pairs.changed,
            value_a=before.get(row),
            value_b=now.get(row),
        )


COMPARED_ROWS: Final = Table(
    "rows of two sides beside each other, in the order of b; those of a alone come last",
    None,
    (
        Column("a", "string", "what is there before", "pair.a.name", is_nullable=False),
        Column("b", "string", "what changes it", "pair.b.name", is_nullable=False),
        Column("row_a", "string", "what a calls the row; NA where it is new"),
        Column("row_b", "string", "what b calls it; NA where it is gone"),
        Column("is_changed", "boolean", "it has the same id in both, and other inputs", is_nullable=False),
        Column("value_a", "Float64", "what its score comes to, over its repeats; 1 for passed"),
        Column("value_b", "Float64", "likewise"),
        Column("difference", "Float64", "b less a"),
    ),
)


class Comparison(Pickled):
    """A verdict: what b changes from a, or several variants from one of them.

    Attributes:
        pairs: each comparison; there is one unless several variants are compared.
        detect: the difference that is to be settled; None where nobody has said.
    """

    def __init__(self, pairs: Sequence[Pair], detect: float | None = None) -> None:
        shares_level = any(each.running is not None for each in pairs)
        found = [each.p for each in pairs]
        adjusted = zip(pairs, found if shares_level else statistics.adjust_by_holm(found), strict=True)
        self.pairs: tuple[Pair, ...] = tuple(
            replace(each, adjusted_p=p, comparisons=len(pairs)) for each, p in adjusted
        )
        self.detect = detect

    @property
    def is_different(self) -> bool:
        """Whether a difference is claimed; with several variants, any."""
        return any(each.is_different for each in self.pairs)

    @property
    def better(self) -> str | None:
        """The name of the better side; None where none is claimed.

        Raises:
            ValidationError: several variants are compared; `pairs` has each.
        """
        return self._get_only().better

    @property
    def difference(self) -> float | None:
        """The mean of the row differences, b less a; None without rows.

        Raises:
            ValidationError: several variants are compared; `pairs` has each.
        """
        found = self._get_only().difference
        return None if found is None else found.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the difference, 95%; None where there is none.

        Raises:
            ValidationError: several variants are compared; `pairs` has each.
        """
        return self._get_only().interval

    @property
    def p(self) -> float:
        """The p of the sign-flip test, or the one that holds after each row at once.

        Raises:
            ValidationError: several variants are compared; `pairs` has each.
        """
        return self._get_only().p

    @cached_property
    def frame(self) -> RowFrame:
        """A row for each comparison: means, difference and interval, p, and the differences of cost and time."""
        return COMPARISONS.to_frame(self.pairs)

    @cached_property
    def rows(self) -> RowFrame:
        """Row by row: what each side calls it, what its score comes to under both, and the difference.

        ::

            new.compare(old).rows.query("difference < 0")
        """
        return COMPARED_ROWS.to_frame([row for each in self.pairs for row in list_rows(each)])

    @property
    def sides(self) -> tuple[SideSummary, ...]:
        """What each side comes to, the baseline first."""
        found = {
            each.name: summarize_side(each, pair.question, sequence=pair.sequence)
            for pair in self.pairs
            for each in (pair.a, pair.b)
        }
        return tuple(found.values())

    def not_worse(self, by: float, *, allow_unpaired: bool = False) -> Gate:
        """Whether b is not worse than a by more than this: true only where that is shown.

        Args:
            by: what it may be worse by; of a score that passes or fails, a share: 0.05 for 5 points.
            allow_unpaired: whether the rows that could be paired are enough, however many of two maps could not.
                Without it, more than 5% of the rows of either give ``unpaired``.

        Raises:
            ValidationError: `by` is not more than 0, several variants are compared, or the score knows no better.
        """
        pair = self._get_only()
        if not is_number(by) or by <= 0:
            raise ValidationError(f"by must be a number above 0, the most that may be lost, got {by!r}.")
        if pair.question.higher_is_better is None:
            raise ValidationError(f"{pair.question.score!r} is a label, and no label is better than another.")
        because = describe_pair(pair, self.detect)
        if pair.pairs is not None and not pair.pairs.is_complete and not allow_unpaired:
            return Gate(UNPAIRED, f"more than 5% of the rows have no partner, and allow_unpaired is not set; {because}")
        sign = 1 if pair.question.higher_is_better else -1
        found = pair.difference
        low, high = sorted(sign * end for end in pair.interval or (0.0, 0.0))
        return decide(
            mark=-by,
            estimate=None if found is None else sign * found.value,
            interval=None if pair.interval is None else (low, high),
            rows=pair.rows,
            spread=pair.spread,
            least=lambda distance: statistics.Z * math.sqrt(2) / distance - 2 if pair.question.is_share else 2,
            gaps=[gap for side in (pair.a, pair.b) if (gap := side.find_gap()) is not None],
            because=because,
        )

    def _get_only(self) -> Pair:
        if len(self.pairs) > 1:
            raise ValidationError("Several variants are compared: ask about two of them, compare(A, B, score=NAME).")
        return self.pairs[0]

    def describe(self) -> str:
        """The verdict, a sentence for each comparison, secrets masked."""
        return "\n".join(make_readable(describe_pair(each, self.detect)) for each in self.pairs)

    def __repr__(self) -> str:
        """The sentence."""
        return self.describe()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("comparison", self)


# --- The sentence -----------------------------------------------------------------------------------------------------


def describe_pair(pair: Pair, detect: float | None = None) -> str:
    """The verdict on two sides, in one sentence: what was found, how sure that is, and what it rests on.

    Args:
        pair: the comparison.
        detect: the difference that is to be settled.
    """
    said = _tell_difference(pair) if pair.is_different else _tell_none(pair, detect)
    return f"{'; '.join([said, *_list_notes(pair)])}."


def describe_shortly(pair: Pair, *, is_over: bool) -> str:
    """The verdict as a head has room for it: ``tersely is better (0.86 beside 0.66; +0.06 to +0.34)``.

    Args:
        pair: the comparison.
        is_over: whether no more rows come.
    """
    named = "" if pair.is_only_score else f" in {pair.question.score}"
    if pair.question.is_ is not None:
        named = f" in {pair.question.is_}"
    if pair.difference is None:
        return f"nothing to compare{named} {'' if is_over else 'yet '}under {pair.a.name} and {pair.b.name}"
    is_b_first = pair.better == pair.b.name if pair.better is not None else pair.difference.value > 0
    first, second, sign = (pair.b, pair.a, 1) if is_b_first else (pair.a, pair.b, -1)
    means = (pair.difference.b, pair.difference.a) if is_b_first else (pair.difference.a, pair.difference.b)
    told = " beside ".join(_write_plainly(each) for each in means)
    if pair.interval is not None:
        told += f"; {' to '.join(_write_plainly(sign * each, sign='+') for each in pair.interval[::sign])}"
    said = f"no difference {'shown' if is_over else 'yet'} between {first.name} and {second.name}{named}"
    if pair.is_different:
        than = f" than {second.name}" if pair.comparisons > 1 else ""
        said = f"{first.name} is {'higher' if pair.better is None else 'better'}{than}{named}"
    return f"{said} ({told})"


def _write_plainly(amount: float, sign: str = "") -> str:
    """An amount with two digits behind the point, more where they would be a false 0, and none where it is large."""
    digits = 0 if abs(amount) >= 100 else 2
    while digits < _MOST_SMALL and amount and not round(amount, digits):
        digits += 1
    return f"{amount:{sign},.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _tell_difference(pair: Pair) -> str:
    assert pair.difference is not None
    assert pair.interval is not None
    is_b_first = pair.better == pair.b.name if pair.better is not None else pair.difference.value > 0
    first, second = (pair.b, pair.a) if is_b_first else (pair.a, pair.b)
    size, (low, high) = abs(pair.difference.value), sorted(map(abs, pair.interval))
    amount, low_text, high_text = Scale([size, low, high], pair.question.unit).write_all()
    is_more = (pair.difference.value > 0) is is_b_first
    holm = _say_holm(pair)
    judge = f", {pair.judge}" if pair.judge is not None and pair.judge.startswith("by") else ""
    cost = _tell_cost(pair, first, "it")
    named = "" if pair.is_only_score else f" {pair.question.score}"
    how = f"scores {amount} {'higher' if is_more else 'lower'}{f' on{named}' if named else ''}"
    if pair.question.is_share:
        passes = f"wins{f' on{named}' if named else ''}" if pair.question.is_pair else f"passes{named}"
        verb = passes if pair.question.is_ is None else f"gets {pair.question.is_}"
        how = f"{verb} {amount} {'more' if is_more else 'less'} often"
    said = f"{first.name} {how} than {second.name}"
    if not is_more and pair.better is not None:
        said += ", and less is better"
    return (
        f"{said}{judge} ({pair.kind}: {low_text} to {high_text}; {pair.size}, p {format_p(pair.adjusted_p)}{holm})"
        f"{f'; {cost}' if cost else ''}"
    )


def _tell_none(pair: Pair, detect: float | None) -> str:
    names = f"{pair.a.name} and {pair.b.name}"
    if pair.difference is None:
        return f"Nothing to compare: no row has a score under both {names}"
    about = "" if pair.comparisons == 1 and pair.is_only_score else f" between {names}"
    if not pair.is_only_score:
        about += f" in {pair.question.score}"
    parts = [f"No difference{about} that {pair.size} can show"]
    if pair.interval is None:
        amount, *_ = Scale([pair.difference.value], pair.question.unit).write_signed()
        where = "the only row" if pair.rows == 1 else "every row alike"
        is_same = pair.rows > 1 and not pair.differing
        parts[0] += " (not one row differs)" if is_same else f" ({amount} in {where}, which gives no interval)"
    else:
        low, high = Scale(pair.interval, pair.question.unit).write_signed()
        said_kind = "" if pair.running is None else f"{pair.kind}: "
        parts[0] += f" ({said_kind}{low} to {high}{_say_p(pair)})"
    if pair.judge is not None and pair.judge.startswith("by"):
        parts[0] += f", {pair.judge}"
    if pair.interval is not None and 0 < pair.differing < statistics.FEWEST_DIFFERING:
        verb = "differs" if pair.differing == 1 else "differ"
        parts.append(f"only {pluralize(pair.differing, 'row')} {verb}, and fewer than 6 can show nothing")
    elif not pair.differing and pair.interval is not None:
        parts.append("not one row differs")
    parts += [each for each in (_tell_rows(pair, detect), _tell_cost(pair, pair.b, pair.b.name)) if each]
    return "; ".join(parts)


def _say_p(pair: Pair) -> str:
    """The p, where it alone or the interval alone would have claimed a difference."""
    if not pair.excludes_zero and pair.adjusted_p > pair.level:
        return ""
    return f"{', but' if pair.excludes_zero else ';'} p {format_p(pair.adjusted_p)}{_say_holm(pair)}"


def _say_holm(pair: Pair) -> str:
    is_adjusted = pair.comparisons > 1 and pair.running is None
    return f" by Holm over {pair.comparisons} comparisons" if is_adjusted else ""


def _tell_rows(pair: Pair, detect: float | None) -> str:
    """How many rows would settle it; empty where nobody can say."""
    wanted = detect if detect is not None else POINTS if pair.question.is_share else None
    if wanted is None or pair.spread <= statistics.ZERO or pair.running is not None:  # of one look at all rows alone
        return ""
    (amount,) = Scale([wanted], pair.question.unit, is_round=True).write_all()
    rows = statistics.find_rows_needed(pair.spread, wanted)
    if rows <= pair.rows:
        return f"a difference of {amount} would most likely have shown"
    return f"about {rows:,} rows would settle a difference of {amount}"


def _tell_cost(pair: Pair, side: Side, subject: str) -> str:
    """What a side costs beside the other one; empty where it is not known, or about the same."""
    if pair.costs is None or not (pair.costs.a or pair.costs.b):
        return ""
    mine, other = (pair.costs.b, pair.costs.a) if side is pair.b else (pair.costs.a, pair.costs.b)
    if not other:
        return f"{subject} costs {format_money(mine, pair.currency)} a run, the other nothing"
    if not mine:
        return f"{subject} costs nothing, the other {format_money(other, pair.currency)} a run"
    ratio = mine / other
    if abs(ratio - 1) < _SAME:
        return ""
    if ratio >= 2:
        return (
            f"{subject} costs {ratio:.2g} times as much"
            if ratio < 10
            else f"{subject} costs {ratio:,.0f} times as much"
        )
    return f"{subject} costs {format_percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


def _list_notes(pair: Pair) -> Iterator[str]:
    """What a verdict rests on, and what it leaves out."""
    if pair.judge is not None and not pair.judge.startswith("by"):
        yield pair.judge
    for side in (pair.a, pair.b):
        if side.failed:
            count = pair.question.name_failed()
            yield f"{side.count(side.failed)} failed under {side.name} and {agree(count, side.failed)}"
    for side in (pair.a, pair.b):
        if side.incomplete:
            verb = "was" if side.incomplete == 1 else "were"
            left = agree("are left out", side.incomplete)
            yield f"{side.count(side.incomplete)} never ran or {verb} cut short under {side.name} and {left}"
        if side.unscored:
            verb, left = ("has" if side.unscored == 1 else "have"), agree("are left out", side.unscored)
            yield f"{side.count(side.unscored)} {verb} no score under {side.name} and {left}"
    if pair.question.is_pair and (changed := _count_changed(pair)):
        yield changed
    if saved := describe_savings(pair):
        yield saved
    if pair.pairs is not None:
        yield _tell_pairs(pair.pairs)


def _count_changed(pair: Pair) -> str:
    """How often a judge of pairs chose by their order; empty where it did not."""
    said = [each.scores[name] for each in pair.b.scored if (name := pair.question.score) in each.scores]
    return describe_changed(each for each in said if each.measure is not None)


def describe_changed(records: Iterable[ScoreRecord]) -> str:
    """How often a judge changed its mind with the order of the two; empty where it did not.

    Args:
        records: one of each pair that was judged.
    """
    given = [bool(each.has_changed_mind) for each in records]
    if not any(given):
        return ""
    which = "which is a tie" if sum(given) == 1 else "which are ties"
    return f"the judge changed its mind with the order in {sum(given):,} of {pluralize(len(given), 'pair')}, {which}"


def describe_savings(pair: Pair) -> str:
    """How many rows were not needed, and what they would most likely have cost; empty where all ran."""
    rows = min((side.settled // side.repeats for side in (pair.a, pair.b) if side.settled), default=0)
    if not rows:
        return ""
    costs = [(average_run(side.costs, side.worked) or 0.0) * side.settled for side in (pair.a, pair.b)]
    money = f" and {format_money(sum(costs), pair.currency)}" if sum(costs) else ""
    return f"{pluralize(rows, 'row')}{money} saved"


def _tell_pairs(pairs: RowPairs) -> str:
    """How many rows were paired: ``199 rows paired, 1 with other inputs; 2 new (row 7 and row 9), 1 gone (row 3)``."""
    if pairs.reason:
        return f"no rows paired, since {pairs.reason}; {len(pairs.new):,} new, {len(pairs.gone):,} gone"
    changed = f", {len(pairs.changed):,} with other inputs" if pairs.changed else ""
    told = []
    for word, names in (("new", pairs.new), ("gone", pairs.gone)):
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        told.append(f"{len(names):,} {word}" + (f" ({', '.join(names[:_MOST_NAMED])}{more})" if names else ""))
    return f"{pluralize(len(pairs.partners), 'row')} paired{changed}; {', '.join(told)}"
