"""A run goes on where an earlier one stopped (C33)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    Event,
    GuardrailResult,
    LlmCallCompleted,
    MapResult,
    Phase,
    PhaseReview,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunInterrupted,
    RunStarted,
    RunStatus,
    SpanStatus,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskOutput,
    ToolCallCompleted,
    ValidationError,
    auto_review,
    config,
    human_input,
)
from ensemble_notebook.ensemble.many_runs.loaded_map import load_map
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.models.recording.resumer import KeptAnswers
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.store.run_facts import describe_owner
from ensemble_notebook.trace.store.run_store import RunStore
from tests.conformance.scene import of
from tests.support.nested_runs import wait_for
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store

pytestmark = pytest.mark.usefixtures("store_path")

REFUSED = Answer.status(401)


class Count(BaseModel):
    """How often."""

    times: int


def chain(llm: str, *names: str, **fields: Any) -> Ensemble:
    """Tasks that follow each other."""
    agent = Agent(role="Cook", goal="Cook")
    return Ensemble(tasks=[Task.of(f"Do {name}", name=name, agent=agent) for name in names], llm=llm, **fields)


def pair(llm: str) -> Ensemble:
    """Two tasks, the second of which reads the first."""
    agent = Agent(role="Cook", goal="Cook")
    one, two = Task.of("Do one", name="one", agent=agent), Task.of("Do two", name="two", agent=agent, context=["one"])
    return Ensemble(tasks=[one, two], llm=llm)


def fail(ensemble: Ensemble, **given: Any) -> EnsembleOutput:
    """A run that fails; its output."""
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run(**given)
    output = caught.value.output
    assert isinstance(output, EnsembleOutput)
    return output


def test_c33_only_what_was_not_answered_is_asked(server: OpenAIServer, llm: str) -> None:
    server.script("One.", REFUSED, "Two.")
    ensemble = chain(llm, "one", "two")
    stopped = fail(ensemble)
    output = ensemble.run(resume=stopped)
    assert [each.raw for each in output.task_outputs] == ["One.", "Two."]
    assert output.metrics.llm_call_count == 1
    assert output.metrics.input_tokens == 11
    assert len(server.requests) == 3
    assert server.requests[2].body == server.requests[1].body
    assert find_violations(output.trace) == []
    (begun,) = of(output, RunStarted)
    assert begun.resumed_from == stopped.run_id


def test_c33_corrections_tools_and_reviews_of_an_unfinished_task_are_kept(server: OpenAIServer, llm: str) -> None:
    called, asked = [], []

    def search(q: str) -> str:
        """Look it up."""
        called.append(q)
        return f"found {q}"

    def ask(request: Any) -> ReviewDecision:
        asked.append(request.text)
        return ReviewDecision.approve() if "2" in request.text else ReviewDecision.retry("more")

    cook = Agent(role="Cook", goal="Cook", tools=[search])
    count = Task.of("Count", name="count", agent=cook, output_type=Count, review=Review(timing="after"))
    last = Task.of("Tell", name="tell", agent=Agent(role="Teller", goal="Tell"))
    ensemble = Ensemble(tasks=[count, last], llm=llm, review_handler=ask)
    server.script(Answer(None, calls=[("search", {"q": "tides"})]), "One, I think.", '{"times": 1}', REFUSED)
    stopped = fail(ensemble)
    server.script('{"times": 2}', "Done.")
    output = ensemble.run(resume=stopped.run_id)
    assert output["count"].get_parsed_output(Count) == Count(times=2)
    assert (called, asked) == (["tides"], ['{"times": 1}', '{"times": 2}'])
    assert len(server.requests) == 6
    assert [each.reused for each in of(output, LlmCallCompleted)] == [True, True, True, False, False]
    assert [each.reused for each in of(output, ToolCallCompleted)] == [True]
    assert output.metrics.tool_call_count == 0
    assert output["count"].tool_call_count == 1
    assert find_violations(output.trace) == []


def test_c33_finished_tasks_are_kept_and_what_has_changed_runs_and_says_why(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def note(task: TaskInput) -> str:
        with notes.open("a") as file:
            file.write(f"{task.name} ")
        return f"{task.name} done"

    def lose(task: TaskInput) -> str:
        raise ValueError("lost")

    def make(word: str, last: Any) -> Ensemble:
        same = Task.of("Be the same", name="same", handler=note)
        once = Task.of("Send the mail", name="once", handler=note, reuse="never")
        other = Task.of(f"Do {word}", name="other", handler=note)
        return Ensemble(tasks=[same, once, other, Task.of("End it", name="end", handler=last)])

    stopped = fail(make("this", lose))
    output = make("that", note).run(resume=stopped)
    assert notes.read_text() == "same once other other end "
    tasks = output.frames.tasks.set_index("task")
    assert tasks.reused.to_dict() == {"same": True, "once": True, "other": False, "end": False}
    assert tasks.reuse_reason["once"] == f"done in run {stopped.run_id}"
    assert "description changed" in tasks.reuse_reason["other"]
    assert tasks.reuse_reason["end"] == "it was not done when the run stopped"
    assert find_violations(output.trace) == []


def test_c33_phase_that_was_sent_back_goes_on_at_its_second_attempt(server: OpenAIServer, llm: str) -> None:
    worker, editor = Agent(role="Worker", goal="Work"), Agent(role="Editor", goal="Judge")
    review = PhaseReview(Task.of("Judge", name="judge", agent=editor))
    ensemble = Ensemble(
        phases=[Phase(name="p", tasks=[Task.of("Write", name="w", agent=worker)], review=review)], llm=llm
    )
    server.script("Long.", "RETRY: shorter", REFUSED)
    stopped = fail(ensemble)
    server.script("Short.", "APPROVE")
    assert ensemble.run(resume=stopped).raw == "Short."
    assert len(server.requests) == 5
    assert "shorter" in server.requests[3].body["messages"][1]["content"]


def test_c33_task_that_failed_for_its_last_reply_has_another_one_each_time(server: OpenAIServer, llm: str) -> None:
    cook = Agent(role="Cook", goal="Cook")
    count = Task.of("Count", name="count", agent=cook, output_type=Count, max_output_retries=1)
    ensemble = Ensemble(tasks=[count], llm=llm)
    server.script("One.", "Still one.", "One, I said.", '{"times": 1}')
    stopped = fail(ensemble)
    stopped = fail(ensemble, resume=stopped)
    output = ensemble.run(resume=stopped)
    assert output["count"].get_parsed_output(Count) == Count(times=1)
    assert len(server.requests) == 4
    assert server.requests[1].body == server.requests[2].body == server.requests[3].body
    assert [each.reused for each in of(output, LlmCallCompleted)] == [True, False]


def test_c33_task_that_a_guardrail_has_ended_is_asked_again_and_others_are_not(server: OpenAIServer, llm: str) -> None:
    def refuse(output: TaskOutput) -> GuardrailResult:
        return GuardrailResult.success() if "short" in output.raw else GuardrailResult.failure("too long")

    cook = Agent(role="Cook", goal="Cook")
    guarded = Task.of("Tell", name="tell", agent=cook, output_guardrails=[refuse], context=["one"])
    ensemble = Ensemble(tasks=[Task.of("Do one", name="one", agent=cook), guarded], llm=llm)
    server.script("One.", "long", "short")
    output = ensemble.run(resume=fail(ensemble))
    assert [each.raw for each in output.task_outputs] == ["One.", "short"]
    assert len(server.requests) == 3


def test_c33_task_that_went_on_asking_for_tools_is_asked_once_more(server: OpenAIServer, llm: str) -> None:
    called = []

    def search(q: str) -> str:
        """Look it up."""
        called.append(q)
        return f"found {q}"

    cook = Agent(role="Cook", goal="Cook", tools=[search], max_iterations=1)
    ensemble = Ensemble(tasks=[Task.of("Look", name="look", agent=cook)], llm=llm)
    server.script(*[Answer(None, calls=[("search", {"q": word})]) for word in "abcd"], "Done.")
    output = ensemble.run(resume=fail(ensemble))
    assert (output.raw, called, len(server.requests)) == ("Done.", ["a"], 5)


def test_c33_tool_turns_of_a_task_that_the_budget_has_ended_are_kept(server: OpenAIServer, llm: str) -> None:
    def search(q: str) -> str:
        """Look it up."""
        return f"found {q}"

    cook = Agent(role="Cook", goal="Cook", tools=[search])
    ensemble = Ensemble(tasks=[Task.of("Look", name="look", agent=cook)], llm=llm, budget=Budget(max_llm_calls=1))
    server.script(Answer(None, calls=[("search", {"q": "tides"})]), "Done.")
    stopped = ensemble.run()
    assert stopped.status is RunStatus.BUDGET_EXCEEDED
    assert ensemble.run(resume=stopped).raw == "Done."
    assert len(server.requests) == 2


def test_c33_review_task_that_rejected_is_asked_again(server: OpenAIServer, llm: str) -> None:
    worker, editor = Agent(role="Worker", goal="Work"), Agent(role="Editor", goal="Judge")
    review = PhaseReview(Task.of("Judge", name="judge", agent=editor))
    phase = Phase(name="p", tasks=[Task.of("Write", name="w", agent=worker)], review=review)
    ensemble = Ensemble(phases=[phase], llm=llm)
    server.script("Long.", "RETRY: shorter", "Short.", "REJECT: bad", "APPROVE")
    with pytest.raises(EnsembleError) as caught:
        ensemble.run()
    output = caught.value.output
    assert isinstance(output, EnsembleOutput)
    assert ensemble.run(resume=output).raw == "Short."
    assert len(server.requests) == 5


def test_c33_what_a_finished_task_was_answered_is_no_answer_to_another_one(server: OpenAIServer, llm: str) -> None:
    cook = Agent(role="Cook", goal="Cook")
    samples = [Task.of("Guess", name=name, agent=cook, context=[]) for name in ("first", "second")]
    ensemble = Ensemble(tasks=samples, llm=llm, max_concurrency=1)
    server.script("Heads.", REFUSED, "Tails.")
    output = ensemble.run(resume=fail(ensemble))
    assert [each.raw for each in output.task_outputs] == ["Heads.", "Tails."]
    assert server.requests[0].body == server.requests[2].body


def test_c33_task_that_has_another_name_by_now_is_not_asked_again(server: OpenAIServer, llm: str) -> None:
    server.script("One.", REFUSED, "Two.")
    cook = Agent(role="Cook", goal="Cook")

    def make(name: str) -> Ensemble:
        return Ensemble(
            tasks=[Task.of("Do one", name=name, agent=cook), Task.of("Do two", name="two", agent=cook)], llm=llm
        )

    assert make("uno").run(resume=fail(make("one"))).metrics.llm_call_count == 1


def test_c33_task_that_was_asked_for_is_kept_when_its_run_is_resumed(server: OpenAIServer, llm: str) -> None:
    ensemble = pair(llm)
    ensemble.run()
    only = ensemble.run(only="two")
    output = ensemble.run(only="two", resume=only)
    tasks = output.frames.tasks.set_index("task")
    assert (tasks.reused.to_dict(), len(server.requests)) == ({"one": True, "two": True}, 3)
    assert tasks.reuse_reason["two"] == f"done in run {only.run_id}"
    assert output.raw == only.raw


def test_c33_task_that_was_asked_for_and_not_done_is_not_taken_from_other_runs(server: OpenAIServer, llm: str) -> None:
    ensemble = pair(llm)
    ensemble.run()
    server.script(REFUSED)
    stopped = fail(ensemble, only="two")
    tasks = ensemble.run(only="two", resume=stopped, reuse=True).frames.tasks.set_index("task")
    assert (tasks.reused.to_dict(), len(server.requests)) == ({"one": True, "two": False}, 4)
    assert tasks.reuse_reason["two"] == "it is the one that was asked for"


def test_c33_with_reuse_the_resumed_run_comes_before_all_others(server: OpenAIServer, llm: str) -> None:
    ensemble = chain(llm, "one", "two", "three")
    server.script("One.", REFUSED)
    stopped = fail(ensemble)
    server.script("Another one.", "Two.", "Three.")
    other = ensemble.run()
    output = ensemble.run(resume=stopped, reuse=True)
    reasons = output.frames.tasks.set_index("task").reuse_reason
    assert output["one"].raw == "One."
    assert reasons.to_dict() == {
        "one": f"done in run {stopped.run_id}",
        "two": f"unchanged since run {other.run_id}",
        "three": f"unchanged since run {other.run_id}",
    }
    assert len(server.requests) == 5


def test_c33_run_that_is_resumed_has_a_new_account_of_its_budget(server: OpenAIServer, llm: str) -> None:
    server.script("One.", "Two.", "Three.")
    ensemble = chain(llm, "one", "two", "three", budget=Budget(max_llm_calls=2))
    stopped = ensemble.run()
    assert stopped.status is RunStatus.BUDGET_EXCEEDED
    output = ensemble.run(resume=stopped)
    assert (output.status, output.raw) == (RunStatus.COMPLETED, "Three.")
    assert len(server.requests) == 3


def test_c33_completed_run_is_given_again_and_nothing_is_asked(server: OpenAIServer, llm: str) -> None:
    server.script("One.", "Two.")
    ensemble = chain(llm, "one", "two", name="tides")
    ensemble.run()
    for again in ("tides", "-1"):
        output = ensemble.run(resume=again)
        assert (output.raw, output.metrics.llm_call_count, output.metrics.input_tokens) == ("Two.", 0, 0)
    assert len(server.requests) == 2


def test_c33_inputs_are_those_of_the_resumed_run_unless_given(server: OpenAIServer, llm: str) -> None:
    ensemble = chain(llm, "{what}, {often}")
    stopped = ensemble.run(what="tides", often=2)
    assert len(server.requests) == 1
    ensemble.run(resume=stopped)
    assert len(server.requests) == 1
    ensemble.run(resume=stopped, what="winds")
    assert "Do winds, 2" in server.requests[1].body["messages"][1]["content"]


def test_c33_input_that_was_not_kept_has_to_be_given_again(server: OpenAIServer, llm: str) -> None:
    ensemble = chain(llm, "{what}")
    stopped = ensemble.run(what=Path("tides"))
    with pytest.raises(ValidationError, match=r"had inputs that are not kept.*'what'.*Give them again"):
        ensemble.run(resume=stopped)
    ensemble.run(resume=stopped, what=Path("tides"))
    assert len(server.requests) == 1


def test_c33_what_can_not_be_resumed_is_refused_with_the_reason(
    server: OpenAIServer, llm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    textless = chain(llm, "one", capture_mode="metadata").run()
    ensemble = chain(llm, "one", name="tides")
    known = ensemble.run()
    with pytest.raises(EnsembleError, match=f"No run 'tide' .*'tides'.*latest are {known.run_id} .tides., "):
        ensemble.run(resume="tide")
    with pytest.raises(ValidationError, match="metadata keeps nothing of what was said"):
        ensemble.run(resume=textless)
    with pytest.raises(ValidationError, match="metadata keeps no text"):
        chain(llm, "one", capture_mode="metadata").run(resume=known)
    with pytest.raises(ValidationError, match="leave out replay or resume"):
        ensemble.run(resume=known, replay="tides.yaml")
    with pytest.raises(ValidationError, match="resume must be the id of a run or its output, got 3"):
        ensemble.run(resume=3)
    monkeypatch.setattr(config, "store", "off")
    with pytest.raises(EnsembleError, match="No runs are remembered: the store is 'off'"):
        ensemble.run(resume=known.run_id)
    assert ensemble.run(resume=known).raw == known.raw  # which is there in this process
    assert len(server.requests) == 2


def test_c33_runs_know_what_they_resume(llm: str) -> None:
    ensemble = chain(llm, "one")
    first = ensemble.run()
    second = ensemble.run(resume=first)
    assert [each.facts.resumed_from for each in RunStore.open().list_runs()] == [first.run_id, None]
    RunStore.open().clear()
    with pytest.raises(EnsembleError, match="No run"):
        ensemble.run(resume=second.run_id)


# --- Calls of tools that somebody or something ends beside each other, and their ends --------------------------------


class Till:
    """Charges cards; a charge goes on until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go, self.over = threading.Event(), threading.Event(), threading.Event()
        self.charged: list[str] = []
        self.threads: list[threading.Thread] = []

    def charge(self, card: str) -> str:
        """Charge a card."""
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.go.wait(60)
        self.charged.append(card)
        return f"charged {card}"

    def end(self) -> None:
        """Let charges end, also those that nobody waits for."""
        self.go.set()
        for each in self.threads:
            each.join(60)


