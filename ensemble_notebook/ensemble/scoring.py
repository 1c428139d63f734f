"""Scorers where runs are scored (V3, V6-V8): checked before anything is paid, called in the task of a row, or later.

``score()`` of an output and of a result is here, too. No model is asked but a judge's own: later, a judge is a run of
its own, with a task for each run that it looks at, and the scores name it. Nothing that has ended is changed: a new
object comes back, and the store keeps the scores.
"""

from __future__ import annotations

import asyncio
import getpass
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from random import Random
from typing import Any, Final, Self

from ensemble_notebook.domain.definitions.enums import DONE, CaptureMode, ErrorStrategy, ExitReason, SpanStatus
from ensemble_notebook.domain.definitions.nested_ensemble import find_final_output
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import SourcedInput, TaskInput
from ensemble_notebook.domain.events import ScoreEnded, ScoreStarted
from ensemble_notebook.domain.outputs.score import Score, ScoreKind, ScoreRecord, ScoreValue
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import has_handlers
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.value_text import is_equal
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.events.nested_events import CallingSpan, find_calling_span
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import EnsembleError, Problem, RunInterrupted, ScoringError, ValidationError, did_you_mean
from ensemble_notebook.evaluation.pairs import (
    PairQuestion,
    PairReader,
    Sides,
    fill_pair,
    make_pair_reader,
    name_pair,
)
from ensemble_notebook.evaluation.scored_runs import shorten_names
from ensemble_notebook.evaluation.scorer import (
    AnyScorers,
    Judgement,
    JudgeReader,
    Scorer,
    Scoring,
    Subject,
    describe_score,
    fill_inputs,
    find_expected_column,
    find_lacking_columns,
    find_lacking_inputs,
    find_useless,
    keep_scores,
    make_reader,
    make_record,
    read_scorers,
    score_run,
)
from ensemble_notebook.trace.spans.span_kinds import SpanKind

_AT_ONCE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToScore:
    """A run that can be scored.

    Attributes:
        name: of its task, where a judge looks at it.
        run: its `EnsembleOutput`. One that is not done, or has put out nothing, is not scored.
        inputs: its columns, and the ensemble's inputs.
        place: which run it is, as fields of a `ScoreRecord`.
        keeps_texts: whether texts of errors may be kept.
    """

    name: str
    run: Any
    inputs: Mapping[str, Any]
    place: Mapping[str, Any]
    keeps_texts: bool = True


def pair_runs(runs: Iterable[RunToScore]) -> list[tuple[RunToScore, RunToScore]]:
    """Each two runs of the same row of a map, and the same repeat, under two variants."""
    groups: dict[tuple[Any, ...], list[RunToScore]] = {}
    for each in runs:
        if each.place.get("variant") is not None:
            key = tuple(each.place.get(name) for name in ("map_run_id", "row", "repeat"))
            groups.setdefault(key, []).append(each)
    return [pair for group in groups.values() for pair in combinations(group, 2)]


def find_apart(pairs: Iterable[tuple[RunToScore, RunToScore]]) -> set[str]:
    """The inputs that are not the same in two runs of a row."""
    return {name for a, b in pairs for name in a.inputs if not is_equal(a.inputs[name], b.inputs.get(name))}


