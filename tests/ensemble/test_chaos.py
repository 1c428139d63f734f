"""The law of the ledger: whatever goes wrong, tokens and cost are what the server counted, call by call (T1, T2).

Seeded chaos: random graphs, refusals, broken connections, retries, fallbacks, tool turns, corrections and interrupts,
against a real server that keeps its own books.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

import pandas as pd
import pytest

from ensemble_notebook import (
    Agent,
    CostConfiguration,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    Event,
    ExecutionTrace,
    LlmAttemptEnded,
    LlmAttemptStarted,
    RunInterrupted,
    Task,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
    Workflow,
)
from tests.support.openai_server import Answer, OpenAIServer, Request

Usage = tuple[int, int] | None
Books = dict[str, list[Usage]]

INPUT_RATE, OUTPUT_RATE = Decimal("0.0000003"), Decimal("0.0000007")
RATES = CostConfiguration(input_rate=INPUT_RATE, output_rate=OUTPUT_RATE)
TASK = re.compile(r"## Task\n(s\d+-t\d+):")
QUOTED = re.compile(r"answer of (s\d+-t\d+)")
SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"]}


def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word} is a word"


def mark_of(request: Request) -> str:
    """The task that a request is about; a correction quotes the reply, which says whose it is."""
    texts = " ".join(str(message.get("content")) for message in request.messages)
    found = TASK.search(texts) or QUOTED.search(texts)
    assert found is not None, texts
    return found[1]


class Chaos:
    """What the server answers: at random, but the same for the n-th request of a task whenever it comes."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = defaultdict(int)
        self.hanging: set[str] = set()
        self.hung: dict[str, int] = defaultdict(int)
        self.lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        mark = mark_of(request)
        with self.lock:
            self._counts[mark] += 1
            dice = random.Random(f"{mark}/{self._counts[mark]}")
            run = mark.split("-")[0]
            if run in self.hanging:
                self.hung[run] += 1
                return Answer(delay=60)
        usage = (dice.randrange(1, 500), dice.randrange(1, 200))
        delay = dice.choice([0, 0, 0.005, 0.02])
        kind = dice.random()
        if kind < 0.12:
            return Answer.status(429, retry_after=0)
        if kind < 0.20:
            return Answer.status(dice.choice([500, 503]))
        if kind < 0.26:
            return Answer(cut=dice.choice(["before", "middle"]), usage=usage, delay=delay)
        if kind < 0.30:
            return Answer.status(dice.choice([400, 401]))
        if kind < 0.45 and request.body.get("tools"):
            return Answer(calls=[("look_up", {"word": "tide"})], usage=usage, delay=delay)
        text = '{"city": "Brest"}' if kind < 0.8 else "nothing useful"
        return Answer(f"The answer of {mark}: {text}", usage=usage, delay=delay)


def ensemble(seed: int, llm: str) -> Ensemble:
    """A random team on a random graph."""
    dice = random.Random(seed)
    star = Agent(role="Star", goal="Shine", llm=llm, tools=[look_up], max_retries=dice.choice([0, 1, 2]))
    understudy = Agent(role="Understudy", goal="Stand in", llm=llm, max_retries=0)
    tasks: list[Task] = []
    for number in range(dice.randrange(4, 9)):
        tasks.append(
            Task.of(
                f"s{seed}-t{number}: say something",
                name=f"s{seed}-t{number}",
                agent=star,
                context=dice.sample(tasks, k=min(len(tasks), dice.randrange(3))),
                fallback=understudy if dice.random() < 0.5 else None,
                output_type=SCHEMA if dice.random() < 0.5 else None,
                max_output_retries=1,
            )
        )
    strategy = dice.choice(["fail_fast", "continue_on_error", "partial"])
    return Ensemble(tasks=tasks, cost=RATES, workflow=Workflow.PARALLEL, error_strategy=strategy)


def is_hanging(events: Sequence[Event], hung: int) -> bool:
    """Whether every task that is at work waits for one of so many requests that hang, and for nothing else."""

    def count(*kinds: type[Event]) -> int:
        return sum(isinstance(each, kinds) for each in events)

    working = count(TaskStarted) - count(TaskCompleted, TaskFailed)
    return working == hung == count(LlmAttemptStarted) - count(LlmAttemptEnded)


