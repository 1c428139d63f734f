"""Resolves each task that starts: what it reads, what of that is missing and why (E28, E32, E33)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, sinks
from ensemble_notebook.domain.planning.graph import Graph, PhaseNode, TaskNode
from ensemble_notebook.engine.specs.resolved_task import MissingOutput, ResolvedTask, Revision


class TaskResolver:
    """Resolves the tasks of one run.

    Args:
        graph: of the run.
        plan: of the graph.
        outputs: by index of their tasks; grows while the run goes on.
    """

    def __init__(self, graph: Graph, plan: ExecutionPlan, outputs: Mapping[int, TaskOutput]) -> None:
        self._graph = graph
        self._plan = plan
        self._outputs = outputs
        self._last = frozenset(sinks(graph))
        self._absences: dict[int, str] = {}
        self._revisions: dict[int, Revision] = {}

    def resolve(self, node: TaskNode) -> ResolvedTask:
        """What a task is given that starts now."""
        return ResolvedTask(
            description=self._plan.tasks[node.index].description,
            context=self.outputs_of(node.context),
            missing=tuple([self._missing(index) for index in node.context if index not in self._outputs]),
            revision=None if node.phase is None else self._revisions.get(node.phase),
            is_last=node.index in self._last,
        )

    def outputs_of(self, tasks: Iterable[int]) -> tuple[TaskOutput, ...]:
        """The outputs of these tasks that are there, in the same order."""
        return tuple([self._outputs[index] for index in tasks if index in self._outputs])

    def note_absence(self, task: int, reason: str) -> None:
        """A task will have no output, for a reason in a few words."""
        self._absences[task] = reason

    def attempt(self, phase: PhaseNode) -> int:
        """How often the tasks of a phase have been started, the present attempt included."""
        revision = self._revisions.get(phase.index)
        return 1 if revision is None else revision.attempt

    def revise(self, phase: PhaseNode, feedback: str) -> None:
        """The tasks of a phase are to be done once more, with this feedback."""
        self._revisions[phase.index] = Revision(attempt=self.attempt(phase) + 1, feedback=feedback)

    def revision(self, phase: PhaseNode) -> Revision:
        """Of a phase that was sent back."""
        return self._revisions[phase.index]

    def _missing(self, index: int) -> MissingOutput:
        row = self._plan.tasks[index]
        reason = self._absences.get(index, "it has no output")
        return MissingOutput(name=row.name, agent_role=row.agent, description=row.description, reason=reason)
