"""The result of a map: a result for each row, in order, and a table of all rows (E72)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.outputs.metrics import Metrics
from ensemble_notebook.domain.outputs.record import Record
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.errors import Pickled, ValidationError, add_origin, did_you_mean, summarize_error
from ensemble_notebook.trace.analysis.row_table import (
    NO_FIELDS,
    NOTHING_SPENT,
    RowRecord,
    RowSpending,
    make_row_frame,
    sum_spending,
)

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.row_table import RowFrame
    from ensemble_notebook.trace.comparison.run_diff import RunDiff
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.frames import Frames

Score = Callable[[EnsembleOutput], Any]
SKIPPED: Final = "skipped"
_DONE: Final = frozenset({"completed", "completed_with_warnings", "exited_early"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowResult(Record):
    """The result of one row.

    Attributes:
        index: label of the row in the given index; without an index, its number, from 0.
        inputs: the values of the row.
        output: output of its run, complete or partial; None if it did not run.
        error: the exception that its run failed with; None if it did not fail.
        status: a `RunStatus` value; ``"skipped"`` if it did not run.
        reason: why it was skipped; otherwise empty.
        name: its name in the timeline and the trace of the map.
        run_id: id of its run; None if it did not run.
        spending: its tokens, cost and time in an earlier map, for a row taken over by `resume`; None otherwise.
        variant: the variant that it ran under; None if there are no variants.
    """

    index: Any
    inputs: Mapping[str, Any]
    output: EnsembleOutput | None = None
    error: BaseException | None = None
    status: str = SKIPPED
    reason: str = ""
    name: str = ""
    run_id: str | None = None
    spending: RowSpending | None = field(default=None, repr=False)
    variant: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the row is completed, so that `resume` takes it over."""
        return self.status in _DONE

    @property
    def raw(self) -> str | None:
        """Text of its final task; None if it is not completed."""
        return self.output.raw if self.output is not None and self.is_done else None


