"""E55: tasks go on with the conversations of an earlier run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    ChatMessage,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    Noted,
    ReviewDecision,
    Task,
    TaskExecutionError,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.text.mistakes import CellError
from ensemble_notebook.trace.timeline.span_details import to_details
from tests.conformance.scene import done, lost, of, scripted
from tests.support.openai_server import Answer, OpenAIServer

CELL = "- {name: chat, description: %s, agent: Guide}\n"
AGENTS = "agents: {Guide: {goal: Guide people%s}}\nllm: %s\ntasks:\n"


def make_chat(prompt: str, llm: Any, *others: Task, **fields: Any) -> Ensemble:
    guide = Agent(role=fields.pop("role", "Guide"), goal="Guide people", llm=llm, tools=fields.pop("tools", ()))
    return Ensemble(tasks=[Task.of(prompt, name="chat", agent=guide), *others], **fields)


def read_sent(server: OpenAIServer) -> list[tuple[str, str]]:
    """Who says what in the last request; of a prompt the line that is the task."""
    messages = server.requests[-1].body["messages"]
    return [(each["role"], each["content"].removeprefix("## Task\n").partition("\n")[0]) for each in messages]


def get_roles(output: EnsembleOutput, name: str = "chat") -> list[str]:
    return [each.role for each in output[name].messages]


def test_e55_a_task_goes_on_with_the_conversation_of_its_namesake(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("Paris.")
    first = make_chat("Capital of France?", llm).run()
    server.default = Answer("Two million.")
    other = Task.of("Apart", name="apart", llm=llm)
    second = make_chat("How many people?", llm, other, role="Expert").run(continue_from=first)
    assert read_sent(server)[0][0] == "system"
    assert [len(request.body["messages"]) for request in server.requests] == [2, 4, 2]
    sent = [each["content"] for each in server.requests[1].body["messages"]]
    assert sent[0].startswith("You are Expert.")
    assert sent[2] == "Paris."
    messages = second["chat"].messages
    assert get_roles(second) == ["system", "user", "assistant", "user", "assistant"]
    assert [each.text for each in messages[:-1]] == sent
    assert messages[-1] == ChatMessage(role="assistant", text="Two million.")
    assert get_roles(second, "apart") == ["system", "user", "assistant"]
    third = make_chat("And Lyon?", llm).run(continue_from=second)
    assert [text for role, text in read_sent(server) if role == "user"] == [
        "Capital of France?",
        "How many people?",
        "And Lyon?",
    ]
    assert f"Continuing {second.run_id}" in "".join(each.message for each in of(third, Noted))


def test_e55_in_a_cell_too(server: OpenAIServer, llm: str) -> None:
    names: dict[str, Any] = {}
    for prompt in ("One", "Two", "Three"):
        text = AGENTS % ("", llm) + CELL % prompt
        cell = read_cell(text, names, continue_from="chat" if names else None)
        names["chat"] = cell.build(names).run(cell.inputs, continue_from=cell.continued)
    assert [text for _, text in read_sent(server)][1:] == ["One", "ok", "Two", "ok", "Three"]


@pytest.mark.parametrize(
    "name, words",
    [
        ("caht", "there is no variable 'caht' in this notebook. Did you mean 'chat'?"),
        ("topic", "'topic' holds no output of a run, but a value of type str."),
    ],
)
def test_e55_in_a_cell_a_name_that_is_no_output_is_a_mistake(name: str, words: str) -> None:
    names = {"chat": make_chat("One", scripted("1")).run(), "topic": "tides"}
    with pytest.raises(CellError) as caught:
        read_cell("- Say a", names, continue_from=name)
    assert words in str(caught.value)
    assert "Outputs here: chat." in caught.value.mistakes[0].hint


def test_e55_tool_calls_and_corrections_stay_out_of_it(server: OpenAIServer, llm: str) -> None:
    def look(what: str) -> str:
        """Look."""
        return "seen"

    model = scripted(ToolUse("look", {"what": "x"}), "I looked.")
    first = make_chat("Look", model, tools=[look]).run()
    assert first["chat"].tool_call_count == 1
    assert get_roles(first) == ["system", "user", "assistant"]
    make_chat("What did you see?", llm).run(continue_from=first)
    assert [text for _, text in read_sent(server)][1:] == ["Look", "I looked.", "What did you see?"]


def test_e55_a_partial_output_keeps_the_conversations_of_unfinished_tasks(server: OpenAIServer, llm: str) -> None:
    first = make_chat("One", llm).run()
    chat = Task.of("Two", name="chat", llm=llm)
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[lost("before"), chat]).run(continue_from=first)
    partial = caught.value.output
    assert partial is not None
    make_chat("Three", llm).run(continue_from=partial)
    assert [text for _, text in read_sent(server)][1:] == ["One", "ok", "Three"]


def test_e55_a_pickled_output_can_be_continued_and_a_trace_can_not(server: OpenAIServer, llm: str) -> None:
    first = make_chat("One", llm).run()
    again = pickle.loads(pickle.dumps(first))
    make_chat("Two", llm).run(continue_from=again)
    assert [text for _, text in read_sent(server)][1:] == ["One", "ok", "Two"]
    for wrong in (first.trace, first.run_id):
        with pytest.raises(ValidationError, match="no conversations: give the output itself"):
            make_chat("Two", llm).run(continue_from=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="goes through inputs"):
        make_chat("Two", llm).run(continue_from=3)  # type: ignore[arg-type]


def test_e55_where_no_text_is_kept_it_is_refused_with_the_reason() -> None:
    first = make_chat("One", scripted("1")).run()
    with pytest.raises(ValidationError, match="capture_mode metadata keeps no text of this one"):
        make_chat("Two", scripted("2"), capture_mode="metadata").run(continue_from=first)
    textless = make_chat("One", scripted("1"), capture_mode="metadata").run()
    assert textless["chat"].messages == ()
    with pytest.raises(ValidationError, match="can't be continued: capture_mode metadata keeps nothing"):
        make_chat("Two", scripted("2")).run(continue_from=textless)


def test_e55_a_run_in_which_nothing_goes_on_says_so() -> None:
    first = make_chat("One", scripted("1")).run()
    output = Ensemble(tasks=[Task.of("Two", name="talk", llm=scripted("2"))]).run(continue_from=first)
    assert "those of chat, and here are the tasks talk" in output.warnings[0]


def test_e55_a_recording_has_the_whole_conversation(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    first = make_chat("One", llm).run()
    path = tmp_path / "run.yaml"
    server.default = Answer("recorded")
    make_chat("Two", llm).run(continue_from=first, record=path)
    server.requests.clear()
    assert make_chat("Two", llm).run(continue_from=first, replay=path).raw == "recorded"
    assert not server.requests
    with pytest.raises(TaskExecutionError, match="recording"):
        make_chat("Two", llm).run(replay=path)


@pytest.mark.usefixtures("store_path")
def test_e55_what_was_said_before_counts_for_reuse(server: OpenAIServer, llm: str) -> None:
    first = make_chat("One", llm).run()
    second = make_chat("Two", llm).run(continue_from=first)
    assert make_chat("Two", llm).run(reuse=True)["chat"].reused is False
    again = make_chat("Two", llm).run(continue_from=first, reuse=True)
    assert again["chat"].reused is True
    assert again["chat"].messages == second["chat"].messages
    make_chat("Three", llm).run(continue_from=again)
    assert [text for _, text in read_sent(server)][1:] == ["One", "ok", "Two", "ok", "Three"]


@pytest.mark.usefixtures("store_path")
def test_e55_a_resumed_run_goes_on_where_it_had_begun(server: OpenAIServer, llm: str) -> None:
    first = make_chat("One", llm).run()
    fails = {"now": True}

    def may_fail(given: Any) -> str:
        if fails["now"]:
            raise OSError("burnt")
        return "well"

    ensemble = make_chat("Two", llm, done("after", handler=may_fail))
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run(continue_from=first)
    fails["now"] = False
    count = len(server.requests)
    partial = caught.value.output
    output = ensemble.run(resume=partial, continue_from=partial)
    assert (output.raw, len(server.requests)) == ("well", count)
    assert get_roles(output) == ["system", "user", "assistant", "user", "assistant"]


@pytest.mark.usefixtures("store_path")
def test_e55_a_resumed_run_knows_what_it_was_continued_from(server: OpenAIServer, llm: str) -> None:
    first = make_chat("One", llm).run()
    server.script("two", Answer.status(400))
    ensemble = make_chat("Two", llm, Task.of("Sum up", name="sum", llm=llm))
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run(continue_from=first)
    server.clear()
    chats = [make_chat("Three", llm), ensemble]
    outputs = [each.run(resume=caught.value.output.run_id) for each in chats]  # type: ignore[union-attr]
    assert read_sent(server)[-1][1] == "Sum up", "the finished task is not asked again"
    sent = [each["content"].removeprefix("## Task\n").partition("\n")[0] for each in server.requests[0].messages]
    assert (sent[1:], len(server.requests)) == (["One", "ok", "Three"], 2)
    assert all(f"Continuing {first.run_id}" in "".join(each.message for each in of(run, Noted)) for run in outputs)
    make_chat("Four", llm).run(resume=outputs[0], continue_from=outputs[1])
    assert [text for _, text in read_sent(server)][1:] == ["One", "ok", "Two", "two", "Four"], (
        "what is given comes first"
    )


@pytest.mark.usefixtures("store_path")
def test_e55_a_conversation_with_a_secret_is_not_kept_and_has_to_be_given_again(server: OpenAIServer, llm: str) -> None:
    first = make_chat("Use sk-" + "a1B2" * 8, llm).run()
    second = make_chat("Two", llm).run(continue_from=first)
    with pytest.raises(ValidationError, match="a secret is in them"):
        make_chat("Three", llm).run(resume=second)
    make_chat("Three", llm).run(resume=second, continue_from=first)
    assert [text for _, text in read_sent(server)][2:] == ["ok", "Three"]


def test_e55_trace_drawer_and_frames_have_what_was_really_sent(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    first = make_chat("One", llm).run()
    reviewer = [ReviewDecision.approve(), ReviewDecision.retry("better")]
    ensemble = make_chat("Two", llm, review_policy="after_every_task", review_handler=lambda request: reviewer.pop())
    second = ensemble.run(continue_from=first)
    roles = ["system", "user", "assistant", "user", "assistant"]
    loaded = ExecutionTrace.load(second.export(tmp_path / "run.trace.json"))
    for trace in (second.trace, loaded):
        turns = trace.tasks[0].turns
        assert [[each.role for each in turn.messages] for turn in turns] == [roles, roles]
        for turn, request in zip(turns, server.requests[1:], strict=True):
            assert [each.text for each in turn.messages[:-1]] == [each["content"] for each in request.messages]
    messages = second.frames.messages
    assert messages["is_earlier"].tolist() == [False, True, True, False, False] * 2
    assert list(loaded.frames.messages["text"]) == list(messages["text"])
    task = second.trace.tasks[0].span
    drawer = to_details(second.trace.fold, task.span_id)["messages"]
    assert [each["role"] for each in drawer] == roles * 2
    alone = make_chat("Two", llm).run()
    assert list(alone.diff(make_chat("Two", llm).run(continue_from=first)).prompts) == []


def test_e55_memory_keeps_what_was_asked_and_answered(server: OpenAIServer, llm: str) -> None:
    asking = "Why is the sea salty? " + "x" * 300
    first = Task.of(asking, name="first", llm=scripted("Rivers."), memory="sea")
    second = Task.of("Why is the sea blue?", llm=llm, memory="sea")
    Ensemble(tasks=[first, second]).run()
    prompt = server.requests[-1].body["messages"][1]["content"]
    assert f"## Memory: sea\n- Asked: {asking[:200]}…\nAnswered: Rivers." in prompt
