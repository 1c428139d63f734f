"""No barriers: two chains, one quick where the other is slow, take as long as one of them.

Level by level, each step would take as long as the slower one: 1.6 times as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.peer import ask, bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Ensemble, Task

_QUICK, _SLOW = "delay-20", "delay-200"


def measure(*, quick: bool) -> list[Row]:
    turns, rounds = (1, 1) if quick else (3, 9)
    paths = ([_QUICK, _SLOW] * turns, [_SLOW, _QUICK] * turns)
    with serving() as url, asyncio.Runner() as runner:
        ensemble = _ensemble(paths, url)
        step, *_, join = prompts(runner.run(ensemble.arun()))
        client = bare(url)

        async def walk(path: Sequence[str]) -> None:
            for name in path:
                await ask(client, name, step)

        async def by_hand() -> None:
            await asyncio.gather(*map(walk, paths))
            await ask(client, _QUICK, join)

        ours, floor = Work(lambda: runner.run(ensemble.arun())), Work(lambda: runner.run(by_hand()))
        (comparison,) = compare([(ours, floor)], rounds)
        runner.run(client.close())
    what = "two chains of 20/200 ms and a join, wall"
    return [comparison.row(what, "wall", "ms", "the same by hand", most_ratio=1.05)]


def _ensemble(paths: Sequence[Sequence[str]], url: str) -> Ensemble:
    """Each path is a chain of calls to the models it names; the join reads the ends of all."""
    tasks: list[Task] = []
    ends: list[Task] = []
    for path in paths:
        before: list[Task] = []
        for model in path:
            before = [Task(description="Go on.", expected_output="A step.", context=before, llm=_spec(model, url))]
            tasks += before
        ends += before
    join = Task(description="Join.", expected_output="The end.", context=ends, llm=_spec(_QUICK, url))
    return Ensemble(tasks=[*tasks, join], workflow="parallel")


def _spec(model: str, url: str) -> str:
    return f"openai:{model}@{url}"
