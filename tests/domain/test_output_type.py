"""The forms that a structured output may have (E2, E16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from ensemble_notebook.domain.definitions.output_type import find_output_type_fault
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import ValidationError


class Model(BaseModel):
    title: str


@dataclass
class Record:
    title: str


class Row(TypedDict):
    title: str


@pytest.mark.parametrize(
    "kind",
    [
        Model,
        Record,
        Row,
        {"type": "object"},
        {"properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
    ],
    ids=lambda kind: getattr(kind, "__name__", str(kind)),
)
def test_classes_with_fields_and_schemas_of_objects_can_be_used_e2(kind: Any) -> None:
    assert Task.of("x", output_type=kind).output_type is kind


@pytest.mark.parametrize("kind", [str, int, float, bool, bytes, type(None)], ids=lambda kind: kind.__name__)
def test_scalars_alone_are_refused_e2(kind: type) -> None:
    assert (
        find_output_type_fault(kind) == f"must not be a scalar alone ({kind.__name__}). Wrap it: a class with one field"
    )


@pytest.mark.parametrize("kind", [list, dict, tuple, set], ids=lambda kind: kind.__name__)
def test_bare_collections_are_refused_e2(kind: type) -> None:
    assert (
        find_output_type_fault(kind)
        == f"must not be a bare {kind.__name__}. Wrap it: a class with a field of that type"
    )


@pytest.mark.parametrize(
    "schema", [{"type": "array"}, {"type": "string"}, {"type": "array", "items": {"type": "string"}}], ids=str
)
def test_schemas_of_anything_but_objects_are_refused(schema: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Task.of("x", output_type=schema)
    told = f"Task output_type must be a JSON schema of type 'object', got type {schema['type']!r}. Wrap it: "
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("kind, told", [(object, "got the class object"), (3, "got 3"), ("Model", "got 'Model'")])
def test_anything_else_is_refused(kind: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=r"Task output_type must be a ") as caught:
        Task.of("x", output_type=kind)
    assert told in str(caught.value)
    assert caught.value.problems[0].field == "output_type"


@pytest.mark.parametrize("value", [-1, True, 1.5, None], ids=repr)
def test_corrections_are_a_whole_number_e16(value: Any) -> None:
    assert Task.of("x").max_output_retries == 3
    assert Task.of("x", max_output_retries=0).max_output_retries == 0
    with pytest.raises(ValidationError, match="Task max_output_retries must be a whole number >= 0"):
        Task.of("x", max_output_retries=value)
