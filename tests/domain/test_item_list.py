"""Values as lists of items (E53)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ensemble_notebook.domain.definitions.item_list import Items, NoListError, list_items, name_item


@dataclasses.dataclass
class Plan:
    """With one list field."""

    title: str
    subtasks: list[str]


@pytest.mark.parametrize(
    "value, items",
    [
        ([1, "two", None], (1, "two", None)),
        ((), ()),
        ({"subtasks": ["a"], "title": "t"}, ("a",)),
        (Plan("t", ["a", "b"]), ("a", "b")),
        (np.array([1.5, float("nan")]), (1.5, None)),
        (np.array([[1, 2], [3, 4]]), ([1, 2], [3, 4])),
        (pd.Series(["a", None], name="s"), ("a", None)),
        (pd.Series([1, None], dtype="Int64"), (1, None)),
        (pd.DataFrame({"a": [1, 2], "b": [None, "x"]}), ({"a": 1, "b": None}, {"a": 2, "b": "x"})),
        (pd.DataFrame({"a": [1.5]}, index=pd.Index(["k"], name="key")), ({"a": 1.5, "key": "k"},)),
        (pd.DataFrame({"a": [1]}, index=pd.Index(["k"], name="a")), ({"a": 1},)),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("c", "")])), ({"a_b": 1, "c": 2},)),
        (pd.DataFrame({0: ["x"], "two words": [2]}), ({"0": "x", "two words": 2},)),
        (pd.DataFrame({"a": []}), ()),
        (pd.DataFrame(), ()),
        ('["a", {"b": 1}]', ("a", {"b": 1})),
        ("```json\n[1, 2]\n```", (1, 2)),
        ("[]", ()),
        ("- a\n- b", ("a", "b")),
        ("* a\n\n* b\n", ("a", "b")),
        ("Three topics:\n\n1. Tides\n   and moons\n2) Waves\n10. Wind", ("Tides\nand moons", "Waves", "Wind")),
        ("- a\n  - of a\n- b\nof b", ("a\n- of a", "b\nof b")),
    ],
    ids=range(22),
)
def test_value_is_a_list_of_items_e53(value: Any, items: tuple[Any, ...]) -> None:
    listed = list_items(value)
    assert isinstance(listed, Items)
    assert tuple(listed) == items


@pytest.mark.parametrize(
    "value, words",
    [
        ("Tides are nice.", "is no list, neither a JSON array nor lines with a mark before each: 'Tides are nice.'"),
        ("- a\n- b\n\nThat is all.", "is no list"),
        ("I thought about it.\n- a", "is no list"),
        ('{"a": [1]}', "is no list"),
        ("", "is no list"),
        ("x" * 300, r"x{197}\.\.\.'$"),
        ({"a": 1}, "has no field that holds a list, and needs exactly one"),
        ({"a": [1], "b": [2]}, "has the lists a, b, and needs exactly one"),
        (5, "is no list, but a value of type int"),
        (None, "is no list, but a value of type NoneType"),
        ({1, 2}, "is no list, but a value of type set"),
        (np.array(5), "is no list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "has several columns called 'a'; give each its own name"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "has several columns called '1'"),
    ],
    ids=range(14),
)
def test_other_values_are_refused_in_words_e53(value: Any, words: str) -> None:
    with pytest.raises(NoListError, match=words):
        list_items(value)


@pytest.mark.parametrize(
    "item, name",
    [
        ("Paris", "Paris"),
        (7, "7"),
        ({"year": 1990, "note": None, "title": "Tides\n of Fundy", "text": "Long"}, "Tides of Fundy"),
        ({"title": "Tides", "label": "A1"}, "A1"),
        ({"title": "Tides", "label": 3}, "3"),
        ({"title": "Tides", "label": " "}, "Tides"),
        (dataclasses.make_dataclass("Paper", [("year", int), ("title", str)])(1990, "Rance"), "Rance"),
        ({"year": 1990}, ""),
        (["Paris"], ""),
        (None, ""),
        ("word " * 1000, ("word " * 40).strip()),
    ],
)
def test_an_item_is_called_by_its_label_else_by_its_first_text_w26(item: Any, name: str) -> None:
    assert name_item(item) == name


def test_items_say_how_many_they_are() -> None:
    assert repr(Items(range(1000))) == "<1,000 items>"
    assert repr(Items([1])) == "<1 item>"
