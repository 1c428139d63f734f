"""Constraints on a manager, by themselves (E25); what they mean for an ensemble is tested with its rules."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints, normalize_role
from ensemble_notebook.errors import ValidationError


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        HierarchicalConstraints(**fields)
    return str(caught.value)


def test_constraints_without_fields_constrain_nothing() -> None:
    found = HierarchicalConstraints()
    assert (found.required_workers, found.allowed_workers, found.required_stages) == ((), (), ())
    assert (dict(found.max_calls_per_worker), found.global_max_delegations) == ({}, 0)


def test_roles_are_copied_to_tuples_sets_in_order() -> None:
    found = HierarchicalConstraints(
        required_workers=["B", "A"], allowed_workers={"B", "A"}, required_stages=[["A"], ("B", "C")]
    )
    assert found.required_workers == ("B", "A")
    assert found.allowed_workers == ("A", "B")
    assert found.required_stages == (("A",), ("B", "C"))


def test_caps_are_copied_and_read_only() -> None:
    caps = {"A": 2}
    found: Any = HierarchicalConstraints(max_calls_per_worker=caps)
    caps["A"] = 3
    assert found.max_calls_per_worker == {"A": 2}
    with pytest.raises(TypeError):
        found.max_calls_per_worker["A"] = 3


@pytest.mark.parametrize("field", ["required_workers", "allowed_workers"])
@pytest.mark.parametrize("value", [3, [3], None], ids=repr)
def test_workers_are_a_list_of_roles(field: str, value: Any) -> None:
    assert refusal(**{field: value}) == f"HierarchicalConstraints {field} must be a list of roles, got {value!r}."


def test_stages_are_lists_of_roles() -> None:
    told = "HierarchicalConstraints required_stages must be a list of roles, got 3."
    assert refusal(required_stages=[3]) == told
    assert refusal(required_stages="Writer") == (
        "HierarchicalConstraints required_stages must be a list or tuple, got str."
    )


def test_caps_map_roles_to_numbers() -> None:
    told = "HierarchicalConstraints max_calls_per_worker must map roles to numbers, got ['A']."
    assert refusal(max_calls_per_worker=["A"]) == told


def test_roles_are_compared_without_case_and_surrounding_space_e23() -> None:
    assert normalize_role(" Straße Writer\n") == normalize_role("STRASSE writer")
    assert normalize_role("Writer A") != normalize_role("WriterA")
