"""The spans of a run, its phases and its tasks, and the events of the run itself: from its plan to its end."""

from __future__ import annotations

from ensemble_notebook.domain.events import Noted, PlanMade, RunEnded, RunStarted, Warned
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter
from ensemble_notebook.engine.events.task_timer import GroupTimer, TimedAround
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.engine.specs.run_spec import RunSpec


class RunSpans:
    """All spans that are known before anything runs.

    Args:
        spec: the run.
        stream: takes the events.
        around: what the run's time is a part of, where it is nested in another run (E52).

    Attributes:
        run: the span of the run.
        phases: by index.
        tasks: by index.
    """

    def __init__(self, spec: RunSpec, stream: EventStream, around: TimedAround | None = None) -> None:
        self._spec = spec
        self._stream = stream
        self.run = SpanEmitter(stream, stream.run_id, timer=GroupTimer(stream.offset_s, around))
        self.phases = tuple([self._make_phase_span(phase.name) for phase in spec.graph.phases])
        self.tasks = [self._make_task_span(node) for node in spec.graph.tasks]

    def emit_run_started(self) -> None:
        """The run begins, and this is its plan."""
        spec = self._spec
        self.run.timer.start()
        self.run.emit(
            RunStarted,
            name=spec.name,
            workflow=spec.workflow,
            inputs={name: _to_text(value) for name, value in spec.inputs.items()},
            max_concurrency=spec.max_concurrency,
            budget=spec.budget,
            capture_mode=spec.capture_mode,
            agents=spec.agents,
            replayed_from=spec.replayed_from,
            resumed_from=spec.resumed_from,
            task_noun=spec.task_noun,
        )
        self.run.emit(
            PlanMade,
            plan=spec.get_told_plan(),
            task_span_ids=tuple(span.span_id for span in self.tasks),
            phase_span_ids=tuple(span.span_id for span in self.phases),
        )
        if spec.replayed_from is not None:
            self.run.emit(Noted, message=f"Replaying {spec.replayed_from}: no model is asked.")
        if spec.resumed_from is not None:
            self.run.emit(Noted, message=f"Resuming {spec.resumed_from}: what it has done is not done again.")
        if spec.continued_from is not None:
            self.run.emit(Noted, message=f"Continuing {spec.continued_from}: its tasks go on with their conversations.")
        for message in spec.warnings:
            self.warn(message)

    def emit_run_ended(self, result: RunResult) -> None:
        """The run is over; nothing is emitted any more."""
        self.run.timer.stop()
        self.run.emit(RunEnded, status=result.status, exit_reason=result.exit_reason, error=result.error)
        self._stream.close()

    def warn(self, message: str) -> None:
        """Say something about the run as a whole."""
        self.run.emit(Warned, message=message)

    def _make_phase_span(self, name: str) -> SpanEmitter:
        after = self._spec.plan.phases[name]
        span_id, timer = self._stream.new_span_id(), self.run.timer
        return SpanEmitter(self._stream, span_id, self.run.span_id, phase=name, depends_on=after, timer=timer)

    def _make_task_span(self, node: TaskNode) -> SpanEmitter:
        parent = self.run if node.phase is None else self.phases[node.phase]
        planned = self._spec.plan.tasks[node.index]
        has_items = node.task.for_each is not None
        return parent.task_child(planned.name, planned.phase, planned.depends_on, has_items=has_items)


def _to_text(value: object) -> str:
    """An input as text, for views; a value that has none is no reason not to run."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - it is the user's own `__str__`
        return f"<{type(value).__name__}>"
