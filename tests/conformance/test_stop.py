"""E66: after a stop nothing is sent, and one interrupt ends a run within a second, whatever tools and handlers do."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    ExitReason,
    LlmAttemptEnded,
    LlmAttemptStarted,
    RunInterrupted,
    RunStatus,
    Task,
)
from tests.conformance.scene import of, run_cell, scripted
from tests.support.openai_server import Answer, OpenAIServer

pytestmark = pytest.mark.slow  # waits, servers and long replies: not for `make quick`

LIMIT_S = 1.0
SLACK_S = 0.7  # what a loaded machine may take beside


class Stall:
    """Tools that hold a run up, each in its own way, until the test is over or a few seconds are."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.is_over = threading.Event()

    def _wait_until(self) -> float:
        self.began.set()
        return time.monotonic() + 6

    async def swallow(self, text: str) -> str:
        """Hold up."""
        end = self._wait_until()
        while time.monotonic() < end and not self.is_over.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                return "Go on."
        return "Never stopped."

    async def swallow_and_work_on(self, text: str) -> str:
        """Hold up."""
        try:
            await self.swallow(text)
            await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0.8)
        return "Go on."

    async def block(self, text: str) -> str:
        """Hold up."""
        self._wait_until()
        self.is_over.wait(6)
        return "Go on."

    async def swallow_then_block(self, text: str) -> str:
        """Hold up."""
        await self.swallow(text)
        return await self.block(text)

    def sleep(self, text: str) -> str:
        """Hold up."""
        self._wait_until()
        self.is_over.wait(6)
        return "Go on."

    def keep_busy(self, text: str) -> str:
        """Hold up."""
        end = self._wait_until()
        while time.monotonic() < end and not self.is_over.is_set():
            sum(range(1000))
        return "Go on."


KINDS = ("swallow", "swallow_and_work_on", "block", "swallow_then_block", "sleep", "keep_busy")


@pytest.fixture
def stall() -> Iterator[Stall]:
    stall = Stall()
    yield stall
    stall.is_over.set()


def ask_for(name: str) -> Answer:
    return Answer(None, calls=[(name, {"text": "x"})], usage=(30, 4))


def stop_and_look(server: OpenAIServer, stall: Stall, ensemble: Ensemble, pause_s: float) -> EnsembleOutput:
    """Interrupt a run in its tool; it must end in time and send nothing after that."""
    handle = ensemble.start()
    assert stall.began.wait(10)
    time.sleep(pause_s)
    stopped = time.monotonic()
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result(10)
    assert time.monotonic() - stopped < LIMIT_S + SLACK_S
    sent = len(server.requests)
    output = caught.value.output
    assert (output.status, output.exit_reason) == (RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)
    stall.is_over.set()
    time.sleep(0.3)
    assert len(server.requests) == sent == sum(each.task == "cook" for each in of(output, LlmAttemptStarted))
    billed = [each.usage for each in of(output, LlmAttemptEnded) if each.task == "cook"]
    assert (sum(each.input_tokens or 0 for each in billed), sum(each.output_tokens or 0 for each in billed)) == (
        server.used_tokens
    )
    return output


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_e66_an_interrupt_in_a_tool_of_any_kind_ends_the_run_and_its_requests(
    server: OpenAIServer, llm: str, stall: Stall, kind: str, seed: int
) -> None:
    chance = random.Random(f"{kind} {seed}")
    server.script(ask_for(kind))
    server.default = ask_for(kind)
    agent = Agent(role="Cook", goal="Feed", llm=llm, tools=[getattr(stall, kind)])
    tasks = [Task.of("Cook", name="cook", agent=agent)]
    tasks += [Task.of(f"Wait {n}", llm=scripted("ok")) for n in range(chance.randrange(3))]
    workflow = chance.choice(["sequential", "parallel"])
    output = stop_and_look(server, stall, Ensemble(tasks=tasks, workflow=workflow), chance.random() / 5)
    if kind == "block":
        (warning,) = [each for each in output.warnings if each.startswith("The event loop is blocked at")]
        assert "test_stop.py" in warning
        assert " in block" in warning
    assert Ensemble(tasks=[Task.of("Next", llm=scripted("ok"))]).run().raw == "ok"


def test_e66_a_handler_that_swallows_its_cancellation_brings_no_later_task_and_no_fallback_to_ask(
    server: OpenAIServer, llm: str, stall: Stall
) -> None:
    async def turn_into_a_fault(given: Any) -> str:
        await stall.swallow("")
        raise ValueError("stopped")

    cook = Task.of("Cook", name="cook", handler=turn_into_a_fault, fallback=Agent(role="B", goal="g", llm=llm))
    output = stop_and_look(server, stall, Ensemble(tasks=[cook, Task.of("Next", llm=llm)]), 0)
    assert output.metrics.total_tokens == 0


def test_e66_one_interrupt_ends_a_cell_though_a_tool_blocks_the_loop(stall: Stall) -> None:
    def interrupt() -> None:
        stall.began.wait(10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    with pytest.raises(RunInterrupted) as caught:
        run_cell("- {name: a, description: A, handler: block}", block=stall.block)
    thread.join()
    assert time.monotonic() - started < 3
    assert any("The event loop is blocked" in each for each in caught.value.output.warnings)


def test_e66_a_timeout_ends_a_run_though_a_tool_blocks_the_loop(stall: Stall) -> None:
    async def block(given: Any) -> str:
        return await stall.block("")

    started = time.monotonic()
    with pytest.raises(DeadlineExceededError) as caught:
        Ensemble(tasks=[Task.of("A", handler=block)]).run(timeout=0.2)
    assert time.monotonic() - started < 0.2 + LIMIT_S + SLACK_S
    assert caught.value.output.exit_reason is ExitReason.TIMEOUT


def test_e66_a_run_that_could_not_begin_for_another_one_ends_at_its_interrupt(stall: Stall) -> None:
    async def block(given: Any) -> str:
        return await stall.block("")

    first = Ensemble(tasks=[Task.of("A", handler=block)]).start()
    assert stall.began.wait(10)
    second = Ensemble(tasks=[Task.of("B", llm=scripted("b"))]).start()
    second.cancel()
    with pytest.raises(RunInterrupted):
        second.result(5)
    stall.is_over.set()
    assert first.result(5).raw == "Go on."
