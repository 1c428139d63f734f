"""The rules of tasks that an ensemble does (E54): it can run by itself, and gets what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.nested_ensemble import describe_ensemble
from ensemble_notebook.domain.planning.ensemble_texts import (
    find_lacking,
    find_lacking_inside,
    find_texts_by_variable,
    has_handlers,
)
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.domain.planning.nested_tasks import describe_too_deep, find_path_too_deep
from ensemble_notebook.errors import Problem, PromptTemplateError, ValidationError, did_you_mean


def find_nested_problems(
    ensemble: EnsembleDefinition, graph: Graph, check: Callable[[Any], object]
) -> Iterator[Problem]:
    """Find what keeps ensembles from doing tasks.

    Args:
        ensemble: the one around them.
        graph: of it.
        check: checks an ensemble as a whole, and raises what it finds.
    """
    for node in graph.all_tasks:
        if node.task.ensemble is None:
            continue
        if (path := find_path_too_deep(node)) is not None:
            yield Problem(describe_too_deep((describe_ensemble(ensemble), *path)), node.task, "ensemble")
        else:
            yield from _find_own_problems(node, check)
        yield from _find_input_problems(node)


def check_inner_variables(ensemble: EnsembleDefinition) -> None:
    """Check that each ensemble that does a task gets a value for all that its texts use.

    Raises:
        PromptTemplateError: names what is missing.
    """
    for task, lacking in find_lacking_inside(ensemble):
        owner = repr(task.name or task.description)
        advice = f"The text stands in the ensemble of task {owner}, which gives it no value: add one to its inputs."
        raise PromptTemplateError(tuple(lacking), next(iter(lacking.values())), advice)


def _find_own_problems(node: TaskNode, check: Callable[[Any], object]) -> Iterator[Problem]:
    try:
        check(node.task.ensemble)
    except ValidationError as error:
        for problem in error.problems:
            yield Problem(f"The ensemble of task {node.name!r}: {problem.message}", node.task, "ensemble")


def _find_input_problems(node: TaskNode) -> Iterator[Problem]:
    inner: Any = node.task.ensemble
    if node.task.reads_context_as_input and not node.context:
        message = f"Task {node.name!r} gives its ensemble {{context}}, and reads nothing. Say what in its context."
        yield Problem(message, node.task, "inputs")
    if has_handlers(inner):
        return
    wanted = find_texts_by_variable(inner)
    for name in node.task.inputs:
        if name not in wanted:
            lacking = find_lacking(inner, node.task.inputs)
            hint = did_you_mean(name, lacking or wanted)
            uses = f" It uses {', '.join(wanted)}." if wanted else " It uses none."
            message = f"The ensemble of task {node.name!r} has no text that uses the input {name!r}.{hint}{uses}"
            yield Problem(message, node.task, "inputs", name)
