"""The kernel's interrupt (and Ctrl-C) while a cell's run is going on (E35).

An exception that may be raised between any two instructions would tear imports and displays apart and could come
before there is anything to stop. While the guard is held, an interrupt is a call instead. Knows nothing of runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self


class InterruptGuard:
    """Turns the first interrupt into a call of the action. A second one raises, as a last resort.

    On another thread than the main one, which no interrupt reaches, it does nothing.
    """

    def __init__(self) -> None:
        self._action: Callable[[], None] | None = None
        self._is_interrupted = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        """Take over."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        """Give back."""
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def call(self, action: Callable[[], None]) -> None:
        """What an interrupt does; one that has come already does it now."""
        self._action = action
        if self._is_interrupted:
            action()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        if self._action is not None:
            self._action()
