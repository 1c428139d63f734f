"""The manager of a hierarchical run: what it is told, whom it may ask, and what it must have done (E22, E25)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.hierarchy import (
    DELEGATE_TASK,
    MANAGER_GOAL,
    MANAGER_ROLE,
    HierarchicalConstraints,
    ManagedTask,
)
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.engine.agent.prompts import system_prompt
from ensemble_notebook.engine.delegation.constraint_tracker import ConstraintTracker
from ensemble_notebook.engine.delegation.team_members import TeamMembers, quote_roles
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import ConstraintViolationError

_HOW_TO: Final = (
    f"You do no task yourself. Hand the work to your workers with the tool {DELEGATE_TASK}(agent_role, "
    f"task_description). A worker sees nothing but what you write there, so give it all that it needs, results of "
    f"others included. When every task is done, reply with the final answer."
)


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

    async def prompts(self, description: str, inputs: Mapping[str, Any], caller: FunctionCaller) -> tuple[str, str]:
        """The system prompt, and what the user prompt is about.

        Args:
            description: of the run's only task, resolved, as a review before it may have left it.
            inputs: fill the variables in the texts of the tasks.
            caller: asks a prompt strategy, which may be the user's.

        Raises:
            TypeError: the strategy gave no text.
        """
        tasks = _managed_tasks(self._graph, inputs, description)
        texts = (
            await caller.call("manager_prompt", self._prompt.system, self._team.agents),
            await caller.call("manager_prompt", self._prompt.user, tasks),
        )
        for name, text in zip(("system", "user"), texts, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"manager_prompt.{name} must return a text, and returned {type(text).__name__}.")
        return texts

    def available(self) -> tuple[str, ...]:
        return self._team.roles()

    def objection(self, role: str) -> str | None:
        return self._team.objection(role) or self._tracker.objection(role)

    def approved(self, role: str) -> None:
        self._tracker.approve(role)

    def completed(self, output: TaskOutput) -> None:
        self._tracker.complete(output.agent_role)
        self.delegated.append(output)

    def check(self) -> None:
        """It says that it is done: everybody who was required has delivered.

        Raises:
            ConstraintViolationError: not so.
        """
        if violations := self._tracker.violations():
            raise ConstraintViolationError(violations, self.delegated)


def _managed_tasks(graph: Graph, inputs: Mapping[str, Any], description: str) -> tuple[ManagedTask, ...]:
    """The tasks of a hierarchical run, resolved; where there is but one, its description is that of the manager."""
    return tuple(
        ManagedTask(
            name=node.name,
            description=description if len(graph.managed) == 1 else render(node.task.description, inputs),
            expected_output=render(node.task.expected_output, inputs),
            inputs=inputs,
            builds_on=tuple(graph.managed[index].name for index in node.context),
            suggested_worker=None if node.task.agent is None else node.task.agent.role,
        )
        for node in graph.managed
    )


class DefaultManagerPrompt:
    """The strategy where the ensemble has none: a roster, rules and a list of tasks.

    Async, since it waits for nothing: it needs no thread, as the user's own do.
    """

    def __init__(self, constraints: HierarchicalConstraints) -> None:
        self._rules = tuple(_rules(constraints))

    async def system(self, workers: Sequence[Agent]) -> str:
        sections = [system_prompt(Agent(role=MANAGER_ROLE, goal=MANAGER_GOAL), MANAGER_GOAL), _HOW_TO]
        sections.append("\n".join(["## Workers", *map(_introduction, workers)]))
        if self._rules:
            sections.append("\n".join(["## Rules", *(f"- {rule}" for rule in self._rules)]))
        return "\n\n".join(sections)

    async def user(self, tasks: Sequence[ManagedTask]) -> str:
        return "\n\n".join(["## Tasks", *map(_task_section, tasks)])


def _introduction(worker: Agent) -> str:
    lines = [f"### {worker.role}", f"Goal: {worker.goal.strip()}"]
    if worker.background and worker.background.strip():
        lines.append(f"Background: {worker.background.strip()}")
    return "\n".join(lines)


def _task_section(task: ManagedTask) -> str:
    lines = [f"### {task.name}", task.description, f"Expected output: {task.expected_output}"]
    if task.builds_on:
        lines.append(f"Builds on the results of: {', '.join(task.builds_on)}")
    if task.suggested_worker is not None:
        lines.append(f"Suggested worker: {task.suggested_worker}")
    return "\n".join(lines)


def _rules(constraints: HierarchicalConstraints) -> Iterable[str]:
    """The constraints in words, so that a manager does not have to learn them from refusals."""
    if constraints.allowed_workers:
        yield f"Delegate only to: {quote_roles(constraints.allowed_workers)}."
    if constraints.required_workers:
        yield f"Delegate at least once to each of: {quote_roles(constraints.required_workers)}."
    if constraints.global_max_delegations:
        yield f"Delegations in total: at most {constraints.global_max_delegations}."
    for role, cap in constraints.max_calls_per_worker.items():
        yield f"Delegations to {role!r}: at most {cap}."
    for number, stage in enumerate(constraints.required_stages, start=1):
        before = "" if number == 1 else f", after everybody of stage {number - 1} is done"
        yield f"Stage {number}: {quote_roles(stage)}{before}."