class Scorable(ABC):
    """What can be scored after the end: the output of a run, the result of a map, and runs that were loaded."""

    _expected: str | None = None
    """The column of what a run should come to, where that was said before."""

    _scorers: Sequence[Scorer] = ()
    """What has given its scores, as long as that is known."""

    @property
    @abstractmethod
    def score_records(self) -> tuple[ScoreRecord, ...]:
        """The scores that count, in the order in which they were given."""

    @property
    @abstractmethod
    def _shows_texts(self) -> bool:
        """Whether views of it may show texts."""

    def _list_variants(self) -> Sequence[str]:
        """The variants that its runs are of, in order and as scores keep them, as far as it knows them."""
        return ()

    @abstractmethod
    def _list_scored(self) -> Iterator[RunToScore]:
        """The runs that ended well, for whoever scores them. Not for users."""

    @abstractmethod
    def _with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same with more scores; this one stays as it is. Keeps them nowhere else.

        Args:
            records: of these runs.
        """

    def score(
        self, score: AnyScorers, name: str | None = None, *, replace: bool = False, expected: str | None = None
    ) -> Self:
        """Score the runs that are done, without asking any model but a judge's own.

        This one stays as it is. The store keeps the scores of the runs that it has. ::

            scored = output.score(scorers.calls_at_most(3))
            load_traces(name="support").score(scorers.no_errors()).scores

        Args:
            score: a scorer, a list of them, or a dict of them by name, as for `Ensemble.map`.
            name: of the score, where one scorer is given; None: its own name.
            replace: whether scores of the same names are replaced.
            expected: the column or input that says what the output should come to; None: ``expected``, ``target`` or
                ``expected_output``.

        Returns:
            The same with the scores.

        Raises:
            ValidationError: there is a mistake, no run is done, or there are scores of this name; nothing was called.
            ScoringError: a scorer failed for each run; has the scored object as ``result``.
            RunInterrupted: it was stopped while a judge was asked; has as ``output`` what was scored by then.
        """
        scored: Self = self._prepare_scores(score, name, is_replacing=replace, expected=expected).score()
        return scored

    def _prepare_scores(
        self,
        score: AnyScorers,
        name: str | None = None,
        *,
        is_replacing: bool,
        expected: str | None = None,
        runs: Iterable[RunToScore] | None = None,
    ) -> LaterScores:
        """What `score` does, before it does it; of some of the runs alone, where they are given.

        Raises:
            ValidationError: as `score`.
        """
        if name is not None:
            if isinstance(score, list | tuple | Mapping):
                raise ValidationError(
                    "name= is that of one scorer. Name several by a dict: score({'NAME': scorer, ...})."
                )
            score = {name: score}
        return LaterScores(self, score, expected or self._expected, is_replacing=is_replacing, runs=runs)

    def _annotate(
        self,
        runs: Sequence[RunToScore],
        value: ScoreValue,
        name: str,
        reason: str | None,
        span: Any,
        *,
        is_replacing: bool,
        time: Sequence[float] | None = None,
    ) -> Self:
        """The same with what a person says of some of these runs, of a span of one, or of a time.

        Raises:
            ValidationError: the value is no score, there is no such span or time, or a score of this name is there.
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
        there = {(each.run_id, each.span_id, each.from_ms, each.to_ms, each.name) for each in self.score_records}
        author = None
        with suppress(OSError, KeyError, ImportError):  # a container without users
            author = getpass.getuser()
        made = []
        for run in runs:
            span_id, known = getattr(span, "span_id", span), run.run.trace._fold.spans
            if span is not None and (not isinstance(span_id, str) or span_id not in known):
                raise ValidationError(f"The run has no span {span_id!r}.{did_you_mean(str(span_id), known)}")
            from_ms, to_ms = (None, None) if time is None else _read_time(time, run.run.total_duration)
            if time is not None and span is not None:
                raise ValidationError("A score is of a span or of a time: leave out span= or range=.")
            if (run.place["run_id"], span_id, from_ms, to_ms, name) in there and not is_replacing:
                raise ValidationError(
                    f"There is a score called {name!r} of this already. replace=True puts this one in its place, and "
                    f"name='...' gives it another name."
                )
            facts = {**run.place, "kind": ScoreKind.HUMAN, "span_id": span_id, "author": author}
            facts |= {"replaces": is_replacing, "from_ms": from_ms, "to_ms": to_ms}
            made.append(make_record(name, score, facts, datetime.now(UTC)))
        keep_scores(made)
        return self._with_scores(made)


def _read_time(given: Any, whole: timedelta) -> tuple[float, float]:
    """A time of a run, in milliseconds since its start.

    Raises:
        ValidationError: it is none, or not of this run.
    """
    whole_ms = whole.total_seconds() * 1000
    try:
        from_ms, to_ms = map(float, given)
    except (TypeError, ValueError):
        raise ValidationError(f"range= takes (from_ms, to_ms), as timeline.range gives it; got {given!r}.") from None
    if not 0 <= from_ms < to_ms or from_ms > whole_ms:
        raise ValidationError(f"range= must be a time of the run, from 0 to {whole_ms:.0f} ms; got {given!r}.")
    return from_ms, to_ms


