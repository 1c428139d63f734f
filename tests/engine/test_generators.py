"""Functions that yield, in every place where one is called: run to their end (E1, E2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.tools import tool

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    Reply,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    ToolUse,
)


def words(text: str) -> Iterator[str]:
    """Work."""
    yield "all about "
    yield text


async def words_async(text: str) -> AsyncIterator[str]:
    """Work."""
    yield "all about "
    await asyncio.sleep(0)
    yield text


async def words_in_the_end(text: str) -> Any:
    """Work."""
    return words(text)


def parts(text: str) -> Iterator[Any]:
    """Work."""
    yield 1
    yield {"text": text}


def capitals(text: str) -> Any:
    """Work."""
    return map(str.capitalize, ["all ", "about ", text])


def nothing(text: str) -> Iterator[str]:
    """Work."""
    yield from ()


def result(text: str) -> Any:
    """Work."""
    yield from ()
    return f"no more of {text}"


class Spoken:
    name = "spoken"
    description = "Work."

    def execute(self, text: str) -> Iterator[str]:
        """Say it."""
        yield "said "
        yield text


class SpokenAsync(Spoken):
    async def execute(self, text: str) -> AsyncIterator[str]:  # type: ignore[override]
        """Say it."""
        yield "said "
        yield text


RESULTS = [
    (words, "all about tides"),
    (words_async, "all about tides"),
    (words_in_the_end, "all about tides"),
    (parts, '[1, {"text": "tides"}]'),
    (capitals, "All About Tides"),
    (nothing, ""),
    (result, "no more of tides"),
    (tool(words), "all about tides"),
    (tool(words_async), "all about tides"),
    (Spoken(), "said tides"),
    (SpokenAsync(), "said tides"),
]


def ask(entry: Any) -> tuple[Any, ...]:
    """What a model is told that calls a tool."""
    name = getattr(entry, "name", None) or entry.__name__
    field = "input" if isinstance(entry, Spoken) else "text"
    llm = ScriptedChatModel(replies=[ToolUse(name, {field: "tides"}), Reply("done")])
    Ensemble(tasks=[Task.of("Work", agent=Agent(role="Clerk", goal="Work", tools=[entry], llm=llm))]).run()
    return tuple(each.content for each in llm.calls[-1].messages if each.type == "tool")


def handle(handler: Any) -> EnsembleOutput:
    return Ensemble(tasks=[Task.of("tides", name="work", handler=handler)]).run()


@pytest.mark.parametrize("entry, text", RESULTS)
def test_a_tool_that_yields_is_run_to_its_end_e1(entry: Any, text: str) -> None:
    assert ask(entry) == (text,)


@pytest.mark.parametrize("entry, text", [each for each in RESULTS if hasattr(each[0], "name")])
def test_so_is_a_tool_as_handler_e2(entry: Any, text: str) -> None:
    assert handle(entry).raw == text


@pytest.mark.parametrize("entry, text", [each for each in RESULTS if not hasattr(each[0], "name")])
def test_so_is_a_function_as_handler_e2(entry: Any, text: str) -> None:
    assert handle(lambda task: entry(task.description)).raw == text


async def handle_async(task: TaskInput) -> AsyncIterator[int]:
    yield 1
    yield 2


def test_what_is_no_text_is_a_list_e2() -> None:
    output = handle(handle_async)
    assert (output.raw, output["work"].parsed_output) == ("[1, 2]", [1, 2])


async def fails(task: TaskInput) -> AsyncIterator[str]:
    yield "all about "
    raise LookupError("no tides")


def test_one_that_fails_on_its_way_fails_e2() -> None:
    with pytest.raises(TaskExecutionError, match="LookupError: no tides"):
        handle(fails)


def objections(output: Any) -> Iterator[str]:
    if "tides" in output.raw:
        yield "no tides"


def test_a_guardrail_may_yield_its_objections_e18() -> None:
    def run(text: str) -> EnsembleOutput:
        task = Task.of("Work", name="work", handler=lambda _: text, output_guardrails=[objections])
        return Ensemble(tasks=[task]).run()

    assert run("winds").raw == "winds"
    with pytest.raises(TaskExecutionError, match="no tides"):
        run("tides")
