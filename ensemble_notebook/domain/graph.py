"""Definitions resolved into a graph of numbered nodes: names given, agents found, references followed.

The one place that knows how a list of tasks becomes an order. Everything after it (rules, plan, scheduler, views)
speaks of nodes by number or name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.domain.agent import INHERIT, Agent
from ensemble_notebook.domain.choice import Workflow
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.phase import Phase
from ensemble_notebook.domain.role import HANDLER_ROLE, derived_agent, derived_role
from ensemble_notebook.domain.task import Task
from ensemble_notebook.errors import Problem, did_you_mean

DEFAULT_LLM: Final = "local"


@dataclass(frozen=True, slots=True, eq=False)
class TaskNode:
    """One task in its place.

    Attributes:
        index: position among all tasks, from 0.
        name: unique in the graph.
        agent: who works on it, derived where the task names none; None for a handler.
        llm: the model object or spec that is used; None for a handler.
        phase: index of its phase, or None in a flat graph.
        context: indices of the tasks whose outputs it reads, in order.
        is_chained: True where list order is running order (SEQUENTIAL).
        after: index of the task that must have been *resolved* before a chained one starts; None for the first.
    """

    index: int
    name: str
    task: Task
    agent: Agent | None
    llm: Any
    phase: int | None
    context: tuple[int, ...]
    is_chained: bool
    after: int | None

    @property
    def llm_key(self) -> object:
        """The same for nodes that use the same model: spec texts by value, objects by identity."""
        return self.llm if isinstance(self.llm, str) else id(self.llm)

    @property
    def role(self) -> str:
        """The agent's role, or ``"Handler"``."""
        return HANDLER_ROLE if self.agent is None else self.agent.role


@dataclass(frozen=True, slots=True, eq=False)
class PhaseNode:
    """One phase in its place: its tasks and predecessors by index."""

    index: int
    name: str
    phase: Phase
    workflow: Workflow
    tasks: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """All nodes of an ensemble. `problems` lists the references that could not be followed."""

    tasks: tuple[TaskNode, ...]
    phases: tuple[PhaseNode, ...]
    problems: tuple[Problem, ...]

    def context_names(self, node: TaskNode) -> tuple[str, ...]:
        """Names of the tasks that a task reads."""
        return tuple(self.tasks[index].name for index in node.context)

    def phase_name(self, node: TaskNode) -> str | None:
        """Name of the phase of a task."""
        return None if node.phase is None else self.phases[node.phase].name


def build_graph(ensemble: EnsembleDefinition) -> Graph:
    """Resolve an ensemble. Never raises: what can't be resolved is left out and listed in ``problems``."""
    groups = [phase.tasks for phase in ensemble.phases] if ensemble.phases else [ensemble.tasks]
    tasks = [task for group in groups for task in group]
    problems: list[Problem] = []
    names = _task_names(tasks, problems)
    find_task = _finder("task", tasks, names, problems)
    phase_names = [phase.name for phase in ensemble.phases]
    find_phase = _finder("phase", ensemble.phases, phase_names, problems)
    nodes: list[TaskNode] = []
    phases: list[PhaseNode] = []
    for number, group in enumerate(groups):
        phase = ensemble.phases[number] if ensemble.phases else None
        workflow = (phase and phase.workflow) or ensemble.workflow
        first = len(nodes)
        for task in group:
            index = len(nodes)
            agent, llm = _worker(task, ensemble)
            nodes.append(
                TaskNode(
                    index=index,
                    name=names[index],
                    task=task,
                    agent=agent,
                    llm=llm,
                    phase=None if phase is None else number,
                    context=find_task(task, "context", task.context),
                    is_chained=workflow is Workflow.SEQUENTIAL,
                    after=index - 1 if workflow is Workflow.SEQUENTIAL and index > first else None,
                )
            )
        if phase is not None:
            after = find_phase(phase, "after", phase.after)
            phases.append(PhaseNode(number, phase.name, phase, workflow, tuple(range(first, len(nodes))), after))
    return Graph(tuple(nodes), tuple(phases), tuple(problems))


def _worker(task: Task, ensemble: EnsembleDefinition) -> tuple[Agent | None, Any]:
    """Who works on a task, and with which model: the task's, the agent's, the ensemble's, else the default (E5)."""
    if task.handler is not None:
        return None, None
    agent = task.agent or derived_agent(task.description)
    llm = task.llm
    if llm is None:
        llm = agent.llm if agent.llm is not INHERIT else ensemble.llm
    return agent, DEFAULT_LLM if llm is None else llm


def _task_names(tasks: Sequence[Task], problems: list[Problem]) -> list[str]:
    """Given names, and readable ones from role and position for the others (E2)."""
    taken: dict[str, Task] = {}
    for task in tasks:
        if task.name is not None:
            if taken.get(task.name, task) is not task:
                problems.append(Problem(f"Task name {task.name!r} stands twice. Give each task its own.", task, "name"))
            taken.setdefault(task.name, task)
    names = []
    for position, task in enumerate(tasks, start=1):
        names.append(task.name or _free_name(task, position, taken))
    return names


def _free_name(task: Task, position: int, taken: dict[str, Task]) -> str:
    if task.handler is not None:
        role = HANDLER_ROLE
    else:
        role = task.agent.role if task.agent else derived_role(task.description)
    stem = re.sub(r"[^a-z0-9]+", "_", role.lower()).strip("_") or "task"
    name, bump = f"{stem}_{position}", 1
    while name in taken:
        bump += 1
        name = f"{stem}_{position}_{bump}"
    taken[name] = task
    return name


def _finder(
    kind: str, members: Sequence[Any], names: Sequence[str], problems: list[Problem]
) -> Callable[[Any, str, Iterable[Any]], tuple[int, ...]]:
    """A function from references (objects or names) to indices; what is unknown becomes a problem."""
    by_identity = {id(member): index for index, member in enumerate(members)}
    by_name = {name: index for index, name in reversed(list(enumerate(names)))}

    def find(owner: Any, field: str, references: Iterable[Any]) -> tuple[int, ...]:
        found = []
        for item, reference in enumerate(references):
            index = by_name.get(reference) if isinstance(reference, str) else by_identity.get(id(reference))
            if index is not None:
                found.append(index)
                continue
            if isinstance(reference, str):
                message = f"{field} names {kind} {reference!r}, which is not there.{did_you_mean(reference, names)}"
            else:
                message = f"{reference!r} in {field} is not in the list of {kind}s of this ensemble."
            problems.append(Problem(message, owner, field, item))
        return tuple(dict.fromkeys(found))

    return find
