"""Reasoning that a reply begins with (E14, E16, E80), through the public interface alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Condition,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    InMemoryStore,
    LlmCallCompleted,
    LlmToken,
    Noted,
    OutputParsingError,
    Phase,
    PhaseReview,
    PromptTexts,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolUse,
    TurnStarted,
)
from tests.conformance.scene import done, of
from tests.support.openai_server import Answer, OpenAIServer

DRAFT = '{"verdict": "reject", "score": 1}'
ANSWER = '{"verdict": "accept", "score": 9}'
REPLY = f"<think>{DRAFT} too harsh</think>\n\n{ANSWER}"
VERDICT = {"verdict": "str", "score": "int"}
FORMS = [
    ("<think>\nhm, 6\n</think>\n\n", "7"),
    ("\n<thinking>hm, 6</thinking>", "7"),
    ("<reasoning>hm, 6</reasoning> ", "7"),
    ("hm, 6\n</think>\n\n", "7"),
    ("<think>hm</think><think>6</think>", "7"),
    ('<think>The mark "</think>" ends it: 6</think>', "7"),
]


def ask(*replies: Any, **fields: Any) -> Task:
    return Task.of("Judge", name="judge", agent=Agent(role="Judge", goal="Judge", llm=says(*replies)), **fields)


def says(*replies: Any) -> ScriptedChatModel:
    return ScriptedChatModel(replies=list(replies))


def notes(output: EnsembleOutput) -> list[str]:
    return [each.message for each in of(output, Noted) if "reasoning" in each.message]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("reasoning, answer", FORMS)
def test_e14_reasoning_at_the_beginning_is_no_part_of_the_reply(
    server: OpenAIServer, llm: str, reasoning: str, answer: str, *, is_streamed: bool
) -> None:
    server.default = Answer(reasoning + answer)
    ensemble = Ensemble(tasks=[Task.of("Add", name="add"), Task.of("Double it", context=["add"])], llm=llm)
    output = ensemble.start(listeners=[lambda _: None]).result() if is_streamed else ensemble.run()
    assert [each.raw for each in output] == [answer, answer]
    assert "hm" not in server.requests[-1].body["messages"][-1]["content"]  # the next task is sent the answer alone
    completed = of(output, LlmCallCompleted)[0]
    assert (completed.reasoning, completed.text) == (reasoning, answer)
    assert len(notes(output)) == 1  # of the model, however many replies it gives
    assert bool(of(output, LlmToken)) is is_streamed
    assert output.warnings == ()


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is <think>hm</think> 7",
        "<b>Bold</b> and </think> end it",
        "Write `</think>` at the end",
        'He wrote "the </think> tag" here',
        "> quoted </think>\nmine",
        "```\nhm </think>\n```\n7",
        "draft</think>",
        '{"text": "use </think> to end"}',
        "<THINK>hm</THINK>7",
        "<scratchpad>hm</scratchpad>7",
        "`<think>` opens it",
        "</thinking> 7",
    ],
)
def test_e14_what_is_no_reasoning_at_the_beginning_stays(reply: str) -> None:
    output = Ensemble(tasks=[ask(reply)]).run()
    assert output.raw == reply
    assert notes(output) == []
    assert of(output, LlmCallCompleted)[0].reasoning == ""


@pytest.mark.parametrize("is_streamed", [False, True])
def test_e16_a_draft_in_the_reasoning_is_no_value_of_a_typed_reply(
    server: OpenAIServer, llm: str, *, is_streamed: bool
) -> None:
    server.default = Answer(REPLY)
    ensemble = Ensemble(tasks=[Task.of("Judge", output_type=VERDICT)], llm=llm)
    output = ensemble.start(listeners=[lambda _: None]).result() if is_streamed else ensemble.run()
    assert (output.raw, output.parsed_output) == (ANSWER, {"verdict": "accept", "score": 9})
    assert len(server.requests) == 1


def test_e16_a_judge_scores_by_its_answer() -> None:
    task = Task.of("Judge {output}", output_type={"passed": "bool"})
    judge = Ensemble(tasks=[task], llm=says('<think>{"passed": false}</think>{"passed": true}'), name="right")
    result = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted").map([{"word": "tea"}], score=judge)
    assert list(result.frame["right"]) == [True]


def test_e33_a_branch_is_taken_by_the_answer() -> None:
    branches = [
        done(word, when=Condition("judge", contains=word), context=["judge"]) for word in ("urgent", "harmless")
    ]
    output = Ensemble(tasks=[ask("It may be urgent, hm.</think>harmless"), *branches]).run()
    assert [each.name for each in output] == ["judge", "harmless"]


def test_e28_a_reviewer_decides_by_its_answer() -> None:
    review = PhaseReview(ask("<think>REJECT: too long? No.</think>\n\nAPPROVE"))
    output = Ensemble(phases=[Phase(name="write", tasks=[done("draft")], review=review)]).run()
    assert output.status is RunStatus.COMPLETED


def test_e53_the_items_of_a_list_are_those_of_the_answer() -> None:
    each = Task.of("Do {item}", name="each", for_each="judge", agent=Agent(role="Cook", goal="Cook", llm="scripted"))
    output = Ensemble(tasks=[ask('<think>Maybe ["x"]</think>["a", "b"]'), each]).run()
    assert len(output["each"].item_outputs) == 2


def test_e81_a_round_is_the_last_one_by_the_answer() -> None:
    task = ask("<think>done? no</think>again", "<think>again? no</think>done")
    phase = Phase(name="work", tasks=[task], until=Condition("judge", contains="done"), max_rounds=3)
    assert Ensemble(phases=[phase]).run().raw == "done"


def test_e44_a_memory_keeps_the_answer() -> None:
    again = Task.of("Again", name="again", memory=("notes",), llm=says("second"))
    ensemble = Ensemble(tasks=[ask("<think>hm</think>first", memory=("notes",)), again], memory=InMemoryStore())
    output = ensemble.run()
    assert output.raw == "second"
    prompt = output.trace.tasks[-1].user_prompt
    assert ("first" in prompt, "hm" in prompt) == (True, False)


def test_e23_a_delegate_answers_without_its_reasoning() -> None:
    boss = Agent(
        role="Boss",
        goal="Lead",
        llm=says(ToolUse("delegate", {"agent_role": "Mate", "task_description": "Go"}), "Led."),
        allow_delegation=True,
    )
    mate = Agent(role="Mate", goal="Help", llm=says("<think>hm</think>Done"))
    output = Ensemble(agents=[boss, mate], tasks=[Task.of("Lead", agent=boss)]).run()
    (call,) = output.trace.tasks[0].turns[0].tool_calls
    assert "hm" not in (call.result or "")
    assert "Done" in (call.result or "")


def test_e13_a_reply_that_asks_for_tools_may_begin_with_reasoning(server: OpenAIServer, llm: str) -> None:
    asked = []

    def look(word: str) -> str:
        """Look a word up."""
        asked.append(word)
        return "a fruit"

    server.script(
        Answer("<think>look it up</think>", calls=[("look", {"word": "fig"})]), Answer("<think>so</think>Fruit")
    )
    output = Ensemble(tasks=[Task.of("Ask", agent=Agent(role="A", goal="Ask", llm=llm, tools=[look]))]).run()
    assert (output.raw, asked, output.warnings) == ("Fruit", ["fig"], ())
    assert server.requests[1].body["messages"][-2]["content"] == "<think>look it up</think>"  # as the model wrote it


def test_e80_the_words_of_a_stream_are_those_of_the_answer(server: OpenAIServer, llm: str) -> None:
    async def read() -> tuple[list[str], str]:
        async with Ensemble(tasks=[Task.of("Say it")], llm=llm).stream() as run:
            pieces = [piece async for piece in run.text()]
            assert run.output is not None
            return pieces, run.output.raw

    server.default = Answer("<think>hm, <b>6</b>? no</think>\n\nIt is <b>7</b>", pause=0.01)
    pieces, raw = asyncio.run(read())
    assert "".join(pieces) == raw == "It is <b>7</b>"
    assert len(pieces) > 1

    server.default = Answer("hm, 6? no</think>It is 7", pause=0.01)  # known for reasoning only once it has ended
    pieces, raw = asyncio.run(read())
    told = "".join(pieces)
    assert (told.startswith("hm, 6?"), told.endswith(f"\n\n{raw}"), raw) == (True, True, "It is 7")

    server.default = Answer("\n</think>\n\nIt is 7", pause=0.01)  # of a template that has closed it, too
    assert "".join(asyncio.run(read())[0]) == "It is 7"

    server.default = Answer("<thi", pause=0.01)
    assert asyncio.run(read()) == (["<thi"], "<thi")


def test_e55_a_conversation_goes_on_without_the_reasoning(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("<think>hm</think>Hello")
    chat = Ensemble(tasks=[Task.of("Greet", name="greet")], llm=llm)
    first = chat.run()
    assert [each.text for each in first["greet"].messages if each.role == "assistant"] == ["Hello"]
    chat.run(continue_from=first)
    chat.run(
        continue_from=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>hm</think>Hello"}]
    )
    for request in server.requests[1:]:
        assert [each["content"] for each in request.body["messages"] if each["role"] == "assistant"] == ["Hello"]


def test_t5_traces_files_and_recordings_have_all_of_it(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    server.default = Answer(REPLY, reasoning=5)
    ensemble = Ensemble(tasks=[Task.of("Judge", output_type=VERDICT)], llm=llm)
    output = ensemble.run(record=tmp_path / "recorded.yaml")
    output.trace.export(tmp_path / "one.trace.json")
    replayed = ensemble.run(replay=tmp_path / "recorded.yaml")
    assert len(server.requests) == 1
    for frames in (output.frames, ExecutionTrace.load(tmp_path / "one.trace.json").frames, replayed.frames):
        (said,) = frames.messages[frames.messages.role == "assistant"].itertuples()
        assert (said.reasoning, said.text) == (f"<think>{DRAFT} too harsh</think>\n\n", ANSWER)
        assert frames.messages.reasoning.isna().sum() == len(frames.messages) - 1
    assert int(output.frames.llm_calls.reasoning_tokens.sum()) == 5
    assert replayed.raw == ANSWER


@pytest.mark.parametrize("empty", ["<think>7, surely</think>", "<think>7, surely", "<reasoning>7</reasoning>\n"])
def test_e14_a_reply_that_is_nothing_but_reasoning_is_asked_for_once_more(empty: str) -> None:
    model = says(empty, "<think>7</think>It is 7")
    output = Ensemble(tasks=[Task.of("Add", name="add", agent=Agent(role="A", goal="Add", llm=model))]).run()
    assert output.raw == "It is 7"
    assert output.warnings == ("Agent 'A' replied with nothing but reasoning for task 'add', and is asked once more.",)
    assert model.calls[1].prompt.endswith("it holds only reasoning, and no answer.\n\nReply again, with the answer.")
    assert [each.is_correction for each in of(output, TurnStarted)] == [False, True]

    output = Ensemble(tasks=[ask(empty, empty)]).run()
    assert (output.raw, output.status) == ("", RunStatus.COMPLETED)
    assert "nothing but reasoning for task 'judge': its reply is empty." in output.warnings[1]
    assert not any("empty reply" in each for each in output.warnings)


def test_e58_what_is_cut_off_while_it_reasons_is_not_asked_for_again(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("<think>7, sure", finish_reason="length")
    output = Ensemble(tasks=[Task.of("Add")], llm=llm).run()
    assert (output.raw, len(server.requests)) == ("", 1)
    assert ["was cut off" in each for each in output.warnings] == [True, False]
    assert "nothing but reasoning" in output.warnings[1]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("has_tools", [False, True])
def test_e14_an_empty_reply_that_ended_for_a_malformed_call_is_asked_for_once_more(
    server: OpenAIServer, llm: str, tmp_path: Path, *, is_streamed: bool, has_tools: bool
) -> None:
    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    malformed = Answer("", finish_reason="MALFORMED_FUNCTION_CALL")
    agent = Agent(role="A", goal="Add", llm=llm, tools=[look_up] if has_tools else [])
    ensemble = Ensemble(tasks=[Task.of("Add", name="add", agent=agent)])

    def run(**settings: Any) -> EnsembleOutput:
        return ensemble.start(listeners=[lambda _: None] if is_streamed else [], **settings).result()

    server.script(malformed, Answer("It is 7"))
    first = run(record=tmp_path / "add.yaml")
    for output in (first, run(replay=tmp_path / "add.yaml")):
        assert (output.raw, output.task_outputs[0].tool_call_count) == ("It is 7", 0)
        assert "(MALFORMED_FUNCTION_CALL)" in output.warnings[0]
        assert output.warnings[1:] == (
            "Agent 'A' made a malformed call of a tool for task 'add', and is asked once more.",
        )
        assert [each.is_correction for each in of(output, TurnStarted)] == [False, True]
    assert "was malformed, and none was made" in server.requests[1].messages[-1]["content"]

    server.clear()
    server.script(malformed, malformed)
    output = run()
    assert (output.raw, len(server.requests)) == ("", 2)
    assert output.warnings[-1] == "Agent 'A' returned an empty reply for task 'add'."


def test_e16_a_typed_reply_that_is_nothing_but_reasoning_is_asked_for_once_more_and_then_corrected() -> None:
    empty = f"<think>{ANSWER}</think>"
    assert Ensemble(tasks=[ask(empty, empty, ANSWER, output_type=VERDICT)]).run().raw == ANSWER
    with pytest.raises(TaskExecutionError, match="it holds only reasoning, and no answer") as caught:
        Ensemble(tasks=[ask(empty, empty, output_type=VERDICT, max_output_retries=0)]).run()
    assert isinstance(caught.value.__cause__, OutputParsingError)


def test_e77_what_asks_for_the_answer_may_be_ones_own_text() -> None:
    model = says("<think>7</think>", "7")
    task = Task.of("Add", agent=Agent(role="A", goal="Add", llm=model))
    Ensemble(tasks=[task], texts=PromptTexts(correction="Nochmal: {error}")).run()
    assert model.calls[1].prompt == "Nochmal: it holds only reasoning, and no answer."


def test_t6a_where_no_text_is_kept_none_of_it_is() -> None:
    output = Ensemble(tasks=[ask("<think>hm</think>7")], capture_mode="metadata").run()
    assert output.raw == "7"
    assert "hm" not in repr(output.events)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_e14_reasoning_that_a_server_sends_beside_the_text_is_kept(
    server: OpenAIServer, llm: str, name: str, *, is_streamed: bool
) -> None:
    said = json.dumps({"role": "assistant", "content": "", name: "hm, 7"}).encode()
    empty = b'{"choices": [{"index": 0, "finish_reason": "stop", "%s": %s}]}'
    server.script(Answer(raw=empty % (b"delta" if is_streamed else b"message", said)), Answer("It is 7"))
    ensemble = Ensemble(tasks=[Task.of("Add")], llm=llm)
    output = ensemble.start(listeners=[lambda _: None]).result() if is_streamed else ensemble.run()
    assert output.raw == "It is 7"
    assert ["nothing but reasoning" in each for each in output.warnings] == [True]
    assert list(output.frames.messages.reasoning.dropna()) == ["hm, 7"]