class LaterScores:
    """The scores that are added by one call of `Scorable.score`.

    Args:
        scored: what is scored.
        score: by whom.
        expected: the column of what a run should come to.
        is_replacing: whether earlier scores of the same names are replaced.
        runs: that are looked at; None: all.

    Attributes:
        hear: is told the scores of each run as they come, on the loop of the scorers.
        scorings: what came of it, by the name of the run.
    """

    def __init__(
        self,
        scored: Scorable,
        score: AnyScorers,
        expected: str | None,
        *,
        is_replacing: bool,
        runs: Iterable[RunToScore] | None = None,
    ) -> None:
        self.hear: Callable[[Sequence[ScoreRecord]], object] = len
        self._handle: Any = None
        self._scored = scored
        self._is_replacing = is_replacing
        scorers = read_scorers(score)
        if not scorers:
            raise ValidationError("score() takes a scorer, a list of them, or a dict of them by name; got None.")
        runs = scored._list_scored() if runs is None else runs
        self._runs = [each for each in runs if make_subject(each.run, each.inputs, None) is not None]
        if not self._runs:
            raise ValidationError("No run has come to its end, so there is nothing to score.")
        columns = list(dict.fromkeys(name for each in self._runs for name in each.inputs))
        self._source = make_source(RunSettings())
        pairs = pair_runs(self._runs) if any(each.is_pair for each in scorers) else []
        paired = dict.fromkeys(each.place["variant"] for pair in pairs for each in pair)
        variants = [*dict.fromkeys((*(scored._list_variants() if pairs else ()), *paired))]
        self._scorers = CheckedScorers(scorers, columns, expected, self._source, variants, find_apart(pairs))
        self._units: dict[str, tuple[RunToScore, ...]] = {}
        if self._scorers.single:
            self._units |= {each.name: (each,) for each in self._runs}
        self._units |= {f"{a.name} | {b.name}": (a, b) for a, b in pairs}
        own = {each.place["run_id"] for each in self._runs}
        self._taken = {(each.run_id, each.name) for each in scored.score_records if each.run_id in own}
        self._refuse_taken(name for each in scorers for name in self._scorers.list_names(each))
        self._calls = RowCalls()
        self.scorings = {name: Scoring() for name in self._units}
        self._judges_run_id: str | None = None

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

    def stop(self) -> None:
        """Ask no judge any more, from whatever thread; what is scored by then is kept."""
        if self._handle is not None:
            self._handle.cancel()

    def score(self) -> Any:
        """The same with the scores. Errors as of `Scorable.score`."""
        try:
            self.run()
        except RunInterrupted as stopped:
            stopped.output = self._finish()
            raise
        made = self._finish()
        useless = find_useless(record for each in self.scorings.values() for record in each.records)
        if useless is not None:
            faults = (fault for each in self.scorings.values() for fault in each.faults.values())
            raise ScoringError(useless[1], result=made) from (next(faults, None) if self._scored._shows_texts else None)
        return made

    @property
    def looks_at_run(self) -> bool:
        """Whether a scorer looks at the run, and not at its output alone."""
        return any(
            each.judge is None and {"run", "*"} & {*each.positional, *each.keywords} for each in self._scorers.all
        )

    def run(self) -> None:
        """Have the runs scored; what came of it is in `scorings`, and kept nowhere else.

        Raises:
            RunInterrupted: it was stopped.
        """

        async def score_all() -> None:
            places = asyncio.Semaphore(_AT_ONCE)

            async def score(name: str) -> None:
                async with places:
                    await self._score(name)

            await asyncio.gather(*map(score, self._units))

        try:
            if len(self._scorers.functions) < len(self._scorers.all):  # some are judges, which ask models
                self._ask_judges()
            else:
                score_apart(score_all)
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, RunInterrupted):
                raise
            raise RunInterrupted("the scoring was interrupted; what was scored is kept.") from None
        finally:
            self._calls.close()

    async def _score(self, name: str) -> None:
        given = {"replaces": self._is_replacing, "judge_run_id": self._judges_run_id}
        keeps_texts, scoring = self._scored._shows_texts, self.scorings[name]
        runs = [replace(each, place={**each.place, **given}, keeps_texts=keeps_texts) for each in self._units[name]]
        if len(runs) == 1:
            await self._scorers.score(self._scorers.single, runs[0], self._calls, scoring)
        else:
            for each in self._scorers.pairs:
                await self._scorers.judge_pair(each, runs[0], runs[1], self._calls, scoring)
        self.hear(scoring.records)

    def _ask_judges(self) -> None:
        """Have the judges run: one run, with a task for each run that they look at.

        Raises:
            RunInterrupted: it was stopped.
        """
        if loop_thread().is_current():
            raise EnsembleError("score() would block the loop that judges need; call it from a plain function.")

        async def judge(given: TaskInput) -> str:
            await self._score(given.name)
            return "; ".join(f"{each.name}: {describe_score(each)}" for each in self.scorings[given.name].records)

        row = Task(description="A run.", expected_output="What judges say of it.", handler=judge)
        tasks = [row.with_texts(name=name, description=escape_variables(f"Judge {name}")) for name in self._units]
        first: Any = next(each.judge for each in self._scorers.all if each.judge is not None)
        names = ", ".join(each.name for each in self._scorers.all)
        ids = {each.place.get("map_run_id") or each.place["run_id"] for each in self._runs}
        outer: Any = first._with_rows(tasks, error_strategy=ErrorStrategy.PARTIAL, concurrency=_AT_ONCE).replace(
            name=f"{names} of {', '.join(sorted(ids))}",
            capture_mode=first.capture_mode if self._scored._shows_texts else CaptureMode.METADATA,
        )
        handle = self._handle = outer._prepare_rows(self._source)
        self._judges_run_id = handle.run_id
        try:
            handle._begin()
            handle.result()
        except KeyboardInterrupt:
            handle.interrupted()

    def _finish(self) -> Any:
        """The new object; the store has the scores by then."""
        records = [record for each in self.scorings.values() for record in each.records]
        if not self._is_replacing and (again := next((e for e in records if (e.run_id, e.name) in self._taken), None)):
            self._refuse_taken([again.name])
        keep_scores(records)
        made = self._scored._with_scores(records)
        names = {each.name for each in self._scorers.all}
        vars(made)["_scorers"] = (*(each for each in made._scorers if each.name not in names), *self._scorers.all)
        return made


