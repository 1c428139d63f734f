"""The driver at work on tasks with handlers, mostly under virtual time: no model is needed for what it promises."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import (
    ErrorStrategy,
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    Workflow,
)
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision, ReviewRequest
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput, ToolResult
from ensemble_notebook.domain.events import (
    Event,
    Noted,
    PhaseEnded,
    PhaseSkipped,
    PhaseStarted,
    PlanMade,
    RunEnded,
    RunStarted,
    TaskCompleted,
    TaskFailed,
    TaskInputPrepared,
    TaskSkipped,
    TaskStarted,
    Warned,
)
from ensemble_notebook.engine.events.event_stream import SystemClock
from ensemble_notebook.engine.run.driver import CANCELLATION_LIMIT_S, Driver
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.errors import DeadlineExceededError, ToolExecutionError
from ensemble_notebook.testing.virtual_clock import LoopClock, VirtualLoop, run_virtual
from tests.support.drive import (
    AFTERMATH_S,
    PARALLEL,
    drive,
    drive_for_real,
    driver_of,
    fails,
    only,
    parallel,
    task,
    times,
    works,
)

CONTINUE = ErrorStrategy.CONTINUE_ON_ERROR


# --- time (E20, E21) ---

DURATIONS = st.integers(0, 40).map(lambda quarters: quarters / 4)


@dataclass
class Timed:
    """Tasks with what they read and how long they take, in the order of `durations` or any other."""

    reads: dict[str, list[str]]
    durations: dict[str, float]
    order: list[str]

    def tasks(self, handler: Callable[[float], Any]) -> list[Task]:
        return [task(name, *self.reads[name], handler=handler(self.durations[name])) for name in self.order]

    def ends(self) -> dict[str, float]:
        """When each task ends if it starts the moment the last one that it reads has ended."""
        found: dict[str, float] = {}
        for name, read in self.reads.items():
            found[name] = self.durations[name] + max((found[each] for each in read), default=0.0)
        return found


@st.composite
def timed(draw: st.DrawFn) -> Timed:
    reads: dict[str, list[str]] = {}
    for number in range(draw(st.integers(1, 10))):
        earlier = st.lists(st.sampled_from(list(reads)), unique=True, max_size=3) if reads else st.just([])
        reads[f"t{number}"] = draw(earlier)
    return Timed(reads, {name: draw(DURATIONS) for name in reads}, draw(st.permutations(list(reads))))


@given(timed())
def test_the_makespan_is_the_longest_path_exactly_e21(case: Timed) -> None:
    result, events = drive(parallel(*case.tasks(works)))
    assert times(events, TaskCompleted) == case.ends()
    assert events[-1].offset_s == max(case.ends().values())
    assert {each.name: each.duration.total_seconds() for each in result.outputs.values()} == case.durations


@given(timed(), st.integers(1, 3))
def test_no_more_tasks_work_at_once_than_allowed_e21(case: Timed, limit: int) -> None:
    active = most = 0

    def counted(seconds: float) -> Callable[[TaskInput], Awaitable[None]]:
        async def handler(_: TaskInput) -> None:
            nonlocal active, most
            active += 1
            most = max(most, active)
            await asyncio.sleep(seconds)
            active -= 1

        return handler

    result, events = drive(parallel(*case.tasks(counted), max_concurrency=limit))
    assert len(result.outputs) == len(case.order)
    assert most <= limit
    assert events[-1].offset_s * limit >= sum(case.durations.values())


def test_a_task_that_had_to_wait_for_a_place_says_how_long() -> None:
    _, events = drive(parallel(task("a", handler=works(2)), task("b"), task("c"), max_concurrency=1))
    waits = {each.task: each.queued_s for each in events if isinstance(each, TaskStarted)}
    assert waits == {"a": 0, "b": 2, "c": 3}


def test_a_sequence_takes_the_sum_and_parallel_tasks_the_maximum_e20_e21() -> None:
    tasks = [task("a", handler=works(1)), task("b", handler=works(2)), task("c", handler=works(4))]
    assert drive(EnsembleDefinition(tasks=tasks))[1][-1].offset_s == 7
    assert drive(parallel(*tasks))[1][-1].offset_s == 4


def test_dishes_cook_side_by_side_and_serving_waits_for_the_last_e26() -> None:
    steak = Phase.of("steak", task("sear", handler=works(3)), task("rest", handler=works(4)))
    pasta = Phase.of("pasta", task("boil", handler=works(5)), task("sauce", handler=works(2)), workflow=PARALLEL)
    _, events = drive(EnsembleDefinition(phases=[steak, pasta, Phase.of("serve", task("plate"), after=[steak, pasta])]))
    assert times(events, TaskCompleted) == {"sear": 3, "rest": 7, "boil": 5, "sauce": 2, "plate": 8}
    phases = {each.phase: each.offset_s for each in events if isinstance(each, PhaseEnded)}
    assert phases == {"steak": 7, "pasta": 5, "serve": 8}


# --- deadlines (E38) ---


def test_a_task_is_cut_off_exactly_at_its_timeout_e38() -> None:
    result, events = drive(parallel(task("slow", handler=works(10), timeout=2.5), task("other", handler=works(4))))
    assert times(events, TaskFailed) == {"slow": 2.5}
    assert times(events, TaskCompleted) == {"other": 4}
    (failure,) = result.failures
    assert isinstance(failure.error, DeadlineExceededError)
    assert (failure.error.scope, failure.error.timeout_s, failure.error.running) == ("task", 2.5, "its handler")


def looks(seconds: float) -> Any:
    async def look(_: Any) -> None:
        await asyncio.sleep(seconds)

    return look


def test_guardrails_are_on_the_clock_of_their_task_e38() -> None:
    early = task("early", handler=works(1), input_guardrails=[looks(5)], timeout=2)
    late = task("late", handler=works(2), output_guardrails=[looks(5)], timeout=3)
    all_in = task("all_in", handler=works(1), input_guardrails=[looks(1)], output_guardrails=[looks(1)], timeout=2.5)
    result, events = drive(parallel(early, late, all_in, error_strategy=ErrorStrategy.PARTIAL))
    assert times(events, TaskFailed) == {"early": 2, "late": 3, "all_in": 2.5}
    errors = {each.name: each.error for each in result.failures}
    assert all(isinstance(each, DeadlineExceededError) for each in errors.values())
    assert "its input guardrails" in str(errors["early"])
    assert "its output guardrails" in str(errors["late"])


def test_people_are_on_no_clock_and_a_revision_has_all_the_time_again_e38() -> None:
    decisions = iter([ReviewDecision.retry("again"), ReviewDecision.approve()])

    async def decide(_: ReviewRequest) -> ReviewDecision:
        await asyncio.sleep(10)
        return next(decisions)

    draft = task("draft", handler=works(2), timeout=3, review=Review())
    result, events = drive(parallel(draft, review_handler=decide))
    assert times(events, TaskCompleted) == {"draft": 24}
    assert result.status is RunStatus.COMPLETED


def test_a_task_that_ends_in_time_is_left_alone_e38() -> None:
    result, _ = drive(parallel(task("quick", handler=works(2.25), timeout=2.5)))
    assert result.status is RunStatus.COMPLETED


def test_a_timeout_of_the_handlers_own_is_no_deadline_of_ours() -> None:
    own = TimeoutError("the server did not answer")
    result, _ = drive(parallel(task("asker", handler=fails(1, own), timeout=5)))
    assert result.failures[0].error is own


# --- what goes in and comes out (E2, E7) ---


def test_a_handler_gets_its_task_resolved_with_context_and_inputs_e2() -> None:
    seen: list[TaskInput] = []

    async def look(given: TaskInput) -> None:
        seen.append(given)

    reader = Task(
        name="reader",
        description="Read about {topic}",
        expected_output="{pages} pages",
        context=["b", "a"],
        handler=look,
    )
    drive(parallel(task("a"), task("b"), reader, inputs={"topic": "tides", "pages": 2, "unused": None}))
    (given,) = seen
    assert (given.name, given.description, given.expected_output) == ("reader", "Read about tides", "2 pages")
    assert [each.raw for each in given.context] == ["b done", "a done"]
    assert given.inputs == {"topic": "tides", "pages": 2, "unused": None}
    with pytest.raises(TypeError):
        given.inputs["topic"] = "moons"  # type: ignore[index]


@pytest.mark.parametrize(
    "returned, raw, parsed",
    [
        ("text", "text", None),
        (None, "", None),
        (3, "3", 3),
        ({"a": [1]}, '{"a": [1]}', {"a": [1]}),
        ({(1, 2): 3}, "{(1, 2): 3}", {(1, 2): 3}),
        (ToolResult.ok("text", {"a": 1}), "text", {"a": 1}),
        (ToolResult(output=3), "3", None),  # type: ignore[arg-type]
    ],
    ids=["text", "nothing", "number", "mapping", "no JSON", "result", "result that is no text"],
)
def test_whatever_a_handler_returns_has_a_text_and_keeps_its_value_e7(returned: Any, raw: str, parsed: Any) -> None:
    async def give(_: TaskInput) -> Any:
        return returned

    result, _ = drive(parallel(task("giver", handler=give)))
    output = result.outputs[0]
    assert (output.raw, output.parsed_output) == (raw, parsed)
    assert (output.name, output.agent_role, output.tool_call_count) == ("giver", "Handler", 0)


def test_a_reported_failure_of_a_handler_fails_its_task() -> None:
    async def give_up(_: TaskInput) -> ToolResult:
        return ToolResult.failure("out of ink")

    result, _ = drive(parallel(task("writer", handler=give_up)))
    (failure,) = result.failures
    assert isinstance(failure.error, ToolExecutionError)
    assert str(failure.error) == "The handler of task 'writer' reported a failure: out of ink"


# --- failures (E32) ---


class HollowError(Exception):
    """An error that is false."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize(
    "error", [ValueError("bad"), HollowError(), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr
)
def test_whatever_a_handler_raises_fails_its_task_and_spares_the_others_e32(error: BaseException) -> None:
    broken = task("broken", handler=fails(1, error))
    result, events = drive(parallel(broken, task("other", handler=works(2)), error_strategy=CONTINUE))
    (failure,) = result.failures
    assert (failure.name, failure.agent_role) == ("broken", "Handler")
    assert error in (failure.error, failure.error.__cause__)
    assert times(events, TaskCompleted) == {"other": 2}
    assert (result.status, result.exit_reason) == (RunStatus.FAILED, ExitReason.ERROR)
    assert only(events, RunEnded).error is failure.error


