"""The kernel's interrupt (and Ctrl-C) while a cell's run is going on (E35).

An exception that may be raised between any two instructions would tear imports and displays apart and could come
before there is anything to stop. While the guard is held, an interrupt is a call instead. Knows nothing of runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Self


class InterruptGuard:
    """Turns the first interrupt into a call of the action. A second one raises, as a last resort.

    On another thread than the main one, which no interrupt reaches, it does nothing.
    """

    def __init__(self) -> None:
        self._action: Callable[[], None] | None = None
        self._is_interrupted = False
        self._give_back: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        """Take over."""
        if threading.current_thread() is threading.main_thread():
            previous = signal.signal(signal.SIGINT, self._interrupt) or signal.SIG_DFL
            self._give_back = partial(signal.signal, signal.SIGINT, previous)
        return self

    def __exit__(self, *_: object) -> None:
        """Give back."""
        if self._give_back is not None:
            self._give_back()

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
