"""The tasks and phases of one run as typed parts, put together from its fold.

Knows what a trace is made of; files and frames know this, and not the other way round.
"""

from __future__ import annotations

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.task_traces import PhaseTrace, TaskTrace


class RunParts:
    """The parts of one run, made from its fold.

    Attributes:
        tasks: those of the plan, in order of declaration, those that never ran included (T1); then reviewers of phases,
            and items of tasks that run for each of a list.
        phases: in order of declaration, those that never ran included (T1); empty for a flat run.
    """

    def __init__(self, fold: TraceFold) -> None:
        self._fold = fold
        self._spans = tuple(fold.spans.values())
        self._by_id = self._make_tasks()
        self.tasks = tuple(task for task in self._by_id.values() if task.span.is_own_task)
        phases = (span for span in self._spans if span.kind is SpanKind.PHASE and span.nested_in is None)
        self.phases = tuple(map(self._make_phase, phases))

    def find_task(self, name: str) -> TaskTrace | None:
        """The task of this name: one of the plan before delegated work, the latest where there are several."""
        for tasks in (self.tasks, tuple(self._by_id.values())):
            if found := [task for task in tasks if task.name == name]:
                return found[-1]
        return None

    @property
    def task_names(self) -> list[str]:
        """The names of all tasks, delegated ones included."""
        return [task.name for task in self._by_id.values()]

    def _make_tasks(self) -> dict[str, TaskTrace]:
        """All tasks by the ids of their spans, in order of these; delegated work is made before what delegated it."""
        beneath: dict[str, list[Span]] = {}
        for span in self._spans:
            if span.task_id is not None:
                beneath.setdefault(span.task_id, []).append(span)
        made: dict[str, TaskTrace] = {}
        workers: dict[str | None, list[TaskTrace]] = {}
        spans = [span for span in self._spans if span.kind is SpanKind.TASK]
        for span in sorted(spans, key=lambda each: each.depth, reverse=True):
            made[span.span_id] = task = TaskTrace(
                name=span.name,
                span=span,
                spans=tuple(beneath[span.span_id]),
                messages=tuple(self._fold.messages.get(span.span_id, ())),
                metrics=self._fold.sum_metrics(span),
                workers=tuple(sorted(workers.get(span.span_id, ()), key=lambda each: each.span.seq)),
                capture_mode=self._fold.capture_mode,
            )
            if span.parent is not None:
                workers.setdefault(span.parent.task_id, []).append(task)
        return {span.span_id: made[span.span_id] for span in spans}

    def _make_phase(self, span: Span) -> PhaseTrace:
        return PhaseTrace(
            name=span.name,
            span=span,
            tasks=tuple(task for task in self.tasks if task.span.parent is span),
            metrics=self._fold.sum_metrics(span),
        )
