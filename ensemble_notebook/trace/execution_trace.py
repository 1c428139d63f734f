"""The trace of one run (T2): its events, folded once they are asked for.

Knows nothing of pandas until `frames` is used, and nothing of how a run is carried out or shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.cost import CostConfiguration, Price
from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason, RunStatus, SpanStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.events.masked_event import mask_event
from ensemble_notebook.domain.outputs.metrics import Metrics
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.errors import Pickled, did_you_mean
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.run_parts import RunParts
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.task_traces import PhaseTrace, TaskTrace

if TYPE_CHECKING:
    from ensemble_notebook.trace.frames import Frames


class ExecutionTrace(Pickled):
    """What a run left behind: finished, failed, interrupted, or as far as it has come.

    Args:
        events: of one run, in order; copied.
        cost: own rates; None: the public price list (T10).
        prices: of the attempts, by span id, as they were when the trace was written; None: to be looked up.

    Attributes:
        cost: as given.
    """

    def __init__(
        self,
        events: Iterable[Event],
        cost: CostConfiguration | None = None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self._events: tuple[Event, ...] = tuple(events)
        self.cost = cost
        self._prices = prices

    @classmethod
    def from_events(cls, events: Iterable[Event], cost: CostConfiguration | None = None) -> ExecutionTrace:
        """The trace of these events. Costs nothing yet: they are folded at first use."""
        return cls(events, cost)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The stream that everything else is made from, secrets masked (E69)."""
        return tuple(mask_event(event) for event in self._events)

    @cached_property
    def fold(self) -> TraceFold:
        """The events, folded. For views; not to be added to."""
        return TraceFold.from_events(self._events, self.cost, self._prices)

    @property
    def run_id(self) -> str:
        """The id of the run; empty where nothing had started."""
        return self.fold.run_id

    @property
    def name(self) -> str | None:
        """The name of the ensemble; None where it has none."""
        return self.fold.name

    @property
    def workflow(self) -> str | None:
        """The workflow of the ensemble."""
        return self.fold.workflow

    @property
    def inputs(self) -> Mapping[str, str]:
        """The template variables as text, with secrets masked."""
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
    def capture_mode(self) -> CaptureMode:
        """How much was recorded (T6)."""
        return self.fold.capture_mode

    @property
    def agents(self) -> tuple[PlannedAgent, ...]:
        """Who took part, as the run began with them."""
        return self.fold.agents

    @property
    def errors(self) -> tuple[Span, ...]:
        """The spans where something failed first, in order of failure: each failure once."""
        failed = [span for span in self.spans if span.is_origin and span.status is SpanStatus.ERROR]
        return tuple(sorted(failed, key=lambda span: span.end_seq or 0))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the run, in order of appearance."""
        return tuple(self.fold.warnings)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All spans, in order of first appearance: what was planned first, then as it came."""
        return tuple(self.fold.spans.values())

    @property
    def metrics(self) -> Metrics:
        """The sums over the leaves of the run (T2)."""
        return self.fold.metrics

    @property
    def started_at(self) -> datetime | None:
        """When the run started, in UTC."""
        return None if self.fold.run is None else self.fold.run.start_time

    @property
    def ended_at(self) -> datetime | None:
        """When the run ended, in UTC; None before that."""
        return None if self.fold.run is None else self.fold.run.end_time

    @property
    def duration(self) -> timedelta | None:
        """How long the run took on the monotonic clock (T4); None before the end."""
        return None if self.fold.run is None else self.fold.run.duration

    @property
    def tasks(self) -> tuple[TaskTrace, ...]:
        """The tasks of the plan, in order of declaration, also those that never ran (T1); then reviewers."""
        return self._parts.tasks

    @property
    def phases(self) -> tuple[PhaseTrace, ...]:
        """One per phase, in order of declaration; those that never ran included (T1). Empty for a flat run."""
        return self._parts.phases

    def task(self, name: str) -> TaskTrace:
        """The part of one task, of the plan or delegated.

        Raises:
            KeyError: no task has this name; says which one is nearest.
        """
        found = self._parts.find_task(name)
        if found is None:
            raise KeyError(f"No task {name!r} in this trace.{did_you_mean(name, self._parts.task_names)}")
        return found

    @cached_property
    def frames(self) -> Frames:
        """The trace as DataFrames (T20, T21)."""
        from ensemble_notebook.trace.frames import Frames

        return Frames(self.fold, self._events)

    @cached_property
    def _parts(self) -> RunParts:
        return RunParts(self.fold)

    def to_dict(self) -> dict[str, Any]:
        """The JSON shape of the trace (T11): plain values, secrets masked."""
        from ensemble_notebook.trace.formats.trace_json import to_document

        return to_document(self.fold, self._events, self._parts, self.cost)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON; gives the file. Folders are made; an older file is replaced once the new one is whole.

        Raises:
            OSError: it can't be written.
        """
        from ensemble_notebook.trace.formats.trace_file import write_trace_file

        return write_trace_file(self.to_dict(), Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ExecutionTrace:
        """Read a trace that was saved here, or one that AgentEnsemble has written (T12).

        Raises:
            OSError: there is no such file.
            TraceFormatError: it is no trace, or not a whole one; names the place.
        """
        from ensemble_notebook.trace.formats.trace_file import read_trace_file

        saved = read_trace_file(Path(path))
        trace = cls(saved.events, saved.cost, saved.prices)
        trace.fold = saved.fold  # made already, to see whether the events are sound
        return trace

    def get_pickled_state(self) -> dict[str, Any]:
        """The events are enough; the rest is folded again."""
        return {"_events": self._events, "cost": self.cost, "_prices": self._prices}

    def __repr__(self) -> str:
        """Name, status and size."""
        took = "" if self.duration is None else f", {format_duration(self.duration)}"
        return f"ExecutionTrace({self.name or self.run_id!r}, {self.status}, {len(self.tasks)} tasks{took})"