async def run(seed: int, llm: str, chaos: Chaos) -> EnsembleOutput:
    """One run; every third is interrupted while requests hang."""
    handle = ensemble(seed, llm).start()
    if seed % 3 == 0:
        await asyncio.sleep(random.Random(seed).uniform(0.0, 0.4))
        with chaos.lock:
            chaos.hanging.add(f"s{seed}")
        # What was under way comes in first: nobody can know what a lost reply cost.
        while not handle.is_done and not is_hanging(handle.events, chaos.hung[f"s{seed}"]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        handle.cancel()
    try:
        return await handle
    except (EnsembleError, RunInterrupted) as error:
        output: EnsembleOutput = error.output
        return output


async def run_all(seeds: Iterable[int], llm: str, chaos: Chaos) -> list[EnsembleOutput]:
    return await asyncio.gather(*(run(seed, llm, chaos) for seed in seeds))


def server_books(requests: Sequence[Request]) -> Books:
    """Usage of each request, by task: nothing for refused ones, None where no whole reply was sent."""
    books: Books = defaultdict(list)
    for request in requests:
        refused = request.status is not None and request.status >= 400
        books[mark_of(request)].append((0, 0) if refused else request.usage)
    return books


def our_books(events: Sequence[Event]) -> Books:
    """The same from the frames of a trace."""
    spans = ExecutionTrace.from_events(events, cost=RATES).frames.spans
    attempts = spans[spans["kind"] == "attempt"].sort_values("seq")
    books: Books = defaultdict(list)
    for task, read, written in zip(attempts["task"], attempts["input_tokens"], attempts["output_tokens"], strict=True):
        books[task].append(None if pd.isna(read) else (int(read), int(written)))
    return books


def hold_to_law(events: Sequence[Event], books: Books) -> None:
    """Every call and every sum of a run is the server's.

    Raises:
        AssertionError: it is not.
    """
    assert our_books(events) == books
    metrics = ExecutionTrace.from_events(events, cost=RATES).metrics
    known = [usage for usages in books.values() for usage in usages if usage is not None]
    read, written = sum(usage[0] for usage in known), sum(usage[1] for usage in known)
    has_known = bool(known) or not any(books.values())
    assert (metrics.input_tokens, metrics.output_tokens) == ((read, written) if has_known else (None, None))
    assert (metrics.cost or 0) == read * INPUT_RATE + written * OUTPUT_RATE
    is_complete = all(usage is not None for usages in books.values() for usage in usages)
    assert (metrics.tokens_complete, metrics.cost_complete) == (is_complete, is_complete)
    assert metrics.llm_attempt_count == sum(len(usages) for usages in books.values())


@pytest.fixture(scope="module")
def runs() -> tuple[list[EnsembleOutput], Books]:
    """Eighteen runs side by side, and what the server says of them."""
    chaos = Chaos()
    with OpenAIServer(choose=chaos) as server:
        outputs = asyncio.run(run_all(range(18), f"openai:test-model@{server.url}", chaos))
        deadline = time.monotonic() + 60
        while any(each.closed_at is None for each in server.requests) and time.monotonic() < deadline:
            time.sleep(0.01)
        return outputs, server_books(server.requests)


def of_run(books: Books, output: EnsembleOutput) -> Books:
    return {mark: usages for mark, usages in books.items() if mark in {task.name for task in output.plan.tasks}}


def test_tokens_and_cost_are_the_server_s_call_by_call(runs: tuple[list[EnsembleOutput], Books]) -> None:
    outputs, books = runs
    for output in outputs:
        hold_to_law(output.events, of_run(books, output))
    assert {output.exit_reason.value for output in outputs} >= {"completed", "error", "interrupted"}
    assert sum(len(each) for each in books.values()) > 100


def test_a_recorder_that_drops_one_row_breaks_the_law(runs: tuple[list[EnsembleOutput], Books]) -> None:
    outputs, books = runs
    for output in outputs:
        endings = [each for each in output.events if isinstance(each, LlmAttemptEnded)]
        for ending in endings[:: max(1, len(endings) // 3)]:
            if not ending.usage.input_tokens:
                continue
            torn = [each for each in output.events if each is not ending]
            with pytest.raises(AssertionError):
                hold_to_law(torn, of_run(books, output))
