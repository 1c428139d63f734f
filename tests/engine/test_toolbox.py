"""Tools in every form that an agent may hold, called the way a model asks for them (E1, E13, E15)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.tool import SourcedTool, TaskInput, ToolResult
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolLeftRunning
from ensemble_notebook.engine.agent.langchain_tools import to_text
from ensemble_notebook.engine.agent.toolbox import Toolbox, to_handler_function
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter, SystemClock
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.errors import ToolExecutionError, ValidationError

USER = contextvars.ContextVar("USER", default="nobody")


def with_caller(main: Callable[[FunctionCaller], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        caller = FunctionCaller()
        try:
            return await asyncio.wait_for(main(caller), 30)
        finally:
            caller.close()

    return asyncio.run(run())


def a_span() -> SpanEmitter:
    return SpanEmitter(EventStream("run", SystemClock()), "run.1")


def answer(entry: Any, arguments: Any, name: str | None = None) -> ToolAnswer:
    toolbox = Toolbox([entry])
    call = ToolCall(id="1", name=name or toolbox.specs[0].name, arguments=arguments)
    return with_caller(lambda caller: toolbox.answer(call, caller, a_span()))


# --- one tool in every form ---


def add(left: int, right: int = 1) -> int:
    """Add two numbers.

    Args:
        left: the first.
        right: the second.
    """
    return left + right


async def add_async(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


@tool("add_tool")
def add_tool(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


class Sum(BaseTool):
    name: str = "sum"
    description: str = "Add two numbers."

    def _run(self, left: int, right: int = 1) -> int:
        return left + right


class AsyncSum(Sum):
    async def _arun(self, left: int, right: int = 1) -> int:
        return left + right


class Pair(BaseModel):
    left: int
    right: int = 1


class Calculator:
    def __init__(self, offset: int) -> None:
        self.offset = offset

    @tool
    def plus(self, left: int, right: int = 1) -> int:
        """Add two numbers.

        Args:
            left: the first.
        """
        return self.offset + left + right

    @tool
    async def plus_async(self, left: int, right: int = 1) -> int:
        """Add two numbers."""
        return self.offset + left + right

    @tool("plus_checked", args_schema=Pair)
    def checked(self, left: int, right: int) -> int:
        """Add two numbers."""
        return self.offset + left + right

    shared = add_tool


ADDERS = [
    pytest.param(add, "add", id="function"),
    pytest.param(add_async, "add_async", id="async function"),
    pytest.param(add_tool, "add_tool", id="@tool"),
    pytest.param(Sum(), "sum", id="BaseTool"),
    pytest.param(AsyncSum(), "sum", id="async BaseTool"),
    pytest.param(Calculator(0), "plus", id="@tool on a method"),
    pytest.param(Calculator(0), "plus_async", id="@tool on an async method"),
    pytest.param(Calculator(0), "plus_checked", id="@tool on a method, with its own schema"),
    pytest.param(Calculator(0), "add_tool", id="a tool as a class attribute"),
]


@pytest.mark.parametrize("entry, name", ADDERS)
@pytest.mark.parametrize(
    "arguments",
    [{"left": 2, "right": 3}, '{"left": 2, "right": 3}', {"arguments": {"left": 2, "right": 3}}],
    ids=["object", "JSON text", "nested"],
)
def test_every_form_of_tool_takes_every_unambiguous_form_of_arguments(entry: Any, name: str, arguments: Any) -> None:
    assert answer(entry, arguments, name) == ToolAnswer("5", ToolOutcome.SUCCESS)


@pytest.mark.parametrize("entry, name", ADDERS)
def test_every_form_of_tool_shows_the_model_a_schema_without_self(entry: Any, name: str) -> None:
    spec = {spec.name: spec for spec in Toolbox([entry]).specs}[name]
    assert spec.description.startswith("Add two numbers.")
    assert list(spec.parameters["properties"]) == ["left", "right"]
    assert spec.parameters["required"] == ["left"]
    assert spec.parameters["properties"]["left"]["type"] == "integer"


@pytest.mark.parametrize("entry, name", ADDERS)
def test_every_form_of_tool_explains_arguments_that_do_not_fit(entry: Any, name: str) -> None:
    wrong = answer(entry, {"lift": 2, "right": 3}, name)
    assert wrong.outcome is ToolOutcome.FAILURE
    assert wrong.text == (
        f"Error: the arguments of tool {name!r} don't fit: missing 'left'; unexpected 'lift' (did you mean 'left'?)."
    )


def test_methods_of_two_objects_of_a_class_are_two_tools() -> None:
    assert answer(Calculator(10), {"left": 1}, "plus").text == "12"
    assert answer(Calculator(20), {"left": 1}, "plus").text == "22"


def test_a_docstring_describes_the_arguments() -> None:
    (spec,) = Toolbox([add]).specs
    assert spec.parameters["properties"]["left"]["description"] == "the first."


def test_a_function_without_docstring_or_hints_is_a_tool_all_the_same() -> None:
    def look_up(city, country="IT"):  # type: ignore[no-untyped-def]
        return f"{city}, {country}"

    (spec,) = Toolbox([look_up]).specs
    assert (spec.name, spec.description) == ("look_up", "look up")
    assert answer(look_up, {"city": "Rome"}).text == "Rome, IT"


def test_async_tools_run_on_the_loop_and_sync_ones_on_threads_e15() -> None:
    @tool
    def where() -> bool:
        """Where it runs."""
        return threading.current_thread() is threading.main_thread()

    @tool
    async def where_async() -> bool:
        """Where it runs."""
        return threading.current_thread() is threading.main_thread()

    assert answer(where, {}).text == "False"
    assert answer(where_async, {}).text == "True"


@pytest.mark.parametrize("form", [lambda body: body, tool], ids=["function", "@tool"])
def test_a_sync_tool_sees_the_callers_context_variables_e15(form: Any) -> None:
    def who() -> str:
        """Who calls."""
        return USER.get()

    token = USER.set("ada")
    try:
        assert answer(form(who), {}).text == "ada"
    finally:
        USER.reset(token)


class Opaque:
    pass


def unresolved(city: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Look."""
    return ""


