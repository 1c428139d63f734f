"""Scores one run by all its scorers (V3): what each gave, or why it gave nothing, as records.

Knows neither threads nor models: how a function is called and a judge is asked comes from whoever runs the rows.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from ensemble_notebook.domain.outputs.score import Score, ScoreKind, ScoreRecord
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import BudgetExceededError, StoreError, ValidationError, add_origin, summarize_error
from ensemble_notebook.evaluation.scored_runs import group_by_run
from ensemble_notebook.evaluation.scorer import Judgement, JudgeReader, Scorer, Subject
from ensemble_notebook.trace.store.run_store import RunStore

FIELD_MEANT: Final = "; it has several fields, so say which is meant: "
"""Stands in the reason of a ready-made scorer that compared a whole typed output, before the fields."""
_NOT_ASKED: Final = "not asked, since the budget is used up"
_log: Final = logging.getLogger("ensemble_notebook.run")


class ScorerCalls(Protocol):
    """How scorers are called where a run is scored."""

    async def call(self, scorer: Scorer, function: Callable[[], Any]) -> Any:
        """What the function of a scorer gives, awaited where it is async.

        Raises:
            Exception: what it raised.
        """

    async def ask(self, scorer: Scorer, subject: Subject) -> Judgement:
        """What a judge says.

        Raises:
            Exception: what ended its run.
        """


@dataclasses.dataclass(slots=True)
class Scoring:
    """What came of scoring one run.

    Attributes:
        records: of the scores, in the order of the scorers.
        faults: what scorers raised, by the name of the scorer.
        is_unpaid: whether the budget ended a judge.
    """

    records: list[ScoreRecord] = dataclasses.field(default_factory=list)
    faults: dict[str, Exception] = dataclasses.field(default_factory=dict)
    is_unpaid: bool = False


async def score_run(
    scorers: Sequence[Scorer],
    subject: Subject,
    place: Mapping[str, Any],
    calls: ScorerCalls,
    readers: Mapping[str, JudgeReader],
    scoring: Scoring,
    *,
    keeps_texts: bool = True,
) -> None:
    """Score one run. What a scorer raises is a record, and never ends anything.

    Args:
        scorers: one after the other.
        subject: the run.
        place: the fields of a record that say which run it is, and whether earlier scores are replaced.
        calls: how they are called.
        readers: of the judges, by the name of the scorer.
        scoring: gets what came of it, one scorer at a time, so that a stop leaves what was scored by then.
        keeps_texts: whether texts of errors may be kept.

    Raises:
        CancelledError: it was stopped.
    """
    for scorer in scorers:
        reader = readers.get(scorer.name)
        made = _Maker(scorer, place, reader, keeps_texts=keeps_texts)
        if reader is not None and scoring.is_unpaid:
            scoring.records += made.make_failed(_NOT_ASKED)
            continue
        try:
            if reader is None:
                given = await calls.call(scorer, scorer.bind(subject))
                records = [made.make(name, score) for name, score in scorer.read(given).items()]
            else:
                judgement = await calls.ask(scorer, subject)
                scores = reader.read(judgement.value).items()
                # The cost of one run of the judge stands with its first score, so that a plain sum is right.
                records = [made.make(*each, judgement, is_first=not at) for at, each in enumerate(scores)]
            taken = {each.name for each in scoring.records}
            if twice := next((each.name for each in records if each.name in taken), None):
                raise ValidationError(f"it gave a score {twice!r}, and so did another scorer")
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it is anybody's, and the run is none the worse for it (E59)
            scoring.is_unpaid = scoring.is_unpaid or (reader is not None and isinstance(error, BudgetExceededError))
            scoring.faults[scorer.name] = error
            scoring.records += made.make_failed(error)
        else:
            scoring.records += records


class _Maker:
    """Makes the records of one scorer for one run."""

    def __init__(
        self, scorer: Scorer, place: Mapping[str, Any], reader: JudgeReader | None, *, keeps_texts: bool
    ) -> None:
        self._names = [scorer.name] if reader is None else list(reader.names.values())
        self._keeps_texts = keeps_texts
        kind = ScoreKind.CODE if scorer.judge is None else ScoreKind.JUDGE
        self._facts = {**place, "kind": kind, "scorer": scorer.shown if keeps_texts else scorer.name}

    def make(
        self, name: str, score: Score, judgement: Judgement | None = None, *, is_first: bool = True
    ) -> ScoreRecord:
        """What was given."""
        facts: dict[str, Any] = {}
        if judgement is not None:
            cost = judgement.cost if is_first else None
            facts = {"model": judgement.model, "cost": cost, "scorer_version": judgement.version}
        return make_record(name, score, {**self._facts, **facts}, datetime.now(UTC))

    def make_failed(self, error: Exception | str) -> list[ScoreRecord]:
        """That nothing was given, and why."""
        if isinstance(error, str):
            told = error
        else:  # where no texts are kept, the type alone: the rest may quote the output (T6a)
            told = add_origin(summarize_error(error), error) if self._keeps_texts else type(error).__name__
        now = datetime.now(UTC)
        return [ScoreRecord(name=name, scored_at=now, error=mask(told), **self._facts) for name in self._names]


def make_record(name: str, score: Score, facts: Mapping[str, Any], scored_at: datetime) -> ScoreRecord:
    """The record of what was given, secrets masked.

    Args:
        name: of the score.
        score: what was given.
        facts: other fields of the record: by whom, and of which run.
        scored_at: UTC.
    """
    value = score.value
    given: dict[str, Any] = {}
    if isinstance(value, bool):
        given = {"passed": value, "value": float(value)}
    elif isinstance(value, str):
        given = {"label": mask(value)}
    elif value is not None:
        given = {"value": float(value)}
    reason = None if score.reason is None else mask(score.reason)
    return ScoreRecord(
        name=name, scored_at=scored_at, reason=reason, higher_is_better=score.higher_is_better, **given, **facts
    )


def describe_score(record: ScoreRecord) -> str:
    """What was given, in words: ``passed``, ``0.5``, ``warm``; why there is nothing, where there is not."""
    if record.error is not None:
        return f"no score: {record.error}"
    if record.passed is not None:
        told = "passed" if record.passed else "not passed"
    elif record.value is not None:
        told = f"{record.value:g}"
    else:
        told = "no opinion" if record.label is None else record.label
    return told if record.reason is None else f"{told} ({record.reason})"


def keep_scores(records: Iterable[ScoreRecord]) -> bool:
    """Add scores to the runs that they are of, in the configured store, after these have ended.

    Args:
        records: of runs of their own, or of rows of maps.

    Returns:
        Whether all are kept: False where there is no store, it can't be written, which is logged, or it does not have
        one of the runs.
    """
    store = RunStore.find()
    if store is None:
        return False
    try:
        kept = [store.add_scores(*each) for each in group_by_run(records, is_stored=True).items()]
    except StoreError as error:
        _log.warning("The scores are not stored: %s", error)
        return False
    return all(kept)


def list_score_warnings(records: Iterable[ScoreRecord]) -> Iterator[str]:
    """One warning for each scorer that failed, with a count and the place, or that could say nothing of any run.

    Args:
        records: the scores that count.
    """
    for name, same in _group(records).items():
        count = len({each.run_id for each in same})
        errors = {each.run_id: each.error for each in same if each.error is not None}
        if errors:
            which = f"{len(errors):,} of {pluralize(count, 'run')}" if count > 1 else "the only run"
            yield f"The scorer {name} failed for {which}: {next(iter(errors.values()))}"
        elif all(each.measure is None for each in same):
            which = f"any of {pluralize(count, 'run')}" if count > 1 else "the only run"
            yield f"The scorer {name} had no opinion of {which}."
        elif all(not each.passed and FIELD_MEANT in (each.reason or "") for each in same):
            meant = Counter(str(each.reason).partition(FIELD_MEANT)[2] for each in same).most_common(1)[0][0]
            outputs = pluralize(count, "typed output")
            yield f"The scorer {name} found none of {outputs} equal as a whole: say which field is meant, {meant}."


def find_useless(records: Iterable[ScoreRecord]) -> tuple[str, str] | None:
    """A scorer that failed for every run: its name, and a sentence that says so; None where there is no such scorer."""
    for name, same in _group(records).items():
        if all(each.error is not None for each in same):
            count = len({each.run_id for each in same})
            runs = "the only run" if count == 1 else f"each of {pluralize(count, 'run')}"
            return name, f"The scorer {name} failed for {runs}: {str(same[0].error).removesuffix('.')}."
    return None


def _group(records: Iterable[ScoreRecord]) -> Mapping[str, list[ScoreRecord]]:
    """The scores by whoever gave them; people never fail."""
    by_scorer: defaultdict[str, list[ScoreRecord]] = defaultdict(list)
    for each in records:
        if each.scorer is not None:
            by_scorer[each.scorer].append(each)
    return by_scorer
