"""E53 at work: each item is a task of its own, and what all of them put out is one output."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    Budget,
    Condition,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    ErrorStrategy,
    ExecutionTrace,
    ItemsFailedError,
    ItemsListed,
    Phase,
    PhaseReview,
    Review,
    ReviewDecision,
    ReviewRequested,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskInputPrepared,
    TaskReused,
    TaskStarted,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.conformance.scene import agent, done, of, prompts, run, run_cell
from tests.support.drive import drive, fails, parallel, times, works
from tests.support.limits import meet_limit
from tests.support.openai_server import Answer, OpenAIServer

pytestmark = pytest.mark.usefixtures("store_path")

TIDES = pd.DataFrame({"text": ["low", "high", None], "height": [1, 4, 2]})


class Step(BaseModel):
    """One of a plan."""

    title: str


class Steps(BaseModel):
    """A plan."""

    steps: list[Step]


def shout(given: TaskInput) -> str:
    """Say it loudly; "bad" can't be said."""
    if given.item == "bad":
        raise ValueError("can't be said")
    return str(given.item).upper()


def echo(given: TaskInput) -> Any:
    return given.item


def each(source: Any, handler: Any = shout, **fields: Any) -> Task:
    return Task.of("Say {item}", name="each", for_each=source, handler=handler, **fields)


def rules(answers: dict[str, Any]) -> ScriptedChatModel:
    """A model that answers by what it is asked; of a list, one after the other."""

    def make(answer: Any) -> Any:
        return (lambda _: answer.pop(0)) if isinstance(answer, list) else answer

    return ScriptedChatModel(rules=[(pattern, make(answer)) for pattern, answer in answers.items()])


def worked(output: EnsembleOutput) -> list[str | None]:
    """Who was at work, in order of beginning."""
    return [event.task for event in of(output, TaskInputPrepared)]


def picture(output: EnsembleOutput) -> list[str]:
    """What views call the items, from the top."""
    lines = output._repr_mimebundle_()["text/plain"].splitlines()
    return [line.split("↳ ")[1].split("  ")[0] for line in lines if "↳ " in line]


def test_w26_items_go_by_their_label_else_by_their_first_text() -> None:
    papers = [{"year": 1990, "title": "Tides of Fundy"}, {"title": "Tides", "label": "B"}, {"year": 2}]
    work = each(papers, handler=lambda given: "x")
    output = run(work)
    assert picture(output) == ["Tides of Fundy", "B", "each[2]"]
    assert [item.name for item in output["each"].item_outputs] == ["each[0]", "each[1]", "each[2]"]
    assert picture(run(work, capture_mode="metadata")) == ["each[0]", "each[1]", "each[2]"]


# --- What comes of it ---


def test_e53_output_is_one_with_its_items_in_their_order() -> None:
    output = run(each(["a", "b"]), done("join", context=["each"], handler=lambda given: given.context[0].raw))
    whole = output["each"]
    assert whole.raw == "### each[0]: a\n\nA\n\n### each[1]: b\n\nB"
    assert whole.parsed_output == ["A", "B"]
    assert [(item.name, item.raw, item.task_description) for item in whole.item_outputs] == [
        ("each[0]", "A", "Say a"),
        ("each[1]", "B", "Say b"),
    ]
    assert output.raw == whole.raw
    assert [item.name for item in output.task_outputs] == ["each", "join"]
    assert [event.count for event in of(output, ItemsListed)] == [2]
    assert find_violations(output.trace) == []
    assert all(item.trace is not None for item in whole.item_outputs)
    again = pickle.loads(pickle.dumps(output))
    assert [item.raw for item in again["each"].item_outputs] == ["A", "B"]


def test_e53_handlers_get_items_as_they_are_and_their_objects_are_the_list() -> None:
    thing = object()
    assert run(each([thing, 3], handler=echo))["each"].parsed_output == [thing, 3]
    rows = run(each(TIDES, handler=echo))["each"].parsed_output
    assert rows[2] == {"text": None, "height": 2}


