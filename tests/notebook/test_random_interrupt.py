"""Interrupts of a real kernel at any moment of a run on a real server: nothing goes on, nothing is lost (E35)."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from jupyter_client.manager import start_new_kernel

from tests.support.kernel import Kernel
from tests.support.openai_server import Answer, OpenAIServer, Request

pytestmark = pytest.mark.usefixtures("warm_kernels")

MOMENTS = 8
ENDED_WITHIN_S = 20.0
UNKNOWN = (-1, -1)

SETUP = """
%load_ext ensemble_notebook
import asyncio, json, threading
def look_up(word: str) -> str:
    'Look up a word.'
    return word
def left_over():
    threads = [t.name for t in threading.enumerate() if t.name.startswith("ensemble-") and t.name != "ensemble-loop"]
    from ensemble_notebook.engine.loop_thread import loop_thread
    return threads, [repr(task) for task in asyncio.all_tasks(loop_thread().loop)]
def log():
    attempts = report.frames.spans.query("kind == 'attempt'")
    known = attempts[["input_tokens", "output_tokens"]].fillna(-1)
    return json.dumps(known.astype(int).values.tolist())
"""

CELL = """%%ensemble -o report
llm: "openai:test-model@{url}"
agents:
  Worker: {{goal: Work, tools: [look_up], max_retries: 1}}
tasks:
  a: {{description: Do a, agent: Worker}}
  b: {{description: Do b, agent: Worker}}
  c: {{description: Do c, agent: Worker, context: [a]}}
  d: {{description: Do d, agent: Worker, context: [a, b]}}
"""


def answer(request: Request) -> Answer:
    """Replies take a while, so that every moment falls into some request; some ask for a tool, some are refused."""
    dice = random.Random(request.raw)
    kind, usage = dice.random(), (dice.randrange(1, 99), dice.randrange(1, 99))
    if kind < 0.3 and len(request.messages) == 2:
        return Answer(calls=[("look_up", {"word": "tide"})], delay=0.15, usage=usage)
    return Answer.status(500, delay=0.1) if kind > 0.9 else Answer("Done.", delay=0.2, usage=usage)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--HistoryManager.enabled=False"])
    started = Kernel(manager, client)
    _, reply = started.run(SETUP)
    assert reply["status"] == "ok", reply
    yield started
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


def test_an_interrupt_at_any_moment_closes_every_connection_and_keeps_the_books(kernel: Kernel) -> None:
    with OpenAIServer(choose=answer) as server:
        _first, reply = kernel.run(CELL.format(url=server.url))  # imports, and the first client
        assert reply["status"] in ("ok", "error"), reply
        dice = random.Random(7)
        for _ in range(MOMENTS):
            server.clear()
            request = kernel.send(CELL.format(url=server.url))
            kernel.until(lambda request=request: bool(kernel.bundles(request)))
            time.sleep(dice.uniform(0.0, 0.9))
            interrupt_and_check(kernel, server, request)


def interrupt_and_check(kernel: Kernel, server: OpenAIServer, request: str) -> None:
    begun = time.monotonic()
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(request)
    ended = time.monotonic() - begun
    kernel.until(lambda: kernel.is_idle(request))
    if reply.get("ename") != "RunInterrupted":  # the run was over just before
        return
    assert ended < ENDED_WITHIN_S
    time.sleep(0.3)  # a request that was sent before may still be on its way
    count = len(server.requests)
    time.sleep(0.3)
    assert len(server.requests) == count, "a request after the end"
    end = time.monotonic() + ENDED_WITHIN_S
    while not all(each.closed_at is not None for each in server.requests):
        assert time.monotonic() < end, "a request that nobody waits for is still open"
        time.sleep(0.01)
    assert kernel.value("left_over()") == "([], [])"
    ours = Counter(map(tuple, json.loads(kernel.value("log()"))))
    # A reply that left the server in the moment of the interrupt may have come too late: its usage is unknown then.
    sure = Counter(usage_of(each) for each in server.requests if (each.closed_at or begun) < begun - 0.4)
    every = Counter(usage_of(each) for each in server.requests)
    # One that was given up before the server had seen it is of no known use.
    assert 0 <= ours.total() - every.total() <= ours[UNKNOWN]
    assert sure <= ours
    assert ours - Counter({UNKNOWN: ours[UNKNOWN]}) <= every


def usage_of(request: Request) -> tuple[int, int]:
    """As the server books it."""
    return (0, 0) if (request.status or 0) >= 400 else request.usage or UNKNOWN