def ask_for(*calls: tuple[str, dict[str, Any]]) -> Answer:
    return Answer(None, calls=list(calls))


def till_ensemble(llm: str, till: Till, *tools: Any, **fields: Any) -> Ensemble:
    cashier = Agent(role="Cashier", goal="Charge", tools=[till.charge, *tools])
    review = fields.pop("review", ())
    return Ensemble(tasks=[Task.of("Pay", name="pay", agent=cashier, review=review)], llm=llm, **fields)


def outcomes(output: EnsembleOutput) -> list[tuple[str, str, str]]:
    calls = output.frames.tool_calls
    return list(zip(calls.tool, calls.status, calls.outcome.astype(object).fillna("none"), strict=True))


def stop_while_charging(ensemble: Ensemble, till: Till) -> EnsembleOutput:
    handle = ensemble.start()
    assert till.begun.wait(60)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    output = caught.value.output
    assert isinstance(output, EnsembleOutput)
    wait_for_store()  # the end of a run waits for its file only so long
    return output


def test_e27_calls_beside_the_one_at_which_a_person_leaves_are_finished_and_kept(
    server: OpenAIServer, llm: str
) -> None:
    till = Till()

    def leave(request: Any) -> ReviewDecision:
        assert till.begun.wait(60)
        return ReviewDecision.exit_early()

    def let_go(event: Event) -> None:  # not before the run is being ended
        if isinstance(event, ToolCallCompleted) and event.tool == "human_input":
            till.go.set()

    server.script(ask_for(("human_input", {"question": "All?"}), ("charge", {"card": "A"}), ("charge", {"card": "B"})))
    ensemble = till_ensemble(llm, till, human_input, review_handler=leave, listeners=[let_go])
    left = ensemble.run()
    assert left.status is RunStatus.EXITED_EARLY
    assert sorted(till.charged) == ["A", "B"]
    done = ("charge", "ok", "success")
    assert outcomes(left) == [("human_input", "skipped", "declined"), done, done]
    assert left.metrics.tool_call_count == left.frames.agents.tool_count.sum() == 2
    assert find_violations(left.trace) == []

    server.script("Paid.")
    answering = ensemble.replace(review_handler=lambda _: ReviewDecision.edit("Yes"))
    output = answering.run(resume=left)
    assert output.raw == "Paid."
    assert sorted(till.charged) == ["A", "B"]
    assert [each.reused for each in of(output, ToolCallCompleted)].count(True) == 2
    assert len(server.requests) == 2