def test_e53_items_of_a_task_come_from_what_it_puts_out() -> None:
    model = rules({"Plan": '{"steps": [{"title": "tides"}, {"title": "waves"}]}', "Do": "Done."})
    plan = Task.of("Plan", name="plan", llm=model, output_type=Steps)
    output = run(plan, Task.of("Do {item.title} for {who}", name="do", for_each=plan, llm=model), inputs={"who": "me"})
    texts = [user.partition("## Task\n")[2].partition("\n\n## ")[0] for _, user in prompts(output)]
    assert texts[1:] == ["Do tides for me", "Do waves for me"]
    assert "Context" not in prompts(output)[1][1]
    for put_out, items in (("1. low\n2. high", ["low", "high"]), (["x"], ["x"]), (TIDES["height"], [1, 4, 2])):
        found = run(done("list", handler=lambda _, value=put_out: value), each("list", handler=echo))
        assert found["each"].parsed_output == items
    chained = run(each(["a", "b"]), Task.of("{item}", name="more", for_each="each", handler=lambda g: g.item + "!"))
    assert chained["more"].parsed_output == ["A!", "B!"]


def test_e53_output_that_is_no_list_fails_the_task_and_is_quoted() -> None:
    for value, words in (
        ("Tides are nice.", r"of 'list', whose output is no list, .*: 'Tides are nice.'"),
        (5, r"whose output is no list, but a value of type int: '5'"),
        ({"a": [1], "b": [2]}, "has the lists a, b, and needs exactly one"),
        ([1] * 4, r"would run for 4 items, and its max_items is 3\. Raise it, or let 'list' put out fewer"),
    ):
        with pytest.raises(TaskExecutionError) as caught:
            run(done("list", handler=lambda _, value=value: value), each("list", max_items=3))
        assert caught.match(words)


def test_e53_no_items_are_an_empty_list_with_a_warning() -> None:
    for source in ([], TIDES.iloc[:0]):
        output = run(each(source))
        assert (output.status, output["each"].parsed_output, output["each"].raw) == (RunStatus.COMPLETED, [], "")
        assert output.warnings == ("Task 'each' has no items to run for.",)


def test_e53_in_a_cell_rows_fan_out_and_are_read_together() -> None:
    cell = """
llm: model
tasks:
  summarise: {for_each: documents, description: "Summarise {item.text}."}
  reduce: {description: Join, context: [summarise]}
"""
    model = rules({"Summarise low": "L", "Summarise high": "H", "Summarise .": "-", "Join": "LH"})
    output = run_cell(cell, documents=TIDES, model=model)
    assert output["summarise"].parsed_output == ["L", "H", "-"]
    assert "### Summarizer: Summarise high.\nH\n---\n" in prompts(output)[-1][1]
    planned = output.plan.tasks[0]
    assert (planned.times, planned.settings["for_each"]) == ("x 3", "3 items")
    assert run_cell('- {for_each: "{names}", description: "{item}", handler: shout}', names=["a"], shout=shout).raw


def test_e53_missing_field_fails_only_its_item() -> None:
    items = [{"text": "low"}, {"txt": "high"}]
    task = Task.of("Read {item.text}", name="each", for_each=items, handler=lambda given: given.description)
    output = run(task, error_strategy=ErrorStrategy.PARTIAL)
    assert output["each"].parsed_output == ["Read low"]
    assert "each[1]' can't be filled in: There is no field 'text'. Did you mean 'txt'?" in str(output.failures[0].error)


# --- Places ---


def test_e53_max_concurrency_counts_items_of_all_tasks_together() -> None:
    many = Task.of("{item}", name="many", for_each=list(range(4)), handler=works(1))
    other = Task.of("other", name="other", handler=works(1))
    for places, makespan in ((None, 1), (1, 5), (2, 3), (3, 2), (5, 1)):
        result, events = drive(parallel(many, other, max_concurrency=places))
        assert events[-1].offset_s == pytest.approx(makespan), places
        assert result.status is RunStatus.COMPLETED
    begun = [(event.task, event.queued_s) for event in events if isinstance(event, TaskStarted)]
    assert begun == [("many", 0), ("other", 0), *((f"many[{number}]", 0) for number in range(4))]
    _, events = drive(parallel(many, other, max_concurrency=2))
    queued = {event.task: event.queued_s for event in events if isinstance(event, TaskStarted)}
    assert queued == {"many": 0, "other": 0, "many[0]": 0, "many[1]": 1, "many[2]": 1, "many[3]": 2}


