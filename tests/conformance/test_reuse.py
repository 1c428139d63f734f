"""What is unchanged since an earlier run is not run again (C34): run(reuse=True), run(only=TASK), reuse: never.

A handler that is called, like an agent, has its prompts told: `worked` lists who was at work.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from ensemble_notebook import (
    Budget,
    Condition,
    CostConfiguration,
    Ensemble,
    EnsembleOutput,
    MemoryStarted,
    Phase,
    PhaseRetried,
    PhaseReview,
    Review,
    ReviewDecision,
    ReviewRequested,
    RunStatus,
    SqliteMemory,
    Task,
    TaskInputPrepared,
    TaskNotReused,
    TaskReused,
    ValidationError,
    Workflow,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.conformance.scene import agent, done, lost, of, run_cell, say, scripted

pytestmark = pytest.mark.usefixtures("store_path")


class Letter(BaseModel):
    """What a typed task writes."""

    title: str


class Parcel:
    """What no file of texts can hold."""

    def __str__(self) -> str:
        return "a parcel"


def worked(output: EnsembleOutput) -> list[str | None]:
    """Whose handler or agent was at work."""
    return [each.task for each in of(output, TaskInputPrepared)]


def reasons(output: EnsembleOutput) -> dict[str | None, str]:
    """Why each task was reused or ran."""
    return {each.task: each.reason for each in output.events if isinstance(each, TaskReused | TaskNotReused)}


def chain(facts: str = "facts", goal: str = "Feed people", **fields: Any) -> Ensemble:
    """A handler, an agent that reads it, and a handler that reads that."""
    gather = done("gather", handler=say(facts))
    cook = agent("soup", role="Cook")
    brief = Task.of("Cook it", name="brief", agent=cook, context=[gather])
    end = done("end", context=[brief])
    return Ensemble(tasks=[gather, brief, end], cost=CostConfiguration(input_rate=1, output_rate=1), **fields)


def test_c34_an_unchanged_run_does_nothing_and_gives_the_same() -> None:
    first = chain().run()
    again = chain().run(reuse=True)
    assert worked(again) == []
    assert [(each.name, each.raw, each.reused) for each in again] == [(each.name, each.raw, True) for each in first]
    assert again.raw == first.raw
    assert again["gather"].saving is not None
    assert again["gather"].saving.run_id == first.run_id
    assert find_violations(again.trace) == []


def test_c34_what_is_saved_is_told_and_never_counted_as_spent() -> None:
    first = chain().run()
    again = chain(budget=Budget(max_llm_calls=1, max_cost=0.001)).run(reuse=True)
    row = again.frames.tasks.set_index("task").loc["brief"]
    assert row["reused"]
    assert row["saved_tokens"] == first["brief"].metrics.total_tokens
    assert row["saved_cost"] == float(first["brief"].metrics.cost or 0)
    assert row["saved_ms"] == pytest.approx(first["brief"].duration.total_seconds() * 1000)
    assert (again.metrics.total_tokens, again.metrics.cost, again.metrics.llm_call_count) == (0, 0, 0)
    assert again.frames.spans.query("reused")["name"].tolist() == ["gather", "brief", "end"]
    assert "3 of 3 tasks reused: $" in again._repr_mimebundle_()["text/plain"]


def test_c34_what_rows_of_a_map_save_is_told_as_of_a_single_run() -> None:
    rows = [{"place": "here"}, {"place": "there"}]
    ensemble = Ensemble(tasks=[Task.of("Look {place}", name="look"), Task.of("Tell", context=["look"])], llm="scripted")
    first = ensemble.map(rows)
    again = ensemble.map(rows, reuse=True)
    assert first.frames is not None
    assert again.frames is not None
    paid = first.frames.tasks.set_index("task")
    saved = again.frames.tasks.set_index("task")
    assert saved.reused.all()
    assert saved.saved_tokens.to_dict() == paid.total_tokens.to_dict()
    assert saved.saved_cost.to_dict() == paid.cost.to_dict()
    assert again.frames.runs.saved_tokens.item() == first.metrics.total_tokens


def test_c34_a_list_inside_a_run_inside_saves_what_its_items_took() -> None:
    inner = Ensemble(tasks=[Task.of("Say {item}", name="each", for_each=["a", "b"])], llm="scripted", name="inner")
    outer = Ensemble(tasks=[Task(name="whole", ensemble=inner), Task.of("End", context=["whole"])], llm="scripted")
    first = outer.map([{"row": 1}])
    again = outer.map([{"row": 1}], reuse=True)
    assert first.frames is not None
    assert again.frames is not None
    assert again.frames.tasks.saved_tokens.tolist() == first.frames.tasks.total_tokens.tolist()
    assert first.frames.tasks.total_tokens.gt(0).all()


def test_c34_a_run_without_reuse_saved_nothing_which_is_0() -> None:
    assert chain().run().frames.runs[["saved_tokens", "saved_cost", "saved_ms"]].iloc[0].tolist() == [0, 0, 0]


def test_c34_savings_are_those_of_the_run_that_did_the_work_however_often_it_is_reused() -> None:
    first = chain().run()
    chain().run(reuse=True)
    again = chain().run(reuse=True)
    saving = again["brief"].saving
    assert saving is not None
    assert (saving.run_id, saving.tokens) == (first.run_id, first["brief"].metrics.total_tokens)


def test_c34_an_edit_runs_the_task_and_its_dependents_and_says_why() -> None:
    chain().run()
    again = chain(facts="other facts").run(reuse=True)
    assert worked(again) == ["gather", "brief"]
    told = reasons(again)
    assert "the handler changed" in told["gather"]
    assert told["brief"] == "the output of gather changed"


def test_c34_an_identical_output_lets_dependents_be_reused() -> None:
    chain(facts="facts").run()
    edited = chain()
    gather = done("gather", handler=lambda given: "facts")
    brief = Task.of("Cook it", name="brief", agent=agent("soup", role="Cook"), context=[gather])
    again = Ensemble(tasks=[gather, brief, done("end", context=[brief])], cost=edited.cost).run(reuse=True)
    assert worked(again) == ["gather"]
    assert again["brief"].reused


def test_c34_nobody_asked_nothing_is_said() -> None:
    output = chain().run()
    assert reasons(output) == {}
    assert output.frames.tasks["reuse_reason"].isna().all()


def test_c34_what_has_side_effects_runs() -> None:
    tasks = [done("send", reuse="never"), done("count")]
    Ensemble(tasks=tasks).run()
    again = Ensemble(tasks=tasks).run(reuse=True)
    assert worked(again) == ["send"]
    assert reasons(again)["send"] == "it says reuse: never"


def test_c34_a_cell_says_never_too() -> None:
    text = "- {name: send, description: Send, handler: send, reuse: never}"
    assert run_cell(text, send=say("sent")).ensemble.run(reuse=True)["send"].reused is False


def test_c34_only_one_task_runs_on_what_it_builds_on() -> None:
    chain().run()
    output = chain().run(only="brief")
    assert worked(output) == ["brief"]
    assert output.raw == "soup"
    assert [(each.name, each.reason) for each in output.skipped] == [
        ("end", "not needed for 'brief', which alone was asked for")
    ]
    assert output.status is RunStatus.COMPLETED


def test_c34_only_runs_what_it_builds_on_where_nothing_is_remembered() -> None:
    ensemble = chain()
    assert worked(ensemble.run(only=ensemble.tasks[1])) == ["gather", "brief"]


def test_c34_only_takes_no_part_of_phases_that_the_task_does_not_read() -> None:
    facts, note = done("facts"), done("note")
    text = done("text", context=[facts])
    phases = [
        Phase(name="find", tasks=[facts, note], review=PhaseReview(by=lambda request: ReviewDecision.reject("no"))),
        Phase(name="wait", tasks=[done("nap")], after=["find"]),
        Phase(name="write", tasks=[text, done("title")], after=["wait"]),
    ]
    output = Ensemble(phases=phases).run(only="write.text")
    assert worked(output) == ["facts", "text"]
    assert {each.name for each in output.skipped} == {"note", "nap", "wait", "title"}
    assert find_violations(output.trace) == []


def test_c34_a_task_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(ValidationError, match=r"no task 'breif'\. Did you mean 'brief'"):
        chain().run(only="breif")


@pytest.mark.parametrize(
    "fields, options, words",
    [
        ({"capture_mode": "metadata"}, {"reuse": True}, "keeps no text"),
        ({}, {"reuse": True, "record": "x.yaml"}, "leave out record or reuse"),
        ({}, {"reuse": True, "replay": "x.yaml"}, "leave out replay or reuse"),
        ({}, {"reuse": "yes"}, "goes through inputs"),
        ({}, {"only": 3}, "goes through inputs"),
    ],
)
def test_c34_what_makes_no_sense_is_refused(fields: Any, options: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        chain(**fields).run(**options)


def test_c34_without_a_store_there_is_nothing_to_reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    with pytest.raises(ValidationError, match="the store is off"):
        chain().run(reuse=True)
    assert worked(chain().run(only="gather")) == ["gather"]


@pytest.mark.parametrize(
    "result, words",
    [(Parcel(), "its output is a Parcel, which can't be kept as JSON"), ("key sk-proj-" + "a1B2" * 12, "a secret")],
)
def test_c34_what_can_not_be_kept_runs_again_and_says_so(result: Any, words: str) -> None:
    make = done("make", handler=lambda given: result)
    Ensemble(tasks=[make]).run()
    again = Ensemble(tasks=[make]).run(reuse=True)
    assert worked(again) == ["make"]
    assert words in reasons(again)["make"]


def test_c34_a_run_that_kept_no_text_is_named_as_the_reason() -> None:
    before = Ensemble(name="Night watch", tasks=[done("make")], capture_mode="metadata").run()
    again = Ensemble(name="Night watch", tasks=[done("make")]).run(reuse=True)
    assert worked(again) == ["make"]
    assert reasons(again)["make"] == f"run {before.run_id} kept no text (capture_mode metadata)"


def test_c34_values_come_back_as_they_were() -> None:
    tasks = [
        done("plain", handler=lambda given: {"n": [1, 2.5, None]}),
        Task.of("Write", name="typed", agent=agent('{"title": "Tides"}'), output_type=Letter),
    ]
    Ensemble(tasks=tasks).run()
    again = Ensemble(tasks=tasks).run(reuse=True)
    assert worked(again) == []
    assert again["plain"].parsed_output == {"n": [1, 2.5, None]}
    assert again["typed"].get_parsed_output(Letter) == Letter(title="Tides")


def test_c34_a_reviewed_task_has_the_approved_text_and_nobody_is_asked() -> None:
    task = done("write", review=Review(timing="after"), output_guardrails=lambda output: None)
    ensemble = Ensemble(tasks=[task], review_handler=lambda request: ReviewDecision.edit("better"))
    first, again = ensemble.run(), ensemble.run(reuse=True)
    assert (first.raw, again.raw) == ("better", "better")
    assert of(again, ReviewRequested) == []


def test_c34_later_tasks_find_what_a_reused_one_remembers() -> None:
    def make(word: str) -> Ensemble:
        return Ensemble(
            tasks=[
                done("one", memory="notes"),
                done("two", memory="notes", handler=say(word)),
            ]
        )

    make("two").run()
    assert worked(make("two").run(reuse=True)) == []
    again = make("three").run(reuse=True)
    assert worked(again) == ["two"]
    assert [each.operation for each in of(again, MemoryStarted) if each.task == "one"] == ["retrieve"] * 2 + ["store"]


def test_c34_a_memory_that_outlives_runs_gets_no_second_entry(tmp_path: Any) -> None:
    memory = SqliteMemory(tmp_path / "notes.db")
    writer = done("writer", memory="notes")
    Ensemble(tasks=[writer], memory=SqliteMemory(tmp_path / "other.db")).run()
    Ensemble(tasks=[writer], memory=memory).run(reuse=True)
    Ensemble(tasks=[writer], memory=SqliteMemory(tmp_path / "third.db")).run(reuse=True)
    assert len(memory.retrieve("notes", "writer", 5)) == 1


@pytest.mark.parametrize("by", ["callable", "task"])
def test_c34_an_approved_phase_is_not_reviewed_again(by: str) -> None:
    def review(request: Any) -> ReviewDecision:
        return ReviewDecision.approve() if "second" in request.text else ReviewDecision.retry("once more")

    def make() -> Ensemble:
        reviewer: Any = review
        if by == "task":
            reviewer = Task.of("Judge", agent=agent("RETRY: once more", "APPROVE", role="Judge"))
        writer = Task.of("Write", name="draft", agent=agent("first", "second", role="Writer"))
        return Ensemble(phases=[Phase(name="write", tasks=[writer], review=PhaseReview(by=reviewer))])

    first = make().run()
    assert (first.raw, len(of(first, PhaseRetried))) == ("second", 1)
    again = make().run(reuse=True)
    assert (again.raw, worked(again), of(again, PhaseRetried)) == ("second", [], [])
    assert find_violations(again.trace) == []


def test_c34_the_task_of_a_manager_is_reused_with_what_its_team_has_done() -> None:
    from ensemble_notebook import Agent
    from ensemble_notebook.models.langchain.scripted_model import ToolUse

    def make(goal: str = "Find") -> Ensemble:
        ask = ToolUse("delegate_task", {"agent_role": "Finder", "task_description": "Find it"})
        finder = Agent(role="Finder", goal=goal, llm=scripted("found"))
        return Ensemble(
            tasks=[Task.of("Find and tell", agent=finder)],
            workflow=Workflow.HIERARCHICAL,
            manager_llm=scripted(ask, "told"),
        )

    first = make().run()
    again = make().run(reuse=True)
    assert [(each.raw, each.reused) for each in again] == [(each.raw, True) for each in first]
    assert [each.raw for each in first] == ["found", "told"]
    assert not make("Look").run(reuse=True).task_outputs[-1].reused


def test_c34_what_a_fallback_made_is_reused_as_its() -> None:
    task = lost("cook", fallback=agent("soup", role="Helper"))
    Ensemble(tasks=[task]).run()
    again = Ensemble(tasks=[task]).run(reuse=True)
    assert (again["cook"].reused, again["cook"].from_fallback, again["cook"].agent_role) == (True, True, "Helper")
    assert again.status is RunStatus.COMPLETED_WITH_WARNINGS


def test_c34_conditions_look_at_reused_outputs() -> None:
    sort = done("sort", handler=say("urgent"))
    tasks = [
        sort,
        done("warn", when=Condition(sort, contains="urgent")),
        done("file", when=Condition(sort, default=True)),
    ]
    Ensemble(tasks=tasks).run()
    again = Ensemble(tasks=tasks).run(reuse=True)
    assert [each.name for each in again if each.reused] == ["sort", "warn"]
    assert [each.name for each in again.skipped] == ["file"]


def test_c34_failed_tasks_run_again() -> None:
    tasks = [done("good"), lost("bad", context=["good"])]
    for _ in range(2):
        output = Ensemble(tasks=tasks, error_strategy="partial").run(reuse=True)
    assert worked(output) == ["bad"]


def test_c34_a_run_inside_a_task_reuses_as_the_run_around_it_does() -> None:
    inner = Ensemble(tasks=[done("deep")], name="inner")

    def make(word: str) -> Ensemble:
        def outer(given: Any) -> str:
            return f"{word} {inner.run().raw}"

        return Ensemble(tasks=[done("outer", handler=outer)])

    make("one").run()
    again = make("two").run(reuse=True)
    assert worked(again) == ["outer"]
    assert again.raw == "two deep"
    assert find_violations(again.trace) == []


def test_c34_side_by_side_all_is_compared_at_once() -> None:
    tasks = [done(f"t{number}") for number in range(20)]
    everything = Ensemble(tasks=[*tasks, done("sum", context=tasks)], workflow="parallel", max_concurrency=3)
    everything.run()
    assert worked(everything.run(reuse=True)) == []


def test_c34_a_run_under_another_name_is_compared_with_the_one_that_has_most_of_its_tasks() -> None:
    def make(name: str, description: str, *others: str) -> Ensemble:
        brief = Task.of(description, name="brief", handler=say("A brief."))
        return Ensemble(tasks=[brief, *map(done, others)], name=name)

    make("before", "Write a brief", "gather").run()
    make("unrelated", "Write a long brief").run()
    after = reasons(make("after", "Write a short brief", "gather").run(reuse=True))
    assert after["brief"] == "the description changed"
    assert after["gather"].startswith("unchanged since run")
    assert reasons(make("new", "Say", "other").run(reuse=True))["other"] == "no remembered run has completed it"


def test_c34_an_earlier_run_of_the_same_name_comes_before_one_with_more_of_the_tasks() -> None:
    def make(name: str, result: str, *others: str) -> Ensemble:
        gather = done("gather", handler=say(result))
        brief = Task.of("Write", name="brief", handler=say("A brief."), context=[gather])
        return Ensemble(tasks=[gather, brief, *map(done, others)], name=name)

    make("report", "old").run()
    make("other", "new", "end").run()
    with_same_name = make("report", "newest", "end").run(reuse=True)
    assert reasons(with_same_name)["gather"].startswith("the handler changed")
    assert reasons(with_same_name)["end"].startswith("unchanged since run")
