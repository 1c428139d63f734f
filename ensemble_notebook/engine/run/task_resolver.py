"""Resolves each task that starts: what it reads, and what of that is missing and why (E28, E32, E33)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, find_final_tasks
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
        self._plan = plan
        self._outputs = outputs
        self._last = frozenset(find_final_tasks(graph))
        self._reasons_of_absence: dict[int, str] = {}
        self._revisions: dict[int, Revision] = {}

    def resolve(self, node: TaskNode) -> ResolvedTask:
        """What a task is given that starts now."""
        planned = self._plan.tasks[node.index]
        return ResolvedTask(
            node=node,
            description=planned.description,
            expected_output=planned.expected_output,
            context=self.find_outputs(node.context),
            missing=tuple([self._describe_missing(index) for index in node.context if index not in self._outputs]),
            revision=None if node.phase is None else self._revisions.get(node.phase),
            is_last=node.index in self._last,
        )

    def find_outputs(self, tasks: Iterable[int]) -> tuple[TaskOutput, ...]:
        """The outputs of these tasks that are there, in the same order."""
        return tuple([self._outputs[index] for index in tasks if index in self._outputs])

    def note_absence(self, task: int, reason: str) -> None:
        """Remember that a task will have no output, for a reason in a few words."""
        self._reasons_of_absence[task] = reason

    def count_attempts(self, phase: PhaseNode) -> int:
        """How often the tasks of a phase have been started, the present attempt included."""
        revision = self._revisions.get(phase.index)
        return 1 if revision is None else revision.attempt

    def send_back(self, phase: PhaseNode, feedback: str) -> None:
        """Let the tasks of a phase be done once more, with this feedback."""
        self._revisions[phase.index] = Revision(attempt=self.count_attempts(phase) + 1, feedback=feedback)

    def get_revision(self, phase: PhaseNode) -> Revision:
        """The revision of a phase that was sent back."""
        return self._revisions[phase.index]

    def _describe_missing(self, index: int) -> MissingOutput:
        planned = self._plan.tasks[index]
        reason = self._reasons_of_absence.get(index, "it has no output")
        return MissingOutput(
            name=planned.name, agent_role=planned.agent, description=planned.description, reason=reason
        )
