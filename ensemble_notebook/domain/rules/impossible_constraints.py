"""Whether constraints on a manager can be met at all, were every delegation to succeed (E25)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints, normalize_role


def find_impossible_constraints(constraints: HierarchicalConstraints, manager_max_iterations: int) -> Iterator[str]:
    """Find what can't be met of valid constraints, in words.

    Caps of single workers never stand in the way: they are at least one, and nobody has to be asked twice.
    """
    total, limit = _count_delegations(constraints, manager_max_iterations)
    stages = [dict.fromkeys(map(normalize_role, stage)) for stage in constraints.required_stages]
    before = [0, *accumulate(map(len, stages))]
    blocked = len(stages)
    for number, stage in enumerate(constraints.required_stages):
        if barred := _find_barred(constraints, stage):
            blocked, roles = min(blocked, number), _join_roles(barred)
            yield f"Stage {number + 1} of required_stages can't complete: not in allowed_workers: {roles}."
    for number in range(min(blocked + 1, len(stages))):
        if stages[number] and before[number] >= total:
            reason = f"{limit} is {total}, which the stages before it use up"
            yield f"Stage {number + 1} of required_stages can't be reached: {reason}."
            break
    stage_of = {role: number for number, stage in enumerate(stages) for role in stage}
    required = {normalize_role(role): role for role in constraints.required_workers}
    behind = [written for role, written in required.items() if stage_of.get(role, -1) > blocked]
    if behind:
        yield f"Required workers can't be asked, since stage {blocked + 1} can't complete: {_join_roles(behind)}."
    last = max((stage_of.get(role, 0) for role in required), default=0)
    needed = len(required.keys() | {role for stage in stages[:last] for role in stage})
    if needed > total:
        yield f"The required workers can't all be asked: {limit} is {total}, and it takes {needed}."


def _count_delegations(constraints: HierarchicalConstraints, manager_max_iterations: int) -> tuple[int, str]:
    """Count how many delegations there can be, and which field says so."""
    cap = constraints.global_max_delegations
    if 0 < cap <= manager_max_iterations:
        return cap, "global_max_delegations"
    return manager_max_iterations, "manager_max_iterations"


def _find_barred(constraints: HierarchicalConstraints, roles: Iterable[str]) -> list[str]:
    allowed = set(map(normalize_role, constraints.allowed_workers))
    return [role for role in roles if allowed and normalize_role(role) not in allowed]


def _join_roles(roles: Iterable[str]) -> str:
    return ", ".join(map(repr, roles))
