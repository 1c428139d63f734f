"""Maps as results again, from the store or from files (V10): their events tell all but what ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason, RunKind, RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedTask, make_plan
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.ensemble.earlier_runs.fork_change import read_fork
from ensemble_notebook.ensemble.earlier_runs.fork_origin import refuse_foreign, refuse_textless
from ensemble_notebook.ensemble.earlier_runs.run_journal import RowPlace, RunJournal
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.rerun import Rerun, read_rerun
from ensemble_notebook.ensemble.many_runs.rerun_run import RerunHandle, estimate_rerun, prepare_rerun
from ensemble_notebook.ensemble.run_settings import takes
from ensemble_notebook.ensemble.scoring import RunToScore, Scorable
from ensemble_notebook.ensemble.stored_definition import read_definition
from ensemble_notebook.errors import StoreError, ValidationError, did_you_mean
from ensemble_notebook.evaluation.scored_runs import LEAVE_OUT, Failed, group_by_run
from ensemble_notebook.trace.analysis.map_rows import MapRow, get_design, list_known_rows, list_map_rows
from ensemble_notebook.trace.analysis.row_table import make_index
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.loading import JoinedFrames, PathLike, load_run_tables
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_filter import Moment, RunFilter
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.store_reader import SIGNS_OF_DAMAGE

if TYPE_CHECKING:
    from ensemble_notebook.evaluation.score_history import ScoreHistory

_NO_CODE: Final = "It was loaded from a trace, which does not have what ran: use the ensemble itself."
_EXIT: Final = {
    RunStatus.FAILED: ExitReason.ERROR,
    RunStatus.INTERRUPTED: ExitReason.INTERRUPTED,
    RunStatus.BUDGET_EXCEEDED: ExitReason.BUDGET_EXCEEDED,
    RunStatus.EXITED_EARLY: ExitReason.USER_EXIT_EARLY,
}


FindTrace = Callable[[str], ExecutionTrace | None]
"""Gives the trace of a run by its id; None where it is gone."""


class LoadedRuns(Scorable, JoinedFrames):
    """The frames of many runs, the maps among them as results, and scores of all of them."""

    def load_map(self, map_run_id: str) -> MapResult:
        """A map as the result that it was, with `frame`, `diff` and the outputs of its rows.

        Inputs are as JSON has them, and nothing of it can be run again.

        Args:
            map_run_id: id of the map, as in `rows.map_run_id`.

        Raises:
            ValidationError: it is none of these maps; names the nearest.
            StoreError: it is gone, or damaged.
        """
        maps = [run_id for run_id, tables in self._parts.items() if tables.count_rows("rows")]
        if map_run_id not in maps:
            what = "is not a map" if map_run_id in [*self._parts] else "is not among these maps"
            raise ValidationError(f"Run {map_run_id!r} {what}.{did_you_mean(str(map_run_id), maps)}")
        return make_map_result(self._load_trace(map_run_id), self._find_trace)

    def load_output(self, run_id: str, namespace: Mapping[str, Any] | None = None) -> EnsembleOutput:
        """One run as the output that it was, with `frames`, `diff`, `rerun` and, where its cell is known, `fork`.

        Its `ensemble` is the one that the text of its cell declares. Where that is not known, or names what is not
        there, it has names and descriptions alone, and `fork` says what is missing.

        Args:
            run_id: its id, as in `runs`.
            namespace: the variables that its cell names, such as ``globals()``; None for those of the notebook.

        Raises:
            ValidationError: it is none of these runs, or its cell can't be read with `namespace`.
            StoreError: it is gone, or damaged.
        """
        return make_known_output(self._load_trace(run_id), namespace)

    @cached_property
    def _traces(self) -> dict[str, ExecutionTrace]:
        return {run_id: tables.load_trace() for run_id, tables in self._parts.items()}

    @property
    def score_records(self) -> tuple[ScoreRecord, ...]:
        """The scores that count, run by run. Not for users: `scores` has them as a frame."""
        return tuple(score for each in self._traces.values() for score in each.scores)

    @property
    def _shows_texts(self) -> bool:
        """Whether texts are kept of all of them."""
        return all(each.capture_mode is not CaptureMode.METADATA for each in self._traces.values())

    def _list_scored(self) -> Iterator[RunToScore]:
        """The runs that ended well, for whoever scores them. Not for users."""
        judging = {each.judge_run_id for each in self.score_records}
        for run_id, trace in self._traces.items():
            if run_id not in judging:
                made = (
                    make_map_result(trace, self._find_trace)
                    if get_design(trace._fold).rows
                    else make_loaded_output(trace)
                )
                yield from (replace(each, name=f"{run_id}/{each.name}") for each in made._list_scored())

    def _with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same with more scores, of these runs and of rows of maps among them; these stay as they are."""
        by_run = group_by_run(records, is_stored=True)
        return type(self)({run_id: each.with_scores(by_run.get(run_id, ())) for run_id, each in self._parts.items()})

    def score_history(self, score: str, *, is_: str | None = None, failed: Failed = LEAVE_OUT) -> ScoreHistory:
        """A score over these maps, in order of time, with a picture: dots with 95% intervals.

        Args:
            score: its name.
            is_: the label that counts, of a score that gives labels.
            failed: what a row that failed counts as where the score is a number, or ``"leave out"``.

        Raises:
            ValidationError: no map has such a score, or it is of several kinds.
        """
        from ensemble_notebook.evaluation.score_history import make_score_history

        return make_score_history(self, score, is_, failed)

    def _find_trace(self, run_id: str) -> ExecutionTrace | None:
        return self._load_trace(run_id) if run_id in self._parts else None


