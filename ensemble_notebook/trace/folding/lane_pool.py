"""Sub-lanes for calls that run side by side inside one task (W1): each call gets the lowest one that is free."""

from __future__ import annotations

from heapq import heappop, heappush


class LanePool:
    """The sub-lanes of one task."""

    __slots__ = ("_free", "_opened")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._opened = 0

    def take(self) -> int:
        """The lowest free lane."""
        if self._free:
            return heappop(self._free)
        self._opened += 1
        return self._opened - 1

    def give_back(self, lane: int) -> None:
        """The call on this lane is over."""
        heappush(self._free, lane)
