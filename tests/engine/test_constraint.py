"""The constraints on a manager (E25): the state machine, and what can't be met at all, against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints
from ensemble_notebook.domain.planning.delegation import find_impossible_constraints
from ensemble_notebook.engine.manager import ConstraintTracker

WORKERS = ("A", "B", "C")
MANY = 20
STAGE_2 = "Stage 2 of required_stages can't be reached"


def keeper(**constraints: object) -> ConstraintTracker:
    return ConstraintTracker(HierarchicalConstraints(**constraints))


def test_without_constraints_nobody_objects() -> None:
    free = keeper()
    for _ in range(100):
        assert free.find_objection("Anybody") is None
        free.note_approved("Anybody")
    assert free.list_violations() == ()


def test_the_reasons_name_role_and_number_e25() -> None:
    kept = keeper(
        allowed_workers=["A", "B", "C"],
        max_calls_per_worker={"A": 1},
        global_max_delegations=3,
        required_stages=[["A", "C"], ["B"]],
    )
    assert kept.find_objection("D") == "Agent 'D' is not in the allowed_workers list"
    assert kept.find_objection("B") == "Cannot delegate to 'B': stage 1 is not yet complete (still to come: 'A', 'C')"
    kept.note_approved("A")
    kept.note_completed("A")
    assert kept.find_objection("A") == "Agent 'A' has reached its delegation cap of 1"
    assert kept.find_objection("B") == "Cannot delegate to 'B': stage 1 is not yet complete (still to come: 'C')"
    kept.note_approved("C")
    kept.note_completed("C")
    assert kept.find_objection("B") is None
    kept.note_approved("B")
    assert kept.find_objection("B") == "Global delegation cap of 3 has been reached"


def test_the_checks_come_in_order_e25() -> None:
    kept = keeper(
        allowed_workers=["A", "B"],
        max_calls_per_worker={"B": 1},
        global_max_delegations=1,
        required_stages=[["A"], ["B"]],
    )
    kept.note_approved("B")
    assert kept.find_objection("C") == "Agent 'C' is not in the allowed_workers list"
    assert kept.find_objection("B") == "Global delegation cap of 1 has been reached"
    capped = keeper(max_calls_per_worker={"B": 1}, required_stages=[["A"], ["B"]])
    capped.note_approved("B")
    assert capped.find_objection("B") == "Agent 'B' has reached its delegation cap of 1"


def test_roles_are_compared_without_case_and_space() -> None:
    kept = keeper(required_workers=[" quality ANALYST "], max_calls_per_worker={"Quality analyst": 1})
    kept.note_approved("Quality Analyst")
    assert kept.find_objection("QUALITY ANALYST") == "Agent 'QUALITY ANALYST' has reached its delegation cap of 1"
    kept.note_completed("quality analyst ")
    assert kept.list_violations() == ()


def test_an_approved_worker_that_fails_counts_and_completes_no_stage_e25() -> None:
    kept = keeper(max_calls_per_worker={"A": 2}, required_stages=[["A"], ["B"]], required_workers=["A", "B"])
    kept.note_approved("A")
    kept.note_approved("A")
    assert kept.find_objection("A") == "Agent 'A' has reached its delegation cap of 2"
    assert kept.find_objection("B") is not None
    assert kept.list_violations() == (
        "Required worker 'A' was delegated a task 2 times, never with success",
        "Required worker 'B' was never delegated a task",
    )


def test_who_stands_in_no_stage_may_always_be_asked() -> None:
    assert keeper(required_stages=[["A"], ["B"]]).find_objection("C") is None


def test_what_runs_side_by_side_counts_from_its_approval_on_e25() -> None:
    kept = keeper(global_max_delegations=2, required_stages=[["A"], ["B"]])
    kept.note_approved("A")
    assert kept.find_objection("B") is not None
    kept.note_approved("A")
    kept.note_completed("A")
    assert kept.find_objection("B") == "Global delegation cap of 2 has been reached"


# --- What can't be met ---

roles = st.sampled_from(WORKERS)


@st.composite
def constraint_sets(draw: st.DrawFn) -> HierarchicalConstraints:
    allowed = draw(st.one_of(st.just(()), st.lists(roles, min_size=1, unique=True)))
    order = draw(st.permutations(WORKERS))
    cuts = sorted(draw(st.lists(st.integers(0, 3), max_size=3)))
    bounds = (0, *cuts, draw(st.integers(cuts[-1] if cuts else 0, 3)))
    return HierarchicalConstraints(
        allowed_workers=allowed,
        required_workers=draw(st.lists(st.sampled_from(allowed or WORKERS), unique=True)),
        required_stages=[order[low:high] for low, high in pairwise(bounds)],
        max_calls_per_worker=draw(st.dictionaries(roles, st.integers(1, 2))),
        global_max_delegations=draw(st.integers(0, 4)),
    )


def histories(constraints: HierarchicalConstraints, most: int) -> Iterator[tuple[str, ...]]:
    """Every sequence of workers that may be asked one after the other, each with success. As slow as it is plain."""

    def may(asked: tuple[str, ...], role: str) -> bool:
        stages = constraints.required_stages
        mine = next((number for number, stage in enumerate(stages) if role in stage), 0)
        return (
            (not constraints.allowed_workers or role in constraints.allowed_workers)
            and (not constraints.global_max_delegations or len(asked) < constraints.global_max_delegations)
            and asked.count(role) < constraints.max_calls_per_worker.get(role, MANY)
            and all(each in asked for stage in stages[:mine] for each in stage)
        )

    fronts = [()]
    while fronts:
        yield from fronts
        fronts = [(*asked, role) for asked in fronts if len(asked) < most for role in WORKERS if may(asked, role)]


@given(constraint_sets(), st.integers(1, 4))
def test_a_set_is_warned_about_exactly_when_part_of_it_can_t_be_met_e25(
    constraints: HierarchicalConstraints, most: int
) -> None:
    possible = list(histories(constraints, most))
    reachable = {role for asked in possible for role in asked}
    staged = {role for stage in constraints.required_stages for role in stage}
    is_met = any(set(constraints.required_workers) <= set(asked) for asked in possible)
    assert bool(list(find_impossible_constraints(constraints, most))) == (not is_met or not staged <= reachable)


@given(constraint_sets(), st.lists(roles, max_size=6))
def test_the_keeper_lets_exactly_the_possible_histories_through_e25(
    constraints: HierarchicalConstraints, asked: list[str]
) -> None:
    kept = ConstraintTracker(constraints)
    let_through: tuple[str, ...] = ()
    for role in asked:
        if kept.find_objection(role) is None:
            kept.note_approved(role)
            kept.note_completed(role)
            let_through = (*let_through, role)
    assert let_through in histories(constraints, 6)
    missing = [role for role in constraints.required_workers if role not in let_through]
    assert len(kept.list_violations()) == len(missing)


@pytest.mark.parametrize(
    "constraints, warnings",
    [
        (
            {"allowed_workers": ["B"], "required_stages": [["A"], ["B"]], "required_workers": ["B"]},
            [
                "Stage 1 of required_stages can't complete: not in allowed_workers: 'A'.",
                "Required workers can't be asked, since stage 1 can't complete: 'B'.",
            ],
        ),
        (
            {"global_max_delegations": 2, "required_workers": ["A", "B", "C"]},
            ["The required workers can't all be asked: global_max_delegations is 2, and it takes 3."],
        ),
        (
            {"global_max_delegations": 1, "required_stages": [["A"], ["B"]]},
            [
                f"{STAGE_2}: global_max_delegations is 1, which the stages before it use up.",
            ],
        ),
        (
            {"required_stages": [["A", "B"], ["C"]], "required_workers": ["C"]},
            [
                f"{STAGE_2}: manager_max_iterations is 2, which the stages before it use up.",
                "The required workers can't all be asked: manager_max_iterations is 2, and it takes 3.",
            ],
        ),
        ({"max_calls_per_worker": {"A": 1}, "required_workers": ["A", "B"]}, []),
    ],
)
def test_the_warnings_say_what_stands_in_the_way(constraints: dict[str, object], warnings: list[str]) -> None:
    assert list(find_impossible_constraints(HierarchicalConstraints(**constraints), 2)) == warnings
