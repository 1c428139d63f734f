"""Finds the failed tasks in a run's events, so that a resumed run does not repeat the reply that failed (C33)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.domain.events import Event, PhaseEnded, PhaseRetried, ReviewAnswered, TaskFailed, TaskStarted
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.asking_task import make_task_path


class FailedTasks:
    """A sink of one run's events.

    A task of the plan has failed if its event says so. A review task completes even if it objects; but if the phase
    then ends with the objection, it counts as failed, so that a resumed run asks the reviewer again.

    Args:
        graph: of the run.
        tell: called with the path of each failed task.
    """

    def __init__(self, graph: Graph, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._reviewers = {each.name: each.reviewer.name for each in graph.phases if each.reviewer is not None}
        self._planned: set[str] = set()
        self._objected: set[str] = set()
        self._notes: dict[type[Event], Any] = {
            TaskStarted: self._note_start,
            TaskFailed: self._note_failure,
            ReviewAnswered: self._note_answer,
            PhaseRetried: self._note_retry,
            PhaseEnded: self._note_end,
        }

    def on_event(self, event: Event) -> None:
        """Take in the next event."""
        note = self._notes.get(type(event))
        if note is not None:
            note(event)

    def _note_start(self, event: TaskStarted) -> None:
        if event.index is not None:  # what is delegated, reviews or is in a nested run has none
            self._planned.add(event.span_id)

    def _note_failure(self, event: TaskFailed) -> None:
        if event.task is not None and event.status is SpanStatus.ERROR and event.span_id in self._planned:
            self._tell(make_task_path(event.task, event.phase))

    def _note_answer(self, event: ReviewAnswered) -> None:
        is_objection = event.decision is None or event.decision.verdict is not Verdict.APPROVE
        if event.task is None and event.phase is not None and is_objection:
            self._objected.add(event.phase)

    def _note_retry(self, event: PhaseRetried) -> None:
        self._objected.discard(event.phase or "")

    def _note_end(self, event: PhaseEnded) -> None:
        phase = event.phase
        if phase is not None and phase in self._objected and phase in self._reviewers:
            self._tell(make_task_path(self._reviewers[phase], phase))
