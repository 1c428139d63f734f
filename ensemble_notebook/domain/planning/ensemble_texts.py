"""The texts of an ensemble that may have variables (E6), and the variables without a value (E54)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.nested_ensemble import list_input_texts
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_input_name, find_variables, hide_item
from ensemble_notebook.domain.planning.agent_resolution import list_agent_texts


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
        for text in (task.description, task.expected_output, *list_input_texts(task.inputs))
    ]
    return [*texts, *(text for agent in _list_agents(ensemble, tasks) for text in list_agent_texts(agent))]


def list_item_inputs(ensemble: EnsembleDefinition) -> list[str]:
    """The inputs for whose items tasks run, as ``"{name}"``; they are no texts, and are never written (E53)."""
    return [
        task.for_each
        for task in list_tasks(ensemble)
        if isinstance(task.for_each, str) and find_input_name(task.for_each) is not None
    ]


def find_texts_by_variable(ensemble: EnsembleDefinition) -> dict[str, str]:
    """The variables of an ensemble in order, each with the first text that has it."""
    found: dict[str, str] = {}
    for text in (*list_texts(ensemble), *list_item_inputs(ensemble)):
        for name in find_variables(text):
            found.setdefault(name, text)
    return found


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
