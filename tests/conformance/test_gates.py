"""A gate never vanishes: wherever a run is begun, somebody is asked, or it is said that nobody was (E45, C34, E72)."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    InMemoryStore,
    Phase,
    PhaseReview,
    Reply,
    Review,
    ReviewAnswered,
    ReviewDecision,
    ReviewRequest,
    ReviewRequested,
    ReviewTimeoutError,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskReused,
    ToolUse,
    Warned,
    auto_review,
    console_review,
    human_input,
    load_traces,
)
from tests.conformance.scene import done, lost, of, run

NOBODY = "nobody can be asked here: give review_handler=..., or resume where somebody can"
EARLY = (RunStatus.EXITED_EARLY, ExitReason.NOBODY_TO_ASK)


def test_e45_validate_and_the_plan_name_gates_at_which_nobody_can_be_asked() -> None:
    inner = Ensemble(tasks=[done("sign", review=Review("after"))])
    ensemble = Ensemble(tasks=[done("send", review=Review("before")), Task(name="whole", ensemble=inner)])
    said = f"There are reviews of 'send', 'sign', and {NOBODY}."
    assert said in ensemble.validate()
    plan = ensemble.plan()
    assert plan.preview is not None
    assert plan.preview.warnings == (said,)
    shown = plan._repr_mimebundle_()
    assert f"! {said}" in shown["text/plain"]
    assert "nobody can be asked here" in shown["text/html"]
    answered = Ensemble(tasks=[done("send", review=Review("before"))], review_handler=auto_review())
    assert not any(NOBODY in each for each in (*answered.validate(), *answered.plan().preview.warnings))  # type: ignore[union-attr]


class Post:
    """A letter that is sent only where somebody allows it."""

    def __init__(self, **fields: Any) -> None:
        self.sent = 0
        gate = Review("before", **fields)
        self.tasks = [done("draft"), done("send", handler=self.send, context=["draft"], review=gate)]

    def send(self, task: Any) -> str:
        self.sent += 1
        return "sent"

    def make(self, **fields: Any) -> Ensemble:
        return Ensemble(tasks=self.tasks, name="mail", **fields)


def decisions(output: EnsembleOutput) -> list[tuple[str, str]]:
    """What was decided at each gate, and by whom."""
    return list(output.frames.reviews[["review_decision", "by"]].itertuples(index=False, name=None))


def start(ensemble: Ensemble) -> EnsembleOutput:
    return ensemble.start().result(timeout=60)


def nest(ensemble: Ensemble) -> EnsembleOutput:
    return Ensemble(tasks=[Task(name="all", ensemble=ensemble), done("later", context=["all"])]).run()


def use(ensemble: Ensemble) -> EnsembleOutput:
    llm = ScriptedChatModel(replies=[Reply(calls=[ToolUse("mail", {})]), "It is sent."])
    agent = Agent(role="Clerk", goal="Send", llm=llm, tools=[ensemble.as_tool("mail", "Sends the letter.")])
    return run(Task.of("Have it sent", name="all", agent=agent))


WAYS: dict[str, Callable[[Ensemble], EnsembleOutput]] = {
    "run": lambda ensemble: ensemble.run(),
    "arun": lambda ensemble: asyncio.run(ensemble.arun()),
    "start": start,
    "nested": nest,
    "tool": use,
}


@pytest.mark.parametrize("way", WAYS)
def test_e45_where_nobody_can_be_asked_the_run_ends_early_and_says_so(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    post = Post()
    with caplog.at_level(logging.WARNING, "ensemble_notebook.run"):
        output = WAYS[way](post.make())
    assert (output.status, output.exit_reason) == EARLY
    assert post.sent == 0
    assert decisions(output) == [("exit_early", "nobody_to_ask")]
    assert NOBODY in caplog.text
    assert any(NOBODY in each.message for each in of(output, Warned) if each.run_id == output.run_id)
    assert any("nobody could be asked" in each.reason for each in output.skipped)
    assert "somebody chose to leave" not in str(output.skipped)


def test_e45_warnings_say_it_before_the_first_task_and_at_the_gate() -> None:
    output = Post().make().run()
    kinds = [type(each).__name__ for each in output.events]
    first = of(output, Warned)[0]
    assert "'send'" in first.message
    assert NOBODY in first.message
    assert output.events.index(first) < kinds.index("TaskStarted")
    assert [NOBODY in each.message for each in of(output, Warned)] == [True, True]
    nested = nest(Post().make())
    assert NOBODY in of(nested, Warned)[0].message  # of a gate inside, too, before anything began


@pytest.mark.parametrize("way", WAYS)
def test_e45_auto_review_is_no_gate_and_has_its_rows(way: str) -> None:
    post = Post()
    output = WAYS[way](post.make(review_handler=auto_review()))
    assert output.status is RunStatus.COMPLETED
    assert post.sent == 1
    assert decisions(output) == [("approve", "auto_review")]
    assert not of(output, Warned)


def test_e45_on_timeout_decides_at_once_where_nobody_can_be_asked() -> None:
    kept = Post(on_timeout="continue")
    output = kept.make().run()
    assert (output.status, kept.sent, decisions(output)) == (RunStatus.COMPLETED, 1, [("approve", "nobody_to_ask")])
    failing = Post(on_timeout="fail", timeout=3600)
    with pytest.raises(TaskExecutionError, match="nobody can be asked here") as caught:
        failing.make().run()
    assert isinstance(caught.value.__cause__, ReviewTimeoutError)
    (answered,) = of(caught.value.output, ReviewAnswered)
    assert (answered.by, answered.is_timeout) == ("nobody_to_ask", False)


def test_e45_all_kinds_of_gates_say_that_nobody_is_there() -> None:
    def lookup() -> str:
        """Look it up."""
        raise AssertionError("nobody has allowed it")

    llm = ScriptedChatModel(replies=[Reply(calls=[ToolUse("lookup", {})]), "Done."])
    agent = Agent(role="Clerk", goal="Look", llm=llm, tools=[lookup])
    gated = {
        "during": lambda: run(Task.of("Look", agent=agent, review=Review("during"))),
        "after": lambda: run(done("a", review=Review())),
        "policy": lambda: run(done("a"), review_policy="after_every_task"),
        "last": lambda: run(done("a"), review_policy="after_last_task"),
        "items": lambda: run(done("a", for_each=[1, 2], review=Review())),
        "phase": lambda: Ensemble(
            phases=[Phase(name="one", tasks=[done("a")], review=PhaseReview(console_review))]
        ).run(),
    }
    for kind, go in gated.items():
        output = go()
        assert (output.status, output.exit_reason) == EARLY, kind
        assert decisions(output) == [("exit_early", "nobody_to_ask")], kind
        assert any(NOBODY in each.message for each in of(output, Warned)), kind


def test_e45_the_handler_of_start_is_asked_by_the_runs_inside_too() -> None:
    post = Post()
    outer = Ensemble(tasks=[Task(name="all", ensemble=post.make())])
    output = outer.start(review_handler=auto_review()).result(timeout=60)
    assert (post.sent, decisions(output)) == (1, [("approve", "auto_review")])


def test_e45_somebody_who_leaves_a_run_inside_leaves_the_run_around_it() -> None:
    post = Post()
    output = nest(post.make(review_handler=auto_review(ReviewDecision.exit_early())))
    assert (output.status, output.exit_reason) == (RunStatus.EXITED_EARLY, ExitReason.USER_EXIT_EARLY)
    assert {each.name for each in output.skipped} == {"all", "later"}


def test_e45_an_agent_with_a_question_is_told_and_so_is_the_reader() -> None:
    llm = ScriptedChatModel(replies=[Reply(calls=[ToolUse("human_input", {"question": "Where?"})]), "Anywhere."])
    output = run(Task.of("Plan", agent=Agent(role="Planner", goal="Plan", tools=[human_input], llm=llm)))
    assert "nobody here to ask" in output.frames.tool_calls["result"].iloc[0]
    assert any(NOBODY in each.message for each in of(output, Warned))


# --- Rows ---


def test_e72_rows_at_whose_gate_nobody_can_be_asked_are_not_done() -> None:
    post = Post()
    result = post.make().map([{"n": 1}, {"n": 2}])
    assert [(each.status, each.is_done, each.raw) for each in result] == [("exited_early", False, None)] * 2
    assert post.sent == 0
    assert list(result.frames.reviews["by"]) == ["nobody_to_ask"] * 2
    assert any(NOBODY in each for each in result.trace.warnings)
    again = post.make(review_handler=auto_review()).map([{"n": 1}, {"n": 2}], resume=result)
    assert ([each.status for each in again], post.sent) == (["completed"] * 2, 2)


def test_e72_rows_at_whose_gate_nobody_can_be_asked_are_told_once_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("WARNING"):
        result = Post().make().map([{"n": n} for n in range(20)])
    told = [each.getMessage() for each in caplog.records if NOBODY in each.getMessage()]
    counted = f"A review or question was not answered in 20 of 20 rows: {NOBODY}."
    assert told == [*result.trace.warnings, counted]
    assert len(told) == 2  # one before the first row, and one after the last
    assert counted in result.warnings
    for each in result:
        assert each.output is not None
        (own,) = each.output.warnings
        assert own.endswith(f"so the run ends early: {NOBODY}.")


def test_e73_variants_ask_too() -> None:
    post = Post()
    variants = {"a": {"task.draft.description": "A"}, "b": {"task.draft.description": "B"}}
    assert [each.status for each in post.make().variants(variants).run()] == ["exited_early"] * 2
    result = post.make(review_handler=auto_review()).variants(variants).run()
    assert ([each.status for each in result], post.sent) == (["completed"] * 2, 2)


def test_e72_the_clock_of_a_question_runs_only_while_it_is_asked() -> None:
    gate = Review(timeout=0.5)

    async def think(request: ReviewRequest) -> ReviewDecision:
        await asyncio.sleep(0.2)
        return ReviewDecision.approve()

    result = Ensemble(tasks=[done("a", review=gate)], review_handler=think).map([{"n": n} for n in range(5)])
    assert [each.status for each in result] == ["completed"] * 5
    assert list(result.frames.reviews["by"]) == ["think"] * 5


def test_e72_one_answer_may_serve_a_gate_in_all_rows() -> None:
    asked: list[tuple[str | None, str | None]] = []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append((request.task, request.row))
        return ReviewDecision(verdict=ReviewDecision.approve().verdict, for_all=request.task == "a")

    tasks = [done("a", review=Review()), done("b", context=["a"], review=Review())]
    result = Ensemble(tasks=tasks, review_handler=decide).map([{"n": n} for n in range(3)], concurrency=1)
    assert asked == [("a", "row 0"), ("b", "row 0"), ("b", "row 1"), ("b", "row 2")]
    assert list(result.frames.reviews["review_decision"]) == ["approve"] * 6


def gated_ensemble(**fields: Any) -> Ensemble:
    return Ensemble(tasks=[done("a", review=Review())], **fields)


def test_e72_rows_on_an_executor_can_ask_nobody_and_take_auto_review_along() -> None:
    with ProcessPoolExecutor(1) as executor:
        result = gated_ensemble().map([{"n": 1}], executor=executor)
        passed = gated_ensemble(review_handler=auto_review()).map([{"n": 1}], executor=executor)
    assert [(each.status, each.is_done) for each in result] == [("exited_early", False)]
    assert list(result.frames.reviews["by"]) == ["nobody_to_ask"]
    assert any(NOBODY in each for each in result.trace.warnings)
    assert [each.status for each in passed] == ["completed"]
    assert list(passed.frames.reviews["by"]) == ["auto_review"]


# --- Scripts ---

SCRIPT = """
import logging
from ensemble_notebook import Ensemble, Review, Task
logging.basicConfig()
def send(task):
    print("SENT")
    return "sent"
