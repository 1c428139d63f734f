"""E48, E63, E69, E70 and E71: where a fault came from, what leaves the process and what must not, files that fail."""

from __future__ import annotations

import json
import logging
import os
import pickle
import sqlite3
import stat
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook import (
    AbsentObjectError,
    Agent,
    Ensemble,
    ExecutionTrace,
    GuardrailViolationError,
    JsonTraceExporter,
    MaxIterationsExceededError,
    Phase,
    ReplayError,
    Reply,
    SqliteMemory,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskOutput,
    ToolUse,
    TraceFormatError,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cli.main import main
from ensemble_notebook.models.model_kinds import describe_models
from tests.conformance.scene import agent, done, fail_in_a_cell, run, run_cell, scripted
from tests.support.openai_server import OpenAIServer

KEY = "sk-" + "a1B2" * 8
SECRET = "canary-of-nobody"
HERE = "tests/conformance/test_fault.py"


def find(mapping: dict[str, str], key: str) -> str:
    """Fail as people's functions do."""
    return mapping[key]


def fetch(given: TaskInput) -> str:
    return find({}, "missing")


def look(output: TaskOutput) -> None:
    find({}, "missing")


def search(text: str) -> str:
    """Search."""
    return find({}, text)


PLACE = f"{HERE}:{find.__code__.co_firstlineno + 2} in find"


# --- E12, E13, E48 ---


def test_e48_a_failed_handler_names_the_frame_of_the_users_code(caplog: pytest.LogCaptureFixture) -> None:
    for start in (
        lambda: run(Task.of("Fetch", handler=fetch)),
        lambda: run_cell("- {description: Fetch, handler: fetch}", fetch=fetch),
    ):
        with caplog.at_level(logging.WARNING), pytest.raises(TaskExecutionError) as caught:
            start()
        error = caught.value
        assert str(error).endswith(f"KeyError: 'missing' (at {PLACE})")
        assert error._render_lines() == [f"TaskExecutionError: {error}"]
        assert PLACE in caplog.text
        assert list(error.output.frames.errors.origin) == [PLACE, PLACE]
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        assert frame is not None
        assert frame.tb_frame.f_code is find.__code__


def test_e48_a_guardrail_and_a_tool_name_theirs_and_a_file_keeps_them(tmp_path: Any) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(done("a", output_guardrails=[look]))
    assert isinstance(caught.value.__cause__, GuardrailViolationError)
    assert set(caught.value.output.frames.errors.origin) == {PLACE}
    cook = agent(Reply(calls=[ToolUse("search", {"text": "salt"})]), "Done.", tools=[search])
    output = run(Task.of("Cook", agent=cook))
    loaded = type(output.trace).load(output.trace.save(tmp_path / "a.trace.json"))
    for trace in (output.trace, loaded):
        assert trace.frames.errors.set_index("tool").origin["search"] == PLACE


def test_e48_code_that_nobody_wrote_has_no_place() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Parse", handler=int))
    assert caught.value.output.frames.errors.origin.isna().all()


def test_e13_the_model_reads_type_and_message_of_a_fault() -> None:
    llm = scripted(Reply(calls=[ToolUse("search", {"text": "salt"})]), "Done.")
    run_cell("- {description: Cook, tools: [search], llm: llm}", search=search, llm=llm)
    assert llm.calls[1].messages[-1].content == "Tool error: KeyError: 'salt'"


def test_e12_the_end_of_a_loop_says_what_was_repeated() -> None:
    def ask(text: str) -> str:
        """Ask."""
        return "Try again."

    asking = [Reply(calls=[ToolUse("ask", {"text": "salt"})])] * 28
    cook = Agent(role="Cook", goal="Cook", llm=scripted(*asking), tools=[ask])
    cell = "agents: {Cook: {goal: Cook, llm: llm, tools: ask}}\ntasks: [{description: Cook, agent: Cook}]"
    for start in (lambda: run(Task.of("Cook", agent=cook)), lambda: run_cell(cell, ask=ask, llm=scripted(*asking))):
        with pytest.raises(TaskExecutionError) as caught:
            start()
        cause = caught.value.__cause__
        assert isinstance(cause, MaxIterationsExceededError)
        assert cause.repeated == ("ask", '{"text": "salt"}', 25)
        assert str(cause) == (
            "Agent 'Cook' kept asking for tools after its 25 tool calls were used up. 25 of them were the same: "
            'ask({"text": "salt"}). More calls would hardly help: let ask say what to do with its answer, or say in '
            "the task when it is enough."
        )


# --- E63 ---


def test_e63_errors_and_outputs_come_through_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(fail_in_a_cell).exception(60)
    assert isinstance(error, TaskExecutionError)
    assert (error.output["a"].raw, repr(error.output.failures[0].error)) == ("Well.", "KeyError('missing')")
    assert error.output.frames.errors.origin.iloc[0].endswith(" in lose")
    with pytest.raises(ValidationError, match="The handler find is not here: this object comes from a pickle"):
        error.output.ensemble.run()
    with pytest.raises(AbsentObjectError):
        error.output.ensemble.tasks[0].handler(None)


def test_e63_an_output_is_frozen() -> None:
    output = run(done("a"))
    with pytest.raises(AttributeError, match="frozen"):
        output.name = "b"  # type: ignore[misc]


# --- E69 ---


def test_e69_no_repr_pickle_event_plan_or_traceback_holds_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIET_PARTNER_PASSWORD", SECRET)

    def leak(given: TaskInput) -> str:
        raise ConnectionError(f"no {KEY} and no {SECRET}")

    task = Task.of(f"Use {KEY} and {SECRET}", name="leak", handler=leak)
    names = {"leak": leak, "note": f"{KEY} and {SECRET}"}
    cell = read_cell("tasks: {leak: {description: 'Use {note}', handler: leak}}", names)
    for ensemble, inputs in ((Ensemble(tasks=[task]), {}), (cell.build(names), cell.inputs)):
        with pytest.raises(TaskExecutionError) as caught:
            ensemble.run(inputs)
        error = caught.value
        kept = (ensemble, error, error.output, error.output.events, error.output.plan)
        seen = [*map(repr, (*kept, ensemble.tasks[0], error.output.failures))]
        seen += [str(pickle.dumps(each)) for each in kept]
        seen += [str(ensemble.plan().to_dict()), "".join(traceback.format_exception(error))]
        seen += [repr(cell.plan), str(cell.plan.to_dict())]
        assert [KEY in each or SECRET in each for each in seen] == [False] * len(seen)
        assert isinstance(error.__cause__, ConnectionError)


def test_e69_a_secret_inside_an_input_is_masked() -> None:
    def tell(given: TaskInput) -> str:
        return str(given.inputs["service"])

    service: dict[str, Any] = {"url": "here", "logins": [{"user": "Ada", "api_key": "quiet harbour 17"}]}
    output = Ensemble(tasks=[Task.of("Tell it", handler=tell)]).run({"service": service})
    seen = [str(output.events), repr(output), str(output.frames.tasks.to_dict())]
    assert ["quiet harbour 17" in each for each in seen] == [False] * len(seen)
    assert "Ada" in seen[0]


@dataclass
class Login:
    """A typed output with a secret in it."""

    user: str
    api_key: str
    notes: list[str]


def test_e69_the_frame_of_a_map_is_masked_as_all_frames_are() -> None:
    def answer(given: TaskInput) -> str:
        if given.inputs["topic"] == "lost":
            raise ConnectionError(f"no {KEY}")
        return f"the key is {KEY}"

    texts = Ensemble(tasks=[Task.of("Log in for {topic}", handler=answer)]).map([{"topic": "tea"}, {"topic": "lost"}])
    reply = json.dumps({"user": "tea", "api_key": "letmein-please-99-times", "notes": ["plain", KEY]})
    typed = Ensemble(tasks=[Task.of("Log in for {topic}", output_type=Login)], llm=scripted(reply))
    fields = typed.map([{"topic": "tea"}])
    varied = Ensemble(tasks=[Task.of("Log in for {topic}", handler=answer)]).variants({"a": {"topic": "tea"}}).run()
    labels = pd.MultiIndex.from_tuples([(1, f"by {KEY}"), (2, "by nobody")], names=["number", "who"])
    rows = pd.DataFrame({"topic": ["tea", "sea"]}, index=labels)
    ensemble = Ensemble(tasks=[Task.of("Log in for {topic}", handler=answer)])
    deep, flat = ensemble.map(rows), ensemble.map(rows.droplevel("number"))
    assert deep.frame.index.tolist() == [(1, "by ***"), (2, "by nobody")]
    assert (deep.frame.index.names, flat.frame.index.tolist()) == (["number", "who"], ["by ***", "by nobody"])
    for result in (texts, fields, varied, deep, flat, ensemble.variants({"a": {}}).map(rows)):
        shown = [result.frame.to_csv(), repr(result), repr(result[0]), str(result._repr_mimebundle_())]
        assert [KEY in each or "letmein" in each for each in shown] == [False] * 4
    assert texts.frame.raw[0] == varied.frame.raw["a"] == "the key is ***"
    assert texts[0].raw == f"the key is {KEY}"  # what a user holds
    assert fields.frame.loc[0, ["user", "api_key"]].tolist() == ["tea", "***"]
    assert fields.frame.notes[0] == ["plain", "***"]


def test_e69_no_client_logs_the_password_of_an_address_in_a_run(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = server.url.replace("://", f"://somebody:{SECRET}@")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    llm = ChatOpenAI(model="test-model", base_url=address, api_key=lambda: "none")
    with caplog.at_level(logging.DEBUG):
        for each in (llm, "openai:test-model"):
            assert Ensemble(tasks=[Task.of("Cook")], llm=each).run().raw
        assert "HTTP Request: POST http://***@127.0.0.1" in caplog.text
        assert SECRET not in caplog.text
        assert SECRET not in str(describe_models())
        llm.invoke("What is sent by its owner's own hand is logged as ever.")
        assert f"POST http://somebody:{SECRET}@127.0.0.1" in caplog.text


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The umask under which whoever does not ask for more makes files that all may read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


def write_all(folder: Path, opened: ExitStack) -> dict[str, int]:
    """The modes of all files that a user can have written, by name; while the memory is in use elsewhere, too."""
    memory = SqliteMemory(folder / "memory.db")
    opened.enter_context(closing(sqlite3.connect(folder / "memory.db"))).execute("SELECT * FROM sqlite_master")
    output = Ensemble(
        tasks=[Task.of("Cook", memory=("kitchen",))],
        llm=scripted("Soup."),
        memory=memory,
        trace_exporter=JsonTraceExporter(folder / "traces"),
    ).run(record=folder / "cook.yaml")
    output.trace.save(folder / "saved.trace.json")
    for ending in ("json", "html", "svg", "parquet"):
        output.trace.export(folder / f"exported.{ending}")
    (folder / "cell.yaml").write_text("- {name: cook, description: Cook}")
    assert main(["run", str(folder / "cell.yaml"), "--llm", "scripted", "-o", str(folder / "answer.md")]) == 0
    (folder / "cell.yaml").unlink()
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.rglob("*") if each.is_file()}


@pytest.mark.usefixtures("open_umask")
def test_e69_files_that_hold_prompts_are_for_their_owner_alone(tmp_path: Path) -> None:
    with ExitStack() as opened:
        modes = write_all(tmp_path, opened)
        assert {"memory.db", "memory.db-wal", "memory.db-shm", "cook.yaml", "saved.trace.json", "answer.md"} <= {*modes}
        assert set(modes.values()) == {0o600}
        for name in ("memory.db", "memory.db-wal", "memory.db-shm", "cook.yaml", "saved.trace.json", "answer.md"):
            (tmp_path / name).chmod(0o666)  # as earlier versions have left them
        assert set(write_all(tmp_path, opened).values()) == {0o600}


# --- E70 ---


def test_e70_what_can_not_be_written_is_a_warning_and_costs_no_task(tmp_path: Path) -> None:
    cell = "- {name: soup, description: Cook}\n- {name: cake, description: Bake}"
    names = {"model": scripted("Soup.", "Cake.")}
    made = read_cell(f"llm: model\ntasks:\n  {cell.replace(chr(10), chr(10) + '  ')}", names).build(names)
    (tmp_path / "traces").write_text("a file, where a folder is wanted")
    output = replace(made, trace_exporter=JsonTraceExporter(tmp_path / "traces" / "more")).run(record="/dev/full")
    assert (output.raw, len(output)) == ("Cake.", 2)
    recording, export = output.warnings
    assert recording == (
        "The recording /dev/full is incomplete, since it could not be written: No space left on device. The run went "
        "on; to replay it, record anew."
    )
    assert export.startswith("The trace could not be exported by JsonTraceExporter: NotADirectoryError")
    shown = " ".join(output._repr_mimebundle_()["text/plain"].split())
    assert "! The recording /dev/full is incomplete" in shown
    assert "! The trace could not be exported" in shown


def test_e70_an_incomplete_recording_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "soup.yaml"
    Ensemble(tasks=[Task.of("Cook")], llm=scripted("Soup.")).run(record=file)
    file.write_text(file.read_text().replace("# Complete: yes. ", "# Complete: no.  "))
    with pytest.raises(ReplayError, match=f"The recording {file} is incomplete: not all of it could be written"):
        Ensemble(tasks=[Task.of("Cook")], llm=scripted("Soup.")).run(replay=file)


# --- E71 ---

ESCAPES = "\x1b]0;title\x07\x1b[31mred\x00"
UNSEEN = "\u200b"


def test_e71_names_that_nobody_can_tell_apart_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"Task name 'a\\u200b' differs from 'a' only in characters that nobody"):
        Ensemble(tasks=[done("a"), done(f"a{UNSEEN}")]).validate()
    with pytest.raises(CellError, match="differs from 'a' only in characters that nobody can see"):
        run_cell(
            '- {name: a, description: A, handler: find}\n- {name: "a\\u200b", description: B, handler: find}',
            find=fetch,
        )
    with pytest.raises(ValidationError, match=r"Phase name .* differs"):
        Ensemble(phases=[Phase.of("p", done("a")), Phase.of("p\u2060", done("b"))]).validate()
    with pytest.raises(ValidationError, match=r"Agent role .* differs"):
        Ensemble(
            tasks=[Task.of("A", agent=agent("x", role="Cook")), Task.of("B", agent=agent("x", role="Cook\ufeff"))]
        ).validate()


