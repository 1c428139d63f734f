"""The run of a map: an ordinary run with a task for each row, in which the run of that row is nested (E52, E72).

Thereby all rows share one budget account, one rate limit, one interrupt and one recording, and are together in trace,
timeline and store. The ensemble is checked once, and all rows are checked before the first one starts. `MapHandle` is
the map from the outside, with the methods of `RunHandle`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, ExitReason, RunStatus, TaskNoun
from ensemble_notebook.domain.definitions.review import NOBODY_HERE, ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.planning.ensemble_texts import has_handlers
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED, ONLY_ROW, SETTLED, MapDesign, PlannedRow
from ensemble_notebook.domain.planning.versions import join_versions
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.engine.review_queue import SharedReviewer
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.ensemble.earlier_runs.resuming import load_resumed_run
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.ensemble_tool import RowHandler
from ensemble_notebook.ensemble.many_runs.earlier_rows import (
    RowBefore,
    describe_done,
    find_answers_of,
    find_done,
    identify_rows,
    list_known_rows,
    list_rows_before,
    take_up,
)
from ensemble_notebook.ensemble.many_runs.early_end import EarlierMap, make_early_end
from ensemble_notebook.ensemble.many_runs.executor_rows import NOT_ELSEWHERE, ExecutorRows, pack_scorers
from ensemble_notebook.ensemble.many_runs.executors import Pool, find_pool
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments
from ensemble_notebook.ensemble.many_runs.row_pairs import PairedRun, RowPairings
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome, RunRow, make_run_ids, run_row_here
from ensemble_notebook.ensemble.many_runs.rows import (
    Row,
    Rows,
    attach_files,
    check_columns,
    describe_index,
    describe_row,
    name_runs,
    read_rows,
    to_kept_value,
)
from ensemble_notebook.ensemble.run_checks import find_judge_price_problems
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, ask_person_here, make_source
from ensemble_notebook.ensemble.run_settings import OF_RESUMED, RunSettings
from ensemble_notebook.ensemble.scoring import CheckedScorers, KeptScores, RowCalls, RunToScore, score_apart
from ensemble_notebook.errors import (
    EnsembleError,
    Problem,
    RunInterrupted,
    ScoringError,
    TaskExecutionError,
    ValidationError,
    add_origin,
    summarize_error,
)
from ensemble_notebook.evaluation.scorer import Scorer, Scoring, find_useless, keep_scores, list_score_warnings
from ensemble_notebook.trace.analysis.row_table import NO_FIELDS

_log = logging.getLogger("ensemble_notebook.run")

DEFAULT_CONCURRENCY: Final = 10
_ROWS_FOR_A_SLOT: Final = 2
"""One that runs, and one that waits beside it, so that no worker waits for us."""
_MOST_PROBLEMS: Final = 5
_NO_ROWS: Final = "There are no rows, so nothing was run."
_ROW: Final = "A row."
_ROW_ROLE: Final = "What came of this row."


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of an ensemble.

    Attributes:
        name: in the index of the result; None for the ensemble itself, when there are no variants.
        ensemble: with the changes applied.
        inputs: changed inputs. They hold for all rows, so the rows must not have columns of these names.
    """

    name: str | None
    ensemble: RunnableEnsemble
    inputs: Mapping[str, Any]