def test_e27_calls_beside_one_that_fails_the_task_are_finished_and_those_that_wait_are_not_made(
    server: OpenAIServer, llm: str
) -> None:
    till, asked = Till(), []

    def decide(request: Any) -> ReviewDecision:
        asked.append(request.text)
        if len(asked) == 2:
            assert till.begun.wait(60)
            raise ValueError("out of order")
        return ReviewDecision.approve()

    def let_go(event: Event) -> None:
        if isinstance(event, ToolCallCompleted) and event.status is SpanStatus.SKIPPED:
            till.go.set()

    cards = [("charge", {"card": card}) for card in "ABC"]
    server.script(ask_for(*cards), "Paid.")
    ensemble = till_ensemble(llm, till, review=Review(timing="during"), review_handler=decide, listeners=[let_go])
    failed = fail(ensemble)
    assert till.charged == ["A"]
    assert outcomes(failed) == [
        ("charge", "ok", "success"),
        ("charge", "skipped", "none"),
        ("charge", "skipped", "none"),
    ]
    assert list(failed.frames.tool_calls["result"].iloc[1:]) == [
        "its review gave no answer",
        "the run ended before it began",
    ]
    assert failed.metrics.tool_call_count == failed.frames.agents.tool_count.sum() == 1
    output = ensemble.run(resume=failed)
    assert output.raw == "Paid."
    assert till.charged[0] == "A"
    assert sorted(till.charged) == ["A", "B", "C"]


