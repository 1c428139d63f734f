"""Objects compared by content: plain values, tables, objects with a state, and what can't be compared (C34a)."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import itertools
import sqlite3
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from ensemble_notebook.domain.fingerprints.parts import make_content_graph

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner) | st.frozensets(scalars)
    ),
    max_leaves=6,
)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Form(BaseModel):
    name: str
    tags: list[str] = []


class Store:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def read(value: Any) -> str:
    return make_content_graph().read(value).digest


def find_obstacle(value: Any) -> str | None:
    return make_content_graph().read(value).obstacle


@given(values)
def test_copy_has_the_same_fingerprint(value):
    assert read(copy.deepcopy(value)) == read(value)


@given(values, values)
def test_different_values_have_different_fingerprints(one, other):
    assert (read(one) == read(other)) == (describe(one) == describe(other))


def describe(value: Any) -> Any:
    """A value as it is to be told from others: types count, the order of keys and members does not."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, sorted((key, repr(describe(each))) for key, each in value.items())
    if isinstance(value, frozenset):
        return kind, sorted(repr(describe(each)) for each in value)
    if isinstance(value, list | tuple):
        return kind, [describe(each) for each in value]
    return kind, repr(value)


@given(st.dictionaries(st.text() | st.tuples(st.integers()), scalars | st.lists(scalars)))
def test_order_of_keys_does_not_count(mapping):
    assert read(dict(reversed(mapping.items()))) == read(mapping)


@given(st.lists(scalars | st.tuples(scalars), min_size=1))
def test_sharing_does_not_count(items):
    apart = [items, copy.deepcopy(items), (copy.deepcopy(items),)]
    assert read([items, items, (items,)]) == read(apart)


PROGRAM = f"""
import sys
sys.path[:] = {sys.path!r}
import dataclasses, enum
from ensemble_notebook.domain.fingerprints.parts import make_content_graph
class Color(enum.Enum):
    RED = {{"a", "b", "c"}}
@dataclasses.dataclass
class Point:
    names: frozenset
    def is_known(self, name):
        return name in {{"x", "y", "z"}} or name in NAMES
NAMES = {{"p", "q", "r", None, 1, (2, "t")}}
print(make_content_graph().read([Color.RED, Point(frozenset("abc")), {{"b": 1, "a": 2}}]).digest)
"""
PAIRS = {
    "datetime": (lambda: datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), lambda: datetime.datetime(2026, 1, 2)),  # noqa: DTZ001
    "timedelta": (lambda: datetime.timedelta(1), lambda: datetime.timedelta(2)),
    "decimal": (lambda: decimal.Decimal("1.0"), lambda: decimal.Decimal("1.00")),
    "path": (lambda: Path("a/b"), lambda: Path("a/c")),
    "uuid": (lambda: uuid.UUID(int=1), lambda: uuid.UUID(int=2)),
    "enum": (lambda: Color.RED, lambda: Color.BLUE),
    "dataclass": (lambda: Point(1), lambda: Point(1, 1)),
    "pydantic": (lambda: Form(name="a"), lambda: Form(name="a", tags=["b"])),
    "read_only": (lambda: MappingProxyType({"a": [1]}), lambda: MappingProxyType({"a": [2]})),
    "array": (lambda: numpy.arange(6).reshape(2, 3), lambda: numpy.arange(6).reshape(3, 2)),
    "number": (lambda: numpy.float64(0.5), lambda: numpy.float32(0.5)),
    "objects": (lambda: numpy.array(["a", None]), lambda: numpy.array(["a", "b"])),
    "table": (
        lambda: pandas.DataFrame({"a": [1, 2], "b": ["x", None]}),
        lambda: pandas.DataFrame({"a": [1, 2], "b": "x"}),
    ),
    "series": (lambda: pandas.Series([1, 2], name="a"), lambda: pandas.Series([1, 2], index=["p", "q"], name="a")),
    "timestamp": (lambda: pandas.Timestamp("2026-01-02"), lambda: pandas.Timestamp("2026-01-03")),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_content_counts_and_the_object_does_not(kind):
    make, change = PAIRS[kind]
    assert read(make()) == read(make())
    assert read(make()) != read(change())


def test_place_of_columns_in_memory_does_not_count():
    whole = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    joined = pandas.concat([whole[["a"]], whole[["b"]]], axis=1)
    assert read(joined) == read(whole)
    assert read(numpy.asfortranarray(whole.to_numpy())) == read(whole.to_numpy())


def test_ring_of_objects_has_a_fingerprint_by_content():
    def make(last: int) -> list[Any]:
        ring: list[Any] = [1, {"inner": [last]}]
        ring[1]["back"] = ring
        return ring

    assert read(make(2)) == read(make(2))
    assert read(make(2)) != read(make(3))


def test_long_chain_that_points_both_ways_is_compared():
    def make(last: int) -> Any:
        links = [{"number": 0 if at < 199 else last} for at in range(200)]
        for one, other in itertools.pairwise(links):
            one["next"], other["before"] = other, one
        return links[0]

    assert read(make(1)) == read(make(1))
    assert read(make(1)) != read(make(2))


def test_order_in_which_objects_are_read_does_not_count():
    ring: list[Any] = []
    ring.append(ring)
    graph = make_content_graph()
    graph.read(ring)
    assert graph.read((ring, 1)).digest == read((ring, 1))


@pytest.mark.parametrize(
    "value, words",
    [
        (threading.Lock(), "is a _thread.lock"),
        ({"a": [threading.Lock()]}, "reaches a, a _thread.lock"),
        ((each for each in ()), "is a generator"),
        (Store(), "reaches lock, a _thread.lock"),
        ([threading.Event()], "holds a threading.Event"),
    ],
)
def test_what_has_no_content_is_named(value, words):
    assert find_obstacle(value) == words


def test_connection_is_an_obstacle_of_the_method_bound_to_it():
    connection = sqlite3.connect(":memory:")
    assert find_obstacle(connection.execute) == "holds a sqlite3.Connection"
    connection.close()


def test_secret_does_not_count():
    assert read(SecretStr("one-secret-value")) == read(SecretStr("another-secret"))


def test_fingerprint_is_the_same_in_another_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found != {""}