def test_e71_control_characters_never_reach_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    def broken(given: TaskInput) -> str:
        raise ValueError(f"no {ESCAPES}")

    ensemble = Ensemble(tasks=[Task.of(f"Do {ESCAPES}", name=f"do {ESCAPES}", handler=broken)], name=f"all {ESCAPES}")
    with caplog.at_level(logging.DEBUG), pytest.raises(TaskExecutionError) as caught:
        ensemble.run()
    error = caught.value
    seen = [ensemble.plan()._repr_mimebundle_()["text/plain"], repr(ensemble.plan()), repr(ensemble)]
    seen += ["\n".join(error._render_traceback_()), "\n".join(error._render_traceback_()), str(error)]
    seen += [error.output._repr_mimebundle_()["text/plain"], repr(error.output), caplog.text]
    assert [[each for each in text if each < " " and each not in "\n\t"] for text in seen] == [[]] * len(seen)


def test_e71_an_edited_file_is_refused_by_name(tmp_path: Path) -> None:
    llm = scripted("Soup.", "Soup.")
    cooked = Ensemble(tasks=[Task.of("Cook", name="soup")], llm=llm)
    cell = read_cell("llm: llm\ntasks: {soup: Cook}", {"llm": llm}).build({"llm": llm})
    for ensemble, file in ((cooked, tmp_path / "python.yaml"), (cell, tmp_path / "cell.yaml")):
        saved = ensemble.run(record=file).trace.save(tmp_path / "a.trace.json")
        saved.write_text(saved.read_text().replace('"seq": 2', '"seq": 0'))
        with pytest.raises(
            TraceFormatError, match=r"a\.trace\.json is no execution trace that can be read: events is damaged"
        ):
            ExecutionTrace.load(saved)
        head, _, _ = file.read_text().rpartition("seconds: ")
        file.write_text(f"{head}seconds: .nan\n")
        with pytest.raises(ReplayError, match="seconds must be from 0 to 86400, got nan"):
            ensemble.run(replay=file)
