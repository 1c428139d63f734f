"""How the variants of a map stand by now, for the heads of its table: means with intervals, and the verdict (V62).

Made of the fold alone, so that a map that goes on, one that is over and one that was loaded are told alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED, MapDesign
from ensemble_notebook.errors import ValidationError, make_readable
from ensemble_notebook.evaluation.clear_verdict import Sequenced, order_rows
from ensemble_notebook.evaluation.comparison import (
    LEVEL,
    Comparison,
    compare_sides,
    describe_pair,
    describe_savings,
    describe_shortly,
)
from ensemble_notebook.evaluation.scored_runs import (
    LEAVE_OUT,
    Ending,
    Question,
    ScoredRun,
    list_scores,
    make_side,
    name_scores,
    shorten_names,
)
from ensemble_notebook.evaluation.summary import SideSummary, list_questions, summarize_side
from ensemble_notebook.trace.analysis.row_table import sum_spending
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span

MOST_QUESTIONS: Final = 20
"""So many scores, and words of labels, are told of."""
_ENDINGS: Final[Mapping[SpanStatus, Ending]] = {SpanStatus.OK: Ending.DONE, SpanStatus.ERROR: Ending.FAILED}
_GOES_ON: Final = (SpanStatus.PENDING, SpanStatus.RUNNING, SpanStatus.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A variant under a score.

    Attributes:
        variant: its name in the design of the map; None where there are none.
        title: as short as it is told apart.
        found: what it comes to.
        question: that was asked.
    """

    variant: str | None
    title: str
    found: SideSummary
    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a map stands.

    Attributes:
        heads: of each score, those of all variants.
        sentence: what is found by now, in short; None where nothing is compared.
        reason: what that rests on.
    """

    heads: Sequence[Head]
    sentence: str | None
    reason: str | None


def describe_standing(fold: TraceFold) -> Standing | None:
    """How the variants of a map stand; None of another run, before the first score, and where scores mix kinds.

    As long as it goes on, and where it was to end early, intervals hold after each row at once. The usual ones, which
    one may look at once, are those of a map that is over.

    Args:
        fold: of the map, which is not added to meanwhile.
    """
    design = None if fold.plan is None else fold.plan.design
    if design is None:
        return None
    is_over = fold.status not in (RunStatus.PENDING, RunStatus.RUNNING)
    ended = _list_ended(fold, design, is_over=is_over)
    names = list(dict.fromkeys(each.variant or "" for each in design.rows))
    sides: dict[str, list[ScoredRun]] = {name: [] for name in names}
    for run in ended:
        sides[run.variant].append(run)
    order = None
    if design.until_clear is not None or not is_over:
        order = _find_order(design, ended)
    try:
        questions = [*list_questions(ended, LEAVE_OUT)][:MOST_QUESTIONS] if list_scores(ended) else []
    except ValidationError:
        return None
    if not questions:
        return None
    titles = [*map(mask, shorten_names(names))]
    of_means = _share(design, order, 1 if design.until_clear is None else len(names))
    of_differences = _share(design, order, max(1, len(names) - 1))
    known = dict(zip(names, titles, strict=True))
    heads = [head for each in questions for head in _list_heads(each, known, sides, of_means)]
    if len(names) < 2:
        return Standing(heads=heads, sentence=None, reason=None)
    first, *others = [(title, sides[name]) for name, title in zip(names, titles, strict=True)]
    is_only = len(list_scores(ended)) == 1
    compared = [
        Comparison(
            [
                compare_sides(
                    first, each, question, is_only_score=is_only, currency=fold.currency, sequence=of_differences
                )
                for each in others
            ]
        )
        for question in questions
        if question.is_ is None or (design.until_clear is not None and question.is_ == design.until_clear.is_)
    ]
    pairs = [pair for each in compared for pair in each.pairs]
    said = [describe_shortly(each, is_over=is_over) for each in pairs]
    said += dict.fromkeys(saved for each in pairs if (saved := describe_savings(each)))
    return Standing(
        heads=heads,
        sentence=make_readable("; ".join(said)) or None,
        reason=make_readable("\n".join(map(describe_pair, pairs))) or None,
    )


def _list_heads(
    question: Question, titles: Mapping[str, str], sides: Mapping[str, Sequence[ScoredRun]], sequence: Sequenced | None
) -> Iterator[Head]:
    """Each variant under a score; where that compares them, each two under that of the pair, as cells have it."""

    def make(name: str, runs: Sequence[ScoredRun]) -> Head:
        found = summarize_side(make_side(titles[name], runs, question), question, sequence=sequence)
        return Head(variant=name or None, title=titles[name], found=found, question=question)

    if not question.is_pair:
        yield from (make(name, sides[name]) for name in titles)
        return
    for pair in combinations(titles, 2):
        beside = [[each.beside(other) for each in sides[name]] for name, other in (pair, pair[::-1])]
        given = (each.pairs.get(question.score, {}).get(pair[1]) for each in sides[pair[0]])
        if (first := next(filter(None, given), None)) is not None:
            for head in map(make, pair, beside):
                yield replace(head, found=replace(head.found, score=first.name))


def _share(design: MapDesign, order: Sequence[str] | None, count: int) -> Sequenced | None:
    """How the rows were looked at, with the level that each of so many has."""
    if order is None:
        return None
    asked = design.until_clear
    return Sequenced(rows=order, level=LEVEL / count if asked is None else asked.share_level(count))


def _find_order(design: MapDesign, ended: Sequence[ScoredRun]) -> list[str]:
    """The rows in the order in which they were looked at."""
    if design.until_clear is None:
        return list(dict.fromkeys(str(each.row) for each in ended))
    seen = {each.row for each in design.rows} - {each.row for each in design.rows if each.earlier is None}
    return order_rows(list(dict.fromkeys(each.row for each in design.rows)), design.until_clear.seed, seen)


def _list_ended(fold: TraceFold, design: MapDesign, *, is_over: bool) -> list[ScoredRun]:
    """The runs that have ended, in order of their end; of a map that is over, all, with what they cost."""
    known = (*fold.taken_over.values(), *fold.spans.values())
    spans = {each.name: each for each in known if each.is_own_task}
    scores = _group_by_place(fold.list_row_scores())
    spent = sum_spending(fold, spans.keys()) if is_over else {}
    found: list[tuple[float, ScoredRun]] = []
    for each in design.rows:
        span = spans.get(each.name)
        ending = _find_ending(span)
        if ending is None and not is_over:
            continue
        spending = each.earlier or spent.get(each.name)
        cost = None if spending is None or not spending.cost_complete else spending.cost
        run = ScoredRun(
            variant=each.variant or "",
            row=each.row,
            repeat=each.repeat or 1,
            ending=ending or Ending.INCOMPLETE,
            scores=scores.get((each.variant, each.row or None, each.repeat), {}),
            cost=None if cost is None else float(cost),
        )
        found.append(((span and span.end_ms) or 0.0, run))
    return [run for _, run in sorted(found, key=lambda each: each[0])]


def _group_by_place(records: Sequence[ScoreRecord]) -> dict[object, dict[str, ScoreRecord]]:
    """The scores of each run of a row by name, by its variant, row and repeat."""
    places = {each.run_id: (each.variant, each.row, each.repeat) for each in records}
    return {places[run_id]: named for run_id, named in name_scores(records).items()}


def _find_ending(span: Span | None) -> Ending | None:
    """How a run of a row ended; None as long as it has not."""
    if span is None or span.status in _GOES_ON:
        return None
    if span.status is SpanStatus.SKIPPED and span.reason == NOT_NEEDED:
        return Ending.SETTLED
    return _ENDINGS.get(span.status, Ending.INCOMPLETE)
