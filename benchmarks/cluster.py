"""Rows on a cluster: how much quicker it makes them, and how evenly a rate limit; whether a kernel's heart beats."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final, cast

import distributed
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import run_kernel

from benchmarks.row import Row
from ensemble_notebook import Ensemble, RateLimit, Task, TaskInput
from tests.support.openai_server import Answer, OpenAIServer

_WORKERS: Final = 2
_LIMIT_S: Final = 120.0
_BEAT_S: Final = 0.02
"""After so long a silence, `jupyter_client` takes a kernel for dead (`HBChannel.time_to_dead`)."""

_MAP: Final = """
from ensemble_notebook import Ensemble, Task

async def keep_busy(given):
    return str(sum(range({steps})))

task = Task(description="Add {{number}}", expected_output="a number", handler=keep_busy)
rows = [{{"number": number}} for number in range({count})]
assert len(Ensemble(tasks=[task]).map(rows).failures) == 0
"""


def measure(*, quick: bool) -> list[Row]:
    return [_measure_speed_up(quick=quick), _measure_rate_limit(quick=quick), _measure_heartbeat(quick=quick)]


@contextmanager
def _open_cluster() -> Iterator[Any]:
    dask: Any = distributed  # its classes have no types
    with (
        dask.LocalCluster(
            n_workers=_WORKERS, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client


def _measure_rate_limit(*, quick: bool) -> Row:
    count, rate = (4, 200) if quick else (200, 20)
    rows = [{"number": number} for number in range(count)]
    with OpenAIServer(default=Answer("ok")) as server, _open_cluster() as client:

        def run(executor: object = None) -> None:
            task = Task(description="Say {number}", expected_output="a number")
            limit = RateLimit(rate, 1.0)
            result = Ensemble(tasks=[task], llm=f"openai:m@{server.url}", rate_limit=limit).map(rows, executor=executor)
            assert not result.failures

        run(client)  # workers import what they need
        ours, alone = _time(lambda: run(client)), _time(run)
    return Row(
        what=f"{count} rows over {_WORKERS} workers under {rate}/s",
        ours=ours,
        floor=alone,
        beside="the same rows in this process",
        unit="s",
        ratio=ours / alone,
        most_ratio=1.05,
    )


def _measure_speed_up(*, quick: bool) -> Row:
    count, steps, rounds = (4, 1_000, 1) if quick else (40, 3_000_000, 3)
    numbers = [steps + number for number in range(count)]
    rows = [{"number": number} for number in numbers]
    ensemble = Ensemble(tasks=[Task(description="Add {number}", expected_output="a number", handler=_add_row)])
    with _open_cluster() as client:
        pairs = []
        for _ in range(rounds + 1):
            ours = _speed_up(lambda: ensemble.map(rows, concurrency=1), lambda: ensemble.map(rows, executor=client))
            bare = _speed_up(
                lambda: [_add(number) for number in numbers],
                lambda: client.gather(client.map(_add, numbers, pure=False)),
            )
            pairs.append((ours, bare))
    del pairs[0]  # workers import what they need in the first round
    return Row(
        what=f"speed-up of {count} rows by {_WORKERS} workers, wall",
        ours=median(ours for ours, _ in pairs),
        floor=median(bare for _, bare in pairs),
        beside="client.map of the same function",
        unit="x",
        ratio=median(ours / bare for ours, bare in pairs),
    )


def _speed_up(serial: Callable[[], object], spread: Callable[[], object]) -> float:
    return _time(serial) / _time(spread)


def _time(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _add_row(given: TaskInput) -> str:
    return str(_add(given.inputs["number"]))


def _add(number: int) -> int:
    total = 0
    for each in range(number):
        total += each
    return total


def _measure_heartbeat(*, quick: bool) -> Row:
    count, steps = (10, 1_000) if quick else (1_000, 200_000)
    with run_kernel(startup_timeout=_LIMIT_S, stderr=subprocess.DEVNULL) as kernel:
        client = cast(BlockingKernelClient, kernel)
        _execute(client, "%load_ext ensemble_notebook")
        _execute(client, _MAP.format(count=2, steps=10))  # what a first map imports is no part of a map
        at_rest = _find_longest_silence(client, "import time; time.sleep(1)")
        ours = _find_longest_silence(client, _MAP.format(count=count, steps=steps))
    return Row(
        what=f"longest silence of the heart, {count:,} busy rows",
        ours=ours * 1e3,
        floor=at_rest * 1e3,
        beside="a cell that sleeps",
        unit="ms",
        ratio=ours / at_rest,
    )


def _find_longest_silence(client: BlockingKernelClient, code: str) -> float:
    """The most seconds between two answers of the heartbeat channel, while a cell runs."""
    is_over, silences = threading.Event(), list[float]()
    address = cast(Any, client).hb_channel.address
    listener = threading.Thread(target=_listen, args=(address, is_over, silences))
    listener.start()
    try:
        _execute(client, code)
    finally:
        is_over.set()
        listener.join()
    return max(silences)


def _listen(address: str, is_over: threading.Event, silences: list[float]) -> None:
    """Ask the heart whether it beats, again and again, on a socket of its own."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.linger, socket.rcvtimeo = 0, int(_LIMIT_S * 1e3)
        socket.connect(address)
        while not is_over.is_set():
            asked = time.perf_counter()
            socket.send(b"ping")
            socket.recv()
            silences.append(time.perf_counter() - asked)
            is_over.wait(_BEAT_S)


def _execute(client: BlockingKernelClient, code: str) -> None:
    reply = cast(Any, client).execute_interactive(code, timeout=_LIMIT_S, output_hook=lambda _message: None)
    assert reply["content"]["status"] == "ok", reply["content"]
