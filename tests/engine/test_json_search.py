"""JSON values in what a model wrote (E16), found in time that is linear in the length of the text (E67)."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.engine.agent.structured_output import MOST_VALUES, find_json_values, read_whole_json

PIECES = ["{", "}", "[", "]", '"', ",", ":", "1", "-", "a", " ", '"k":', '{"a":1}', "true", "\\", '"x"', "\n", "```\n"]


def decode_at_every_bracket(text: str) -> list[object]:
    """The values of a text by the plain way, which takes quadratic time."""
    decoder, position, found = json.JSONDecoder(strict=False), 0, []
    while match := re.compile(r"[{\[]").search(text, position):
        try:
            value, position = decoder.raw_decode(text, match.start())
            found.append(value)
        except ValueError:
            position = match.start() + 1
    return found


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_values_in_prose_are_those_that_a_decoder_finds_at_every_bracket_e16(text: str) -> None:
    plain = decode_at_every_bracket(text)
    found = list(find_json_values(text))
    assert found[len(found) - len(plain) :] == plain


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_every_value_is_read_whole_and_in_a_fence_e58(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert read_whole_json(f" {text}\n") == value
    assert read_whole_json(f"```json\n{text}\n```\n") == value or "```" in text


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": 1} and', '```json\n{"a": 1}', '```\n{"a": 1}\n```\n```\n2\n```', "[" * 9999]
)
def test_a_part_is_not_the_whole_e58(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expect|Extra|deeply"):
        read_whole_json(text)


def test_of_very_many_values_the_first_are_found_e67() -> None:
    assert len(list(find_json_values("{}" * 50_000))) == MOST_VALUES


def test_a_value_behind_very_many_brackets_is_found_e67() -> None:
    assert list(find_json_values("{ " * 200_000 + '{"a": [1]}')) == [{"a": [1]}]
    assert list(find_json_values("[" * 50_000 + '{"a": [1]}')) == [{"a": [1]}]


@pytest.mark.parametrize(
    "shape", [*PIECES, '["a["', '{"a":"', "[1,", '["', '{"a":{"b":1}, ', '[{"a":"x{"},"y":{', "[tr", '["[\\"']
)
def test_a_megabyte_of_any_shape_takes_no_more_than_seconds_e67(shape: str) -> None:
    text = (shape * 1_000_000)[:1_000_000]
    started = time.process_time()
    list(find_json_values(text))
    assert time.process_time() - started < 5
