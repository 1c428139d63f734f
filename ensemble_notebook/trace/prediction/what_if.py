"""`output.what_if(...)`: how long a run would have taken with other concurrency, faster work or fewer waits (T23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ensemble_notebook.domain.wording import format_duration, format_percent
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.folding.milestones import Milestones, is_linked
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.prediction.inner_time import InnerTimes
from ensemble_notebook.trace.prediction.item_work import split_at_items
from ensemble_notebook.trace.prediction.scenario import read_scenario
from ensemble_notebook.trace.prediction.schedule import Schedule, Times
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.table import Column, Table, as_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedTask:
    """A task that ran, and its predicted times; the attributes are the columns."""

    span: Span
    predicted_start_ms: float
    predicted_end_ms: float
    critical: bool

    @property
    def predicted_duration_ms(self) -> float:
        """From its first start to its last end."""
        return self.predicted_end_ms - self.predicted_start_ms


PREDICTED: Final = Table(
    "task of the plan, or item of one, that ran, in order of its predicted start",
    Column("span_id", "string", "of the task, as in frames.tasks", "span.span_id", is_nullable=False),
    (
        Column("task", "category", "name of the task", "span.name"),
        Column("phase", "category", "name of the phase, NA in a flat ensemble", "span.phase"),
        Column("start_ms", "Float64", "as it was: start, since the run started", "span.start_ms"),
        Column("duration_ms", "Float64", "as it was: from its first start to its last end", "span.duration_ms"),
        Column("predicted_start_ms", "Float64", "start, since the run started"),
        Column("predicted_duration_ms", "Float64", "from its first start to its last end"),
        Column("critical", "boolean", "whether the length of the predicted run hangs on it"),
    ),
)


@dataclass(frozen=True)
class Prediction:
    """How long a run would have taken under other conditions.

    Attributes:
        wall_ms: the predicted length, in milliseconds, as in frames.runs.
        actual_ms: the measured length.
        critical_path: names of the tasks that would determine the length, in order of time.
        tasks: the rows of `frame`.
    """

    wall_ms: float
    actual_ms: float
    critical_path: tuple[str, ...]
    tasks: Sequence[PredictedTask] = field(repr=False)

    @as_frame(PREDICTED)
    def frame(self) -> Sequence[PredictedTask]:
        return self.tasks

    @property
    def saved_ms(self) -> float:
        """How much shorter the run would have been; below 0 if it would have been longer."""
        return self.actual_ms - self.wall_ms

    def __repr__(self) -> str:
        """What it would come to, in a line, and what it would hang on."""
        share = abs(self.saved_ms) / self.actual_ms if self.actual_ms else 0.0
        less = f", {format_percent(share)} {'less' if self.saved_ms > 0 else 'more'}" if share >= 0.005 else ""
        path = f"; critical path: {' → '.join(self.critical_path)}" if self.critical_path else ""
        return f"{format_duration(self.wall_ms)} instead of {format_duration(self.actual_ms)}{less}{path}"


def predict(
    fold: TraceFold,
    max_concurrency: int | None = None,
    speedup: Mapping[str, float] | None = None,
    drop_waits: bool | str | Iterable[str] = False,
) -> Prediction:
    """The prediction for a run; see `ExecutionTrace.what_if`.

    Raises:
        ValidationError: the run has not ended, or the scenario does not fit it.
    """
    run = fold.run
    if run is None or run.end_ms is None or run.start_ms is None:
        raise ValidationError("what_if needs a run that has ended: until then nobody knows how long its tasks take.")
    spans = fold.spans.values()
    scenario = read_scenario(spans, max_concurrency, speedup, drop_waits)
    milestones = Milestones(
        run, [span for span in spans if span is not run and span.end_seq is not None and is_linked(span)]
    )
    milestones.link()
    work = split_at_items(milestones.list_latest_first(), spans)
    schedule, inner_times = Schedule(work, run.start_ms, fold.max_concurrency), InnerTimes(spans)
    lengths = [
        0.0 if (interval := node.milestone.interval) is None else inner_times.predict_ms(interval, scenario)
        for node in schedule.nodes
    ]
    times = schedule.predict(scenario.places, lengths)
    return Prediction(
        wall_ms=times.wall_ms,
        actual_ms=run.end_ms,
        critical_path=_list_critical(schedule, times),
        tasks=_list_tasks(schedule, times),
    )


def _list_critical(schedule: Schedule, times: Times) -> tuple[str, ...]:
    spans = (schedule.nodes[number].milestone for number in times.list_chain())
    names = [
        each.span.item_of or each.span.name
        for each in spans
        if each.interval is not None and each.span.kind is SpanKind.TASK
    ]
    return tuple(dict.fromkeys(names))


def _list_tasks(schedule: Schedule, times: Times) -> list[PredictedTask]:
    found: dict[str, tuple[Span, float, float]] = {}
    for number, node in enumerate(schedule.nodes):
        span = node.milestone.span
        if node.takes_place and span.kind is SpanKind.TASK:
            _, start_ms, end_ms = found.get(span.span_id, (span, times.starts[number], 0.0))
            found[span.span_id] = span, min(start_ms, times.starts[number]), max(end_ms, times.ends[number])
    critical = {schedule.nodes[number].milestone.span.span_id for number in times.list_chain()}
    tasks = [
        PredictedTask(span=span, predicted_start_ms=start_ms, predicted_end_ms=end_ms, critical=span_id in critical)
        for span_id, (span, start_ms, end_ms) in found.items()
    ]
    return sorted(tasks, key=lambda task: (task.predicted_start_ms, task.span.position))
