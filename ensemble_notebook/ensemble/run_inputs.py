"""The inputs of a run as its texts have them: every variable has a value, and every value can be written (E6, E47)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_variables
from ensemble_notebook.domain.planning.agent_resolution import list_agent_texts
from ensemble_notebook.domain.value_text import describe_limited_table, find_text_fault, write_value
from ensemble_notebook.errors import Problem, ValidationError


def merge_inputs(
    ensemble: EnsembleDefinition, inputs: Mapping[str, Any] | None, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of all template variables: own defaults, then `inputs`, then keywords."""
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValidationError(f"inputs must map names to values, got {type(inputs).__name__}.")
    return {**ensemble.inputs, **(inputs or {}), **variables}


def list_tasks(ensemble: EnsembleDefinition) -> Sequence[Task]:
    """All tasks of a definition, in order; those that review phases come last."""
    tasks = ensemble.tasks or [task for phase in ensemble.phases for task in phase.tasks]
    reviewers = [phase.review.by for phase in ensemble.phases if phase.review is not None]
    return [*tasks, *(each for each in reviewers if isinstance(each, Task))]


def list_texts(ensemble: EnsembleDefinition) -> list[str]:
    """The texts that may hold variables: those of the tasks, then those of the agents that are named anywhere."""
    tasks = list_tasks(ensemble)
    texts = [text for task in tasks for text in (task.description, task.expected_output)]
    return [*texts, *(text for agent in _list_agents(ensemble, tasks) for text in list_agent_texts(agent))]


def _list_agents(ensemble: EnsembleDefinition, tasks: Sequence[Task]) -> Iterator[Agent]:
    named = (*ensemble.agents, *(agent for task in tasks for agent in (task.agent, task.fallback)))
    return (agent for agent in dict.fromkeys(named) if agent is not None)


def write_inputs(texts: Sequence[str], values: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Write the values that texts use. Others are for handlers, and may be anything.

    Returns:
        The written values by name, and a warning for each table that is limited.

    Raises:
        ValidationError: values that no prompt can hold, all of them.
    """
    written: dict[str, str] = {}
    warnings: list[str] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(name for text in texts for name in find_variables(text) if name in values):
        if fault := find_text_fault(values[name]):
            problems.append(Problem(f"The input {name!r} can't be written into a text: {fault}"))
            continue
        value = write_value(values[name], config.max_table_chars)
        written[name] = value.text
        if value.shown:
            warnings.append(describe_limited_table(f"The input {name!r}", value))
    if problems:
        raise ValidationError(problems)
    return written, warnings
