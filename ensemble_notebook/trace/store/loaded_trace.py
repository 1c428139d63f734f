"""The trace of a run from the store; one that was cut off gets the end that it never came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus, SpanStatus, Workflow
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.analysis.timeseries import measure_activity
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.formats.trace_file import check_events
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunFacts, RunSummary
from ensemble_notebook.trace.store.store_reader import SIGNS_OF_DAMAGE

Pace = Callable[[Iterable[ev.Event]], Iterable[ev.Event]]


def make_trace(
    run: RememberedRun, events: Sequence[ev.Event], pace: Pace = iter, scores: Sequence[ScoreRecord] = ()
) -> ExecutionTrace:
    """The trace of these events, folded, so that what is wrong with them shows now.

    Args:
        run: that they are of.
        events: in order; the end of a run that was cut off need not be among them.
        pace: gives them one by one, for who folds them beside other work.
        scores: of the run, in the order in which they were given.

    Raises:
        StoreError: they are not those of one run.
    """
    events = complete_events(run, events)
    try:
        trace = ExecutionTrace(events, run.facts.cost, scores=scores)
        trace.fold = TraceFold.from_events(pace(events), run.facts.cost)
        if trace.fold.run is None:
            raise ValueError("no run has started")
        trace.fold.name = trace.fold.name or run.facts.name  # no event of earlier versions knows the variable
    except SIGNS_OF_DAMAGE as error:
        raise _explain_damage(run, error) from error
    return trace


def complete_events(run: RememberedRun, events: Sequence[ev.Event]) -> Sequence[ev.Event]:
    """The events, checked, with the end that a run that was cut off never came to.

    What was answered is stored before all else (T30), so a run may have no event: then it has begun, and that is all.

    Raises:
        StoreError: they are not those of one run.
    """
    if not events and run.status is RunStatus.INTERRUPTED:
        events = [_make_start(run.facts)]
    try:
        check_events(events)
    except SIGNS_OF_DAMAGE as error:
        raise _explain_damage(run, error) from error
    return [*events, *_make_end(events)] if run.status is RunStatus.INTERRUPTED else events


def _explain_damage(run: RememberedRun, error: Exception) -> StoreError:
    reason = f"{type(error).__name__}: {error}"
    return StoreError(f"Run {run.run_id} can't be read from the store: its events are damaged ({reason}).")


def summarize_trace(trace: ExecutionTrace) -> RunSummary | None:
    """What a run came to; None for one that has not begun."""
    found = measure_activity(trace.fold)
    metrics = trace.metrics
    return (
        None
        if not found
        else RunSummary(
            tasks=0 if trace.plan is None else trace.plan.total_tasks,
            tasks_done=trace.fold.tree.task_counts[SpanStatus.OK],
            input_tokens=metrics.input_tokens,
            output_tokens=metrics.output_tokens,
            cost=metrics.cost,
            currency=metrics.currency,
            wall_ms=found[0].wall_ms,
            inputs=dict(trace.inputs),
        )
    )


def _make_start(facts: RunFacts) -> ev.RunStarted:
    return ev.RunStarted(
        run_id=facts.run_id,
        seq=0,
        span_id=facts.run_id,
        parent_id=None,
        time=facts.started_at,
        offset_s=0.0,
        name=facts.name,
        workflow=Workflow.SEQUENTIAL.value,
        inputs={},
        max_concurrency=None,
        capture_mode=facts.capture_mode,
        resumed_from=facts.resumed_from,
    )


def _make_end(events: Sequence[ev.Event]) -> list[ev.Event]:
    """The last event of a run whose process was gone before; none where it has one, or has not begun."""
    if not events or isinstance(events[-1], ev.RunEnded):
        return []
    first, last = events[0], max(events, key=lambda event: event.offset_s)
    end = ev.RunEnded(
        run_id=first.run_id,
        seq=events[-1].seq + 1,
        span_id=first.span_id,
        parent_id=first.parent_id,
        time=last.time,
        offset_s=last.offset_s,
        status=RunStatus.INTERRUPTED,
        exit_reason=ExitReason.INTERRUPTED,
        is_cut_off=True,
    )
    return [end]
