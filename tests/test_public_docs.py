"""What `help` and Jupyter's ``?`` show of the public names: every class, method and parameter is explained."""

import enum
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ensemble_notebook
from ensemble_notebook import (
    CheckFailed,
    EnsembleError,
    EnsembleOutput,
    Event,
    Improvement,
    MapResult,
    Partial,
    Rerun,
    RerunHandle,
    RunDiff,
    RunHandle,
    RunInterrupted,
    ScriptedChatModel,
)
from tests.conformance.contract import ROOT
from tests.notebook.conftest import ip, shell  # noqa: F401 - fixtures

NAMES = [name for name in ensemble_notebook.__all__ if callable(getattr(ensemble_notebook, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(ensemble_notebook, name))]
EVENT_FIELDS = frozenset(inspect.signature(Event).parameters)
MADE_BY_RUNS = (
    EnsembleError,
    RunInterrupted,
    EnsembleOutput,
    Improvement,
    MapResult,
    Partial,
    Rerun,
    RerunHandle,
    RunDiff,
    RunHandle,
)
# A model has the fields of LangChain's models, too; ``args`` and ``kwargs`` are all that Python knows of a Protocol.
INHERITED = {
    ScriptedChatModel: frozenset(inspect.signature(ScriptedChatModel).parameters)
    - set(ScriptedChatModel.__annotations__)
}


def find_undocumented(function: Callable[..., Any], documentation: str) -> list[str]:
    """Find parameters that have no line of their own, are not named in the text, and are not explained elsewhere."""
    if re.search(r"(?i)(arguments|all) [^.]*as (for|in) `[\w.]+`|^As `[\w.]+`", documentation):
        return []
    names = [each for each in inspect.signature(function).parameters if each not in ("self", "cls", "owner")]
    return [
        name
        for name in names
        if not name.startswith("_")
        and f"`{name}`" not in documentation
        and not re.search(rf"^\s*\*{{0,2}}{name}:", documentation, re.MULTILINE)
    ]


def list_methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in vars(kind).items():
        found = getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)
        if not name.startswith("_") and inspect.isfunction(found) and found.__module__.startswith("ensemble_notebook"):
            yield name, found


@pytest.mark.parametrize("name", NAMES)
def test_public_name_says_what_it_is(name):
    assert getattr(ensemble_notebook, name).__doc__


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_of_a_public_name_is_documented(name):
    value = getattr(ensemble_notebook, name)
    if not inspect.isclass(value):
        assert find_undocumented(value, value.__doc__) == []
        return
    if issubclass(value, (enum.Enum, *MADE_BY_RUNS)) or getattr(value, "_is_protocol", False):
        return  # their constructors are not for users
    undocumented = find_undocumented(value, value.__doc__)
    inherited = EVENT_FIELDS if issubclass(value, Event) and value is not Event else INHERITED.get(value, frozenset())
    above = "\n".join(each.__doc__ or "" for each in value.__mro__[1:-1])
    assert [each for each in undocumented if each not in inherited and f" {each}:" not in above] == []


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_and_its_parameters_are_documented(name):
    methods = list(list_methods(getattr(ensemble_notebook, name)))
    assert [method for method, function in methods if not function.__doc__] == []
    assert {
        method: lacking for method, function in methods if (lacking := find_undocumented(function, function.__doc__))
    } == {}


def test_the_exercise_of_the_page_for_teachers_fails_as_it_stands_and_holds_when_it_is_solved(shell: Any) -> None:  # noqa: F811
    section = (ROOT / "docs" / "teaching.md").read_text().partition("## Exercises with checks")[2]
    exercise, check = re.findall(r"```(?:yaml|python)\n(.*?)```", section, re.DOTALL)
    assert shell.run(exercise).success
    assert isinstance(shell.run(check).error_in_exec, CheckFailed)
    assert shell.run(exercise.replace("Write a brief", "Write a brief, context: [gather]")).success
    assert shell.run(check).success