@dataclass(frozen=True, slots=True)
class _CheckedJudge:
    """A judge that can run, the names that its texts use, and the version of its definition."""

    ensemble: Any
    variables: Mapping[str, str]
    version: str


@dataclass(frozen=True, slots=True)
class KeptScores:
    """What becomes of the scores of a row that is taken over from an earlier map.

    Attributes:
        scorers: that are still to look at it.
        carried: scores that come along.
    """

    scorers: Sequence[Scorer]
    carried: Sequence[ScoreRecord]


class CheckedScorers:
    """The scorers of a map, or of a result, checked before anything is paid.

    Args:
        scorers: that were read.
        columns: of the rows, and inputs that hold for all of them.
        expected: the column of what a row should come to, where the person has named one.
        source: of the judges' models.
        variants: their names, as scores keep them.
        apart: the columns and inputs that variants change.

    Attributes:
        all: the scorers. functions: those that are no judges. single: those that look at one run. pairs: judges of
            two.
        expected: the column of what a row should come to; None where there is none.
        variants: their names, as scores keep them.

    Raises:
        ValidationError: a judge can't judge, or a scorer needs what the rows don't have; says all of it.
    """

    def __init__(
        self,
        scorers: Sequence[Scorer],
        columns: Sequence[str],
        expected: str | None,
        source: ChatSource,
        variants: Sequence[str] = (),
        apart: Collection[str] = (),
    ) -> None:
        self.expected = find_expected_column(columns, expected)
        self.all = tuple(scorers)
        self.functions = [each for each in scorers if each.judge is None]
        self.single = [each for each in scorers if not each.is_pair]
        self.pairs = [each for each in scorers if each.is_pair]
        self.variants = tuple(variants)
        self._titles = dict(zip(variants, shorten_names(variants), strict=True))
        self._apart = apart
        self._judges: dict[str, _CheckedJudge] = {}
        self._readers: dict[str, JudgeReader] = {}
        self._pair_readers: dict[str, PairReader] = {}
        problems = [*find_lacking_columns(self.functions, columns, self.expected)]
        problems += map(refuse_lone_pair, self.pairs if len(self.variants) < 2 else ())
        for each in scorers:
            if each.judge is None:
                continue
            prepared = PreparedEnsemble(each.judge, RunSettings(), source)
            reader = read_judge(each, prepared.graph)
            if isinstance(reader, Problem):
                problems.append(reader)
            elif isinstance(reader, PairReader):
                self._pair_readers[each.name] = reader
            else:
                self._readers[each.name] = reader
            problems += find_lacking_inputs(each, prepared.variables, columns, self.expected, apart)
            self._judges[each.name] = _CheckedJudge(each.judge, prepared.variables, prepared.versions.definition)
        if problems:
            raise ValidationError(problems)

    def list_names(self, scorer: Scorer) -> list[str]:
        """The names of what a scorer gives, as far as they are known before it does."""
        if scorer.is_pair:
            return [self.name_pair(scorer, *each) for each in combinations(self.variants, 2)]
        reader = self._readers.get(scorer.name)
        return [scorer.name] if reader is None else list(reader.names.values())

    def name_pair(self, scorer: Scorer, first: str, second: str) -> str:
        """What the score of two variants is called; the one that stands before the other comes first."""
        first, second = sorted((first, second), key=self.variants.index)
        return name_pair(scorer.name, self._titles[first], self._titles[second])

    def find_pair_scorer(self, record: ScoreRecord) -> Scorer | None:
        """The judge of pairs that has given this score, with the prompts and models that it has now."""
        for each in self.pairs:
            is_same = record.scorer_version == self._judges[each.name].version
            if record.pair_of == each.name and record.error is None and is_same:
                return each
        return None

    def select(self, earlier: Sequence[ScoreRecord]) -> KeptScores:
        """What is left to do for a run that was scored before: all functions, and judges that have not judged it.

        Args:
            earlier: the scores of that run, but for those of pairs.
        """

        def has_judged(scorer: Scorer) -> bool:  # with the prompts and models that the judge has now
            if (judge := self._judges.get(scorer.name)) is None:
                return False
            known = {each.name for each in earlier if each.error is None and each.scorer_version == judge.version}
            return known.issuperset(self.list_names(scorer))

        scorers = [each for each in self.single if not has_judged(each)]
        names = {name for each in scorers for name in (each.shown, *self.list_names(each))}
        kept = [each for each in earlier if each.error is None and not {each.name, each.scorer} & names]
        return KeptScores(scorers, kept)

    async def score(self, scorers: Sequence[Scorer], scored: RunToScore, calls: RowCalls, scoring: Scoring) -> None:
        """Score a run by some of the scorers; as `score_run`.

        Args:
            scorers: some of these.
            scored: the run.
            calls: how they are called.
            scoring: gets what came of it.
        """
        subject = make_subject(scored.run, scored.inputs, self.expected)
        if subject is not None:
            calls.judges = self._judges
            await score_run(
                scorers, subject, scored.place, calls, self._readers, scoring, keeps_texts=scored.keeps_texts
            )

    async def judge_pair(
        self, scorer: Scorer, first: RunToScore, second: RunToScore, calls: RowCalls, scoring: Scoring, seed: int = 0
    ) -> None:
        """Have a judge of pairs say which of two runs of a row is the better one, asked both ways round.

        Args:
            scorer: the judge, one of these.
            first: the run of the variant that stands before the other.
            second: of the other variant.
            calls: how the judge is asked.
            scoring: gets what came of it.
            seed: of which way round is asked first.
        """
        sides = [make_subject(each.run, each.inputs, self.expected) for each in (first, second)]
        if sides[0] is None or sides[1] is None:
            return
        calls.judges, calls.apart = self._judges, self._apart
        name = self.name_pair(scorer, first.place["variant"], second.place["variant"])
        drawn = Random(f"{seed} {name} {first.place['row']} {first.place['repeat']}")  # whatever ends first
        question = PairQuestion(
            scorer=scorer,
            reader=self._pair_readers[scorer.name],
            name=name,
            sides=(sides[0], sides[1]),
            places=(first.place, second.place),
            is_turned_first=drawn.random() < 0.5,
            keeps_texts=first.keeps_texts,
        )
        await question.ask(calls, scoring)


