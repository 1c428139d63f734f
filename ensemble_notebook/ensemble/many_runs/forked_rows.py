"""A map again in which some rows fork: they alone run, are scored and judged anew (F2)."""

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
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkArguments, read_fork
from ensemble_notebook.ensemble.earlier_runs.fork_origin import find_origin
from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun, fork_run
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.earlier_rows import describe_done
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
from ensemble_notebook.ensemble.many_runs.row_pairs import PairedRun, RowPairings
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome, run_row_here
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, ask_person_here, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings, merge_inputs
from ensemble_notebook.ensemble.scoring import CheckedScorers, RowCalls, RunToScore, find_apart, pair_runs
from ensemble_notebook.evaluation.scored_runs import group_by_run
from ensemble_notebook.evaluation.scorer import Scorer, Scoring, keep_scores, read_scorers
from ensemble_notebook.trace.analysis.map_rows import get_design

if TYPE_CHECKING:
    from ensemble_notebook.evaluation.scorer import AnyScorers

_AT_ONCE: Final = 10
_ROW: Final = Task(description="A row.", expected_output="What came of this row.", handler=str)


def start_row_forks(
    result: MapResult,
    rows: Sequence[tuple[RowResult, RunnableEnsemble]],
    span: Any,
    *,
    score: AnyScorers | None = None,
    expected: str | None = None,
    **given: Any,
) -> MapHandle:
    """Prepare the map; `MapHandle._begin` begins it.

    Args:
        result: the map.
        rows: of it, which have run, each with what it runs.
        span: of the row's run, or its id, or the name of a task.
        score: what scores them; None: what has scored the rows of the result.
        expected: as of a map; None: as it was.
        **given: what is different, and settings, as of `Ensemble.fork`.

    Raises:
        ValidationError, StoreError: there is a mistake; nothing was called.
    """
    return _ForkedMap(result, rows, span, score, expected, given).make_handle()


class _RowFork:
    """The fork of one row.

    Args:
        row: of the result.
        ensemble: what it runs.
        given: what is different, and settings.
        source: of the models of all rows.
    """

    def __init__(self, row: RowResult, ensemble: RunnableEnsemble, given: ForkArguments, source: ChatSource) -> None:
        self.row = row
        self.outcome = RowOutcome(uuid.uuid4().hex[:12])
        self.fault: Exception | None = None
        self._ensemble = ensemble
        origin = find_origin(given.run)
        self._forked: ForkedRun = fork_run(
            origin, given.span, given.change, build_team_graph(ensemble), asked_in=row.name
        )
        self.place = ForkPlace(origin.known_as, self._forked.span.span_id, given.change.names)
        settings = given.of_run.settings
        inputs = self._forked.merge_inputs(given.of_run.inputs, given.of_run.variables)
        self.values = merge_inputs(ensemble, inputs, given.of_run.variables)
        self._settings = RunSettings(
            only=settings.only,
            deps=self._forked.choose_deps(settings.deps, ensemble.deps),
            review_handler=ensemble.review_handler or settings.review_handler,
            forked_from=self.place,
            is_row=True,
        )
        self.prepared = PreparedEnsemble(ensemble, self._settings, source)
        self.prepared.check_values(self.values)

    async def run(self) -> str:
        """Run it, on the loop of the map, in the task of the row; gives its text."""
        row = Row(self.row.index, self.row.name, {})
        return await run_row_here(
            self._ensemble, self.prepared, self._settings, self.values, row, self.outcome, self._forked
        )

    def make_row(self, output: Any) -> RowResult:
        """What came of it.

        Args:
            output: of the map.
        """
        outcome = self.outcome
        has_begun = output is not None and outcome.status is not RunStatus.RUNNING
        skipped = () if output is None else output.skipped
        own = (each.reason for each in skipped if each.name == self.row.name)
        return replace(
            self.row,
            output=outcome.output,
            error=outcome.error,
            status=outcome.status.value if has_begun else "skipped",
            reason="" if has_begun else next(own, "the map ended before its turn"),
            run_id=outcome.run_id if has_begun else None,
            _spending=None,
        )