def test_c33_what_a_tool_answers_after_a_stop_is_kept(server: OpenAIServer, llm: str) -> None:
    till = Till()
    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    ensemble = till_ensemble(llm, till)
    stopped = stop_while_charging(ensemble, till)
    assert outcomes(stopped) == [("charge", "interrupted", "unknown")]
    assert find_violations(stopped.trace) == []
    till.end()
    output = ensemble.run(resume=stopped.run_id)
    assert (output.raw, till.charged) == ("Paid.", ["A"])
    assert [each.reused for each in of(output, ToolCallCompleted)] == [True]


def test_c33_call_of_which_no_end_is_known_is_not_repeated_where_nobody_can_be_asked(
    server: OpenAIServer, llm: str
) -> None:
    till = Till()
    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    ensemble = till_ensemble(llm, till)
    stopped = stop_while_charging(ensemble, till)
    for resume in (stopped, stopped.run_id):
        with pytest.raises(ValidationError, match=r'charge\({"card": "A"}\)\. .*redo=\[\'charge\'\]') as refused:
            ensemble.run(resume=resume)
        assert stopped.run_id in str(refused.value)
    with pytest.raises(ValidationError, match="redo"):
        ensemble.start(resume=stopped, redo=["other"])
    till.begun.clear()
    handle = ensemble.start(resume=stopped, redo=["charge"])
    assert till.begun.wait(60)  # before the first call may end, and have its answer known
    till.go.set()
    output = handle.result()
    assert output.raw == "Paid."
    assert outcomes(output) == [("charge", "ok", "success")]
    till.end()
    assert till.charged == ["A", "A"]
    assert ensemble.run(resume=output).raw == "Paid."