def read_judge(scorer: Scorer, graph: Graph) -> JudgeReader | PairReader | Problem:
    """How the typed output of a judge is read, by its graph; what is wrong with it, where it can't be."""
    last = find_final_tasks(graph)
    kind = graph.tasks[last[0]].task.output_type if len(last) == 1 else None
    schema = None if kind is None else get_output_format(kind).schema
    return make_pair_reader(scorer.judge, schema) if scorer.is_pair else make_reader(scorer.name, scorer.judge, schema)


def refuse_lone_pair(scorer: Scorer) -> Problem:
    """That a judge of pairs has nothing to compare."""
    return Problem(
        f"The judge {scorer.shown} compares two variants, and there is nothing to compare: run "
        "variants(...).map(rows), or judge each reply by itself, without pair=True."
    )


def make_subject(run: Any, inputs: Mapping[str, Any], expected: str | None) -> Subject | None:
    """What is scored of a run; None where it is not done, or has put out nothing.

    Args:
        run: an `EnsembleOutput`, complete or partial.
        inputs: the row's columns, and the ensemble's inputs.
        expected: the column of what it should come to; None where there is none.
    """
    output = run.get_final_output()
    if output is None or run.status not in DONE or run.exit_reason is ExitReason.NOBODY_TO_ASK:
        return None
    if (journal := getattr(run, "_journal", None)) is not None:  # what was to be read, as it was read
        sourced = [name for name, each in inputs.items() if isinstance(each, SourcedInput)]
        inputs = {**inputs, **{name: journal.inputs[name] for name in sourced if name in journal.inputs}}
    return Subject(output=output, inputs=inputs, expected=None if expected is None else inputs.get(expected), run=run)


