"""A run as a conversation to read, and how full the windows of its models were (E115, E116)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    CaptureMode,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    Fail,
    GuardrailResult,
    InMemoryStore,
    MemoryEntry,
    Phase,
    PhaseReview,
    Reply,
    Review,
    ReviewDecision,
    ScriptedChatModel,
    Task,
    TaskOutput,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.notebook.picture.transcript_picture import describe_window
from ensemble_notebook.trace.messages.context_windows import WindowUse, find_context_window, split_prompt
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.conformance.scene import agent, done, run, scripted
from tests.support.openai_server import Answer, OpenAIServer


def look(q: str) -> str:
    """Look something up in the archive."""
    return f"found {q}"


def judge(output: TaskOutput) -> GuardrailResult:
    return GuardrailResult.success() if "42" in output.raw else GuardrailResult.failure("Name the number.")


def read(said: Any) -> list[str]:
    """Each utterance in a line, without the system prompts."""
    return [
        f"{each.depth} {each.speaker or '--'}: {each.text.split(chr(10))[-1]}" for each in said if each.role != "system"
    ]


@pytest.fixture(scope="module")
def story() -> EnsembleOutput:
    """A run in which nearly everything is said."""
    boss = Agent(
        role="Boss",
        goal="Lead",
        allow_delegation=True,
        tools=[look],
        llm=scripted(
            Fail(429, retry_after=0),
            Reply(calls=[ToolUse("delegate", {"agent_role": "Mate", "task_description": "Peel"})]),
            "It is many.",
            "It is 42.",
        ),
    )
    mate = Agent(
        role="Mate", goal="Help", llm=scripted(Reply(calls=[ToolUse("look", {"q": "peel"})]), "Peeled."), tools=[look]
    )
    first = Task(
        description="Count",
        expected_output="A number",
        name="count",
        agent=boss,
        output_guardrails=[judge],
        max_guardrail_retries=1,
    )
    second = Task(
        description="Tell",
        expected_output="A line",
        name="tell",
        agent=agent(Fail(401), role="Mute"),
        fallback=agent("Told.", role="Net"),
        review=Review(),
        context=["count"],
    )
    return Ensemble(
        tasks=[first, second, done("by_hand")],
        agents=[boss, mate, second.agent],  # type: ignore[list-item]
        review_handler=lambda request: ReviewDecision.edit("Told well."),
    ).run()


def test_e115_a_run_is_read_in_order_with_who_spoke_and_what_happened_in_between(story: EnsembleOutput) -> None:
    said = story.messages()
    assert [re.sub(r" after .*", "", each) for each in read(said)] == [
        "0 --: count (Boss)",
        "0 Task: A number",
        "0 --: attempt 1 failed (429), asked again",
        "0 Boss: ",
        "1 --: count.mate_1 (Mate)",
        "1 Boss: A clear, complete answer to the task.",
        "1 Mate: ",
        "1 look: found peel",
        "1 Mate: Peeled.",
        "0 delegate: Peeled.",
        "0 Boss: It is many.",
        "0 --: guardrail judge: Name the number.",
        '0 --: count: draft 2, sent back: "Name the number."',
        "0 Task: A number",
        "0 Boss: It is 42.",
        "0 --: tell (Net)",
        "0 Task: A line",
        "0 --: model call: failed: ScriptedError scripted error 401",
        "0 --: Net takes over",
        "0 Task: A line",
        "0 Net: Told.",
        "0 <lambda>: Told well.",
        "0 --: by_hand (Handler)",
        "0 Task: Do by_hand",
        "0 Handler: by_hand",
    ]
    assert '  Mate: [look({"q": "peel"})]\n  look: found peel\n  Mate: Peeled.' in str(said)
    assert list(said.frame["text"]) == [each.text for each in said]
    many, number = (each for each in said if each.text.startswith("It is"))
    assert str(said.diff(many.number, number.span.span_id)).endswith("It is [-many-]{+42+}.")


def test_e115_rounds_of_a_phase_are_marked_and_each_is_read_as_a_whole() -> None:
    decisions = [ReviewDecision.retry("More."), ReviewDecision.approve()]
    tasks = [Task.of(name.upper(), name=name, agent=agent(f"{name}1", f"{name}2")) for name in ("w", "v")]
    phase = Phase(name="p", tasks=tasks, review=PhaseReview(lambda request: decisions.pop(0)))
    said = Ensemble(phases=[phase]).run().messages()
    assert [each.text for each in said if each.role in ("assistant", "note", "review")] == [
        *("w (Cook)", "w1", "v (Cook)", "v1", "More.", 'phase p: round 2, sent back: "More."'),
        *("w (Cook), round 2", "w2", "v (Cook), round 2", "v2", ""),
    ]


def test_e115_a_task_and_an_agent_are_read_alone_and_unknown_ones_refused(story: EnsembleOutput) -> None:
    output = story
    assert {each.speaker for each in output.messages(agent="Mate")} == {"System", "Boss", "Mate", "look", ""}
    assert read(output.messages("tell"))[0] == "0 --: tell (Net)"
    assert output.messages("count.mate_1")[0].depth == 0
    with pytest.raises(ValidationError, match=r"no task 'tel'\. Did you mean 'tell'"):
        output.messages("tel")
    with pytest.raises(ValidationError, match="no agent 'Bos'"):
        output.messages(agent="Bos")
    with pytest.raises(ValidationError, match="no utterance 99: they are 0 to"):
        output.messages().diff(0, 99)


def test_e115_a_chat_holds_texts_as_texts_and_metadata_says_why_it_has_none(tmp_path: Path) -> None:
    output = run(Task.of("Cook", name="cook", agent=agent("<img src=x onerror=alert(1)>")), capture_mode="off")
    page = output.messages()._repr_mimebundle_()["text/html"]
    assert "&lt;img src" in page
    assert not re.search("<img|<script", page)
    output.export(tmp_path / "run.trace.json")
    loaded = ExecutionTrace.load(tmp_path / "run.trace.json")
    assert str(loaded.messages()) == str(output.messages())
    silent = run(Task.of("Cook", name="cook", agent=agent("Soup.")), capture_mode=CaptureMode.METADATA).messages()
    assert silent.notes == ("this run kept no texts (capture_mode metadata)",)
    assert [each.speaker for each in silent if each.role == "assistant"] == ["Cook"]
    assert "Soup" not in str(silent)


def test_e115_a_fork_is_read_with_what_it_changed(server: OpenAIServer, llm: str) -> None:
    call = Answer(None, calls=[("look", {"q": "x"})])
    server.script(call, Answer("Plain."), Answer("New."))
    output = Ensemble(tasks=[Task(description="Find", expected_output="It", name="find", tools=[look])], llm=llm).run()
    last = output.frames.llm_calls.index[-1]
    said = output.fork(last, system_prompt="Be brief.").messages()
    lines = [(each.speaker, each.text.split("\n")[-1], each.remark) for each in said][2:]
    agent_role = said[-1].speaker
    assert lines == [
        ("Task", "It", ""),
        (agent_role, "", "kept"),
        ("look", "found x", "kept"),
        ("", "forked here: the model is told something else", ""),
        ("System", "Be brief.", "changed by the fork"),
        (agent_role, "New.", ""),
    ]


def test_e121_a_map_is_read_as_a_chat_for_each_row() -> None:
    llm = ScriptedChatModel.match({"Sail to east": "Calm.", "Sail to north": RuntimeError("fog"), "Tell": "Told."})
    tell = Task.of("Tell", name="tell", agent=Agent(role="Net", goal="Tell"))
    sail = Task.of("Sail to {bay}", name="sail", agent=Agent(role="Pilot", goal="Sail"))
    team = Ensemble(tasks=[sail, tell], llm=llm)
    result = team.map([{"bay": "east"}, {"bay": "north"}])
    told = [each for each in result.messages(task="sail") if each.role in ("assistant", "note")]
    assert [f"{each.depth} {each.text.partition(':')[0]}" for each in told] == [
        *("0 row 0 (Handler)", "1 sail (Pilot)", "1 Calm."),
        *("0 row 1 (Handler)", "1 sail (Pilot)", "1 model call", "1 sail", "0 row 1"),
    ]
    assert {each.speaker for each in result.messages(agent="Net")} == {"System", "Task", "Net", ""}
    assert result.messages(0)[0].text == "sail (Pilot)"
    assert (result.messages(1).title, result.messages("row 0", task="tell").title) == ("row 1", "row 0, task 'tell'")
    again = team.replace(llm=ScriptedChatModel.match({"Sail": "Calm.", "Tell": "Told."})).map(
        [{"bay": "east"}, {"bay": "north"}], resume=result
    )
    assert again.messages().notes == ("1 row ran in an earlier map. messages('row 0') has one.",)
    assert str(again.messages("row 0")) == str(result.messages(0))
    with pytest.raises(ValidationError, match="There is no row 2: there are 2 rows"):
        result.messages(2)
    with pytest.raises(ValidationError, match="name the row"):
        result.messages(repeat=1)
    with pytest.raises(ValidationError, match="No row ran"):
        team.map([]).messages()


def test_e121_what_a_notebook_keeps_of_a_large_map_ends_where_the_chat_ends() -> None:
    llm = ScriptedChatModel.match({"Sail": "Calm."})
    result = Ensemble(tasks=[Task.of("Sail to {bay}", name="sail")], llm=llm).map([{"bay": str(n)} for n in range(100)])
    said = result.messages()
    bundle = said._repr_mimebundle_()
    assert len(said) == 600
    assert bundle["text/plain"].endswith("\n-- and 200 utterances more --")
    assert "and 200 utterances more" in bundle["text/html"]
    assert str(said).count("Calm.") == 200


def test_w120_a_page_gets_the_log_with_texts_by_their_place_in_the_details_of_tasks(story: EnsembleOutput) -> None:
    messages = TimelineMessages(story.trace._fold)
    log = messages.make_details("*")["transcript"]
    assert [each.get("who", "") for each in log["said"]] == [each.speaker for each in story.messages()]
    texts = {}
    for each in log["said"]:
        details = messages.make_details(each.get("task", each["span"]))
        texts |= {message["field"]: message["text"] for message in details["messages"]}
    shown = [each.get("text") or texts.get(each.get("field"), "") for each in log["said"]]
    assert shown == [each.text for each in story.messages()]
    saved = messages.make_saved_view()
    assert saved["transcript"] == log
    assert "transcript" not in messages.make_saved_view(20_000)
    assert json.dumps(log)


def test_w121_a_page_gets_how_full_each_window_was(story: EnsembleOutput) -> None:
    log = TimelineMessages(story.trace._fold).make_details("*")["transcript"]
    uses = story.messages().windows
    told = [(span, tokens) for span, tokens, *_ in log["windows"]]
    assert told == [(each.call.span_id, each.tokens) for each in uses]
    assert all(sum(sections) == tokens for _, tokens, _, _, *sections in log["windows"])


def test_e116_windows_say_by_section_what_a_call_was_told(server: OpenAIServer, llm: str) -> None:
    notes = InMemoryStore()
    notes.store("notes", MemoryEntry(text="m" * 400, created_at=datetime.now(UTC)))
    server.script(*[Answer("r" * 800, usage=(1000, 5))] * 2)
    first = Task(description="a" * 400, expected_output="b", name="first", memory="notes", tools=[look])
    second = Task(description="c" * 400, expected_output="d", name="second", context=["first"])
    output = Ensemble(tasks=[first, second], llm=llm, memory=notes).run()
    one, two = output.messages().windows
    assert (one.tokens, one.is_counted, sum(one.sections.values())) == (1000, True, 1000)
    assert one.sections["memory"] > 200 < one.sections["task"]
    assert one.sections["tools"] > 50
    assert (one.sections["context"], two.sections["memory"]) == (0, 0)
    assert two.sections["context"] > 1.5 * two.sections["task"]
    frame = output.messages("second").window_frame
    assert list(frame["prompt_tokens"].fillna(0) + frame["limit_tokens"].fillna(0)) == [1000]


def test_e116_what_a_refused_request_was_told_is_an_estimate(story: EnsembleOutput) -> None:
    refused = story.messages("tell").windows[0]
    assert (refused.call.agent, refused.is_counted, refused.tokens) == ("Mute", False, sum(refused.sections.values()))
    assert refused.sections["system"] > 0 < refused.sections["context"]


def test_e116_a_limit_is_known_from_the_public_list_and_counts_are_told_from_estimates() -> None:
    assert find_context_window("openai", "gpt-4o-mini") == 128_000
    assert find_context_window("openai", "no-such-model") is None
    assert find_context_window(None, "gpt-4o-mini") is None
    use = WindowUse(call=None, tokens=64_000, is_counted=False, limit=128_000, sections={"system": 64_000})  # type: ignore[arg-type]
    assert use.share == 0.5
    assert describe_window(use) == "≈ 64,000 of 128,000 tokens (50%): system ≈ 64,000"


def test_e116_a_limit_that_the_list_lacks_is_told_by_the_profile_of_the_model() -> None:
    llm = ScriptedChatModel(replies=["Calm.", "Told."], profile={"max_input_tokens": 4000})
    output = Ensemble(tasks=[Task.of("Sail", name="sail")], llm=llm).run()
    (use,) = output.messages().windows
    assert (use.limit, use.share) == (4000, use.tokens / 4000)


def test_e116_headings_in_a_text_that_was_handed_on_begin_no_section() -> None:
    handed_on = "## Memory: x\n## Task\nno\n"
    text = f"## Context from Previous Tasks\n{handed_on}---\n\n## Task\nDo\n## Context\nit"
    sizes = split_prompt(text)
    assert (sizes["memory"], sizes["task"], sum(sizes.values())) == (0, len("## Task\nDo\n## Context\nit"), len(text))
    own = split_prompt("Sum up: OUTPUT now", ["OUTPUT"])
    assert (own["context"], own["task"]) == (6, 12)
