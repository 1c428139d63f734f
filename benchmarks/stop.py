"""How long a run that is 500 calls wide takes from its stop to its last closed socket, beside a cancelled gather."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import threading
import time
from typing import TYPE_CHECKING

from benchmarks.peer import ask, bare
from benchmarks.row import Row
from benchmarks.server import serving
from ensemble_notebook import Ensemble, Event, LlmAttemptStarted, RunInterrupted, Task

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MODEL = "delay-60000"
_MOST_OPEN = 256  # as many as are open at once (E76)
_MOST_MS = 500
_SETTLED_S = 0.5
_LIMIT_S = 60


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (8, 1) if quick else (500, 9)
    with serving() as url, asyncio.Runner() as runner:
        client, open_at_once = bare(url), min(count, _MOST_OPEN)
        both = [(_stop_run(url, count), runner.run(_stop_gather(client, open_at_once))) for _ in range(rounds)]
        runner.run(client.close())
    ours, floor = (statistics.median(each) for each in zip(*both, strict=True))
    ratio = statistics.median(own / bare_one for own, bare_one in both)
    what = f"stop of {count} calls, to the last socket"
    return [Row(what=what, ours=ours, floor=floor, beside="a cancelled gather", unit="ms", ratio=ratio, most=_MOST_MS)]


def _stop_run(url: str, count: int) -> float:
    """Milliseconds from the stop to the end of the run, by which its sockets are closed."""
    wanted = threading.Semaphore(0)

    def count_requests(event: Event) -> None:
        if isinstance(event, LlmAttemptStarted):
            wanted.release()

    tasks = [Task.of("Work.", name=f"t{number}") for number in range(count)]
    handle = Ensemble(tasks=tasks, workflow="parallel", llm=f"openai:{_MODEL}@{url}").start(listeners=[count_requests])
    for _ in range(min(count, _MOST_OPEN)):
        wanted.acquire(timeout=_LIMIT_S)
    time.sleep(_SETTLED_S)
    began = time.perf_counter()
    handle.cancel()
    with contextlib.suppress(RunInterrupted):
        handle.result(_LIMIT_S)
    return 1000 * (time.perf_counter() - began)


async def _stop_gather(client: AsyncOpenAI, count: int) -> float:
    """The same for as many calls without us, whose connections close as they are cancelled."""
    messages = [{"role": "user", "content": "Work."}]
    calls = asyncio.gather(*(ask(client, _MODEL, messages) for _ in range(count)), return_exceptions=True)
    await asyncio.sleep(4 * _SETTLED_S)
    began = time.perf_counter()
    calls.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calls
    return 1000 * (time.perf_counter() - began)
