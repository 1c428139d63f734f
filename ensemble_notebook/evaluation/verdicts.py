"""The verdicts on the results of maps (V11-V13): what a `MapResult` is asked, and of which of its runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord, find_name, list_current
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.planning.map_design import KnownRows, RowPairs, UntilClear, pair_rows
from ensemble_notebook.domain.wording import say_how_many
from ensemble_notebook.errors import BudgetExceededError, StoreError, ValidationError, did_you_mean
from ensemble_notebook.evaluation.scored_runs import (
    LEAVE_OUT,
    Failed,
    ScoredRun,
    ask,
    find_ending,
    is_number,
    list_labels,
    list_scores,
    make_side,
    name_scores,
    shorten_names,
)
from ensemble_notebook.trace.analysis.run_diff import RunDiff
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.task_output import Metrics
    from ensemble_notebook.domain.planning.map_design import RowSpending
    from ensemble_notebook.evaluation.agreement import Agreement
    from ensemble_notebook.evaluation.clear_verdict import Sequenced
    from ensemble_notebook.evaluation.comparison import Comparison
    from ensemble_notebook.evaluation.summary import Gate
    from ensemble_notebook.trace.analysis.row_table import RowFrame
    from ensemble_notebook.trace.execution_trace import ExecutionTrace


class ScoredMap(ABC):
    """A map with scores, as verdicts need it: `MapResult` derives from it."""

    rows: Sequence[Any]
    ensemble: Any
    _until_clear: UntilClear | None

    @property
    @abstractmethod
    def variants(self) -> tuple[str, ...] | None: ...
    @property
    @abstractmethod
    def repeats(self) -> int | None: ...
    @property
    @abstractmethod
    def score_records(self) -> tuple[ScoreRecord, ...]: ...
    @property
    @abstractmethod
    def _shows_texts(self) -> bool: ...
    @property
    @abstractmethod
    def metrics(self) -> Metrics: ...
    @property
    @abstractmethod
    def run_id(self) -> str | None: ...
    @property
    @abstractmethod
    def trace(self) -> ExecutionTrace | None: ...
    @abstractmethod
    def _get_spending(self, row: Any) -> RowSpending: ...
    @abstractmethod
    def _list_known_rows(self) -> KnownRows: ...

    def diff(
        self, a: str | int | ScoredMap, b: str | int | ScoredMap | None = None, row: int = 0, repeat: int = 1
    ) -> RunDiff:
        """Compare two runs of this map, or one with that of the same row in another map, as `EnsembleOutput.diff` does.

        ::

            result.diff("short", "local", row=3)
            result.diff(0, 1)
            new.diff(old, row=3)

        Args:
            a: a variant's name, the place of a run in this result, or a result.
            b: likewise; without it, this result.
            row: position of the row, from 0, in b where that is a result. After `Variants.run` there is only one.
            repeat: number of the repeat, from 1, where there are several.

        Raises:
            ValidationError: there is no such variant, row or repeat, that row has not run, or the other map has none
                that is the same.
        """
        later = self if b is None else b
        if isinstance(a, str) and isinstance(later, str):
            (first, first_name), (second, second_name) = (_find_run(self, each, row, repeat) for each in (a, later))
        elif _is_place(a) and _is_place(later):
            (first, first_name), (second, second_name) = (_get_run(each, self.rows) for each in (a, later))
        elif isinstance(a, ScoredMap) and isinstance(later, ScoredMap):
            second, second_name = _find_run(later, None, row, repeat)
            before, now = a._list_known_rows(), later._list_known_rows()
            pairs = pair_rows(before, now)
            found = pairs.partners.get(now.names[row])
            if found is None:
                why = f", since {pairs.reason}" if pairs.reason else ""
                raise ValidationError(f"The other map has no row that is the same as {now.names[row]}{why}.")
            first, first_name = _find_run(a, None, list(before.names).index(found), repeat)
        else:
            raise ValidationError(
                f"diff takes two names of variants, two places in this result, or results, got {a!r} and {b!r}."
            )
        return RunDiff(first.trace._fold, second.trace._fold, (first_name, second_name))

    def summary(self, k: int | None = None, *, failed: Failed = None) -> RowFrame:
        """Sum up each variant under each score.

        A row that failed counts as not passed. One that never ran, or was cut short, is left out and counted, and so is
        one without a score. Rows are the sample: repeats are averaged inside a row.

        Args:
            k: with repeats, adds ``pass@k``, the chance that one of k repeats passes, and ``pass^k``, that all do.
            failed: what a row that failed counts as where the score is a number, or ``"leave out"``.

        Returns:
            A row for each variant and score, a label's words one by one. Columns: variant, score, rows, repeats,
            failed, incomplete, unscored, mean, low, high (95%: Wilson's interval of what passes, Student's t of
            numbers; under until_clear one that holds after each row at once), cost and active_ms of a run. Without
            scores a row for each variant: variant, rows, repeats, failed, incomplete, cost and active_ms.

        Raises:
            ValidationError: `k` is no number of repeats; rows failed under a number, and `failed` is not said; a score
                is of several kinds.
        """
        from ensemble_notebook.evaluation.summary import summarize

        sides = _list_sides(self)
        return summarize(sides, k, failed, self._find_sequence(len(sides)))

    def compare(
        self,
        a: Compared | None = None,
        b: Compared | None = None,
        *,
        score: str | None = None,
        baseline: str | None = None,
        is_: str | None = None,
        failed: Failed = None,
        detect: float | None = None,
    ) -> Comparison:
        """Say what b changes from a, in one sentence; without them, what each variant changes from the first.

        Rows are paired: within a map by place; across maps by their `id`, else by what the runs of both read.

        Args:
            a: a variant's name, a result, or the id of a stored map.
            b: likewise; without it, this result.
            score: name of the score; it may be left out where there is one.
            baseline: the variant that the others are compared with; None: the first.
            is_: the label that counts, of a score that gives labels.
            failed: what a row that failed counts as where the score is a number, or ``"leave out"``.
            detect: the difference that is to be settled; of a score that passes or fails, 0.05 unless given.

        Raises:
            ValidationError: there is no such variant, map or score; a score is of several kinds; rows failed under a
                number, and `failed` is not said.
        """
        from ensemble_notebook.evaluation.comparison import Comparison, compare_sides

        if detect is not None and (not is_number(detect) or detect <= 0):
            raise ValidationError(
                f"detect must be a number above 0, the difference that is to be settled, got {detect!r}."
            )
        matched = None
        first: Named
        others: Sequence[Named]
        if a is None and b is None:
            sides = _list_sides(self)
            if len(sides) < 2:
                raise ValidationError(
                    "There is nothing to compare it with: run variants(...).map(rows), or compare two results, "
                    "new.compare(old, new)."
                )
            name = next(iter(sides)) if baseline is None else _take_side(self, baseline)[0]
            first, others = (name, sides[name]), [side for side in sides.items() if side[0] != name]
            sequence = self._find_sequence(len(others))
        elif baseline is not None:
            raise ValidationError("baseline= is for comparing all variants with one: leave it out beside two names.")
        else:
            first, other, matched, sequence = _find_two(self, a, b)
            others = [other]
        runs = [run for _, side in (first, *others) for run in side]
        question = ask(runs, score, is_ or self._find_label(runs, score), failed)
        currency = self.metrics.currency
        is_only = len(list_scores(runs)) <= 1
        find_earlier = cache(partial(_find_judged, getattr(self.ensemble, "name", None), runs))
        pairs = [
            compare_sides(
                first,
                each,
                question,
                pairs=matched,
                is_only_score=is_only,
                currency=currency,
                find_earlier=find_earlier,
                sequence=sequence,
            )
            for each in others
        ]
        return Comparison(pairs, detect)

    def passes(
        self, score: str, at_least: float, *, variant: str | None = None, is_: str | None = None, failed: Failed = None
    ) -> Gate:
        """Whether the mean of a score is shown to be at least so much; true only where all its interval is.

        Args:
            score: its name.
            at_least: the mark; of a score that passes or fails, a share of one.
            variant: of which variant.
            is_: the label that counts, of a score that gives labels.
            failed: what a row that failed counts as where the score is a number, or ``"leave out"``.

        Raises:
            ValidationError: there is no such variant or score, or the mark is none.
        """
        from ensemble_notebook.evaluation.summary import pass_mark

        sides = _list_sides(self)
        if variant is None and len(sides) > 1:
            raise ValidationError(f"There are {len(sides)} variants: say which with variant={next(iter(sides))!r}.")
        name, runs = next(iter(sides.items())) if variant is None else _take_side(self, variant)
        question = ask(runs, score, is_ or self._find_label(runs, score), failed)
        side = make_side(name, runs, question)
        return pass_mark(side, question, at_least, self._find_sequence(len(sides)))

    def ranking(self, score: str | None = None) -> RowFrame:
        """Rank the variants by a judge that compared each two of them: how strong each is, by Bradley and Terry.

        A variant beats another one in strength / (strength + that of the other) of all rows. ::

            variants.map(rows, score={"better": scorers.judged_by(judge, pair=True)}).ranking("better")

        Args:
            score: its name; it may be left out where there is one such.

        Returns:
            A row for each variant, the strongest first. Columns: variant, strength (1 is the middle: the geometric mean
            of all), low and high (95%). Below it stands how often the judge changed its mind with the order, and what
            was not compared. A variant that nothing links to the others has no strength.

        Raises:
            ValidationError: there is no such score, or it compares no variants.
        """
        from ensemble_notebook.evaluation.ranking import rank

        sides = _list_sides(self)
        runs = [run for side in sides.values() for run in side]
        names = [*dict.fromkeys(name for run in runs for name in run.pairs)]
        wanted = names[0] if score is None and len(names) == 1 else score
        if wanted in names:
            return rank(sides, wanted)
        if not names:
            raise ValidationError(
                "There is nothing to rank: no score compares variants. Score the rows of several with "
                "score={'better': scorers.judged_by(JUDGE, pair=True)}."
            )
        if wanted is None:
            raise ValidationError(f"Several scores compare variants: say which, {' or '.join(map(repr, names))}.")
        why = "looks at each run by itself" if wanted in list_scores(runs) else "is not there"
        raise ValidationError(
            f"A ranking is by a score that compares variants, and {wanted!r} {why}.{did_you_mean(wanted, names)}"
        )

    def _find_label(self, runs: Sequence[ScoredRun], score: str | None) -> str | None:
        """The label that was to be clear, where a score gives labels; None elsewhere."""
        names = list_scores(runs)
        name = find_name(score, names) if score is not None else names[0] if len(names) == 1 else None
        if self._until_clear is None or self._until_clear.is_ is None or name is None:
            return None
        given = [each.scores[name] for each in runs if name in each.scores]
        return self._until_clear.is_ if self._until_clear.is_ in list_labels(given) else None

    def _find_sequence(self, count: int) -> Sequenced | None:
        """How the rows were looked at, where the map was to end when its verdict was clear.

        Args:
            count: of the variants, or comparisons, that share the level.
        """
        from ensemble_notebook.evaluation.clear_verdict import Sequenced, order_rows

        if self._until_clear is None:
            return None
        rows = dict.fromkeys(each.row for each in self.rows)
        seen = rows.keys() - {each.row for each in self.rows if each._spending is None}
        order = order_rows([*rows], self._until_clear.seed, seen)
        return Sequenced(rows=order, level=self._until_clear.share_level(count))

    def agreement(self, first: str, second: str, *, levels: Sequence[int] | None = None) -> Agreement:
        """How far two scores of the same runs agree, as a judge's and a person's.

        Args:
            first: name of a score.
            second: name of another one of the same kind.
            levels: the whole numbers that both give, in order, so that near misses count less.

        Raises:
            ValidationError: there is no such score, no run has both, or they are of different kinds.
        """
        from ensemble_notebook.evaluation.agreement import measure_agreement

        runs = list_runs(self)
        names = list_scores(runs)
        return measure_agreement(runs, find_name(first, names), find_name(second, names), levels)


Compared: TypeAlias = str | ScoredMap
"""What can be compared: the name of a variant, a result, or the id of a stored map."""
Named: TypeAlias = tuple[str, Sequence[ScoredRun]]


def describe_scores(result: ScoredMap, failed: Failed = None) -> list[str]:
    """A sentence for each variant and score; rows that failed are left out of numbers unless said otherwise.

    Args:
        result: of a map.
        failed: what a row that failed counts as where the score is a number.
    """
    from ensemble_notebook.evaluation.summary import describe_side, list_questions, summarize_side

    sides = _list_sides(result)
    sequence = result._find_sequence(len(sides))
    return [
        describe_side(summarize_side(make_side(name, runs, question), question, sequence=sequence), question)
        for question in list_questions(list_runs(result), LEAVE_OUT if failed is None else failed)
        for name, runs in sides.items()
    ]


def _find_judged(name: str | None, runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """The runs of stored maps of this name, but for these, that a judge and a person have scored."""
    store = RunStore.find()
    if store is None or name is None:
        return []
    own = {record.run_id for run in runs for record in run.scores.values()}
    stored: Mapping[str, Sequence[ScoreRecord]] = {}
    with suppress(StoreError):  # the comparison does not need them
        stored = store.load_scores_of(name)
    given = chain.from_iterable(map(list_current, stored.values()))
    scores = name_scores(each for each in given if each.run_id not in own)
    kinds = {ScoreKind.JUDGE, ScoreKind.HUMAN}
    both = (found for found in scores.values() if kinds <= {each.kind for each in found.values()})
    made = []
    for found in both:
        place = next(iter(found.values()))
        row = (place.map_run_id, place.variant, place.row or place.run_id)
        made.append(ScoredRun(variant=place.variant or "", row=row, repeat=place.repeat or 1, scores=found))
    return made


def _find_two(
    result: ScoredMap, a: Compared | None, b: Compared | None
) -> tuple[Named, Named, RowPairs | None, Sequenced | None]:
    """The two sides; where they are of two maps, which rows are the same, and how they were looked at."""
    if a is None or (b is None and isinstance(a, str) and result.variants):
        raise ValidationError("compare takes two: names of variants, results, or ids of stored maps.")
    given: list[Compared] = [a, result if b is None else b]
    if all(isinstance(each, str) for each in given) and result.variants:
        names = _name_variants(result)
        if any(each in names or each in names.values() for each in given):
            first, second = (_take_side(result, str(each)) for each in given)
            return first, second, None, result._find_sequence(len(names) - 1)
    for each in given:
        if not isinstance(each, str | ScoredMap):
            raise ValidationError(
                f"compare takes names of variants, results, or ids of maps, got {type(each).__name__}."
            )
    earlier, later = (result.ensemble._load_map(each) if isinstance(each, str) else each for each in given)
    name, other = _name_results([earlier, later])
    pairs = pair_rows(earlier._list_known_rows(), later._list_known_rows())
    rows = {name: pairs.partners.get(name, (1, name)) for name in later._list_known_rows().names}
    before = list_runs(earlier, {name: (0, name) for name in pairs.gone})
    now = list_runs(later, rows)
    sequence = later._find_sequence(1)
    if sequence is None:
        sequence = earlier._find_sequence(1)
    else:
        sequence = replace(sequence, rows=[rows[str(each)] for each in sequence.rows])
    return (name, before), (other, now), pairs, sequence


def _name_results(results: Sequence[ScoredMap]) -> list[str]:
    """What results are called: by the names of their ensembles, or where these are alike, by their time."""
    for each in results:
        if each.variants:
            raise ValidationError(
                f"A result with variants ({', '.join(each.variants)}) is no single side: compare two of its variants "
                "by name, or results without variants."
            )
    names = [getattr(each.ensemble, "name", None) or "" for each in results]
    if len({each.run_id for each in results}) < len(results):
        raise ValidationError("A result can't be compared with itself.")
    if not all(names) or len(set(names)) < len(names):
        started = [None if each.trace is None else each.trace.started_at for each in results]
        is_in_order = None not in started and started == sorted(started, key=str)
        names = ["the earlier map", "the later map"] if is_in_order else ["the later map", "the earlier map"]
    return names


def _list_sides(result: ScoredMap) -> dict[str, list[ScoredRun]]:
    """The runs of each variant, by its short name; of all of them, by an empty one."""
    names, runs = _name_variants(result), list_runs(result)
    if not names:
        return {"": runs}
    return {short: [each for each in runs if each.variant == full] for full, short in names.items()}


def find_variant(result: ScoredMap, name: str) -> str:
    """The whole name of a variant, which may be given as short as sentences have it.

    Raises:
        ValidationError: there is no such variant.
    """
    names = _name_variants(result)
    full = name if name in names else next((full for full, short in names.items() if short == name), None)
    if full is None:
        raise ValidationError(f"No variant is called {name!r}.{did_you_mean(name, [*names, *names.values()])}")
    return full


def _take_side(result: ScoredMap, variant: str) -> Named:
    name = _name_variants(result)[find_variant(result, variant)]
    return name, _list_sides(result)[name]


def _name_variants(result: ScoredMap) -> dict[str, str]:
    """What a sentence calls each variant, by its name; by place, where names are texts that go."""
    names = result.variants or ()
    if not result._shows_texts:
        return {name: f"variant {place}" for place, name in enumerate(names)}
    return dict(zip(names, map(mask, shorten_names(names)), strict=True))


def list_runs(result: ScoredMap, rows: Mapping[str, Hashable] = MappingProxyType({})) -> list[ScoredRun]:
    """The runs of a result with their scores.

    Args:
        result: of a map.
        rows: what stands for a row that is compared with one of another map, by its name; without it, the name does.
    """
    scores, made = name_scores(_tell_variants(result)), []
    for row in result.rows:
        spending = result._get_spending(row)
        is_spent = not row.reused or row._spending is not None or bool(spending.cost)  # a map before this one has paid
        cost = spending.cost if is_spent and spending.cost_complete else None
        is_cut_short = isinstance(row.error, BudgetExceededError)  # of an executor's row, that had not begun yet
        is_failed = row.status == RunStatus.FAILED.value and not is_cut_short
        made.append(
            ScoredRun(
                variant=row.variant or "",
                row=rows.get(row.row, row.row),
                repeat=row.repeat or 1,
                ending=find_ending(row.status, is_done=row.is_done, is_failed=is_failed),
                scores=scores.get(row.run_id or "", {}),
                cost=None if cost is None else float(cost),
                active_ms=spending.active_ms if is_spent else None,
            )
        )
    return made


def _tell_variants(result: ScoredMap) -> Iterable[ScoreRecord]:
    """The scores of a result; those of pairs name the other variant as the result does, where they kept no text."""
    if result._shows_texts:
        return result.score_records
    names = {f"variant {place}": name for place, name in enumerate(result.variants or ())}
    return [
        each if each.against is None else replace(each, against=names.get(each.against, each.against))
        for each in result.score_records
    ]


def _find_run(result: ScoredMap, variant: str | None, row: int, repeat: int) -> tuple[Any, str]:
    """The run of a variant, None where there are none, and what the timeline calls it."""
    if variant is None and result.variants:
        raise ValidationError(f"A result with variants ({', '.join(result.variants)}) has several runs of a row.")
    variant = None if variant is None else find_variant(result, variant)
    rows = [each for each in result.rows if each.variant == variant and each.repeat in (None, repeat)]
    if not rows or (repeat != 1 and result.repeats is None):
        count = result.repeats or 1
        raise ValidationError(f"There is no repeat {repeat!r}: {say_how_many(count, 'repeat')}, from 1.")
    return _get_run(row, rows)


def _get_run(row: Any, rows: Sequence[Any]) -> tuple[Any, str]:
    if not _is_place(row):
        raise ValidationError(f"row must be the place of a row, from 0, got {row!r}.")
    if not -len(rows) <= row < len(rows):
        raise ValidationError(f"There is no row {row}: {say_how_many(len(rows), 'row')}, from 0.")
    output = rows[row].output
    if output is None:
        raise ValidationError(f"{rows[row].name} has no run: {rows[row].reason or rows[row].status}.")
    return output, rows[row].name


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