def test_e53_duration_of_the_whole_is_the_union_of_its_items() -> None:
    many = Task.of("{item}", name="many", for_each=[1, 2, 3], handler=works(2))
    result, events = drive(parallel(many, max_concurrency=2))
    assert result.outputs[0].duration.total_seconds() == pytest.approx(4)
    assert [item.duration.total_seconds() for item in result.outputs[0].item_outputs] == pytest.approx([2, 2, 2])
    assert set(times(events, TaskStarted)) == {"many", "many[0]", "many[1]", "many[2]"}


# --- Failures ---


def test_e53_fail_fast_begins_no_more_and_names_what_failed() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(each(["a", "bad", "c", "d"]), done("last", context=["each"]), max_concurrency=1)
    failed = caught.value.__cause__
    assert isinstance(failed, ItemsFailedError)
    assert str(failed) == "1 of 4 items failed: each[1] (ValueError: can't be said)."
    assert isinstance(failed.__cause__, ValueError)
    assert ([item.raw for item in failed.item_outputs], failed.failures[0].name) == (["A"], "each[1]")
    output = caught.value.output
    assert worked(output) == ["each[0]", "each[1]"]
    assert [skipped.name for skipped in output.skipped] == ["last"]
    assert output.frames.errors["origin"].str.contains("in shout").all()
    assert find_violations(output.trace) == []


def test_e53_other_failure_begins_no_more_items_under_fail_fast() -> None:
    many = Task.of("{item}", name="many", for_each=list(range(6)), handler=works(1))
    lost = Task.of("lost", name="lost", handler=fails(1.5))
    result, _ = drive(parallel(many, lost, max_concurrency=2))
    assert [item.name for item in result.outputs[0].item_outputs] == ["many[0]", "many[1]"]
    reasons = {skipped.name: skipped.reason for skipped in result.skipped}
    assert reasons == {"many": "2 of its 6 items are done; not started: 'lost' failed"}


def test_e53_continue_goes_on_with_the_others_and_then_fails() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(each(["bad", "b", "bad", "d"]), error_strategy=ErrorStrategy.CONTINUE_ON_ERROR)
    failed = caught.value.output.failures[0].error
    assert isinstance(failed, ItemsFailedError)
    assert [item.name for item in failed.item_outputs] == ["each[1]", "each[3]"]
    assert [failure.name for failure in failed.failures] == ["each[0]", "each[2]"]


def test_e53_partial_keeps_the_good_ones_and_names_the_others() -> None:
    model = ScriptedChatModel(replies=["Joined."])
    output = run(
        each(["a", "bad", "c"]),
        Task.of("Join", name="join", context=["each"], llm=model),
        error_strategy=ErrorStrategy.PARTIAL,
    )
    whole = output["each"]
    assert output.status is RunStatus.COMPLETED_WITH_WARNINGS
    assert (whole.parsed_output, [failure.name for failure in whole.item_failures]) == (["A", "C"], ["each[1]"])
    assert [(failure.name, failure.item_of) for failure in output.failures] == [("each[1]", "each")]
    assert "can't be said" in prompts(output)[-1][1]
    assert "each[1]" not in output
    with pytest.raises(KeyError, match="each\\[1\\]' failed"):
        output["each[1]"]
    nothing = run(each(["bad", "bad"]), done("last", context=["each"]), error_strategy=ErrorStrategy.PARTIAL)
    assert (nothing.status, [failure.name for failure in nothing.failures]) == (RunStatus.FAILED, ["each"])


@pytest.mark.parametrize("strategy", ["partial", "fail_fast", "continue_on_error"])
def test_e53_without_its_source_there_is_nothing_to_run_for(strategy: str) -> None:
    triage = done("triage")
    skipped = done("list", when=Condition("triage", equals="never"))
    output = run(triage, skipped, each("list", context=["triage"]), error_strategy=strategy, workflow="parallel")
    assert {each.name: each.reason for each in output.skipped}["each"] == "needs 'list', which was skipped"
    assert output.status is RunStatus.COMPLETED


# --- What is done once, and what for each ---


def test_e53_review_and_condition_act_once_on_the_whole() -> None:
    asked: list[Any] = []

    def decide(request: Any) -> ReviewDecision:
        asked.append((request.task, request.subject, request.text))
        return ReviewDecision.retry("louder") if len(asked) == 2 else ReviewDecision.approve()

    def work(given: TaskInput) -> str:
        return f"{given.item}{given.attempt}{given.feedback}{given.previous}"

    task = each(["a", "b"], handler=work, review=[Review(timing="before"), Review(timing="after")])
    output = run(task, done("loud", when=Condition("each", contains="louder")), review_handler=decide)
    assert [text for _, _, text in asked[:1]] == ["Say {item}"]
    assert [name for name, _, _ in asked] == ["each"] * 3
    assert output["each"].parsed_output == ["a2('louder',)a1()None", "b2('louder',)b1()None"]
    assert "loud" in output
    assert len(of(output, ReviewRequested)) == 3