def unspeakable(city: Opaque) -> str:
    """Look."""
    return ""


@pytest.mark.parametrize("function", [unresolved, unspeakable])
def test_a_tool_that_no_model_can_be_shown_is_refused_by_name(function: Callable[..., str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Toolbox([add, function])
    (problem,) = caught.value.problems
    assert problem.message.startswith(f"Tool at index 1 ({function.__name__}) can't be shown to a model: ")
    assert problem.item == 1


# --- AgentTool ---


class Echo:
    name = "echo"
    description = "Says it again."

    def execute(self, text: str) -> Any:
        return f"{type(text).__name__} {text}"


class AsyncEcho(Echo):
    async def execute(self, text: str) -> Any:
        return f"{type(text).__name__} {text}"


@pytest.mark.parametrize("echo", [Echo(), AsyncEcho()], ids=["sync", "async"])
@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"input": "hello"}, "hello"),
        ("hello", "hello"),
        ("42", "42"),
        ({"input": 42}, "42"),
        ({"input": {"a": [1]}}, '{"a": [1]}'),
        ({"__arg1": "hello"}, "hello"),
    ],
)
def test_an_agent_tool_always_gets_a_text(echo: Echo, arguments: Any, text: str) -> None:
    assert answer(echo, arguments).text == f"str {text}"


# --- what goes wrong is told to the model, and nothing else happens ---


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        """Fail."""
        raise error

    return fail


@pytest.mark.parametrize(
    "error, text",
    [
        (ValueError("no such city"), "Tool error: ValueError: no such city"),
        (KeyError("missing"), "Tool error: KeyError: 'missing'"),
        (AssertionError(), "Tool error: AssertionError"),
        (SystemExit(3), "Tool error: SystemExit: 3"),
        (KeyboardInterrupt(), "Tool error: KeyboardInterrupt"),
        (StopIteration(), "Tool error: StopIteration"),
        (asyncio.CancelledError(), "Tool error: CancelledError"),
    ],
    ids=repr,
)
def test_a_tool_that_raises_is_told_to_the_model_e13(error: BaseException, text: str) -> None:
    told = answer(failing(error), {})
    assert (told.text, told.outcome) == (text, ToolOutcome.FAILURE)
    assert error in (told.error, getattr(told.error, "__cause__", None))


def test_an_unknown_tool_is_told_to_the_model_with_the_nearest_one_e13() -> None:
    told = answer(add_tool, {}, "ad_tool")
    assert told == ToolAnswer("Error: there is no tool named 'ad_tool'. Did you mean 'add_tool'?", ToolOutcome.FAILURE)


def test_values_of_the_wrong_type_are_named_by_field_e13() -> None:
    told = answer(add, {"left": "many"})
    assert told.text.startswith("Error: the arguments of tool 'add' don't fit: left: Input should be a valid integer")
    assert told.outcome is ToolOutcome.FAILURE


def test_a_tools_own_validation_error_is_not_blamed_on_the_arguments() -> None:
    def fetch() -> None:
        """Fetch."""
        Pair.model_validate({"left": "what the server sent"})

    assert answer(fetch, {}).text.startswith("Tool error: ValidationError: 1 validation error for Pair")


