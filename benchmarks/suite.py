"""The measurements by name, in the order of the table."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from benchmarks.row import Row

MEASUREMENTS: Final = (
    "extension",
    "warm_up",
    "cell",
    "reading",
    "handler",
    "memory",
    "plan",
    "call",
    "conversation",
    "chain",
    "fan",
)


def run(names: Iterable[str], *, quick: bool) -> Iterator[Row]:
    """The rows, as they come. Each measurement has a process of its own, without imports and garbage of another."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as processes:
        for name in names:
            yield from processes.submit(_measure, name, quick=quick).result()


def _measure(name: str, *, quick: bool) -> list[Row]:
    rows: list[Row] = importlib.import_module(f"benchmarks.{name}").measure(quick=quick)
    return rows
