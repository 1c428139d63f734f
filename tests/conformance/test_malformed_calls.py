"""Replies that a provider ended for a malformed call, with nothing in them (E14, E58)."""

from __future__ import annotations

import pytest

from ensemble_notebook import Agent, Ensemble, RunStatus, Task, TaskExecutionError, TurnStarted
from tests.conformance.scene import of
from tests.support.openai_server import Answer, OpenAIServer

WORDS = ["MALFORMED_FUNCTION_CALL", "malformed_function_call", "MalformedFunctionCall", "malformed_tool_use"]


def look(word: str) -> str:
    """Look a word up."""
    return f"{word} is a fruit"


def ask(llm: str, *, has_tools: bool = True, **fields: object) -> Ensemble:
    agent = Agent(role="A", goal="Ask", llm=llm, tools=[look] if has_tools else [], max_iterations=1)
    return Ensemble(tasks=[Task.of("Ask", name="ask", agent=agent, **fields)])


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("has_tools", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_e14_a_malformed_call_alone_is_asked_for_once_more(
    server: OpenAIServer, llm: str, word: str, *, has_tools: bool, is_streamed: bool
) -> None:
    again = [Answer("", calls=[("look", {"word": "fig"})])] if has_tools else []
    server.script(Answer("", finish_reason=word), *again, Answer("Fruit"))
    ensemble = ask(llm, has_tools=has_tools)
    output = ensemble.start(listeners=[lambda _: None]).result() if is_streamed else ensemble.run()
    calls = [call for turn in output.trace.tasks[0].turns for call in turn.tool_calls]
    assert (output.raw, len(calls)) == ("Fruit", len(again))
    assert "was malformed, and none was made" in server.requests[1].body["messages"][-1]["content"]
    assert [each.is_correction for each in of(output, TurnStarted)] == [False, True, *(False for _ in again)]
    assert word in output.warnings[0]
    assert output.warnings[1:] == ("Agent 'A' made a malformed call of a tool for task 'ask', and is asked once more.",)


def test_e14_a_malformed_call_that_comes_again_is_an_empty_text(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("", finish_reason=WORDS[0])
    output = ask(llm).run()
    assert (output.raw, output.status, len(server.requests)) == ("", RunStatus.COMPLETED, 2)
    server.default = Answer("Half of it", finish_reason=WORDS[0])  # a text is kept as it came
    assert (ask(llm).run().raw, len(server.requests)) == ("Half of it", 3)


def test_e58_a_typed_task_is_asked_once_more_and_then_fails(server: OpenAIServer, llm: str) -> None:
    server.script(Answer("", finish_reason=WORDS[0]), Answer('{"score": 9}'))
    assert ask(llm, output_type={"score": "int"}).run().parsed_output == {"score": 9}
    server.default = Answer("", finish_reason=WORDS[0])
    with pytest.raises(TaskExecutionError, match="MALFORMED_FUNCTION_CALL"):
        ask(llm, output_type={"score": "int"}).run()
    assert len(server.requests) == 4
