"""Scores that come after the end (V6, V8): of a result or an output, live or loaded, by scorers and by people.

No model is asked but a judge's own. A judge is then a run of its own, with a task for each run that it looks at, and
the scores name it. Nothing that has ended is changed: a new object comes back, and the store keeps the scores.
"""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self, TypeVar

from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, TaskNoun
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.outputs.score import Score, ScoreKind, ScoreRecord, ScoreValue
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.events.event_stream import SystemClock
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, ScoredRun
from ensemble_notebook.ensemble.many_runs.row_runs import make_run_ids, make_run_of_rows
from ensemble_notebook.ensemble.many_runs.scoring import (
    CheckedScorers,
    RowCalls,
    keep_later,
    make_subject,
    score_apart,
)
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import (
    EnsembleError,
    RunInterrupted,
    ScoringError,
    ValidationError,
    did_you_mean,
)
from ensemble_notebook.evaluation.scorer import AnyScorers, read_scorers
from ensemble_notebook.evaluation.scoring import Scoring, describe_score, find_useless, make_record

_AT_ONCE: Final = 10


class Scored(Protocol):
    """What can be scored: an `EnsembleOutput` or a `MapResult`."""

    @property
    def score_records(self) -> tuple[ScoreRecord, ...]: ...

    @property
    def shows_texts(self) -> bool:
        """Whether texts of it are kept."""

    def list_scored(self) -> Iterator[ScoredRun]:
        """The runs that it has, in order."""

    def with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same with more scores."""


S = TypeVar("S", bound=Scored)


def score_later(scored: S, score: AnyScorers, name: str | None, is_replacing: bool, expected: str | None) -> S:
    """Score what has ended.

    Args:
        scored: what is scored; it stays as it is.
        score: a scorer, a list of them, or a dict of them by name.
        name: of the score, where a single scorer was given; None: its own.
        is_replacing: whether scores of the same names are replaced.
        expected: the column of what a run should come to; None: the usual ones.

    Returns:
        A new object with the scores, which the store keeps, too.

    Raises:
        ValidationError: there is a mistake, scores of these names are there, or nothing has come to its end.
        ScoringError: a scorer failed for each run; has the new object as ``result``.
        RunInterrupted: it was stopped while judges were asked; has as ``output`` what was scored by then.
    """
    made: S = _Scoring(scored, _name(score, name), is_replacing=is_replacing, expected=expected).score()
    return made


def _name(score: AnyScorers, name: str | None) -> AnyScorers:
    if name is None:
        return score
    if isinstance(score, list | tuple | Mapping):
        raise ValidationError("name= is that of one scorer. Name several by a dict: score({'NAME': scorer, ...}).")
    return {name: score}


class _Scoring:
    """The scores that are added by one call."""

    def __init__(self, scored: Any, score: AnyScorers, *, is_replacing: bool, expected: str | None) -> None:
        self._scored = scored
        self._is_replacing = is_replacing
        scorers = read_scorers(score)
        if not scorers:
            raise ValidationError("score() takes a scorer, a list of them, or a dict of them by name; got None.")
        self._runs = [each for each in scored.list_scored() if make_subject(each.run, each.inputs, None) is not None]
        if not self._runs:
            raise ValidationError("No run has come to its end, so there is nothing to score.")
        columns = list(dict.fromkeys(name for each in self._runs for name in each.inputs))
        self._source = make_source(RunSettings())
        self._scorers = CheckedScorers(scorers, columns, expected, self._source)
        self._taken = {(each.run_id, each.name) for each in scored.score_records}
        self._refuse_taken(name for each in scorers for name in self._scorers.list_names(each))
        self._calls = RowCalls()
        self._scorings = {each.name: Scoring() for each in self._runs}
        self._judges_run: RunHandle | None = None

    def _refuse_taken(self, names: Iterable[str]) -> None:
        """Refuse names of scores that are there already.

        Raises:
            ValidationError: they are not to be replaced.
        """
        known = {name for _, name in self._taken}
        if not self._is_replacing and (again := next((each for each in names if each in known), None)):
            raise ValidationError(
                f"There are scores called {again!r} already. replace=True puts these in their place, and name='...' "
                f"gives these another name."
            )

    def score(self) -> Any:
        try:
            if self._scorers.has_judges:
                self._ask_judges()
            else:
                score_apart(self._score_all)
        except KeyboardInterrupt as interrupt:
            stopped = RunInterrupted("the scoring was interrupted; what was scored is kept.")
            if isinstance(interrupt, RunInterrupted):
                stopped = interrupt
            stopped.output = self._finish()
            raise stopped from None
        finally:
            self._calls.close()
        made = self._finish()
        self._check(made)
        return made

    async def _score_all(self) -> None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def score(each: ScoredRun) -> None:
            async with places:
                await self._score(each)

        await asyncio.gather(*map(score, self._runs))

    async def _score(self, run: ScoredRun) -> None:
        place = dict(run.place)
        if self._judges_run is not None:
            place["judge_run_id"] = self._judges_run.run_id
        scoring, keeps_texts = self._scorings[run.name], self._scored.shows_texts
        await self._scorers.score(
            self._scorers.all,
            run.run,
            run.inputs,
            place,
            self._calls,
            scoring,
            replaces=self._is_replacing,
            keeps_texts=keeps_texts,
        )

    def _ask_judges(self) -> None:
        """Have the judges run: one run, with a task for each run that they look at.

        Raises:
            RunInterrupted: it was stopped.
        """
        if loop_thread().is_current():
            raise EnsembleError("score() would block the loop that judges need; call it from a plain function.")
        runs = {each.name: each for each in self._runs}

        async def judge(given: TaskInput) -> str:
            await self._score(runs[given.name])
            return "; ".join(f"{each.name}: {describe_score(each)}" for each in self._scorings[given.name].records)

        row = Task(description="A run.", expected_output="What judges say of it.", handler=judge)
        tasks = [row.with_texts(name=name, description=escape_variables(f"Judge {name}")) for name in runs]
        first: Any = next(each.judge for each in self._scorers.all if each.judge is not None)
        names = ", ".join(each.name for each in self._scorers.all)
        outer = make_run_of_rows(first, tasks, error_strategy=ErrorStrategy.PARTIAL, concurrency=_AT_ONCE)
        ids = {each.place.get("map_run_id") or each.place["run_id"] for each in self._runs}
        mode = first.capture_mode if self._scored.shows_texts else CaptureMode.METADATA
        outer = replace(outer, name=f"{names} of {', '.join(sorted(ids))}", capture_mode=mode)
        settings = RunSettings()
        prepared = PreparedEnsemble(outer, settings, self._source, task_noun=TaskNoun.ROW)
        run_id = next(make_run_ids())
        handle = RunHandle(outer, prepared.make_spec({}), self._source, SystemClock(), run_id, settings)
        self._judges_run = handle
        try:
            handle.begin()
            handle.result()
        except KeyboardInterrupt:
            handle.interrupted()

    def _finish(self) -> Any:
        """The new object; the store has the scores by then."""
        records = [record for each in self._scorings.values() for record in each.records]
        if not self._is_replacing and (again := next((e for e in records if (e.run_id, e.name) in self._taken), None)):
            self._refuse_taken([again.name])
        keep_later(records)
        return self._scored.with_scores(records)

    def _check(self, made: Any) -> None:
        """See whether each scorer could say anything at all.

        Raises:
            ScoringError: one of them failed for each run.
        """
        useless = find_useless(record for each in self._scorings.values() for record in each.records)
        if useless is not None:
            name, reason, count = useless
            runs = "the only run" if count == 1 else f"each of {pluralize(count, 'run')}"
            told = f"The scorer {name} failed for {runs}: {reason.removesuffix('.')}."
            raise ScoringError(told, result=made) from (
                next((fault for each in self._scorings.values() for fault in each.faults.values()), None)
                if self._scored.shows_texts
                else None
            )


# --- Scores of people -------------------------------------------------------------------------------------------------


def annotate(
    scored: S,
    run: ScoredRun,
    value: ScoreValue,
    name: str,
    reason: str | None,
    span: Any,
    is_replacing: bool,
) -> S:
    """Add what a person says of a run, or of a span of it.

    Args:
        scored: what has the run; it stays as it is.
        run: one of its runs.
        value: a bool passes or fails it, a number scores, a text labels it.
        name: of the score.
        reason: why.
        span: the span that it is about, or its id; None: the run as a whole.
        is_replacing: whether it takes the place of earlier scores of its name.

    Returns:
        A new object with the score, which the store keeps, too.

    Raises:
        ValidationError: the value is no score, there is no such span, or a score of this name is there.
    """
    given: Any = name
    if not isinstance(given, str) or not given.strip():
        raise ValidationError(f"The name of a score must be text, got {given!r}.")
    try:
        score = Score(value, reason)
    except ValidationError as error:
        raise ValidationError(f"annotate takes a value that is a score: {error}.") from None
    if score.value is None:
        raise ValidationError("annotate takes True or False, a number or a text; got None.")
    span_id = None if span is None else _find_span(run.run, span)
    taken = {(each.run_id, each.span_id, each.name) for each in scored.score_records}
    if (run.place["run_id"], span_id, name) in taken and not is_replacing:
        raise ValidationError(
            f"There is a score called {name!r} of this already. replace=True puts this one in its place, and "
            f"name='...' gives it another name."
        )
    record = make_record(
        name,
        score,
        {**run.place, "kind": ScoreKind.HUMAN, "span_id": span_id, "author": _find_author(), "replaces": is_replacing},
        datetime.now(UTC),
    )
    keep_later([record])
    return scored.with_scores([record])


def _find_span(run: EnsembleOutput, span: Any) -> str:
    """The id of a span of a run.

    Raises:
        ValidationError: it has no such span.
    """
    span_id = getattr(span, "span_id", span)
    known = run.trace.fold.spans
    if not isinstance(span_id, str) or span_id not in known:
        raise ValidationError(f"The run has no span {span_id!r}.{did_you_mean(str(span_id), known)}")
    return span_id


def _find_author() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without users
        return None
