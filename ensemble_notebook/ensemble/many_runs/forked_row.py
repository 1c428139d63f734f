"""A map again in which one row forks: that row alone runs, is scored and judged anew (F2)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, RunStatus, TaskNoun
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.planning.delegation import build_team_graph
from ensemble_notebook.domain.planning.map_design import MapDesign
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkArguments, read_fork
from ensemble_notebook.ensemble.earlier_runs.fork_origin import find_origin
from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun, fork_run
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.earlier_rows import describe_done
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome, run_row_here
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, ask_person_here, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings, merge_inputs
from ensemble_notebook.ensemble.scoring import CheckedScorers, RowCalls, RunToScore
from ensemble_notebook.evaluation.scorer import Scorer, Scoring, keep_scores, read_scorers
from ensemble_notebook.trace.analysis.map_rows import get_design

if TYPE_CHECKING:
    from ensemble_notebook.evaluation.scorer import AnyScorers

_ROW: Final = Task(description="A row.", expected_output="What came of this row.", handler=str)


def start_row_fork(
    ensemble: RunnableEnsemble,
    result: MapResult,
    row: RowResult,
    span: Any,
    *,
    score: AnyScorers | None = None,
    expected: str | None = None,
    **given: Any,
) -> MapHandle:
    """Prepare the map; `MapHandle._begin` begins it.

    Args:
        ensemble: what the row runs.
        result: the map.
        row: of it, which has run.
        span: of the row's run, or its id.
        score: what scores it; None: what has scored the rows of the result.
        expected: as of a map; None: as it was.
        **given: what is different, and settings, as of `Ensemble.fork`.

    Raises:
        ValidationError, StoreError: there is a mistake; nothing was called.
    """
    return _RowFork(result, row, read_fork(row.output, span, **given), ensemble, score, expected).make_handle()


class _RowFork:
    """The map while it is prepared and run, and its result."""

    def __init__(
        self,
        result: MapResult,
        row: RowResult,
        given: ForkArguments,
        ensemble: RunnableEnsemble,
        score: AnyScorers | None,
        expected: str | None,
    ) -> None:
        self._result = result
        self._row = row
        self._ensemble = ensemble
        origin = find_origin(given.run)
        self._forked: ForkedRun = fork_run(
            origin, given.span, given.change, build_team_graph(ensemble), asked_in=row.name
        )
        settings = ask_person_here(given.of_run.settings)
        place = ForkPlace(origin.known_as, self._forked.span.span_id, given.change.names)
        self._settings: RunSettings = replace(settings, forked_from=place, only=None, deps=None)
        self._source = make_source(settings)
        inputs = self._forked.merge_inputs(given.of_run.inputs, given.of_run.variables)
        self._values = merge_inputs(ensemble, inputs, given.of_run.variables)
        self._row_settings = RunSettings(
            only=settings.only,
            deps=self._forked.choose_deps(settings.deps, ensemble.deps),
            review_handler=ensemble.review_handler or settings.review_handler,
            forked_from=place,
            is_row=True,
        )
        self._prepared = PreparedEnsemble(ensemble, self._row_settings, self._source)
        self._prepared.check_values(self._values)
        scorers: Sequence[Scorer] = result._scorers if score is None else read_scorers(score)
        known = tuple(dict.fromkeys((*result.input_names, *self._values)))
        self._scorers = CheckedScorers(scorers, known, expected or result._expected, self._source)
        self._calls = RowCalls()
        self._outcome = RowOutcome(uuid.uuid4().hex[:12])
        self._fault: Exception | None = None
        self._run: RunHandle | None = None

    def make_handle(self) -> MapHandle:
        """The handle of the map, which has not begun."""
        row = _ROW.with_texts(name=self._row.name, description=escape_variables(self._row.name))
        row = replace(row, handler=self._run_row)
        outer = self._ensemble._with_rows([row], error_strategy=ErrorStrategy.PARTIAL, concurrency=1)
        last = self._result._last_output
        assert last is not None
        noun = last.trace._fold.task_noun
        noun = noun if noun.is_run else TaskNoun.ROW
        spec = PreparedEnsemble(outer, self._settings, self._source, task_noun=noun).make_spec({})
        told: dict[str, Any] = {"design": self._make_design(), "row_plan": self._prepared.bare_plan}
        spec = replace(
            spec,
            plan=replace(spec.plan, **told),
            bare_plan=None if spec.bare_plan is None else replace(spec.bare_plan, **told),
            warnings=(*spec.warnings, *self._prepared.gate_warnings, *self._list_warnings()),
            versions=self._prepared.versions,
        )
        self._run = RunHandle(outer, spec, self._source, uuid.uuid4().hex[:12], self._settings)
        return MapHandle(self._run, self._make_result, self._ensemble.name)

    def _list_warnings(self) -> Sequence[str]:
        """What has scored the row before, and does not now."""
        now = {name for each in self._scorers.all for name in (each.shown, *self._scorers.list_names(each))}
        before = {each.name for each in self._result.score_records if each.run_id == self._row.run_id}
        if not (lost := sorted(before - now)):
            return ()
        names = ", ".join(lost)
        told = f"Row {self._row.name!r} is not scored anew by {names}: what gave these scores is not known here."
        return (f"{told} Name it with score=, or score the result.",)

    def _make_design(self) -> MapDesign:
        last = self._result._last_output
        assert last is not None
        design = get_design(last.trace._fold)
        rows = {each.name: each for each in self._result.rows}
        return replace(
            design,
            rows=tuple(
                replace(
                    each,
                    before=None,
                    earlier=None if each.name == self._row.name else self._describe_kept(rows[each.name]),
                )
                for each in design.rows
            ),
        )

    def _describe_kept(self, row: RowResult) -> Any:
        spent = self._result._get_spending(row)
        return describe_done(replace(row, _spending=spent), self._result)

    async def _run_row(self, _: TaskInput) -> str:
        outcome, row = self._outcome, Row(self._row.index, self._row.name, {})
        try:
            text = await run_row_here(
                self._ensemble, self._prepared, self._row_settings, self._values, row, outcome, self._forked
            )
            if outcome.output is not None and self._scorers.all:
                scored = RunToScore(
                    name=self._row.name, run=outcome.output, inputs=self._values, place=self._place(outcome.run_id)
                )
                scoring = Scoring(records=outcome.scores)
                await self._scorers.score(self._scorers.all, scored, self._calls, scoring)
                self._fault = next(iter(scoring.faults.values()), None)
            return text
        finally:
            if self._run is not None:
                self._run._keep_scores(outcome.scores)

    def _place(self, run_id: str | None) -> Mapping[str, Any]:
        assert self._run is not None
        place = self._result._describe_place(self._row)
        return {**place, "run_id": run_id, "map_run_id": self._run.run_id}

    def _carry_scores(self) -> list[ScoreRecord]:
        """The scores of the other rows, as those of this map."""
        assert self._run is not None
        own = self._row.run_id
        kept = [each for each in self._result.score_records if each.run_id != own]
        carried = [replace(each, map_run_id=self._run.run_id, id=uuid.uuid4().hex) for each in kept]
        keep_scores(carried)
        return carried

    def _make_result(self, output: Any) -> MapResult:
        result, outcome = self._result, self._outcome
        has_begun = output is not None and outcome.status is not RunStatus.RUNNING
        forked = replace(
            self._row,
            output=outcome.output,
            error=outcome.error,
            status=outcome.status.value if has_begun else "skipped",
            reason="" if has_begun else next((each.reason for each in output.skipped), "the map ended before its turn"),
            run_id=outcome.run_id if has_begun else None,
            _spending=None,
        )
        rows = [
            forked if each is self._row or each.name == self._row.name else self._keep(each) for each in result.rows
        ]
        self._calls.close()
        made = MapResult(
            ensemble=result.ensemble if result.ensemble._can_run else self._ensemble,
            rows=rows,
            index=result._index,
            output=output,
            fields=result._fields,
            capture_mode=result._capture_mode,
            input_names=result.input_names,
            earlier=result._last_output,
            score_records=[*self._carry_scores(), *outcome.scores],
            expected=self._scorers.expected,
            score_fault=self._fault,
            identity=result._identity,
        )
        made._scorers = self._scorers.all
        return made

    def _keep(self, row: RowResult) -> RowResult:
        return row if row.run_id is None else replace(row, _spending=self._result._get_spending(row))