class MapResult(Pickled):
    """The result of a map, complete or partial. Every given row is in it, whether it ran or not.

    ``result[0]`` or ``result["row 0"]`` is a `RowResult`; iterating gives all of them.

    Attributes:
        ensemble: what ran.
        output: the `EnsembleOutput` of the map, which is a run with a task for each row; None if there were no rows to
            run.
        rows: the results, in the order of the given rows.
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
        score: Score | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.rows: tuple[RowResult, ...] = tuple(rows)
        self.output = output
        self._index = index
        self._fields = dict(fields)
        self._warnings = tuple(warnings)
        self._capture_mode = capture_mode
        self._score = score

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
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the map and of the score function, in order."""
        return (*self._warnings, *(() if self.output is None else self.output.warnings))

    @property
    def metrics(self) -> Metrics:
        """Sums over this map. Rows taken over by `resume` count nothing."""
        return Metrics() if self.output is None else self.output.metrics

    @property
    def trace(self) -> ExecutionTrace | None:
        """The trace of the map, with the traces of its rows inside; None if there were no rows to run."""
        return None if self.output is None else self.output.trace

    @property
    def frames(self) -> Frames | None:
        """The trace of the map as DataFrames; None if there were no rows to run."""
        return None if self.output is None else self.output.frames

    @property
    def timeline(self) -> Any:
        """The interactive timeline of the map; None if there were no rows to run."""
        return None if self.output is None else self.output.timeline

    @cached_property
    def frame(self) -> RowFrame:
        """One row per given row, with the given index.

        Columns: status, raw (or the fields of the final task's typed output), error, input_tokens, output_tokens, cost,
        duration_ms, run_id. With variants, their names are the first level of the index, and ``score`` follows the
        output.
        """
        return make_row_frame(
            [self._make_record(each) for each in self.rows],
            self._index,
            self._fields,
            variants=None if self.variants is None else [each.variant for each in self.rows],
            scores=self.scores,
        )

    @property
    def variants(self) -> tuple[str, ...] | None:
        """The names of the variants, in order; None if there are none."""
        names = tuple(dict.fromkeys(each.variant for each in self.rows if each.variant is not None))
        return names or None

    def diff(self, a: str, b: str, row: int = 0) -> RunDiff:
        """Compare two variants, as `EnsembleOutput.diff` does (T22).

        Args:
            a: name of a variant.
            b: name of another variant.
            row: position of the row, from 0. After `Variants.run` there is only one.

        Raises:
            ValidationError: there is no such variant or row, or that row has not run.
        """
        from ensemble_notebook.trace.comparison.run_diff import RunDiff

        (first, first_name), (second, second_name) = self._find_run(a, row), self._find_run(b, row)
        return RunDiff(first.trace.fold, second.trace.fold, (first_name, second_name))

    def _find_run(self, variant: str, row: int) -> tuple[EnsembleOutput, str]:
        """The run of a variant, and what the timeline calls it."""
        rows = [each for each in self.rows if each.variant == variant]
        if not rows:
            names = self.variants or ()
            raise ValidationError(f"No variant is called {variant!r}.{did_you_mean(variant, names)}")
        if not -len(rows) <= row < len(rows):
            raise ValidationError(f"There are {pluralize(len(rows), 'row')}, so row must be 0 to {len(rows) - 1}.")
        output = rows[row].output
        if output is None:
            raise ValidationError(f"{rows[row].name} has no run: {rows[row].reason or rows[row].status}.")
        return output, rows[row].name

    @cached_property
    def scores(self) -> Sequence[Any] | None:
        """The results of the score function, in order of the rows; None if there is no such function.

        An element is None if its row is not completed, or its score failed. The function is called once per row, when
        this is first read.
        """
        if self._score is None:
            return None
        return [self._rate(each) if each.is_done and each.output is not None else None for each in self.rows]

    def _rate(self, row: RowResult) -> Any:
        assert self._score is not None
        assert row.output is not None
        try:
            return self._score(row.output)
        except Exception as error:  # noqa: BLE001 - it is the user's, and the other rows have a score (E59)
            reason = add_origin(summarize_error(error), error)
            self._warnings = (*self._warnings, f"The score of {row.name} failed: {reason}")
            return None

    def get_spending(self, row: RowResult) -> RowSpending:
        """The tokens, cost and time of a row, in this map or in the one that `resume` took it from.

        Args:
            row: a row of this result.
        """
        return row.spending or self._spending.get(row.name, NOTHING_SPENT)

    @cached_property
    def _spending(self) -> Mapping[str, RowSpending]:
        return {} if self.output is None else sum_spending(self.output.trace.fold, {each.name for each in self.rows})

    def _make_record(self, row: RowResult) -> RowRecord:
        error = row.reason or None if row.error is None else add_origin(summarize_error(row.error), row.error)
        value = _find_typed_value(row) if self._fields else None
        return RowRecord(
            status=row.status,
            raw=row.raw,
            fields={} if value is None else _read_fields(value, self._fields),
            error=error,
            run_id=row.run_id,
            spending=self.get_spending(row),
        )

    def get_pickled_state(self) -> dict[str, Any]:
        """The state for pickling; without texts of the rows where no texts are kept (T6a)."""
        state = {name: value for name, value in vars(self).items() if name != "frame"} | {
            "scores": self.scores,
            "_score": None,
        }
        if self.shows_texts:
            return state
        return {**state, "rows": tuple(_without_texts(each) for each in self.rows), "_index": None}

    def describe(self) -> str:
        """The result in a sentence: ``12 rows: 11 completed, 1 failed, 4.1k tokens, $0.012, 7.9 s``.

        With variants it begins with ``12 rows under 2 variants``, or after `Variants.run` with ``2 variants``.
        """
        counts = Counter(each.status for each in self.rows)
        parts = [f"{count:,} {status.replace('_', ' ')}" for status, count in counts.items()]
        if self.output is not None:
            metrics = self.metrics
            if metrics.llm_call_count:
                more = "" if metrics.tokens_complete else "at least "
                parts.append(f"{more}{format_count(metrics.total_tokens)} tokens")
            if metrics.cost is not None and metrics.llm_call_count:
                parts.append(format_money(metrics.cost, metrics.currency))
            parts.append(format_duration(self.output.total_duration))
        return ": ".join([self._describe_size(), *filter(None, [", ".join(parts)])])

    def _describe_size(self) -> str:
        if not self.variants:
            return pluralize(len(self), "row")
        variants = pluralize(len(self.variants), "variant")
        if self._index is None and len(self) == len(self.variants):  # what `Variants.run` gives
            return variants
        return f"{pluralize(len(self) // len(self.variants), 'row')} under {variants}"

    @property
    def shows_texts(self) -> bool:
        """Whether views of the result may show texts (T6a)."""
        return self._capture_mode is not CaptureMode.METADATA

    def __repr__(self) -> str:
        """The sentence."""
        return f"<MapResult {self.describe()}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("map", self)


def _without_texts(row: RowResult) -> RowResult:
    return RowResult(
        index=None,
        inputs=dict.fromkeys(row.inputs),
        output=row.output,
        error=row.error,
        status=row.status,
        name=row.name,
        run_id=row.run_id,
        spending=row.spending,
    )


def _find_typed_value(row: RowResult) -> Any:
    """The typed output of the final task of a row; None where there is none."""
    if row.output is None or not row.is_done:
        return None
    final = row.output.get_final_output()
    return None if final is None else final.parsed_output


def _read_fields(value: Any, names: Iterable[str]) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {name: value.get(name) for name in names}
    return {name: getattr(value, name, None) for name in names}
