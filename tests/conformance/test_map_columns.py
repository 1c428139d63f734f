"""E72, V10: whatever JSON schema is accepted for an output has its columns in the table of a map."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensemble_notebook import Ensemble, MapResult, Task, TaskInput, ValidationError
from ensemble_notebook.trace.analysis.row_table import RowRecord, make_row_frame

ONE_FIELD = [
    ("float?", 1.5, "Float64"),
    ("int | float", 2, "Float64"),
    ("int | null", 3, "Int64"),
    ("int | str", "many", "object"),
    ("any", ["a", 1], "object"),
    ("yes | no?", "yes", "string"),
    (["str"], ["a"], "object"),
    ({"deep": "int"}, {"deep": 1}, "object"),
]
SCHEMAS = [
    (True, {"a": 1}, "object"),
    ({}, "text", "object"),
    ({"type": ["number", "null"]}, 0.5, "Float64"),
    ({"type": ["null"]}, None, "object"),
    ({"type": ["string", "integer", "null"]}, 1, "object"),
    ({"enum": [1, "a", None, {"b": [2]}]}, {"b": [2]}, "object"),
    ({"const": [1, 2]}, [1, 2], "object"),
    ({"anyOf": [{"type": "integer"}, True]}, "text", "object"),
    ({"oneOf": [{"type": "boolean"}, {"type": ["null"]}]}, True, "boolean"),
    ({"$ref": "#/$defs/word"}, "tide", "object"),
    ({"type": "number"}, 9007199254740993, "object"),
    ({"type": "integer"}, 2**70, "object"),
]


def make_map(output_type: Any, value: dict[str, Any], rows: Any = ({"x": 1}, {"x": 2})) -> MapResult:
    def judge(given: TaskInput) -> dict[str, Any]:
        return value

    return Ensemble(tasks=[Task.of("Judge {x}", output_type=output_type, handler=judge)]).map(list(rows))


@pytest.mark.parametrize("kind, value, dtype", ONE_FIELD, ids=str)
def test_e72_a_field_that_may_be_several_things_has_a_column(kind: Any, value: Any, dtype: str) -> None:
    check_column(make_map({"n": kind}, {"n": value}), value, dtype)


@pytest.mark.parametrize("schema, value, dtype", SCHEMAS, ids=str)
def test_e72_a_property_of_any_schema_has_a_column(schema: Any, value: Any, dtype: str, tmp_path: Path) -> None:
    whole = {"type": "object", "properties": {"n": schema}, "$defs": {"word": {"type": "string"}}}
    result = make_map(whole, {"n": value})
    check_column(result, value, dtype)
    for ending in ("csv", "jsonl", "parquet"):
        assert result.export(tmp_path / f"rows.{ending}").stat().st_size > 0


def check_column(result: MapResult, value: Any, dtype: str) -> None:
    assert result.frame["status"].tolist() == ["completed"] * 2
    column = result.frame["n"]
    assert [None if found is pd.NA else found for found in column] == [value] * 2
    assert str(column.dtype) == dtype or (dtype == "object" and isinstance(value, str))


def test_e72_a_number_with_more_digits_than_a_float_has_keeps_them() -> None:
    price = Decimal("12345678901234567.89")
    frame = make_row_frame([RowRecord(status="completed", fields={"n": price})], None, {"n": {"type": "number"}})
    assert frame["n"].tolist() == [price]


NAMES = ["status", "output_status", "output_output_status", "raw", "error", "tokens", "output_tokens", "x", "row", ""]
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.just({}),
    st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"]).map(
        lambda kind: {"type": kind}
    ),
    st.lists(st.sampled_from(["string", "integer", "number", "boolean", "null"]), min_size=1, unique=True).map(
        lambda kinds: {"type": kinds}
    ),
    st.sampled_from([{"enum": ["a", None]}, {"enum": [1, "a", [2]]}, {"const": {"a": 1}}, {"$ref": "#"}]),
)
PROPERTIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda each: {each[0]: each[1]}
        ),
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": ["object", "null"], "properties": {"deep": each}}),
        inner.map(lambda each: {"not": each}),
    ),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(properties=st.dictionaries(st.sampled_from(NAMES), PROPERTIES, min_size=1, max_size=4))
def test_e72_every_schema_that_is_accepted_has_a_column_for_each_field(properties: dict[str, Any]) -> None:
    try:
        task = Task.of("Judge {x}", output_type={"type": "object", "properties": properties})
    except ValidationError:  # of which no value is
        return
    result = Ensemble(tasks=[task], llm="scripted").map([{"x": 1}])
    assert result.frames is not None
    plain = Ensemble(tasks=[Task.of("Judge {x}")], llm="scripted").map([{"x": 1}])
    assert plain.frames is not None
    for frame, untyped in ((result.frame, plain.frame), (result.frames.rows, plain.frames.rows)):
        assert frame.columns.is_unique
        assert len(frame.columns) == len(untyped.columns) - 1 + len(properties)


def test_e72_a_name_that_is_taken_has_a_prefix_until_it_is_free(tmp_path: Path) -> None:
    fields = {"status": "str", "output_status": "str", "tokens": "int"}
    value = {"status": "good", "output_status": "loud", "tokens": 7}
    result = make_map(fields, value, [{"x": 1, "tokens": 3}])
    first = result.frame.iloc[0]
    assert (first["output_output_status"], first["output_status"], first["tokens"]) == ("good", "loud", 7)
    assert (first["status"], first["input_input_tokens"]) == ("completed", 3)
    assert first["input_tokens"] == 0
    assert result.frames is not None
    row = result.frames.rows.iloc[0]
    assert (row["output_output_tokens"], row["input_input_tokens"], row["output_status"]) == (7, 3, "good")
    assert result.export(tmp_path / "rows.jsonl").read_text().count("\n") == 1
