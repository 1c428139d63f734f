"""Workflows: lists, graphs, phases, conditions, leaving early (E20, E21, E26 to E28, E33)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook import (
    Condition,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    Phase,
    PhaseExecutionError,
    PhaseRetried,
    PhaseReview,
    PhaseStatus,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunStatus,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskInputPrepared,
    TaskStarted,
)
from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.events import Event, TaskSkipped
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.conformance.scene import done, lost, of, run, say, scripted


def names(output: EnsembleOutput) -> list[str]:
    return [each.name for each in output.task_outputs]


def skips(output: EnsembleOutput) -> dict[str, str]:
    return {each.name: each.reason for each in output.skipped}


def meeting(count: int) -> Callable[[TaskInput], str]:
    """A handler that needs `count` of its kind at once."""
    barrier = threading.Barrier(count, timeout=20)

    def meet(task: TaskInput) -> str:
        barrier.wait()
        return task.name

    return meet


# --- E20, E21 ---


def test_e20_tasks_run_in_list_order_and_stop_at_the_first_failure() -> None:
    assert names(run(done("a"), done("b"), done("c"))) == ["a", "b", "c"]
    with pytest.raises(TaskExecutionError) as caught:
        run(done("a"), lost("b"), done("c"))
    assert [each.name for each in caught.value.completed_task_outputs] == ["a"]
    assert (caught.value.task_description, caught.value.agent_role) == ("Do b", "Handler")


def test_e21_a_task_starts_when_its_last_dependency_has_resolved_with_no_barrier_between_levels() -> None:
    released = threading.Event()

    def slow(task: TaskInput) -> str:
        assert released.wait(20), "the other branch waits for this one"
        return "slow"

    def second(task: TaskInput) -> str:
        released.set()
        return "second"

    tasks = [done("slow", handler=slow), done("quick"), done("second", handler=second, context=["quick"])]
    assert names(run(*tasks, workflow="parallel")) == ["quick", "second", "slow"]


def test_e21_max_concurrency_is_used_in_full_and_never_passed() -> None:
    lock, busy, most = threading.Lock(), 0, 0

    def work(task: TaskInput) -> str:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        meet(task)
        with lock:
            busy -= 1
        return "ok"

    meet = meeting(3)
    run(*[done(f"t{n}", handler=work) for n in range(9)], workflow="parallel", max_concurrency=3)
    assert most == 3


# --- E26 ---


def test_e26_root_phases_run_side_by_side_and_a_join_waits_for_all() -> None:
    meet = meeting(3)
    roots = [Phase.of(name, done(f"{name}_1", handler=meet)) for name in ("steak", "salmon", "pasta")]
    serve = Phase.of("serve", done("plates"), after=["steak", "salmon", "pasta"])
    assert names(Ensemble(phases=[*roots, serve]).run())[-1] == "plates"


def test_e26_a_failed_phase_skips_its_dependents_and_unrelated_ones_finish() -> None:
    phases = [
        Phase.of("steak", lost("burnt")),
        Phase.of("pasta", done("boil"), done("drain")),
        Phase.of("serve", done("plates"), after=["steak"]),
        Phase.of("wash", lost("soap"), after=["pasta"]),
    ]
    with pytest.raises(PhaseExecutionError) as caught:
        Ensemble(phases=phases).run()
    error = caught.value
    assert [each.name for each in error.failures] == ["burnt", "soap"]
    assert error.__cause__ is error.failures[0].error
    assert sorted(each.name for each in error.completed_task_outputs) == ["boil", "drain"]
    assert {each.name: each.status for each in error.output.trace.phases} == {
        "steak": PhaseStatus.FAILED,
        "pasta": PhaseStatus.COMPLETED,
        "serve": PhaseStatus.SKIPPED,
        "wash": PhaseStatus.FAILED,
    }
    assert "'steak', which failed" in skips(error.output)["serve"]


def test_e26_each_phase_has_its_own_workflow_and_reads_earlier_ones() -> None:
    meet = meeting(2)
    wide = Phase.of("wide", done("l", handler=meet), done("r", handler=meet), workflow="parallel")
    narrow = Phase.of(
        "narrow", done("x"), done("y", handler=lambda task: task.context[0].raw, context=["l"]), after=[wide]
    )
    assert Ensemble(phases=[wide, narrow]).run().raw == "l"


# --- E27 ---


def leave_at(name: str) -> Callable[[ReviewRequest], ReviewDecision]:
    return lambda request: ReviewDecision.exit_early() if request.task == name else ReviewDecision.approve()


def test_e27_who_leaves_keeps_what_is_done_and_lets_running_tasks_finish_in_every_phase() -> None:
    left = threading.Event()

    def hear(event: Event) -> None:
        if isinstance(event, TaskSkipped):  # so that nobody is asked any more
            left.set()

    def finish(task: TaskInput) -> str:
        assert left.wait(20)
        return "finished"

    phases = [
        Phase.of("ask", done("question", review=Review()), done("never")),
        Phase.of("work", done("running", handler=finish), done("never_either")),
        Phase.of("later", done("nor_this"), after=["ask"]),
    ]
    leave = ReviewDecision.exit_early()
    output = Ensemble(phases=phases, review_handler=lambda request: leave, listeners=[hear]).run()
    assert (output.status, output.exit_reason) == (RunStatus.EXITED_EARLY, ExitReason.USER_EXIT_EARLY)
    assert sorted(names(output)) == ["question", "running"]
    assert {"never", "never_either", "nor_this", "later"} <= set(skips(output))
    ended = {"ask": "exited_early", "work": "exited_early", "later": "skipped"}
    assert output.frames.phases.set_index("phase").status.to_dict() == ended
    assert {each.name: each.status for each in output.trace.phases} == ended
    assert output.frames.phases.set_index("phase").reason["ask"] == "not started: somebody chose to leave the run"
    assert find_violations(output.trace) == []


def test_e27_phase_in_which_nothing_was_done_by_the_time_somebody_left_is_skipped() -> None:
    phases = [
        Phase.of("ask", done("question", review=Review(timing="before")), done("never")),
        Phase.of("broken", done("other", handler=lambda _: 1 / 0), done("never_either")),
    ]
    leave = ReviewDecision.exit_early()
    output = Ensemble(phases=phases, review_handler=lambda _: leave, error_strategy="partial").run()
    assert output.status is RunStatus.EXITED_EARLY
    assert output.frames.phases.set_index("phase").status.to_dict()["ask"] == "skipped"


# --- E28 ---


def test_e28_a_callable_may_send_a_phase_back_with_feedback() -> None:
    asked: list[ReviewRequest] = []

    def decide(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        return ReviewDecision.retry("More salt.") if len(asked) == 1 else ReviewDecision.approve()

    llm = scripted("bland", "salty")
    phase = Phase.of("cook", Task.of("Season", name="season", llm=llm), review=decide)
    output = Ensemble(phases=[phase]).run()
    assert output["season"].raw == "salty"
    assert [(each.subject, each.phase) for each in asked] == [("phase", "cook")] * 2
    assert "bland" in asked[0].text
    assert [(each.attempt, each.feedback) for each in of(output, PhaseRetried)] == [(2, "More salt.")]
    prompted = [each.user_prompt for each in of(output, TaskInputPrepared)]
    assert "## Revision Instructions (Attempt 2)\nMore salt." in prompted[1]


@pytest.mark.parametrize("verdict", ["APPROVE", "approve, with pleasure"])
def test_e28_a_review_task_approves_by_its_first_word(verdict: str) -> None:
    reviewer = Task.of("Judge the dish", name="judge", llm=scripted(verdict))
    output = Ensemble(phases=[Phase.of("cook", done("steak"), review=reviewer)]).run()
    assert output.status is RunStatus.COMPLETED
    assert output["steak"].raw == "steak"


def test_e28_a_review_task_may_retry_and_reject() -> None:
    reviewer = Task.of("Judge the dish", name="judge", llm=scripted("RETRY: hotter", "REJECT: still cold"))
    phases = [Phase.of("cook", done("steak"), review=reviewer), Phase.of("serve", done("plate"), after=["cook"])]
    with pytest.raises(PhaseExecutionError, match="still cold") as caught:
        Ensemble(phases=phases).run()
    assert [each.task for each in of(caught.value.output, TaskStarted)].count("steak") == 2
    assert "serve" in skips(caught.value.output)


def test_e28_after_max_retries_a_wish_to_retry_rejects() -> None:
    def again(request: ReviewRequest) -> ReviewDecision:
        return ReviewDecision.retry("again")

    phase = Phase.of("cook", done("steak"), review=PhaseReview(again, max_retries=1))
    with pytest.raises(PhaseExecutionError) as caught:
        Ensemble(phases=[phase]).run()
    assert [each.attempt for each in of(caught.value.output, PhaseRetried)] == [2]


# --- E33 ---


def triage(said: str, **branches: Any) -> EnsembleOutput:
    tasks = [done("triage", handler=say(said))]
    tasks += [done(name, when=Condition("triage", **test)) for name, test in branches.items()]
    return run(*tasks, workflow="parallel")


@pytest.mark.parametrize(
    "said, ran",
    [(" urgent ", ["exact", "part"]), ("not urgent at all", ["part"]), ("case 42", ["number"]), ("calm", ["rest"])],
)
def test_e33_equals_contains_matches_and_default(said: str, ran: list[str]) -> None:
    output = triage(
        said,
        exact={"equals": "urgent"},
        part={"contains": "urgent"},
        number={"matches": r"case \d+"},
        rest={"default": True},
    )
    assert sorted(names(output)[1:]) == ran
    assert output.status is RunStatus.COMPLETED
    assert all("condition not met" in reason for reason in skips(output).values())


async def long_text(output: Any) -> bool:
    await asyncio.sleep(0)
    return len(output.raw) > 4


def test_e33_a_predicate_sees_the_output() -> None:
    assert names(triage("brief", yes={"predicate": long_text}, no={"predicate": lambda output: False})) == [
        "triage",
        "yes",
    ]


def test_e33_of_several_conditions_any_may_hold_and_a_join_runs_with_what_ran() -> None:
    tasks = [
        done("a", handler=say("x")),
        done("b", handler=say("y")),
        done("either", when=[Condition("a", equals="no"), Condition("b", equals="y")]),
        done("never", when=Condition("a", equals="no")),
        done("join", handler=lambda task: ",".join(each.name for each in task.context), context=["either", "never"]),
        done("behind", context=["never"]),
    ]
    output = run(*tasks, workflow="parallel")
    assert output["join"].raw == "either"
    assert set(skips(output)) == {"never", "behind"}


def test_e33_a_phase_has_conditions_too() -> None:
    phases = [
        Phase.of("ask", done("triage", handler=say("urgent"))),
        Phase.of("now", done("call"), when=Condition("triage", contains="urgent")),
        Phase.of("later", done("mail"), when=Condition("triage", default=True)),
    ]
    output = Ensemble(phases=phases).run()
    assert sorted(names(output)) == ["call", "triage"]
    assert "condition not met" in skips(output)["later"]


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.sampled_from(ErrorStrategy))
def test_e33_a_condition_that_is_not_met_is_no_failure(held: list[bool], strategy: ErrorStrategy) -> None:
    tasks = [done("source", handler=say("yes"))]
    tasks += [done(f"t{n}", when=Condition("source", equals="yes" if each else "no")) for n, each in enumerate(held)]
    output = run(*tasks, error_strategy=strategy)
    assert output.status is RunStatus.COMPLETED
    assert len(output) == 1 + sum(held)
