"""What the engine itself costs: tasks whose handlers do nothing, side by side and one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.row import Row
from benchmarks.stopwatch import compare
from ensemble_notebook import Ensemble, Task, TaskInput


def measure(*, quick: bool) -> list[Row]:
    few, many, rounds = (10, 100, 1) if quick else (1_000, 10_000, 15)
    rows = []
    for kind, handler, bare, beside, most in (
        ("async", _answer_async, _bare_tasks, "asyncio.create_task", 100),
        ("sync", _answer_sync, _bare_threads, "asyncio.to_thread", 250),
    ):
        for workflow, shape in (("parallel", "wide"), ("sequential", "chain")):
            what = f"{shape} of no-op {kind} handlers, a task"
            small, large = _runner(few, workflow, handler), _runner(many, workflow, handler)
            row = compare(small, bare(few), 2 * rounds).row(
                f"{what}, {few:,}", "cpu", scale=1e6 / few, unit="us", beside=beside, most=most
            )
            scaled = compare(large, small, rounds).row(
                f"{what}, {many:,}",
                "cpu",
                scale=1e6 / many,
                floor_scale=1e6 / few,
                unit="us",
                beside=f"the same with {few:,}",
                most=most,
                most_ratio=1.25,
            )
            rows += [row, scaled]
    return rows


async def _answer_async(_task: TaskInput) -> str:
    return "done"


def _answer_sync(_task: TaskInput) -> str:
    return "done"


def _runner(count: int, workflow: str, handler: Callable[[TaskInput], Any]) -> Callable[[], object]:
    tasks = [Task(description=f"Task {number}", expected_output="done", handler=handler) for number in range(count)]
    ensemble = Ensemble(tasks=tasks, workflow=workflow)
    return lambda: asyncio.run(ensemble.arun())


def _bare_tasks(count: int) -> Callable[[], object]:
    async def nothing() -> str:
        return "done"

    async def bare() -> None:
        for task in [asyncio.create_task(nothing()) for _ in range(count)]:
            await task

    return lambda: asyncio.run(bare())


def _bare_threads(count: int) -> Callable[[], object]:
    async def bare() -> None:
        await asyncio.gather(*(asyncio.to_thread(str) for _ in range(count)))

    return lambda: asyncio.run(bare())