def load_traces(
    where: PathLike | Sequence[PathLike] | None = None,
    *,
    name: str | Sequence[str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    status: RunStatus | str | Sequence[RunStatus | str] | None = None,
    last: int | None = None,
) -> LoadedRuns:
    """Load many runs as one set of frames: every table of `Frames`, with the column `run_id`.

    Runs that are in several places are taken once. Of a store, only the runs that are wanted are read::

        load_traces(since="2 days", status="failed").errors
        load_traces(name="support", last=10).runs

    Args:
        where: None for all runs that the store remembers, in order of their start; the path of a ``*.trace.json`` or
            of another store; a pattern such as ``"traces/**/*.trace.json"``; or a list of these.
        name: only runs that are called so, or as one of these; None: all.
        since: only runs that began at this time or later: a datetime or a date, or either as ISO text
            (``"2026-11-01"``), in the time of this machine unless it says otherwise, a date from its midnight on; a
            timedelta, or a text such as ``"2 days"``, ``"12 hours"``: so long ago.
        until: only runs that began before this time; given as `since` is.
        status: only runs that ended so, or as one of these, such as ``"failed"``.
        last: of all these, only so many, those that began last; None: all.

    Raises:
        ValidationError: no run is called so, or another argument is none of its kind; names the nearest.
        StoreError: nothing is remembered since the store is off, or it can't be read. Single runs in it that can't be
            read are left out with a warning.
        FileNotFoundError: there is no such file, or none fits the pattern.
        TraceFormatError: a file is no trace, or not a whole one.
    """
    wanted = RunFilter.read(name, since, until, status, last)
    return LoadedRuns(load_run_tables(where, wanted))


def load_map(word: str) -> MapResult:
    """A map that the configured store remembers.

    Args:
        word: its id, a beginning of that, its name, or its place from the end (``"-1"``).

    Raises:
        StoreError: there is none, or it can't be read.
        ValidationError: the run is no map.
    """
    result = load_result(word)
    if not isinstance(result, MapResult):
        raise ValidationError(f"Run {result.run_id} is not a map: it has no rows.")
    return result


def load_result(word: str) -> MapResult | EnsembleOutput:
    """What a run that the configured store remembers has given: a result where it is a map, else an output.

    Args:
        word: as of `load_map`.

    Raises:
        StoreError: there is no such run, or it can't be read.
    """
    store = RunStore.open()
    return make_result(store.load_trace(store.find_run(word)))


def make_result(trace: ExecutionTrace) -> MapResult | EnsembleOutput:
    """What a run has given: a result where it is a map, else an output.

    Args:
        trace: of the run. Rows that it took over from an earlier map are looked for in the configured store.

    Raises:
        StoreError: the map is damaged.
    """
    if get_design(trace._fold).rows:
        return make_map_result(trace, _find_stored)
    return make_loaded_output(trace)._with_scores(trace.scores)


def _find_stored(run_id: str) -> ExecutionTrace | None:
    with suppress(StoreError):  # it has been forgotten, or nothing is remembered
        store = RunStore.open()
        return store.load_trace(store.find_run(run_id))
    return None


def make_known_output(trace: ExecutionTrace, namespace: Mapping[str, Any] | None = None) -> EnsembleOutput:
    """One run as the output that it was, see `LoadedRuns.load_output`.

    Raises:
        ValidationError: its cell can't be read with `namespace`.
    """
    ensemble = None
    with suppress(StoreError, *(() if namespace is not None else (ValidationError,))):
        ensemble = read_definition(trace.run_id, namespace)
    return make_loaded_output(trace, ensemble)._with_scores(trace.scores)


def make_map_result(trace: ExecutionTrace, find_trace: FindTrace = lambda _: None) -> MapResult:
    """The result of a map, made of its trace.

    Args:
        trace: of the map.
        find_trace: gives the trace of an earlier map by its id, for the rows that were taken over from it; None where
            that is gone.

    Raises:
        StoreError: it is damaged.
    """
    try:
        design, rows = get_design(trace._fold), list_map_rows(trace._fold, trace.events)
        outputs = _read_outputs(trace, rows, find_trace)
        labels: dict[str, Any] = {}
        for each in design.rows:
            labels.setdefault(each.row, tuple(each.label) if isinstance(each.label, list) else each.label)
        index = make_index(design.index, [*labels.values()])
        labels = dict(zip(labels, range(len(labels)) if index is None else index, strict=True))
        return MapResult(
            ensemble=LoadedEnsemble(name=trace.name, cost=trace.cost),
            rows=[
                RowResult(
                    index=labels[each.planned.row],
                    inputs=each.planned.inputs,
                    output=outputs.get(each.planned.name),
                    error=each.error,
                    status=each.status,
                    reason=each.reason,
                    name=each.planned.name,
                    row=each.planned.row,
                    run_id=each.run_id,
                    _spending=None if each.planned.earlier is None else each.spending,
                    variant=each.planned.variant,
                    repeat=each.planned.repeat,
                )
                for each in rows
            ],
            index=index,
            output=make_loaded_output(trace),
            fields={name: schema if isinstance(schema, Mapping) else {} for name, schema in design.fields.items()},
            capture_mode=trace.capture_mode,
            input_names=design.inputs,
            score_records=[each for each in trace.scores if each.run_id != trace.run_id],  # those of rows
            identity=list_known_rows(design, keeps_values=trace.capture_mode is not CaptureMode.METADATA).identity,
            until_clear=design.until_clear,
        )
    except SIGNS_OF_DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        raise StoreError(f"Map {trace.run_id} can't be loaded: its rows are damaged ({reason}).") from error


class LoadedEnsemble(RunnableEnsemble):
    """What a trace tells of an ensemble: its name and its tasks. A fork of it needs the cell of its run."""

    __slots__ = ()

    def run(self, *_: Any, **__: Any) -> NoReturn:
        """It can't run.

        Raises:
            ValidationError: always.
        """
        raise ValidationError(f"This ensemble can't run. {_NO_CODE}")

    @property
    def _can_run(self) -> bool:
        return False

    @takes(read_fork)
    def fork(self, run: Any, span: Any, **given: Any) -> EnsembleOutput:
        """Run again from a span on, as the cell of the run declares it."""
        return _read_definition(run).fork(run, span, **given)

    @takes(read_fork)
    async def afork(self, run: Any, span: Any, **given: Any) -> EnsembleOutput:
        """The same on the caller's event loop."""
        return await _read_definition(run).afork(run, span, **given)

    @takes(read_fork)
    def start_fork(self, run: Any, span: Any, **given: Any) -> Any:
        """The same in the background."""
        return _read_definition(run).start_fork(run, span, **given)

    @takes(read_rerun)
    def rerun(self, run: Any, span: Any, *, plan: bool = False, **given: Any) -> Any:
        """Make a model call again: what it was told is in the store, or in the trace."""
        read, ensemble = read_rerun(run, span, **given), self._find_definition(run, given.get("llm"))
        return estimate_rerun(ensemble, read) if plan else prepare_rerun(ensemble, read)._run_to_end()

    @takes(read_rerun)
    async def arerun(self, run: Any, span: Any, **given: Any) -> Rerun:
        """The same on the caller's event loop."""
        return await self._prepare_rerun(run, span, given)._run_here()

    @takes(read_rerun)
    def start_rerun(self, run: Any, span: Any, **given: Any) -> RerunHandle:
        """The same in the background."""
        handle = self._prepare_rerun(run, span, given, streams=True)
        handle._begin()
        return handle

    def _start_row_forks(self, result: Any, rows: Sequence[tuple[Any, Any]], span: Any, **given: Any) -> Any:
        known = _read_definition(rows[0][0].output)
        pairs = [(row, each if each._can_run else known) for row, each in rows]
        return known._start_row_forks(result, pairs, span, **given)

    def _prepare_rerun(self, run: Any, span: Any, given: Mapping[str, Any], *, streams: bool = False) -> RerunHandle:
        ensemble = self._find_definition(run, given.get("llm"))
        return prepare_rerun(ensemble, read_rerun(run, span, **given), streams=streams)

    def _find_definition(self, run: Any, llm: Any) -> RunnableEnsemble:
        """What the cell of a run declares, which knows its models; itself where that is not known, or not needed.

        Raises:
            ValidationError: the cell can't be read, and nobody else is named who is to be asked.
        """
        if getattr(run, "capture_mode", None) is CaptureMode.METADATA:  # which is refused
            return self
        try:
            return _read_definition(run)
        except StoreError:
            return self
        except ValidationError as error:
            if llm is not None:
                return self
            raise ValidationError(f"{error} Or name who is to be asked: llm='openai:NAME'.") from error

    def _prepare_rows(self, *_: Any) -> NoReturn:
        self.run()

    def _load_map(self, word: str) -> MapResult:
        return load_map(word)


def _read_definition(run: Any) -> RunnableEnsemble:
    if getattr(run, "capture_mode", None) is CaptureMode.METADATA:
        raise refuse_textless(run.run_id)
    refuse_foreign(run)
    place = getattr(run, "_row_place", None)  # a row is a run of its map's cell
    return read_definition(run if isinstance(run, str) else run.run_id if place is None else place.map_run_id)


def _make_task(name: str, description: str | None) -> Task:
    def handle(_: TaskInput) -> str:
        raise ValidationError(f"Task {name!r} can't run. {_NO_CODE}")

    return Task.of(escape_variables(description or name), name=name, handler=handle)


def make_loaded_output(
    trace: ExecutionTrace, ensemble: RunnableEnsemble | None = None, journal: RunJournal | None = None
) -> EnsembleOutput:
    """The output of a run, also of a map, whose tasks are its rows.

    Args:
        trace: of the run.
        ensemble: that it was a run of; None where that is not known.
        journal: what was said and done in it, by which it can be forked; None where only a store has that.
    """
    spans = [span for span in trace._fold.spans.values() if span.is_own_task and span.review_id is None]
    told = LoadedEnsemble(
        name=trace.name, cost=trace.cost, tasks=[_make_task(each.name, each.description) for each in spans]
    )
    known = None if ensemble is None else build_graph(ensemble)
    is_same = known is not None and [node.name for node in known.tasks] == [each.name for each in spans]
    graph = known if is_same and known is not None else build_graph(told)
    places = {each.span_id: place for place, each in enumerate(spans)}
    result = _read_result(trace.events, places, trace.status, trace.exit_reason or ExitReason.INTERRUPTED)
    tasks = () if trace.plan is None else trace.plan.tasks
    before = set() if trace.plan is None else {name for after in trace.plan.phases.values() for name in after}
    late = {each.name: each for each in tasks if each.phase not in before}
    read = {name for each in late.values() for name in each.depends_on}
    # The one task that no other one waits for; there are several in a map.
    last = [place for place, each in enumerate(spans) if each.name in late and each.name not in read]
    output = EnsembleOutput(
        ensemble=told if ensemble is None else ensemble,
        graph=graph,
        plan=trace.plan or make_plan(graph),
        events=trace.events,
        result=result,
        only=last[0] if len(last) == 1 else None,
        journal=journal,
    )
    vars(output)["trace"] = trace  # it is folded already
    return output


def _read_result(
    events: Iterable[ev.Event], places: Mapping[str, int], status: RunStatus, exit_reason: ExitReason
) -> RunResult:
    """How a run and its tasks ended, of which the places are given by the ids of their spans."""
    result = RunResult(status=status, exit_reason=exit_reason)
    for each in events:
        if each.span_id not in places:
            continue
        if isinstance(each, ev.TaskCompleted):
            result.outputs.pop(places[each.span_id], None)
            result.outputs[places[each.span_id]] = each.output
        elif isinstance(each, ev.TaskFailed) and each.status is SpanStatus.ERROR:
            result.failures.append(Failure(name=each.task or "", agent_role=each.agent, error=each.error))
        elif isinstance(each, ev.TaskSkipped):
            result.skipped.append(Skipped(name=each.task or "", kind="task", reason=each.reason))
    return result


# --- The outputs of the rows: each was a run of its own, whose events are among those of the map ----------------------


def _read_outputs(trace: ExecutionTrace, rows: Sequence[MapRow], find_trace: FindTrace) -> dict[str, EnsembleOutput]:
    """The output of each row that has one, by the row's name."""
    runs: dict[str, str] = {}
    for span in trace._fold.spans.values():  # each after the one around it
        parent = span.parent
        if span.kind is SpanKind.NESTED and parent is not None and parent.is_own_task:
            runs[span.span_id] = span.span_id
        elif parent is not None and parent.span_id in runs:
            runs[span.span_id] = runs[parent.span_id]
    events: dict[str, list[ev.Event]] = {}  # of the run of each row, by its id, which is that of its span in the map
    for each in trace.events:
        if each.span_id in runs:
            events.setdefault(runs[each.span_id], []).append(each)

    @cache
    def load_outputs(map_run_id: str) -> dict[str | None, EnsembleOutput | None]:
        """Those of a map that rows were taken over from; none where it is gone."""
        earlier = find_trace(map_run_id)
        return {} if earlier is None else {each.run_id: each.output for each in make_map_result(earlier, find_trace)}

    found = {}
    for row in rows:
        if (before := row.planned.earlier) is not None:
            output = None if before.map_run_id is None else load_outputs(before.map_run_id).get(before.own_run_id)
        else:
            output = _RowOutput(trace, row, events[row.run_id]).make() if row.run_id in events else None
        if output is not None:
            found[row.planned.name] = output
    return found


class _RowOutput:
    """Makes the output of the run of one row, from its events in the map."""

    def __init__(self, trace: ExecutionTrace, row: MapRow, events: Sequence[ev.Event]) -> None:
        self._trace = trace
        self._row = row
        self._given = events
        self._run_id = run_id = events[0].span_id
        self._name = events[0].name if isinstance(events[0], ev.NestedRunStarted) else None

        def find_begun(kind: type[ev.Event]) -> Iterator[Span]:
            begun = dict.fromkeys(each.span_id for each in events if isinstance(each, kind))
            spans = (trace._fold.spans.get(each) for each in begun)
            return (each for each in spans if each is not None)

        def is_phase(span: Span) -> bool:
            return span.kind is SpanKind.PHASE and span.parent_id == run_id

        # The tasks of the run itself: no items, no delegated work, nobody's reviews.
        self._tasks = [
            each
            for each in find_begun(ev.TaskStarted)
            if each.item_of is None and each.delegation_id is None and (parent := each.parent) is not None
            if parent.span_id == run_id or is_phase(parent)
        ]
        self._places = {each.span_id: place for place, each in enumerate(self._tasks)}
        self._phases = [each for each in find_begun(ev.PhaseStarted) if is_phase(each)]

    def make(self) -> EnsembleOutput:
        trace, row = self._trace, self._row
        ensemble = LoadedEnsemble(
            name=self._name, cost=trace.cost, tasks=[_make_task(each.name, each.description) for each in self._tasks]
        )
        status = RunStatus(row.status)
        exit_reason = ExitReason.NOBODY_TO_ASK if row.is_left else _EXIT.get(status, ExitReason.COMPLETED)
        result = _read_result(self._given, self._places, status, exit_reason)
        names = {each.name: place for place, each in enumerate(self._tasks)}
        # In a run that failed, the final task is the one that failed, which has no text.
        final = row.final.name if row.final is not None else result.failures[-1].name if result.failures else ""
        tasks = [
            PlannedTask(
                name=each.name,
                agent=each.agent or "",
                phase=each.phase if each.parent_id != self._run_id else None,
                description=each.description or "",
                context=(),
                depends_on=(),
                llm=None,
            )
            for each in self._tasks
        ]
        plan = ExecutionPlan(
            groups=(tuple(names),),
            total_tasks=len(tasks),
            max_parallelism=len(tasks),
            estimated_rounds=1,
            critical_path=(),
            tasks=tuple(tasks),
            phases={each.name: () for each in self._phases},
        )
        result.outputs = {names[name]: output for name, output in row.outputs.items() if name in names}
        result.skipped.clear()  # what was skipped in a row is not told of it
        return EnsembleOutput(
            ensemble=ensemble,
            graph=build_graph(ensemble),
            plan=plan,
            events=[*self._make_events(plan, result)],
            result=result,
            only=names.get(final),
            row_place=RowPlace(
                map_run_id=trace.run_id,
                row=row.planned.name,
                prefix=f"{row.planned.name}/{self._name or 'run'}/",
                inputs=row.planned.inputs,
            ),
        )

    def _make_events(self, plan: ExecutionPlan, result: RunResult) -> Iterator[ev.Event]:
        """The events as the run itself had them: with its beginning, its plan and its end."""
        first, rest = self._given[0], self._given[1:]
        where: dict[str, Any] = {
            "run_id": self._run_id,
            "span_id": self._run_id,
            "parent_id": None,
            "time": first.time,
            "offset_s": 0.0,
        }
        yield ev.RunStarted(
            **where,
            seq=0,
            name=self._name,
            workflow=first.workflow if isinstance(first, ev.NestedRunStarted) else "",
            inputs={name: "" if value is None else str(value) for name, value in self._row.planned.inputs.items()},
            max_concurrency=None,
            kind=RunKind.NESTED,
            capture_mode=self._trace.capture_mode,
            currency=self._trace._fold.told_currency,
        )
        yield ev.PlanMade(
            **where,
            seq=1,
            plan=plan,
            task_span_ids=(*self._places,),
            phase_span_ids=tuple(each.span_id for each in self._phases),
        )
        end = {**where, "time": self._given[-1].time, "offset_s": max(0.0, self._given[-1].offset_s - first.offset_s)}
        inside = [each for each in rest if each.span_id != self._run_id]  # that span has a beginning and an end alone
        for seq, each in enumerate(inside, 2):
            changes: dict[str, Any] = {"run_id": self._run_id, "seq": seq}
            changes["offset_s"] = max(0.0, each.offset_s - first.offset_s)
            if isinstance(each, ev.TaskStarted) and each.span_id in self._places:
                changes |= {"index": self._places[each.span_id], "total": len(self._tasks)}
            yield replace(each, **changes)
        yield ev.RunEnded(
            **end, seq=len(inside) + 2, status=result.status, exit_reason=result.exit_reason, error=self._row.error
        )
