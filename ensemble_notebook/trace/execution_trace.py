"""The trace of one run (T2): its events, folded once they are asked for.

Knows nothing of pandas until `frames` is used, and nothing of how a run is carried out or shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason, RunKind, RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.limits import CostConfiguration, Price
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.domain.outputs.task_output import Metrics
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.domain.text_filter import mask_event
from ensemble_notebook.domain.wording import format_duration, pluralize
from ensemble_notebook.errors import Pickled, ValidationError
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span, list_pending
from ensemble_notebook.trace.task_traces import PhaseTrace, RunParts, TaskTrace

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.run_diff import RunDiff
    from ensemble_notebook.trace.analysis.transcript import Transcript
    from ensemble_notebook.trace.analysis.what_if import Prediction
    from ensemble_notebook.trace.frames import Frames
    from ensemble_notebook.trace.plots import Plots


class HasTrace(Protocol):
    """The output of a run."""

    @property
    def trace(self) -> ExecutionTrace:
        """Of the run."""


class ExecutionTrace(Pickled):
    """What a run left behind: finished, failed, interrupted, or as far as it has come.

    Args:
        events: of one run, in order; copied.
        cost: own rates; None: the public price list.
        prices: of the attempts, by span id, as they were when the trace was written; None: to be looked up.
        scores: of the run, or of the rows of a map, in the order in which they were given.

    Attributes:
        cost: as given.
    """

    def __init__(
        self,
        events: Iterable[Event],
        cost: CostConfiguration | None = None,
        prices: Mapping[str, Price] | None = None,
        scores: Iterable[ScoreRecord] = (),
    ) -> None:
        self._events: tuple[Event, ...] = tuple(events)
        self.cost = cost
        self._prices = prices
        self._scores: tuple[ScoreRecord, ...] = tuple(scores)

    @classmethod
    def from_events(cls, events: Iterable[Event], cost: CostConfiguration | None = None) -> ExecutionTrace:
        """Make the trace of these events. They are folded when something is first read.

        Args:
            events: of one run, in order.
            cost: own rates; None: the public price list.
        """
        return cls(events, cost)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The stream that everything else is made from, secrets masked."""
        return tuple(mask_event(event) for event in self._events)

    @cached_property
    def scores(self) -> tuple[ScoreRecord, ...]:
        """The scores that count, in the order in which they were given; secrets masked."""
        texts = ("name", "label", "reason", "error", "scorer", "author", "variant", "row", "pair_of", "against")
        cleaned = []
        for each in list_current(self._scores):
            record = each if self.capture_mode is not CaptureMode.METADATA else each.without_texts()
            values: dict[str, Any] = {name: value for name in texts if (value := getattr(record, name)) is not None}
            safe: dict[str, Any] = {name: clean_text(value) for name, value in values.items()}
            cleaned.append(record if safe == values else replace(record, **safe))
        return tuple(cleaned)

    def _with_scores(self, scores: Iterable[ScoreRecord]) -> ExecutionTrace:
        """The trace of the same run with more scores.

        Args:
            scores: of the run, or of the rows of a map.
        """
        made = ExecutionTrace(self._events, self.cost, self._prices, (*self._scores, *scores))
        if "_fold" in vars(self):
            made._fold = self._fold
            made._fold.add_scores(made._scores)
        return made

    @cached_property
    def _fold(self) -> TraceFold:
        """The events, folded. For views; not to be added to."""
        fold = TraceFold.from_events(self._events, self.cost, self._prices)
        fold.add_scores(self._scores)
        return fold

    def _take_fold(self, fold: TraceFold) -> bool:
        """Use a fold that was made of these events while they came, unless it lacks some of them.

        Args:
            fold: made with the same rates; nothing may be added to it any more.

        Returns:
            Whether it is used.
        """
        with fold.lock:
            is_whole = fold.event_count == len(self._events) and self._prices is None
        if is_whole:
            vars(self).setdefault("_fold", fold).add_scores(self._scores)
        return is_whole

    @property
    def run_id(self) -> str:
        """The id of the run; empty where nothing had started."""
        return self._fold.run_id

    @property
    def name(self) -> str | None:
        """The name of the ensemble; None where it has none."""
        return self._fold.name

    @property
    def kind(self) -> RunKind:
        """What the run is: run, map, rerun, fork or nested."""
        return self._fold.kind

    @property
    def forked_from_run(self) -> str | None:
        """The id of the run that it forks, or makes a call of again; None where it does neither."""
        return self._fold.forked_from_run

    @property
    def forked_from_span(self) -> str | None:
        """The id of the span of that run at which it does."""
        return self._fold.forked_from_span

    @property
    def changed(self) -> tuple[str, ...]:
        """What it changes there: the names of the arguments."""
        return self._fold.changed

    @property
    def workflow(self) -> str | None:
        """The workflow of the ensemble."""
        return self._fold.workflow

    @property
    def inputs(self) -> Mapping[str, str]:
        """The template variables as text, with secrets masked."""
        return self._fold.inputs

    @property
    def plan(self) -> ExecutionPlan | None:
        """What was going to happen."""
        return self._fold.plan

    @property
    def status(self) -> RunStatus:
        """How the run ended, or stands."""
        return self._fold.status

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why it ended; None before."""
        return self._fold.exit_reason

    @property
    def capture_mode(self) -> CaptureMode:
        """How much was recorded."""
        return self._fold.capture_mode

    @property
    def agents(self) -> tuple[PlannedAgent, ...]:
        """Who took part, as the run began with them."""
        return self._fold.agents

    @property
    def errors(self) -> tuple[Span, ...]:
        """The spans where something failed first, in order of failure: each failure once."""
        failed = [span for span in self.spans if span.is_origin and span.status is SpanStatus.ERROR]
        return tuple(sorted(failed, key=lambda span: span.end_seq or 0))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the run, in order of appearance."""
        return tuple(self._fold.warnings)

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls of reviewed tools that wait for an answer, in the order in which they were left; secrets masked."""
        left = (call for _, call in list_pending(self.spans))
        return tuple(replace(each, arguments=to_plain(each.arguments or {})) for each in left)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All spans, in order of first appearance: what was planned first, then as it came."""
        return tuple(self._fold.spans.values())

    @property
    def metrics(self) -> Metrics:
        """The sums over the leaves of the run."""
        return self._fold.metrics

    @property
    def started_at(self) -> datetime | None:
        """When the run started, in UTC."""
        return None if self._fold.run is None else self._fold.run.start_time

    @property
    def ended_at(self) -> datetime | None:
        """When the run ended, in UTC; None before that."""
        return None if self._fold.run is None else self._fold.run.end_time

    @property
    def duration(self) -> timedelta | None:
        """How long the run took on the monotonic clock; None before the end."""
        return None if self._fold.run is None else self._fold.run.duration

    @property
    def tasks(self) -> tuple[TaskTrace, ...]:
        """The tasks of the plan, in order of declaration, also those that never ran; then reviewers."""
        return self._parts.tasks

    @property
    def phases(self) -> tuple[PhaseTrace, ...]:
        """One per phase, in order of declaration; those that never ran included. Empty for a flat run."""
        return self._parts.phases

    def task(self, name: str) -> TaskTrace:
        """The part of the trace that belongs to one task.

        Args:
            name: of a task of the plan, or of a delegated one.

        Raises:
            KeyError: no task has this name; suggests the nearest.
        """
        return self._parts.find_task(name)

    @cached_property
    def frames(self) -> Frames:
        """The trace as DataFrames."""
        from ensemble_notebook.trace.frames import Frames

        return Frames(self._fold, self._events, self.scores)

    def diff(self, other: ExecutionTrace | HasTrace) -> RunDiff:
        """What changed from this run to the other one: rows by path, and the texts that are not the same.

        Args:
            other: a trace, or an output; of any run, finished or not.

        Raises:
            ValidationError: it is neither.
        """
        from ensemble_notebook.trace.analysis.run_diff import RunDiff

        trace = other if isinstance(other, ExecutionTrace) else getattr(other, "trace", None)
        if not isinstance(trace, ExecutionTrace):
            raise ValidationError(f"diff compares with an output or a trace, got {type(other).__name__}.")
        return RunDiff(self._fold, trace._fold)

    def messages(self, task: str | None = None, agent: str | None = None) -> Transcript:
        """What agents were told and said, in reading order, as a chat: all of it, of a task, or of an agent.

        Args:
            task: the name of a task, with all that was handed on in it; None: all.
            agent: the role of an agent; None: all.

        Raises:
            ValidationError: no task or agent has this name; suggests the nearest.
        """
        from ensemble_notebook.trace.analysis.transcript import Transcript

        return Transcript(self._fold, task, agent)

    def what_if(
        self,
        *,
        max_concurrency: int | None = None,
        speedup: Mapping[str, float] | None = None,
        drop_waits: bool | str | Iterable[str] = False,
    ) -> Prediction:
        """Predict how long the run would have taken under other conditions.

        Its schedule is carried out again, with the same tasks, dependencies and durations but for what is changed.

        Args:
            max_concurrency: the most tasks that run at the same time; None: as in the run.
            speedup: factors by which a task, by its name, or a kind of span (``"llm"``, ``"tool"``, ...) is faster; 2
                is twice as fast. For a task, the factor divides its time and that of all spans in it. For a kind, it
                divides the own time of its spans: a tool without what it delegates, a model call without waits and
                back-off.
            drop_waits: True for all waits, or the names of those that would have taken no time: ``"rate_limit"``,
                ``"budget"``, ``"connection"``, ``"backoff"``, ``"review"``.

        Raises:
            ValidationError: the run has not ended, or has no task, kind or wait of that name; suggests the nearest.
        """
        from ensemble_notebook.trace.analysis.what_if import predict

        return predict(self._fold, max_concurrency, speedup, drop_waits)

    def fork(self, span: Any, **change: Any) -> Any:
        """Run again from a span on, with a change there, where the store has the run and the cell that it came from.

        Args:
            span: a model call, a tool call or a task of this run, or its id.
            **change: what is different there, `until` which task it goes, and settings: see `Ensemble.fork`.

        Returns:
            The `EnsembleOutput` of the fork.

        Raises:
            StoreError: the store does not have the run, such as one of another framework.
            ValidationError: its cell is not known, or names what the notebook does not have; or as of `Ensemble.fork`.
        """
        return render_view("fork", self.run_id, span, change)

    def rerun(self, span: Any, **change: Any) -> Any:
        """Make one model call of the run again; see `EnsembleOutput.rerun`.

        What the model was told comes from the store, where that has the run, and else from this trace, which does not
        know what the model knew of tools: then none is offered.

        Args:
            span: the model call, or its id.
            **change: what is different, and settings; `llm` among it, where the cell of the run is not known.

        Returns:
            The `Rerun`.

        Raises:
            ValidationError: there is no such call, what it was told is not kept, or its model is not known.
        """
        return render_view("loaded_output", self).rerun(span, **change)

    @property
    def plot(self) -> Plots:
        """Ready figures, where Altair is installed: tokens, cost, waterfall, concurrency."""
        from ensemble_notebook.trace.plots import Plots

        return Plots(self.frames)

    @cached_property
    def _parts(self) -> RunParts:
        return RunParts(self._fold)

    def to_dict(self) -> dict[str, Any]:
        """The JSON shape of the trace: plain values, secrets masked."""
        from ensemble_notebook.trace.trace_json import to_document

        return to_document(self._fold, self._events, self._parts, self.cost, self.scores)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace as JSON, compressed where the name ends in ``.gz``.

        Folders are made. An older file is replaced once the new one is complete.

        Args:
            path: of the file.

        Returns:
            The path of the file.

        Raises:
            ValidationError: it is no path, or the address of something elsewhere.
            OSError: the file can't be written.
        """
        from ensemble_notebook.trace.trace_file import write_trace_file

        return write_trace_file(self.to_dict(), read_path(path, "path"))

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace to a file; the end of the name selects the format.

        ``.trace.json`` and ``.trace.json.gz`` are what `save` writes, ``.html`` a report as one page that needs no
        network, ``.svg`` a picture, ``.parquet`` the table of spans (needs pyarrow),
        ``.chrome.json`` the trace event format, for Perfetto and Chrome's tracing page. ``.otlp.json`` spans of
        OpenTelemetry.

        Args:
            path: of the file.

        Returns:
            The path of the file.

        Raises:
            ValidationError: no format has this ending, or it is an address.
            MissingPackageError: the format needs a package that is not installed.
            OSError: the file can't be written; an older file is still there.
        """
        from ensemble_notebook.trace.run_files import find_format

        place = read_path(path, "path")
        return find_format(place)(self, place)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ExecutionTrace:
        """Read a trace that `save` or AgentEnsemble has written, or a session of Claude Code or Codex.

        Args:
            path: of the file.

        Raises:
            ValidationError: it is no path, or an address.
            OSError: there is no such file.
            TraceFormatError: the file is no trace, or an incomplete one; names the place.
        """
        from ensemble_notebook.trace.session_files import without_collection
        from ensemble_notebook.trace.trace_file import read_trace_file

        with without_collection():
            saved = read_trace_file(read_path(path, "path"))
        trace = cls(saved.events, saved.cost, saved.prices, saved.scores)
        trace._fold = saved.fold  # made already, to see whether the events are sound
        trace._fold.add_scores(saved.scores)
        return trace

    def _get_pickled_state(self) -> dict[str, Any]:
        """The events are enough; the rest is folded again."""
        scores = self._scores if self.capture_mode is not CaptureMode.METADATA else self.scores
        return {"_events": self._events, "cost": self.cost, "_prices": self._prices, "_scores": scores}

    def __repr__(self) -> str:
        """Name, status and size."""
        took = "" if self.duration is None else f", {format_duration(self.duration)}"
        tasks = pluralize(len(self.tasks), self._fold.task_noun)
        return f"ExecutionTrace({self.name or self.run_id!r}, {self.status}, {tasks}{took})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("trace", self)
