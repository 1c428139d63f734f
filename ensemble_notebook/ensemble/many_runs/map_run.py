"""The run of a map: an ordinary run with a task for each row, in which the run of that row is nested (E52, E72).

Thereby all rows share one budget account, one rate limit, one interrupt and one recording, and are together in trace,
timeline and store. The ensemble is checked once, and all rows are checked before the first one starts.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final, Literal

from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, ReviewPolicy, TaskNoun, Workflow
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.events.clock import SystemClock
from ensemble_notebook.engine.threads.collector_pace import collect_less_often
from ensemble_notebook.ensemble.earlier_runs.resuming import load_resumed_run
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_handle import MapHandle
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult, Score
from ensemble_notebook.ensemble.many_runs.pools import Pool, find_pool
from ensemble_notebook.ensemble.many_runs.row_runs import LocalRows, ReviewLine, RowOutcome, RowRunner, make_run_ids
from ensemble_notebook.ensemble.many_runs.rows import Row, Rows, check_columns, read_rows
from ensemble_notebook.ensemble.many_runs.run_names import describe_row, name_runs
from ensemble_notebook.ensemble.many_runs.variant import Variant
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, make_source
from ensemble_notebook.ensemble.run_settings import Resumable, RunSettings
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.trace.analysis.row_table import NO_FIELDS

OnError = Literal["keep", "raise"]

DEFAULT_CONCURRENCY: Final = 10
_ROWS_FOR_A_SLOT: Final = 2
"""One that runs, and one that waits beside it, so that no worker waits for us."""
_MOST_PROBLEMS: Final = 5
_NO_ROWS: Final = "There are no rows, so nothing was run."
_ROW: Final = "A row."
_ROW_ROLE: Final = "What came of this row."


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """How the rows are run.

    Attributes:
        on_error: ``"keep"``: a failed row is a value in the result; ``"raise"``: the first failed row ends the map.
        concurrency: the most rows at the same time; None: 10, or twice the slots of the executor.
        resume: an earlier result whose completed rows are taken over; None: none.
        score: ``(output) -> float | dict``, called for each completed row; None: no score.
        executor: a `concurrent.futures` executor or a Dask client; None: this process.

    Raises:
        ValidationError: a field has a wrong value.
    """

    on_error: OnError = "keep"
    concurrency: int | None = None
    resume: MapResult | None = None
    score: Score | None = None
    executor: Any = None

    def __post_init__(self) -> None:
        """Check what a person may have got wrong."""
        if self.on_error not in ("keep", "raise"):
            raise ValidationError(f"on_error must be 'keep' or 'raise', got {self.on_error!r}.")
        is_count = isinstance(self.concurrency, int) and not isinstance(self.concurrency, bool)
        if self.concurrency is not None and not (is_count and self.concurrency >= 1):
            raise ValidationError(f"concurrency must be a whole number >= 1 or None, got {self.concurrency!r}.")
        if self.score is not None and not callable(self.score):
            raise ValidationError(f"score must be a function (output) -> float | dict, got {self.score!r}.")


def make_settings(
    resume: MapResult | Resumable,
    *,
    on_error: OnError = "keep",
    concurrency: int | None = None,
    executor: Any = None,
    score: Score | None = None,
    **fields: Any,
) -> tuple[RunSettings, MapSettings]:
    """Split the arguments of a map into the settings of its run and those of its rows.

    `resume` is either a result, whose rows are taken over, or an earlier run, as in `RunSettings`.

    Raises:
        ValidationError: an argument has a wrong value.
    """
    earlier, run = (resume, None) if isinstance(resume, MapResult) else (None, resume)
    map_settings = MapSettings(
        on_error=on_error, concurrency=concurrency, resume=earlier, score=score, executor=executor
    )
    return RunSettings(resume=run, **fields), map_settings


def start_map(
    ensemble: RunnableEnsemble,
    rows: Any,
    settings: RunSettings,
    map_settings: MapSettings,
    inputs: Mapping[str, Any] | None = None,
    variants: Sequence[Variant] = (),
) -> MapHandle:
    """Prepare a map; `MapHandle.begin` begins it.

    Args:
        ensemble: what runs for each row.
        rows: a DataFrame, or mappings.
        settings: of the map as a whole; `only` and `reuse` apply in each row.
        map_settings: how the rows are run.
        inputs: inputs of all rows. They override the ensemble's, and a row's own values override them.
        variants: each row runs under each of these; none: under the ensemble as it is.

    Raises:
        ValidationError, PromptTemplateError: there is a mistake; nothing was called.
    """
    return _MapRun(ensemble, rows, settings, map_settings, inputs or {}, variants).make_handle()


@dataclass(frozen=True, slots=True)
class _RowRun:
    """A row under one of the variants.

    Attributes:
        name: unique in the map.
    """

    name: str
    row: Row
    variant: _CheckedVariant


class _CheckedVariant:
    """A variant, checked once, and the runner for its rows."""

    def __init__(
        self,
        variant: Variant,
        inputs: Mapping[str, Any],
        settings: RunSettings,
        source: ChatSource,
        reviews: ReviewLine,
        pool: Pool | None,
    ) -> None:
        self.name = variant.name
        self._variant = variant
        reviewer = variant.ensemble.review_handler or settings.review_handler
        if reviewer is not None:
            settings = replace(settings, review_handler=reviews.queue(reviewer))
        self.prepared = PreparedEnsemble(variant.ensemble, settings, source)
        self._common = {**variant.ensemble.inputs, **inputs, **variant.inputs}
        self.runner = self._make_runner(settings, pool)

    def _make_runner(self, settings: RunSettings, pool: Pool | None) -> RowRunner:
        if pool is None:
            return LocalRows(self._variant.ensemble, self.prepared, settings, self._common)
        from ensemble_notebook.ensemble.many_runs.executor_rows import ExecutorRows  # most maps need no pickles

        return ExecutorRows(self._variant.ensemble, self.prepared, self._common, pool)

    def find_problems(self, rows: Rows) -> Iterator[Problem]:
        """Check the values of rows.

        Raises:
            PromptTemplateError: columns are missing.
        """
        for name in self._variant.inputs:
            if name in rows.columns:
                yield Problem(f"{name!r} is changed by variant {self.name!r}, and given with the rows.")
        check_columns(rows, self.prepared.used_texts, self._common)
        for row in rows.rows:
            try:
                self.prepared.check_values({**self._common, **row.values})
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
        rows: Any,
        settings: RunSettings,
        map_settings: MapSettings,
        inputs: Mapping[str, Any],
        variants: Sequence[Variant],
    ) -> None:
        self._ensemble = ensemble
        self._settings = settings
        self._map_settings = map_settings
        self._source = make_source(settings)
        self._pool = None if map_settings.executor is None else find_pool(map_settings.executor)
        if self._pool is not None:
            _refuse_settings(settings)
        is_reusing = settings.reuse or settings.resume is not None
        row_settings = RunSettings(
            reuse=is_reusing,
            only=settings.only,
            replay=settings.replay,
            review_handler=settings.review_handler,
            is_row=True,
        )
        reviews = ReviewLine()
        checked = [
            _CheckedVariant(each, inputs, row_settings, self._source, reviews, self._pool)
            for each in variants or [Variant(None, ensemble, {})]
        ]
        self._has_variants = bool(variants)
        self._capture_mode = checked[0].prepared.capture_mode
        self._hides_rows = self._capture_mode is CaptureMode.METADATA
        self._rows = rows if isinstance(rows, Rows) else read_rows(rows, hides_labels=self._hides_rows)
        problems = chain.from_iterable(each.find_problems(self._rows) for each in checked)
        if told := list(islice(problems, _MOST_PROBLEMS)):
            raise ValidationError(told)
        fields = checked[0].list_fields()
        self._fields = fields if all(each.list_fields() == fields for each in checked) else {}
        self._runs = {each.name: each for each in _list_runs(checked, self._rows, hides_labels=self._hides_rows)}
        self._kept = _find_kept(self._runs.values(), map_settings.resume)
        self._outcomes: dict[str, RowOutcome] = {}
        self._run_ids = make_run_ids()

    def make_handle(self) -> MapHandle:
        """Make the handle; it has no run if there are no rows to run."""
        to_run = [each for each in self._runs.values() if each.name not in self._kept]
        if not to_run:
            return MapHandle(None, self.make_result, self._ensemble.name)
        resumed = None if self._settings.resume is None else load_resumed_run(self._settings.resume)
        settings = replace(self._settings, reuse=False, only=None)
        resumed_from = None if resumed is None else resumed.run.run_id
        with collect_less_often(len(to_run)):
            outer = self._make_outer(to_run)
            prepared = PreparedEnsemble(outer, settings, self._source, resumed_from, task_noun=self._task_noun)
            spec = prepared.make_spec({})
            spec = replace(spec, is_reusing=self._settings.reuse or spec.is_reusing)
            run = RunHandle(outer, spec, self._source, SystemClock(), next(self._run_ids), self._settings, resumed)
        return MapHandle(run, self.make_result, self._ensemble.name)

    @property
    def _task_noun(self) -> TaskNoun:
        if not self._has_variants:
            return TaskNoun.ROW
        return TaskNoun.VARIANT if self._rows.is_nameless else TaskNoun.RUN

    @property
    def _concurrency(self) -> int:
        if self._map_settings.concurrency is not None:
            return self._map_settings.concurrency
        return DEFAULT_CONCURRENCY if self._pool is None else _ROWS_FOR_A_SLOT * self._pool.slots

    def _make_outer(self, to_run: Sequence[_RowRun]) -> RunnableEnsemble:
        """The ensemble whose tasks are the rows."""

        def run_row(given: TaskInput) -> Coroutine[Any, Any, str]:
            outcome = self._outcomes[given.name] = RowOutcome(next(self._run_ids))
            each = self._runs[given.name]
            return each.variant.runner.run(each.row, outcome)

        row = Task(description=_ROW, expected_output=_ROW_ROLE, handler=run_row)
        tasks = [row.with_texts(name=each.name, description=self._describe(each)) for each in to_run]
        return replace(
            self._ensemble,
            tasks=tasks,
            phases=(),
            agents=(),
            llm=None,
            workflow=Workflow.PARALLEL,
            error_strategy=ErrorStrategy.PARTIAL if self._map_settings.on_error == "keep" else ErrorStrategy.FAIL_FAST,
            max_concurrency=self._concurrency,
            manager_llm=None,
            manager_prompt=None,
            hierarchical_constraints=None,
            delegation_policies=(),
            rate_limit=None,
            memory=None,
            review_handler=None,
            review_policy=ReviewPolicy.NEVER,
            inputs={},
        )

    def _describe(self, run: _RowRun) -> str:
        """What a row is about, for views; where they are to tell no text, it is not even written (T6a)."""
        return escape_variables(("" if self._hides_rows else describe_row(run.row)) or run.name)

    def make_result(self, output: EnsembleOutput | None) -> MapResult:
        """Make the result, complete or up to where the run has got."""
        reasons = {} if output is None else {each.name: each.reason for each in output.skipped}
        return MapResult(
            ensemble=self._ensemble,
            rows=[self._make_row_result(each, reasons) for each in self._runs.values()],
            index=self._rows.index,
            output=output,
            fields=self._fields,
            warnings=() if self._rows.rows else (_NO_ROWS,),
            capture_mode=self._capture_mode,
            score=self._map_settings.score,
        )

    def _make_row_result(self, run: _RowRun, reasons: Mapping[str, str]) -> RowResult:
        if (kept := self._kept.get(run.name)) is not None:
            return kept
        facts: dict[str, Any] = {
            "index": run.row.label,
            "variant": run.variant.name,
            "inputs": run.variant.get_inputs(run.row),
            "name": run.name,
        }
        outcome = self._outcomes.get(run.name)
        if outcome is None:
            return RowResult(**facts, reason=reasons.get(run.name, "the map ended before its turn"))
        return RowResult(
            **facts, output=outcome.output, error=outcome.error, status=outcome.status.value, run_id=outcome.run_id
        )


def _refuse_settings(settings: RunSettings) -> None:
    """Refuse settings that need the exchanges of the rows in this process.

    Raises:
        ValidationError: names the first of them.
    """
    for name in ("record", "replay", "reuse", "resume"):
        if getattr(settings, name):
            more = " To take over the rows of a result: resume=RESULT." if name == "resume" else ""
            raise ValidationError(f"{name} needs the rows in this process: leave out executor= or {name}=.{more}")


def _list_runs(variants: Sequence[_CheckedVariant], rows: Rows, *, hides_labels: bool) -> Iterator[_RowRun]:
    """Each row under each variant, in order."""
    names = [each.name for each in variants]
    for name, place, row in name_runs(names, rows, hides_labels=hides_labels):
        yield _RowRun(name, row, variants[place])


def _find_kept(runs: Iterable[_RowRun], resumed: MapResult | None) -> dict[str, RowResult]:
    """The completed rows of an earlier result that have the same label and values, by name."""
    if resumed is None:
        return {}
    done = {each.name: each for each in resumed if each.is_done}
    found = ((run, done.get(run.name)) for run in runs)
    return {
        run.name: replace(result, spending=resumed.get_spending(result))
        for run, result in found
        if result is not None and _is_same(run.variant.get_inputs(run.row), result.inputs)
    }


def _is_same(values: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    try:
        return bool(dict(values) == dict(others))
    except Exception:  # noqa: BLE001 - tables and arrays give no plain answer, and objects are anybody's
        return False