def test_e53_all_else_is_each_items_own() -> None:
    def is_short(given: Any) -> str | None:
        return "too long" if len(given.raw) > 3 else None

    def odd(given: TaskInput) -> str | None:
        return "no zero" if given.item == 0 else None

    model = rules({"Task\nSay 1": ["too much", "1!"], "Task\nSay 2": "2", "Task\nSay 3": [OSError("down"), "3"]})
    task = Task.of(
        "Say {item}",
        name="each",
        for_each=[0, 1, 2, 3],
        agent=Agent(role="Cook", goal="Feed", llm=model, max_retries=0),
        fallback=agent("3f", role="Sous-chef"),
        input_guardrails=odd,
        output_guardrails=is_short,
        max_guardrail_retries=1,
        memory=["notes"],
    )
    output = run(task, error_strategy=ErrorStrategy.PARTIAL, max_concurrency=1)
    whole = output["each"]
    assert whole.parsed_output == ["1!", "2", "3f"]
    assert [item.from_fallback for item in whole.item_outputs] == [False, False, True]
    assert whole.from_fallback
    assert [(failure.name, "no zero" in str(failure.error)) for failure in whole.item_failures] == [("each[0]", True)]
    assert set(output.frames.tasks.set_index("task").loc[["each[1]"], "agent"]) == {"Cook"}


def test_e53_phase_that_is_sent_back_runs_all_items_again() -> None:
    verdicts = [ReviewDecision.retry("again"), ReviewDecision.approve()]
    phase = Phase(name="p", tasks=[each(["a"])], review=PhaseReview(lambda request: verdicts.pop(0)))
    output = Ensemble(phases=[phase]).run()
    assert worked(output) == ["each[0]", "each[0]"]
    assert output["each"].parsed_output == ["A"]
    assert find_violations(output.trace) == []


# --- Stops ---


def test_e53_interrupt_keeps_the_finished_items() -> None:
    async def work(given: TaskInput) -> str:
        if given.item == "slow":
            await asyncio.Event().wait()
        return str(given.item)

    ensemble = Ensemble(tasks=[each(["a", "slow", "c"], handler=work)], max_concurrency=1)

    def run(limit_s: float) -> EnsembleOutput:
        with pytest.raises(DeadlineExceededError) as caught:
            ensemble.run(timeout=limit_s)
        return caught.value.output

    output = meet_limit(run, lambda output: output.task_outputs, 0.2)
    assert output["each"].parsed_output == ["a"]
    spans = output.frames.tasks.set_index("task")["status"]
    assert (spans["each"], spans["each[0]"], spans["each[1]"]) == ("cancelled", "ok", "cancelled")
    assert find_violations(output.trace) == []


def test_e53_budget_keeps_the_finished_items() -> None:
    model = ScriptedChatModel(replies=["A", "B", "C"])
    task = Task.of("Say {item}", name="each", for_each=["a", "b", "c"], llm=model)
    output = run(task, done("last", context=["each"]), budget=Budget(max_llm_calls=2), max_concurrency=1)
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert output["each"].parsed_output == ["A", "B"]
    assert {each.name for each in output.skipped} == {"each", "last"}
    assert output.metrics.llm_call_count == 2


# --- Earlier runs ---


def test_e53_unchanged_items_are_reused_one_by_one() -> None:
    def reused(output: EnsembleOutput) -> set[str | None]:
        return {event.task for event in of(output, TaskReused)}

    def ensemble() -> Ensemble:
        return Ensemble(tasks=[each("{words}"), done("last", context=["each"])])

    first = ensemble().run(words=["a", "b"])
    second = ensemble().run(words=["new", "a", "b"], reuse=True)
    assert worked(second) == ["each[0]", "last"]
    assert reused(second) == {"each[1]", "each[2]"}
    assert second["each"].parsed_output == ["NEW", "A", "B"]
    third = ensemble().run(words=["new", "a", "b"], reuse=True)
    assert worked(third) == []
    assert third["each"].parsed_output == ["NEW", "A", "B"]
    assert first["each"].parsed_output == ["A", "B"]
    only = Ensemble(tasks=[done("list", handler=lambda _: ["a"]), each("list"), done("other")]).run(only="each")
    assert worked(only)[-1] == "each[0]"
    assert {each.name for each in only.skipped} == {"other"}


