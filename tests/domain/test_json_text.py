"""JSON of any depth, read or refused before a decoder goes down into it (E67)."""

import json

import pytest

from ensemble_notebook.domain.value_text import DEEPEST, read_json
from ensemble_notebook.engine.agent.tool_arguments import fit_arguments
from ensemble_notebook.models.openai.reply_body import mark_malformed_arguments


def nest(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text", [nest(DEEPEST), '{"a": [1]}', '"[[["', "[[], {}]" + " " * 9, json.dumps([[{}]] * 9999)]
)
def test_value_is_read_as_json_has_it(text):
    assert read_json(text) == read_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", [nest(DEEPEST + 1), '{"a":' * 500 + "1" + "}" * 500, "[" * 100_000, '["]", ' * 500])
def test_what_is_nested_too_deeply_is_refused_before_it_is_decoded(text):
    for form in (text, text.encode(), text.encode("utf-16")):
        with pytest.raises(ValueError, match=r"^it is nested too deeply$"):
            read_json(form)


def test_brackets_in_texts_do_not_count():
    text = json.dumps(["[" * 1_000, '"\\' + "{" * 1_000])
    assert read_json(text) == json.loads(text)


def test_arguments_that_are_nested_too_deeply_are_no_value():
    deep = '{"a": ' + nest(DEEPEST) + "}"
    fitted, fault = fit_arguments(deep, {"properties": {"a": {}}})
    assert (fitted, fault[:39]) == ({}, "expected an object with 'a', got '{\"a\":")
    assert mark_malformed_arguments([deep]) != [deep]
