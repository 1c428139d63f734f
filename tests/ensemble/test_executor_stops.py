"""A map on an executor that is stopped: its rows elsewhere stop, too, and the account ends right (E35, E36, E72)."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from ensemble_notebook import Budget, Ensemble, MapResult, RunInterrupted, Task
from ensemble_notebook.domain.definitions.limits import Spending
from ensemble_notebook.domain.events import TaskCompleted
from ensemble_notebook.engine.budget_reservation import open_account
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle, start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.support.openai_server import Answer, OpenAIServer, Request

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of Dask

TASKS = 5
CALLS = 1000


class Server(OpenAIServer):
    """Answers at once what has no "slow" in it, and all once it is released."""

    is_released = False

    def __init__(self) -> None:
        super().__init__(default=Answer("ok"), choose=self._hold)

    def _hold(self, request: Request) -> Answer | None:
        return Answer("ok", until=lambda: self.is_released) if "slow" in request.prompt else None

    def wait_for(self, count: int) -> None:
        """Wait until so many requests have come."""
        asyncio.run(self.opened(count))

    def wait_for_ends(self) -> None:
        """Wait until all requests that have come are over."""
        for place in range(len(self.requests)):
            asyncio.run(self.closed(place))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as serving:
        yield serving


@pytest.fixture
def budget() -> Budget:
    return Budget(max_llm_calls=CALLS).shared()


def make(server: OpenAIServer, budget: Budget) -> Ensemble:
    """An ensemble that asks five times for each row, one after the other."""
    tasks = [Task.of("Say {word}", name=f"say {place}") for place in range(TASKS)]
    return Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", budget=budget, workflow="sequential")


def start(ensemble: Ensemble, words: str, executor: Any) -> MapHandle:
    rows = [{"word": each} for each in words.split()]
    handle = start_map(ensemble, read_map(rows, executor=executor))
    handle._begin()
    return handle


def get_calls_left(budget: Budget) -> int:
    """What is left when all that was lent has come home."""
    account = open_account(budget)
    while account.held != Spending():
        time.sleep(0.01)
    return int(budget.remaining["max_llm_calls"])


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        yield pool


@pytest.fixture
def cluster() -> Iterator[Any]:
    import distributed  # when it is needed, since it takes long

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("kind", ["processes", "cluster"])
def test_interrupt_stops_the_rows_that_run_elsewhere_and_gives_back_what_they_did_not_spend(
    kind: str, request: pytest.FixtureRequest, server: Server, budget: Budget
) -> None:
    executor, ensemble = request.getfixturevalue(kind), make(server, budget)
    words = "quick slow-1 slow-2 slow-3 slow-4 slow-5"
    handle = start(ensemble, words, executor)
    server.wait_for(sent := TASKS + 2)
    while not any(isinstance(each, TaskCompleted) and each.task == "row 0" for each in handle.events):
        time.sleep(0.01)
    handle.cancel()
    with pytest.raises(RunInterrupted, match="1 of 6 rows are done and kept") as caught:
        handle.result()
    server.wait_for_ends()
    assert get_calls_left(budget) == CALLS - sent  # so all rows are back, and send nothing any more
    assert len(server.requests) == sent
    stopped = caught.value.output
    assert isinstance(stopped, MapResult)
    assert stopped.output is not None
    assert find_violations(stopped.output.trace) == []

    server.is_released = True
    again = ensemble.map([{"word": each} for each in words.split()], executor=executor, resume=stopped)
    assert again.frame.raw.tolist() == ["ok"] * 6
    assert len(server.requests) == sent + 5 * TASKS
    assert get_calls_left(budget) == CALLS - len(server.requests)


@pytest.mark.parametrize("count", [1, 2])
def test_keyboard_interrupts_of_the_notebook_stop_the_rows_elsewhere(
    processes: ProcessPoolExecutor, server: Server, budget: Budget, count: int
) -> None:
    def interrupt() -> None:
        server.wait_for(2)
        for _ in range(count):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.05)

    def run() -> None:
        hand = threading.Thread(target=interrupt)
        hand.start()
        try:
            make(server, budget).map([{"word": f"slow-{place}"} for place in range(6)], executor=processes)
        finally:
            hand.join()

    with pytest.raises(KeyboardInterrupt):  # `RunInterrupted` is one; a second one may come at any place
        run()
    server.wait_for_ends()
    assert get_calls_left(budget) == CALLS - 2
    assert len(server.requests) == 2


def test_interrupt_that_reaches_the_workers_alone_stops_their_rows(
    processes: ProcessPoolExecutor, server: Server, budget: Budget
) -> None:
    handle = start(make(server, budget), "slow-1 slow-2", processes)
    server.wait_for(2)
    for process in processes._processes.values():
        os.kill(process.pid or 0, signal.SIGINT)
    result = handle.result()
    server.wait_for_ends()
    assert get_calls_left(budget) == CALLS - 2
    assert result.frame.error.tolist() == ["Its worker was interrupted."] * 2
    assert [each.is_disconnected for each in server.requests] == [True, True]


HOME = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from ensemble_notebook import Ensemble, Task

def find_executor(kind):
    if kind in multiprocessing.get_all_start_methods():
        return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(kind))
    import distributed
    return distributed.Client(kind)

if __name__ == "__main__":
    kind, url = sys.argv[1:]
    tasks = [Task.of("Say {word}", name=f"say {place}") for place in range(5)]
    ensemble = Ensemble(tasks=tasks, llm=f"openai:m@{url}", workflow="sequential")
    ensemble.map([{"word": f"slow-{place}"} for place in range(6)], executor=find_executor(kind))
"""


