"""The manager of a hierarchical run: what it is told, whom it may ask, and what it must have done (E22, E25)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.hierarchy import (
    DELEGATE_TASK,
    MANAGER_ROLE,
    HierarchicalConstraints,
    ManagedTask,
)
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.engine.delegation.constraint_tracker import ConstraintTracker
from ensemble_notebook.engine.delegation.manager_prompt import DefaultManagerPrompt
from ensemble_notebook.engine.delegation.team_members import TeamMembers
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import ConstraintViolationError


class Manager:
    """The manager of one run, as a `Delegator` and as the agent of the run's only task.

    Attributes:
        delegated: what its workers completed, in order of completion.
    """

    role: Final = MANAGER_ROLE
    tool: Final = DELEGATE_TASK
    depth: Final = 1
    work_prefix: Final = ""

    def __init__(self, spec: RunSpec, team: TeamMembers) -> None:
        self.delegated: list[TaskOutput] = []
        self._graph = spec.graph
        self._team = team
        constraints = spec.constraints or HierarchicalConstraints()
        self._tracker = ConstraintTracker(constraints)
        self._prompt = spec.manager_prompt or DefaultManagerPrompt(constraints)

    async def write_prompts(
        self, description: str, inputs: Mapping[str, Any], caller: FunctionCaller
    ) -> tuple[str, str]:
        """The system prompt, and what the user prompt is about.

        Args:
            description: of the run's only task, resolved, as a review before it may have left it.
            inputs: fill the variables in the texts of the tasks.
            caller: asks a prompt strategy, which may be the user's.

        Raises:
            TypeError: the strategy gave no text.
        """
        tasks = _list_managed_tasks(self._graph, inputs, description)
        texts = (
            await caller.call("manager_prompt", self._prompt.system, self._team.agents),
            await caller.call("manager_prompt", self._prompt.user, tasks),
        )
        for name, text in zip(("system", "user"), texts, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"manager_prompt.{name} must return a text, and returned {type(text).__name__}.")
        return texts

    def list_roles(self) -> tuple[str, ...]:
        return self._team.list_roles()

    def find_objection(self, role: str) -> str | None:
        return self._team.find_objection(role) or self._tracker.find_objection(role)

    def note_approved(self, role: str) -> None:
        self._tracker.note_approved(role)

    def note_refused(self, role: str, reason: str) -> None:
        self._tracker.note_refused(role, reason)

    def note_completed(self, output: TaskOutput) -> None:
        self._tracker.note_completed(output.agent_role)
        self.delegated.append(output)

    def write_reminder(self) -> str | None:
        """What it is told when it says that it is done and is not; None where it is."""
        if not (violations := self._tracker.list_violations()):
            return None
        lines = "\n".join(f"- {each}" for each in violations)
        return (
            f"You are not done yet: these constraints are not met.\n{lines}\n\n"
            f"Delegate what is missing now with {self.tool}, then give your final answer again, complete."
        )

    def check_constraints(self) -> None:
        """It says that it is done: everybody who was required has delivered.

        Raises:
            ConstraintViolationError: not so.
        """
        if violations := self._tracker.list_violations():
            raise ConstraintViolationError(violations, self.delegated)


def _list_managed_tasks(graph: Graph, inputs: Mapping[str, Any], description: str) -> tuple[ManagedTask, ...]:
    """The tasks of a hierarchical run, resolved; where there is but one, its description is that of the manager."""
    return tuple(
        ManagedTask(
            name=node.name,
            description=description if len(graph.managed) == 1 else render(node.task.description, inputs),
            expected_output=render(node.task.expected_output, inputs),
            inputs=inputs,
            builds_on=tuple(graph.managed[index].name for index in node.context),
            suggested_worker=None if node.task.agent is None else node.role,
        )
        for node in graph.managed
    )
