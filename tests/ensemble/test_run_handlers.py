"""Running ensembles of handlers from everywhere: scripts, threads, loops; stopped, timed out, left early (E4, E35)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event, RunEnded, RunStarted, TaskCompleted, TaskStarted
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.errors import (
    DeadlineExceededError,
    PromptTemplateError,
    TaskExecutionError,
    ValidationError,
)
from tests.support.limits import meet_limit

PATIENCE_S = 30.0
USER = contextvars.ContextVar("USER", default="nobody")


async def echo(given: TaskInput) -> str:
    return f"{given.name}: {given.description}"


async def fail(given: TaskInput) -> str:
    raise ValueError("broken")


async def forever(_: TaskInput) -> None:
    await asyncio.Event().wait()


def task(name: str, handler: Any = echo, **fields: Any) -> Task:
    return Task.of(fields.pop("description", name), name=name, handler=handler, **fields)


def in_thread(work: Callable[[], Any]) -> Any:
    """The result of `work` on a new thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return results[0]


GREETING = Ensemble(tasks=[task("greet", description="Hello {name}")])


async def greet_on_a_loop() -> str:
    return (await GREETING.arun(name="Ada")).raw


async def greet_blocking_a_loop() -> str:
    return GREETING.run(name="Ada").raw


# --- everywhere the same (E4) ---


@pytest.mark.parametrize(
    "run",
    [
        lambda: GREETING.run({"name": "Ada"}).raw,
        lambda: GREETING.run(name="Ada").raw,
        lambda: GREETING.start(name="Ada").result(PATIENCE_S).raw,
        lambda: in_thread(lambda: GREETING.run(name="Ada").raw),
        lambda: asyncio.run(greet_on_a_loop()),
        lambda: asyncio.run(greet_blocking_a_loop()),
    ],
    ids=["run", "run with keywords", "start", "run in a thread", "arun", "run inside a running loop"],
)
def test_a_run_is_the_same_from_everywhere_e4(run: Callable[[], str]) -> None:
    assert run() == "greet: Hello Ada"


def test_a_sync_handler_may_run_another_ensemble() -> None:
    def nested(_: TaskInput) -> str:
        return GREETING.run(name="Ada").raw

    assert Ensemble(tasks=[task("outer", nested)]).run().raw == "greet: Hello Ada"


def test_an_async_handler_may_await_another_ensemble() -> None:
    async def nested(_: TaskInput) -> str:
        return (await GREETING.arun(name="Ada")).raw

    assert Ensemble(tasks=[task("outer", nested)]).run().raw == "greet: Hello Ada"


def test_one_ensemble_runs_several_times_at_once_each_on_its_own_e4() -> None:
    meeting = threading.Barrier(2)

    def meet(given: TaskInput) -> str:
        meeting.wait(PATIENCE_S)
        return str(given.inputs["number"])

    ensemble = Ensemble(tasks=[task("meet", meet)])
    handles = [ensemble.start(number=number) for number in range(2)]
    assert [handle.result(PATIENCE_S).raw for handle in handles] == ["0", "1"]
    assert handles[0].run_id != handles[1].run_id
    assert {event.run_id for event in handles[0].events} == {handles[0].run_id}


@pytest.mark.parametrize("is_async", [False, True])
def test_handlers_and_listeners_see_the_callers_context_variables_e2(is_async: bool) -> None:
    heard: list[str] = []

    async def who_async(_: TaskInput) -> str:
        return USER.get()

    def who(_: TaskInput) -> str:
        return USER.get()

    token = USER.set("ada")
    try:
        handler = who_async if is_async else who
        output = Ensemble(tasks=[task("who", handler)], listeners=[lambda _: heard.append(USER.get())]).run()
    finally:
        USER.reset(token)
    assert output.raw == "ada"
    assert set(heard) == {"ada"}


# --- inputs (E6) ---


def test_inputs_of_a_run_win_over_defaults_and_keywords_over_both_e6() -> None:
    ensemble = Ensemble(tasks=[task("t", description="{a}{b}{c}")], inputs={"a": 1, "b": 1, "c": 1})
    assert ensemble.run({"b": 2, "c": 2}, c=3).raw == "t: 123"
    assert ensemble.plan({"b": 2, "c": 2}, c=3).tasks[0].description == "123"


def test_nothing_runs_while_a_variable_is_missing_anywhere_e6() -> None:
    ran: list[str] = []
    ensemble = Ensemble(tasks=[task("a", lambda given: ran.append(given.name)), task("b", description="{x} {y}")])
    with pytest.raises(PromptTemplateError) as caught:
        ensemble.run(y=1)
    assert caught.value.missing_variables == ("x",)
    assert (ran, caught.value.output) == ([], None)


def test_the_tasks_are_unchanged_by_a_run_e6() -> None:
    made = task("t", description="Hello {name}")
    Ensemble(tasks=[made]).run(name="Ada")
    assert made.description == "Hello {name}"


