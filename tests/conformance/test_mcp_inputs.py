"""Resources and prompts of MCP servers: inputs, conversations and tools (E134, E135, E136)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Attachment,
    DeadlineExceededError,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    McpToolbox,
    RunInterrupted,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolUse,
    ValidationError,
    leave_pending,
    mcp_tools,
)
from ensemble_notebook.domain.events import Noted
from tests.support.notes_server import SERVERS, NotesServer
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def library(tmp_path: Path) -> NotesServer:
    return NotesServer(tmp_path)


def odd(how: str, **settings: Any) -> McpToolbox:
    return mcp_tools(["python", str(SERVERS / "odd.py"), how], **settings)


def team(text: str, *replies: object, **fields: Any) -> Ensemble:
    llm = ScriptedChatModel(replies=[*replies, *["done"] * 20])
    return Ensemble(tasks=[Task.of(text, name="do", expected_output="All")], llm=llm, **fields)


def told(ensemble: Ensemble) -> list[tuple[str, str]]:
    """What the model was told last, without its system prompt."""
    return [(each.type, each.content) for each in ensemble.llm.calls[-1].messages[1:]]


def prompt(text: str) -> list[tuple[str, str]]:
    return [("human", f"## Task\n{text}\n\n## Expected Output\nAll")]


def notes(output: EnsembleOutput) -> list[str]:
    return [each.message.partition(" of the MCP server")[0] for each in output.events if isinstance(each, Noted)]


# --- Inputs -----------------------------------------------------------------------------------------------------------


def test_e134_a_resource_is_read_when_the_run_starts_and_never_before(library: NotesServer) -> None:
    ensemble = team("Do {today}", ToolUse("who_am_i", {}))
    agent = Agent(role="Clerk", goal="Count", tools=library.toolbox, llm=ensemble.llm)
    ensemble = ensemble.replace(tasks=[ensemble.tasks[0].replace(agent=agent)])
    ensemble.estimate(today=library.today)
    assert ensemble.plan(today=library.today).tasks[0].description == "Do notes://today"
    handle = ensemble.stream(today=library.today)
    assert library.asked == []
    library.write("buy eggs")

    async def run() -> None:
        async with handle:
            pass

    asyncio.run(run())
    output = ensemble.run(today=library.today)
    assert told(ensemble)[:1] == prompt("Do buy eggs")
    assert output.inputs == {"today": "buy eggs"}
    assert output.plan.tasks[0].description == "Do buy eggs"
    assert "Read notes://today" in notes(output)
    waits = output.frames.spans.query("kind == 'wait'")
    assert waits.empty  # its tools have the session in which it was read


def test_e134_a_template_is_filled_from_the_inputs_and_each_row_reads_its_own(library: NotesServer) -> None:
    ensemble = team("Do {notes} {both}", inputs={"notes": library.of_day, "both": library.today})
    ensemble.run(day="a/../b")
    assert "notes of a/../b" in told(ensemble)[0][1]
    assert sorted(library.asked) == ["a/../b", "today"]
    result = ensemble.map([{"day": each} for each in ("mon", "tue")], score=lambda inputs: "milk" in inputs["both"])
    assert sorted(library.asked[2:]) == ["mon", "today", "tue"]  # what all rows have in common is read once
    assert result.frame.score.tolist() == [True, True]
    rows = [{"notes": library.toolbox.resource("notes://days/{day}", day=5), "both": "x"}]
    rows += [{"notes": library.toolbox.resource("nots://x"), "both": "x"}]
    result = team("Do {notes} {both}").map(rows)
    assert result.frame.status.tolist() == ["completed", "failed"]
    assert result.frame.notes.astype(str).tolist() == ["notes://days/5", "nots://x"]
    assert "Unknown resource: nots://x. Did you mean" in result.frame.error[1]


@pytest.mark.usefixtures("store_path")
def test_e134_reuse_compares_what_was_read(library: NotesServer) -> None:
    ensemble = team("Do {today}", name="reader")
    ensemble.run(today=library.today)
    assert ensemble.run(today=library.today, reuse=True)["do"].reused
    library.write("buy eggs")
    assert not ensemble.run(today=library.today, reuse=True)["do"].reused


@pytest.mark.usefixtures("store_path")
def test_e134_a_resumed_or_forked_run_goes_on_with_what_was_read(library: NotesServer) -> None:
    llm = ScriptedChatModel(replies=["one"])
    tasks = [Task.of(f"{each} {{today}}", name=each) for each in "ab"]
    with pytest.raises(TaskExecutionError):
        Ensemble(tasks=tasks, llm=llm).run(today=library.today)
    library.write("buy eggs")
    again = Ensemble(tasks=tasks, llm=ScriptedChatModel(replies=["two"])).run(resume="-1")
    assert again.inputs == {"today": "buy milk"}
    forked = again.fork(again.frames.llm_calls.index[0], reply="other", until="a")
    assert forked.inputs == {"today": "buy milk"}
    assert library.asked == ["today"]


def test_e134_a_replay_reads_it_and_tells_what_differs(library: NotesServer, tmp_path: Path) -> None:
    ensemble = team("Do {today}")
    ensemble.run(today=library.today, record=tmp_path / "run.yaml")
    assert ensemble.run(today=library.today, replay=tmp_path / "run.yaml").raw == "done"
    library.write("buy eggs")
    with pytest.raises(TaskExecutionError, match="Do buy eggs"):
        ensemble.run(today=library.today, replay=tmp_path / "run.yaml")


def test_e134_a_prompt_is_text_that_takes_its_arguments_from_the_inputs(library: NotesServer) -> None:
    ensemble = team("{review}")
    ensemble.run(review=library.toolbox.prompt("review", tone="strict"), text="a poem")
    assert told(ensemble) == prompt("Review this in a strict tone: a poem")
    ensemble.run(review=library.toolbox.prompt("greet"))
    assert told(ensemble) == prompt("user: Hello!\n\nassistant: Hello, who are you?")
    ensemble.run(review=library.toolbox.resource("notes://both"))
    assert told(ensemble) == prompt("### notes://one\none\n\n### notes://two\ntwo")
    ensemble.run(review=library.toolbox.resource("notes://blob"))
    assert told(ensemble) == prompt("no picture")


def test_e134_limits_and_masks_are_those_of_results(library: NotesServer) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz123456"
    library.write(f"{key} " + "x" * 3_000_000)
    output = team("Do {today}").run(today=library.today)
    assert output.inputs["today"].endswith(
        "(3,000,036 characters in all; the rest is left out. Ask for less at a time.)"
    )
    assert len(output.inputs["today"]) < 100_200
    assert output.warnings[0].startswith("The input 'today' is cut, since notes://today of the MCP server ")
    assert output.warnings[0].endswith("has 3,000,036 characters: prompts have the beginning alone.")
    assert key in told(output.ensemble)[0][1]
    assert key not in output.frames.messages.to_csv() + output.frames.events.to_csv() + str(output.inputs)


@pytest.mark.parametrize(
    "take, why",
    [
        (lambda lib: lib.resource("notes://tody"), "Unknown resource: notes://tody. Did you mean 'notes://today'?"),
        (lambda lib: lib.resource("notes://zip"), "is application/zip (10 bytes), which is neither text nor a picture"),
        (lambda lib: lib.resource("notes://end"), "has ended: Connection closed. It said last: out of ink"),
        (lambda lib: lib.prompt("reviw"), "has no prompt 'reviw'. Did you mean 'review'? Its prompts: review, "),
        (lambda lib: lib.prompt("review", txt=1), "takes no 'txt'. Did you mean 'text'? Its arguments: text, tone."),
        (lambda lib: lib.prompt("review"), "lacks text. Give it as prompt('review', text=...), or as inputs of"),
        (lambda _: odd("plain").resource("a://b"), "did not give 'a://b'"),
        (lambda _: odd("simple").resource("a://b"), "has no resources. Its tools: tell."),
        (lambda _: odd("simple").prompt("x"), "has no prompt 'x'. Its prompts: none."),
        (lambda _: odd("hang", timeout=0.5).prompt("x"), "did not answer within 0.5 s."),
        (lambda _: mcp_tools("python -c 1").resource("a://b"), "could not be opened: Connection closed."),
    ],
)
def test_e134_what_can_t_be_read_fails_the_run_before_a_model_is_asked(
    take: Any, why: str, library: NotesServer
) -> None:
    ensemble = team("Do {notes}")
    handle = ensemble.start(notes=take(library.toolbox))
    with pytest.raises(EnsembleError) as failed:
        handle.result()
    assert str(failed.value).startswith("The input 'notes' can't be read. ")
    assert why in str(failed.value)
    assert (handle.output, handle.status, len(ensemble.llm.calls)) == (None, "failed", 0)


def test_e134_what_is_wrong_by_itself_is_refused_at_once(library: NotesServer) -> None:
    ensemble, toolbox = team("Do {notes}"), library.toolbox
    with pytest.raises(ValidationError, match=r"'notes' is notes://days/\{day\}, and there is no input 'day'"):
        ensemble.run(notes=library.of_day)
    with pytest.raises(ValidationError, match="'notes' holds notes://today, which is read as an input of its own"):
        ensemble.run(notes=[library.today])
    with pytest.raises(ValidationError, match=r"takes a URI such as 'file:///notes.md', got 'notes'"):
        toolbox.resource("notes")
    with pytest.raises(ValidationError, match=r"A space in it is %20."):
        toolbox.resource("notes://my day")
    with pytest.raises(ValidationError, match=r"has no variable 'dy'. Did you mean 'day'"):
        toolbox.resource("notes://days/{day}", dy=1)
    with pytest.raises(ValidationError, match="takes texts and numbers, and text is list"):
        toolbox.prompt("review", text=[])  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="No text uses 'dya'"):
        ensemble.run(notes=library.of_day, day="x", dya="y")
    assert library.asked == []


def test_e134_a_run_that_reads_ends_in_time_and_by_a_stop() -> None:
    ensemble, hanging = team("Do {notes}"), odd("hang").resource("a://b")
    with pytest.raises(DeadlineExceededError, match=r"longer than 0.5 s; running was: reading its inputs"):
        ensemble.run(notes=hanging, timeout=0.5)
    handle = ensemble.start(notes=hanging)
    while handle._reading is None:
        time.sleep(0.01)
    handle.cancel()
    with pytest.raises(RunInterrupted):
        handle.result()
    assert handle.status == "interrupted"


def run_streamed(ensemble: Ensemble, notes: Any) -> None:
    async def run() -> None:
        async with ensemble.stream(today=notes) as stream:
            assert [piece async for piece in stream.text()] == ["done"]
        await ensemble.arun(today=notes)

    asyncio.run(run())


def run_nested(ensemble: Ensemble, notes: Any) -> None:
    inner = ensemble.replace(inputs={"today": notes})
    Ensemble(tasks=[Task.of("All", name=each, ensemble=inner) for each in "ab"], llm=ensemble.llm).run()


def reuse(ensemble: Ensemble, notes: Any) -> None:
    ensemble.run(today=notes)
    assert ensemble.run(today=notes, reuse=True)["do"].reused


def go_on(ensemble: Ensemble, notes: Any) -> None:
    output = ensemble.run(today=notes)
    call = output.frames.llm_calls.index[0]
    output.fork(call, reply="other")
    output.rerun(call)
    ensemble.run(resume=output, anyway=True)
    ensemble.run(today="more", continue_from=output)


def plan(ensemble: Ensemble, notes: Any) -> None:
    ensemble.plan(today=notes)
    ensemble.estimate(today=notes)
    ensemble.replace(inputs={"today": notes}).validate()
    ensemble.stream(today=notes)


DOORS: dict[str, tuple[Callable[[Ensemble, Any], Any], int]] = {
    "planned, estimated, validated, made": (plan, 0),
    "run": (lambda ensemble, notes: ensemble.run(today=notes), 1),
    "started": (lambda ensemble, notes: ensemble.start(today=notes).result(), 1),
    "streamed, then awaited": (run_streamed, 2),
    "five samples": (lambda ensemble, notes: ensemble.run(repeat=5, today=notes), 1),
    "three rows": (lambda ensemble, notes: ensemble.replace(inputs={"today": notes}).map([{"n": n} for n in "abc"]), 1),
    "three rows that name it": (lambda ensemble, notes: ensemble.map([{"today": notes}] * 3), 1),
    "two variants": (lambda ensemble, notes: ensemble.variants({each: {} for each in "ab"}).run(today=notes), 1),
    "two nested runs": (run_nested, 1),
    "reused": (reuse, 2),
    "forked, asked again, resumed, continued": (go_on, 1),
}
"""How often a server is asked for what an ensemble is given in each of these ways."""


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("door", DOORS)
def test_e134_each_door_reads_it_when_it_has_to_and_no_more(door: str, library: NotesServer) -> None:
    ensemble = team("Do {today}", name="reader")
    run, count = DOORS[door]
    run(ensemble, library.today)
    assert library.asked == ["today"] * count
    assert all("Do buy milk" in call.messages[-1].content for call in ensemble.llm.calls[:1])


def test_e134_rows_on_an_executor_read_it_there(library: NotesServer) -> None:
    echo = Ensemble(tasks=[Task.of("Do {notes}", name="do")], llm="scripted")
    with ProcessPoolExecutor(1) as pool:
        result = echo.replace(inputs={"notes": library.of_day}).map([{"day": "mon"}], executor=pool)
    assert "notes of mon" in result.frame.raw[0]


def test_e134_items_may_be_read_and_no_text_is_kept_where_none_is_to_be(library: NotesServer) -> None:
    library.write("- milk\n- eggs")
    ensemble = team("Buy {item}")
    ensemble = ensemble.replace(tasks=[ensemble.tasks[0].replace(for_each="{today}")])
    assert len(ensemble.run(today=library.today)["do"].item_outputs) == 2
    output = team("Do {today}", capture_mode="metadata").run(today=library.today)
    assert "milk" not in output.frames.events.to_csv()


def test_e134_a_picture_is_one_for_the_model_and_for_handlers(library: NotesServer, server: OpenAIServer) -> None:
    server.script("a lamp", "two lamps")

    def count_pictures() -> int:
        return [part["type"] for part in server.requests[-1].messages[-1]["content"]].count("image_url")

    picture = library.toolbox.resource("notes://picture")
    ensemble = Ensemble(tasks=[Task.of("See {it}")], llm=f"openai:test-model@{server.url}")
    output = ensemble.run(it=picture)
    assert count_pictures() == 1
    assert "[picture sha256:" in output.inputs["it"]
    ensemble.run(it="", continue_from=library.toolbox.prompt("look"))
    assert count_pictures() == 1
    given: list[Any] = []
    Ensemble(tasks=[Task.of("See {it}", handler=lambda task: given.append(task.inputs["it"]) or "seen")]).run(
        it=picture
    )
    assert [type(each) for each in given] == [Attachment]


# --- Conversations ----------------------------------------------------------------------------------------------------


def test_e135_a_prompt_with_roles_is_gone_on_with(library: NotesServer) -> None:
    ensemble = team("Go on")
    output = ensemble.run(continue_from=library.toolbox.prompt("talk-of", topic="tides"))
    said = [("human", "Do you know tides?"), ("ai", "I do."), ("human", "Then tell me of {tides}.")]
    assert told(ensemble) == said
    assert [each.text for each in output["do"].messages[1:]] == [*(text for _, text in said), "done"]
    ensemble.run(continue_from=library.toolbox.prompt("greet"))
    assert told(ensemble) == [("human", "Hello!"), ("ai", "Hello, who are you?"), *prompt("Go on")]
    ensemble.run(continue_from=library.toolbox.prompt("review"), text="a poem")
    assert told(ensemble) == [("human", "Review this in a kind tone: a poem")]


@pytest.mark.usefixtures("store_path")
def test_e135_a_resumed_or_forked_run_goes_on_with_the_same_messages(library: NotesServer) -> None:
    ensemble = team("Go on").replace(llm=ScriptedChatModel(replies=[]))
    with pytest.raises(TaskExecutionError):
        ensemble.run(continue_from=library.toolbox.prompt("talk-of", topic="tides"))
    again = ensemble.replace(llm=ScriptedChatModel(replies=["done"] * 2))
    output = again.run(resume="-1")
    assert told(again)[-1] == ("human", "Then tell me of {tides}.")
    output.fork(output.frames.llm_calls.index[0], reply="other")
    output.fork(output.frames.llm_calls.index[0])
    assert told(again)[-1] == ("human", "Then tell me of {tides}.")


def test_e135_what_has_no_place_is_refused(library: NotesServer) -> None:
    talk = library.toolbox.prompt("talk-of", topic="tides")
    first = Task.of("First", name="first", handler=lambda _: "1")
    with pytest.raises(ValidationError, match="has no place for the outputs that it reads"):
        Ensemble(tasks=[first, Task.of("Go on", context=[first])], llm="scripted").run(continue_from=talk)
    with pytest.raises(ValidationError, match="the only task that has an agent, and here are 2"):
        Ensemble(tasks=[Task.of("One"), Task.of("Two")], llm="scripted").run(continue_from=talk)
    with pytest.raises(ValidationError, match="or a list of messages, got McpResource"):
        team("Go on").run(continue_from=library.today)  # type: ignore[call-overload]


# --- Tools ------------------------------------------------------------------------------------------------------------


def test_e136_an_agent_reads_what_was_chosen(library: NotesServer) -> None:
    toolbox = library.toolbox
    calls = [
        ToolUse("read_today", {}),
        ToolUse("read_days", {"day": "mon"}),
        ToolUse("review", {"text": "a poem"}),
        ToolUse("read_tody", {}),
        ToolUse("read_zip", {}),
    ]
    tools = [library.today, library.of_day, toolbox.prompt("review", tone="strict"), toolbox.resource("notes://tody")]
    tools.append(toolbox.resource("notes://zip"))
    llm = ScriptedChatModel(replies=[*calls, "done"])
    agent = Agent(role="Clerk", goal="Read", tools=tools, llm=llm)
    output = Ensemble(tasks=[Task.of("Read", agent=agent)]).run()
    results = output.frames.tool_calls.result.tolist()
    assert results[:3] == ["buy milk", "notes of mon", "Review this in a strict tone: a poem"]
    assert "Did you mean 'notes://today'?" in results[3]
    assert "is application/zip" in results[4]
    assert output.frames.tool_calls.outcome.tolist() == ["success"] * 3 + ["failure"] * 2
    assert llm.calls[0].tools == ("read_today", "read_days", "review", "read_tody", "read_zip")


def test_e136_a_toolbox_of_which_all_calls_are_reviewed_has_these_reviewed_too(library: NotesServer) -> None:
    llm = ScriptedChatModel(replies=[ToolUse("read_today", {}), "done"])
    agent = Agent(role="Clerk", goal="Read", tools=library.toolbox.reviewed().resource("notes://today"), llm=llm)
    output = Ensemble(tasks=[Task.of("Read", agent=agent)]).run(review_handler=leave_pending())
    assert [each.tool for each in output.pending] == ["read_today"]
    assert library.asked == []


def test_e136_a_prompt_that_is_not_there_fails_the_task_before_its_model_is_called(library: NotesServer) -> None:
    llm = ScriptedChatModel(replies=["done"])
    agent = Agent(role="Clerk", goal="Read", tools=library.toolbox.prompt("reviw"), llm=llm)
    with pytest.raises(TaskExecutionError, match=r"has no prompt 'reviw'. Did you mean 'review'"):
        Ensemble(tasks=[Task.of("Read", agent=agent)]).run()
    assert not llm.calls
