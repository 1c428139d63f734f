"""Template variables (E6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.templates import (
    ItemTemplate,
    check_variables,
    find_first_texts,
    find_input_name,
    find_item_paths,
    find_variables,
    hide_item,
    is_variable_name,
    render,
)
from ensemble_notebook.errors import PromptTemplateError

NAMES = st.text("abcXYZ019_", min_size=1, max_size=6)
BRACELESS = st.text(st.characters(exclude_characters="{}", codec="utf-8"), max_size=8)


@pytest.mark.parametrize(
    "text, rendered",
    [
        ("Write about {topic}.", "Write about tides."),
        ("{topic}{topic}", "tidestides"),
        ("{{topic}}", "{topic}"),
        ("{{topic}} is {topic}", "{topic} is tides"),
        ("{none}", ""),
        ("{count} {list} {Größe}", "3 [1, 2] {Größe}"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"topic": {topic}}', '{"topic": tides}'),
        ('{{"a": {"b": []}}}', '{{"a": {"b": []}}}'),
        ("{a-b} { topic } {} {{}} {topic", "{a-b} { topic } {} {{}} {topic"),
        ("{0} {_x}", "zero under"),
        ("{sly}", "{topic}"),
        ("{doubled}", "{{topic}}"),
        ("", ""),
    ],
)
def test_one_pass_fills_in_variables_and_leaves_other_braces_alone_e6(text: str, rendered: str) -> None:
    inputs: dict[str, Any] = {
        "topic": "tides",
        "none": None,
        "count": 3,
        "list": [1, 2],
        "0": "zero",
        "_x": "under",
        "sly": "{topic}",
        "doubled": "{{topic}}",
    }
    assert render(text, inputs) == rendered


def test_a_variable_without_a_value_stays_as_it_is() -> None:
    assert render("{topic} in {year}", {"year": 2026}) == "{topic} in 2026"


def test_variables_are_listed_in_order_with_repetitions() -> None:
    assert list(find_variables("{b} {{c}} {a} {b} {a-b}")) == ["b", "a", "b"]


def test_all_missing_names_are_reported_together_in_order_once_each_e6() -> None:
    texts = ["Write {b}", "{known} {a}", "{b} {c}"]
    with pytest.raises(PromptTemplateError) as caught:
        check_variables(find_first_texts(texts), {"known": None})
    assert caught.value.missing_variables == ("b", "a", "c")
    assert caught.value.template == "Write {b}"


def test_the_quoted_template_is_the_first_that_misses_something() -> None:
    with pytest.raises(PromptTemplateError) as caught:
        check_variables(find_first_texts(["Write {known}", "Edit {missing}"]), {"known": 1})
    assert caught.value.template == "Edit {missing}"


def test_nothing_missing_is_fine() -> None:
    check_variables(find_first_texts(["{a} {{b}}", '{"c": 1}']), {"a": None})


@pytest.mark.parametrize("name", ["topic", "Topic_2", "0", "_"])
def test_a_variable_name_is_ascii_letters_digits_and_underscores_e6(name: str) -> None:
    assert is_variable_name(name)


@pytest.mark.parametrize("name", ["", "a b", "a-b", "größe", "٣", "a\n", 3, None])
def test_anything_else_is_no_variable_name(name: object) -> None:
    assert not is_variable_name(name)


@given(st.dictionaries(NAMES, st.text(max_size=8)), st.lists(NAMES, max_size=6), BRACELESS)
def test_values_are_inserted_verbatim(inputs: dict[str, str], names: list[str], between: str) -> None:
    text = between.join("{" + name + "}" for name in names)
    assert render(text, inputs) == between.join(inputs.get(name, "{" + name + "}") for name in names)


@given(st.text(st.characters(codec="utf-8")))
def test_a_text_without_variables_has_nothing_missing(text: str) -> None:
    if not list(find_variables(text)):
        check_variables(find_first_texts([text]), {})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text("ab c", max_size=4), st.lists, max_leaves=5))
def test_json_of_quoted_keys_is_left_alone(value: Any) -> None:
    text = json.dumps({"some key": value, "other key": {"inner key": value}})
    assert render(text, {"a": "!", "b": "!", "c": "!"}) == text


def test_item_is_filled_in_late_and_everything_once_e53() -> None:
    text = "{topic}: {item.a.b} of {item} and {items} {{item}} {{item.a}} {{topic}} {item-x}"
    inputs = {"topic": "{item.a}", "items": 3, "item": "never"}
    template = ItemTemplate(text, inputs)
    assert template.fill({"a": {"b": "{topic}"}}) == (
        '{item.a}: {topic} of {"a": {"b": "{topic}"}} and 3 {item} {item.a} {topic} {item-x}'
    )
    assert ItemTemplate("{item.a}{item}", {}).fill({"a": None}) == '{"a": null}'
    assert list(find_item_paths(text)) == ["a.b", ""]
    assert list(find_variables(hide_item(text))) == ["topic", "items"]
    assert render(hide_item("{topic} {item} {item.a}"), {"topic": 1, "item": 2}) == "1 {item} {item.a}"


def test_missing_field_of_an_item_names_the_nearest_e53() -> None:
    with pytest.raises(LookupError, match=r"There is no field 'txt'. Did you mean 'text'\?"):
        ItemTemplate("{item.txt}", {}).fill({"text": "a"})
    for item in ("a", 3, None, ["a"]):
        with pytest.raises(LookupError, match="There is no field 'text'"):
            ItemTemplate("{item.text}", {}).fill(item)


@pytest.mark.parametrize(
    "text, name", [("{docs}", "docs"), (" {docs} ", "docs"), ("docs", None), ("{{docs}}", None), ("{a} {b}", None)]
)
def test_source_that_is_an_input_has_its_name_in_braces_e53(text: str, name: str | None) -> None:
    assert find_input_name(text) == name
