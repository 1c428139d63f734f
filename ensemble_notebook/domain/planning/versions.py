"""Short names for what a run was declared with, so that runs of the same definition are found by a column (T21)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks, list_texts
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent, PlannedTask

_BYTES: Final = 4
_FIELDS: Final[Mapping[Any, tuple[str, ...]]] = {
    kind: tuple(each.name for each in dataclasses.fields(kind)) for kind in (PlannedAgent, PlannedTask)
}
_PLAIN: Final = frozenset({str, int, bool, tuple})
_READERS: Final = {kind: attrgetter(*names) for kind, names in _FIELDS.items()}


class Versions(NamedTuple):
    """What a run was declared with: the same texts, the same version; inputs and the code of functions are left out.

    Attributes:
        definition: of the workflow, its limits, agents, phases and tasks, but not of the ensemble's name.
        prompts: of the texts of tasks and agents, as they were declared.
    """

    definition: str
    prompts: str


def make_versions(ensemble: EnsembleDefinition, agents: Iterable[PlannedAgent], plan: ExecutionPlan) -> Versions:
    """The versions of a definition.

    Args:
        ensemble: the definition.
        agents: all who take part, without values of inputs in their texts.
        plan: likewise.
    """
    texts = list(_list_all_texts(ensemble))
    limits = {} if ensemble.budget is None else ensemble.budget.limits
    facts = (ensemble.workflow.value, ensemble.error_strategy.value, ensemble.max_concurrency, sorted(limits.items()))
    return Versions(_name([facts, *map(_list_set, agents), *_list_plan(plan), texts]), _name(texts))


def join_versions(versions: Iterable[Versions]) -> Versions:
    """The versions of several variants that run as one map."""
    first, *others = versions
    if not others:
        return first
    return Versions(*(_name(each) for each in zip(first, *others, strict=True)))


def _name(facts: Any) -> str:
    return blake2b(repr(facts).encode(errors="surrogatepass"), digest_size=_BYTES).hexdigest()


def _list_all_texts(ensemble: EnsembleDefinition) -> Iterator[str]:
    """The texts of an ensemble, and of those that do its tasks."""
    yield from list_texts(ensemble)
    for task in list_tasks(ensemble):
        inner: Any = task.ensemble
        if inner is not None:
            yield from _list_all_texts(inner)


def _list_plan(plan: ExecutionPlan) -> Iterator[Any]:
    yield list(plan.phases.items())
    yield [(name, sorted(settings.items())) for name, settings in plan.phase_settings.items()]
    for task in plan.tasks:
        yield _list_set(task)


def _list_set(record: PlannedAgent | PlannedTask) -> list[Any]:
    """The fields that are set, so that one that a later version adds changes nothing where nobody uses it."""
    values = zip(_FIELDS[type(record)], _READERS[type(record)](record), strict=True)
    return [(name, value if type(value) in _PLAIN else _to_plain(value)) for name, value in values if value]


def _to_plain(value: Any) -> Any:
    if isinstance(value, ExecutionPlan):
        return list(_list_plan(value))
    return sorted(value.items()) if isinstance(value, Mapping) else value
