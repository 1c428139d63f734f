"""No text leads to anything but a cell or its mistakes, soon (C12)."""

import json
import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.cell.test_mutation import CELLS, NAMESPACE

SIGNS = "-:{}[]\"'|>&*!%@`#?,.~=<\\\t\r\n\x00\x07\x85\xa0\u2028\ufeff\ud800 ab0"
PIECES = [
    *["- ", ": ", "\n  ", "\n", "{topic}", "{{", "tasks:", "agents:", "phases:", "context:", "&a ", "*a", "? ", "<<: "],
    *["!!python/name:os.system ", "---\n", "...\n", "%YAML 1.1\n", "| \n", ">-\n", "'", '"', "[", "]", "{", "}", "#"],
    *[" #", "\t", "null", "1e999", "0x", ".nan", '"\\ud800"', '"\\U00110000"', "description: ", "goal: ", "name: "],
    *["a", "é", "\U0001f600"],
]
WORDS = sorted({word for schema in vocabulary.SCHEMAS for word in schema.known})


def check(text):
    """Read it; whatever is said about it is in order."""
    error = None
    try:
        read_cell(text, NAMESPACE)
    except CellError as caught:
        error = caught
    if error is not None:
        assert error.mistakes
        assert error._render_lines()
        count = text.count("\n") + text.count("\r") + 1
        for each in error.mistakes:
            assert 1 <= each.line <= count
            assert 1 <= each.column < each.end_column
            assert each.message


@given(st.text(alphabet=st.one_of(st.characters(categories=["L", "N", "P", "S", "Z", "C"]), st.sampled_from(SIGNS))))
def test_any_text_is_a_cell_or_mistakes(text):
    check(text)


@given(st.text(alphabet=SIGNS, max_size=60))
def test_any_heap_of_signs_is_a_cell_or_mistakes(text):
    check(text)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example("{a: &x [*x]}")
@example("a: &a {b: *a}")
@example('- "\\U00110000"')
def test_any_heap_of_yaml_is_a_cell_or_mistakes(text):
    check(text)


@st.composite
def damaged(draw):
    text = draw(st.sampled_from(sorted(CELLS.values())))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, 15))
        text = text[:start] + draw(st.sampled_from([*PIECES, "", text[start:end] * 2])) + text[end:]
    return text


@given(damaged())
def test_any_damaged_cell_is_a_cell_or_mistakes(text):
    check(text)


TEXTS = st.sampled_from(["default", "60/min", "$1", "5 calls", "before", "a.db", "x/", "str", "object", "check", "a b"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | TEXTS
KEYS = st.sampled_from([*WORDS, "a", "b", "properties", "type"])


DATA = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@given(DATA)
def test_any_data_in_any_place_is_a_cell_or_mistakes(data):
    check(json.dumps(data))


@pytest.mark.parametrize("word", sorted({*vocabulary.CELL.words, *vocabulary.CELL.keys}))
@given(value=DATA)
@settings(max_examples=20)
def test_any_value_of_any_word_of_the_cell_is_a_cell_or_mistakes(word, value):
    check(json.dumps({"tasks": {"a": "x", "b": "y"}, "agents": {"A": {"goal": "g"}}} | {word: value}))


@pytest.mark.parametrize(
    "schema", [vocabulary.TASK, vocabulary.AGENT, vocabulary.PHASE], ids=lambda schema: schema.name
)
@given(data=st.data())
def test_any_value_of_any_word_of_a_member_is_a_cell_or_mistakes(schema, data):
    value = {data.draw(st.sampled_from(sorted(schema.keys))): data.draw(DATA)}
    member = {"description": "x", "goal": "g", "tasks": {"c": "z"}}
    known = {name: text for name, text in member.items() if name in schema.keys}
    check(json.dumps({"phases": {"p": {"a": "x"}}, "agents": {}} | {f"{schema.name}s": {"a": known | value}}))


def test_alias_bomb_is_refused_at_its_anchors():
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join([f'*{chr(97 + level)}'] * 9)}]\n" for level in range(20)
    )
    with pytest.raises(CellError, match="is an anchor for YAML"):
        read_cell(bomb)


