"""The end of a run: who brings it about, and what others wait for. Knows no run."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Final

_lock: Final = threading.Lock()  # one for all, since it is held for a moment and runs are many


class RunEnd:
    """The end of one run. Thread-safe.

    Attributes:
        is_claimed: somebody ends the run, or has ended it.
        is_reached: the run has ended.
    """

    __slots__ = ("_future", "is_claimed", "is_reached")

    def __init__(self) -> None:
        self.is_claimed = False
        self.is_reached = False
        self._future: Future[None] | None = None

    def claim(self) -> bool:
        """Whether whoever asks is the one that ends the run: its loop, or a thread that has given the loop up."""
        with _lock:
            is_first, self.is_claimed = not self.is_claimed, True
            return is_first

    def reach(self) -> None:
        """The run has ended."""
        with _lock:
            self.is_reached = True
        if self._future is not None:
            self._future.set_result(None)

    def get_future(self) -> Future[None]:
        """What is done once the run has ended; made for the first who waits, since nobody does for a row of a map."""
        with _lock:
            if self._future is None:
                self._future = Future()
                if self.is_reached:
                    self._future.set_result(None)
            return self._future