def start_map(
    ensemble: RunnableEnsemble,
    given: MapArguments,
    inputs: Mapping[str, Any] | None = None,
    variants: Sequence[Variant] = (),
    against: EarlierMap | None = None,
) -> MapHandle:
    """Prepare a map; `MapHandle._begin` begins it.

    Args:
        ensemble: what runs for each row.
        given: the rows, and how they are run; `only` and `reuse` apply in each row.
        inputs: inputs of all rows. They override the ensemble's, and a row's own values override them.
        variants: each row runs under each of these; none: under the ensemble as it is.
        against: a stored map that it is held to, where it ends early without variants.

    Raises:
        ValidationError, PromptTemplateError: there is a mistake; nothing was called.
    """
    for name, lost in () if given.map_settings.executor is None else NOT_ELSEWHERE.items():
        if getattr(given.settings, name):
            more = " To take over the rows of a result: resume=RESULT." if name == "resume" else ""
            raise ValidationError(f"{lost} Leave out executor= or {name}=.{more}")
    own = {"budget": given.map_settings.budget, "deps": given.settings.deps}
    changes: Any = {name: value for name, value in own.items() if value is not None}
    if changes:
        ensemble = ensemble.replace(**changes)
        variants = [replace(each, ensemble=each.ensemble.replace(**changes)) for each in variants]
    return _MapRun(ensemble, given, inputs or {}, variants, against).make_handle()


@dataclass(frozen=True, slots=True)
class _RowRun:
    """A row under one of the variants.

    Attributes:
        name: unique in the map.
    """

    name: str
    row: Row
    variant: _CheckedVariant
    repeat: int | None


class _CheckedVariant:
    """A variant, checked once, and what runs its rows."""

    def __init__(
        self,
        variant: Variant,
        inputs: Mapping[str, Any],
        settings: RunSettings,
        source: ChatSource,
        reviewer: ReviewHandler | None,
        pool: Pool | None,
    ) -> None:
        self.name, self.ensemble = variant.name, variant.ensemble
        self._variant = variant
        settings = replace(settings, review_handler=reviewer)
        self.prepared = PreparedEnsemble(variant.ensemble, settings, source)
        self.common = {**variant.ensemble.inputs, **inputs, **variant.inputs}
        self.run: RunRow = partial(run_row_here, variant.ensemble, self.prepared, settings, self.common)
        if pool is not None:
            self.run = ExecutorRows(variant.ensemble, self.prepared, self.common, pool).run
        self.has_handlers = has_handlers(variant.ensemble)
        self.variables = self.prepared.variables.keys()

    def find_problems(self, rows: Rows) -> Iterator[Problem]:
        """Check the values of rows.

        Raises:
            PromptTemplateError: columns are missing.
        """
        for name in self._variant.inputs:
            if name in rows.columns:
                yield Problem(f"{name!r} is changed by variant {self.name!r}, and given with the rows.")
        check_columns(rows, self.prepared.variables, self.common)
        for row in rows.rows:
            try:
                self.prepared.check_values({**self.common, **row.values})
            except ValidationError as error:
                yield from (Problem(f"{row.name}: {each.message}") for each in error.problems)

    def get_inputs(self, row: Row) -> Mapping[str, Any]:
        """What distinguishes this run from the others: the values of the row, and the variant's inputs."""
        return {**row.values, **self._variant.inputs} if self._variant.inputs else row.values

    def list_fields(self) -> Mapping[str, Any]:
        """The fields of the final task's typed output, with their JSON schemas; empty if it has no type."""
        graph, only = self.prepared.graph, self.prepared.only
        last = find_final_tasks(graph) if only is None else (only.task,)
        kind = graph.tasks[last[0]].task.output_type if len(last) == 1 else None
        return NO_FIELDS if kind is None else get_output_format(kind).schema.get("properties", NO_FIELDS)


