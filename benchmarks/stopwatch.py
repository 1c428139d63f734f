"""Takes the cost of pieces of work in turns, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.row import Row
from ensemble_notebook.trace.store.store_file import OFF, VARIABLE

_PER_SECOND: Final = {"s": 1, "ms": 1e3, "us": 1e6}


@dataclass(frozen=True, slots=True)
class Work:
    """Something to do, which consists of equal parts."""

    do: Callable[[], object]
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of this process, all threads together, and wall clock: of one part of a piece of work, in seconds."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Costs of our way and of the floor, round by round."""

    ours: Sequence[Cost]
    floor: Sequence[Cost]

    def row(
        self,
        what: str,
        quantity: str,
        unit: str,
        beside: str,
        *,
        most: float | None = None,
        most_ratio: float | None = None,
    ) -> Row:
        """One line about the ``cpu`` or the ``wall``.

        CPU is that of the least disturbed round, since whatever else the machine does can only add to it; wall clock is
        the median.
        """
        pick = min if quantity == "cpu" else median
        ours = [getattr(each, quantity) * _PER_SECOND[unit] for each in self.ours]
        floor = [getattr(each, quantity) * _PER_SECOND[unit] for each in self.floor]
        return Row(
            what=what,
            ours=pick(ours),
            floor=pick(floor),
            beside=beside,
            unit=unit,
            ratio=median(mine / other for mine, other in zip(ours, floor, strict=True)),
            most=most,
            most_ratio=most_ratio,
        )


def compare(pairs: Sequence[tuple[Work, Work]], rounds: int) -> list[Comparison]:
    """Ours and its floor, in each pair: all once to warm up, then in turns, every pair in every round."""
    for pair in pairs:
        for work in pair:
            work.do()
    taken = [[(cost(ours), cost(floor)) for ours, floor in pairs] for _ in range(rounds)]
    return [Comparison(*zip(*costs, strict=True)) for costs in zip(*taken, strict=True)]


def cost(work: Work) -> Cost:
    """Of doing it once, with the garbage of others out of the way."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work.do()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Cost(cpu / work.parts, wall / work.parts)


def without_store() -> AbstractContextManager[None]:
    """Runs that begin inside the block are not remembered; all others are, as they are by default."""
    return store_at(OFF)


@contextmanager
def store_at(place: str | Path) -> Iterator[None]:
    """Inside the block, here and in processes that begin there, the store is this file."""
    before = os.environ[VARIABLE]
    os.environ[VARIABLE] = str(place)
    try:
        yield
    finally:
        os.environ[VARIABLE] = before
