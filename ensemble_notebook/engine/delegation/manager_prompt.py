"""What a manager sees where the ensemble has no prompt of its own: a roster, rules and a list of tasks (E22, E25)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.hierarchy import (
    DELEGATE_TASK,
    MANAGER_GOAL,
    MANAGER_ROLE,
    HierarchicalConstraints,
    ManagedTask,
)
from ensemble_notebook.engine.agent.prompts import write_system_prompt
from ensemble_notebook.engine.delegation.team_members import quote_roles

_HOW_TO: Final = (
    f"You do no task yourself. Hand the work to your workers with the tool {DELEGATE_TASK}(agent_role, "
    f"task_description). A worker sees nothing but what you write there, so give it all that it needs, results of "
    f"others included. When every task is done, reply with the final answer."
)


class DefaultManagerPrompt:
    """The prompts of a manager, from the agents that it may ask and the tasks that it sees to.

    Its methods are async although they wait for nothing: sync ones would be called on a thread, as a user's own are.
    """

    def __init__(self, constraints: HierarchicalConstraints) -> None:
        self._rules = tuple(_write_rules(constraints))

    async def system(self, workers: Sequence[Agent]) -> str:
        sections = [write_system_prompt(Agent(role=MANAGER_ROLE, goal=MANAGER_GOAL)), _HOW_TO]
        sections.append("\n".join(["## Workers", *map(_introduce, workers)]))
        if self._rules:
            sections.append("\n".join(["## Rules", *(f"- {rule}" for rule in self._rules)]))
        return "\n\n".join(sections)

    async def user(self, tasks: Sequence[ManagedTask]) -> str:
        return "\n\n".join(["## Tasks", *map(_write_task_section, tasks)])


def _introduce(worker: Agent) -> str:
    lines = [f"### {worker.role}", f"Goal: {worker.goal.strip()}"]
    if worker.background and worker.background.strip():
        lines.append(f"Background: {worker.background.strip()}")
    return "\n".join(lines)


def _write_task_section(task: ManagedTask) -> str:
    lines = [f"### {task.name}", task.description, f"Expected output: {task.expected_output}"]
    if task.builds_on:
        lines.append(f"Builds on the results of: {', '.join(task.builds_on)}")
    if task.suggested_worker is not None:
        lines.append(f"Suggested worker: {task.suggested_worker}")
    return "\n".join(lines)


def _write_rules(constraints: HierarchicalConstraints) -> Iterable[str]:
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
