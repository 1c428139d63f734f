"""The names of tasks, and the roles of those that no agent does (E2)."""

from __future__ import annotations

from collections.abc import Sequence

from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.agent_derivation import (
    ENSEMBLE_ROLE,
    HANDLER_ROLE,
    derive_role,
    make_role_slug,
)
from ensemble_notebook.errors import Problem


def name_tasks(tasks: Sequence[Task], problems: list[Problem]) -> list[str]:
    """Given names, and readable ones from role and position for the others (E2)."""
    taken: dict[str, Task] = {}
    for task in tasks:
        if task.name is not None:
            if taken.get(task.name, task) is not task:
                problems.append(Problem(f"Task name {task.name!r} stands twice. Give each task its own.", task, "name"))
            taken.setdefault(task.name, task)
    names = []
    for position, task in enumerate(tasks, start=1):
        names.append(task.name or _find_free_name(task, position, taken))
    return names


def _find_free_name(task: Task, position: int, taken: dict[str, Task]) -> str:
    if not task.has_agent:
        role = find_role_of_nobody(task)
    else:
        role = task.agent.role if task.agent else derive_role(task.description)
    stem, bump = make_role_slug(role), 1
    name = f"{stem}_{position}"
    while name in taken:
        bump += 1
        name = f"{stem}_{position}_{bump}"
    taken[name] = task
    return name


def find_role_of_nobody(task: Task) -> str:
    """The role that a task shows which no agent does."""
    return HANDLER_ROLE if task.ensemble is None else ENSEMBLE_ROLE