@pytest.mark.parametrize("timeout", [0, -1, "10", True, float("nan")], ids=repr)
def test_a_timeout_is_seconds_above_0_e4(timeout: Any) -> None:
    with pytest.raises(ValidationError, match="timeout must be seconds > 0 or None"):
        GREETING.run(timeout=timeout, name="Ada")


@pytest.mark.parametrize("ask", [GREETING.run, GREETING.start, GREETING.plan], ids=lambda ask: ask.__name__)
def test_inputs_map_names_to_values(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(ValidationError, match="inputs must map names to values, got list"):
        ask(["name"])


def test_a_plan_leaves_missing_variables_as_they_are() -> None:
    assert GREETING.plan().tasks[0].description == "Hello {name}"


def test_validating_tells_what_is_odd_and_runs_nothing_e5() -> None:
    assert GREETING.validate() == ()
    with pytest.raises(ValidationError, match="at least one task"):
        Ensemble().validate()


def test_a_tool_that_no_model_can_be_shown_is_found_before_anything_runs_e5() -> None:
    def look(city: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        return ""

    ran: list[TaskInput] = []
    scout = Agent(role="Scout", goal="Look", llm="scripted", tools=[look])
    ensemble = Ensemble(tasks=[task("first", ran.append), Task.of("Look", agent=scout)])
    with pytest.raises(
        ValidationError, match=r"Tool at index 0 \(look\) can't be shown to a model: NameError"
    ) as caught:
        ensemble.run()
    assert (caught.value.problems[0].subject, ran) == (scout, [])


@pytest.mark.parametrize("holder", ["task", "agent", "ensemble"])
def test_a_model_that_can_not_be_had_is_told_where_it_is_named_e5(holder: str) -> None:
    wrong = {"llm": "opnai:m"}
    agent = Agent(role="Scout", goal="Look", **(wrong if holder == "agent" else {}))
    made = Task.of("Look", agent=agent, **(wrong if holder == "task" else {}))
    ensemble = Ensemble(tasks=[made], **(wrong if holder == "ensemble" else {}))
    with pytest.raises(ValidationError) as caught:
        ensemble.validate()
    (problem,) = caught.value.problems
    assert problem.subject is {"task": made, "agent": agent, "ensemble": ensemble}[holder]
    assert problem.field == "llm"


# --- timeouts (E4) ---


def test_a_run_past_its_timeout_stops_and_keeps_what_is_done_e4() -> None:
    ensemble = Ensemble(tasks=[task("quick"), task("slow", forever), task("next")])

    def run(limit_s: float) -> DeadlineExceededError:
        with pytest.raises(DeadlineExceededError) as caught:
            ensemble.run(timeout=limit_s)
        assert (caught.value.scope, caught.value.timeout_s) == ("run", limit_s)
        return caught.value

    error = meet_limit(run, lambda error: error.running == "'slow'", 0.05)
    assert isinstance(error.output, EnsembleOutput)
    assert (error.output.status, error.output.exit_reason) == (RunStatus.FAILED, ExitReason.TIMEOUT)
    assert [each.name for each in error.output] == ["quick"]


def test_a_run_within_its_timeout_is_left_alone() -> None:
    assert GREETING.run(timeout=PATIENCE_S, name="Ada").status is RunStatus.COMPLETED


# --- arun and astream on the caller's loop ---


def test_a_cancelled_arun_stops_its_tasks_and_leaves_nothing_behind_e35() -> None:
    begun, ended = asyncio.Event(), []

    async def wait(_: TaskInput) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def main() -> int:
        run = asyncio.ensure_future(Ensemble(tasks=[task("slow", wait)]).arun())
        await begun.wait()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert ended == [True]


async def collected(ensemble: Ensemble, events: list[Event]) -> None:
    async for event in ensemble.astream():
        events += [event]


def test_a_stream_gives_every_event_from_first_to_last_e4() -> None:
    events: list[Event] = []
    asyncio.run(collected(Ensemble(tasks=[task("a"), task("b")]), events))
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)


def test_a_stream_raises_after_its_last_event_what_run_raises_e4() -> None:
    events: list[Event] = []
    with pytest.raises(TaskExecutionError, match="broken"):
        asyncio.run(collected(Ensemble(tasks=[task("a", fail)]), events))
    assert isinstance(events[-1], RunEnded)


def test_a_stream_runs_on_the_callers_loop() -> None:
    async def where(_: TaskInput) -> str:
        return threading.current_thread().name

    async def main() -> list[str]:
        stream = Ensemble(tasks=[task("where", where)]).astream()
        return [event.output.raw async for event in stream if isinstance(event, TaskCompleted)]

    assert asyncio.run(main()) == [threading.main_thread().name]


def test_leaving_a_stream_early_stops_the_run_e4() -> None:
    ended: list[bool] = []

    async def wait(_: TaskInput) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def main() -> int:
        stream = Ensemble(tasks=[task("slow", wait)]).astream()
        async for event in stream:
            if isinstance(event, TaskStarted):
                break
        await asyncio.sleep(0)
        await stream.aclose()  # type: ignore[attr-defined]
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert ended == [True]


def test_a_cancelled_reader_of_a_stream_stops_the_run() -> None:
    begun = asyncio.Event()

    async def wait(_: TaskInput) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> int:
        reading = asyncio.ensure_future(collected(Ensemble(tasks=[task("slow", wait)]), []))
        await begun.wait()
        reading.cancel()
        await asyncio.wait([reading])
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1


# --- what must not hang ---


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_task_of_a_handler_that_wants_to_end_the_process_ends_only_its_run(error: BaseException) -> None:
    async def inner() -> None:
        raise error

    async def outer(_: TaskInput) -> None:
        await asyncio.gather(inner())

    with pytest.raises(TaskExecutionError, match=type(error).__name__):
        Ensemble(tasks=[task("outer", outer)]).start().result(PATIENCE_S)
    assert GREETING.start(name="Ada").result(PATIENCE_S).raw == "greet: Hello Ada"


@pytest.fixture
def broken_logging(request: pytest.FixtureRequest) -> Iterator[None]:
    """An application whose logging raises at one level."""
    logger = logging.getLogger("ensemble_notebook.run")

    def refuse(record: logging.LogRecord) -> bool:
        if record.levelno == request.param:
            raise ZeroDivisionError("in the application's filter")
        return True

    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addFilter(refuse)
    yield
    logger.removeFilter(refuse)
    logger.setLevel(before)


@pytest.mark.parametrize("broken_logging", [logging.INFO, logging.WARNING], indirect=True)
@pytest.mark.usefixtures("broken_logging")
def test_logging_that_raises_ends_the_run_and_is_told() -> None:
    handle = Ensemble(tasks=[task("a", fail), task("b", forever)], workflow="parallel").start()
    with pytest.raises(ZeroDivisionError):
        handle.result(PATIENCE_S)
    assert handle.status is RunStatus.FAILED


def test_an_error_says_no_secret_that_a_handler_let_out_t7() -> None:
    key = "sk-" + "a1b2" * 6

    async def leak(_: TaskInput) -> None:
        raise PermissionError(f"{key} is refused")

    with pytest.raises(TaskExecutionError, match=r"PermissionError: \*\*\* is refused") as caught:
        Ensemble(tasks=[task("a", leak)]).run()
    assert key not in "\n".join([*caught.value._render_traceback_(), *caught.value._render_traceback_()])


# --- a person at the keyboard (E35) ---

PROGRAM = """
import asyncio, sys, threading
from ensemble_notebook import Ensemble, RunInterrupted, Task

async def quick(given):
    return given.name

async def wait(given):
    print("waiting", flush=True)
    await asyncio.Event().wait()

def hang(given):
    print("waiting", flush=True)
    threading.Event().wait()

ensemble = Ensemble(tasks=[Task.of("a", name="a", handler=quick), Task.of("b", name="b", handler={handler})])
"""

CAUGHT = """
try:
    ensemble.run()
except RunInterrupted as stopped:
    output = stopped.output
    print(stopped, [each.name for each in output], output.status.value, *output.warnings, sep="|")
print(Ensemble(tasks=[Task.of("again", name="again", handler=quick)]).run().raw)
"""


def interrupted(program: str) -> subprocess.CompletedProcess[str]:
    """What a script prints that gets SIGINT as soon as it is waiting."""
    script = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert script.stdout is not None
        assert script.stdout.readline() == "waiting\n"
        script.send_signal(signal.SIGINT)
        out, err = script.communicate(timeout=60)
    finally:
        script.kill()
    return subprocess.CompletedProcess(script.args, script.returncode, out, err)


def test_an_interrupt_keeps_what_is_done_and_the_next_run_works_e35() -> None:
    done = interrupted(PROGRAM.format(handler="wait") + CAUGHT)
    assert done.stdout == "1 of 2 tasks are done and kept.|['a']|interrupted\nagain\n"
    assert (done.stderr, done.returncode) == ("", 0)


def test_an_interrupt_leaves_a_hanging_function_behind_and_names_it_e35() -> None:
    done = interrupted(PROGRAM.format(handler="hang") + CAUGHT)
    assert done.stdout == (
        "1 of 2 tasks are done and kept.|['a']|interrupted|Still running and left to itself: handler of b.\nagain\n"
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_an_interrupt_that_nobody_catches_ends_the_script_e35() -> None:
    done = interrupted(PROGRAM.format(handler="wait") + "try:\n    ensemble.run()\nexcept Exception:\n    print('no')")
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.rstrip().endswith("RunInterrupted: 1 of 2 tasks are done and kept.")
    assert "During handling" not in done.stderr