def test_fail_fast_lets_running_tasks_finish_and_starts_no_others_e32() -> None:
    tasks = [task("broken", handler=fails(1)), task("running", handler=works(3)), task("next", "running")]
    result, events = drive(parallel(*tasks))
    assert times(events, TaskCompleted) == {"running": 3}
    assert [(each.name, each.kind, each.reason) for each in result.skipped] == [
        ("next", "task", "not started: 'broken' failed")
    ]
    assert events[-1].offset_s == 3


def test_failures_are_listed_in_order_of_failure_e32() -> None:
    tasks = [task("late", handler=fails(2)), task("soon", handler=fails(1))]
    result, _ = drive(parallel(*tasks, error_strategy=CONTINUE))
    assert [failure.name for failure in result.failures] == ["soon", "late"]


def test_a_failing_phase_takes_its_dependents_along_and_no_others_e26() -> None:
    phases = [
        Phase.of("steak", task("sear", handler=fails(1)), task("rest")),
        Phase.of("pasta", task("boil", handler=works(3))),
        Phase.of("serve", task("plate"), after=["steak", "pasta"]),
    ]
    result, events = drive(EnsembleDefinition(phases=phases))
    ended = {each.phase: (each.offset_s, each.status) for each in events if isinstance(each, PhaseEnded)}
    assert ended == {"steak": (1, PhaseStatus.FAILED), "pasta": (3, PhaseStatus.COMPLETED)}
    assert [(each.kind, each.name) for each in result.skipped] == [
        ("task", "rest"),
        ("phase", "serve"),
        ("task", "plate"),
    ]
    assert [each.name for each in result.outputs.values()] == ["boil"]


