"""Prepares a run for reuse: the keys of its tasks, and the part of the graph that `only` selects (C34)."""

from __future__ import annotations

from typing import Final

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.fingerprints.task_keys import ContentKeys, DelegationSettings
from ensemble_notebook.domain.fingerprints.task_start import TaskKeys
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.planning.graph_part import GraphPart, take_part
from ensemble_notebook.engine.limits.parent_run import ParentRun
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.models.openai.endpoint import find_base_url_of_environment
from ensemble_notebook.trace.store.run_store import RunStore

_MODE: Final = CaptureMode.METADATA.value


def keeps_tasks(capture_mode: CaptureMode, parent: ParentRun | None) -> bool:
    """Whether the outputs of tasks are kept, so that later runs can reuse them."""
    if capture_mode is CaptureMode.METADATA:
        return False
    return RunStore.find() is not None if parent is None else parent.kept_tasks is not None


def explain_no_reuse(capture_mode: CaptureMode) -> str:
    """Say why a run can't reuse anything."""
    if capture_mode is CaptureMode.METADATA:
        return (
            f"reuse takes over outputs of earlier runs, and capture_mode {_MODE} keeps no text. Leave out one of them."
        )
    return (
        "reuse takes over outputs of earlier runs, and no runs are remembered here, since the store is off. Leave out "
        "reuse, or switch it on: ensemble_notebook.config.store = 'auto', or %config EnsembleMagics.store = 'auto'."
    )


def make_task_keys(ensemble: EnsembleDefinition, graph: Graph, constraints: HierarchicalConstraints | None) -> TaskKeys:
    """Make the object that computes the keys of a run's tasks. It reads all code that the ensemble names now (C34a).

    Args:
        ensemble: as declared.
        graph: of the run, its agents resolved.
        constraints: of the run, resolved.
    """
    delegation = DelegationSettings(
        policies=ensemble.delegation_policies,
        max_depth=ensemble.max_delegation_depth,
        constraints=constraints,
        manager_prompt=ensemble.manager_prompt,
    )
    return ContentKeys(graph, delegation, openai_url=find_base_url_of_environment())


def find_part(graph: Graph, only: Task | str | None) -> GraphPart | None:
    """The part of a graph that a run of ``only`` takes; None for all of it.

    Raises:
        ValidationError: there is no such task, or it does not run by itself.
    """
    if only is None:
        return None
    wanted = only if isinstance(only, str) else only.name
    for node in graph.tasks:
        if node.task is only or only in (node.name, f"{graph.get_phase_name(node)}.{node.name}"):
            return take_part(graph, node)
    if graph.managed:
        raise ValidationError("only is for tasks that run by themselves: here a manager has all of them done.")
    if wanted is None or not isinstance(only, str):
        raise ValidationError(f"only={only!r} is no task of this ensemble.")
    names = tuple(node.name for node in graph.tasks)
    raise ValidationError(f"only: no task {wanted!r}.{did_you_mean(wanted, names)} The tasks are {', '.join(names)}.")
