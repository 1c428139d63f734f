"""Which runs came of which (T90, T91): a run, its forks, calls of it made again, and what went on with one of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ensemble_notebook.domain.outputs.task_output import FamilySums, Metrics, Sums
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.store.run_store import RunStore

Parents = Mapping[str, str | None]
"""By the id of each run, the run that it forks, calls again or goes on with; None where it began afresh."""


@dataclass(frozen=True, slots=True)
class FamilyPlace:
    """Where a run stands in its family.

    Attributes:
        family: id of the run that all of them came of, which may be forgotten by now.
        generation: 0 for that run, 1 for its forks, 2 for theirs, ...
    """

    family: str
    generation: int


def find_places(parents: Parents) -> dict[str, FamilyPlace]:
    """Where each of these runs stands, and those that they came of and that are forgotten.

    A file may say anything (E71): where runs come of each other in a circle, one of them is taken for the first.
    """
    places: dict[str, FamilyPlace] = {}
    for run_id in parents:
        chain: dict[str, None] = {}
        parent: str | None = run_id
        while parent is not None and parent not in places and parent not in chain:
            chain[parent] = None
            parent = parents.get(parent)
        around = places.get(parent or "")
        for each in reversed(chain):
            around = FamilyPlace(each, 0) if around is None else FamilyPlace(around.family, around.generation + 1)
            places[each] = around
    return places


def list_by_family(newest_first: Iterable[str], parents: Parents) -> list[tuple[str, FamilyPlace]]:
    """The runs so that families stand together: each behind the run that it came of, the newest first of several.

    Families are in the order of their newest member.
    """
    places, listed = find_places(parents), dict.fromkeys(newest_first)
    families: dict[str, dict[str | None, list[str]]] = {}
    for run_id in listed:
        place, parent = places[run_id], parents[run_id]
        around = parent if place.generation and parent in listed else None
        families.setdefault(place.family, {}).setdefault(around, []).append(run_id)
    ordered: list[tuple[str, FamilyPlace]] = []
    for children in families.values():
        waiting = children[None][::-1]
        while waiting:
            run_id = waiting.pop()
            ordered.append((run_id, places[run_id]))
            waiting += children.get(run_id, [])[::-1]
    return ordered


def sum_family(metrics: Metrics) -> FamilySums:
    """The sums over all runs of a family, as the configured store has them now.

    Args:
        metrics: of one of them, as far as it has come.
    """
    run_id, store = metrics.run_id or "", RunStore.find()
    own = FamilySums(**metrics._list_sums(), run_ids=(run_id,))
    if store is None:
        return replace(own, note="No runs are remembered, since the store is off: this run alone.")
    try:
        parents = store.load_parents()
        if run_id not in parents:
            return replace(own, note=f"This run is not in the store {store.path}: this run alone.")
        places = find_places(parents)
        family = places[run_id].family
        members = [each for each in parents if places[each].family == family]
        others, lost = _load_sums(store, [each for each in members if each != run_id])
    except StoreError as error:
        return replace(own, note=f"{error} This run alone.")
    notes = [f"{pluralize(lost, 'run')} of the family can't be read."] if lost else []
    if family not in parents:
        notes.append(f"Run {family}, of which they came, is forgotten.")
    total = own
    for each in others.values():
        if each.cost is not None and each.currency != own.currency:
            notes.append(f"Costs in {each.currency} are left out.")
        total = replace(total, **total._add(each))
    ids = tuple(each for each in members if each == run_id or each in others)
    return replace(total, run_ids=ids, note=" ".join(dict.fromkeys(notes)))


def _load_sums(store: RunStore, run_ids: list[str]) -> tuple[dict[str, Sums], int]:
    """The sums of these runs by id, and how many of the runs can't be read."""
    found, lost = {}, 0
    summaries = store.load_summaries(run_ids)
    for run_id in run_ids:
        summary = summaries.get(run_id)
        if summary is None or summary.sums is None:  # nobody has asked yet, or an earlier version has
            try:
                summary = store.summarize(run_id)
            except StoreError:
                lost += 1
        if summary is not None and summary.sums is not None:
            found[run_id] = summary.sums
    return found, lost
