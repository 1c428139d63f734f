"""Functions, classes and tools compared by their code and all that it reaches (C34a)."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook.domain.fingerprints.parts import make_content_graph
from tests.support.code_cell import Notebook

TOOL = '''
import functools
import json

LIMIT = 5
NAMES = {"a": [1, 2], "b": {"x"}}

def norm(text):
    """Without space."""
    return text.strip()

def clean(text):
    return norm(text)[:LIMIT]

class Index:
    size = 3
    def find(self, text):
        return NAMES[text][: self.size]

index = Index()

def make(separator):
    def join(texts):
        return separator.join(texts)
    return join

join = make(", ")
short = lambda text, length=3: text[:length]
part = functools.partial(clean)

@functools.cache
def cached(text):
    return clean(text)

def search(query: str, count: int = 3, *, exact: bool = False) -> str:
    """Find it."""
    def inner(text):
        return index.find(text)
    return join([json.dumps(inner(query)), short(query), part(query), cached(query)][:count])

it = search
'''
EDITS_THAT_COUNT = {
    "a word in the docstring": ('"""Find it."""', '"""Look it up."""'),
    "the code": ("index.find(text)", "index.find(text) or ()"),
    "the name of a parameter": ("count: int", "limit: int"),
    "a default": ("count: int = 3", "count: int = 4"),
    "a keyword default": ("exact: bool = False", "exact: bool = True"),
    "a type": ("exact: bool", "exact: int"),
    "the helper of a helper": ("text.strip()", "text.lstrip()"),
    "a global of a helper": ("LIMIT = 5", "LIMIT = 6"),
    "what is deep in a global": ('"b": {"x"}', '"b": {"y"}'),
    "a method": ("[: self.size]", "[self.size :]"),
    "an attribute of a class": ("size = 3", "size = 4"),
    "the state of an object": ("index = Index()", "index = Index()\nindex.size = 9"),
    "what is closed over": ('make(", ")', 'make("; ")'),
    "the code of a closure": ("separator.join(texts)", "separator.join(sorted(texts))"),
    "a lambda": ("text[:length]", "text[length:]"),
    "the default of a lambda": ("length=3", "length=2"),
    "what is bound": ("functools.partial(clean)", "functools.partial(norm)"),
    "what is decorated": ("def cached(text):\n    return clean", "def cached(text):\n    return norm"),
}
EDITS_THAT_DO_NOT = {
    "nothing": ("it = search", "it = search"),
    "a comment": ("LIMIT = 5", "LIMIT = 5  # at most"),
    "a comment in the code": ("    def inner", "    # as it is\n    def inner"),
    "a blank line": ("def search", "\n\n\ndef search"),
    "layout": ("return index.find(text)", "return index.find(\n            text,\n        )"),
    "brackets and quotes": ("return separator.join(texts)", "return (separator.join((texts)))"),
    "the order of keys": ('{"a": [1, 2], "b": {"x"}}', "{'b': {'x'}, 'a': [1, 2]}"),
    "the order of definitions": ("LIMIT = 5\nNAMES", "FIRST = 1\nLIMIT = 5\nNAMES"),
    "what it does not reach": ("index = Index()", "index = Index()\nother = Index()\nother.size = 1"),
    "an attribute that is named like a global": ("LIMIT = 5", "LIMIT = 5\nfind = 7"),
    "the name of the function": (
        "def search",
        "def look_up",
    ),
}


def read(value: Any) -> str:
    found = make_content_graph().read(value)
    assert found.obstacle is None
    return found.digest


def edit(change: tuple[str, str]) -> str:
    before, after = change
    assert before in TOOL
    text = TOOL.replace(before, after)
    return text.replace("it = search", "it = look_up") if after == "def look_up" else text


@pytest.mark.parametrize("change", EDITS_THAT_COUNT)
def test_edit_counts(change):
    assert read(Notebook().run(edit(EDITS_THAT_COUNT[change]))) != read(Notebook().run(TOOL))


@pytest.mark.parametrize("change", EDITS_THAT_DO_NOT)
def test_edit_does_not_count(change):
    assert read(Notebook().run(edit(EDITS_THAT_DO_NOT[change]))) == read(Notebook().run(TOOL))


@settings(max_examples=25)
@given(
    st.sets(st.sampled_from(sorted(EDITS_THAT_DO_NOT.keys() - {"the name of the function"}))),
    st.none() | st.sampled_from(sorted(EDITS_THAT_COUNT)),
)
def test_any_edits_together_count_where_one_of_them_does(quiet, counting):
    text = TOOL
    for before, after in ([] if counting is None else [EDITS_THAT_COUNT[counting]]) + [
        EDITS_THAT_DO_NOT[each] for each in sorted(quiet)
    ]:
        text = text.replace(before, after)
    assert (read(Notebook().run(text)) == read(Notebook().run(TOOL))) == (counting is None)


def test_cell_executed_again_does_not_count():
    notebook = Notebook(TOOL)
    before = read(notebook.names["search"])
    notebook.run(TOOL)
    assert read(notebook.names["search"]) == before


def test_helper_executed_again_beside_what_still_holds_the_first_one_does_not_count():
    helper = "def walk(at):\n    return walk(at - 1) if at else 0"
    notebook = Notebook(helper, "held = [walk]\ndef it():\n    return held[0](3) + walk(2)")
    before = read(notebook.names["it"])
    notebook.run(helper)
    assert read(notebook.names["it"]) == before
    notebook.run(helper.replace("else 0", "else 1"))
    assert read(notebook.names["it"]) != before


def test_functions_that_call_each_other_are_compared():
    source = "def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n != 0 and even(n - 1)\nit = even"
    assert read(Notebook().run(source)) == read(Notebook().run(source))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("n != 0", "n > 0")))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("it = even", "it = odd")))


def test_lambdas_on_one_line_are_told_apart():
    one, other, same = Notebook().run("it = [lambda x: x + 1, lambda x: x + 2, lambda x: x + 1]")
    assert read(one) != read(other)
    assert read(one) == read(same)


def test_functions_of_one_factory_are_told_apart_by_what_they_close_over():
    one, other = Notebook().run("def make(n):\n    return lambda x: x + n\nit = make(1), make(2)")
    assert read(one) != read(other)


def test_async_function_and_object_that_can_be_called_count_by_their_code():
    source = "async def it():\n    return 1"
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("1", "2")))
    source = "class Call:\n    def __call__(self):\n        return 1\nit = Call()"
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("1", "2")))
    assert read(Notebook().run(source)) == read(Notebook().run(source.replace("Call()", "Call(  )")))


def test_class_counts_by_the_class_that_made_it():
    source = "class Meta(type):\n    def __call__(cls):\n        return 1\nclass it(metaclass=Meta):\n    pass"
    assert read(Notebook().run(source)) == read(Notebook().run(f"\n{source}"))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("1", "2")))


def test_code_without_a_text_is_compared_by_its_bytecode():
    def make(source: str) -> Any:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(source, names)
        return names["it"]

    source = "def it(x):\n    return x in {'a', 'b', 'c'} and (lambda: x + 1)"
    assert read(make(source)) == read(make(f"\n\n# moved\n{source}"))
    assert read(make(source)) != read(make(source.replace("+ 1", "+ 2")))
    assert read(make(source)) != read(make(source.replace("'c'", "'d'")))


def test_file_that_was_edited_and_not_loaded_again_does_not_stand_for_the_code_that_runs(tmp_path, monkeypatch):
    path = tmp_path / "own_tools.py"
    path.write_text("def clean(text):\n    return text\n")
    module = load(path, monkeypatch)
    before = read(module.clean)
    path.write_text("def clean(text):\n    return text.upper()\n")
    stale = read(module.clean)
    assert stale != read(load(path, monkeypatch).clean)
    path.write_text("# a comment\ndef clean(text):\n    return text\n")
    assert read(load(path, monkeypatch).clean) == before


def load(path: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    monkeypatch.setitem(sys.modules, path.stem, module)
    return module


def test_module_of_the_users_own_counts_by_what_is_used_of_it(tmp_path, monkeypatch):
    path = tmp_path / "own_tools.py"
    text = "STEP = 1\ndef clean(text):\n    return text * STEP\ndef other():\n    return 1\n"
    path.write_text(text)
    tool = "import own_tools\ndef it(text):\n    return own_tools.clean(text)"
    inside = "def it(text):\n    import own_tools\n    return own_tools.clean(text)"
    monkeypatch.syspath_prepend(tmp_path)
    load(path, monkeypatch)
    before, before_inside = read(Notebook().run(tool)), read(Notebook().run(inside))
    path.write_text(text.replace("return 1", "return 2"))
    load(path, monkeypatch)
    assert read(Notebook().run(tool)) == before
    path.write_text(text.replace("STEP = 1", "STEP = 2"))
    load(path, monkeypatch)
    assert read(Notebook().run(tool)) != before
    assert read(Notebook().run(inside)) != before_inside


def test_function_of_a_package_counts_by_name():
    assert read(functools.partial(functools.reduce, max)) == read(functools.partial(functools.reduce, max))
    assert read(functools.reduce) != read(functools.partial)
    assert read(pytest.fixture) != read(pytest.param)


MODEL = """
from pydantic import BaseModel, Field, field_validator
import dataclasses, enum, typing

