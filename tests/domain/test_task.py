"""Tasks (E2)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.tools import tool

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.task import Task, find_other_signature
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.errors import ValidationError

WRITER = Agent(role="Writer", goal="Write")


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


class Kit:
    @tool
    def hammer(self, text: str) -> str:
        """Hammer."""
        return text


class BigKit(Kit):
    @tool
    def saw(self, text: str) -> str:
        """Saw."""
        return text


async def handle_async(given: TaskInput) -> str:
    return given.description


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Task(**{"description": "Write", "expected_output": "A page", **fields})
    return str(caught.value)


def test_of_fills_in_an_expected_output_e2() -> None:
    task = Task.of("Write", name="write")
    assert (task.description, task.name) == ("Write", "write")
    assert task.expected_output
    assert Task.of("Write", expected_output="A page").expected_output == "A page"


@pytest.mark.parametrize("field", ["description", "expected_output"])
def test_texts_are_not_blank(field: str) -> None:
    assert refusal(**{field: " "}) == f"Task {field} must not be blank."


def test_a_name_is_not_blank() -> None:
    assert refusal(name=" ") == "Task name must not be blank. Leave it out to get one."


def test_an_agent_is_an_agent() -> None:
    assert refusal(agent="Writer") == "Task agent must be an Agent, got str. Pass the Agent itself, not its role."


def test_context_is_tasks_or_names() -> None:
    first = Task.of("Read")
    assert Task.of("Write", context=[first, "other"]).context == (first, "other")
    assert refusal(context=[first, 3]) == "Task context takes tasks or their names, got int."


def test_a_task_can_not_read_itself_e2() -> None:
    assert refusal(name="write", context=["read", "write"]) == "Task 'write' can't read its own output."


@pytest.mark.parametrize(
    "handler", [lambda _: "", handle_async, shout, Kit()], ids=["plain", "async", "tool", "object"]
)
def test_a_handler_is_a_function_or_a_tool_e2(handler: Any) -> None:
    assert Task.of("Write", handler=handler).handler is handler


@pytest.mark.parametrize("handler", [3, "shout", object()], ids=lambda each: type(each).__name__)
def test_anything_else_is_no_handler(handler: Any) -> None:
    assert refusal(handler=handler) == f"Task handler must be a function or a tool, got {type(handler).__name__}."


def test_an_object_of_several_tools_is_no_handler() -> None:
    assert refusal(handler=BigKit()) == (
        "Task handler must be one tool, but BigKit holds several: saw, hammer. Pass one of them."
    )


@pytest.mark.parametrize(
    "other", [{"agent": WRITER}, {"llm": "local"}, {"tools": [shout]}], ids=lambda each: next(iter(each))
)
def test_a_handler_excludes_what_it_replaces_e2(other: dict[str, Any]) -> None:
    (field,) = other
    assert refusal(handler=len, **other) == (
        f"A task has a handler or {field}, not both: the handler runs instead of an agent."
    )


def test_a_task_may_have_its_own_model_and_tools() -> None:
    task = Task.of("Write", llm="local", tools=[shout])
    assert (task.llm, task.tools) == ("local", (shout,))
    assert refusal(llm=" ") == "Task llm must not be blank."
    assert refusal(tools=[3]).startswith("Tool at index 0 (int) is no tool.")


def test_a_repr_is_short() -> None:
    assert repr(Task.of("x" * 100, name="long")) == f"Task(long: {'x' * 60!r})"
    assert repr(Task.of("Write")) == "Task('Write')"


# --- recovery, guardrails, memory, limits ---


def test_a_fallback_is_an_agent_e31() -> None:
    assert Task.of("Write", fallback=WRITER).fallback is WRITER
    assert refusal(fallback="Writer").startswith("Task fallback must be an Agent, or a mapping such as {'role': ")


@pytest.mark.parametrize("field", ["input_guardrails", "output_guardrails"])
def test_guardrails_are_functions_one_of_them_a_list_of_one_e18(field: str) -> None:
    for value in (len, [len], (len,)):
        assert getattr(Task.of("Write", **{field: value}), field) == (len,)
    given = "TaskInput" if field == "input_guardrails" else "TaskOutput"
    told = f"Task {field}[1] must be a function ({given}) -> None | str, got 3."
    assert refusal(**{field: [len, 3]}) == told
    assert "got <class 'str'>" in refusal(**{field: [str]})
    assert refusal(**{field: "len"}) == f"Task {field} must be a list or tuple, got str."


def test_memory_is_names_of_scopes_one_of_them_a_list_of_one_e44() -> None:
    assert Task.of("Write", memory="letters").memory == ("letters",)
    assert Task.of("Write", memory=["letters", "people"]).memory == ("letters", "people")
    assert refusal(memory=["letters", " "]) == "Task memory takes names of scopes, got ' '."
    assert refusal(memory=[3]) == "Task memory takes names of scopes, got 3."


def test_a_rate_needs_a_model_e37() -> None:
    limit = RateLimit(1, 1)
    assert Task.of("Write", rate_limit=limit).rate_limit is limit
    assert refusal(rate_limit=1).startswith("Task rate_limit must be a RateLimit, a text such as '60/min', or a")
    assert refusal(handler=len, rate_limit=limit).startswith("A task has a handler or rate_limit, not both")


def _calls_with_one(function: Callable[..., Any]) -> bool:
    try:
        function("it")
    except TypeError:
        return False
    return True


def _told_otherwise() -> None:
    """Takes nothing, and says that it takes one."""


vars(_told_otherwise)["__signature__"] = inspect.signature(lambda given: given)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "()": lambda: None,
    "(a)": lambda a: a,
    "(a=1)": lambda a=1: a,
    "(a, /)": lambda a, /: a,
    "(a, b)": lambda a, b: (a, b),
    "(a, b=1)": lambda a, b=1: (a, b),
    "(*a)": lambda *a: a,
    "(a, *b)": lambda a, *b: (a, b),
    "(**a)": lambda **a: a,
    "(*, a)": lambda *, a: a,
    "(*, a=1)": lambda *, a=1: a,
    "(a, *, b)": lambda a, *, b: (a, b),
    "(a, *, b=1)": lambda a, *, b=1: (a, b),
    "partial": functools.partial(lambda a, b: (a, b), 1),
    "of a class": str.upper,
    "of an object": "".join,
}


@pytest.mark.parametrize("function", _FUNCTIONS.values(), ids=_FUNCTIONS)
def test_a_handler_is_what_can_be_called_with_one_argument(function: Callable[..., Any]) -> None:
    assert (find_other_signature(function) is None) is _calls_with_one(function)


def test_a_handler_may_tell_its_signature_itself() -> None:
    assert find_other_signature(_told_otherwise) is None
