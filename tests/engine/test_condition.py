"""Conditions at work: which hold for what a task said, and what runs then (E33)."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason, PhaseStatus, RunStatus
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import PhaseEnded, PhaseSkipped, TaskCompleted, TaskFailed, TaskStarted, Warned
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.run.driver import CANCELLATION_LIMIT_S, Driver
from ensemble_notebook.errors import EnsembleError
from tests.support.drive import drive, drive_for_real, fails, only, parallel, task, works


def saying(text: str) -> Task:
    """A task named triage."""

    async def handler(_: TaskInput) -> str:
        return text

    return task("triage", handler=handler)


def ran(*tasks: Task, **fields: Any) -> list[str]:
    return [each.name for each in drive(parallel(*tasks, **fields))[0].outputs.values()]


@pytest.mark.parametrize(
    "test, said, holds",
    [
        ({"equals": "yes"}, "yes", True),
        ({"equals": "yes"}, "\n yes ", True),
        ({"equals": " yes "}, "yes", True),
        ({"equals": "yes"}, "Yes", False),
        ({"equals": "yes"}, "yes, please", False),
        ({"equals": ""}, "  ", True),
        ({"contains": "urgent"}, "this is urgent!", True),
        ({"contains": "urgent"}, "this is Urgent!", False),
        ({"default": True}, "anything", True),
    ],
    ids=str,
)
def test_a_condition_tests_the_text_e33(test: dict[str, Any], said: str, holds: bool) -> None:
    assert ran(saying(said), task("b", when=Condition("triage", **test))) == ["triage", *(["b"] if holds else [])]


def long_enough(output: TaskOutput) -> bool:
    return len(output.raw) > 3


async def long_enough_async(output: TaskOutput) -> int:
    await asyncio.sleep(2)
    return len(output.raw) > 3


@pytest.mark.parametrize("predicate", [long_enough, long_enough_async])
@pytest.mark.parametrize("said, holds", [("four", True), ("no", False)])
def test_a_predicate_sees_the_output_e33(predicate: Any, said: str, holds: bool) -> None:
    branch = task("b", handler=works(0), when=Condition("triage", predicate=predicate))
    if predicate is long_enough:
        result, _ = drive_for_real(parallel(saying(said), branch))
    else:
        result, events = drive(parallel(saying(said), branch))
        (end,) = (each for each in events if isinstance(each, TaskCompleted) and each.task == "triage")
        assert (end.offset_s, end.duration) == (2, timedelta(0))  # the span is open, the task's own time is over
        assert events[-1].offset_s == 2
    assert len(result.outputs) == 1 + holds


def test_a_plain_predicate_works_on_a_thread_e15_e33() -> None:
    threads: list[str] = []

    def note(_: TaskOutput) -> bool:
        threads.append(threading.current_thread().name)
        return True

    drive_for_real(parallel(saying("x"), task("b", handler=works(0), when=Condition("triage", predicate=note))))
    assert threads == ["ensemble-call"]


def branches(said: str) -> list[str]:
    tasks = [
        task("urgent", when=Condition("triage", contains="urgent")),
        task("odd", when=[Condition("triage", contains="odd"), Condition("triage", contains="strange")]),
        task("normal", when=Condition("triage", default=True)),
        task("join", "urgent", "odd", "normal"),
    ]
    return ran(saying(said), *tasks)[1:]


def test_the_default_holds_when_no_other_condition_on_its_source_does_e33() -> None:
    assert branches("all is well") == ["normal", "join"]
    assert branches("an urgent one") == ["urgent", "join"]
    assert branches("a strange one") == ["odd", "join"]
    assert branches("odd and urgent") == ["urgent", "odd", "join"]


def test_defaults_look_at_siblings_in_all_phases_e33() -> None:
    def phases(said: str) -> list[str]:
        made = [
            Phase.of("first", saying(said), task("b", when=Condition("triage", equals="b"))),
            Phase.of("second", task("c", when=Condition("triage", default=True)), after=["first"]),
        ]
        return [each.name for each in drive(EnsembleDefinition(phases=made))[0].outputs.values()]

    assert phases("b") == ["triage", "b"]
    assert phases("else") == ["triage", "c"]


def test_a_phase_runs_when_its_condition_holds_e33() -> None:
    def kitchen(said: str) -> Any:
        order = Phase.of("order", saying(said))
        steak = Phase.of("steak", task("sear"), when=Condition("triage", equals="steak"))
        pasta = Phase.of("pasta", task("boil"), when=Condition("triage", default=True))
        serve = Phase.of("serve", task("plate", "sear", "boil"), after=[steak, pasta])
        return drive(EnsembleDefinition(phases=[serve, pasta, steak, order]))

    result, events = kitchen("steak")
    assert [each.name for each in result.outputs.values()] == ["triage", "sear", "plate"]
    skipped = only(events, PhaseSkipped)
    assert (skipped.phase, skipped.reason, skipped.depends_on) == ("pasta", "condition not met", ("order",))
    assert all(each.status is PhaseStatus.COMPLETED for each in events if isinstance(each, PhaseEnded))
    assert result.status is RunStatus.COMPLETED
    assert [each.name for each in kitchen("fish")[0].outputs.values()] == ["triage", "boil", "plate"]


def test_a_failed_source_meets_no_condition_and_only_its_own_failure_counts_e33() -> None:
    tasks = [task("triage", handler=fails(1)), task("b", when=Condition("triage", default=True))]
    result, _ = drive(parallel(*tasks, error_strategy=ErrorStrategy.CONTINUE_ON_ERROR))
    assert [failure.name for failure in result.failures] == ["triage"]
    assert [each.reason for each in result.skipped] == ["condition not met: 'triage' failed"]


# --- predicates that break ---


def broken(_: TaskOutput) -> bool:
    raise KeyError("score")


class Undecided:
    def __bool__(self) -> bool:
        raise TypeError("neither yes nor no")


@pytest.mark.parametrize("predicate", [broken, lambda _: Undecided()])
def test_a_predicate_that_raises_fails_what_it_guards_and_not_its_source(predicate: Any) -> None:
    guarded = task("guarded", when=Condition("triage", predicate=predicate))
    default = task("default", when=Condition("triage", default=True))
    result, events = drive_for_real(parallel(saying("x"), guarded, default))
    (failure,) = result.failures
    assert failure.name == "guarded"
    assert isinstance(failure.error, EnsembleError)
    assert str(failure.error).startswith("The condition on 'triage' (predicate ")
    assert [each.name for each in result.outputs.values()] == ["triage"]
    assert [(each.name, each.reason) for each in result.skipped][-1][0] == "default"
    assert {each.task for each in events if isinstance(each, TaskFailed)} == {"guarded"}


def test_a_broken_condition_beside_one_that_holds_does_no_harm() -> None:
    when = [Condition("triage", predicate=broken), Condition("triage", contains="x")]
    result, _ = drive_for_real(parallel(saying("x"), task("guarded", handler=works(0), when=when)))
    assert len(result.outputs) == 2


def test_a_broken_condition_of_a_phase_fails_the_phase() -> None:
    phases = [Phase.of("sort", saying("x")), Phase.of("b", task("c"), when=Condition("triage", predicate=broken))]
    result, events = drive_for_real(EnsembleDefinition(phases=phases))
    assert [failure.name for failure in result.failures] == ["c"]
    assert [each.status for each in events if isinstance(each, PhaseEnded)][-1] is PhaseStatus.FAILED


# --- stopping (E35) ---


def test_a_stop_does_not_wait_for_a_predicate_and_keeps_the_output_that_it_looked_at_e35() -> None:
    async def ponder(_: TaskOutput) -> bool:
        await asyncio.sleep(1000)
        return True

    branch = task("b", when=Condition("triage", predicate=ponder))
    result, events = drive(parallel(saying("x"), branch), stop_after=3)
    assert events[-1].offset_s == 3
    assert (result.status, result.exit_reason) == (RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)
    assert [each.name for each in result.outputs.values()] == ["triage"]
    assert result.cancelled == []
    assert not any(isinstance(each, TaskFailed) for each in events)


def test_a_predicate_that_ignores_its_cancellation_is_left_to_itself_e35() -> None:
    async def mule(_: TaskOutput) -> bool:
        for _ in range(3):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue
        return True

    result, events = drive(parallel(saying("x"), task("b", when=Condition("triage", predicate=mule))), stop_after=3)
    assert events[-1].offset_s == 3 + CANCELLATION_LIMIT_S
    assert [each.name for each in result.outputs.values()] == ["triage"]
    assert not any(isinstance(each, TaskStarted) and each.task == "b" for each in events)


def test_a_plain_predicate_that_hangs_is_abandoned_and_named_e35() -> None:
    begun, release = threading.Event(), threading.Event()

    def hang(_: TaskOutput) -> bool:
        begun.set()
        release.wait()
        return True

    async def stop(driver: Driver) -> None:
        assert await asyncio.to_thread(begun.wait, 30)
        driver.stop(ExitReason.INTERRUPTED)

    try:
        _, events = drive_for_real(parallel(saying("x"), task("b", when=Condition("triage", predicate=hang))), stop)
    finally:
        release.set()
    assert only(events, Warned).message == "Still running and left to itself: condition on triage."