@pytest.mark.parametrize(
    "result, text",
    [
        (ToolResult.failure("closed on Mondays"), "Error: closed on Mondays"),
        (ToolResult.ok("open"), "open"),
        (None, ""),
    ],
    ids=["failure", "success", "nothing"],
)
@pytest.mark.parametrize("form", [lambda body: body, tool], ids=["function", "@tool"])
def test_a_tool_may_answer_with_a_result_or_nothing_e13(form: Any, result: Any, text: str) -> None:
    def look() -> Any:
        """Look."""
        return result

    told = answer(form(look), {})
    assert told.text == text
    assert told.outcome is (ToolOutcome.FAILURE if text.startswith("Error") else ToolOutcome.SUCCESS)


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    "value, text",
    [
        ("text", "text"),
        (None, ""),
        (42, "42"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (("é", datetime(2026, 1, 1, tzinfo=UTC)), '["é", "2026-01-01T00:00:00+00:00"]'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (RING, "[[...]]"),
        (ToolResult.ok("text"), "text"),
        (ToolResult(output={"a": 1}), '{"a": 1}'),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_whatever_comes_back_has_a_text(value: Any, text: str) -> None:
    assert to_text(value) == text


def test_a_cancelled_sync_tool_is_left_to_itself_and_named_e35() -> None:
    started, release = threading.Event(), threading.Event()

    def sleepy() -> str:
        """Sleep."""
        started.set()
        release.wait()
        return "woke"

    async def main(caller: FunctionCaller) -> list[str]:
        call = asyncio.ensure_future(
            Toolbox([sleepy]).answer(ToolCall(id="1", name="sleepy", arguments={}), caller, a_span())
        )
        await caller.call("watch", started.wait)
        call.cancel()
        with pytest.raises(ToolLeftRunning) as left:
            await call
        abandoned = caller.list_abandoned()
        left.value.hear_end(late.put)
        release.set()
        return abandoned

    late: SimpleQueue[ToolAnswer | None] = SimpleQueue()
    try:
        assert with_caller(main) == ["tool sleepy"]
        assert late.get(timeout=60) == ToolAnswer("woke", ToolOutcome.SUCCESS)
    finally:
        release.set()


def test_a_cancelled_tool_of_a_server_has_an_end_that_nobody_knows_e35() -> None:
    async def main(caller: FunctionCaller) -> None:
        asked = asyncio.Event()

        async def call_server(arguments: dict[str, Any], ask: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        described = {"name": "charge", "source_name": "charge", "description": "Charge."}
        toolbox = Toolbox([SourcedTool(**described, parameters={"type": "object"}, call=call_server)])
        call = asyncio.ensure_future(toolbox.answer(ToolCall(id="1", name="charge", arguments={}), caller, a_span()))
        await asked.wait()
        call.cancel()
        with pytest.raises(ToolLeftRunning):
            await call

    with_caller(main)


# --- tools as handlers (E2) ---


def task_input(*context: str, description: str = "Look around.") -> TaskInput:
    outputs = tuple(
        TaskOutput(
            name=f"t{index}",
            raw=raw,
            task_description="",
            agent_role="Handler",
            completed_at=datetime.now(UTC),
            duration=timedelta(),
        )
        for index, raw in enumerate(context)
    )
    return TaskInput(name="t", description=description, expected_output="something", context=outputs)


def handled(handler: Any, work: TaskInput) -> Any:
    return with_caller(lambda caller: caller.call("handler", to_handler_function(handler), work))


def test_a_function_as_handler_is_called_as_it_is() -> None:
    work = task_input()
    assert handled(lambda given: given, work) is work


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@tool
async def shout_async(text: str) -> str:
    """Shout."""
    return text.upper()


class Shouter:
    @tool
    def louder(self, text: str) -> str:
        """Shout."""
        return text.upper()


@pytest.mark.parametrize("handler", [shout, shout_async, Shouter()], ids=["sync", "async", "method"])
def test_a_tool_as_handler_gets_the_last_context_output_else_the_description_e2(handler: Any) -> None:
    assert handled(handler, task_input("first", "last")) == "LAST"
    assert handled(handler, task_input()) == "LOOK AROUND."


@pytest.mark.parametrize("text", ["2024", "null", "[1, 2]", ""])
def test_an_agent_tool_as_handler_gets_the_output_as_it_is(text: str) -> None:
    assert handled(Echo(), task_input(text)) == f"str {text}"


def test_a_tool_of_several_fields_as_handler_reads_them_from_json() -> None:
    assert handled(add_tool, task_input('{"left": 2, "right": 3}')) == 5


def test_a_tool_as_handler_says_what_does_not_fit() -> None:
    with pytest.raises(ToolExecutionError, match="Tool 'add_tool' can't handle task 't': expected an object") as caught:
        handled(add_tool, task_input("two and three"))
    assert (caught.value.tool_name, caught.value.tool_input) == ("add_tool", "two and three")