class _ForkedMap:
    """The map while it is prepared and run, and its result."""

    def __init__(
        self,
        result: MapResult,
        rows: Sequence[tuple[RowResult, RunnableEnsemble]],
        span: Any,
        score: AnyScorers | None,
        expected: str | None,
        given: Mapping[str, Any],
    ) -> None:
        self._result = result
        self._ensemble = rows[0][1]
        read = [read_fork(row.output, span, **given) for row, _ in rows]
        settings = ask_person_here(read[0].of_run.settings)
        self._source = make_source(settings)
        self._forks = {
            row.name: _RowFork(row, ensemble, each, self._source)
            for (row, ensemble), each in zip(rows, read, strict=True)
        }
        self._first = self._forks[rows[0][0].name]
        self._settings: RunSettings = replace(settings, forked_from=self._first.place, only=None, deps=None)
        scorers: Sequence[Scorer] = result._scorers if score is None else read_scorers(score)
        known = tuple(dict.fromkeys((*result.input_names, *self._first.values)))
        self._scorers = CheckedScorers(
            scorers,
            known,
            expected or result._expected,
            self._source,
            result._list_variants(),
            apart=find_apart(pair_runs(result._list_scored())),
        )
        self._pairs = RowPairings(self._scorers, map(self._place_run, result.rows))
        self._calls = RowCalls()
        self._run: RunHandle | None = None
        self._carried: list[ScoreRecord] = []
        self._untold: list[ScoreRecord] = []

    def make_handle(self) -> MapHandle:
        """The handle of the map, which has not begun."""
        rows = [
            replace(_ROW.with_texts(name=name, description=escape_variables(name)), handler=self._run_row)
            for name in self._forks
        ]
        outer = self._ensemble._with_rows(rows, error_strategy=ErrorStrategy.PARTIAL, concurrency=_AT_ONCE)
        last = self._result._last_output
        assert last is not None
        noun = last.trace._fold.task_noun
        noun = noun if noun.is_run else TaskNoun.ROW
        spec = PreparedEnsemble(outer, self._settings, self._source, task_noun=noun).make_spec({})
        prepared = self._first.prepared
        told: dict[str, Any] = {"design": self._make_design(), "row_plan": prepared.bare_plan}
        spec = replace(
            spec,
            plan=replace(spec.plan, **told),
            bare_plan=None if spec.bare_plan is None else replace(spec.bare_plan, **told),
            warnings=(*spec.warnings, *prepared.gate_warnings, *self._list_warnings()),
            versions=prepared.versions,
        )
        self._run = RunHandle(outer, spec, self._source, uuid.uuid4().hex[:12], self._settings)
        self._untold = self._carried = self._carry_scores()
        return MapHandle(self._run, self._make_result, self._ensemble.name)

    def _list_warnings(self) -> Sequence[str]:
        """What has scored the rows before, and does not now."""
        now = {name for each in self._scorers.all for name in (each.shown, *self._scorers.list_names(each))}
        own = {each.row.run_id for each in self._forks.values()}
        before = {each.name for each in self._result.score_records if each.run_id in own}
        if not (lost := sorted(before - now)):
            return ()
        names = ", ".join(lost)
        first, *others = map(repr, self._forks)
        rows = f"{pluralize(len(others) + 1, 'row')} ({first}, ...) are" if others else f"Row {first} is"
        told = f"{rows} not scored anew by {names}: what gave these scores is not known here."
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
                    earlier=None if each.name in self._forks else self._describe_kept(rows[each.name]),
                )
                for each in design.rows
            ),
        )

    def _describe_kept(self, row: RowResult) -> Any:
        spent = self._result._get_spending(row)
        return describe_done(replace(row, _spending=spent), self._result)

    async def _run_row(self, given: TaskInput) -> str:
        fork = self._forks[given.name]
        outcome = fork.outcome
        if self._untold and self._run is not None:
            self._run._tell_scores(self._untold)
            self._untold = []
        try:
            text = await fork.run()
            if outcome.output is not None and self._scorers.all:
                place = self._place(fork)
                scored = RunToScore(name=given.name, run=outcome.output, inputs=fork.values, place=place)
                scoring = Scoring(records=outcome.scores)
                await self._scorers.score(self._scorers.single, scored, self._calls, scoring)
                for each in self._pairs.add(given.name):  # beside the runs of the other variants, as they are now
                    first, second = map(self._find_scored, (each.first, each.second))
                    await self._scorers.judge_pair(each.scorer, first, second, self._calls, scoring)
                fork.fault = next(iter(scoring.faults.values()), None)
            return text
        finally:
            if self._run is not None:
                self._run._keep_scores(outcome.scores)

    def _place_run(self, row: RowResult) -> PairedRun:
        return PairedRun(row.name, row.row, row.repeat, self._result._describe_place(row)["variant"])

    def _find_scored(self, name: str) -> RunToScore:
        """A run that is done, for who compares it: one that forked, or one of the result."""
        assert self._run is not None
        if (fork := self._forks.get(name)) is not None:
            return RunToScore(name=name, run=fork.outcome.output, inputs=fork.values, place=self._place(fork))
        kept = self._result._make_scored(self._result[name])
        return replace(kept, place={**kept.place, "map_run_id": self._run.run_id})

    def _place(self, fork: _RowFork) -> Mapping[str, Any]:
        assert self._run is not None
        place = self._result._describe_place(fork.row)
        return {**place, "run_id": fork.outcome.run_id, "map_run_id": self._run.run_id}

    def _carry_scores(self) -> list[ScoreRecord]:
        """The scores of the other rows, as those of this map."""
        assert self._run is not None
        own = {each.row.run_id for each in self._forks.values()}
        kept = [each for each in self._result.score_records if each.run_id not in own and each.pair_of is None]
        done = {each.name: each.run_id or "" for each in self._result.rows if each.is_done and each.run_id not in own}
        scores = group_by_run(self._result.score_records)
        pairs = self._pairs.take_over({name: scores.get(run_id, []) for name, run_id in done.items()})
        kept += [record for each in pairs.values() for record in each]
        return [replace(each, map_run_id=self._run.run_id, id=uuid.uuid4().hex) for each in kept]

    def _make_result(self, output: Any) -> MapResult:
        result, forks = self._result, self._forks
        rows = [forks[each.name].make_row(output) if each.name in forks else self._keep(each) for each in result.rows]
        self._calls.close()
        keep_scores(self._carried)
        made = MapResult(
            ensemble=result.ensemble if result.ensemble._can_run else self._ensemble,
            rows=rows,
            index=result._index,
            output=output,
            fields=result._fields,
            capture_mode=result._capture_mode,
            input_names=result.input_names,
            earlier=result._last_output,
            score_records=[*self._carried, *(score for each in forks.values() for score in each.outcome.scores)],
            expected=self._scorers.expected,
            score_fault=next((each.fault for each in forks.values() if each.fault is not None), None),
            identity=result._identity,
            until_clear=result._until_clear,
        )
        made._scorers = self._scorers.all
        return made

    def _keep(self, row: RowResult) -> RowResult:
        return row if row.run_id is None else replace(row, _spending=self._result._get_spending(row))
