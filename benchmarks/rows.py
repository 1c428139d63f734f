"""A map over many rows whose handler waits, beside a bare loop of coroutines under a semaphore that wait as long."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from typing import Final

from benchmarks.row import Row
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Ensemble, MapResult, Task, TaskInput

_NAP_S: Final = 0.2


def measure(*, quick: bool) -> list[Row]:
    count, concurrency, rounds = (20, 10, 1) if quick else (10_000, 100, 1)
    rows = [{"number": number} for number in range(count)]
    ensemble = Ensemble(
        tasks=[Task(description="Wait {number}", expected_output="done", handler=_nap)], capture_mode="metadata"
    )

    def run() -> MapResult:
        return ensemble.map(rows, concurrency=concurrency)

    ours, floor = Work(run, count), Work(lambda: asyncio.run(_bare(count, concurrency)), count)
    (comparison,) = compare([(ours, floor)], rounds)
    what = f"a map over {count:,} rows of 200 ms"
    beside = "coroutines under a semaphore"
    return [
        comparison.row(f"{what}, wall, a row", "wall", "ms", beside, most_ratio=1.15),
        comparison.row(f"{what}, CPU, a row", "cpu", "ms", beside, most=2.0),
        Row(
            what=f"memory of a finished row, {count:,}",
            ours=(kept := _measure_kept(run) / count),
            floor=(bare := _measure_kept(lambda: [f"{number} is done" for number in range(count)]) / count),
            beside="a text",
            unit="B",
            ratio=kept / bare,
        ),
    ]


def _measure_kept(work: Callable[[], object]) -> int:
    """Bytes that the result of the work keeps alive."""
    gc.collect()
    tracemalloc.start()
    result = work()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return held


async def _nap(_task: TaskInput) -> str:
    await asyncio.sleep(_NAP_S)
    return "done"


async def _bare(count: int, concurrency: int) -> None:
    places = asyncio.Semaphore(concurrency)

    async def nap() -> None:
        async with places:
            await asyncio.sleep(_NAP_S)

    await asyncio.gather(*(nap() for _ in range(count)))
