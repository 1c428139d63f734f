"""Arguments as models write them, fitted to a schema or explained (E13)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.engine.agent.tool_arguments import fit_arguments

NOTHING = {"type": "object", "properties": {}}


def schema(*required: str, optional: tuple[str, ...] = (), kind: str = "string") -> dict[str, Any]:
    properties = {name: {"type": kind} for name in (*required, *optional)}
    return {"type": "object", "properties": properties, "required": list(required)}


CITY = schema("city")
TRIP = schema("city", "days", optional=("hotel",))


@pytest.mark.parametrize(
    "arguments, parameters, fitted",
    [
        pytest.param({"city": "Rome"}, CITY, {"city": "Rome"}, id="as it should be"),
        pytest.param({"city": "Rome", "days": 2}, TRIP, {"city": "Rome", "days": 2}, id="without the optional one"),
        pytest.param('{"city": "Rome"}', CITY, {"city": "Rome"}, id="as a JSON text"),
        pytest.param({"arguments": {"city": "Rome"}}, CITY, {"city": "Rome"}, id="nested"),
        pytest.param({"input": '{"city": "Rome"}'}, CITY, {"city": "Rome"}, id="a JSON text, nested"),
        pytest.param('{"args": {"city": "Rome"}}', CITY, {"city": "Rome"}, id="nested, as a JSON text"),
        pytest.param({"__arg1": "Rome"}, CITY, {"city": "Rome"}, id="as LangChain names a bare value"),
        pytest.param({"__arg1": '{"city": "Rome"}'}, CITY, {"city": "Rome"}, id="a JSON text, as a bare value"),
        pytest.param("Rome", CITY, {"city": "Rome"}, id="a bare text"),
        pytest.param("2024", CITY, {"city": "2024"}, id="a bare text that looks like a number"),
        pytest.param("null", CITY, {"city": "null"}, id="a bare text that looks like nothing"),
        pytest.param("[1]", schema("days", kind="array"), {"days": [1]}, id="a bare list, as a JSON text"),
        pytest.param("3", schema("days", kind="integer"), {"days": 3}, id="a bare number, as a JSON text"),
        pytest.param(3, schema("days", kind="integer"), {"days": 3}, id="a bare number"),
        pytest.param("Rome", schema("days", kind="integer"), {"days": "Rome"}, id="nonsense is left to the tool"),
        pytest.param("x", {"properties": {"city": {}}}, {"city": "x"}, id="a field of any type"),
        pytest.param(None, NOTHING, {}, id="nothing for a tool without fields"),
        pytest.param("", NOTHING, {}, id="an empty text for a tool without fields"),
        pytest.param({}, NOTHING, {}, id="an empty object for a tool without fields"),
        pytest.param({"city": {"city": "Rome"}}, CITY, {"city": {"city": "Rome"}}, id="a known key is never unwrapped"),
        pytest.param({"k": 1}, {**NOTHING, "additionalProperties": True}, {"k": 1}, id="any key where any is allowed"),
    ],
)
def test_arguments_fit(arguments: Any, parameters: dict[str, Any], fitted: dict[str, Any]) -> None:
    assert fit_arguments(arguments, parameters) == (fitted, "")


QUERY = schema("query")


@pytest.mark.parametrize(
    "arguments, parameters, fitted",
    [
        pytest.param('```json\n{"query": "tides"}\n```', QUERY, {"query": "tides"}, id="a fence"),
        pytest.param('{"query": "tides",}', QUERY, {"query": "tides"}, id="a trailing comma"),
        pytest.param(
            '{"city": "Rome, }", "days": [1, 2,]}', TRIP, {"city": "Rome, }", "days": [1, 2]}, id="one inside"
        ),
        pytest.param("{'query': 'the \\'tides\\' \"here\"'}", QUERY, {"query": "the 'tides' \"here\""}, id="quotes"),
        pytest.param("{'city': 'None', 'days': None}", TRIP, {"city": "None", "days": None}, id="Python's words"),
        pytest.param("```\n{'query': 'tides',}\n```", QUERY, {"query": "tides"}, id="all of it"),
        pytest.param({"__arg1": '{"query": "tides",}'}, QUERY, {"query": "tides"}, id="as a bare value"),
        pytest.param("```\n{}\n```", NOTHING, {}, id="no fields"),
    ],
)
def test_what_is_nearly_one_object_is_mended_only_where_it_may_be(
    arguments: Any, parameters: dict[str, Any], fitted: dict[str, Any]
) -> None:
    assert fit_arguments(arguments, parameters) == (fitted, "")
    refused, fault = fit_arguments(arguments, parameters, mends=False)
    assert (refused, fault.split(" got ")[0][:18]) == ({}, "expected an object")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param('{"query": "delete from orders where id = 1', id="an open string"),
        pytest.param('{"query": "tides"', id="an open brace"),
        pytest.param("{'query': 'tides", id="an open string of Python"),
        pytest.param("{", id="cut at once"),
        pytest.param('{"que', id="cut in the name"),
        pytest.param('{"query": "tides"}</tool_call>', id="a mark behind"),
        pytest.param('<tool_call>\n{"query": "tides"}', id="a mark before"),
        pytest.param("tides</tool_call>", id="a bare text with a mark"),
        pytest.param('{"query": "a"}{"query": "b"}', id="two objects"),
        pytest.param('{"query": "a"}\n{"query": "b"}', id="two objects, one a line"),
        pytest.param('Sure: {"query": "tides"}', id="prose before"),
        pytest.param("{'query': 'tides'}  # done", id="a comment"),
        pytest.param("{'query': 'ti' 'des'}", id="two texts"),
        pytest.param('{"query": "tides",,}', id="two commas"),
        pytest.param('query": "tides"}', id="its beginning is lost"),
        pytest.param('"query": "tides"', id="without braces"),
        pytest.param("{query: 'tides'}", id="a name without quotes"),
        pytest.param('[{"query": "tides"}]', id="in a list"),
        pytest.param([{"query": "tides"}], id="in a list that was read"),
        pytest.param("{'query': 'tides', 'x': 1}", id="a foreign field in Python's quotes"),
        pytest.param('```\n{"query": "tides"}\n``` and so on', id="words behind a fence"),
        pytest.param('"{\\"query\\": \\"ti"', id="cut, as a JSON text of a text"),
        pytest.param('"{\\"query\\": \\"ti', id="cut, as a JSON text that is cut itself"),
        pytest.param('"{\\"query\\": \\"tides\\"}" and more', id="words behind a JSON text"),
        pytest.param('"delete from orders where id = 1', id="a bare text in quotes that is cut"),
        pytest.param('["tides"', id="a list that is cut"),
        pytest.param("['tides']", id="a list in Python's quotes"),
        pytest.param("```json\n", id="cut behind the fence's first line"),
        pytest.param("{“query”: “tides”}", id="typographic quotes"),
        pytest.param({"__arg1": '{"query": "ti'}, id="cut, as LangChain names a bare value"),
    ],
)
def test_the_json_of_an_object_is_never_the_value_of_the_only_field(arguments: Any) -> None:
    fitted, fault = fit_arguments(arguments, QUERY)
    assert fitted == {}
    assert fault.startswith("expected an object with 'query', got ")


@pytest.mark.parametrize(
    "arguments",
    [
        "{place} for rent",
        "tides, or {currents}",
        "he said: 'now'",
        "a {b} 'c': d",
        '"exact" words',
        "[x] done",
        "“tides”",
    ],
)
def test_braces_and_quotes_in_a_bare_text_are_its_own(arguments: str) -> None:
    assert fit_arguments(arguments, QUERY) == ({"query": arguments}, "")


@pytest.mark.parametrize(
    "arguments",
    ['{"query": "' + '\\"' * 200_000, "{'query': '" + "\\'" * 200_000 + "\\", '{"' * 200_000, "{'a'" + " ," * 200_000],
    ids=["escapes", "escapes of Python", "braces", "commas"],
)
def test_what_is_no_json_is_told_in_time_that_is_linear(arguments: str) -> None:
    began = time.process_time()
    assert fit_arguments(arguments, QUERY)[0] == {}
    assert time.process_time() - began < 2


@given(st.text(max_size=12), st.sampled_from(['{"query": %s,}', '```\n{"query": %s}\n```', "{'query': %s}"]))
def test_a_mended_value_is_what_was_written(value: str, form: str) -> None:
    assert fit_arguments(form % json.dumps(value), QUERY) == ({"query": value}, "")


@pytest.mark.parametrize(
    "arguments, parameters, fault",
    [
        pytest.param({}, TRIP, "missing 'city', 'days'.", id="all missing ones are named"),
        pytest.param(
            {"city": "Rome", "dais": 2, "x": 0},
            TRIP,
            "missing 'days'; unexpected 'dais' (did you mean 'days'?), 'x'.",
            id="missing and unexpected together",
        ),
        pytest.param(None, CITY, "missing 'city'.", id="nothing at all"),
        pytest.param({"data": {"town": "Rome"}}, CITY, "missing 'city'; unexpected 'data'.", id="nested nonsense"),
        pytest.param({1: 2}, CITY, "missing 'city'; unexpected '1'.", id="a key that is no text"),
        pytest.param("Rome", TRIP, "expected an object with 'city', 'days', 'hotel', got 'Rome'.", id="a bare text"),
        pytest.param([1], TRIP, "expected an object with 'city', 'days', 'hotel', got [1].", id="a list"),
        pytest.param("Rome", NOTHING, "expected an object with no fields, got 'Rome'.", id="a text for no fields"),
        pytest.param('{"city": "Ro', TRIP, None, id="JSON cut short"),
        pytest.param("[" * 100_000, TRIP, None, id="JSON nested too deep"),
    ],
)
def test_a_mismatch_is_explained(arguments: Any, parameters: dict[str, Any], fault: str | None) -> None:
    _, explained = fit_arguments(arguments, parameters)
    if fault is None:
        assert explained.startswith("expected an object with 'city', 'days', 'hotel', got '")
        assert len(explained) < 200
    else:
        assert explained == fault


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["city", "days", "x"]), inner),
)


@given(VALUES | VALUES.map(json.dumps) | st.text(), st.sampled_from([CITY, TRIP, NOTHING]))
def test_whatever_comes_fits_or_is_explained(arguments: Any, parameters: dict[str, Any]) -> None:
    fitted, fault = fit_arguments(arguments, parameters)
    if not fault:
        assert set(parameters.get("required", ())) <= set(fitted) <= set(parameters["properties"])


@given(st.fixed_dictionaries({"city": VALUES, "days": VALUES}))
def test_coercion_changes_nothing_that_fits(arguments: dict[str, Any]) -> None:
    assert fit_arguments(arguments, TRIP) == (arguments, "")
    assert fit_arguments(json.dumps(arguments), TRIP) == (arguments, "")
    assert fit_arguments({"arguments": arguments}, TRIP) == (arguments, "")
