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
    StoreError,
    Task,
    TaskExecutionError,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
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


def look(what: str) -> str:
    """Look."""
    return f"{what} seen"


def test_e55_tool_calls_go_on_with_their_results_and_corrections_stay_out(server: OpenAIServer, llm: str) -> None:
    server.script(
        Answer("Let me see.", calls=[("c1", "look", {"what": "x"}), ("c2", "look", {"what": "y"})]),
        Answer("no JSON"),
        Answer('{"a": 1}'),
    )
    agent = Agent(role="Guide", goal="Guide people", tools=[look])
    typed = {"model": "test-model", "base_url": server.url, "schema_mode": "prompt"}
    task = Task(prompt="{message}", name="chat", agent=agent, output_type={"a": "int"})
    first = Ensemble(tasks=[task], llm=typed).run(message="Look")
    assert get_roles(first) == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [each.text for each in first["chat"].messages][-3:] == ["x seen", "y seen", '{"a": 1}']
    assert str(first["chat"].messages[2]) == 'assistant: Let me see. look({"what": "x"}) look({"what": "y"})'
    server.default = Answer("Again.")
    chat = Ensemble(tasks=[Task(prompt="{message}", name="chat", agent=agent)], llm=llm)
    second = chat.run(message="What did you see?", continue_from=first)
    sent = server.requests[-1].body["messages"][1:]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert (
        [call["id"] for call in sent[1]["tool_calls"]] == [each["tool_call_id"] for each in sent[2:4]] == ["c1", "c2"]
    )
    assert sent[-1]["content"] == "What did you see?"
    frame = second.frames.messages
    assert list(frame.role) == ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    assert list(frame[frame.role == "tool"].name) == ["look", "look"]
    assert list(frame[frame.role == "tool"].tool_call_id) == ["c1", "c2"]
    assert frame.tool_calls.iloc[2].count("look(") == 2
    third = chat.run(message="And now?", continue_from=pickle.loads(pickle.dumps(second)))
    assert third["chat"].messages[:6] == ((second["chat"].messages[0]), *second["chat"].messages[1:6])


