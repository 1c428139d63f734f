"""Many calls side by side and one that joins them, beside ``asyncio.gather`` over the bare client."""

from __future__ import annotations

import asyncio

from benchmarks.peer import ask, bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Ensemble, Task

_MODEL = "delay-50"


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (4, 1) if quick else (200, 9)
    with serving() as url, asyncio.Runner() as runner:
        tasks = [Task(description="Work.", expected_output="A part.") for _ in range(count)]
        join = Task(description="Join.", expected_output="The whole.", context=tasks)
        ensemble = Ensemble(tasks=[*tasks, join], workflow="parallel", llm=f"openai:{_MODEL}@{url}")
        *parts, whole = prompts(runner.run(ensemble.arun()))
        client = bare(url)

        async def gather() -> None:
            await asyncio.gather(*(ask(client, _MODEL, part) for part in parts))
            await ask(client, _MODEL, whole)

        ours, floor = Work(lambda: runner.run(ensemble.arun())), Work(lambda: runner.run(gather()))
        (comparison,) = compare([(ours, floor)], rounds)
        runner.run(client.close())
    what = f"{count} calls of 50 ms and a join, wall"
    return [comparison.row(what, "wall", "ms", "asyncio.gather", most_ratio=0.67)]
