"""The spec ``scripted``: an answer to everything, typed where a type is asked for (E41, E16)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.errors import TaskExecutionError, ValidationError

LABEL = "[scripted: no model was asked]"


class Tree(BaseModel):
    name: str
    kind: Literal["leaf", "branch"]
    children: list[Tree] = Field(min_length=1)
    left: Tree | None


class Bounded(BaseModel):
    age: int = Field(ge=18, le=20)
    share: float = Field(gt=0, lt=1)
    debt: int = Field(lt=0)
    even: int = Field(multiple_of=4, gt=4)
    code: str = Field(min_length=60, max_length=70)
    short: str = Field(max_length=3)
    pair: tuple[int, str]
    some: list[date] = Field(min_length=3, max_length=4)
    none: list[str] = Field(max_length=0)
    counts: dict[str, int]
    when: datetime
    which: UUID
    what: int | str | None
    rest: Any


@dataclass
class Point:
    x: float
    label: str
    note: str | None = None


class Ticket(TypedDict):
    category: Literal["billing", "other"]
    points: list[Point]


class Placed(BaseModel):
    place: Annotated[Point, Field(description="```json of ## Output Format")]


def run(kind: Any) -> Any:
    task = Task(name="sort", description="Sort it", expected_output="Its kind", output_type=kind)
    return Ensemble(tasks=[task], llm="scripted").run()


@pytest.mark.parametrize(
    "kind",
    [
        Bounded,
        Point,
        Ticket,
        Placed,
        {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": ["integer", "null"]}}},
        {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$defs": {"a": {"const": 7}}},
    ],
    ids=str,
)
def test_what_is_asked_for_is_given_at_once(kind: Any) -> None:
    output = run(kind)
    assert output.metrics.llm_call_count == 1
    assert output["sort"].parsed_output is not None


def test_texts_say_that_no_model_was_asked() -> None:
    assert run(Ticket)["sort"].parsed_output["points"][0].label == LABEL
    untyped = Ensemble(tasks=[Task.of("Sing of the sea")], llm="scripted").run()
    assert untyped.raw.startswith(LABEL)
    assert "Sing of the sea" in untyped.raw


class Coded(BaseModel):
    code: str = Field(pattern="^[A-Z]{3}-[0-9]+$")


def test_a_type_that_needs_itself_without_an_end_is_refused_before_a_model_is_asked() -> None:
    with pytest.raises(ValidationError, match="output_type of task 'sort': no value fits it: it needs itself inside"):
        run(Tree)


def test_for_a_type_without_a_simple_value_the_error_names_the_way_out_and_comes_once() -> None:
    with pytest.raises(
        TaskExecutionError, match=r"'scripted' has no value of this output type.* such as `local`"
    ) as caught:
        run(Coded)
    assert caught.value.output is not None
    assert caught.value.output.metrics.llm_call_count <= 1
