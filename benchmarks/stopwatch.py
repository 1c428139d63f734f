"""Takes the cost of two pieces of work in turns, so that whatever else the machine does falls on both alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.row import Row

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of this process, all threads together, and wall clock: of one piece of work, in seconds."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Costs of our way and of the floor, round by round."""

    ours: Sequence[Cost]
    floor: Sequence[Cost]

    def row(self, what: str, quantity: str, *, scale: float, floor_scale: float | None = None, **facts: Any) -> Row:
        """One line about the ``cpu`` or the ``wall``, in seconds times `scale`; `facts` are the other fields.

        CPU is that of the least disturbed round, since whatever else the machine does can only add to it; wall clock is
        the median.
        """
        pick = min if quantity == "cpu" else median
        ours = [getattr(each, quantity) * scale for each in self.ours]
        floor = [getattr(each, quantity) * (floor_scale or scale) for each in self.floor]
        ratio = median(mine / other for mine, other in zip(ours, floor, strict=True))
        return Row(what=what, ours=pick(ours), floor=pick(floor), ratio=ratio, **facts)


def cost(work: Work) -> Cost:
    """Of doing it once, with the garbage of others out of the way."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def compare(ours: Work, floor: Work, rounds: int) -> Comparison:
    """Both once to warm up, then in turns."""
    ours(), floor()
    pairs = [(cost(ours), cost(floor)) for _ in range(rounds)]
    return Comparison([mine for mine, _ in pairs], [other for _, other in pairs])
