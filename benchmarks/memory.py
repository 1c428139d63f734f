"""What a finished run keeps in memory: outputs, plan and every event, beside bare asyncio tasks with their results."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable

from benchmarks.row import Row
from ensemble_notebook import Ensemble, Task, TaskInput


def measure(*, quick: bool) -> list[Row]:
    count = 100 if quick else 10_000
    tasks = [Task(description=f"Task {number}", expected_output="done", handler=_answer) for number in range(count)]
    ensemble = Ensemble(tasks=tasks, workflow="parallel")
    ours = _kept(lambda: asyncio.run(ensemble.arun()), count)
    floor = _kept(lambda: asyncio.run(_bare(count)), count)
    beside = "an asyncio.Task kept"
    what = f"memory of a finished no-op task, {count:,}"
    return [Row(what=what, ours=ours, floor=floor, beside=beside, unit="B", ratio=ours / floor)]


def _kept(work: Callable[[], object], count: int) -> float:
    """Bytes for each of `count` parts that the result of the work keeps alive."""
    work()  # what is made once is made now
    gc.collect()
    tracemalloc.start()
    result = work()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return held / count


async def _answer(task: TaskInput) -> str:
    return f"{task.name} is done"


async def _bare(count: int) -> list[asyncio.Task[str]]:
    async def answer(number: int) -> str:
        return f"{number} is done"

    tasks = [asyncio.create_task(answer(number)) for number in range(count)]
    await asyncio.gather(*tasks)
    return tasks
