"""What the engine itself costs: tasks whose handlers do nothing, side by side and one after the other, and items.

Runs are not remembered here: what that costs is measured with model calls, by `call` and `store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.row import Row
from benchmarks.stopwatch import Work, compare, without_store
from ensemble_notebook import Ensemble, Task, TaskInput


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of handler.

    The floor is `bare`, `most_ratio` is how many times of it a task may take, and `most_growth` how many times of one
    of 1,000 a task of 10,000.
    """

    name: str
    handler: Callable[[TaskInput], Any]
    bare: Callable[[int], Work]
    beside: str
    most_ratio: float | None = None
    most_growth: float | None = None


def measure(*, quick: bool) -> list[Row]:
    few, many, rounds = (10, 100, 1) if quick else (1_000, 10_000, 9)
    with without_store():
        return _measure(few, many, rounds)


def _measure(few: int, many: int, rounds: int) -> list[Row]:
    cases = [(kind, shape) for kind in _kinds() for shape in ("wide", "chain")]
    small = [_run(few, shape, kind.handler) for kind, shape in cases]
    large = [_run(many, shape, kind.handler) for kind, shape in cases]
    bare = [kind.bare(few) for kind, _ in cases]
    # Every case in every round: the machine has slow moments of several seconds, and none of them may fall into one.
    beside_bare = compare(list(zip(small, bare, strict=True)), 5 * rounds)
    beside_small = compare(list(zip(large, small, strict=True)), rounds)
    rows = []
    for (kind, shape), first, second in zip(cases, beside_bare, beside_small, strict=True):
        what = f"{shape} of no-op {kind.name} handlers, a task"
        rows += [
            first.row(f"{what}, {few:,}", "cpu", "us", kind.beside, most_ratio=kind.most_ratio),
            second.row(f"{what}, {many:,}", "cpu", "us", f"the same with {few:,}", most_ratio=kind.most_growth),
        ]
    return [*rows, _measure_items(few, rounds)]


def _measure_items(count: int, rounds: int) -> Row:
    """One task that runs for each of so many items."""
    kind = _kinds()[0]
    task = Task(description="Item {item}", expected_output="done", handler=kind.handler, for_each=list(range(count)))
    ensemble = Ensemble(tasks=[task])
    work = Work(lambda: asyncio.run(ensemble.arun()), count)
    (comparison,) = compare([(work, kind.bare(count))], 5 * rounds)
    what = f"for each with a no-op {kind.name} handler, an item, {count:,}"
    return comparison.row(what, "cpu", "us", kind.beside)


def _kinds() -> list[_Kind]:
    async def answer_async(_task: TaskInput) -> str:
        return "done"

    def answer_sync(_task: TaskInput) -> str:
        return "done"

    return [
        _Kind("async", answer_async, _bare_tasks, "asyncio.create_task", most_ratio=40, most_growth=1.25),
        _Kind("sync", answer_sync, _bare_threads, "asyncio.to_thread"),
    ]


def _run(count: int, shape: str, handler: Callable[[TaskInput], Any]) -> Work:
    tasks = [Task(description=f"Task {number}", expected_output="done", handler=handler) for number in range(count)]
    ensemble = Ensemble(tasks=tasks, workflow="sequential" if shape == "chain" else "parallel")
    return Work(lambda: asyncio.run(ensemble.arun()), count)


def _bare_tasks(count: int) -> Work:
    async def nothing() -> str:
        return "done"

    async def bare() -> None:
        for task in [asyncio.create_task(nothing()) for _ in range(count)]:
            await task

    return Work(lambda: asyncio.run(bare()), count)


def _bare_threads(count: int) -> Work:
    async def bare() -> None:
        await asyncio.gather(*(asyncio.to_thread(str) for _ in range(count)))

    return Work(lambda: asyncio.run(bare()), count)
