"""Rate limits of rows in other processes: they hold over all of them together (E137).

A machine that has much to do makes requests late, never early: so it is told how long they take at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    RateLimit,
    RateLimitTimeoutError,
    RunInterrupted,
    Task,
    TaskInput,
)
from ensemble_notebook.engine.rate_limiter import _buckets
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from tests.support.openai_server import Answer, OpenAIServer

WORKERS = 2
RATE = 20


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(WORKERS) as pool:
        yield pool


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(default=Answer("ok")) as serving:
        yield serving


@pytest.fixture
def limit() -> RateLimit:
    return RateLimit(RATE, 1.0)


def ask(server: OpenAIServer, *, count: int = 1, **fields: Any) -> Ensemble:
    """An ensemble that asks so many times for each row, one after the other."""
    tasks = [Task.of("Say {word}", name=f"say {place}") for place in range(count)]
    return Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", workflow="sequential", **fields)


def make_rows(count: int) -> list[dict[str, str]]:
    return [{"word": f"word {place}"} for place in range(count)]


def check_pace(server: OpenAIServer, count: int, run: Callable[[], object], *, workers: int = WORKERS) -> None:
    """That so many requests come, and that what has come in any time is what the limit and the workers allow."""
    began = time.monotonic()
    run()
    times = sorted(each.opened_at for each in server.requests)
    assert len(times) == count
    assert times[-1] - began >= (count - workers) / RATE


def wait_for_parts(limit: RateLimit) -> None:
    """Wait until all parts are home."""
    while _buckets[limit].lent:
        time.sleep(0.01)
    assert not _buckets[limit].borrowers


def test_limit_that_variants_tasks_agents_and_inner_ensembles_hold_is_one_e137(
    threads: ThreadPoolExecutor, server: OpenAIServer, limit: RateLimit
) -> None:
    llm = f"openai:m@{server.url}"
    agent = Agent(role="Writer", goal="Write", llm=llm, rate_limit=limit)
    inner = Ensemble(name="inner", tasks=[Task.of("Think")], llm=llm, rate_limit=limit)
    tasks = [
        Task.of("Say {word} {style}", name="say", rate_limit=limit),
        Task.of("Write {word}", name="write", agent=agent, context=["say"]),
        Task(name="think", ensemble=inner, context=["write"]),
    ]
    ensemble = Ensemble(tasks=tasks, llm=llm)
    variants = ensemble.variants({"a": {"style": "loud"}, "b": {"style": "soft"}})

    def run() -> None:
        result = variants.map(make_rows(2), executor=threads)
        assert [each.status for each in result] == ["completed"] * 4

    check_pace(server, 12, run)


def test_limit_of_a_run_around_the_map_holds_for_its_rows_e137(
    threads: ThreadPoolExecutor, server: OpenAIServer, limit: RateLimit
) -> None:
    def work(given: TaskInput) -> str:
        return str(len(ask(server).map(make_rows(8), executor=threads).failures))

    tasks = [
        Task.of("Map", name="map", handler=work),
        Task.of("Say it", name="say"),
    ]
    outer = Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", rate_limit=limit, workflow="sequential")
    check_pace(server, 9, lambda: outer.run(), workers=WORKERS + 1)


def test_two_maps_and_a_run_here_share_a_limit_and_an_executor_e137(
    threads: ThreadPoolExecutor, server: OpenAIServer, limit: RateLimit
) -> None:
    ensemble = ask(server, rate_limit=limit)

    def run() -> None:
        maps = [start_map(ensemble, read_map(make_rows(5), executor=threads)) for _ in range(2)]
        for each in maps:
            each._begin()
        assert ensemble.run(word="here").raw == "ok"
        assert [row.status for each in maps for row in each.result(60)] == ["completed"] * 10

    check_pace(server, 11, run, workers=2 * WORKERS + 1)
    wait_for_parts(limit)


def test_row_that_would_wait_too_long_fails_with_the_limit_by_name_e137(
    threads: ThreadPoolExecutor, server: OpenAIServer
) -> None:
    slow = RateLimit(1, 60.0, wait_timeout=1.0)
    result = ask(server, count=2, rate_limit=slow).map(make_rows(1), executor=threads)
    assert isinstance(result.failures[0].error.__cause__, RateLimitTimeoutError)
    assert "No place within 1 s under RateLimit(1, 60)" in result.frame.error.iloc[0]
    wait_for_parts(slow)


def test_stop_brings_all_parts_home_e137(threads: ThreadPoolExecutor, server: OpenAIServer) -> None:
    slow = RateLimit(1, 30.0, wait_timeout=60.0)
    handle = start_map(ask(server, count=2, rate_limit=slow), read_map(make_rows(6), executor=threads))
    handle._begin()
    while not server.requests:
        time.sleep(0.01)
    handle.cancel()
    with pytest.raises(RunInterrupted):
        handle.result(60)
    wait_for_parts(slow)
    assert len(server.requests) == 1
