"""What it costs to see what would run, beside the standard library's ordering of the same graph."""

from __future__ import annotations

from graphlib import TopologicalSorter

from benchmarks.row import Row
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Ensemble, Task, TaskInput


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (100, 1) if quick else (10_000, 9)
    return [
        _row(f"plan of {count:,} tasks in a chain", count, 1, rounds),
        _row(f"plan of {count:,} tasks that read 10 each", count, 10, rounds),
    ]


def _row(what: str, count: int, width: int, rounds: int) -> Row:
    """Each task reads the `width` tasks before it."""
    tasks: list[Task] = []
    for number in range(count):
        context = tasks[-width:]
        tasks.append(Task(description=f"Task {number}", expected_output="done", context=context, handler=_answer))
    ensemble = Ensemble(tasks=tasks, workflow="parallel")
    edges = {number: range(max(0, number - width), number) for number in range(count)}
    order = Work(lambda: list(TopologicalSorter(edges).static_order()))
    (comparison,) = compare([(Work(ensemble.plan), order)], rounds)
    return comparison.row(what, "cpu", "ms", "graphlib's order")


def _answer(task: TaskInput) -> str:
    """Never called: a plan runs nothing."""
    return str(task.description)
