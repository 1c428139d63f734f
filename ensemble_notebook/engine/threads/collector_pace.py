"""Lets the garbage collector look less often at what is alive, while many pieces of work are under way."""

from __future__ import annotations

import gc
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Final

_MANY: Final = 500
_NEW_OBJECTS: Final = 20_000
_AS_EVER: Final = nullcontext()


def collect_less_often(count: int) -> AbstractContextManager[None]:
    """Have the collector run after 20,000 new objects, and not after 700, while `count` tasks or rows are worked on.

    Does nothing where these are few. Each of many lives through several collections, counts as old by then, and so has
    the collector look at all old objects again and again: a quarter of the CPU time of 10,000 rows. The price is a few
    megabytes of garbage that wait a little longer. A program that has set a higher threshold, or has switched the
    collector off, has its way.
    """
    return _AS_EVER if count < _MANY else _pace


class _CollectorPace:
    """The one threshold of the process, for all who want it raised at the same time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before: tuple[int, int, int] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            usual = gc.get_threshold()
            if self._count == 1 and 0 < usual[0] < _NEW_OBJECTS:
                self._before = usual
                gc.set_threshold(_NEW_OBJECTS, *usual[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count or self._before is None:
                return
            if gc.get_threshold()[0] == _NEW_OBJECTS:  # else somebody has set it meanwhile
                gc.set_threshold(*self._before)
            self._before = None


_pace: Final = _CollectorPace()