@pytest.mark.parametrize(
    "decision, charges, outcome",
    [
        (ReviewDecision.approve(), 2, ("charge", "ok", "success")),
        (ReviewDecision.reject("it is paid"), 1, ("charge", "skipped", "declined")),
    ],
)
def test_c33_person_is_asked_whether_to_repeat_a_call_of_which_no_end_is_known(
    server: OpenAIServer, llm: str, decision: ReviewDecision, charges: int, outcome: tuple[str, str, str]
) -> None:
    till, asked = Till(), []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        till.go.set()
        return decision

    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    ensemble = till_ensemble(llm, till, review_handler=decide)
    stopped = stop_while_charging(ensemble, till)
    output = ensemble.run(resume=stopped)
    assert output.raw == "Paid."
    assert outcomes(output) == [outcome]
    (request,) = asked
    assert (request.subject, request.tool, request.task) == ("tool", "charge", "pay")
    assert stopped.run_id in request.text
    till.end()
    assert till.charged == ["A"] * charges
    again = ensemble.run(resume=output)  # what was decided is known
    assert (again.raw, len(asked), len(till.charged)) == ("Paid.", 1, charges)


@pytest.mark.parametrize("is_left", [True, False])
def test_c33_question_whether_to_repeat_a_call_is_asked_again_where_it_had_no_answer(
    server: OpenAIServer, llm: str, is_left: bool
) -> None:
    till, asked = Till(), []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        if len(asked) > 1:
            return ReviewDecision.reject("it is paid")
        if is_left:
            return ReviewDecision.exit_early()
        handles[-1].cancel()
        till.over.wait(60)
        return ReviewDecision.approve()

    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    ensemble = till_ensemble(llm, till, review_handler=decide)
    stopped = stop_while_charging(ensemble, till)
    handles = [ensemble.start(resume=stopped)]
    if is_left:
        ended = handles[0].result()
    else:
        with pytest.raises(RunInterrupted) as caught:
            handles[0].result()
        ended = caught.value.output
    till.over.set()
    assert outcomes(ended) == [("charge", "skipped", "declined" if is_left else "none")]
    assert ended.metrics.tool_call_count == ended.frames.agents.tool_count.sum() == 0
    output = ensemble.run(resume=ended)
    assert (output.raw, len(asked)) == ("Paid.", 2)
    till.end()
    assert till.charged == ["A"]


@pytest.mark.parametrize("redo", ["charge", [1]])
def test_c33_redo_is_a_list_of_names_and_goes_with_a_run(llm: str, redo: Any) -> None:
    ensemble = chain(llm, "one")
    with pytest.raises(ValidationError, match="redo must be a list of names of tools"):
        ensemble.run(resume="-1", redo=redo)
    with pytest.raises(ValidationError, match="redo is about a run that is resumed"):
        ensemble.run(redo=["charge"])
    with pytest.raises(ValidationError, match="anyway is about a run that is resumed"):
        ensemble.run(anyway=True)


def charge(card: str) -> str:
    """Charge a card, anywhere."""
    return f"charged {card}"


def till_map(llm: str, till: Till | None, **fields: Any) -> Ensemble:
    """Each row pays in its second task, after one that is done."""
    cashier = Agent(role="Cashier", goal="Charge", tools=[charge if till is None else till.charge])
    greet = Task.of("Greet {who}", name="greet", handler=lambda task: f"Hello, {task.inputs['who']}")
    return Ensemble(tasks=[greet, Task.of("Pay for {who}", name="pay", agent=cashier)], llm=llm, **fields)


