"""Memory and people: what is remembered, and who is asked (E44, E45)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    InMemoryStore,
    MemoryEnded,
    Reply,
    Review,
    ReviewDecision,
    ReviewRequest,
    ReviewRequested,
    ReviewTimeoutError,
    RunStatus,
    SqliteMemory,
    Task,
    TaskExecutionError,
    TaskInputPrepared,
    TaskRetried,
    ToolUse,
    VectorStoreMemory,
    human_input,
)
from tests.conformance.scene import done, of, run, scripted

# --- E44 ---


def test_e44_up_to_five_matching_entries_are_read_before_and_the_output_is_stored_after() -> None:
    store = InMemoryStore()
    notes = [done(f"note{n}", handler=lambda task: f"Tides: {task.name}", memory="sea") for n in range(7)]
    tell = Task.of("Tell of tides", name="tell", llm=scripted("Told."), memory="sea")
    output = run(*notes, tell, memory=store)
    prompt = of(output, TaskInputPrepared)[-1].user_prompt
    assert prompt.startswith("## Memory: sea\n- Asked: Do note6\nAnswered: Tides: ")
    assert prompt.count("Answered: Tides: ") == 5
    assert [each.text for each in store.retrieve("sea", "Told.", 1)] == ["Asked: Tell of tides\nAnswered: Told."]
    assert [each.count for each in of(output, MemoryEnded)][-2:] == [5, 1]


def test_e44_a_file_remembers_across_runs_by_full_text(tmp_path: Path) -> None:
    store = SqliteMemory(tmp_path / "sea.db")
    run(done("a", handler=lambda task: "Spring tides are strong.", memory="sea"), memory=store)
    run(done("b", handler=lambda task: "Bread needs salt.", memory="sea"), memory=store)
    output = run(
        Task.of("Explain spring tides", llm=scripted("ok"), memory="sea"), memory=SqliteMemory(tmp_path / "sea.db")
    )
    first = of(output, TaskInputPrepared)[0].user_prompt.splitlines()[1:3]
    assert first == ["- Asked: Do a", "Answered: Spring tides are strong."]


def test_e44_any_langchain_vector_store_will_do() -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    memory = VectorStoreMemory(store, read_only=False)
    run(done("a", handler=lambda task: "Spring tides are strong.", memory="sea"), memory=memory)
    output = run(Task.of("Explain", llm=scripted("ok"), memory="sea"), memory=memory)
    assert "Spring tides are strong." in of(output, TaskInputPrepared)[0].user_prompt


# --- E45 ---


def asked(output: EnsembleOutput) -> list[tuple[str, str]]:
    return [(each.request.subject, each.request.text) for each in of(output, ReviewRequested)]


def approve(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.edit("Brest") if request.subject == "question" else ReviewDecision.approve()


def test_e45_gates_stand_before_during_and_after_a_task() -> None:
    llm = scripted(
        Reply(calls=[ToolUse("shout", {"text": "hi"})]),
        Reply(calls=[ToolUse("human_input", {"question": "Where?"})]),
        "Done.",
    )

    def shout(text: str) -> str:
        """Say it loud."""
        return text.upper()

    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[shout, human_input])
    task = Task.of("Cook", agent=cook, review=[Review("before"), Review("during"), Review("after")])
    output = run(task, review_handler=approve)
    assert asked(output) == [("task", "Cook"), ("tool", '{"text": "hi"}'), ("question", "Where?"), ("output", "Done.")]
    assert list(output.frames.tool_calls["result"]) == ["HI", "Brest"]


def test_e45_continue_edit_retry_and_exit_early() -> None:
    decisions = [ReviewDecision.retry("Shorter."), ReviewDecision.edit("Soup!"), ReviewDecision.exit_early()]
    llm = scripted("A long soup.", "Soup.", "Tea.")
    tasks = [
        Task.of("Cook", name="a", llm=llm, review=Review()),
        Task.of("Brew", name="b", llm=llm, review=Review()),
        done("c"),
    ]
    output = run(*tasks, review_handler=lambda request: decisions.pop(0))
    assert [each.raw for each in output.task_outputs] == ["Soup!", "Tea."]
    assert [(each.attempt, each.feedback) for each in of(output, TaskRetried)] == [(2, "Shorter.")]
    assert output.status is RunStatus.EXITED_EARLY


@pytest.mark.parametrize("policy, gates", [("never", 0), ("after_every_task", 3), ("after_last_task", 1)])
def test_e45_a_policy_stands_for_tasks_without_a_review(policy: str, gates: int) -> None:
    output = run(done("a"), done("b"), done("c"), review_handler=approve, review_policy=policy)
    assert len(asked(output)) == gates


async def sleep_in(request: ReviewRequest) -> Any:
    await asyncio.sleep(60)


def test_e45_nobody_answers_in_time() -> None:
    def late(**fields: Any) -> EnsembleOutput:
        return run(done("a", review=Review(timeout=0.01, **fields)), review_handler=sleep_in)

    assert late().status is RunStatus.EXITED_EARLY
    assert late(on_timeout="continue").status is RunStatus.COMPLETED
    with pytest.raises(TaskExecutionError) as caught:
        late(on_timeout="fail")
    assert isinstance(caught.value.__cause__, ReviewTimeoutError)


def test_e45_an_ensemble_is_reviewed_by_start_s_handler_where_it_has_none() -> None:
    output = Ensemble(tasks=[done("a", review=Review())]).start(review_handler=approve).result(timeout=30)
    assert asked(output) == [("output", "a")]