class Kind(enum.Enum):
    A = 1

class Base(BaseModel):
    kind: Kind = Kind.A

class Answer(Base):
    text: str = Field(description="What it is")
    score: float = Field(default=0.5, ge=0)

    @field_validator("text")
    @classmethod
    def check(cls, value):
        return value.strip()

@dataclasses.dataclass
class Row:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list)

class Keys(typing.TypedDict, total=False):
    name: str

it = Answer, Row, Keys
"""


@pytest.mark.parametrize(
    "before, after",
    [
        ("What it is", "What it says"),
        ("default=0.5", "default=0.6"),
        ("ge=0", "gt=0"),
        ("score: float", "score: int"),
        ("value.strip()", "value"),
        ("A = 1", "A = 2"),
        ("default_factory=list)", "default_factory=tuple)"),
        ("total=False", "total=True"),
        ("class Row:\n    name: str", "class Row:\n    name: int"),
        ("class Answer(Base):", 'class Answer(Base):\n    """An answer."""'),
    ],
)
def test_edit_of_a_class_counts(before, after):
    assert before in MODEL
    assert read(Notebook().run(MODEL)) != read(Notebook().run(MODEL.replace(before, after)))


def test_class_declared_again_does_not_count():
    assert read(Notebook().run(MODEL)) == read(Notebook().run(f"# again\n{MODEL}"))


def test_langchain_tool_counts_by_the_function_inside():
    source = "from langchain_core.tools import tool\n@tool\ndef it(text: str) -> str:\n    '''Find.'''\n    return text"
    assert read(Notebook().run(source)) == read(Notebook().run(f"\n{source}  # done"))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("return text", "return text * 2")))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("Find.", "Search.")))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("text: str", "text: int")))


def test_connection_that_a_helper_reaches_is_named():
    notebook = Notebook("import sqlite3\nconn = sqlite3.connect(':memory:')\ndef ask():\n    return conn.execute('')")
    found = make_content_graph().read(notebook.run("def it():\n    return ask()"))
    assert found.obstacle == "reaches conn, a sqlite3.Connection"
    notebook.names["conn"].close()


def test_details_name_all_that_have_the_same_value():
    """Python has one object for each small number."""
    source = "k = 1\ndef it(loud=1):\n    return k + loud"
    details = dict(make_content_graph().read(Notebook().run(source)).details)
    assert (details["k"], details["loud"]) == ("=1", "=1")


def test_details_name_the_helpers_and_show_short_values():
    details = dict(make_content_graph().read(Notebook().run(TOOL)).details)
    assert next(iter(details)) == "its code"
    assert {"its helper clean", "its helper norm", "its helper join", "LIMIT", "NAMES", "count"} <= details.keys()
    assert details["LIMIT"] == "=5"
    assert details["NAMES"].startswith("#")


def test_type_that_nobody_knows_counts_as_it_is_written():
    source = "from __future__ import annotations\ndef it(text: Unknown) -> str:\n    return text"
    assert read(Notebook().run(source)) == read(Notebook().run(f"# again\n{source}"))
    assert read(Notebook().run(source)) != read(Notebook().run(source.replace("Unknown", "Missing")))