def stop_map_while_charging(ensemble: Ensemble, till: Till, rows: Any) -> MapResult:
    """The second row charges when the map is stopped; the first one is done by then."""
    handle = start_map(ensemble, read_map(rows, concurrency=1))
    handle._begin()
    assert till.begun.wait(60)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    result = caught.value.output
    assert isinstance(result, MapResult)
    wait_for_store()
    return result


def of_result(result: MapResult) -> MapResult:
    return result


def of_loaded(result: MapResult) -> MapResult:
    return load_map(str(result.run_id))


def of_id(result: MapResult) -> str:
    return str(result.run_id)


WHO: Final = [{"who": "Ann"}, {"who": "Bob"}]


@pytest.mark.parametrize("take", [of_result, of_loaded, of_id])
def test_e72_a_call_of_which_no_end_is_known_is_not_repeated_in_rows_where_nobody_can_be_asked(
    server: OpenAIServer, llm: str, take: Any
) -> None:
    till = Till()
    server.script("Nothing to pay.", ask_for(("charge", {"card": "B"})), "Paid.")
    ensemble = till_map(llm, till)
    stopped = stop_map_while_charging(ensemble, till, WHO)
    given = take(stopped)
    with pytest.raises(ValidationError, match=r'charge\({"card": "B"}\)\. .*redo=\[\'charge\'\]') as refused:
        ensemble.map(WHO, resume=given)
    assert str(stopped.run_id) in str(refused.value)
    with pytest.raises(ValidationError, match="redo"):
        ensemble.map(WHO, resume=given, redo=["other"])
    assert len(ensemble.map(WHO[:1], resume=given).failures) == 0  # its row is not among these
    other = Till()
    other.go.set()
    rows = WHO[::-1] if take is of_result else WHO
    result = till_map(llm, other).map(rows, resume=given, redo=["charge"], concurrency=1)
    assert sorted(result.frame.raw) == ["Nothing to pay.", "Paid."]
    till.end()
    assert other.charged == ["B"]
    assert len(server.requests) == 3  # the reply that asked for the charge was there


@pytest.mark.parametrize("take", [of_result, of_id])
@pytest.mark.parametrize("is_allowed", [True, False])
def test_e72_a_person_is_asked_whether_to_repeat_a_call_in_a_row(
    server: OpenAIServer, llm: str, take: Any, is_allowed: bool
) -> None:
    till, asked = Till(), []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        till.go.set()
        return ReviewDecision.approve() if is_allowed else ReviewDecision.reject("it is paid")

    server.script("Nothing to pay.", ask_for(("charge", {"card": "B"})), "Paid.")
    ensemble = till_map(llm, till, review_handler=decide)
    stopped = stop_map_while_charging(ensemble, till, WHO)
    result = ensemble.map(WHO, resume=take(stopped))
    assert result.frame.raw.tolist() == ["Nothing to pay.", "Paid."]
    (request,) = asked
    assert (request.subject, request.tool, request.row) == ("tool", "charge", "row 1")
    assert str(stopped.run_id) in request.text
    till.end()
    assert till.charged == ["B"] * (2 if is_allowed else 1)


@pytest.mark.parametrize("take", [of_result, of_id])
def test_e72_what_a_tool_of_a_row_answers_after_a_stop_is_kept(server: OpenAIServer, llm: str, take: Any) -> None:
    till = Till()
    server.script("Nothing to pay.", ask_for(("charge", {"card": "B"})), "Paid.")
    ensemble = till_map(llm, till)
    stopped = stop_map_while_charging(ensemble, till, WHO)
    till.end()
    result = ensemble.map(WHO, resume=take(stopped))
    assert result.frame.raw.tolist() == ["Nothing to pay.", "Paid."]
    assert till.charged == ["B"]
    assert RunStore.open().find_run(str(result.run_id)).facts.resumed_from == stopped.run_id


@pytest.mark.parametrize("why", ["off", "metadata", "record", "executor"])
def test_e72_a_result_of_which_the_store_cannot_tell_what_was_answered_is_refused_all_the_same(
    server: OpenAIServer, llm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str
) -> None:
    till = Till()
    asking = ask_for(("charge", {"card": "B"}))
    server.script("Nothing to pay.", asking, asking, "Paid.")
    fields = {"capture_mode": "metadata"} if why == "metadata" else {}
    if why == "off":
        monkeypatch.setattr(config, "store", "off")
    # Somebody could be asked, but nothing is known of the reply that wanted the call.
    ensemble = till_map(llm, till, review_handler=auto_review(), **fields)
    stopped = stop_map_while_charging(ensemble, till, WHO)
    more: dict[str, Any] = {"record": tmp_path / "record.yaml"} if why == "record" else {}
    with ThreadPoolExecutor(1) as pool:
        more |= {"executor": pool} if why == "executor" else {}
        again = till_map(llm, None, review_handler=auto_review(), **fields)
        with pytest.raises(ValidationError, match=r"charge\(.*not at hand here.*redo=\['charge'\]"):
            again.map(WHO, resume=stopped, **more)
        result = again.map(WHO, resume=stopped, redo=["charge"], **more)
    assert result.frame.status.tolist() == ["completed", "completed"]
    till.end()
    assert len(server.requests) == 4