output = Ensemble(tasks=[Task.of("Send", name="send", handler=send, review=Review("before"))]).run()
print(output.status.value, output.exit_reason.value)
"""


def test_e45_a_script_without_a_terminal_ends_early(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, str(file)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout == "exited_early nobody_to_ask\n"
    assert NOBODY in ended.stderr


# --- Replay, resume and reuse ---


def test_e42_a_recording_says_that_nobody_was_there_and_a_replay_says_it_again(tmp_path: Path) -> None:
    post, file = Post(), tmp_path / "mail.yaml"
    post.make().run(record=file)
    assert 'by: "nobody_to_ask"' in file.read_text()
    again = post.make(review_handler=auto_review()).run(replay=file)
    assert ((again.status, again.exit_reason), decisions(again)) == (EARLY, [("exit_early", "nobody_to_ask")])


@pytest.mark.usefixtures("store_path")
def test_c33_a_run_that_could_ask_nobody_goes_on_where_somebody_can() -> None:
    post = Post()
    first = post.make().run()
    again = post.make(review_handler=auto_review()).run(resume=first)
    assert (again.status, post.sent, decisions(again)) == (RunStatus.COMPLETED, 1, [("approve", "auto_review")])
    assert [each.task for each in of(again, TaskReused)] == ["draft"]


@pytest.mark.usefixtures("store_path")
def test_c33_an_output_that_nobody_has_looked_at_is_shown_when_the_run_goes_on() -> None:
    task = done("a", review=Review())
    first = run(task)
    assert ((first.status, first.exit_reason), len(first.task_outputs)) == (EARLY, 1)
    with pytest.raises(TaskExecutionError, match="rejected: bad"):
        Ensemble(tasks=[task], review_handler=auto_review(ReviewDecision.reject("bad"))).run(resume=first)


def approve(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.approve()


def reject(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.reject("bad")


def reasons(output: EnsembleOutput) -> dict[str | None, str]:
    return {each.task: each.reason for each in of(output, TaskReused)}


@pytest.mark.usefixtures("store_path")
def test_c34_a_reused_output_has_to_pass_a_gate_that_has_not_approved_it() -> None:
    task = done("a", review=Review())
    first = run(task, review_handler=approve)
    same = Ensemble(tasks=[task], review_handler=approve).run(reuse=True)
    assert reasons(same) == {"a": f"reused; approved by approve in run {first.run_id}"}
    assert decisions(same) == []
    with pytest.raises(TaskExecutionError, match="rejected: bad"):
        Ensemble(tasks=[task], review_handler=reject).run(reuse=True)
    nobody = Ensemble(tasks=[task]).run(reuse=True)
    assert ((nobody.status, nobody.exit_reason), decisions(nobody)) == (EARLY, [("exit_early", "nobody_to_ask")])


@pytest.mark.usefixtures("store_path")
def test_c34_an_output_that_passed_no_gate_when_it_was_made_passes_it_now() -> None:
    run(done("a"))
    gated = done("a", review=Review())
    second = Ensemble(tasks=[gated], review_handler=approve).run(reuse=True)
    assert (list(reasons(second)), decisions(second)) == (["a"], [("approve", "approve")])
    third = Ensemble(tasks=[gated], review_handler=approve).run(reuse=True)
    assert reasons(third) == {"a": f"reused; approved by approve in run {second.run_id}"}
    policy = Ensemble(tasks=[done("a")], review_handler=reject, review_policy="after_every_task")
    with pytest.raises(TaskExecutionError, match="rejected: bad"):
        policy.run(reuse=True)


@pytest.mark.usefixtures("store_path")
def test_c34_a_review_may_edit_or_send_back_what_is_reused() -> None:
    task = done("a", handler=lambda task: " ".join(["text", *task.feedback]), review=Review())
    run(task, review_handler=approve)
    answers = [ReviewDecision.retry("better"), ReviewDecision.approve()]
    redone = Ensemble(tasks=[task], review_handler=lambda request: answers.pop(0)).run(reuse=True)
    assert (redone.raw, reasons(redone)) == ("text better", {})
    edited = Ensemble(tasks=[task], review_handler=auto_review(ReviewDecision.edit("mine"))).run(reuse=True)
    assert (edited.raw, list(reasons(edited))) == ("mine", ["a"])


@pytest.mark.usefixtures("store_path")
def test_c34_an_approval_is_of_the_output_that_was_shown() -> None:
    task = done("a", review=Review())
    run(task, review_handler=approve)
    edited = Ensemble(tasks=[task], review_handler=auto_review(ReviewDecision.edit("mine"))).run(reuse=True)
    assert edited.raw == "mine"
    again = Ensemble(tasks=[task], review_handler=approve).run(reuse=True)
    assert (again.raw, decisions(again)) == ("mine", [("approve", "approve")])


@pytest.mark.usefixtures("store_path")
def test_c34_a_gate_before_counts_where_it_was_passed_and_is_asked_where_not() -> None:
    run(done("a"))
    gated = done("a", review=Review("before"))
    with pytest.raises(TaskExecutionError, match="rejected before it started"):
        Ensemble(tasks=[gated], review_handler=reject).run(reuse=True)
    second = Ensemble(tasks=[gated], review_handler=approve).run(reuse=True)
    assert (list(reasons(second)), decisions(second)) == (["a"], [("approve", "approve")])
    assert list(reasons(Ensemble(tasks=[gated], review_handler=reject).run(reuse=True))) == ["a"]


@pytest.mark.usefixtures("store_path")
def test_c34_gates_of_an_ensemble_that_does_a_task_are_asked_about_what_is_reused() -> None:
    def outer(**fields: Any) -> Ensemble:
        inner = Ensemble(tasks=[done("a", review=Review())], name="inner", **fields)
        return Ensemble(tasks=[Task(name="all", ensemble=inner)], name="outer")

    outer(review_handler=approve).run()
    same = outer(review_handler=approve).run(reuse=True)
    assert (same.status, decisions(same)) == (RunStatus.COMPLETED, [])
    nobody = outer().run(reuse=True)
    assert ((nobody.status, nobody.exit_reason), decisions(nobody)) == (EARLY, [("exit_early", "nobody_to_ask")])


# --- Reuse of a task for each item, whose gates are asked about the whole ---


def do_each(items: list[str], gate: Review | None, reviewer: Any = None, **fields: Any) -> Ensemble:
    task = Task.of("Do {item}", name="do", handler=lambda given: given.description, for_each=items, review=gate)
    return Ensemble(tasks=[task], name="each", review_handler=reviewer, **fields)


def shown(output: EnsembleOutput) -> list[str]:
    """The texts that were asked about."""
    return [each.request.text for each in of(output, ReviewRequested)]


def whole_reason(output: EnsembleOutput) -> str:
    return str(output.frames.tasks.set_index("task").reuse_reason["do"])


@pytest.mark.usefixtures("store_path")
def test_c34_a_gate_behind_a_task_for_each_item_is_not_asked_again_about_what_it_approved() -> None:
    first = do_each(["a", "b"], Review(), approve).run()
    for _ in range(2):  # the approval is taken along from run to run
        same = do_each(["a", "b"], Review(), approve).run(reuse=True)
        assert (decisions(same), same.raw, same["do"].parsed_output) == ([], first.raw, ["Do a", "Do b"])
        reused = "it is put together from its items; reused: 2 of 2"
        assert whole_reason(same) == f"{reused}; approved by approve in run {first.run_id}"
    with pytest.raises(TaskExecutionError, match="rejected: bad"):
        do_each(["a", "b"], Review(), reject).run(reuse=True)
    assert decisions(do_each(["a", "b"], Review()).run(reuse=True)) == [("exit_early", "nobody_to_ask")]
    assert decisions(do_each(["a"], Review(), approve).run(reuse=True)) == [("approve", "approve")]
    assert decisions(do_each(["b", "a"], Review(), approve).run(reuse=True)) == [("approve", "approve")]


@pytest.mark.usefixtures("store_path")
def test_c34_an_approval_of_a_whole_is_for_no_items_that_run_again() -> None:
    def run(reply: str, **how: Any) -> EnsembleOutput:
        task = Task.of("Do {item}", name="do", handler=lambda _: f"{reply}"[:1], for_each=["a"], review=Review())
        return Ensemble(tasks=[task], name="each", review_handler=approve).run(**how)

    run("x1")
    assert decisions(run("x1", reuse=True)) == []
    again = run("x2", reuse=True)  # other code, though it puts out the same
    assert (again["do"].parsed_output, decisions(again)) == (["x"], [("approve", "approve")])
    assert decisions(run("x2", reuse=True, only="do")) == [("approve", "approve")]


@pytest.mark.usefixtures("store_path")
def test_c34_a_whole_that_was_edited_comes_back_as_it_was_edited() -> None:
    editor = auto_review(ReviewDecision.edit("mine"))
    first = do_each(["a", "b"], Review(), editor).run()
    same = do_each(["a", "b"], Review(), editor).run(reuse=True)
    assert (first.raw, same.raw, same["do"].parsed_output, decisions(same)) == ("mine", "mine", None, [])
    other = do_each(["a", "b"], Review(), approve).run(reuse=True)
    assert (other.raw, shown(other), decisions(other)) == ("mine", ["mine"], [("approve", "approve")])
    again = do_each(["a", "b"], Review(), approve).run(reuse=True)
    assert (again.raw, decisions(again)) == ("mine", [])
    changed = do_each(["a", "c"], Review(), approve).run(reuse=True)
    assert shown(changed) == ["### do[0]: a\n\nDo a\n\n### do[1]: c\n\nDo c"]


@pytest.mark.usefixtures("store_path")
def test_c34_of_a_whole_that_was_sent_back_only_what_came_then_is_approved() -> None:
    def pick(request: ReviewRequest) -> ReviewDecision:
        return ReviewDecision.approve() if "better" in request.text else ReviewDecision.retry("better")

    task = Task.of("Do", name="do", handler=lambda given: str(given.feedback), for_each=["a"], review=Review())
    ensemble = Ensemble(tasks=[task], review_handler=pick)
    first = ensemble.run()
    assert decisions(first) == [("retry", "pick"), ("approve", "pick")]
    again = ensemble.run(reuse=True)
    assert (again.raw, decisions(again)) == (first.raw, [("retry", "pick")])


@pytest.mark.usefixtures("store_path")
def test_c34_a_gate_before_a_task_for_each_item_counts_where_all_items_passed_it() -> None:
    before = Review("before")
    do_each(["a", "b"], None).run()
    with pytest.raises(TaskExecutionError, match="rejected before it started"):
        do_each(["a", "b"], before, reject).run(reuse=True)
    asked = do_each(["a", "b"], before, approve).run(reuse=True)
    assert (decisions(asked), sorted(map(str, reasons(asked)))) == ([("approve", "approve")], ["do[0]", "do[1]"])
    for _ in range(2):
        same = do_each(["a", "b"], before, reject).run(reuse=True)
        assert (decisions(same), sorted(map(str, reasons(same)))) == ([], ["do[0]", "do[1]"])
    assert decisions(do_each(["b"], before, reject).run(reuse=True)) == []
    with pytest.raises(TaskExecutionError, match="rejected before it started"):
        do_each(["a", "b", "c"], before, reject).run(reuse=True)


@pytest.mark.usefixtures("store_path")
def test_c34_a_gate_before_items_that_read_a_memory_is_asked_again() -> None:
    task = Task.of(
        "Do {item}",
        name="do",
        handler=lambda given: given.description,
        for_each=["a"],
        memory="notes",
        review=Review("before"),
    )

    def go(**how: Any) -> EnsembleOutput:
        return Ensemble(tasks=[task], memory=InMemoryStore(), review_handler=approve).run(**how)

    go()
    assert decisions(go(reuse=True)) == [("approve", "approve")]


@pytest.mark.usefixtures("store_path")
def test_c34_what_a_gate_before_a_task_for_each_item_has_edited_is_asked_about_again() -> None:
    editor = auto_review(ReviewDecision.edit("Rather do {item}"))
    first = do_each(["a"], Review("before"), editor).run()
    again = do_each(["a"], Review("before"), editor).run(reuse=True)
    assert (first["do"].parsed_output, again["do"].parsed_output) == (["Rather do a"], ["Rather do a"])
    assert (decisions(again), list(reasons(again))) == ([("edit", "auto_review")], ["do[0]"])


@pytest.mark.usefixtures("store_path")
def test_c33_gates_of_a_task_for_each_item_are_not_asked_again_when_the_run_goes_on() -> None:
    def run(fails: bool, **how: Any) -> EnsembleOutput:
        gates = [Review("before"), Review()]
        each = Task.of("Do {item}", name="do", handler=lambda given: given.description, for_each=["a"], review=gates)
        later = lost("later", context=["do"]) if fails else done("later", context=["do"])
        return Ensemble(tasks=[each, later], name="each", review_handler=approve).run(**how)

    with pytest.raises(TaskExecutionError) as caught:
        run(True)
    assert decisions(caught.value.output) == [("approve", "approve")] * 2
    again = run(False, resume=caught.value.output)
    assert (again.status, decisions(again)) == (RunStatus.COMPLETED, [])


# --- Stored runs ---


@pytest.mark.usefixtures("store_path")
def test_t10_a_stored_run_says_that_nobody_could_be_asked() -> None:
    output = Post().make().run()
    stored = load_traces()
    assert list(stored.runs["exit_reason"]) == ["nobody_to_ask"]
    assert list(stored.reviews["by"]) == ["nobody_to_ask"]
    shown = output._repr_mimebundle_()["text/plain"]
    assert "nobody to ask" in shown
    assert "Nobody could be asked, and the run ended early" in shown