# --- stopping (E35) ---


def test_a_stop_ends_the_run_at_once_and_keeps_what_is_done_e35() -> None:
    tasks = [task("done", handler=works(1)), task("running", handler=works(9)), task("next", "running")]
    result, events = drive(parallel(*tasks), stop_after=2.5)
    assert events[-1].offset_s == 2.5
    assert (result.status, result.exit_reason) == (RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)
    assert [each.name for each in result.outputs.values()] == ["done"]
    assert result.cancelled == [1]
    assert [each.reason for each in result.skipped] == ["not started: the run was stopped"]
    assert result.failures == []
    assert only(events, TaskFailed).status is SpanStatus.CANCELLED


def test_a_task_that_ignores_its_cancellation_is_left_to_itself_and_named_e35() -> None:
    async def stubborn(_: TaskInput) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(AFTERMATH_S)
        await asyncio.sleep(AFTERMATH_S / 2)

    result, events = drive(parallel(task("mule", handler=stubborn), task("other", handler=works(9))), stop_after=2)
    assert events[-1].offset_s == 2 + CANCELLATION_LIMIT_S
    assert only(events, Warned).message == "Task 'mule' ignored its cancellation and is left to itself."
    assert sorted(result.cancelled) == [0, 1]


def test_what_a_task_raises_after_it_was_left_to_itself_is_not_printed_e35() -> None:
    complaints: list[dict[str, Any]] = []

    async def mule(_: TaskInput) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, facts: complaints.append(facts))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(AFTERMATH_S)
        await asyncio.sleep(AFTERMATH_S / 2)
        raise OSError("too late")

    drive(parallel(task("mule", handler=mule)), stop_after=2)
    gc.collect()
    assert complaints == []