@pytest.mark.parametrize("kind", ["fork", "forkserver", "spawn", "cluster"])
def test_rows_elsewhere_stop_where_the_process_of_the_map_is_killed(
    kind: str, request: pytest.FixtureRequest, server: Server, tmp_path: Path
) -> None:
    home = tmp_path / "home.py"
    home.write_text(HOME)
    where = request.getfixturevalue("cluster").scheduler.address if kind == "cluster" else kind
    process = subprocess.Popen([sys.executable, home, where, server.url], stderr=subprocess.DEVNULL)
    server.wait_for(2)
    workers = psutil.Process(process.pid).children(recursive=True)
    try:
        process.kill()
        server.wait_for_ends()
        assert [each.is_disconnected for each in server.requests] == [True, True]
        server.is_released = True  # a row that goes on, or begins, would ask at once
        if kind == "cluster":
            assert request.getfixturevalue("cluster").submit(max, 1, 2).result() == 2  # it serves others as before
        time.sleep(0.5)
        assert len(server.requests) == 2
    finally:
        process.wait()
        for each in workers:  # multiprocessing leaves them waiting for work
            if each.is_running():
                each.kill()


def test_grant_of_a_row_that_comes_home_after_the_map_has_ended_is_settled_then(server: Server, budget: Budget) -> None:
    gate = threading.Event()

    class Late(ThreadPoolExecutor):
        def submit(self, function: Any, /, *args: Any, **named: Any) -> Future[Any]:
            def work() -> Any:
                reply = function(*args, **named)
                gate.wait()
                return reply

            return super().submit(work)

    with Late(1) as executor:
        handle = start(make(server, budget), "slow-1 slow-2", executor)
        server.wait_for(1)
        handle.cancel()
        with pytest.raises(RunInterrupted):
            handle.result()
        server.wait_for_ends()
        held = open_account(budget).held
        gate.set()
        assert held != Spending()
        assert get_calls_left(budget) == CALLS - 1
    assert len(server.requests) == 1


def test_grant_of_a_row_that_nobody_knows_to_have_begun_stays_booked(server: Server, budget: Budget) -> None:
    class Foreign(Executor):
        """Lets a call be cancelled that runs."""

        def __init__(self, threads: ThreadPoolExecutor) -> None:
            self.threads = threads

        def submit(self, function: Any, /, *args: Any, **named: Any) -> Future[Any]:
            told: Future[Any] = Future()
            self.threads.submit(function, *args, **named)
            return told

    with ThreadPoolExecutor(1) as threads:
        handle = start(make(server, budget), "slow-1", Foreign(threads))
        server.wait_for(1)
        handle.cancel()
        with pytest.raises(RunInterrupted):
            handle.result()
        server.wait_for_ends()
        assert get_calls_left(budget) < CALLS - 1
    assert len(server.requests) == 1


def test_row_that_can_not_be_sent_costs_nothing(server: Server, budget: Budget) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    result = make(server, budget).map([{"word": "tea"}], executor=executor)
    assert "could not be sent: RuntimeError" in result.frame.error.iloc[0]
    assert get_calls_left(budget) == CALLS


def test_row_that_a_busy_cluster_has_not_begun_is_cancelled_and_costs_nothing(server: Server, budget: Budget) -> None:
    import distributed

    def block() -> None:
        distributed.Event("begun").set()  # type: ignore[no-untyped-call]
        distributed.Event("over").wait()  # type: ignore[no-untyped-call]

    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        others = client.submit(block)
        distributed.Event("begun").wait()  # type: ignore[no-untyped-call]
        handle = start(make(server, budget), "slow", client)
        while open_account(budget).held == Spending():
            time.sleep(0.01)
        handle.cancel()
        with pytest.raises(RunInterrupted):
            handle.result()
        assert get_calls_left(budget) == CALLS
        assert not others.done()
        distributed.Event("over").set()  # type: ignore[no-untyped-call]
        others.result()
    assert server.requests == []