def test_nothing_named_by_a_tag_or_a_name_is_imported_or_run(tmp_path, monkeypatch):
    (tmp_path / "cell_trap.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for text in (
        "- !!python/module:cell_trap x",
        "- !!python/object/apply:cell_trap.run [x]",
        "tasks: [{description: x, handler: cell_trap.run, llm: cell_trap.model}]\nlisteners: [cell_trap.f]",
        "- '{cell_trap.__class__}'",
    ):
        check(text)
    assert "cell_trap" not in sys.modules


class Touchy:
    """A variable that must not be touched."""

    def __getattr__(self, name):
        raise RuntimeError(f"{name} was read")


def test_looking_for_a_near_name_touches_no_variable():
    with pytest.raises(CellError, match="no 'serch'"):
        read_cell("tasks: [{description: x, tools: [serch], llm: modle}]", {"touchy": Touchy(), "search": print})


MILLION = 1_000_000 - 50


def fill(piece):
    return piece * (MILLION // len(piece))


LARGE = {
    "one text": "- " + fill("word "),
    "one block": "- |\n" + fill("  some words in a line of text\n"),
    "variables": '- "' + fill("{a}") + '"',
    "many tasks": "tasks:\n" + fill("  - {description: Gather the facts, agent: R}\n"),
    "many items": fill("- Research the topic of the day now\n"),
    "brackets": fill("["),
    "braces": fill("{a: "),
    "dashes": fill("- "),
    "commas": "[" + fill("a,"),
    "same key": fill("a: b\n"),
    "one key": fill("a") + ": b",
    "blanks before a colon": "a" + fill(" ") + ": b",
    "anchors": fill("- &a b\n"),
    "quotes": fill('"a" '),
    "colons": fill(": "),
    "controls": fill("\x00"),
    "broken values": fill("- @a\n"),
    "long broken value": "a: " + fill("word ") + ": b",
    "stairs": "".join(" " * depth + "a:\n" for depth in range(1300)),
    "links": "tasks:\n" + "".join(f"  t{n}: {{description: x, context: [t{n - 1}]}}\n" for n in range(1, 4000)),
    "wrong links": "tasks:\n" + "".join(f"  t{n}: {{description: x, context: [u{n}]}}\n" for n in range(1, 4000)),
    "wrong inputs": "inputs:\n"
    + "".join(f"  v{n}: x\n" for n in range(4000))
    + "tasks:\n"
    + "".join(f"- x {{w{n}}}\n" for n in range(4000)),
    "phases": "phases:\n" + "".join(f"  p{n}: {{tasks: [a], after: [p{n - 1}]}}\n" for n in range(1, 2400)),
    "conditions": "tasks:\n  a: x\n  b:\n    description: y\n    when:\n" + fill("    - {a: {contains: x}}\n"),
    "wrong conditions": "tasks:\n"
    + "".join(f"  t{n}: {{description: x, when: {{u{n}: y}}}}\n" for n in range(1, 3500)),
    "fields": "tasks:\n- description: x\n  output_type:\n" + "".join(f"    f{n}: strr\n" for n in range(9000)),
    "schema": "tasks:\n- description: x\n  output_type: {type: object, properties: {" + fill("a: {type: st}, ") + "}}",
    "budget": "tasks: [a]\nbudget: $" + fill("1, "),
    "rate": "tasks: [a]\nrate_limit: 1" + fill(" ") + "x",
    "stages": "constraints: {required_stages: [" + fill("[A], ") + "]}",
    "caps": "tasks: [a]\nworkflow: hierarchical\nconstraints:\n  max_calls_per_worker:\n"
    + "".join(f"    A{n}: 1\n" for n in range(9000)),
    "guardrails": "tasks:\n- description: x\n  input_guardrails:\n" + "".join(f"  - g{n}\n" for n in range(9000)),
    "too much": fill("- abc\n") * 2,
}


@pytest.mark.parametrize("name", LARGE)
def test_large_cell_is_read_in_seconds(name):
    started = time.process_time()
    check(LARGE[name])
    assert time.process_time() - started < 20