@pytest.mark.parametrize("form", ["mapping", "langchain", "own"])
def test_e55_messages_of_any_form_are_gone_on_with(form: str, server: OpenAIServer, llm: str) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"what": "x"}'}}
    forms: dict[str, list[Any]] = {
        "mapping": [
            {"role": "system", "content": "Another one"},
            {"role": "user", "content": [{"type": "text", "text": "Look"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "x seen", "tool_call_id": "c1"},
            {"role": "assistant", "content": "I looked."},
        ],
        "langchain": [
            SystemMessage("Another one"),
            HumanMessage("Look"),
            AIMessage("", tool_calls=[{"id": "c1", "name": "look", "args": {"what": "x"}}]),
            ToolMessage("x seen", tool_call_id="c1"),
            AIMessage([{"type": "text", "text": "I "}, {"type": "text", "text": "looked."}]),
        ],
        "own": [
            ChatMessage(role="user", text="Look"),
            ChatMessage(role="assistant", text="I looked."),
        ],
    }
    output = make_chat("And now?", llm, done("other")).run(continue_from=forms[form])
    roles = [each["role"] for each in server.requests[-1].body["messages"]]
    middle = [] if form == "own" else ["assistant", "tool"]
    assert roles == ["system", "user", *middle, "assistant", "user"]
    assert server.requests[-1].body["messages"][0]["content"].startswith("You are Guide.")
    assert [each.text for each in output["chat"].messages][-3:-1][0] == "I looked."


USER, AI = {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}


@pytest.mark.parametrize(
    "messages, words",
    [
        (
            [USER, {"role": "tool", "content": "z", "tool_call_id": "1"}, AI],
            "the result of the tool call '1', for which",
        ),
        ([USER, CALL, AI], "asks for the tool 'f' (1), and no result of that follows"),
        ([USER, CALL], "asks for the tool 'f' (1), and no result of that follows"),
        ([AI], "it begins with a message of role 'assistant'"),
        ([USER], "it ends with a message of role 'user'"),
        ([], "no prompt and no reply"),
        ([USER, {"role": "bot", "content": "z"}], "message 2 has the role 'bot'"),
        ([USER, "z"], "message 2 is of type str"),
        (
            [USER, {"role": "assistant", "content": [{"type": "image_url"}]}],
            "message 2 holds a part of type 'image_url'",
        ),
        ([USER, {"role": "assistant"}], "message 2 has no text"),
        ([{**CALL, "role": "user"}, AI], "message 1 asks for tools, and is no reply"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}], "without a name and an id"),
    ],
)
def test_e55_messages_that_nobody_could_go_on_with_are_refused(messages: list[Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make_chat("Two", scripted("2")).run(continue_from=messages)
    assert words in str(caught.value)


def test_e55_messages_are_for_the_only_task_with_an_agent() -> None:
    other = Task.of("Other", name="other", llm=scripted("3"))
    with pytest.raises(ValidationError, match="here are 2: chat, other"):
        make_chat("Two", scripted("2"), other).run(continue_from=[USER, AI])


@pytest.mark.usefixtures("store_path")
def test_e55_a_remembered_run_is_gone_on_with_by_its_id_or_place() -> None:
    model = scripted(ToolUse("look", {"what": "x"}), "I looked.", "One", "Two", "Three")
    first = make_chat("Look", model, tools=[look], name="talk").run()
    for number, word in enumerate((first.run_id, first.run_id[:6], "talk"), 1):
        make_chat("What?", model, tools=[look], name=f"other {number}").run(continue_from=word)
        sent = model.calls[-1].messages
        assert [each.type for each in sent] == ["system", "human", "ai", "tool", "ai", "human"]
        assert sent[2].tool_calls[0]["args"] == {"what": "x"}  # type: ignore[attr-defined]
        assert sent[3].content == "x seen"
    last = make_chat("And?", scripted("Four"), tools=[look]).run(continue_from=-1)
    assert [each.text for each in last["chat"].messages if each.role == "assistant"] == [
        "",
        "I looked.",
        "Three",
        "Four",
    ]
    with pytest.raises(StoreError, match="No run 'zzz' is remembered"):
        make_chat("Two", scripted("2")).run(continue_from="zzz")
    textless = make_chat("One", scripted("1"), capture_mode="metadata").run()
    with pytest.raises(ValidationError, match="can't be continued: capture_mode metadata keeps nothing"):
        make_chat("Two", scripted("2")).run(continue_from=textless.run_id)


@pytest.mark.usefixtures("store_path")
def test_e55_of_a_stored_task_that_was_corrected_and_sent_back_the_last_attempt_counts() -> None:
    decisions = iter([ReviewDecision.retry("Better."), ReviewDecision.approve()])
    model = scripted("bad", '{"a": 1}', '{"a": 2}', "Next.")
    task = Task(prompt="Give", name="chat", output_type={"a": "int"}, review="after", llm=model)
    first = Ensemble(tasks=[task], review_handler=lambda _: next(decisions)).run()
    Ensemble(tasks=[Task(prompt="More", name="chat", llm=model)]).run(continue_from=first.run_id)
    texts = [str(each.content).partition("\n")[0] for each in model.calls[-1].messages[1:]]
    assert texts == ["Give", '{"a": 2}', "More"]


def test_e55_a_recording_has_tool_calls_of_before(tmp_path: Path) -> None:
    first = make_chat("Look", scripted(ToolUse("look", {"what": "x"}), "I looked."), tools=[look]).run()
    model = scripted("Again.")
    file = tmp_path / "run.yaml"
    make_chat("What?", model, tools=[look]).run(continue_from=first, record=file)
    again = make_chat("What?", model, tools=[look]).run(continue_from=first, replay=file)
    assert again.raw == "Again."


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
    with pytest.raises(ValidationError, match="no conversations: give its output, or its id"):
        make_chat("Two", llm).run(continue_from=first.trace)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="goes through inputs"):
        make_chat("Two", llm).run(continue_from=3.5)  # type: ignore[arg-type]


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
    drawer = to_details(second.trace._fold, task.span_id)["messages"]
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
