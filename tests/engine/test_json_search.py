"""JSON values in what a model wrote (E16), found in time that is linear in the length of the text (E67)."""

from __future__ import annotations

import contextlib
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.engine.agent.structured_output import MOST_STARTS, find_json_values, read_whole_json

PIECES = ["{", "}", "[", "]", '"', ",", ":", "1", "-", "a", " ", '"k":', '{"a":1}', "true", "\\", '"x"', "\n", "```\n"]


def decode_at_every_bracket(text: str) -> tuple[list[object], bool]:
    """The values of a text by the plain way, which takes quadratic time; and whether all of them count.

    None counts that begins before another one broke around it, or that quotation marks stand around.
    """
    decoder, position, found = json.JSONDecoder(strict=False), 0, []
    all_count, broken_at = True, 0
    while match := re.compile(r"[{\[]").search(text, position):
        start = match.start()
        try:
            value, position = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            position, broken_at = start + 1, max(broken_at, error.pos)
        else:
            found.append(value)
            all_count &= start >= broken_at and text[max(start - 1, 0) : start] + text[position : position + 1] != '""'
    return found, all_count


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_values_in_prose_are_those_that_a_decoder_finds_at_every_bracket_e16(text: str) -> None:
    plain, all_count = decode_at_every_bracket(text)
    found = list(find_json_values(text))
    if all_count and not is_json(text.strip()):
        assert found[len(found) - len(plain) :] == plain
    else:
        assert len(found) <= max(1, len(plain) + text.count("```"))


@pytest.mark.parametrize(
    "text, found",
    [
        ('{"a": {"b": 1}, "c": [2]}', [{"a": {"b": 1}, "c": [2]}]),
        ('{"a": {"b": 1}, "c": [2],} [3]', [[3]]),  # what is inside a broken value was not meant by itself
        ('[{"b": 1}, see {"c": 2}', [{"c": 2}]),
        ('He wrote ["draft {"a": 1} here', [{"a": 1}]),
        ('> {"a": 1}\n{"b": 2}', [{"b": 2}]),
        ('- > {"a": 1}\n  2. > [1]\n{"b": 2}', [{"b": 2}]),
        ('> ```json\n> {"a": 1}\n> ```\n', []),
        ('It says "{"a": 1}" and “{"a": 2}” and ‘[3]’: {"b": 2}', [{"b": 2}]),  # noqa: RUF001
        ("'{\"a\": 1}'", [{"a": 1}]),
        ('"{\\"a\\": 1}"', ['{"a": 1}']),
        ('{"a": "see\n```\n{}\n```\n> [1]"}', [{"a": "see\n```\n{}\n```\n> [1]"}]),
        ("{'x': {\"a\": 1}, 'y': [2]}, {z: [3]}", []),
        ('my verdict: {"a": 1}, verdict: [2]', [{"a": 1}, [2]]),
        ('{{"a": 1}}', [{"a": 1}]),
        ('1 -> {"a": 1}, 2 > {"b": 2}', [{"a": 1}, {"b": 2}]),
    ],
)
def test_only_values_that_stand_by_themselves_and_in_no_quotation_count_e16(text: str, found: list[object]) -> None:
    assert list(find_json_values(text)) == found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_every_value_is_read_whole_and_in_a_fence_e58(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert read_whole_json(f" {text}\n") == value
    assert "```" in text or read_whole_json(f"```json\n{text}\n```\n") == value


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": 1} and', '```json\n{"a": 1}', '```\n{"a": 1}\n```\n```\n2\n```', "[" * 9999]
)
def test_a_part_is_not_the_whole_e58(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expect|Extra|deeply"):
        read_whole_json(text)


def test_a_value_behind_very_many_brackets_is_found_e67() -> None:
    assert list(find_json_values("{ " * 200_000 + '{"a": [1]}')) == [{"a": [1]}]
    assert list(find_json_values("[1 " * 50_000 + '{"a": [1]}')) == [{"a": [1]}]


def test_what_stands_behind_too_many_brackets_is_not_passed_over_in_silence_e67() -> None:
    with pytest.raises(ValueError, match="too many brackets to be read"):
        list(find_json_values('{"a": 1} ' + "[tr" * MOST_STARTS))


@pytest.mark.parametrize(
    "shape", [*PIECES, '["a["', '{"a":"', "[1,", '["', '{"a":{"b":1}, ', '[{"a":"x{"},"y":{', "[tr", '["[\\"']
)
def test_a_megabyte_of_any_shape_takes_no_more_than_seconds_e67(shape: str) -> None:
    text = (shape * 1_000_000)[:1_000_000]
    started = time.process_time()
    with contextlib.suppress(ValueError):  # too many brackets
        list(find_json_values(text))
    assert time.process_time() - started < 5