def test_e72_redo_and_anyway_go_with_a_result_too(llm: str) -> None:
    ensemble = till_map(llm, Till())
    result = ensemble.map([])
    with pytest.raises(ValidationError, match="redo must be a list of names of tools"):
        ensemble.map([], resume=result, redo="charge")
    with pytest.raises(ValidationError, match="redo is about a run that is resumed"):
        ensemble.map([], redo=["charge"])
    assert len(ensemble.map([], resume=result, redo=["charge"], anyway=True)) == 0


def test_c33_async_tool_that_takes_its_cancellation_is_cancelled_and_made_again(server: OpenAIServer, llm: str) -> None:
    begun, ends = threading.Event(), []

    async def charge(card: str) -> str:
        """Charge a card."""
        begun.set()
        if not ends:
            ends.append("stopped")
            await asyncio.Event().wait()
        return "charged"

    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    cashier = Agent(role="Cashier", goal="Charge", tools=[charge])
    ensemble = Ensemble(tasks=[Task.of("Pay", name="pay", agent=cashier)], llm=llm)
    handle = ensemble.start()
    assert begun.wait(60)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    assert outcomes(stopped) == [("charge", "cancelled", "none")]
    assert ensemble.run(resume=stopped).raw == "Paid."


class BlockingTill:
    """Charges cards in an async function that blocks its loop until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.charged: list[str] = []

    async def charge(self, card: str) -> str:
        """Charge a card."""
        self.begun.set()
        assert self.go.wait(60)
        self.charged.append(card)
        if card == "bad":
            raise ValueError("no such card")
        return f"charged {card}"


class ChargeTool(BaseTool):
    """A tool of LangChain with a body of its own."""

    name: str = "charge"
    description: str = "Charge a card."
    till: Any

    def _run(self, card: str) -> str:
        raise NotImplementedError

    async def _arun(self, card: str) -> str:
        told: str = await self.till.charge(card)
        return told


def as_function(till: BlockingTill) -> Any:
    return till.charge


def as_langchain_tool(till: BlockingTill) -> Any:
    return StructuredTool.from_function(coroutine=till.charge, name="charge", description="Charge a card.")


def as_tool_with_artifact(till: BlockingTill) -> Any:
    async def charge(card: str) -> tuple[str, int]:
        return await till.charge(card), 1

    form: Any = "content_and_artifact"
    return StructuredTool.from_function(coroutine=charge, description="Charge a card.", response_format=form)


def as_class(till: BlockingTill) -> Any:
    return ChargeTool(till=till)


def pay_with(llm: str, tool: Any) -> Ensemble:
    cashier = Agent(role="Cashier", goal="Charge", tools=[tool])
    return Ensemble(tasks=[Task.of("Pay", name="pay", agent=cashier)], llm=llm)


@pytest.mark.parametrize("make", [as_function, as_langchain_tool, as_tool_with_artifact, as_class])
def test_c33_what_an_async_tool_has_done_when_a_stop_finds_it_ended_is_kept(
    server: OpenAIServer, llm: str, make: Any
) -> None:
    till = BlockingTill()
    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    ensemble = pay_with(llm, make(till))
    handle = ensemble.start()
    assert till.begun.wait(60)
    handle.cancel()  # is heard after the body has ended, and before LangChain has passed on what it gave
    till.go.set()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    assert outcomes(stopped) == [("charge", "ok", "success")]
    assert [each.result for each in of(stopped, ToolCallCompleted)] == ["charged A"]
    assert find_violations(stopped.trace) == []
    output = ensemble.run(resume=stopped)
    assert (output.raw, till.charged) == ("Paid.", ["A"])
    assert len(server.requests) == 2


def test_c33_an_async_tool_that_fails_when_it_is_stopped_has_failed(server: OpenAIServer, llm: str) -> None:
    till = BlockingTill()
    server.script(ask_for(("charge", {"card": "bad"})), "Not paid.")
    ensemble = pay_with(llm, till.charge)
    handle = ensemble.start()
    assert till.begun.wait(60)
    handle.cancel()
    till.go.set()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    assert outcomes(stopped) == [("charge", "error", "failure")]
    assert (ensemble.run(resume=stopped).raw, till.charged) == ("Not paid.", ["bad"])


def test_c33_what_an_async_tool_gives_that_blocks_its_loop_until_the_run_is_over_is_kept(
    server: OpenAIServer, llm: str
) -> None:
    till = BlockingTill()
    server.script(ask_for(("charge", {"card": "A"})), "Paid.")
    ensemble = pay_with(llm, till.charge)
    handle = ensemble.start()
    assert till.begun.wait(60)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    assert outcomes(stopped) == [("charge", "interrupted", "unknown")]
    with pytest.raises(ValidationError, match=r"redo=\['charge'\]"):
        ensemble.run(resume=stopped)
    till.go.set()
    wait_for(lambda: not KeptAnswers(RunStore.open().load_exchanges(stopped.run_id)).list_unknown())
    output = ensemble.run(resume=stopped)
    assert (output.raw, till.charged) == ("Paid.", ["A"])


def test_c33_a_tool_inside_a_tool_that_is_stopped_ends_for_itself_alone(server: OpenAIServer, llm: str) -> None:
    """A handler that has ended inside a run which a tool begins is not the end of that tool."""
    begun, made = threading.Event(), []

    async def note(card: str) -> str:
        """Note a card."""
        return f"noted {card}"

    async def wait(task: TaskInput) -> str:
        made.append(task.name)
        begun.set()
        if len(made) == 1:
            await asyncio.Event().wait()
        return "charged"

    tasks = [
        Task.of("A", name="note", handler=StructuredTool.from_function(coroutine=note)),
        Task.of("B", handler=wait),
    ]
    inner = Ensemble(tasks=tasks)
    server.script(ask_for(("charge", {})), "Paid.")
    ensemble = pay_with(llm, inner.as_tool("charge", "Charge a card."))
    handle = ensemble.start()
    assert begun.wait(60)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    assert outcomes(stopped) == [("charge", "cancelled", "none")]
    assert ensemble.run(resume=stopped).raw == "Paid."
    assert len(made) == 2


# --- Two that go on with one run at once -----------------------------------------------------------------------------


class Rest:
    """The rest of a run, which fails at first, and then goes on until it is let go."""

    def __init__(self) -> None:
        self.is_broken, self.begun, self.go = True, threading.Event(), threading.Event()

    def __call__(self, task: TaskInput) -> str:
        if self.is_broken:
            raise ValueError("lost")
        self.begun.set()
        assert self.go.wait(60)
        return "done"

    def make(self) -> Ensemble:
        return Ensemble(tasks=[Task.of("Do it", name="it", handler=self)])


def test_c33_run_with_which_another_one_goes_on_is_refused_unless_anyway() -> None:
    rest = Rest()
    ensemble = rest.make()
    stopped = fail(ensemble)
    rest.is_broken = False
    handle = ensemble.start(resume=stopped)
    assert rest.begun.wait(60)
    for resume in (stopped, stopped.run_id):
        with pytest.raises(ValidationError, match=f"run {handle.run_id} in this process .* anyway=True") as refused:
            ensemble.start(resume=resume)
        assert f"Run {stopped.run_id} is resumed already" in str(refused.value)
    other = ensemble.start(resume=stopped, anyway=True)
    rest.go.set()
    assert (handle.result().raw, other.result().raw) == ("done", "done")
    assert ensemble.run(resume=stopped).raw == "done"  # they are over


def test_c33_with_the_store_off_one_run_of_this_process_goes_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    rest = Rest()
    ensemble = rest.make()
    stopped = fail(ensemble)
    rest.is_broken = False
    handle = ensemble.start(resume=stopped)
    assert rest.begun.wait(60)
    refusal = f"Run {stopped.run_id} is resumed already: run {handle.run_id} in this process .* anyway=True"
    with pytest.raises(ValidationError, match=refusal):
        ensemble.start(resume=stopped)
    monkeypatch.delenv("ENSEMBLE_NOTEBOOK_STORE")  # that it goes on is known where a store has been switched on since
    with pytest.raises(ValidationError, match=refusal):
        ensemble.run(resume=stopped)
    other = ensemble.start(resume=stopped, anyway=True)
    rest.go.set()
    assert (handle.result().raw, other.result().raw) == ("done", "done")
    assert ensemble.run(resume=stopped).raw == "done"  # they are over


def test_c33_two_that_begin_to_go_on_with_one_run_at_the_same_moment_are_told_apart() -> None:
    stopped = fail(Rest().make())
    store = RunStore.open()
    facts = store.find_run(stopped.run_id).facts
    first, second = (replace(facts, run_id=name, resumed_from=stopped.run_id) for name in ("first", "second"))
    writer = store.begin(first)
    with pytest.raises(ValidationError, match="run first in this process"):
        store.begin(second)
    store.begin(second, is_only=False).close().result(60)
    writer.close().result(60)
    store.begin(replace(second, run_id="third")).close().result(60)


def test_c33_claim_dies_with_its_process(store_path: Path) -> None:
    stopped = fail(Rest().make())
    store = RunStore.open()
    facts = replace(store.find_run(stopped.run_id).facts, run_id="gone", resumed_from=stopped.run_id)
    store.begin(facts).close().result(60)
    with closing(sqlite3.connect(store_path)) as connection, connection:
        owner = json.dumps(json.loads(describe_owner()) | {"start": 0})  # a number is used again by another process
        connection.execute("UPDATE runs SET status = 'running', owner = ? WHERE run_id = 'gone'", (owner,))
    store.check_unclaimed(stopped.run_id)
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("UPDATE runs SET owner = ? WHERE run_id = 'gone'", (describe_owner(),))
    with pytest.raises(ValidationError, match="run gone"):
        store.check_unclaimed(stopped.run_id)


def test_c33_map_with_which_another_one_goes_on_is_refused_unless_anyway() -> None:
    rest = Rest()
    ensemble = rest.make()
    first = ensemble.map([{"n": 1}])
    assert first._last_output is not None
    rest.is_broken = False
    handles: list[Any] = []
    thread = threading.Thread(target=lambda: handles.append(ensemble.map([{"n": 1}], resume=first._last_output.run_id)))
    thread.start()
    assert rest.begun.wait(60)
    with pytest.raises(ValidationError, match="anyway=True"):
        ensemble.map([{"n": 1}], resume=first._last_output.run_id)
    rest.go.set()
    assert ensemble.map([{"n": 1}], resume=first._last_output.run_id, anyway=True)[0].output is not None
    thread.join(60)
    assert handles[0][0].output is not None
