"""What tasks read before they start and leave behind, in a run and across runs (E44)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleOutput,
    InMemoryStore,
    MemoryEnded,
    MemoryEntry,
    MemoryStarted,
    ScriptedChatModel,
    SpanStatus,
    SqliteMemory,
    Task,
    TaskInputPrepared,
)
from tests.support.limits import meet_limit


def prompt(output: EnsembleOutput, task: str) -> str:
    return next(each.user_prompt for each in output.events if isinstance(each, TaskInputPrepared) and each.task == task)


def run(llm: ScriptedChatModel, *tasks: Task, **fields: Any) -> EnsembleOutput:
    return Ensemble(tasks=tasks, llm=llm, **fields).run()


def test_a_task_reads_what_an_earlier_one_of_the_run_left_behind() -> None:
    first = Task.of("Find facts about tides", name="find", memory="tides")
    second = Task.of("Write about tides", name="write", memory=["tides", "style"])
    output = run(ScriptedChatModel(replies=["The moon pulls tides.", "Done."]), first, second)
    assert "## Memory" not in prompt(output, "find")
    assert prompt(output, "write").startswith(
        "## Memory: tides\n- Asked: Find facts about tides\nAnswered: The moon pulls tides.\n\n## Task\n"
    )
    assert "## Memory: style" not in prompt(output, "write")


def test_runs_share_no_memory_unless_they_share_a_store() -> None:
    def again(**fields: Any) -> str:
        llm = ScriptedChatModel(replies=["The moon pulls tides."])
        return prompt(run(llm, Task.of("Talk of tides", name="talk", memory="tides"), **fields), "talk")

    assert "## Memory" not in again() + again()
    store = InMemoryStore()
    assert "## Memory" not in again(memory=store)
    assert "Answered: The moon pulls tides." in again(memory=store)


def test_a_file_remembers_across_ensembles(tmp_path: Path) -> None:
    for seen in (False, True):
        llm = ScriptedChatModel(replies=["Neap tides are weak."])
        task = Task.of("Explain neap tides", name="explain", memory="tides")
        output = run(llm, task, memory=SqliteMemory(tmp_path / "notes.db"))
        assert ("Neap tides are weak." in prompt(output, "explain")) is seen


def test_reading_and_writing_are_spans_with_counts() -> None:
    store = InMemoryStore()
    for number in range(7):
        store.store("tides", MemoryEntry(text=f"Tide fact {number}", created_at=datetime.now(UTC)))
    output = run(ScriptedChatModel(replies=["x"]), Task.of("Tell a tide fact", name="t", memory="tides"), memory=store)
    started = [(e.operation, e.scope) for e in output.events if isinstance(e, MemoryStarted)]
    ended = [(e.status, e.count) for e in output.events if isinstance(e, MemoryEnded)]
    assert started == [("retrieve", "tides"), ("store", "tides")]
    assert ended == [(SpanStatus.OK, 5), (SpanStatus.OK, 1)]
    assert prompt(output, "t").count("- Tide fact") == 5


class Broken:
    async def store(self, scope: str, entry: MemoryEntry) -> None:
        raise OSError("disk full")

    def retrieve(self, scope: str, query: str, limit: int) -> Sequence[MemoryEntry]:
        raise OSError("disk gone")


def test_a_broken_store_costs_a_warning_and_never_the_task() -> None:
    output = run(ScriptedChatModel(replies=["x"]), Task.of("Talk", name="t", memory="tides"), memory=Broken())
    assert output["t"].raw == "x"
    assert ["disk gone" in output.warnings[0], "disk full" in output.warnings[1]] == [True, True]


class Hung:
    async def retrieve(self, scope: str, query: str, limit: int) -> Any:
        await asyncio.Event().wait()

    async def store(self, scope: str, entry: MemoryEntry) -> None:
        await asyncio.Event().wait()


def test_a_store_that_hangs_costs_a_warning_and_never_the_task_e38() -> None:
    limits: list[float] = []

    def talk(limit_s: float) -> EnsembleOutput:
        limits.append(limit_s)
        task = Task.of("Talk", name="t", memory="tides", timeout=limit_s)
        return run(ScriptedChatModel(replies=["x"]), task, memory=Hung())

    output = meet_limit(talk, lambda output: output.task_outputs, 0.1)
    assert output["t"].raw == "x"
    assert output.warnings == (
        f"The memory 'tides' could not be read for task 't': no answer within {limits[-1]:g} s",
        f"The memory 'tides' could not be written for task 't': no answer within {limits[-1]:g} s",
    )


@pytest.mark.parametrize("given", ["a text", 5, [None]], ids=repr)
def test_a_store_that_gives_no_entries_costs_a_warning_and_never_the_task(given: Any) -> None:
    class Odd(InMemoryStore):
        def retrieve(self, scope: str, query: str, limit: int) -> Any:
            return given

    output = run(ScriptedChatModel(replies=["x"]), Task.of("Talk", name="t", memory="tides"), memory=Odd())
    assert output["t"].raw == "x"
    assert "could not be read" in output.warnings[0]
    reading, writing = (each for each in output.events if isinstance(each, MemoryEnded))
    assert (reading.status, writing.status) == (SpanStatus.ERROR, SpanStatus.OK)


def test_a_scope_that_is_named_twice_is_written_once() -> None:
    store = InMemoryStore()
    run(ScriptedChatModel(replies=["x"]), Task.of("Talk", memory=["tides", "tides"]), memory=store)
    assert len(store.retrieve("tides", "x", 5)) == 1


def test_handlers_write_memory_too() -> None:
    store = InMemoryStore()
    run(ScriptedChatModel(), Task.of("Note", handler=lambda task: "noted", memory="notes"), memory=store)
    (entry,) = store.retrieve("notes", "noted", 5)
    assert (entry.text, entry.metadata["agent"]) == ("Asked: Note\nAnswered: noted", "Handler")


def test_an_edited_output_is_what_is_remembered() -> None:
    from ensemble_notebook import Review, ReviewDecision

    store = InMemoryStore()
    task = Task.of("Note", handler=lambda task: "draft", memory="notes", review=Review())
    run(ScriptedChatModel(), task, memory=store, review_handler=lambda request: ReviewDecision.edit("final"))
    assert [each.text for each in store.retrieve("notes", "final", 5)] == ["Asked: Note\nAnswered: final"]