class _MapRun:
    """One map while it is prepared and run, and its results."""

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        given: MapArguments,
        inputs: Mapping[str, Any],
        variants: Sequence[Variant],
        against: EarlierMap | None,
    ) -> None:
        rows, settings, map_settings = given
        settings = ask_person_here(settings)
        self._ensemble = ensemble
        self._settings = settings
        self._map_settings = map_settings
        self._source = make_source(settings)
        self._pool = None if map_settings.executor is None else find_pool(map_settings.executor)
        if (earlier := map_settings.resume) is not None and self._pool is None:
            run_id = find_answers_of(earlier, settings, ensemble.capture_mode)
            if run_id is not None:
                of_resumed = {name: getattr(map_settings, name) for name in OF_RESUMED}
                self._settings = settings = replace(settings, resume=run_id, **of_resumed)
        if map_settings.answers and settings.resume is None:
            raise ValidationError(
                "answers goes with a map that is kept here: what was asked in rows on an executor, and in a map that "
                "the store does not have, is not at hand. A row of this process is answered by itself: "
                "run(resume=result[ROW].output, answers=...)."
            )
        is_reusing = settings.reuse or settings.resume is not None
        cell = None if settings.origin is None else replace(settings.origin, variable=None)
        row_settings = RunSettings(
            reuse=is_reusing,
            only=settings.only,
            replay=settings.replay,
            streams=settings.streams,
            is_row=True,
            origin=cell,
        )
        own, here = ensemble.review_handler, settings.review_handler
        reviewer = SharedReviewer(own) if own is not None else None if self._pool is not None else here
        self._can_ask = reviewer is not None
        checked = [
            _CheckedVariant(each, inputs, row_settings, self._source, reviewer, self._pool)
            for each in variants or [Variant(None, ensemble, {})]
        ]
        self._checked = checked
        self._capture_mode = checked[0].prepared.capture_mode
        self._hides_rows = self._capture_mode is CaptureMode.METADATA
        read = rows if isinstance(rows, Rows) else read_rows(rows, hides_labels=self._hides_rows)
        self._rows = attach_files(read, map_settings.attach) if map_settings.attach else read
        problems = chain.from_iterable(each.find_problems(self._rows) for each in checked)
        if told := list(islice(problems, _MOST_PROBLEMS)):
            raise ValidationError(told)
        fields = checked[0].list_fields()
        self._input_names = tuple(
            dict.fromkeys((*self._rows.columns, *(name for each in variants for name in each.inputs)))
        )
        known = tuple(dict.fromkeys((*self._input_names, *(name for each in checked for name in each.common))))
        self._variant_names = [each.name for each in checked]
        self._scorers = CheckedScorers(
            map_settings.scorers,
            known,
            map_settings.expected,
            self._source,
            [name for each in self._variant_names if (name := self._tell_variant(each)) is not None],
            apart={name for each in variants for name in each.inputs},
        )
        self._identity = identify_rows(
            self._rows,
            checked,
            id_column=map_settings.id,
            expected=self._scorers.expected,
            hides_values=self._hides_rows,
        )
        if told := list(find_judge_price_problems(ensemble, map_settings.scorers)):
            raise ValidationError(told)
        self._calls = RowCalls()
        self._score_fault: Exception | None = None
        if self._pool is not None and self._scorers.functions:
            self._pool.scorers = pack_scorers(self._scorers.functions, self._scorers.expected)
        self._fields = fields if all(each.list_fields() == fields for each in checked) else {}
        self._runs = {  # each row under each variant, in the order in which they run
            name: _RowRun(name, row, checked[place], repeat)
            for name, place, row, repeat in name_runs(
                self._variant_names, self._rows, map_settings.repeat, hides_labels=self._hides_rows
            )
        }
        self._kept: dict[str, RowResult] = {}
        self._kept_scores: dict[str, KeptScores] = {}
        self._scored_before: list[ScoreRecord] = []
        self._known_rows = list_known_rows(self._rows, self._identity)
        self._pairs = RowPairings(
            self._scorers,
            (PairedRun(e.name, e.row.name, e.repeat, self._tell_variant(e.variant.name)) for e in self._runs.values()),
        )
        if map_settings.resume is not None:
            self._take_over(map_settings.resume)
        stored = None if against is None else against.pair(self._known_rows)
        variant_names = [each or "" for each in self._variant_names]
        self._early_end = make_early_end(map_settings, variant_names, self._runs, self._kept, self._scorers, stored)
        self._outcomes: dict[str, RowOutcome] = {}
        self._run_ids = make_run_ids()
        self._run: RunHandle | None = None
        self._before: Mapping[str, RowBefore] = {}

    def _take_over(self, resumed: MapResult) -> None:
        """Take over the rows that an earlier map has done, with the scores that still hold."""
        scored: dict[str, list[ScoreRecord]] = {}
        for kept, scores in find_done(self._runs.values(), self._known_rows, resumed, self._scorers.expected):
            self._kept[kept.name], scored[kept.name] = kept, scores
        pairs = self._pairs.take_over(scored)
        for name, scores in scored.items():
            kept = self._kept[name]
            found = self._scorers.select([each for each in scores if each.pair_of is None])
            self._kept_scores[name] = KeptScores(found.scorers, [*found.carried, *pairs[name]])
            if not self._is_to_judge(name):
                self._scored_before += (replace(each, row=kept.row or None, repeat=kept.repeat) for each in scores)

    def make_handle(self) -> MapHandle:
        """Make the handle; it has no run if there are no rows to run."""
        early_end = self._early_end
        to_run = [
            each
            for each in map(self._runs.__getitem__, self._runs if early_end is None else early_end.list_names())
            if each.name not in self._kept or self._is_to_judge(each.name)
        ]
        if not to_run:
            return MapHandle(None, self.make_result, self._ensemble.name)
        resumed = None if self._settings.resume is None else load_resumed_run(self._settings.resume)
        settings = replace(self._settings, reuse=False, only=None)
        resumed_from = None if resumed is None else resumed.run.run_id
        earlier = self._map_settings.resume
        gone_on_with = earlier or (None if resumed is None else resumed.trace)
        outer = self._make_outer(to_run)
        noun = TaskNoun.RUN
        if self._map_settings.repeat is None and self._variant_names == [None]:
            noun = TaskNoun.ROW
        elif self._map_settings.repeat is None and [each.name for each in self._rows.rows] == [ONLY_ROW]:
            noun = TaskNoun.VARIANT
        prepared = PreparedEnsemble(outer, settings, self._source, resumed_from, task_noun=noun)
        spec = prepared.make_spec({})
        if gone_on_with is not None:
            self._before = list_rows_before(self._runs.values(), self._known_rows, gone_on_with, spec.currency)
            redo, can_ask = self._map_settings.redo, self._can_ask
            resumed = take_up(resumed, earlier, self._before, self._kept, redo=redo, can_ask=can_ask)
        told: dict[str, Any] = {"design": self._make_design(), "row_plan": self._checked[0].prepared.bare_plan}
        spec = replace(
            spec,
            plan=replace(spec.plan, **told),
            bare_plan=None if spec.bare_plan is None else replace(spec.bare_plan, **told),
            is_reusing=self._settings.reuse or spec.is_reusing,
            warnings=(*spec.warnings, *self._checked[0].prepared.gate_warnings),
            versions=join_versions([each.prepared.versions for each in self._checked]),
            earlier=None if gone_on_with is None else gone_on_with.metrics.total,
        )
        self._run = RunHandle(outer, spec, self._source, next(self._run_ids), self._settings, resumed)
        return MapHandle(self._run, self.make_result, self._ensemble.name)

    def _is_to_judge(self, name: str) -> bool:
        """Whether a row was taken over, and a judge looks at it that has not done so before."""
        return name in self._pairs.to_judge or any(e.judge is not None for e in self._kept_scores[name].scorers)

    def _make_outer(self, to_run: Sequence[_RowRun]) -> RunnableEnsemble:
        """The ensemble whose tasks are the rows."""

        def run_row(given: TaskInput) -> Coroutine[Any, Any, str]:
            if self._early_end is not None and (reason := self._early_end.find_reason(given.name)) is not None:
                raise TaskAbandoned(reason, has_worked=False)
            if self._scored_before and self._run is not None:  # what functions say of them now comes at the end
                self._run._tell_scores(self._scored_before)
                self._scored_before = []
            outcome = self._outcomes[given.name] = RowOutcome(next(self._run_ids))
            return self._run_row(self._runs[given.name], outcome)

        handler = RowHandler(run_row, {name: each.variant.ensemble for name, each in self._runs.items()})
        row = Task(description=_ROW, expected_output=_ROW_ROLE, handler=handler)
        tasks = []
        for each in to_run:  # where views are to tell no text, what a row is about is not even written
            about = escape_variables(("" if self._hides_rows else describe_row(each.row)) or each.name)
            tasks.append(row.with_texts(name=each.name, description=about))
        concurrency = self._map_settings.concurrency
        if concurrency is None:
            slots = None if self._pool is None else self._pool.slots
            concurrency = DEFAULT_CONCURRENCY if slots is None else _ROWS_FOR_A_SLOT * slots
        if self._pool is not None:
            self._pool.most_rows = min(self._pool.slots or concurrency, concurrency, len(to_run))
        strategy = ErrorStrategy.PARTIAL if self._map_settings.on_error == "keep" else ErrorStrategy.FAIL_FAST
        return self._ensemble._with_rows(tasks, error_strategy=strategy, concurrency=concurrency)

    def _make_design(self) -> MapDesign:
        """What the trace keeps of the rows; where it is to keep no text, their names are their places."""
        rows = []
        for run in self._list_in_order():
            kept, before = self._kept.get(run.name), self._before.get(run.name)
            inputs = run.variant.get_inputs(run.row)
            planned = PlannedRow(
                name=run.name,
                row=run.row.name,
                label=None if self._hides_rows else to_kept_value(run.row.label),
                variant=self._tell_variant(run.variant.name),
                repeat=run.repeat,
                inputs={name: None if self._hides_rows else to_kept_value(value) for name, value in inputs.items()},
                before=None if kept is not None or before is None else before.spent,
                earlier=None if kept is None else describe_done(kept, self._map_settings.resume),
                id_digest=self._identity.digests.get(run.row.name),
            )
            rows.append(planned)
        return MapDesign(
            rows=tuple(rows),
            index=describe_index(self._rows.index),
            fields=self._fields,
            inputs=self._input_names,
            id=self._identity.id,
            read=self._identity.read,
            until_clear=None if self._early_end is None else self._early_end.asked,
        )

    def _list_in_order(self) -> list[_RowRun]:
        """All runs in the order of the result: the repeats of a row stand together."""
        runs, repeats = [*self._runs.values()], self._map_settings.repeat or 1
        once = len(runs) // repeats
        return [runs[row + once * repeat] for row in range(once) for repeat in range(repeats)]

    def _tell_variant(self, name: str | None) -> str | None:
        """The name of a variant as the trace keeps it."""
        return f"variant {self._variant_names.index(name)}" if self._hides_rows and name is not None else name

    async def _run_row(self, run: _RowRun, outcome: RowOutcome) -> str:
        """Run a row, and score it; its scores are stored with it, so that they outlast the process."""
        kept = self._kept.get(run.name)
        try:
            if kept is None:
                text = await run.variant.run(run.row, outcome)
                skipped = () if self._pool is None else self._scorers.functions
                scorers = [each for each in self._scorers.single if each not in skipped]
                await self._score(run, outcome, outcome.output, outcome.run_id, scorers)
            else:
                assert kept.run_id is not None
                text = kept.raw or ""
                await self._score(run, outcome, kept.output, kept.run_id, self._kept_scores[run.name].scorers)
            await self._judge_pairs(run, outcome)
            return text
        finally:
            if self._run is not None:
                self._run._keep_scores(outcome.scores)
            if self._early_end is not None and kept is None:
                self._early_end.add(run, outcome)

    async def _score(
        self, run: _RowRun, outcome: RowOutcome, output: EnsembleOutput | None, run_id: str, scorers: Sequence[Scorer]
    ) -> None:
        """Score a row that is done, in its own task; functions that were called elsewhere have given theirs by now."""
        place = self._make_place(run, run_id)
        outcome.scores[:] = [replace(each, **place) for each in outcome.scores]
        if output is None or not scorers:
            return
        scoring, inputs = Scoring(records=outcome.scores), {**run.variant.common, **run.row.values}
        place["replaces"] = run.name in self._kept
        scored = RunToScore(name=run.name, run=output, inputs=inputs, place=place, keeps_texts=not self._hides_rows)
        await self._scorers.score(scorers, scored, self._calls, scoring)
        self._note_faults(scoring)

    def _note_faults(self, scoring: Scoring) -> None:
        """Keep the first fault, and end the map where a judge could not be paid."""
        self._score_fault = self._score_fault or next(iter(scoring.faults.values()), None)
        parent = find_parent_run()
        if scoring.is_unpaid and parent is not None and parent.exit_early is not None:
            parent.exit_early(ExitReason.BUDGET_EXCEEDED, "the budget is used up")  # the row is done, its score missing

    async def _judge_pairs(self, run: _RowRun, outcome: RowOutcome) -> None:
        """Compare a run that is done with those of the other variants that are: whichever ends last pays."""
        if not (asked := self._pairs.add(run.name)):
            return
        scoring = Scoring(records=outcome.scores)
        for each in asked:
            first, second = (self._find_scored(self._runs[name]) for name in (each.first, each.second))
            await self._scorers.judge_pair(
                each.scorer, first, second, self._calls, scoring, seed=self._map_settings.seed
            )
        self._note_faults(scoring)

    def _find_scored(self, run: _RowRun) -> RunToScore:
        """A run that is done, for who compares it."""
        kept, inputs = self._kept.get(run.name), {**run.variant.common, **run.row.values}
        done = self._outcomes[run.name] if kept is None else kept
        place = {**self._make_place(run, done.run_id or ""), "replaces": kept is not None}
        return RunToScore(name=run.name, run=done.output, inputs=inputs, place=place, keeps_texts=not self._hides_rows)

    def _make_place(self, run: _RowRun, run_id: str) -> dict[str, Any]:
        """Where the scores of a row belong, as `MapResult._describe_place` says it."""
        variant = self._tell_variant(run.variant.name)
        resumed = self._map_settings.resume
        before = None if resumed is None or resumed._last_output is None else resumed._last_output.run_id
        map_run_id = before if self._run is None else self._run.run_id
        place = {"run_id": run_id, "map_run_id": map_run_id, "variant": variant}
        return {**place, "row": run.row.name or None, "repeat": run.repeat}

    def _score_kept(self) -> list[ScoreRecord]:
        """The scores of rows that were taken over: those that come along, and those of functions, which are free."""
        added: list[ScoreRecord] = []
        outcome = RowOutcome("")

        async def score_all() -> None:
            for name, kept in self._kept.items():
                run, scores = self._runs[name], self._kept_scores[name]
                if self._run is not None:
                    place = self._make_place(run, kept.run_id or "")
                    added.extend(replace(each, **place, id=uuid.uuid4().hex) for each in scores.carried)
                if name not in self._outcomes and kept.run_id is not None:
                    outcome.scores.clear()
                    await self._score(run, outcome, kept.output, kept.run_id, scores.scorers)
                    added.extend(outcome.scores)

        score_apart(score_all)
        carried = [] if self._run is not None else [each for s in self._kept_scores.values() for each in s.carried]
        keep_scores(added)
        return [*carried, *added]

    def make_result(self, output: EnsembleOutput | None) -> MapResult:
        """Make the result, complete or up to where the run has got."""
        reasons = {} if output is None else {each.name: each.reason for each in output.skipped}
        rows = [self._make_row_result(each, reasons) for each in self._list_in_order()]
        unanswered = sum(  # of a row that was reused, the events would have to be folded
            any(NOBODY_HERE in warning for warning in each.output.warnings) and not each.reused
            for each in rows
            if each.output is not None
        )
        warnings = [] if rows else [_NO_ROWS]
        if unanswered:
            which = f"{unanswered:,} of {pluralize(len(rows), 'row')}"
            warnings.append(f"A review or question was not answered in {which}: {NOBODY_HERE}.")
        scores = self._score_kept() if self._kept else []
        scores += [score for each in self._outcomes.values() for score in each.scores]
        self._calls.close()
        for warning in (*warnings, *list_score_warnings(scores)) if rows else ():
            _log.warning("%s", warning)
        result = MapResult(
            ensemble=self._ensemble,
            rows=rows,
            index=self._rows.index,
            output=output,
            fields=self._fields,
            warnings=warnings,
            capture_mode=self._capture_mode,
            input_names=self._input_names,
            earlier=None if (resumed := self._map_settings.resume) is None else resumed._last_output,
            score_records=scores,
            expected=self._scorers.expected,
            score_fault=self._score_fault,
            compare_fault=None if self._early_end is None else self._early_end.fault,
            identity=self._identity,
            until_clear=None if self._early_end is None else self._early_end.asked,
        )
        result._scorers = self._scorers.all
        if (note := result._describe_sameness()) is not None:
            _log.info("%s", note)
        return result

    def _make_row_result(self, run: _RowRun, reasons: Mapping[str, str]) -> RowResult:
        if (kept := self._kept.get(run.name)) is not None:
            return kept
        made = RowResult(
            index=run.row.label,
            variant=run.variant.name,
            inputs=run.variant.get_inputs(run.row),
            name=run.name,
            row=run.row.name,
            repeat=run.repeat,
        )
        if (out := self._outcomes.get(run.name)) is None:
            reason = reasons.get(run.name, "the map ended before its turn")
            return replace(made, reason=reason, status=SETTLED if reason == NOT_NEEDED else made.status)
        return replace(made, output=out.output, error=out.error, status=out.status.value, run_id=out.run_id)