@pytest.mark.parametrize("kind, number", [(TaskStarted, 2), (TaskCompleted, 1)])
def test_a_view_that_raises_ends_the_run_and_all_that_it_started(kind: type[Event], number: int) -> None:
    loop = VirtualLoop()
    seen: list[Event] = []
    done: list[str] = []

    def broken(event: Event) -> None:
        seen.append(event)
        if isinstance(event, kind) and sum(isinstance(each, kind) for each in seen) == number:
            raise ZeroDivisionError

    async def slow(given: TaskInput) -> None:
        await asyncio.sleep(1 + int(given.name))
        done.append(given.name)

    async def main() -> None:
        tasks = [task(str(each), handler=slow) for each in range(6)]
        made = parallel(*tasks, max_concurrency=2, error_strategy=CONTINUE)
        driver, _ = driver_of(made, LoopClock(loop), [broken])
        with pytest.raises(ZeroDivisionError):
            await driver.run()
        before = list(done)
        await asyncio.sleep(AFTERMATH_S)
        assert done == before
        assert driver.result.status is RunStatus.FAILED

    run_virtual(main(), loop)


def test_a_stopped_run_waits_for_no_model_and_leaves_nothing_behind_e35() -> None:
    loop = VirtualLoop()

    async def main() -> tuple[list[Event], int]:
        driver, events = driver_of(
            parallel(Task.of("Write", llm="local"), Task.of("Edit", llm="local")), LoopClock(loop)
        )
        loop.call_later(2, driver.stop, ExitReason.INTERRUPTED)
        await driver.run()
        await asyncio.sleep(0)
        return events, len(asyncio.all_tasks())

    events, left = run_virtual(main(), loop)
    assert events[-1].offset_s == 2
    assert only(events, Noted).message == "Fetching local."
    assert left == 1


def test_getting_a_model_ready_is_on_no_task_s_clock_e38() -> None:
    result, events = drive(parallel(Task.of("Write", llm="local", timeout=3)))
    error = result.failures[0].error
    assert str(error) == "The model of agent 'Writer' could not be made ready: OSError: the weights are gone"
    assert events[-1].offset_s == 1000


def test_a_second_stop_changes_nothing() -> None:
    loop = VirtualLoop()

    async def main() -> list[Event]:
        driver, events = driver_of(parallel(task("running", handler=works(9))), LoopClock(loop))
        for moment, reason in ((1, ExitReason.TIMEOUT), (1, ExitReason.INTERRUPTED)):
            loop.call_later(moment, driver.stop, reason)
        result = await driver.run()
        driver.stop(ExitReason.INTERRUPTED)
        assert (result.status, result.exit_reason) == (RunStatus.FAILED, ExitReason.TIMEOUT)
        return events

    events = run_virtual(main(), loop)
    assert sum(isinstance(each, RunEnded) for each in events) == 1


