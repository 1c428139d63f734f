"""What guardrails and handlers give in numpy's own types is read as what it is (E18)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from ensemble_notebook import Ensemble, EnsembleOutput, GuardrailViolationError, Task, TaskExecutionError


class Share(BaseModel):
    n: int
    holds: bool


def run(value: Any, **fields: Any) -> EnsembleOutput:
    return Ensemble(tasks=[Task.of("Count", name="count", handler=lambda _: value, **fields)]).run()


@pytest.mark.parametrize("kind", ["input_guardrails", "output_guardrails"])
def test_a_guardrail_may_answer_in_numpy_s_truths(kind: str) -> None:
    output = run("many", **{kind: [lambda _: np.True_]})
    assert (output.raw, output.warnings) == ("many", ())
    with pytest.raises(TaskExecutionError, match="it returned False") as caught:
        run("many", **{kind: [lambda _: np.False_]})
    assert isinstance(caught.value.__cause__, GuardrailViolationError)
    assert caught.value.output is not None
    assert caught.value.output.warnings == ()


def test_a_guardrail_that_gives_an_array_is_broken() -> None:
    with pytest.raises(TaskExecutionError, match="and returned list"):
        run("many", output_guardrails=[lambda _: np.array([True])])


@pytest.mark.parametrize(
    "output_type, value, plain",
    [
        (
            {"n": "int", "holds": "bool", "share": "float", "all": ["int"]},
            {"n": np.int64(3), "holds": np.True_, "share": np.float64(0.5), "all": np.array([1, 2])},
            {"n": 3, "holds": True, "share": 0.5, "all": [1, 2]},
        ),
        ({"all": ["int"]}, {"all": [np.int64(1), np.int32(2)]}, {"all": [1, 2]}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": np.int64(3)}, {"n": 3}),
        ({"shares": [{"of": "float"}]}, {"shares": [{"of": np.float64(0.5)}]}, {"shares": [{"of": 0.5}]}),
        (Share, {"n": np.int64(3), "holds": np.True_}, Share(n=3, holds=True)),
    ],
)
def test_a_handler_may_give_numpy_s_values_for_a_type(output_type: Any, value: Any, plain: Any) -> None:
    output = run(value, output_type=output_type)
    parsed = output["count"].parsed_output
    assert parsed == plain
    assert repr(parsed) == repr(plain)


def test_a_value_that_holds_itself_is_refused_as_before() -> None:
    ring: dict[str, Any] = {}
    ring["n"] = ring
    with pytest.raises(TaskExecutionError):
        run(ring, output_type={"n": "int"})


@pytest.mark.parametrize("text", ["tides", "T\u00fcr"])
def test_a_text_of_numpy_is_a_text(text: str) -> None:
    output = Ensemble(tasks=[Task.of("Give", name="give", handler=lambda _: np.str_(text))]).run()
    assert (type(output.raw), output.raw, output["give"].parsed_output) == (str, text, None)
