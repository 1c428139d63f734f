"""One reviewed tool among others: its calls alone ask, wait where nobody answers, and are made once (E122 to E127)."""

from __future__ import annotations

import asyncio
import json
import pickle
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool as langchain_tool

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    ExitReason,
    Fail,
    PendingCall,
    Reply,
    Review,
    ReviewAnswered,
    ReviewDecision,
    ReviewedCall,
    ReviewRequest,
    ReviewRequested,
    RunInterrupted,
    RunStatus,
    ScriptedChatModel,
    StoreError,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskNotReused,
    Tool,
    ToolCallCompleted,
    ToolOutcome,
    ToolUse,
    ValidationError,
    Warned,
    auto_review,
    leave_pending,
)
from ensemble_notebook.ensemble.review_handlers import ask_in_text
from ensemble_notebook.trace.store.run_store import RunStore
from tests.conformance.scene import of
from tests.support.store import wait_for_store

pytestmark = pytest.mark.usefixtures("store_path")


@pytest.fixture(params=["stored", "store off"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether runs are remembered, or only their outputs in this process are there."""
    if request.param == "store off":
        monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")


class Till:
    """A tool that gives money back, and counts how often."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, float]] = []
        self.looked = 0

    def refund(self, order: str, amount: float) -> str:
        """Give the money of an order back."""
        self.paid.append((order, amount))
        return f"paid {amount:g}"

    def order_status(self, order: str) -> str:
        """Look an order up."""
        self.looked += 1
        return "late"


def pay(order: str, amount: float = 5) -> ToolUse:
    return ToolUse("refund", {"order": order, "amount": amount})


LOOK = ToolUse("order_status", {"order": "A"})


def asking(*calls: ToolUse) -> ScriptedChatModel:
    """A model that asks for these calls in each conversation, and is done with what they told."""
    return ScriptedChatModel(
        default=lambda messages: "done" if messages[-1].type == "tool" else Reply(calls=list(calls))
    )


def clerk(till: Till, *calls: ToolUse, review: Any = "before", **fields: Any) -> Agent:
    tools = [till.order_status, Tool(till.refund, review=review)]
    return Agent(role="Clerk", goal="Settle claims", llm=asking(*calls), **{"tools": tools, **fields})


def team(
    till: Till, *calls: ToolUse, review: Any = "before", task: dict[str, Any] | None = None, **fields: Any
) -> Ensemble:
    asked = Task.of("Settle it", name="settle", agent=clerk(till, *calls, review=review), **(task or {}))
    return Ensemble(tasks=[asked], name="claims", **fields)


def answering(*decisions: ReviewDecision) -> tuple[list[ReviewRequest], Callable[[ReviewRequest], ReviewDecision]]:
    """A handler that gives these decisions in turn, and what it was asked."""
    asked: list[ReviewRequest] = []

    def answer(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        return decisions[min(len(asked), len(decisions)) - 1]

    return asked, answer


def outcomes(output: EnsembleOutput) -> list[tuple[str, str | None]]:
    return [(each.tool, each.outcome and each.outcome.value) for each in of(output, ToolCallCompleted)]


# --- E122: what is asked, and what an answer means --------------------------------------------------------------------


def test_e122_only_its_own_calls_are_asked_about_with_tool_arguments_and_who_asks() -> None:
    till = Till()
    asked, answer = answering(ReviewDecision.approve())
    output = team(till, LOOK, pay("A")).run(review_handler=answer)
    (request,) = asked
    assert (request.subject, request.tool, request.agent, request.task) == ("tool", "refund", "Clerk", "settle")
    assert request.arguments == {"order": "A", "amount": 5}
    assert request.parameters is not None
    assert set(request.parameters["properties"]) == {"order", "amount"}
    assert till.paid == [("A", 5)]
    assert till.looked == 1
    assert output.raw == "done"


@pytest.mark.parametrize(
    "decision, paid, told",
    [
        (ReviewDecision.approve(), [("A", 5)], "paid 5"),
        (ReviewDecision.edit({"order": "A", "amount": 2}), [("A", 2)], "paid 2"),
        (ReviewDecision.edit('{"order": "B", "amount": 1}'), [("B", 1)], "paid 1"),
        (ReviewDecision.reject("too much"), [], "Error: a person did not allow this call: too much"),
    ],
)
def test_e122_approve_edit_and_reject(decision: ReviewDecision, paid: list[Any], told: str) -> None:
    till = Till()
    output = team(till, pay("A")).run(review_handler=answering(decision)[1])
    assert till.paid == paid
    assert [each.result for each in of(output, ToolCallCompleted)] == [told]
    assert output.total_tool_calls == len(paid)


def test_e122_exit_early_ends_the_run_without_the_call() -> None:
    till = Till()
    output = team(till, pay("A")).run(review_handler=answering(ReviewDecision.exit_early())[1])
    assert (output.exit_reason, till.paid, output.pending) == (ExitReason.USER_EXIT_EARLY, [], ())


@langchain_tool
def shred(paper: str) -> str:
    """Shred a paper."""
    return f"shredded {paper}"


class Erase:
    """The smallest tool."""

    name = "erase"
    description = "Erase something."

    def execute(self, text: str) -> str:
        return f"erased {text}"


@pytest.mark.parametrize(
    "tool, use, told",
    [(shred, ToolUse("shred", {"paper": "A"}), "shredded A"), (Erase(), ToolUse("erase", {"input": "B"}), "erased B")],
)
def test_e122_tools_of_langchain_and_agent_tools_are_wrapped_alike(tool: Any, use: ToolUse, told: str) -> None:
    agent = Agent(role="Clerk", goal="Tidy", llm=asking(use), tools=[Tool(tool, review="before")])
    ensemble = Ensemble(tasks=[Task.of("Tidy", agent=agent)])
    assert [each.tool for each in ensemble.run().pending] == [use.name]
    output = ensemble.run(review_handler=auto_review(tools=True))
    assert [each.result for each in of(output, ToolCallCompleted)] == [told]


def test_e122_a_rule_sees_the_call_and_says_who_is_asked() -> None:
    till, seen = Till(), []

    def is_much(call: ReviewedCall) -> bool:
        seen.append(call)
        call.arguments["amount"] += 1  # a copy
        return call.arguments["amount"] > 100

    asked, answer = answering(ReviewDecision.approve())
    ensemble = team(till, pay("A", 5), pay("B", 500), review=is_much, inputs={"region": "north"})
    ensemble.run(review_handler=answer, deps="shop")
    assert [each.arguments for each in asked] == [{"order": "B", "amount": 500}]
    assert sorted(till.paid) == [("A", 5), ("B", 500)]
    assert (seen[0].tool, seen[0].agent, seen[0].task, seen[0].deps) == ("refund", "Clerk", "settle", "shop")
    assert seen[0].inputs["region"] == "north"


async def is_much_later(call: ReviewedCall) -> bool:
    await asyncio.sleep(0)
    return bool(call.arguments["amount"] > 100)


def test_e122_a_rule_may_be_async() -> None:
    till = Till()
    output = team(till, pay("A", 5), pay("B", 500), review=is_much_later).run()
    assert (till.paid, [each.arguments["order"] for each in output.pending]) == ([("A", 5)], ["B"])


@pytest.mark.parametrize("rule, fault", [(lambda call: 1 / 0, "division by zero"), (lambda call: None, "NoneType")])
def test_e122_a_rule_that_raises_or_says_nothing_has_somebody_asked(rule: Any, fault: str) -> None:
    till = Till()
    output = team(till, pay("A"), pay("B"), review=rule).run()
    assert till.paid == []
    assert len(output.pending) == 2
    said = [each.message for each in of(output, Warned) if "review rule" in each.message]
    assert len(said) == 1
    assert fault in said[0]


def test_e122_arguments_that_do_not_fit_are_told_to_the_model_and_nobody_is_asked() -> None:
    till = Till()
    asked, answer = answering(ReviewDecision.approve())
    output = team(till, ToolUse("refund", {"ordr": "A"})).run(review_handler=answer)
    assert (asked, till.paid) == ([], [])
    assert "don't fit" in of(output, ToolCallCompleted)[0].result


def test_e122_edited_arguments_that_the_schema_refuses_are_an_error_and_nothing_is_called() -> None:
    till = Till()
    wrong = ReviewDecision.edit({"order": "A", "amount": "five"})
    with pytest.raises(TaskExecutionError, match=r"amount: .five. is not of type .number."):
        team(till, pay("A")).run(review_handler=answering(wrong)[1])
    assert till.paid == []


def test_e122_beside_a_review_during_the_task_one_question_is_asked() -> None:
    till = Till()
    asked, answer = answering(ReviewDecision.approve())
    ensemble = team(
        till,
        LOOK,
        pay("A", 5),
        pay("B", 500),
        review=lambda call: call.arguments["amount"] > 100,
        task={"review": "during"},
    )
    ensemble.run(review_handler=answer)
    assert sorted((each.tool, each.call_id is not None) for each in asked) == [
        ("order_status", False),
        ("refund", False),
        ("refund", True),
    ]


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Tool(shred, review="after"), "must be 'before'"),
        (lambda: Tool(shred, review=True), "got True"),
        (lambda: Tool(3, review="before"), "takes a function, a LangChain tool"),
        (lambda: Tool(Tool(shred, review="before"), review="before"), "reviewed already"),
        (lambda: Task(description="x", handler=Tool(shred, review="before")), "handler=shred"),
        (lambda: ReviewDecision.edit({"order": object()}), "JSON can hold"),
        (lambda: ReviewDecision(verdict=ReviewDecision.edit("x").verdict, always=True), "approve and reject"),
    ],
)
def test_e122_what_is_no_reviewed_tool_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        make()