def test_a_cancelled_driver_stops_its_tasks_and_passes_the_cancellation_on_e35() -> None:
    loop = VirtualLoop()

    async def main() -> tuple[RunResult, list[Event], int]:
        driver, events = driver_of(parallel(task("running", handler=works(9))), LoopClock(loop))
        run = asyncio.ensure_future(driver.run())
        await asyncio.sleep(3)
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        return driver.result, events, len(asyncio.all_tasks())

    result, events, left = run_virtual(main(), loop)
    assert result.status is RunStatus.INTERRUPTED
    assert events[-1].offset_s == 3
    assert left == 1


# --- threads (E2, E15, E35) ---


def test_sync_handlers_work_side_by_side_on_threads_e2() -> None:
    meeting = threading.Barrier(3)
    names: set[str] = set()

    def meet(given: TaskInput) -> None:
        meeting.wait(30)
        names.add(threading.current_thread().name)

    result, _ = drive_for_real(parallel(*(task(name, handler=meet) for name in "abc")))
    assert len(result.outputs) == 3
    assert names == {"ensemble-call"}


@pytest.mark.parametrize("is_async", [False, True])
def test_handlers_see_the_callers_context_variables_e2(is_async: bool) -> None:
    user = contextvars.ContextVar("user", default="nobody")

    async def who_async(_: TaskInput) -> str:
        return user.get()

    def who(_: TaskInput) -> str:
        return user.get()

    def run() -> str:
        user.set("ada")
        result, _ = drive_for_real(parallel(task("who", handler=who_async if is_async else who)))
        return str(result.outputs[0].raw)

    assert contextvars.copy_context().run(run) == "ada"


def test_a_sync_handler_that_hangs_is_abandoned_on_stop_and_named_e35() -> None:
    started, release = threading.Event(), threading.Event()

    def hang(_: TaskInput) -> None:
        started.set()
        release.wait()

    async def stop(driver: Driver) -> None:
        assert await asyncio.to_thread(started.wait, 30)
        driver.stop(ExitReason.INTERRUPTED)

    try:
        result, events = drive_for_real(parallel(task("sleeper", handler=hang)), stop)
    finally:
        release.set()
    assert result.status is RunStatus.INTERRUPTED
    assert only(events, Warned).message == "Still running and left to itself: handler of sleeper."
    assert events[-1].offset_s < 20


def test_a_sync_handler_that_hangs_is_cut_off_at_its_timeout_e38() -> None:
    release = threading.Event()

    def hang(_: TaskInput) -> None:
        release.wait()

    try:
        result, _ = drive_for_real(parallel(task("sleeper", handler=hang, timeout=0.01)))
    finally:
        release.set()
    assert [type(failure.error) for failure in result.failures] == [DeadlineExceededError]


# --- the events ---


def test_a_run_tells_its_story_in_this_order() -> None:
    result, events = drive(
        EnsembleDefinition(tasks=[task("a", handler=works(1)), task("b", "a", handler=works(2))], name="duo")
    )
    assert [type(each) for each in events] == [
        RunStarted,
        PlanMade,
        TaskStarted,
        TaskInputPrepared,
        TaskCompleted,
        TaskStarted,
        TaskInputPrepared,
        TaskCompleted,
        RunEnded,
    ]
    assert [each.offset_s for each in events] == [0, 0, 0, 0, 1, 1, 1, 3, 3]
    start, second = events[0], events[5]
    assert isinstance(start, RunStarted)
    assert (start.name, start.workflow, start.span_id, start.parent_id) == ("duo", "sequential", "r", None)
    assert isinstance(second, TaskStarted)
    assert (second.task, second.index, second.total, second.agent) == ("b", 1, 2, "Handler")
    assert (second.depends_on, second.parent_id) == (("a",), "r")
    assert only(events, RunEnded).status is result.status is RunStatus.COMPLETED


class Secretive:
    def __str__(self) -> str:
        raise TypeError("no text for you")


def test_an_input_without_a_text_does_not_stop_the_run_that_does_not_use_its_text() -> None:
    result, events = drive(parallel(task("a"), inputs={"thing": Secretive(), "topic": 3}))
    assert result.status is RunStatus.COMPLETED
    assert only(events, RunStarted).inputs == {"thing": "<Secretive>", "topic": "3"}


