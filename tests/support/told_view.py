"""A view of a run or map that keeps what it is told, in tests of what views ask for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class ToldView:
    """What a feed sends to; messages come from threads of their own.

    Attributes:
        told: all of them, in order.
    """

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self._news = threading.Condition()

    def send(self, content: dict[str, Any], _buffers: Sequence[Any] | None = None, /) -> None:
        with self._news:
            self.told.append(content)
            self._news.notify_all()

    def wait_for(self, find: Callable[[dict[str, Any]], Any]) -> Any:
        """The first of what `find` has for a message."""
        with self._news:
            assert self._news.wait_for(lambda: any(find(each) for each in self.told), 20), self.told
            return next(found for each in self.told if (found := find(each)))
