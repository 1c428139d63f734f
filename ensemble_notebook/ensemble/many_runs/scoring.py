"""Scorers where runs are scored (V3, V7): checked before anything is paid, called in the task of a row, or later."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.nested_ensemble import find_final_output
from ensemble_notebook.domain.events import ScoreEnded, ScoreStarted
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import has_handlers
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.events.nested_events import CallingSpan, find_calling_span
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.earlier_runs.remembering import keep_scores
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import Problem, RunInterrupted, StoreError, ValidationError
from ensemble_notebook.evaluation.judge import Judgement, JudgeReader, fill_inputs, find_lacking_inputs, make_reader
from ensemble_notebook.evaluation.scorer import Scorer, Subject, find_expected_column, find_lacking_columns
from ensemble_notebook.evaluation.scoring import Scoring, score_run
from ensemble_notebook.trace.spans.span_kinds import SpanKind

_NO_BUDGET: Final = "the budget is used up"
_DONE: Final = frozenset({RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS, RunStatus.EXITED_EARLY})
_log: Final = logging.getLogger("ensemble_notebook.run")


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

    Attributes:
        all: the scorers. functions: those that are no judges.
        expected: the column of what a row should come to; None where there is none.

    Raises:
        ValidationError: a judge can't judge, or a scorer needs what the rows don't have; says all of it.
    """

    def __init__(
        self, scorers: Sequence[Scorer], columns: Sequence[str], expected: str | None, source: ChatSource
    ) -> None:
        self.expected = find_expected_column(columns, expected)
        self.all = tuple(scorers)
        self.functions = [each for each in scorers if each.judge is None]
        self._judges: dict[str, _CheckedJudge] = {}
        self._readers: dict[str, JudgeReader] = {}
        problems = [*find_lacking_columns(self.functions, columns, self.expected)]
        for each in scorers:
            if each.judge is not None:
                problems += self._check_judge(each, columns, source)
        if problems:
            raise ValidationError(problems)

    def _check_judge(self, scorer: Scorer, columns: Sequence[str], source: ChatSource) -> Iterator[Problem]:
        prepared = PreparedEnsemble(scorer.judge, RunSettings(), source)
        reader = read_judge(scorer, prepared.graph)
        if isinstance(reader, Problem):
            yield reader
        else:
            self._readers[scorer.name] = reader
        yield from find_lacking_inputs(scorer.judge, prepared.variables, columns, self.expected)
        self._judges[scorer.name] = _CheckedJudge(scorer.judge, prepared.variables, prepared.versions.definition)

    @property
    def has_judges(self) -> bool:
        """Whether any of them asks models."""
        return bool(self._judges)

    def list_names(self, scorer: Scorer) -> list[str]:
        """The names of what a scorer gives, as far as they are known before it does."""
        reader = self._readers.get(scorer.name)
        return [scorer.name] if reader is None else list(reader.names.values())

    def select(self, earlier: Sequence[ScoreRecord]) -> KeptScores:
        """What is left to do for a run that was scored before: all functions, and judges that have not judged it.

        Args:
            earlier: the scores of that run.
        """
        scorers = [each for each in self.all if not self._has_judged(each, earlier)]
        names = {name for each in scorers for name in (each.shown, *self.list_names(each))}
        kept = [each for each in earlier if each.error is None and not {each.name, each.scorer} & names]
        return KeptScores(scorers, kept)

    def _has_judged(self, scorer: Scorer, earlier: Sequence[ScoreRecord]) -> bool:
        """Whether this judge, with the prompts and models that it has now, has judged a run."""
        judge = self._judges.get(scorer.name)
        if judge is None:
            return False
        known = {each.name for each in earlier if each.error is None and each.scorer_version == judge.version}
        return known.issuperset(self.list_names(scorer))

    async def score(
        self,
        scorers: Sequence[Scorer],
        run: EnsembleOutput,
        inputs: Mapping[str, Any],
        place: Mapping[str, Any],
        calls: RowCalls,
        scoring: Scoring,
        *,
        replaces: bool = False,
        keeps_texts: bool = True,
    ) -> None:
        """Score a run by some of the scorers; as `score_run`.

        Args:
            scorers: some of these.
            run: that is scored. One that is not done, or has put out nothing, is not scored.
            inputs: the row's columns, and the ensemble's inputs.
            place: the fields of a record that say which run it is.
            calls: how they are called.
            scoring: gets what came of it.
            replaces: whether the scores take the place of earlier ones.
            keeps_texts: whether texts of errors may be kept.
        """
        subject = make_subject(run, inputs, self.expected)
        if subject is not None:
            calls.judges = self._judges
            readers = self._readers
            await score_run(
                scorers, subject, place, calls, readers, scoring, keeps_texts=keeps_texts, replaces=replaces
            )


def read_judge(scorer: Scorer, graph: Graph) -> JudgeReader | Problem:
    """How the typed output of a judge is read, by its graph; what is wrong with it, where it can't be."""
    last = find_final_tasks(graph)
    kind = graph.tasks[last[0]].task.output_type if len(last) == 1 else None
    return make_reader(scorer.name, scorer.judge, None if kind is None else get_output_format(kind).schema)


def make_subject(run: EnsembleOutput, inputs: Mapping[str, Any], expected: str | None) -> Subject | None:
    """What is scored of a run; None where it is not done, or has put out nothing.

    Args:
        run: complete or partial.
        inputs: the row's columns, and the ensemble's inputs.
        expected: the column of what it should come to; None where there is none.
    """
    output = run.get_final_output()
    if output is None or run.status not in _DONE or run.exit_reason is ExitReason.NOBODY_TO_ASK:
        return None
    return Subject(output=output, inputs=inputs, expected=None if expected is None else inputs.get(expected), run=run)


class RowCalls:
    """Calls scorers on the loop of a map, in the task of the row: sync ones on threads, judges as nested runs.

    What may take long, or begin runs of its own, has a span in the trace: a judge, and a function of the user.

    Attributes:
        judges: that can be asked, by the name of the scorer.
    """

    def __init__(self) -> None:
        self.judges: Mapping[str, _CheckedJudge] = {}
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
            try:
                output: EnsembleOutput = await self._caller.call(f"judge {scorer.shown}", judge.ensemble.arun, values)
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


def end_unpaid() -> None:
    """The budget has ended a judge: the map ends for it, with the row done and its score missing."""
    parent = find_parent_run()
    if parent is not None and parent.exit_early is not None:
        parent.exit_early(ExitReason.BUDGET_EXCEEDED, _NO_BUDGET)


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


def keep_later(records: Sequence[ScoreRecord]) -> None:
    """Have the store keep scores that came after the end; where it can't, that is said."""
    if not records:
        return
    try:
        keep_scores(records)
    except StoreError as error:
        _log.warning("The scores are not stored: %s", error)


def copy_to(record: ScoreRecord, place: Mapping[str, Any]) -> ScoreRecord:
    """A score of a row that another map has taken over, as one of that map."""
    return replace(record, **place, id=uuid.uuid4().hex)