MakeResult = Callable[[EnsembleOutput | None], MapResult]


class MapHandle:
    """A map that has been started. Thread-safe, and awaitable on any event loop.

    Args:
        run: the run of the map, with a task for each row; None if there are no rows to run.
        make_result: makes the result from the output of that run.
        name: of the ensemble; None if it has none.
    """

    def __init__(self, run: RunHandle | None, make_result: MakeResult, name: str | None) -> None:
        self.run = run
        self.name = name
        self._make_result = make_result
        self._result: MapResult | None = make_result(None) if run is None else None

    @property
    def run_id(self) -> str | None:
        """The id of the map; None if there are no rows to run."""
        return None if self.run is None else self.run.run_id

    @property
    def status(self) -> RunStatus:
        """The current status of the map."""
        return RunStatus.COMPLETED if self.run is None else self.run.status

    @property
    def is_done(self) -> bool:
        """Whether the map has ended, so that `result` does not wait."""
        return self.run is None or self.run.is_done

    @property
    def events(self) -> Sequence[Event]:
        """The events so far. Read only; grows while the map goes on."""
        return () if self.run is None else self.run.events

    @property
    def output(self) -> MapResult | None:
        """The result, once the map has ended, failed or been interrupted; None until then."""
        if self._result is None and self.run is not None and self.run.output is not None:
            self._result = self._make_result(self.run.output)
        return self._result

    @property
    def timeline(self) -> Any:
        """The timeline of the map, live while it goes on; that of its result from then on. None without rows."""
        return None if self.run is None else render_view("run_timeline", self.run, self)

    def _begin(self) -> None:
        """Start the map on the loop thread of the process."""
        if self.run is not None:
            self.run._begin()

    def _run_to_end(self) -> MapResult:
        """Begin, and wait for the end as `result` does. A `KeyboardInterrupt` of this thread stops the map.

        Raises:
            EnsembleError: this is the loop thread, which the map needs.
        """
        if loop_thread().is_current():
            raise EnsembleError("This would block the loop that it needs; call it from a plain function.")
        try:
            self._begin()
            return self.result()
        except KeyboardInterrupt:
            return self.interrupted()

    def cancel(self) -> None:
        """Stop the map; returns at once. Completed rows are kept. Does nothing after the end."""
        if self.run is not None:
            self.run.cancel()

    def result(self, timeout: float | None = None, *, while_waiting: Callable[[], object] | None = None) -> MapResult:
        """Wait for the end and return the result.

        Args:
            timeout: seconds to wait; the map goes on after that. None: no limit.
            while_waiting: called several times a second on this thread.

        Raises:
            TimeoutError: the map has not ended yet.
            TaskExecutionError: a row failed, under ``on_error="raise"``; has the partial result as ``output``.
            DeadlineExceededError, RunInterrupted: the map was stopped; likewise.
            ScoringError: the score function failed for each row.
        """
        if self.run is not None:
            try:
                self.run.result(timeout, while_waiting=while_waiting)
            except (EnsembleError, RunInterrupted) as error:
                raise self._explain(error) from error.__cause__
        return self._get_result()

    def interrupted(self) -> MapResult:
        """Stop the map after a `KeyboardInterrupt`, as `RunHandle.interrupted` does.

        Raises:
            RunInterrupted: always, with the partial result as ``output``.
        """
        if self.run is None:
            return self._get_result()
        try:
            self.run.interrupted()
        except RunInterrupted as error:
            raise self._explain(error) from None
        raise AssertionError("unreachable")

    def __await__(self) -> Generator[Any, None, MapResult]:
        """Wait for the result, on any loop."""
        if self.run is not None:
            try:
                yield from self.run.__await__()
            except (EnsembleError, RunInterrupted) as error:
                raise self._explain(error) from error.__cause__
        return self._get_result()

    def __repr__(self) -> str:
        """Id and status."""
        return f"<MapHandle {self.name or self.run_id}: {self.status.value}>"

    def _get_result(self) -> MapResult:
        """The result.

        Raises:
            ScoringError: the score function failed for each row.
        """
        result = self.output
        assert result is not None
        if (fault := vars(result).get("_compare_fault")) is not None:
            raise ScoringError(
                f"{fault} The runs until then are done and kept, in `result` of this error: resume=ERROR.result takes "
                "them over.",
                result=result,
            ) from fault
        useless = find_useless(result.score_records)
        if useless is None:
            return result
        name, told = useless
        raise ScoringError(
            f"{told} The runs are done and kept, in `result` of this error. Mend it, and score them without running "
            f"them again: ERROR.result.score({name}, replace=True).",
            result=result,
        ) from (vars(result).get("_score_fault") if result._shows_texts else None)

    def _explain(self, error: EnsembleError | RunInterrupted) -> EnsembleError | RunInterrupted:
        """The error in terms of rows, with the result as its ``output``."""
        result = self.output
        if result is None:  # it has not begun
            return error
        done = sum(each.is_done for each in result)
        made: EnsembleError | RunInterrupted = error
        if isinstance(error, RunInterrupted) and self.is_done:
            made = RunInterrupted(f"{done} of {len(result)} {'runs' if result.variants else 'rows'} are done and kept.")
        elif isinstance(error, TaskExecutionError) and result.failures:
            first = result.failures[0]
            cause = first.error
            assert cause is not None
            made = TaskExecutionError(
                f"Row {first.name!r} failed: {add_origin(summarize_error(cause), cause)}",
                task_description=getattr(cause, "task_description", error.task_description),
                agent_role=getattr(cause, "agent_role", error.agent_role),
                completed_task_outputs=error.completed_task_outputs,
            )
            made.__cause__ = cause
        made.output = result
        return made