class RowCalls:
    """Calls scorers on the loop of a map, in the task of the row: sync ones on threads, judges as nested runs.

    What may take long, or begin runs of its own, has a span in the trace: a judge, and a function of the user.

    Attributes:
        judges: that can be asked, by the name of the scorer.
        apart: the inputs that variants change, which no judge of two hears.
    """

    def __init__(self) -> None:
        self.judges: Mapping[str, _CheckedJudge] = {}
        self.apart: Collection[str] = ()
        self._caller = FunctionCaller()

    def close(self) -> None:
        """Let go of the threads."""
        self._caller.close()

    async def call(self, scorer: Scorer, function: Callable[[], Any]) -> Any:
        """As `ScorerCalls.call`."""
        label = f"scorer {scorer.name}"
        if scorer.is_ready_made:
            return await self._caller.call(label, function)
        with _score_span(scorer.name):
            return await self._caller.call(label, function)

    async def ask(self, scorer: Scorer, subject: Subject) -> Judgement:
        """As `ScorerCalls.ask`."""
        judge = self.judges[scorer.name]
        values = fill_inputs(judge.ensemble, judge.variables, subject, has_handlers=has_handlers(judge.ensemble))
        with _score_span(scorer.name):
            return await self._run_judge(scorer, values)

    async def ask_pair(self, scorer: Scorer, name: str, orders: Sequence[Sides]) -> Sequence[Judgement]:
        """As `PairCalls.ask_pair`."""
        judge = self.judges[scorer.name]
        sees_all = has_handlers(judge.ensemble)
        with _score_span(name):
            return [
                await self._run_judge(
                    scorer, fill_pair(judge.ensemble, judge.variables, sides, self.apart, has_handlers=sees_all)
                )
                for sides in orders
            ]

    async def _run_judge(self, scorer: Scorer, values: Mapping[str, Any]) -> Judgement:
        judge = self.judges[scorer.name]
        try:
            output: Any = await self._caller.call(f"judge {scorer.shown}", judge.ensemble.arun, values)
        except RunInterrupted as stopped:
            raise asyncio.CancelledError from stopped
        final: TaskOutput = find_final_output(output, f"The judge {scorer.shown}")
        calls = (each for each in output.trace.spans if each.kind is SpanKind.LLM)
        models = dict.fromkeys(name for each in calls if (name := each.model or each.model_requested))
        return Judgement(
            value=final.parsed_output,
            model=", ".join(models) or None,
            cost=output.metrics.cost if output.metrics.llm_call_count else None,
            version=judge.version,
        )


@contextmanager
def _score_span(name: str) -> Iterator[None]:
    """The span of a scorer inside the task of its row; none where nothing runs around it."""
    place = find_calling_span()
    if place is None:
        yield
        return
    span = place.span.child()
    span.emit(ScoreStarted, name=name)
    try:
        with CallingSpan(span):
            yield
    except asyncio.CancelledError:
        span.emit(ScoreEnded, status=SpanStatus.CANCELLED)
        raise
    except BaseException as error:
        span.emit(ScoreEnded, status=SpanStatus.ERROR, error=error)
        raise
    span.emit(ScoreEnded, status=SpanStatus.OK)


def score_apart(score: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Call scorers after the end of a run, on a loop and a thread of their own: the caller's loop may be at work."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(score())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            raised.append(error)

    thread = threading.Thread(target=work, name="ensemble-score", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