# --- E123: calls that wait --------------------------------------------------------------------------------------------


HANDLERS = {"nobody": None, "auto_review": auto_review(), "leave_pending": leave_pending()}


@pytest.mark.parametrize("handler", HANDLERS)
def test_e123_where_nobody_answers_it_waits_and_calls_beside_it_come_to_their_end(handler: str) -> None:
    till = Till()
    ensemble = team(till, LOOK, pay("A"), LOOK, pay("B", 7))
    output = ensemble.run(review_handler=HANDLERS[handler])
    assert (output.status, output.exit_reason) == (RunStatus.EXITED_EARLY, ExitReason.NOBODY_TO_ASK)
    assert (till.paid, till.looked) == ([], 2)
    first, second = output.pending
    assert isinstance(first, PendingCall)
    assert (first.tool, first.task, first.agent, first.arguments) == (
        "refund",
        "settle",
        "Clerk",
        {"order": "A", "amount": 5},
    )
    assert first.since.tzinfo is not None
    assert second.arguments["amount"] == 7
    assert outcomes(output).count(("refund", "pending")) == 2
    assert sum(each.is_executed for each in of(output, ToolCallCompleted)) == 2
    assert sum("see output.pending" in each for each in output.warnings) == 1


def test_e123_on_timeout_has_no_say_and_once_nobody_answered_in_time_nobody_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ensemble_notebook.engine import call_gates

    monkeypatch.setattr(call_gates, "TIMEOUT_S", 0.01)
    till, asked = Till(), []

    async def never(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        await asyncio.Event().wait()
        raise AssertionError

    review = Review("during", on_timeout="continue")
    output = team(till, pay("A"), pay("B"), task={"review": review}).run(review_handler=never)
    assert (till.paid, len(asked), len(output.pending)) == ([], 1, 2)
    assert set(output.frames.reviews["by"]) == {"on_timeout", "nobody_to_ask"}


def test_e123_three_hundred_calls_wait() -> None:
    till = Till()
    agent = clerk(till, *(pay(str(number)) for number in range(300)), max_iterations=400)
    ensemble = Ensemble(tasks=[Task.of("Settle", agent=agent)])
    output = ensemble.run()
    assert len(output.pending) == len({each.id for each in output.pending}) == 300
    again = ensemble.run(resume=output, answers={each.id: "approve" for each in output.pending})
    assert (len(till.paid), again.raw, again.pending) == (300, "done", ())


def test_e123_in_a_map_a_row_waits_for_itself() -> None:
    till = Till()
    llm = ScriptedChatModel.match({"big": [Reply(calls=[pay("A")]), "done"]}, "done")
    agent = Agent(role="Clerk", goal="Settle", llm=llm, tools=[Tool(till.refund, review="before")])
    ensemble = Ensemble(tasks=[Task.of("Settle {claim}", agent=agent)])
    result = ensemble.map([{"claim": "small"}, {"claim": "big"}, {"claim": "tiny"}])
    assert [each.is_done for each in result] == [True, False, True]
    (call,) = result.pending
    assert call.row == result[1].name
    again = ensemble.map(
        [{"claim": "small"}, {"claim": "big"}, {"claim": "tiny"}], resume=result, answers={call.id: "approve"}
    )
    assert ([each.is_done for each in again], till.paid, again.pending) == ([True, True, True], [("A", 5)], ())


def test_e123_a_call_of_a_row_elsewhere_names_its_row() -> None:
    till = Till()
    with ThreadPoolExecutor(1) as executor:
        result = team(till, pay("A")).map([{"claim": "big"}, {"claim": "bigger"}], executor=executor)
    assert [call.row for call in result.pending] == [row.name for row in result]


def test_e124_answers_to_calls_of_rows_elsewhere_are_refused_before_anything_runs() -> None:
    till = Till()
    with ThreadPoolExecutor(1) as executor:
        ensemble = team(till, pay("A"))
        result = ensemble.map([{"claim": "big"}], executor=executor)
        (call,) = result.pending
        with pytest.raises(ValidationError, match="in rows on an executor"):
            ensemble.map([{"claim": "big"}], executor=executor, resume=result, answers={call.id: "approve"})
    assert till.paid == []


# --- E124: answers in a later run -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kept")
def test_e124_an_answer_goes_on_without_asking_a_model_again_and_the_others_wait_under_their_ids() -> None:
    till = Till()
    ensemble = team(till, LOOK, pay("A"), pay("B", 7))
    first = ensemble.run()
    a, b = first.pending
    second = ensemble.run(resume=first, answers={a.id: "approve"})
    assert (till.paid, till.looked, second.metrics.llm_call_count) == ([("A", 5)], 1, 0)
    assert second.pending == (b,)
    third = ensemble.run(resume=second, answers={b.id: {"decision": "reject", "reason": "no", "by": "Ann"}})
    assert (third.raw, till.paid, third.pending) == ("done", [("A", 5)], ())
    assert ("reject", "Ann") in list(third.frames.reviews[["review_decision", "by"]].itertuples(index=False, name=None))


@pytest.mark.usefixtures("kept")
def test_e124_a_resumed_run_asks_about_those_that_wait() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run()
    asked, answer = answering(ReviewDecision.approve())
    ensemble.run(resume=first, review_handler=answer)
    assert ([each.call_id for each in asked], till.paid) == ([first.pending[0].id], [("A", 5)])
    with pytest.raises(ValidationError, match="answered already: 'approve' by answer"):
        ensemble.run(resume=first, answers={first.pending[0].id: "approve"})


@pytest.mark.usefixtures("kept")
def test_e124_an_answer_counts_once_and_a_second_one_is_told_who_was_first() -> None:
    till = Till()
    ensemble = team(till, pay("A"), pay("B"))
    first = ensemble.run()
    a, b = first.pending
    second = ensemble.run(resume=first, answers={a.id: {"decision": "approve", "by": "Ann"}})
    for resumed, answers in (
        (first, {a.id: "approve"}),
        (second, {a.id: "approve"}),
        (first, {b.id: "approve"}),
        (first, None),
    ):
        with pytest.raises(
            ValidationError, match=rf"answered already: 'approve' by Ann at .* UTC, in run {second.run_id}"
        ):
            ensemble.run(resume=resumed, answers=answers)
    assert till.paid == [("A", 5)]


@pytest.mark.usefixtures("kept")
def test_e124_two_that_answer_at_once_have_the_call_made_once() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run()
    start, errors = threading.Barrier(4), []

    def answer(name: str) -> None:
        start.wait()
        try:
            ensemble.run(resume=first, answers={first.pending[0].id: {"decision": "approve", "by": name}}, anyway=True)
        except (TaskExecutionError, ValidationError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=answer, args=(f"p{number}",)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert till.paid == [("A", 5)]
    assert len(errors) == 3
    assert all("answered already: 'approve' by p" in each for each in errors)


@pytest.mark.usefixtures("kept")
def test_e124_two_that_go_on_at_once_without_answers_have_the_call_made_once() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    ensemble.tasks[0].agent.llm.replies = [Fail(401)]
    with pytest.raises(TaskExecutionError) as failed:
        ensemble.run()
    asked, errors, start = threading.Event(), list[str](), threading.Barrier(4)

    def answer(_: ReviewRequest) -> ReviewDecision:  # not before the others have been refused
        assert asked.wait(60)
        return ReviewDecision.approve()

    def go_on() -> None:
        start.wait()
        try:
            ensemble.run(resume=failed.value.output, review_handler=answer)
        except ValidationError as error:
            errors.append(str(error))
            if len(errors) == 3:
                asked.set()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(go_on)
    assert till.paid == [("A", 5)]
    assert all("is resumed already" in each for each in errors)


SHOP = """
import json, sys
from pathlib import Path
from ensemble_notebook import *

def refund(order: str, amount: float) -> str:
    "Give money back."
    with Path(sys.argv[1]).open("a") as file:
        file.write(order)
    if order == "die":
        import os
        os._exit(9)
    return "paid"

ask = ToolUse("refund", {"order": sys.argv[2], "amount": 5})
llm = ScriptedChatModel(default=lambda messages: "done" if messages[-1].type == "tool" else ask)
agent = Agent(role="Clerk", goal="Settle", llm=llm, tools=[Tool(refund, review="before")])
given = json.loads(sys.argv[3])
output = Ensemble(tasks=[Task.of("Settle", name="settle", agent=agent)], name="shop").run(**given)
wait = [[each.id, each.is_unknown] for each in output.pending]
print(json.dumps([output.run_id, output.status.value, wait, output.metrics.llm_call_count]))
"""


def shop(book: Path, order: str, **given: Any) -> list[Any] | str:
    """A run in a process of its own; what it says, or the error that ended it."""
    done = subprocess.run(
        [sys.executable, "-c", SHOP, book, order, json.dumps(given)], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr


def test_e124_another_process_answers_by_the_id_of_the_run(tmp_path: Path) -> None:
    book = tmp_path / "book"
    run_id, _, wait, _ = shop(book, "A")
    assert not book.exists()
    again = shop(book, "A", resume=run_id, answers={wait[0][0]: "approve"})
    assert again[1:] == ["completed", [], 1]
    assert book.read_text() == "A"
    assert "answered already: 'approve'" in shop(book, "A", resume=run_id, answers={wait[0][0]: "approve"})


@pytest.mark.parametrize(
    "given, said",
    [
        ("exit_early", "must be 'approve'.*got the decision 'exit_early'"),
        ("decline", "Write 'reject'"),
        ("aprove", "Did you mean 'approve'"),
        (ReviewDecision.retry("again"), "can't be 'retry'"),
        ({"decision": "edit"}, "arguments=NoneType"),
        ({"decision": "approve", "arguments": {}}, "arguments=dict"),
        ({"decision": "approve", "reason": "x"}, "reason='x'"),
        ({"decision": "approve", "always": 1}, "always=1"),
        ({"decision": "approve", "bye": "Ann"}, "Did you mean 'by'"),
        ({"decision": "edit", "arguments": {}, "always": True}, "approve and reject"),
        (7, "must be a ReviewDecision"),
    ],
)
def test_e124_what_is_no_answer_is_refused_and_the_call_waits(given: Any, said: str) -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run()
    call_id = first.pending[0].id
    with pytest.raises(ValidationError, match=said):
        ensemble.run(resume=first, answers={call_id: given})
    assert ensemble.run(resume=first, answers={call_id: "approve"}).raw == "done"
    assert till.paid == [("A", 5)]


@pytest.mark.usefixtures("kept")
def test_e124_an_answer_to_a_call_of_another_run_is_refused_with_those_that_wait() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first, other = ensemble.run(), ensemble.run()
    with pytest.raises(
        ValidationError, match=rf"No call '{other.pending[0].id}' waits in run {first.run_id}.*\(refund\)"
    ):
        ensemble.run(resume=first, answers={other.pending[0].id: "approve"})
    with pytest.raises(ValidationError, match="resume=ID"):
        ensemble.run(answers={first.pending[0].id: "approve"})
    assert till.paid == []


@pytest.mark.parametrize("others", [(), (pay("B"), pay("C"))])
def test_e124_an_answer_that_edits_to_what_the_tool_refuses_leaves_the_call_waiting(
    others: tuple[ToolUse, ...],
) -> None:
    till = Till()
    ensemble = team(till, pay("A"), *others)
    first = ensemble.run()
    call_id = first.pending[0].id
    output = ensemble.run(resume=first, answers={call_id: {"decision": "edit", "arguments": {"order": "A"}}})
    assert [each.id for each in output.pending] == [each.id for each in first.pending]
    assert "missing 'amount'" in "".join(output.warnings)
    assert "No use was made" not in "".join(output.warnings)
    again = {"decision": "edit", "arguments": {"order": "A", "amount": 1}}
    ensemble.run(resume=output, answers={call_id: again})
    assert till.paid == [("A", 1)]


def test_e122_an_answer_for_all_rows_is_for_the_call_of_its_own_row_alone() -> None:
    till = Till()
    asked, answer = answering(ReviewDecision(verdict=ReviewDecision.approve().verdict, for_all=True))
    team(till, pay("A")).map([{"n": n} for n in range(3)], concurrency=1, review_handler=answer)
    assert [each.row for each in asked] == ["row 0", "row 1", "row 2"]
    assert not any(each.may_be_for_all for each in asked)
    assert len(till.paid) == 3


def test_e124_a_tool_that_is_gone_by_the_answer_is_told_to_the_model() -> None:
    till = Till()
    first = team(till, pay("A")).run()
    agent = clerk(till, pay("A"), tools=[till.order_status])
    gone = Ensemble(tasks=[Task.of("Settle it", name="settle", agent=agent)], name="claims")
    output = gone.run(resume=first, answers={first.pending[0].id: "approve"})
    assert till.paid == []
    assert output.raw == "done"


def test_e124_where_no_text_is_kept_the_warning_says_that_no_later_run_can_answer() -> None:
    till = Till()
    output = team(till, pay("A"), capture_mode="metadata").run()
    assert len(output.pending) == 1
    assert "No later run can answer it" in output.warnings[-1]
    assert till.paid == []


def test_e124_with_the_store_off_the_warning_says_that_only_this_process_can_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    till = Till()
    ensemble = team(till, pay("A"))
    output = ensemble.run()
    answers = {output.pending[0].id: "approve"}
    assert "only this process can answer it, while it has its output" in output.warnings[-1]
    for elsewhere in (output.run_id, pickle.loads(pickle.dumps(output))):
        with pytest.raises(StoreError, match="the store is 'off'"):
            ensemble.run(resume=elsewhere, answers=answers)
    silent = team(till, pay("A"), capture_mode="metadata").run()
    with pytest.raises(ValidationError, match="capture_mode metadata keeps nothing"):
        ensemble.run(resume=silent)
    rows = ensemble.map([{"claim": "big"}])
    (call,) = rows.pending
    with pytest.raises(ValidationError, match="A row of this process is answered by itself"):
        ensemble.map([{"claim": "big"}], resume=rows, answers={call.id: "approve"})
    assert till.paid == []
    assert rows[0].output is not None
    assert ensemble.run(resume=rows[0].output, answers={call.id: "approve"}).raw == "done"
    assert till.paid == [("A", 5)]


def test_e124_an_answer_that_was_used_with_the_store_off_counts_where_it_is_on(
    monkeypatch: pytest.MonkeyPatch, store_path: Path
) -> None:
    till = Till()
    ensemble = team(till, pay("A"), pay("B"))
    stored = ensemble.run()
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    unstored = ensemble.run()
    ensemble.run(resume=stored, answers={stored.pending[0].id: "approve"})
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(store_path))
    with pytest.raises(ValidationError, match="answered already: 'approve' by somebody"):
        ensemble.run(resume=stored.run_id, answers={stored.pending[0].id: "approve"})
    a, b = unstored.pending
    second = ensemble.run(resume=unstored, answers={a.id: "approve"})
    third = ensemble.run(resume=second.run_id, answers={b.id: "approve"})  # which the store has
    assert (third.raw, third.metrics.llm_call_count, len(till.paid)) == ("done", 1, 3)


@pytest.mark.parametrize("change", ["nothing", "task", "input"])
def test_e124_with_the_store_off_what_was_done_is_done_again_only_where_something_has_changed(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    till, read = Till(), []

    def look(given: TaskInput) -> str:
        read.append(given.inputs["claim"])
        return "late"

    inner = team(till, LOOK, pay("A"))
    claims = Task.of("Look up {claim}", name="look", handler=look)
    ensemble = Ensemble(tasks=[claims, Task.of("Settle", name="whole", ensemble=inner, context=["look"])])
    first = ensemble.run(claim="A")
    if change == "task":
        ensemble = Ensemble(tasks=[claims.replace(description="Look {claim} up"), *ensemble.tasks[1:]])
    more = {"claim": "B"} if change == "input" else {}
    second = ensemble.run(more, resume=first, answers={first.pending[0].id: "approve"})
    assert read == {"nothing": ["A"], "task": ["A", "A"], "input": ["A", "B"]}[change]
    assert (second.raw, till.looked, till.paid) == ("done", 1, [("A", 5)])


def test_e122_a_tool_may_be_a_mapping_of_its_fields() -> None:
    (tool,) = Agent(role="Clerk", goal="Tidy", tools={"tool": shred, "review": "before"}).tools
    assert isinstance(tool, Tool)
    with pytest.raises(ValidationError, match="Did you mean 'review'"):
        Agent(role="Clerk", goal="Tidy", tools=[shred, {"tool": shred, "reviw": "before"}])


def test_e127_what_waits_survives_a_pickle_and_metadata_keeps_no_arguments() -> None:
    till = Till()
    output = team(till, pay("A")).run()
    assert pickle.loads(pickle.dumps(output)).pending == output.pending
    silent = team(till, pay("A"), capture_mode="metadata").run()
    assert [dict(each.arguments) for each in silent.pending] == [{}]
    assert till.paid == []


@pytest.mark.usefixtures("kept")
def test_e124_an_answer_to_a_call_that_the_run_does_not_come_to_has_not_counted() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run()
    changed = Ensemble(tasks=[ensemble.tasks[0].replace(description="Settle it otherwise")], name="claims")
    call_id = first.pending[0].id
    second = changed.run(resume=first, answers={call_id: "approve"})
    assert till.paid == []
    assert f"No use was made of the answer to {call_id}" in second.warnings[-1]
    assert ensemble.run(resume=first, answers={call_id: "approve"}).pending == ()
    assert till.paid == [("A", 5)]


# --- E125: calls of which the end is not known ------------------------------------------------------------------------


def test_e125_a_process_that_dies_in_the_tool_leaves_a_call_that_waits_for_a_new_answer(tmp_path: Path) -> None:
    book = tmp_path / "book"
    run_id, _, wait, _ = shop(book, "die")
    died = shop(book, "die", resume=run_id, answers={wait[0][0]: "approve"})
    assert died == ""
    assert book.read_text() == "die"
    second = newest_run()
    refused = shop(book, "die", resume=run_id, answers={wait[0][0]: "approve"})
    assert f"in run {second}" in refused
    _, status, again, _ = shop(book, "die", resume=second, redo=["refund"])
    assert (status, again[0][1], again[0][0] != wait[0][0]) == ("exited_early", True, True)
    assert book.read_text() == "die"
    third = newest_run()
    declined = shop(book, "die", resume=third, answers={again[0][0]: {"decision": "reject", "reason": "it was done"}})
    assert declined[1:3] == ["completed", []]
    assert book.read_text() == "die"


def newest_run() -> str:
    return RunStore.open().list_runs(1)[0].run_id


@pytest.mark.usefixtures("kept")
def test_e125_one_that_was_stopped_at_work_is_asked_about_whatever_its_rule_says() -> None:
    begun, paid = threading.Event(), []

    def refund(order: str, amount: float) -> str:
        """Give money back."""
        paid.append(order)
        begun.set()
        if len(paid) == 1:
            threading.Event().wait(5)
        return "paid"

    agent = Agent(role="Clerk", goal="Settle", llm=asking(pay("A")), tools=[Tool(refund, review=lambda call: False)])
    ensemble = Ensemble(tasks=[Task.of("Settle", agent=agent)])
    handle = ensemble.start()
    assert begun.wait(10)
    handle.cancel()
    with pytest.raises(RunInterrupted):
        handle.result()
    assert handle.output is not None
    asked, answer = answering(ReviewDecision.approve())
    ensemble.run(resume=handle.output, review_handler=answer)
    assert ([each.is_unknown for each in asked], paid) == ([True], ["A", "A"])
    assert "not known whether it was done" in asked[0].text


# --- E126: always -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_allowed", [True, False])
def test_e126_always_holds_for_later_calls_of_the_tool_in_that_run(is_allowed: bool) -> None:
    till = Till()
    decision = ReviewDecision.approve(always=True) if is_allowed else ReviewDecision.reject("no", always=True)
    asked, answer = answering(decision)
    ensemble = team(till, pay("A"), pay("B"), pay("C"))
    output = ensemble.run(review_handler=answer)
    assert (len(asked), len(till.paid)) == (1, 3 if is_allowed else 0)
    assert len(output.frames.reviews) == 3
    assert len(ensemble.run().pending) == 3


def test_e126_always_in_answers_is_for_the_run_that_goes_on() -> None:
    till = Till()
    ensemble = team(till, pay("A"), pay("B"))
    first = ensemble.run()
    output = ensemble.run(resume=first, answers={first.pending[0].id: {"decision": "approve", "always": True}})
    assert (sorted(till.paid), output.pending) == ([("A", 5), ("B", 5)], ())


def test_e126_a_person_at_a_prompt_is_offered_always() -> None:
    shown: list[str] = []
    request = ReviewRequest(subject="tool", text="{}", tool="refund", call_id="r.1", timeout=300)

    def read(prompt: str) -> str:
        shown.append(prompt)
        return "a always"

    assert ask_in_text(request, read, lambda text: None) == ReviewDecision.approve(always=True)
    assert "of all calls of refund in this run: [a always]" in shown[0]
    assert "it is not made, and waits for an answer" in shown[0]


# --- E127: every way in -----------------------------------------------------------------------------------------------


def as_task(inner: Ensemble) -> Ensemble:
    return Ensemble(tasks=[Task(name="whole", ensemble=inner)])


def as_tool(inner: Ensemble) -> Ensemble:
    tools = [inner.as_tool("claims", "Settles claims.")]
    agent = Agent(role="Head", goal="See to it", llm=asking(ToolUse("claims", {})), tools=tools)
    return Ensemble(tasks=[Task.of("See to it", agent=agent)])


def as_item(inner: Ensemble) -> Ensemble:
    return Ensemble(tasks=[inner.tasks[0].replace(for_each=["one"], description="Settle {item}")])


def as_fallback(inner: Ensemble) -> Ensemble:
    broken = Agent(role="Absent", goal="Fail", llm=ScriptedChatModel(default=Fail(401)))
    return Ensemble(tasks=[inner.tasks[0].replace(agent=broken, fallback=inner.tasks[0].agent, max_retries=0)])


def as_delegated(inner: Ensemble) -> Ensemble:
    handed = ToolUse("delegate", {"agent_role": "Clerk", "task_description": "Settle it."})
    head = Agent(role="Head", goal="Hand on", llm=asking(handed), allow_delegation=True)
    return Ensemble(
        agents=[head, *(each.agent for each in inner.tasks if each.agent)], tasks=[Task.of("Go", agent=head)]
    )


def as_managed(inner: Ensemble) -> Ensemble:
    handed = ToolUse("delegate_task", {"agent_role": "Clerk", "task_description": "Settle it."})
    workers = [each.agent for each in inner.tasks if each.agent]
    return Ensemble(agents=workers, tasks=[Task.of("Go")], workflow="hierarchical", manager_llm=asking(handed))


def as_cell(inner: Ensemble) -> Ensemble:
    agent = inner.tasks[0].agent
    assert agent is not None
    till_tool = next(each for each in agent.tools if isinstance(each, Tool))
    text = "agents:\n  Clerk: {goal: g, llm: model, tools: [{tool: refund, review: before}]}\n"
    text += "tasks:\n  settle: {description: Settle, agent: Clerk}\n"
    return Ensemble.from_yaml(text, {"refund": till_tool.tool, "model": agent.llm})


WAYS: dict[str, Callable[[Ensemble], Ensemble]] = {
    "python": lambda inner: inner,
    "cell": as_cell,
    "task": as_task,
    "tool": as_tool,
    "item": as_item,
    "fallback": as_fallback,
    "delegated": as_delegated,
    "managed": as_managed,
}


@pytest.mark.parametrize("way", WAYS)
def test_e127_no_way_calls_it_without_an_answer_and_each_goes_on_with_one(way: str) -> None:
    till = Till()
    ensemble = WAYS[way](team(till, pay("A")))
    first = ensemble.run()
    assert till.paid == []
    (call,) = first.pending
    assert (call.tool, call.arguments) == ("refund", {"order": "A", "amount": 5})
    second = ensemble.run(resume=first, answers={call.id: "approve"})
    assert (till.paid, second.pending, second.status) == ([("A", 5)], (), second.status)
    assert ensemble.run(review_handler=auto_review()).pending
    assert till.paid == [("A", 5)]


def test_e127_a_conversation_that_goes_on_asks_anew() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run(review_handler=auto_review(tools=True))
    second = ensemble.run(continue_from=first)
    assert (till.paid, len(second.pending)) == ([("A", 5)], 1)


def test_e127_a_replay_calls_nothing_and_a_live_one_asks(tmp_path: Path) -> None:
    till, file = Till(), tmp_path / "claims.yaml"
    ensemble = team(till, pay("A"))
    ensemble.run(record=file, review_handler=auto_review(tools=True))
    assert ensemble.run(replay=file).raw == "done"
    assert till.paid == [("A", 5)]
    live = ensemble.run(replay=file, replay_tools="live")
    assert (till.paid, len(live.pending)) == ([("A", 5)], 1)


def test_e127_a_fork_asks_anew_and_its_plan_says_so() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run(review_handler=auto_review(tools=True))
    span = next(each for each in first.trace.spans if each.kind.value == "llm")
    plan = first.fork(span, plan=True)
    assert [each.is_asked for each in plan.effects if each.name == "refund"] == [True]
    forked = first.fork(span)
    assert (till.paid, len(forked.pending)) == ([("A", 5)], 1)


def test_e127_a_waiting_call_of_a_run_does_not_lose_its_answer_to_a_fork() -> None:
    till = Till()
    ensemble = team(till, pay("A"))
    first = ensemble.run()
    tool = next(each for each in first.trace.spans if each.tool == "refund")
    asked, answer = answering(ReviewDecision.approve())
    first.fork(tool, review_handler=answer)
    assert asked[0].call_id != first.pending[0].id
    ensemble.run(resume=first, answers={first.pending[0].id: "approve"})
    assert till.paid == [("A", 5), ("A", 5)]


def pay_back(order: str) -> str:
    """Give the money of an order back."""
    return f"paid {order}"


@pytest.mark.parametrize("reuse", [True, False])
def test_e127_a_task_with_such_a_tool_is_reused_only_where_it_says_so(reuse: bool) -> None:
    tool = Tool(pay_back, review="before", reuse=reuse)
    agent = Agent(role="Clerk", goal="Settle", llm="scripted", tools=[tool])
    agent = agent.replace(llm=asking(ToolUse("pay_back", {"order": "A"})))
    ensemble = Ensemble(tasks=[Task.of("Settle", name="settle", agent=agent)], review_handler=auto_review(tools=True))
    ensemble.run(reuse=True)
    again = ensemble.run(reuse=True)
    assert again["settle"].reused is reuse
    why = [each.reason for each in of(again, TaskNotReused)]
    assert reuse or "Tool(..., reuse=True)" in why[0]


def test_e127_random_runs_with_kills_pay_for_answers_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.claims_world", str(tmp_path), "2", "8", "14", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    worlds = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["done"], each["faults"]) for each in worlds] == [(True, [])] * 4


# --- T96 --------------------------------------------------------------------------------------------------------------


def test_t96_the_trace_has_calls_that_wait_and_the_view_what_a_question_needs(store_path: Path, tmp_path: Path) -> None:
    till = Till()
    output = team(till, pay("A")).run()
    wait_for_store()
    assert ExecutionTrace.load(output.export(tmp_path / "claims.trace.json")).pending == output.pending
    assert RunStore.open().load_trace(RunStore.open().find_run(output.run_id)).pending == output.pending
    frame = output.frames.tool_calls
    assert list(frame["outcome"]) == [ToolOutcome.PENDING.value]
    (asked,) = of(output, ReviewRequested)
    (answered,) = of(output, ReviewAnswered)
    assert (answered.decision, answered.by) == (None, "nobody_to_ask")
    span = next(each for each in output.trace.spans if each.span_id == asked.span_id)
    facts = span.attributes or {}
    assert facts["call_id"] == output.pending[0].id
    assert not {"arguments", "parameters"} & facts.keys()  # a view asks for them while the question is open
    assert facts["otherwise"] == "the call is not made, and waits for an answer"
    with closing(sqlite3.connect(store_path)) as connection:
        assert connection.execute("SELECT count(*) FROM answers").fetchone() == (0,)