def test_e53_resumed_run_does_only_the_items_that_are_missing(server: OpenAIServer, llm: str) -> None:
    server.script("A", Answer.status(401), "C", "B")
    task = Task.of("Say {item}", name="each", for_each=["a", "b", "c"], llm=llm)
    ensemble = Ensemble(tasks=[task], error_strategy=ErrorStrategy.CONTINUE_ON_ERROR, max_concurrency=1)
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run()
    output = ensemble.run(resume=caught.value.output)
    assert worked(output) == ["each[1]"]
    assert output["each"].parsed_output == ["A", "B", "C"]


def test_e53_recording_has_each_item(tmp_path: Any) -> None:
    model = rules({"Say low": "L", "Say high": "H"})
    ensemble = Ensemble(tasks=[Task.of("Say {item.text}", name="each", for_each=TIDES[:2], llm=model)])
    path = tmp_path / "tides.recording"
    assert ensemble.run(record=path)["each"].parsed_output == ["L", "H"]
    assert ensemble.run(replay=path)["each"].parsed_output == ["L", "H"]


# --- What is kept of it ---


def test_e53_items_are_tasks_in_frames_and_files_with_their_parent(tmp_path: Any) -> None:
    output = run(each(["a", "b"]), done("last"))
    spans = output.frames.spans
    whole = spans.index[spans["name"] == "each"][0]
    assert set(spans.index[spans["parent_id"] == whole]) == set(spans.index[spans["name"].str.startswith("each[")])
    tasks = output.frames.tasks.set_index("task")
    assert tasks["item_of"].astype("string").fillna("").to_dict() == {
        "each": "",
        "each[0]": "each",
        "each[1]": "each",
        "last": "",
    }
    assert tasks["item_count"].fillna(-1).to_dict() == {"each": 2, "each[0]": -1, "each[1]": -1, "last": -1}
    path = output.trace.save(tmp_path / "t.trace.json") or tmp_path / "t.trace.json"
    loaded = ExecutionTrace.load(path)
    assert loaded.frames.tasks.set_index("task")["item_of"].equals(tasks["item_of"])
    assert loaded.plan is not None
    assert loaded.plan.tasks[0].item_count == 2
    diff = output.diff(run(each(["a", "c"]), done("last"))).frame
    rows = diff[diff["kind"] == "task"].set_index("path")
    assert rows.loc["each/each[1]", "output_changed"]
    assert not rows.loc["each/each[0]", "output_changed"]


def test_e53_many_items_are_one_line_of_a_picture() -> None:
    output = run(each([*"abcdefghijklmnop", "bad"]), error_strategy=ErrorStrategy.PARTIAL)
    picture = str(output._repr_mimebundle_())
    assert "each x 17" in picture
    assert "each[16]" in picture
    assert "each[3]" not in picture.replace("### each[3]", "").split("application/vnd")[0]
    few = run(each(["a", "b"]))
    assert "each[1]" in str(few._repr_mimebundle_())


def test_e53_ensemble_as_a_task_is_given_each_item() -> None:
    inner = Ensemble(tasks=[Task.of("Shout {word} at {whom}", name="in", handler=lambda given: given.description)])
    task = Task(ensemble=inner, inputs={"word": "{item.text}", "whom": "{whom}"}, name="each", for_each=TIDES[:2])
    output = Ensemble(tasks=[task], inputs={"whom": "me"}).run()
    assert output["each"].parsed_output == ["Shout low at me", "Shout high at me"]
    thing = Task(ensemble=inner, inputs={"word": "{item}", "whom": "you"}, name="each", for_each=["a"])
    assert run(thing)["each"].parsed_output == ["Shout a at you"]


def test_e53_run_without_texts_tells_nothing_of_its_items() -> None:
    output = run(each(["secret words"]), capture_mode="metadata")
    assert output["each"].parsed_output == ["SECRET WORDS"]
    assert "SECRET" not in str(output.events) + repr(output["each"]) + str(output.trace.to_dict())
    assert "SECRET" not in str(pickle.dumps(output))
