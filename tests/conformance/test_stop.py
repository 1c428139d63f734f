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
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

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
    TaskExecutionError,
)
from tests.conformance.scene import of, run_cell, scripted
from tests.support.openai_server import Answer, OpenAIServer

# A second is given to what holds a run up, which would do so for minutes. The rest is for what a busy machine takes.
MOST_S = 20.0
STALL_S = 240.0


class Stall:
    """Tools that hold a run up, each in its own way, until the test is over."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.is_over = threading.Event()

    def _wait_until(self) -> float:
        self.began.set()
        return time.monotonic() + STALL_S

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
        self.is_over.wait(STALL_S)
        return "Go on."

    async def swallow_then_block(self, text: str) -> str:
        """Hold up."""
        await self.swallow(text)
        return await self.block(text)

    def sleep(self, text: str) -> str:
        """Hold up."""
        self._wait_until()
        self.is_over.wait(STALL_S)
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
    assert stall.began.wait(60)
    time.sleep(pause_s)
    stopped = time.monotonic()
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result(60)
    assert time.monotonic() - stopped < MOST_S
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
        stall.began.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    with pytest.raises(RunInterrupted) as caught:
        run_cell("- {name: a, description: A, handler: block}", block=stall.block)
    thread.join()
    assert time.monotonic() - started < MOST_S
    assert any("The event loop is blocked" in each for each in caught.value.output.warnings)


def test_e66_a_timeout_ends_a_run_though_a_tool_blocks_the_loop(stall: Stall) -> None:
    async def block(given: Any) -> str:
        return await stall.block("")

    started = time.monotonic()
    with pytest.raises(DeadlineExceededError) as caught:
        Ensemble(tasks=[Task.of("A", handler=block)]).run(timeout=0.2)
    assert time.monotonic() - started < MOST_S
    assert caught.value.output.exit_reason is ExitReason.TIMEOUT


def test_e66_a_run_that_could_not_begin_for_another_one_ends_at_its_interrupt(stall: Stall) -> None:
    async def block(given: Any) -> str:
        return await stall.block("")

    first = Ensemble(tasks=[Task.of("A", handler=block)]).start()
    assert stall.began.wait(60)
    second = Ensemble(tasks=[Task.of("B", llm=scripted("b"))]).start()
    second.cancel()
    with pytest.raises(RunInterrupted):
        second.result(60)
    stall.is_over.set()
    assert first.result(60).raw == "Go on."


class Holdup(AsyncCallbackHandler):
    """A callback of a model that holds its request up, in the way of one of the tools."""

    def __init__(self, hold: Any, *, is_inline: bool) -> None:
        self.run_inline = is_inline
        self._hold = hold

    async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Hold up."""
        await self._hold("")


@pytest.mark.parametrize("is_inline", [True, False])
@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("kind", ["swallow", "swallow_and_work_on", "block", "swallow_then_block"])
def test_e66_a_callback_that_keeps_the_stop_to_itself_brings_no_request_to_be_sent(
    server: OpenAIServer, stall: Stall, kind: str, is_streamed: bool, is_inline: bool
) -> None:
    hold = Holdup(getattr(stall, kind), is_inline=is_inline)
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k", streaming=is_streamed, callbacks=[hold])
    handle = Ensemble(tasks=[Task.of("Cook", name="cook", llm=model), Task.of("Next", llm=model)]).start()
    assert stall.began.wait(60)
    stopped = time.monotonic()
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result(60)
    assert time.monotonic() - stopped < MOST_S
    stall.is_over.set()
    time.sleep(1)
    assert server.requests == []
    if kind.endswith("block") or (is_inline and kind != "swallow"):  # it goes on, and is named
        assert any("left to itself" in each for each in caught.value.output.warnings)


def test_e66_a_callback_that_keeps_the_timeout_of_a_request_to_itself_does_not_get_it_sent(
    server: OpenAIServer, stall: Stall
) -> None:
    hold = Holdup(stall.swallow, is_inline=True)
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k", callbacks=[hold])
    agent = Agent(role="Cook", goal="Feed", llm=model, llm_timeout=0.3)
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[Task.of("Cook", agent=agent)]).run()
    assert "llm_timeout" in str(caught.value)
    assert server.requests == []


def test_e66_callbacks_in_the_context_of_whoever_runs_are_still_heard(server: OpenAIServer) -> None:
    heard: list[str] = []

    class Hear(AsyncCallbackHandler):
        async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            heard.append("start")

    def ask(_: Any) -> str:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="k")
        return Ensemble(tasks=[Task.of("Cook", llm=model)]).run().raw

    assert RunnableLambda(ask).invoke("", config={"callbacks": [Hear()]}) == "ok"
    assert heard == ["start"]
