"""What an ensemble holds: its texts and their variables (E6), its tasks, and those of the ensembles inside it (E54)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ReuseMode, ReviewPolicy
from ensemble_notebook.domain.definitions.nested_ensemble import MAX_DEPTH, describe_ensemble, list_input_texts
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import (
    PROMPT_PLACES,
    SYSTEM_PLACES,
    TextOfPrompt,
    find_first_texts,
    find_input_name,
    find_places,
    hide_item,
    hide_places,
    list_told_texts,
)
from ensemble_notebook.domain.planning.delegation import list_agent_texts
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import Graph, TaskNode


def list_tasks(ensemble: EnsembleDefinition) -> Sequence[Task]:
    """All tasks of a definition, in order; those that review phases come last."""
    tasks = ensemble.tasks or [task for phase in ensemble.phases for task in phase.tasks]
    reviewers = [phase.review.by for phase in ensemble.phases if phase.review is not None]
    return [*tasks, *(each for each in reviewers if isinstance(each, Task))]


def list_texts(ensemble: EnsembleDefinition) -> list[str]:
    """The texts that may hold variables: those of the tasks, then those of the agents that are named anywhere."""
    tasks = list_tasks(ensemble)
    texts = [
        text if task.for_each is None else hide_item(text)
        for task in tasks
        for text in (*list_task_texts(task), *list_input_texts(task.inputs))
    ]
    texts += (text for agent in _list_agents(ensemble, tasks) for text in list_agent_texts(agent))
    return [*texts, *list_told_texts(ensemble.texts)]


def list_task_texts(task: Task) -> Iterator[str]:
    """The own texts of a task; the places of its prompt are literals in it, and no variables."""
    if task.prompt is None or not isinstance(task.description, TextOfPrompt):
        yield task.description
    yield task.expected_output
    if task.prompt is not None:
        yield hide_places(task.prompt, PROMPT_PLACES)


def list_places(ensemble: EnsembleDefinition) -> tuple[str, ...]:
    """List the places that the prompts of an ensemble's own may have, whether they do or not."""
    tasks = list_tasks(ensemble)
    prompts = PROMPT_PLACES if any(task.prompt for task in tasks) else ()
    return (*prompts, *(SYSTEM_PLACES if any(each.system_prompt for each in _list_agents(ensemble, tasks)) else ()))


def find_place_names(ensemble: EnsembleDefinition) -> dict[str, str]:
    """The names that stand for places in prompts of an ensemble, each with who has that prompt, in words."""
    found: dict[str, str] = {}
    tasks = list_tasks(ensemble)
    for task in tasks:
        for name, _ in find_places(task.prompt or "", PROMPT_PLACES):
            found.setdefault(name, f"the prompt of task {task.name or task.description!r}")
    for agent in _list_agents(ensemble, tasks):
        for name, _ in find_places(agent.system_prompt or "", SYSTEM_PLACES):
            found.setdefault(name, f"the system_prompt of agent {agent.role!r}")
    return found


def list_item_inputs(ensemble: EnsembleDefinition) -> list[str]:
    """The inputs for whose items tasks run, as ``"{name}"``; they are no texts, and are never written."""
    return [
        task.for_each
        for task in list_tasks(ensemble)
        if isinstance(task.for_each, str) and find_input_name(task.for_each) is not None
    ]


def find_texts_by_variable(ensemble: EnsembleDefinition) -> dict[str, str]:
    """The variables of an ensemble in order, each with the first text that has it."""
    return find_first_texts((*list_texts(ensemble), *list_item_inputs(ensemble)))


def find_lacking(ensemble: EnsembleDefinition, given: Mapping[str, Any]) -> dict[str, str]:
    """The variables that neither `given` nor the ensemble has a value for, in order, each with its first text."""
    known = {**ensemble.inputs, **given}
    return {name: text for name, text in find_texts_by_variable(ensemble).items() if name not in known}


def find_lacking_inside(ensemble: EnsembleDefinition) -> Iterator[tuple[Task, dict[str, str]]]:
    """The tasks whose ensembles lack values, each with the variables and texts; nobody but the task can give them."""
    for task in list_tasks(ensemble):
        inner: Any = task.ensemble
        if inner is not None and (lacking := find_lacking(inner, task.inputs)):
            yield task, lacking


def has_handlers(ensemble: EnsembleDefinition) -> bool:
    """Whether any task has a handler, which gets all inputs, used in texts or not."""
    return any(task.handler is not None for task in list_tasks(ensemble))


def _list_agents(ensemble: EnsembleDefinition, tasks: Sequence[Task]) -> Iterator[Agent]:
    named = (*ensemble.agents, *(agent for task in tasks for agent in (task.agent, task.fallback)))
    return (agent for agent in dict.fromkeys(named) if agent is not None)


_SHOWN_ENDS: Final = 4


def find_typed_task(node: TaskNode) -> Task:
    """Find the task whose output a task has: the final one of the ensemble that does it, or itself."""
    while node.nested is not None and len(last := find_final_tasks(node.nested)) == 1:
        node = node.nested.tasks[last[0]]
    return node.task


def list_open_gates(ensemble: Any, graph: Graph) -> list[str]:
    """List the tasks, also those inside, that stop at a gate for whoever is there: their ensemble names no handler."""
    gates, policy = [], ensemble.review_policy
    is_open, last = ensemble.review_handler is None, find_final_tasks(graph)
    for node in graph.tasks:
        is_last = policy is ReviewPolicy.AFTER_LAST_TASK and node.index in last
        if is_open and (node.task.review or policy is ReviewPolicy.AFTER_EVERY_TASK or is_last):
            gates.append(repr(node.name))
        if node.nested is not None:
            gates += list_open_gates(node.task.ensemble, node.nested)
    return gates


def has_gates_inside(node: TaskNode) -> bool:
    """Whether somebody is asked about the tasks of the ensemble that does a task, or about its phases."""
    inside, ensemble = node.nested, cast(Any, node.task.ensemble)
    if inside is None:
        return False
    return (
        ensemble.review_policy is not ReviewPolicy.NEVER
        or any(phase.phase.review is not None for phase in inside.phases)
        or any(each.task.review or has_gates_inside(each) for each in inside.tasks)
    )


def is_never_reused(node: TaskNode) -> bool:
    """Whether a task, or any inside it, has side effects, so that it is always run."""
    inside = () if node.nested is None else node.nested.all_tasks
    return node.task.reuse is ReuseMode.NEVER or any(map(is_never_reused, inside))


def find_path_too_deep(node: TaskNode) -> tuple[str, ...] | None:
    """Find the names of the ensembles on a way through a task that goes deeper than runs may be nested."""
    if node.task.ensemble is None:
        return None
    name = describe_ensemble(node.task.ensemble)
    if node.nested is None:
        return (name,)
    inside = (find_path_too_deep(each) for each in node.nested.all_tasks)
    path = next((each for each in inside if each is not None), None)
    return None if path is None else (name, *path)


def describe_too_deep(path: tuple[str, ...]) -> str:
    """Say that ensembles are nested too deep, with the path."""
    shown = path if len(path) <= 2 * _SHOWN_ENDS else (*path[:_SHOWN_ENDS], "...", *path[-_SHOWN_ENDS:])
    message = f"Ensembles are nested deeper than {MAX_DEPTH}: {' -> '.join(shown)}."
    return f"{message} Does one of them reach itself, through a tool or a name that was bound again?"
