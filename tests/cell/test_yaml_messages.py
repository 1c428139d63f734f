"""The words of ruamel.yaml's errors, by which a mistake in a cell is told from another (C11).

ruamel.yaml gives its errors no codes. So its upper bound is pinned, and these tests say when a version words them anew.
"""

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

WHAT_TO_DO = (
    "ruamel.yaml words this error in a new way: {found}. Look for {words!r} where the errors of the YAML parser are "
    "explained (yaml_pitfalls.py in the cell layer), add the new words beside the old ones while the floor in "
    "pyproject.toml allows both, and raise the upper bound there."
)
PROBLEMS = {
    "quote that is never closed": ('- "a', "end of stream"),
    "quote closed by nothing before the next document": ('- "a\n---\n', "document separator"),
    "sign that starts nothing": ("- @a", "cannot start any token"),
    "second colon": ("a: b: c", "mapping values are not allowed"),
    "no colon": ("a: b\nc\nd: e", "could not find expected ':'"),
    "bracket that is never closed": ("a: [b", "stream end"),
    "line at no level": ("a:\n  b: c\n d: e", "expected <block end>"),
    "text among keys": ("a:\n  b: c\n 'd'", "<scalar>"),
    "key among items": ("- a\n? b", "'?'"),
    "item among keys": ("a: b\n- c", "'-'"),
    "text after the end": ("{a: b}\nc", "<document start>"),
    "list on the line of its key": ("a: - b", "sequence entries"),
    "question mark in a value": ("a: ? b", "mapping keys"),
    "escape that is none": (r'- "\q"', "escape"),
    "escape without its digits": (r'- "\u12G4"', "escape"),
    "comma in place of a value": ("a: , b", "node content"),
}
CONTEXTS = {
    "quote that is never closed": ('- "a', "quoted scalar"),
    "bracket that is never closed": ("a: [b", "flow"),
    "brace that is never closed": ("a: {b: c", "flow"),
}


def error_of(text):
    with pytest.raises(MarkedYAMLError) as caught:
        YAML(typ="safe", pure=True).load(text)
    return caught.value


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_is_worded_as_pitfalls_know_it(name):
    text, words = PROBLEMS[name]
    error = error_of(text)
    assert words in error.problem, WHAT_TO_DO.format(found=error.problem, words=words)
    assert error.problem_mark.index <= len(text)


@pytest.mark.parametrize("name", CONTEXTS)
def test_context_is_worded_as_pitfalls_know_it(name):
    text, words = CONTEXTS[name]
    error = error_of(text)
    assert words in error.context, WHAT_TO_DO.format(found=error.context, words=words)
    assert error.context_mark.index <= len(text)