def test_warnings_of_the_check_are_told_first() -> None:
    _, events = drive(parallel(task("a"), agents=[Agent(role="Idle", goal="Rest")]))
    assert [type(each) for each in events[:3]] == [RunStarted, PlanMade, Warned]
    assert only(events, Warned).message == "Agent 'Idle' has no task."


@st.composite
def eventful(draw: st.DrawFn) -> tuple[EnsembleDefinition, float | None]:
    """Phases of tasks that work, fail or run late, perhaps stopped in the middle."""
    kinds = st.tuples(st.sampled_from(["works", "fails", "late"]), DURATIONS)
    phases = []
    for number in range(draw(st.integers(1, 4))):
        tasks = []
        for kind, seconds in draw(st.lists(kinds, min_size=1, max_size=3)):
            handler = fails(seconds) if kind == "fails" else works(seconds)
            limit = 0.5 if kind == "late" else None
            tasks.append(Task.of("Hm", handler=handler, timeout=limit))
        after = [f"p{each}" for each in draw(st.sets(st.integers(0, number - 1)))] if number else []
        phases.append(
            Phase.of(f"p{number}", *tasks, after=after, workflow=draw(st.sampled_from([Workflow.SEQUENTIAL, PARALLEL])))
        )
    made = EnsembleDefinition(
        phases=phases,
        error_strategy=draw(st.sampled_from(list(ErrorStrategy))),
        max_concurrency=draw(st.none() | st.integers(1, 2)),
    )
    return made, draw(st.none() | DURATIONS)


@given(eventful())
def test_every_span_ends_exactly_once_whatever_happens(case: tuple[EnsembleDefinition, float | None]) -> None:
    made, stop_after = case
    result, events = drive(made, stop_after)
    assert [each.seq for each in events] == list(range(len(events)))
    assert [each.offset_s for each in events] == sorted(each.offset_s for each in events)
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    plan = only(events, PlanMade)
    open_spans: set[str] = set()
    closed: set[str] = set()
    for each in events:
        if isinstance(each, RunStarted | PhaseStarted | TaskStarted):
            assert each.span_id not in open_spans | closed
            assert each.parent_id is None or each.parent_id in open_spans
            open_spans.add(each.span_id)
        elif isinstance(each, RunEnded | PhaseEnded | TaskCompleted | TaskFailed):
            open_spans.remove(each.span_id)
            closed.add(each.span_id)
        elif isinstance(each, TaskSkipped | PhaseSkipped):
            assert each.span_id not in open_spans | closed
            closed.add(each.span_id)
    assert open_spans == set()
    assert closed == {"r", *plan.task_span_ids, *plan.phase_span_ids}
    tasks = [row.name for row in plan.plan.tasks]
    resolved = [
        *(each.name for each in result.outputs.values()),
        *(failure.name for failure in result.failures),
        *(tasks[index] for index in result.cancelled),
        *(each.name for each in result.skipped if each.kind == "task"),
    ]
    assert sorted(resolved) == sorted(tasks)


def test_ten_thousand_tasks_make_three_events_each_and_no_thread() -> None:
    async def nothing(_: TaskInput) -> None: ...

    before = set(threading.enumerate())
    result, events = drive(parallel(*(task(f"t{number}", handler=nothing) for number in range(10_000))))
    assert len(result.outputs) == 10_000
    assert len(events) == 2 + 3 * 10_000 + 1
    assert set(threading.enumerate()) <= before


def test_a_chain_takes_one_turn_of_the_loop_for_each_task() -> None:
    async def at_once(_: TaskInput) -> str:
        return "done"

    async def main() -> int:
        names = [f"t{number}" for number in range(50)]
        tasks = [task(name, *before, handler=at_once) for name, before in zip(names, [(), *zip(names)], strict=False)]
        driver, _ = driver_of(parallel(*tasks), SystemClock())
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(count)

        loop = asyncio.get_running_loop()
        loop.call_soon(count)
        result = await driver.run()
        assert len(result.outputs) == len(names)
        return turns

    assert asyncio.run(main()) < 60
