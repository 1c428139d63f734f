"""Tells the views of a run how far a function of the user is, from whatever thread it runs on (E79)."""

from __future__ import annotations

import time
from typing import Final

from ensemble_notebook.domain.events import ProgressReported
from ensemble_notebook.engine.events.nested_events import find_calling_span
from ensemble_notebook.engine.loop_thread import call_on_loop

_LEAST_S: Final = 0.1
"""What is told sooner after the last time is left out, unless it says that all is done: nobody could read it."""


class ProgressReporter:
    """Reports for the span from which the function is called that this is made for; then from any thread."""

    __slots__ = ("_calling", "_last_s")

    def __init__(self) -> None:
        self._calling = find_calling_span()
        self._last_s = float("-inf")

    def __call__(self, text: str, fraction: float | None) -> None:
        """Say how far it is."""
        now_s = time.monotonic()
        if self._calling is None or (now_s - self._last_s < _LEAST_S and fraction != 1):
            return
        self._last_s, span = now_s, self._calling.span
        call_on_loop(self._calling.loop, lambda: span.emit(ProgressReported, text=text, fraction=fraction))
