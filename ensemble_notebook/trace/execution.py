"""The trace of one run (T2): its events, folded once they are asked for.

Knows nothing of pandas until `frames` is used, and nothing of how a run is carried out or shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.choice import ExitReason, RunStatus
from ensemble_notebook.domain.cost import CostConfiguration
from ensemble_notebook.domain.event import Event
from ensemble_notebook.domain.metric import Metrics
from ensemble_notebook.domain.plan import ExecutionPlan
from ensemble_notebook.errors import did_you_mean
from ensemble_notebook.trace.fold import TraceFold
from ensemble_notebook.trace.span import Message, Span, SpanKind

if TYPE_CHECKING:
    from ensemble_notebook.trace.frame import Frames


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTrace:
    """The part of a trace that belongs to one task.

    Attributes:
        name: of the task.
        span: its own span: status, times, agent, output, error.
        spans: its own and all beneath, in order of first appearance.
        messages: prompts, replies and tool results, in order.
        metrics: sums over its leaves (T2).
    """

    name: str
    span: Span
    spans: tuple[Span, ...]
    messages: tuple[Message, ...]
    metrics: Metrics


class ExecutionTrace:
    """What a run left behind: finished, failed, interrupted, or as far as it has come.

    Args:
        events: of one run, in order; copied.
        cost: own rates; None: the public price list (T10).

    Attributes:
        events: the stream that everything else is made from.
    """

    def __init__(self, events: Iterable[Event], cost: CostConfiguration | None = None) -> None:
        self.events = tuple(events)
        self._cost = cost

    @classmethod
    def from_events(cls, events: Iterable[Event], cost: CostConfiguration | None = None) -> ExecutionTrace:
        """The trace of these events. Costs nothing yet: they are folded at first use."""
        return cls(events, cost)

    @cached_property
    def fold(self) -> TraceFold:
        """The events, folded. For views; not to be added to."""
        return TraceFold.of(self.events, self._cost)

    @property
    def run_id(self) -> str:
        """Empty where nothing had started."""
        return self.fold.run_id

    @property
    def name(self) -> str | None:
        """Of the ensemble."""
        return self.fold.name

    @property
    def workflow(self) -> str | None:
        """Of the ensemble."""
        return self.fold.workflow

    @property
    def inputs(self) -> Mapping[str, str]:
        """Template variables as text, secrets masked."""
        return self.fold.inputs

    @property
    def plan(self) -> ExecutionPlan | None:
        """What was going to happen."""
        return self.fold.plan

    @property
    def status(self) -> RunStatus:
        """How the run ended, or stands."""
        return self.fold.status

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why it ended; None before."""
        return self.fold.exit_reason

    @property
    def warnings(self) -> tuple[str, ...]:
        """In order of appearance."""
        return tuple(self.fold.warnings)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All spans, in order of first appearance: what was planned first, then as it came."""
        return tuple(self.fold.spans.values())

    @property
    def metrics(self) -> Metrics:
        """Sums over the leaves of the run (T2)."""
        return self.fold.metrics

    @property
    def started_at(self) -> datetime | None:
        """UTC."""
        return None if self.fold.run is None else self.fold.run.start_time

    @property
    def ended_at(self) -> datetime | None:
        """UTC; None before the end."""
        return None if self.fold.run is None else self.fold.run.end_time

    @property
    def duration(self) -> timedelta | None:
        """On the monotonic clock (T4); None before the end."""
        duration_ms = None if self.fold.run is None else self.fold.run.duration_ms
        return None if duration_ms is None else timedelta(milliseconds=duration_ms)

    @cached_property
    def tasks(self) -> tuple[TaskTrace, ...]:
        """One per task, in order of declaration; those that never ran included (T1)."""
        beneath: dict[str, list[Span]] = {}
        for span in self.spans:
            if span.task_id is not None:
                beneath.setdefault(span.task_id, []).append(span)
        return tuple(
            TaskTrace(
                name=span.name,
                span=span,
                spans=tuple(beneath[span.span_id]),
                messages=tuple(self.fold.messages.get(span.span_id, ())),
                metrics=self.fold.metrics_of(span),
            )
            for span in self.spans
            if span.kind is SpanKind.TASK
        )

    def task(self, name: str) -> TaskTrace:
        """The part of one task.

        Raises:
            KeyError: no task has this name; says which one is nearest.
        """
        found = self._tasks_by_name.get(name)
        if found is None:
            raise KeyError(f"No task {name!r} in this trace.{did_you_mean(name, self._tasks_by_name)}")
        return found

    @cached_property
    def frames(self) -> Frames:
        """The trace as DataFrames (T20, T21)."""
        from ensemble_notebook.trace.frame import Frames

        return Frames(self.fold, self.events)

    @cached_property
    def _tasks_by_name(self) -> dict[str, TaskTrace]:
        return {task.name: task for task in self.tasks}

    def __getstate__(self) -> dict[str, Any]:
        """The events are enough; the rest is folded again."""
        return {"events": self.events, "_cost": self._cost}

    def __repr__(self) -> str:
        """Name, status and size."""
        took = "" if self.duration is None else f", {self.duration.total_seconds():.1f} s"
        return f"ExecutionTrace({self.name or self.run_id!r}, {self.status}, {len(self.tasks)} tasks{took})"
