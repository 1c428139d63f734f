"""The result of a map: a result for each row, in order, and a table of all rows (E72)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, overload

from ensemble_notebook.domain.definitions.enums import DONE, CaptureMode, ExitReason, RunStatus
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.score import ScoreRecord, ScoreValue, list_current
from ensemble_notebook.domain.outputs.secrets import Record, has_secret, mask
from ensemble_notebook.domain.outputs.task_output import Metrics
from ensemble_notebook.domain.planning.map_design import KnownRows, RowIdentity, RowSpending, UntilClear, write_value
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize, say_how_many
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.rows import to_kept_value
from ensemble_notebook.ensemble.scoring import RunToScore, Scorable
from ensemble_notebook.errors import (
    Pickled,
    ValidationError,
    did_you_mean,
)
from ensemble_notebook.evaluation.scored_runs import group_by_run
from ensemble_notebook.evaluation.scorer import list_score_warnings
from ensemble_notebook.evaluation.verdicts import ScoredMap, find_variant
from ensemble_notebook.trace.analysis.row_table import (
    NO_FIELDS,
    NOTHING_SPENT,
    RowRecord,
    make_row_frame,
    sum_spending,
)
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.row_files import Formulas
from ensemble_notebook.trace.spans.clean_text import clean_text, clean_value

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import ForkPlan
    from ensemble_notebook.evaluation.scorer import AnyScorers
    from ensemble_notebook.trace.analysis.row_table import RowFrame
    from ensemble_notebook.trace.analysis.transcript import Transcript
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.frames import Frames

SKIPPED: Final = "skipped"
_MADE_OF_SCORES: Final = frozenset({"frame", "_scored_output", "_scores_by_run"})
_NOT_PICKLED: Final = _MADE_OF_SCORES | {"metrics", "_score_fault", "_row_selection", "_scorers"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowResult(Record):
    """The result of one row.

    Attributes:
        index: label of the row in the given index; without an index, its number, from 0.
        inputs: the values of the row.
        output: output of its run, complete or partial; None if it did not run.
        error: the exception that its run failed with; None if it did not fail.
        status: a `RunStatus` value; ``"skipped"`` if it did not run, ``"settled"`` if it was not needed.
        reason: why it was skipped; otherwise empty.
        name: its name in the timeline and the trace of the map.
        row: the part of that name which all runs of this row have in common; empty where there is but one.
        run_id: id of its run; None if it did not run.
        variant: the variant that it ran under; None if there are no variants.
        repeat: number of the repeat, from 1; None if there are no repeats.
    """

    index: Any
    inputs: Mapping[str, Any]
    output: EnsembleOutput | None = None
    error: BaseException | None = None
    status: str = SKIPPED
    reason: str = ""
    name: str = ""
    row: str = ""
    run_id: str | None = None
    variant: str | None = None
    repeat: int | None = None
    # What it took in an earlier map, for a row taken over by `resume`; None otherwise.
    _spending: RowSpending | None = field(default=None, repr=False)

    @property
    def is_done(self) -> bool:
        """Whether the row is completed, so that `resume` takes it over."""
        is_left = self.output is not None and self.output.exit_reason is ExitReason.NOBODY_TO_ASK
        return self.status in DONE and not is_left

    @property
    def reused(self) -> bool:
        """Whether nothing of it was run in this map: an earlier map or run has done the row, or all of its tasks."""
        if self._spending is not None:
            return True
        outputs = () if self.output is None or not self.is_done else self.output.completed_outputs
        parts = [part for each in outputs for part in each.item_outputs or (each,)]
        return bool(parts) and all(each.reused for each in parts)

    @property
    def raw(self) -> str | None:
        """Text of its final task; None if it is not completed."""
        return self.output.raw if self.output is not None and self.is_done else None


AnyRows = int | str | RowResult | Iterable[int | str | RowResult]
"""A row of a result by its position, its name or itself, or several of these."""


class MapResult(ScoredMap, Scorable, Pickled):
    """The result of a map, complete or partial. Every given row is in it, whether it ran or not.

    ``result[0]`` or ``result["row 0"]`` is a `RowResult`; iterating gives all of them.

    Attributes:
        ensemble: what ran.
        output: the `EnsembleOutput` of the map, which is a run with a task for each row; None if there were no rows to
            run.
        rows: the results, in the order of the given rows.
        input_names: names of the inputs of the rows; they are the last columns of `frame`, in this order.
    """

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        rows: Sequence[RowResult],
        index: Any,
        output: EnsembleOutput | None,
        fields: Mapping[str, Any] = NO_FIELDS,
        warnings: Sequence[str] = (),
        capture_mode: CaptureMode = CaptureMode.OFF,
        input_names: Sequence[str] = (),
        earlier: EnsembleOutput | None = None,
        score_records: Sequence[ScoreRecord] = (),
        expected: str | None = None,
        score_fault: Exception | None = None,
        compare_fault: ValidationError | None = None,
        identity: RowIdentity | None = None,
        until_clear: UntilClear | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.rows: tuple[RowResult, ...] = tuple(rows)
        self.output = output
        self._earlier = earlier
        self._score_records: tuple[ScoreRecord, ...] = tuple(score_records)
        self._index = index
        self._fields = dict(fields)
        self._warnings = tuple(warnings)
        self._capture_mode = capture_mode
        self._expected = expected
        self._score_fault = score_fault
        self._compare_fault = compare_fault
        self._until_clear = until_clear
        self._identity = RowIdentity() if identity is None else identity
        self.input_names: tuple[str, ...] = tuple(input_names)

    def __len__(self) -> int:
        """Number of rows that were given."""
        return len(self.rows)

    def __iter__(self) -> Iterator[RowResult]:
        """The results, in the order of the rows."""
        return iter(self.rows)

    def __getitem__(self, row: int | str) -> RowResult:
        """The result of a row, by position from 0, or by its name in the timeline.

        Raises:
            KeyError: there is no row of this name.
            IndexError: there is no row at this position.
        """
        if not isinstance(row, str):
            return self.rows[row]
        found = next((each for each in self.rows if each.name == row), None)
        if found is None:
            raise KeyError(f"No row {row!r}.{did_you_mean(row, (each.name for each in self.rows))}")
        return found

    def __bool__(self) -> bool:
        """Always true, even without rows."""
        return True

    @property
    def status(self) -> RunStatus:
        """How the map ended. COMPLETED_WITH_WARNINGS if some rows failed, FAILED if all did."""
        return RunStatus.COMPLETED if self.output is None else self.output.status

    @property
    def run_id(self) -> str | None:
        """The id of the map in the run store; None if there were no rows to run."""
        return None if self.output is None else self.output.run_id

    @property
    def failures(self) -> tuple[RowResult, ...]:
        """The rows that failed, in order."""
        return tuple(each for each in self.rows if each.error is not None)

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls of reviewed tools that wait for an answer, of all rows: see `EnsembleOutput.pending`."""
        return () if self.output is None else self.output.pending

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the map and of its scorers, in order."""
        run = () if self.output is None else self.output.warnings
        return (*self._warnings, *list_score_warnings(self.score_records), *run)

    @cached_property
    def metrics(self) -> Metrics:
        """Sums over this map. Rows taken over by `resume` count nothing, but in ``metrics.total``."""
        if self.output is not None and self._scored_output is not None:
            return self._scored_output.metrics
        return Metrics(earlier=None if self._earlier is None else self._earlier.metrics.total)

    def _list_known_rows(self) -> KnownRows:
        """What tells its rows apart, for whoever pairs them with those of another map. Not for users."""
        firsts: dict[str, RowResult] = {}
        for each in self.rows:
            firsts.setdefault(each.row, each)
        return KnownRows(
            names=[*firsts],
            values=[{name: write_value(to_kept_value(v)) for name, v in r.inputs.items()} for r in firsts.values()],
            columns=self.input_names,
            identity=self._identity,
        )

    @property
    def _last_output(self) -> EnsembleOutput | None:
        """The output of the map which ran last: this one, or where `resume` took over all rows, the one before."""
        return self.output or self._earlier

    @property
    def trace(self) -> ExecutionTrace | None:
        """The trace of the map, with the traces of its rows inside.

        Where `resume` took over all rows, it is that of the map which ran last; None if there never was a row to run.
        """
        return None if self._scored_output is None else self._scored_output.trace

    @cached_property
    def _scored_output(self) -> EnsembleOutput | None:
        """The output of the map which ran last, with the scores of this result."""
        last = self._last_output
        return last._with_scores(self._score_records) if last is not None and self._score_records else last

    @property
    def score_records(self) -> tuple[ScoreRecord, ...]:
        """The scores of its rows that count, in the order in which they were given."""
        return list_current(self._score_records)

    def _with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same result with more scores of its rows, made with `_describe_place`; this one stays as it is."""
        made = object.__new__(type(self))
        own = {name: each for name, each in vars(self).items() if name not in _MADE_OF_SCORES}
        vars(made).update(own, _score_records=(*self._score_records, *records))
        return made

    def _take_scores(self, records: Iterable[ScoreRecord]) -> None:
        """Add scores of the map itself, and of none of its rows, as `check` does. Not for users."""
        if self._last_output is not None:
            self._last_output._take_scores(records)
            vars(self).pop("_scored_output", None)

    def score(
        self,
        score: AnyScorers,
        name: str | None = None,
        *,
        rows: AnyRows | None = None,
        replace: bool = False,
        expected: str | None = None,
    ) -> Self:
        """Score the rows that are done, or some of them, without asking any model but a judge's own.

        This one stays as it is. The store keeps the scores. ::

            judged = result.score(judge, rows=result.rows[:20])

        Args:
            score: a scorer, a list of them, or a dict of them by name, as for `Ensemble.map`.
            name: of the score, where one scorer is given; None: its own name.
            rows: that are scored, as far as they are done: a row by its position, its name or itself, or a list of
                these; None: all.
            replace: whether scores of the same names are replaced; of these rows.
            expected: as of `EnsembleOutput.score`.

        Raises:
            ValidationError, ScoringError, RunInterrupted: as of `EnsembleOutput.score`; or there is no such row.
        """
        runs = None if rows is None else map(self._make_scored, self._find_rows(rows))
        scores = self._prepare_scores(score, name, is_replacing=replace, expected=expected, runs=runs)
        scored: Self = scores.score()
        return scored

    def annotate(
        self,
        row: AnyRows,
        value: ScoreValue,
        *,
        variant: str | None = None,
        repeat: int | None = None,
        name: str = "label",
        reason: str | None = None,
        span: Any = None,
        replace: bool = False,
    ) -> Self:
        """Add what a person says of a row, or of some. This one stays as it is; the store keeps the score.

        Args:
            row: its position among the given rows, from 0, its name (``"row 3"``), or the `RowResult`; or a list of
                these.
            value: a bool passes or fails it, a number scores, a text labels it.
            variant: under which it ran, where there are several.
            repeat: which of its runs, from 1, where there are several.
            name: of the score.
            reason: why.
            span: the span of its run that it is about, or its id; None: the run as a whole.
            replace: whether it takes the place of an earlier score of this name.

        Returns:
            The same with the score.

        Raises:
            ValidationError: there is no such row, it never ran, or several runs are meant; or the value is no score.
        """
        runs = [*map(self._make_scored, self._find_rows(row, variant, repeat))]
        return self._annotate(runs, value, name, reason, span, is_replacing=replace)

    def messages(
        self,
        row: int | str | RowResult | None = None,
        *,
        variant: str | None = None,
        repeat: int | None = None,
        task: str | None = None,
        agent: str | None = None,
    ) -> Transcript:
        """What agents were told and said, in reading order, as a chat for each row, or for one of them.

        Args:
            row: its position among the given rows, from 0, its name, or the `RowResult`; None: all that ran here.
            variant: of one row, under which it ran, where there are several.
            repeat: which of its runs, from 1, where there are several.
            task: as of `EnsembleOutput.messages`.
            agent: likewise.

        Raises:
            ValidationError: nothing ran, or there is no such row, task or agent.
        """
        from ensemble_notebook.trace.analysis.transcript import Transcript

        if row is not None:
            found = self._find_row(row, variant, repeat)
            assert found.output is not None
            return Transcript(found.output.trace._fold, task, agent, title=found.name if self._shows_texts else "")
        if variant is not None or repeat is not None:
            raise ValidationError("variant and repeat say which run of a row is meant: name the row, too.")
        if self.trace is None:
            raise ValidationError("No row ran, so nothing was said.")
        taken = () if self.output is None else [each.name for each in self.rows if each._spending is not None]
        told = f"{pluralize(len(taken), 'row')} ran in an earlier map. messages({taken[0]!r}) has one." if taken else ""
        return Transcript(self.trace._fold, task, agent, notes=[told] if told else [], has_rows=True)

    @overload
    def fork(self, row: AnyRows, span: Any, *, plan: Literal[True], **change: Any) -> ForkPlan: ...
    @overload
    def fork(self, row: AnyRows, span: Any, **change: Any) -> MapResult: ...
    def fork(
        self,
        row: AnyRows,
        span: Any,
        *,
        variant: str | None = None,
        repeat: int | None = None,
        score: AnyScorers | None = None,
        expected: str | None = None,
        ensemble: RunnableEnsemble | None = None,
        plan: bool = False,
        **change: Any,
    ) -> MapResult | ForkPlan:
        """Run rows again from a span on, with a change there; all others are as they were, and cost nothing.

        The new result is a map of its own, with the runs of those rows alone; they are scored and judged anew.
        ``result[ROW].output.fork(SPAN)`` runs that row alone, and gives its output. ::

            again = result.fork(result.failures, "answer", llm="openai:gpt-5-mini")

        Args:
            row: its position among the given rows, from 0, its name (``"row 3"``), or the `RowResult`; or a list of
                these, of which each forks, side by side.
            span: a model call, a tool call or a task in the run of the row, or its id; or the name of a task, which is
                what several rows have in common.
            variant: under which it ran, where there are several.
            repeat: which of its runs, from 1, where there are several.
            score: what scores it, as in `Ensemble.map`; None: what has scored the rows.
            expected: as in `Ensemble.map`; None: as it was.
            ensemble: what the row runs; None: what it ran, of a loaded result as the cell of the map declares it.
            plan: whether nothing is done, and the result is a `ForkPlan`, which is of one row.
            **change: what is different there, `until` which task it goes, and settings: see `Ensemble.fork`.

        Returns:
            The same with these rows anew.

        Raises:
            ValidationError, StoreError: there is no such row or span, the change does not fit it, or the row ran on an
                executor, where nothing of what was said is kept; nothing was asked.
            RunInterrupted, DeadlineExceededError: it was stopped; has the partial result as ``output``.
        """
        if not plan:
            change |= {"score": score, "expected": expected}
            handle = self._start_fork(row, span, variant=variant, repeat=repeat, ensemble=ensemble, **change)
            made: MapResult = handle._run_to_end()
            return made
        found = self._find_rows(row, variant, repeat)
        if len(found) > 1:
            raise ValidationError(f"plan=True is of one row, got {len(found)}. All rows run the same.")
        return self._find_ensemble(found[0], ensemble)._plan_fork(found[0].output, span, **change)

    def _start_fork(
        self,
        row: AnyRows,
        span: Any,
        *,
        variant: str | None = None,
        repeat: int | None = None,
        ensemble: RunnableEnsemble | None = None,
        **given: Any,
    ) -> Any:
        """The handle of a fork of rows, which has not begun. Arguments and errors as of `fork`. Not for users."""
        pairs = [(each, self._find_ensemble(each, ensemble)) for each in self._find_rows(row, variant, repeat)]
        return pairs[0][1]._start_row_forks(self, pairs, span, **given)

    def _find_ensemble(self, row: RowResult, given: RunnableEnsemble | None) -> RunnableEnsemble:
        """What a row is to run.

        Raises:
            ValidationError: that is not known.
        """
        own = None if row.output is None else row.output.ensemble
        known = next((each for each in (given, own, self.ensemble) if each is not None and each._can_run), None)
        if known is None and row.variant is not None:
            raise ValidationError(
                f"What variant {row.variant!r} ran is not known here, since it was loaded: name it with ensemble=..."
            )
        return known or self.ensemble  # which finds it by the cell of the map

    def _list_variants(self) -> Sequence[str]:
        """As scores keep them. Not for users."""
        variants = self.variants or ()
        return variants if self._shows_texts else [f"variant {place}" for place in range(len(variants))]

    def _list_scored(self) -> Iterator[RunToScore]:
        """The runs of its rows that ended well, for whoever scores them. Not for users."""
        return (self._make_scored(each) for each in self.rows if each.is_done and each.output is not None)

    def _make_scored(self, row: RowResult) -> RunToScore:
        assert row.output is not None
        inputs = {**self.ensemble.inputs, **row.inputs}
        return RunToScore(name=row.name, run=row.output, inputs=inputs, place=self._describe_place(row))

    def _find_rows(self, rows: AnyRows, variant: str | None = None, repeat: int | None = None) -> list[RowResult]:
        """The runs that are meant, each once.

        Raises:
            ValidationError: there is none, or of one of the rows there are several.
        """
        given = [rows] if isinstance(rows, int | str | RowResult) or not isinstance(rows, Iterable) else [*rows]
        if not given:
            raise ValidationError("No row is named: give a row, or a list of rows.")
        found = [self._find_row(each, variant, repeat) for each in given]
        return list({each.name: each for each in found}.values())

    def _find_row(self, row: int | str | RowResult, variant: str | None, repeat: int | None) -> RowResult:
        """The one run that is meant.

        Raises:
            ValidationError: there is none, or there are several.
        """
        names = list(dict.fromkeys(each.row for each in self.rows))
        if isinstance(row, bool) or not isinstance(row, int | str | RowResult):
            raise ValidationError(f"row must be a place, a name or a row of this result, got {row!r}.")
        if isinstance(row, RowResult):
            found = [each for each in self.rows if each is row or each.name == row.name]
        elif isinstance(row, str):
            found = [each for each in self.rows if row in (each.name, each.row)]
        else:
            found = [each for each in self.rows if 0 <= row < len(names) and each.row == names[row]]
        if not found:
            near = did_you_mean(row, (*names, *(each.name for each in self.rows))) if isinstance(row, str) else ""
            raise ValidationError(f"There is no row {row!r}: {say_how_many(len(names), 'row')}.{near}")
        variant = None if variant is None else find_variant(self, variant)
        found = [each for each in found if variant in (None, each.variant) and repeat in (None, each.repeat)]
        if not found:
            raise ValidationError(f"Row {row!r} has no repeat {repeat!r}.")
        if len(found) > 1:
            lacking = "variant" if len({each.variant for each in found}) > 1 else "repeat"
            known = " or ".join(dict.fromkeys(repr(getattr(each, lacking)) for each in found))
            raise ValidationError(f"Row {row!r} has {len(found)} runs: say which {lacking}={known}.")
        if found[0].output is None:
            raise ValidationError(f"{found[0].name} has no run: {found[0].reason or found[0].status}.")
        return found[0]

    def _describe_place(self, row: RowResult) -> dict[str, Any]:
        """Where a score of a row belongs, as fields of a `ScoreRecord`; by place, where names are texts that go.

        Args:
            row: a row of this result that has run.
        """
        variants = dict(zip(self.variants or (), self._list_variants(), strict=True))
        return {
            "run_id": row.run_id,
            "map_run_id": None if self._last_output is None else self._last_output.run_id,
            "variant": None if row.variant is None else variants[row.variant],
            "row": row.row or None,
            "repeat": row.repeat,
        }

    @property
    def frames(self) -> Frames | None:
        """The trace of the map as DataFrames, of the same map as `trace`; None if there never was a row to run."""
        return None if self._scored_output is None else self._scored_output.frames

    @property
    def timeline(self) -> Any:
        """The interactive timeline of the map, of the same map as `trace`; None if there never was a row to run."""
        output = self._last_output
        return None if output is None else render_view("timeline", output, self)

    @property
    def selection(self) -> list[Any]:
        """Labels of the rows that are selected in the views of the map: ``result.frame.loc[result.selection]``.

        A row counts where something in it is selected. Setting it, to a list or an index of labels, selects the rows
        in all views.

        Raises:
            ValidationError: when it is set to a label that no row of the views has.
        """
        return [] if self._last_output is None else list(self._row_selection.selection)

    @selection.setter
    def selection(self, labels: Any) -> None:
        if self._last_output is None:
            raise ValidationError("The map had no row to run, so there is nothing to select.")
        self._row_selection.select(labels)

    def observe(self, handler: Callable[[Any], Any]) -> None:
        """Call a function with each change of `selection`, on the thread that changed it; a second time adds nothing.

        Args:
            handler: is given the change, with ``old`` and ``new``.
        """
        if self._last_output is not None:
            self._row_selection.observe(handler, "selection")

    def unobserve(self, handler: Callable[[Any], Any]) -> None:
        """Call the function no more.

        Args:
            handler: that `observe` was given.
        """
        if self._last_output is not None:
            self._row_selection.unobserve(handler, "selection")

    @cached_property
    def _row_selection(self) -> Any:
        return render_view("row_selection", self)

    @cached_property
    def frame(self) -> RowFrame:
        """One row per given row, with the given index.

        Columns: status, raw (or the fields of the final task's typed output), error, error_type, http_status,
        input_tokens, output_tokens, cost, duration_ms, active_ms, human_wait_ms, idle_ms, run_id, reused, and then the
        inputs of the row, each by its name (``input_NAME`` where another column has that). With variants, their names
        are the first level of the index; with repeats, their numbers are the last one. Scores follow the output, with
        ``score_error`` where a scorer failed. Secrets are masked; ``result[0].raw`` is as the model gave it.
        """
        return make_row_frame(
            [self._make_record(each) for each in self.rows],
            self._index,
            self._fields,
            inputs=self.input_names,
            variants=None if self.variants is None else [each.variant for each in self.rows],
            repeats=None if self.repeats is None else [each.repeat for each in self.rows],
            notes=[mask(each) for each in list_score_warnings(self.score_records)],
        )

    @property
    def variants(self) -> tuple[str, ...] | None:
        """The names of the variants, in order; None if there are none."""
        names = tuple(dict.fromkeys(each.variant for each in self.rows if each.variant is not None))
        return names or None

    @property
    def repeats(self) -> int | None:
        """How often each row was to run; None if it ran once, without a number."""
        return max((each.repeat for each in self.rows if each.repeat is not None), default=None)

    @property
    def _row_count(self) -> int:
        """How many rows there are, however often each ran."""
        return len(self.rows) // (len(self.variants or ("",)) * (self.repeats or 1))

    def _describe_sameness(self) -> str | None:
        """Say that repeats told nothing new: ``5 repeats of 40 rows never differed``; None where they did, or failed.

        Then all runs of a row gave the same text, as those of a scripted model, or of one at temperature 0.
        """
        count = self.repeats
        if count is None or count == 1 or not self.rows:
            return None
        groups = [self.rows[at : at + count] for at in range(0, len(self.rows), count)]
        if not all(each.is_done for each in self.rows) or any(
            len({each.raw for each in group}) > 1 for group in groups
        ):
            return None
        rows = f" of {pluralize(self._row_count, 'row')}" if any(each.row for each in self.rows) else ""
        variants = f" under {pluralize(len(self.variants), 'variant')}" if self.variants else ""
        return f"{count} repeats{rows}{variants} never differed."

    def export(self, path: str | os.PathLike[str], *, formulas: Formulas = "text") -> Path:
        """Write the map as the end of the name says: ``.csv``, ``.jsonl`` and ``.parquet`` have `frames.rows`.

        ``.eval`` is a log of inspect_ai, for ``inspect view``: a row is a sample, a repeat an epoch. ``.html`` is a
        report: the verdict, the first 5,000 rows, and the run. ``.svg`` and ``.trace.json`` are those of the run of the
        map, as `ExecutionTrace.export` writes them.

        Args:
            path: of the file; what is there is replaced.
            formulas: of a ``.csv``: ``"text"`` writes an apostrophe before texts that a spreadsheet would evaluate
                (those that begin with ``= + - @``, a tab or a line end, and are no numbers), which ``--map`` takes away
                again; ``"keep"`` writes them as they are.

        Returns:
            The file.

        Raises:
            ValidationError: no format has this ending, or there was never a row to run.
            MissingPackageError: the format needs a package that is not installed.
            OSError: it can't be written.
        """
        from ensemble_notebook.ensemble.many_runs.map_files import export_map

        return export_map(self, read_path(path, "path"), formulas)

    def _get_spending(self, row: RowResult) -> RowSpending:
        """The tokens, cost and time of a row, in this map or in the one that `resume` took it from.

        Args:
            row: a row of this result.
        """
        return row._spending or self._spent.get(row.name, NOTHING_SPENT)

    @cached_property
    def _spent(self) -> Mapping[str, RowSpending]:
        if self.output is None or self.trace is None:
            return {}
        return sum_spending(self.trace._fold, {each.name for each in self.rows})

    def _make_record(self, row: RowResult) -> RowRecord:
        final = row.output.get_final_output() if self._fields and row.output is not None and row.is_done else None
        value = None if final is None else final.parsed_output
        return RowRecord(
            status=row.status,
            raw=None if row.raw is None else clean_text(row.raw),
            fields={} if value is None else _read_fields(value, self._fields),
            error=row.error,
            reason=row.reason,
            run_id=row.run_id,
            spending=self._get_spending(row),
            reused=row.reused,
            inputs=_read_fields(row.inputs, self.input_names),
            scores=self._scores_by_run.get(row.run_id or "", ()),
        )

    @cached_property
    def _scores_by_run(self) -> Mapping[str, Sequence[ScoreRecord]]:
        return group_by_run(each for each in self.score_records if each.span_id is None)

    def _get_pickled_state(self) -> dict[str, Any]:
        """The state for pickling; without texts of the rows where no texts are kept."""
        state = {name: value for name, value in vars(self).items() if name not in _NOT_PICKLED}
        if self._shows_texts:
            return state
        names: dict[str | None, str] = {name: f"variant {number}" for number, name in enumerate(self.variants or ())}
        rows = tuple(
            replace(each, index=None, inputs=dict.fromkeys(each.inputs), reason="", variant=names.get(each.variant))
            for each in self.rows
        )
        scores = tuple(each.without_texts() for each in self._score_records)
        return {**state, "rows": rows, "_index": None, "_score_records": scores}

    def describe(self) -> str:
        """The result in a sentence: ``12 rows: 11 completed, 1 failed, 4.1k tokens, $0.012, 7.9 s``.

        With variants it begins with ``12 rows under 2 variants``, or after `Variants.run` with ``2 variants``; with
        repeats, with ``12 rows x 3 repeats``.
        """
        counts = Counter(each.status for each in self.rows)
        parts = [f"{count:,} {status.replace('_', ' ')}" for status, count in counts.items()]
        if self.output is not None:
            metrics = self.metrics
            if metrics.llm_call_count:
                more = "" if metrics.tokens_complete else "at least "
                parts.append(f"{more}{format_count(metrics.total_tokens)} tokens")
            if metrics.cost is not None and metrics.llm_call_count:
                whole = metrics.total.cost
                more = "" if whole in (None, metrics.cost) else f" of {format_money(whole, metrics.currency)} in all"
                parts.append(f"{format_money(metrics.cost, metrics.currency)}{more}")
            parts.append(format_duration(self.output.total_duration))
        repeats = None if self.repeats is None else pluralize(self.repeats, "repeat")
        variants = pluralize(len(self.variants), "variant") if self.variants else None
        is_alone = (
            self._index is None and self._row_count == 1 and (variants or not any(each.row for each in self.rows))
        )
        if is_alone and (variants or repeats):  # what `Variants.run` and `run` with repeats give
            size = " x ".join(filter(None, [variants, repeats]))
        else:
            size = " x ".join(filter(None, [pluralize(self._row_count, "row"), repeats]))
            size += f" under {variants}" if variants else ""
        return ": ".join([size, *filter(None, [", ".join(parts)])])

    @property
    def _shows_texts(self) -> bool:
        """Whether views of the result may show texts."""
        return self._capture_mode is not CaptureMode.METADATA

    def __repr__(self) -> str:
        """The sentence."""
        return f"<MapResult {self.describe()}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("map", self)


def _read_fields(value: Any, names: Iterable[str]) -> dict[str, Any]:
    fields = value if isinstance(value, Mapping) else {name: getattr(value, name, None) for name in names}

    def mask_field(name: str, value: Any) -> Any:
        """The value as a frame may have it: itself where no secret is in it, else masked, as plain lists and dicts."""
        if isinstance(value, str):
            return clean_value(name, value) if type(value) is str else value  # an enum's member is no text
        return to_plain(value) if has_secret(repr(value)) else value

    return {name: mask_field(name, fields.get(name)) for name in names}
