"""What counts as a tool, and under which names (E1)."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.tools import tool

from ensemble_notebook.domain.definitions.tool import (
    ToolResult,
    find_tool_methods,
    is_agent_tool,
    is_langchain_tool,
    list_tool_names,
)


@tool("look_up")
def looked_up(query: str) -> str:
    """Look up."""
    return query


class Echo:
    name = "echo"
    description = "Says it again."

    def execute(self, text: str) -> str:
        return text


class Nameless:
    def execute(self, text: str) -> str:
        return text


class Kit:
    @tool
    def hammer(self) -> str:
        """Hammer."""
        return ""

    @tool
    def saw(self) -> str:
        """Saw."""
        return ""

    @property
    def trap(self) -> str:
        raise RuntimeError("nobody may look here")

    def plain(self) -> str:
        return ""


class SmallKit(Kit):
    saw = None  # type: ignore[assignment]


def search(query: str) -> str:
    return query


@pytest.mark.parametrize(
    "entry, names",
    [
        (search, ("search",)),
        (len, ("len",)),
        (looked_up, ("look_up",)),
        (Echo(), ("echo",)),
        (Kit(), ("hammer", "saw")),
        (SmallKit(), ("hammer",)),
        (Kit().plain, ("plain",)),
        (Kit().hammer, ("hammer",)),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, tuple) else "+".join(each),
)
def test_a_tool_is_known_by_its_names_e1(entry: Any, names: tuple[str, ...]) -> None:
    assert list_tool_names(entry) == names


@pytest.mark.parametrize(
    "entry",
    [None, 3, "search", object(), Echo, Kit, Nameless(), functools.partial(search, "x")],
    ids=["None", "number", "text", "object", "class", "class with tools", "no name", "partial"],
)
def test_what_is_no_tool_has_no_names(entry: Any) -> None:
    assert list_tool_names(entry) is None


def test_looking_for_tools_runs_no_property_of_the_users_object() -> None:
    assert list(find_tool_methods(Kit())) == [Kit.hammer, Kit.saw]


def test_forms_are_told_apart() -> None:
    assert is_agent_tool(Echo())
    assert not is_agent_tool(looked_up)
    assert is_langchain_tool(looked_up)
    assert not is_langchain_tool(Echo())


def test_asking_whether_something_is_a_tool_does_not_import_langchain() -> None:
    program = """
import sys
from ensemble_notebook.domain.definitions.tool import list_tool_names
assert list_tool_names(print) == ("print",)
assert list_tool_names(object()) is None
print([name for name in sys.modules if name.startswith("langchain")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_result_is_a_success_or_a_failure_with_a_reason() -> None:
    assert ToolResult.ok("text", {"a": 1}) == ToolResult(output="text", structured_output={"a": 1})
    assert ToolResult.ok("text").is_success
    failure = ToolResult.failure("closed")
    assert (failure.is_success, failure.output, failure.error_message) == (False, "", "closed")
