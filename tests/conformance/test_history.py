"""E78: how much of an earlier conversation is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, Fail, ScriptedChatModel, Task, ToolUse, ValidationError
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.reading.options import parse_options
from ensemble_notebook.trace.timeline.span_details import to_details
from tests.conformance.scene import scripted

FOUR = [
    message
    for number in range(1, 5)
    for message in (
        {"role": "user", "content": f"ask {number} " + "x" * 34},  # 40 characters, and "user: " before them
        {"role": "assistant", "content": f"say {number}"},
    )
]


def look(what: str) -> str:
    """Look."""
    return "seen"


def make_chat(model: Any, history: str | None = None, **agent: Any) -> Ensemble:
    guide = Agent(role="Guide", goal="Guide", system_prompt="", llm=model, **agent)
    return Ensemble(tasks=[Task(prompt="{message}", name="chat", agent=guide, history=history)])


def sent(model: ScriptedChatModel, number: int = -1) -> list[str]:
    return [str(each.content).split(" xxx")[0] for each in model.calls[number].messages]


@pytest.mark.parametrize(
    "limit, first",
    [
        ("1 turn", 4),
        ("2 turns", 3),
        ("9 turns", 1),
        ("31 tokens", 4),
        ("32 tokens", 3),
        ("0.1k tokens", 1),
        ("1 token", 5),
    ],
)
def test_e78_whole_turns_are_left_out_from_the_front(limit: str, first: int) -> None:
    model = scripted("end")
    output = make_chat(model).run(message="new", continue_from=FOUR, history=limit)
    kept = [text for number in range(first, 5) for text in (f"ask {number}", f"say {number}")]
    assert sent(model) == [*kept, "new"]
    frame = output.frames.messages
    assert list(frame.is_left_out) == [True] * 2 * (first - 1) + [False] * (len(frame) - 2 * (first - 1))
    assert len(output["chat"].messages) == 10
    task = output.trace.spans[1]
    names = [each.get("name") for each in to_details(output.trace._fold, task.span_id)["messages"]]
    assert names == ["not sent"] * 2 * (first - 1) + [None] * (len(frame) - 2 * (first - 1))


def test_e78_a_turn_has_its_tool_calls() -> None:
    model = scripted(ToolUse("look", {"what": "x"}), "one", "two", "three")
    first = make_chat(model, tools=[look]).run(message="1")
    second = make_chat(model, tools=[look]).run(message="2", continue_from=first)
    make_chat(model, "1 turn", tools=[look]).run(message="3", continue_from=second)
    assert sent(model) == ["2", "two", "3"]
    assert [each.role for each in second["chat"].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


def test_e78_the_task_says_it_else_the_agent_else_the_run() -> None:
    for task, agent, count in (("1 turn", "2 turns", 1), (None, "2 turns", 2), (None, None, 3)):
        model = scripted("end")
        guide = Agent(role="Guide", goal="Guide", system_prompt="", llm=model, history=agent)
        chat = Ensemble(tasks=[Task(prompt="new", agent=guide, history=task)])
        chat.run(continue_from=FOUR, history="3 turns")
        assert len(sent(model)) == 2 * count + 1


def test_e78_tokens_are_counted_as_the_model_counts_them() -> None:
    model = ScriptedChatModel(replies=["end"], custom_get_token_ids=lambda text: [1] * len(text.split()))
    make_chat(model).run(message="new", continue_from=FOUR, history="14 tokens")  # 4 + 3 words a turn
    assert sent(model) == ["ask 3", "say 3", "ask 4", "say 4", "new"]


def test_e78_what_is_left_out_is_summed_up_once_by_the_same_model() -> None:
    model = scripted("They asked and said.", "end", "They did more.", "end of ends")
    chat = make_chat(model, "2 turns, summarised")
    output = chat.run(message="new", continue_from=FOUR)
    asked, answered = sent(model, 0), sent(model, 1)
    assert asked[0].startswith("Sum up this conversation for whoever goes on with it")
    assert "user: ask 1" in str(model.calls[0].messages[0].content)
    assert "say 3" not in str(model.calls[0].messages[0].content)
    summary = ["Sum up what we have said so far.", "They asked and said."]
    assert answered == [*summary, "ask 3", "say 3", "ask 4", "say 4", "new"]
    spans = output.frames.spans
    assert list(spans[spans.kind == "turn"].name) == ["summary of the conversation", "turn 1"]
    assert output.metrics.llm_call_count == 2
    assert output.trace.spans[2].totals.input_tokens
    assert [each.text for each in output["chat"].messages[:2]] == summary
    chat.run(message="newer", continue_from=output)
    assert "They asked and said." in str(model.calls[2].messages[0].content)
    assert "ask 1" not in str(model.calls[2].messages[0].content)


@pytest.mark.parametrize("reply", ["", "<think>They asked and said.</think>"])
def test_e78_a_summary_without_a_text_is_a_warning(reply: str) -> None:
    guide = Agent(role="Guide", goal="Answer", llm=scripted(reply, "said"))
    task = Task(prompt="new", agent=guide, history="1 turn, summarised")
    output = Ensemble(tasks=[task]).run(continue_from=FOUR)
    assert output.raw == "said"
    assert output.warnings == ("What is left out of the conversation was not summed up: the reply has no text.",)


def test_e78_a_summary_that_fails_is_a_warning() -> None:
    model = scripted(Fail("boom"), "end")
    guide = Agent(role="Guide", goal="Guide", system_prompt="", llm=model, max_retries=0)
    task = Task(prompt="new", agent=guide, history="1 turn, summarised")
    output = Ensemble(tasks=[task]).run(continue_from=FOUR)
    assert sent(model) == ["ask 4", "say 4", "new"]
    assert "was not summed up" in output.warnings[0]


@pytest.mark.usefixtures("store_path")
def test_e78_a_stored_run_is_gone_on_with_from_its_summary() -> None:
    model = scripted("They asked and said.", "end", "last")
    make_chat(model, "1 turn, summarised").run(message="new", continue_from=FOUR)
    make_chat(model).run(message="newer", continue_from=-1)
    assert sent(model) == [
        *("Sum up what we have said so far.", "They asked and said."),
        *("ask 4", "say 4", "new", "end", "newer"),
    ]


def make_agent(text: Any) -> Agent:
    return Agent(role="x", goal="y", history=text)


def make_task(text: Any) -> Task:
    return Task.of("x", history=text)


@pytest.mark.parametrize("make", [make_agent, make_task])
@pytest.mark.parametrize(
    "text, words",
    [
        ("20", "'20' is no amount of history"),
        ("8k tokns", "Did you mean 'tokens'?"),
        ("1.5 turns", "is no whole number"),
        ("8k tokens, forgotten", "'forgotten' is nothing that can be done"),
        (20, "it is a text, got int"),
    ],
)
def test_e78_a_limit_that_is_none_is_refused(make: Callable[[Any], Any], text: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make(text)
    assert words in str(caught.value)


def test_e78_a_run_and_a_cell_refuse_it_too() -> None:
    with pytest.raises(ValidationError, match=r"Write a limit such as 20 turns.*goes through inputs"):
        make_chat(scripted("x")).run(message="a", history="some")
    with pytest.raises(CellError, match="no amount of history"):
        read_cell("- {description: Say a, history: some}", {})
    assert parse_options("--continue -1 --history '20 turns'").history == "20 turns"
    with pytest.raises(ValidationError, match="no amount of history"):
        parse_options("--history some")


@pytest.mark.usefixtures("store_path")
def test_e78_what_is_sent_counts_for_reuse() -> None:
    model = scripted("a", "b")
    first = make_chat(model).run(message="new", continue_from=FOUR)
    assert make_chat(model).run(message="new", continue_from=FOUR, reuse=True)["chat"].reused
    assert not make_chat(model, "1 turn").run(message="new", continue_from=FOUR, reuse=True)["chat"].reused
    assert first.raw == "a"
