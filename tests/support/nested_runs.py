"""Runs inside runs: an inner one, the places in a task where it may be begun, and its stop (E52)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    RunHandle,
    RunInterrupted,
    Task,
    TaskOutput,
    ToolUse,
)
from tests.conformance.scene import done, scripted
from tests.support.limits import meet_limit
from tests.support.openai_server import Answer, OpenAIServer


def make_inner(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Say a", name="in-a"), Task.of("Say b", name="in-b")], llm=llm, **fields)


def nest_in_handler(inner: Ensemble) -> Task:
    return done("outer", handler=lambda given: inner.run().raw)


def nest_in_async_handler(inner: Ensemble) -> Task:
    async def handle(given: Any) -> str:
        return (await inner.arun()).raw

    return done("outer", handler=handle)


def nest_in_tool(inner: Ensemble) -> Task:
    def ask(question: str) -> str:
        """Ask."""
        return inner.run().raw

    model = scripted(ToolUse("ask", {"question": "x"}), "Told.")
    return Task.of("Ask", name="outer", agent=Agent(role="Asker", goal="Ask", llm=model, tools=[ask]))


def nest_in_guardrail(inner: Ensemble) -> Task:
    def look(output: TaskOutput) -> None:
        inner.run()

    return done("outer", output_guardrails=look)


PLACES: list[Callable[[Ensemble], Task]] = [nest_in_handler, nest_in_async_handler, nest_in_tool, nest_in_guardrail]


def stop_inside(server: OpenAIServer, make: Callable[[], Ensemble], *, is_timeout: bool) -> EnsembleOutput:
    """Stop a run while the run inside waits for its model: its request is given up, and no other one is sent."""
    server.default = Answer(delay=300)

    def run_for(limit_s: float | None) -> RunHandle:
        server.requests.clear()
        handle = make().start(timeout=limit_s)
        if limit_s is None:
            wait_for(lambda: bool(server.requests))
            handle.cancel()
        with pytest.raises(RunInterrupted if limit_s is None else DeadlineExceededError):
            handle.result(60)
        return handle

    handle = meet_limit(run_for, lambda _: server.requests, 0.4) if is_timeout else run_for(None)
    wait_for(lambda: server.requests[0].closed_at is not None)
    assert server.requests[0].is_disconnected
    time.sleep(0.5)
    assert len(server.requests) == 1
    assert handle.output is not None
    return handle.output


def wait_for(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)
