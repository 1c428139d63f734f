"""Several runs in a row, each beside the one before it: what was changed, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.outputs.secrets import mask_repr
from ensemble_notebook.domain.outputs.task_output import Metrics
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import format_count, format_duration, format_money
from ensemble_notebook.errors import SuggestsNames
from ensemble_notebook.trace.analysis.timeseries import find_latest_ms
from ensemble_notebook.trace.comparison.row_diffs import format_difference
from ensemble_notebook.trace.comparison.run_diff import RunDiff, describe_side
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table, as_frame

if TYPE_CHECKING:
    from ensemble_notebook.trace.comparison.row_diffs import RowDiff


@dataclass(frozen=True)
class ComparedRun:
    """One run, and what changed since the one before.

    Attributes:
        fold: of the run.
        diff: from the latest earlier run of the same name; None where there is none.
    """

    fold: TraceFold
    diff: RunDiff | None

    @property
    def metrics(self) -> Metrics:
        """Its sums."""
        return self.fold.metrics

    @cached_property
    def wall_ms(self) -> float:
        """How long it took, or how far it has come."""
        return find_latest_ms(self.fold)

    @property
    def row(self) -> RowDiff | None:
        """How it differs as a whole."""
        return None if self.diff is None else self.diff.run_row

    @property
    def outputs_changed(self) -> int | None:
        """How many tasks wrote something else; None where nothing was compared, or no texts were kept."""
        if self.diff is None or not self.diff.has_texts:
            return None
        return sum(row.output_changed is True for row in self.diff.task_rows)


def _read_delta(name: str) -> Any:
    return lambda compared: None if compared.row is None else getattr(compared.row, name)


def _read_text(name: str) -> Any:
    return lambda compared: (None if compared.diff is None else str(getattr(compared.diff, name))) or None


HISTORY: Final = Table(
    "run, newest first. What changed is told from the latest earlier run of the same name",
    Column("run_id", "string", "unique", "fold.run_id", is_nullable=False),
    (
        Column("name", "category", "of the ensemble", "fold.name"),
        Column("start_time", UTC_TIME, "when it started", "fold.run.start_time"),
        Column("status", "category", "how it ended, or stands", "fold.status.value"),
        Column(
            "compared_with", "string", "run_id of the run before", lambda each: each.diff and each.diff.before.run_id
        ),
        Column(
            "inputs",
            "object",
            "dict of the template variables, as text; NA where there are none",
            lambda each: dict(each.fold.inputs) or None,
        ),
        Column("definition", "string", "what was declared otherwise, with the words marked", _read_text("definition")),
        Column("prompts", "string", "what was asked otherwise, with the words marked", _read_text("prompts")),
        Column("outputs", "string", "what was written otherwise, with the words marked", _read_text("outputs")),
        Column("outputs_changed", "Int64", "how many tasks wrote something else"),
        Column("input_tokens", "Int64", "known part", "metrics.input_tokens"),
        Column("output_tokens", "Int64", "known part", "metrics.output_tokens"),
        Column("cost", "Float64", "known part, in currency", "metrics.cost"),
        Column("currency", "category", "of the cost", "metrics.currency"),
        Column("wall_ms", "Float64", "from start to end, or to its last event"),
        Column("delta_ms", "Float64", "more than the run before", _read_delta("delta_ms")),
        Column("delta_input_tokens", "Int64", "more than the run before", _read_delta("delta_input_tokens")),
        Column("delta_output_tokens", "Int64", "more than the run before", _read_delta("delta_output_tokens")),
        Column("delta_cost", "Float64", "more than the run before, in currency", _read_delta("delta_cost")),
    ),
)


@mask_repr
class RunHistory(SuggestsNames):
    """Runs in a row; a notebook shows it as one table, and `frame` has the same as data.

    Args:
        folds: of the runs, newest first. Those at the end that nothing is told of serve to compare with.
        shown: how many of them are told of.
    """

    def __init__(self, folds: Sequence[TraceFold], shown: int) -> None:
        self.runs = [ComparedRun(fold, _compare(fold, folds[place + 1 :])) for place, fold in enumerate(folds[:shown])]

    @as_frame(HISTORY)
    def frame(self) -> Sequence[ComparedRun]:
        return self.runs

    def __repr__(self) -> str:
        """Each run with its inputs, what it took, and what changed."""
        return "\n\n".join(map(_describe, self.runs)) or "No run is remembered yet."

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("run_history", self)


def describe_amounts(compared: ComparedRun) -> tuple[tuple[str, ...], ...]:
    """Time, tokens and cost of a run, each with how much more that is than before, where it was compared."""
    metrics, row = compared.metrics, compared.row
    money = partial(format_money, currency=metrics.currency)
    amounts = format_duration(compared.wall_ms), format_count(metrics.total_tokens), money(metrics.cost)
    if row is None:
        return tuple((amount,) for amount in amounts)
    more = (
        format_difference(row.delta_ms, format_duration),
        format_difference(row.delta_tokens, format_count),
        format_difference(row.delta_cost, money),
    )
    return tuple(zip(amounts, more, strict=True))


def _compare(fold: TraceFold, earlier: Sequence[TraceFold]) -> RunDiff | None:
    before = next((each for each in earlier if each.name == fold.name), None)
    return None if before is None else RunDiff(before, fold)


def _describe(compared: ComparedRun) -> str:
    amounts = zip(("time", "tokens", "cost"), describe_amounts(compared), strict=True)
    lines = [
        describe_side(compared.fold),
        "  " + ", ".join(f"{name} {' '.join(parts)}" for name, parts in amounts),
        *(f"  input {name}: {value}" for name, value in compared.fold.inputs.items()),
    ]
    if (diff := compared.diff) is not None:
        lines.append(f"  since {diff.before.run_id[:8]}: {diff.task_summary}")
        for title, changes in diff.list_parts():
            lines += [f"  {title}", *(f"    {line}".rstrip() for line in changes.splitlines())]
        lines += [f"  {rest}" for rest in [diff.describe_rest()] if rest]
    return "\n".join(lines)
