"""One run from the outside: watched, stopped, waited for (E4, E35)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.lib.pretty import pretty

from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event, RunEnded, TaskCompleted
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.errors import (
    EnsembleError,
    PromptTemplateError,
    RunInterrupted,
    TaskExecutionError,
    ValidationError,
)

PATIENCE_S = 30.0


class Gate:
    """A handler that waits until it is let through; says when it has begun."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._open: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def __call__(self, given: TaskInput) -> str:
        event = asyncio.Event()
        self._open = asyncio.get_running_loop(), event
        self.begun.set()
        await event.wait()
        return f"{given.name}!"

    def open(self) -> None:
        assert self._open is not None
        loop, event = self._open
        loop.call_soon_threadsafe(event.set)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def held(gate: Gate) -> Iterator[RunHandle]:
    """A run of three tasks: the first is done, the second waits at the gate, the third has not begun."""
    tasks = [Task.of(name, name=name, handler=handler) for name, handler in zip("abc", (echo, gate, echo), strict=True)]
    handle = Ensemble(tasks=tasks, name="trio").start()
    assert gate.begun.wait(PATIENCE_S)
    yield handle
    handle.cancel()
    handle._get_end().result(PATIENCE_S)


async def echo(given: TaskInput) -> str:
    return f"{given.name}!"


async def fail(given: TaskInput) -> str:
    raise ValueError("broken")


def started(handler: Any) -> RunHandle:
    return Ensemble(tasks=[Task.of("Hm", name="only", handler=handler)]).start()


def test_a_handle_follows_its_run_from_start_to_end_e4(held: RunHandle, gate: Gate) -> None:
    assert (held.status, held.is_done, held.output, held.name) == (RunStatus.RUNNING, False, None, "trio")
    assert held.plan.critical_path == ("a", "b", "c")
    assert repr(held) == "<RunHandle trio: running>"
    assert pretty(held).startswith("trio goes on, 1 of 3 tasks done. Its handle: `.result()` waits for the end")
    seen = list(held.events)
    assert sum(isinstance(event, TaskCompleted) for event in seen) == 1
    gate.open()
    output = held.result(PATIENCE_S)
    assert output.raw == "c!"
    assert (held.status, held.is_done) == (RunStatus.COMPLETED, True)
    assert held.output is output
    assert list(held.events)[: len(seen)] == seen
    assert isinstance(held.events[-1], RunEnded)
    assert repr(held) == "<RunHandle trio: completed>"
    assert pretty(held) == "trio: completed. Its handle: `.result()` gives the output."


def test_the_result_is_the_same_each_time() -> None:
    handle = started(echo)
    assert handle.result(PATIENCE_S) is handle.result(PATIENCE_S)


def test_a_failure_is_raised_each_time_and_its_output_stays_on_the_handle_e32() -> None:
    handle = started(fail)
    for _ in range(2):
        with pytest.raises(TaskExecutionError) as caught:
            handle.result(PATIENCE_S)
        assert caught.value.output is handle.output is not None
    assert handle.status is RunStatus.FAILED


def test_waiting_may_end_before_the_run_does(held: RunHandle, gate: Gate) -> None:
    with pytest.raises(TimeoutError, match=r"is still going after 0\.01 s; it was not stopped"):
        held.result(timeout=0.01)
    assert held.status is RunStatus.RUNNING
    gate.open()
    assert held.result(PATIENCE_S).raw == "c!"


def test_mistakes_are_raised_at_the_start_e4() -> None:
    with pytest.raises(PromptTemplateError):
        Ensemble(tasks=[Task.of("Write {topic}", handler=echo)]).start()
    with pytest.raises(ValidationError):
        Ensemble().start()


# --- stopping (E35) ---


def test_a_cancelled_run_keeps_what_is_done_and_says_so_e35(held: RunHandle) -> None:
    held.cancel()
    with pytest.raises(RunInterrupted, match=r"^1 of 3 tasks are done and kept\.$") as caught:
        held.result(PATIENCE_S)
    output = held.output
    assert output is caught.value.output
    assert output is not None
    assert [each.name for each in output] == ["a"]
    assert (output.status, output.exit_reason) == (RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)
    assert [each.reason for each in output.skipped] == ["not started: the run was stopped"]
    with pytest.raises(KeyError, match="Task 'b' was stopped"):
        output["b"]


def test_any_thread_may_cancel_e35(held: RunHandle) -> None:
    thread = threading.Thread(target=held.cancel)
    thread.start()
    with pytest.raises(RunInterrupted):
        held.result(PATIENCE_S)
    thread.join(PATIENCE_S)


def test_a_run_that_is_cancelled_before_its_first_step_runs_nothing() -> None:
    ran: list[TaskInput] = []
    held_up = threading.Event()
    loop_thread().loop.call_soon_threadsafe(held_up.wait, PATIENCE_S)
    handle = started(ran.append)
    assert handle.status is RunStatus.PENDING
    assert list(handle.events) == []
    handle.cancel()
    held_up.set()
    with pytest.raises(RunInterrupted):
        handle.result(PATIENCE_S)
    assert ran == []


def test_cancelling_after_the_end_changes_nothing() -> None:
    handle = started(echo)
    output = handle.result(PATIENCE_S)
    handle.cancel()
    assert handle.result(PATIENCE_S) is output
    assert handle.status is RunStatus.COMPLETED


# --- on event loops ---


def test_a_handle_may_be_awaited_on_any_loop_e4(held: RunHandle, gate: Gate) -> None:
    async def main() -> str:
        gate.open()
        return (await held).raw

    assert asyncio.run(main()) == "c!"


def test_giving_up_awaiting_does_not_stop_the_run(held: RunHandle, gate: Gate) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(held, 0.01)

    asyncio.run(main())
    assert held.status is RunStatus.RUNNING
    gate.open()
    assert held.result(PATIENCE_S).raw == "c!"


def test_blocking_the_loop_that_the_run_needs_is_refused() -> None:
    refused: list[str] = []

    async def nested(_: TaskInput) -> None:
        inner = started(echo)
        for block in (inner.result, Ensemble(tasks=[Task.of("Hm", handler=echo)]).run):
            with pytest.raises(EnsembleError, match="would block the loop") as caught:
                block()
            refused.append(str(caught.value))
        await inner

    started(nested).result(PATIENCE_S)
    assert [text.split()[0] for text in refused] == ["result()", "run()"]


# --- listeners ---


def test_one_run_may_have_listeners_of_its_own() -> None:
    always: list[Event] = []
    once: list[Event] = []
    ensemble = Ensemble(tasks=[Task.of("Hm", handler=echo)], listeners=[always.append])
    handle = ensemble.start(listeners=[once.append])
    handle.result(PATIENCE_S)
    assert once == always == list(handle.events)
    ensemble.start().result(PATIENCE_S)
    assert len(always) == 2 * len(once)
