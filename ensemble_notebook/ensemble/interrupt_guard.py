"""The kernel's interrupt (and Ctrl-C) while a run of a cell or of the command line is going on (E35).

An exception that may be raised between any two instructions would tear imports and displays apart, could come before
there is anything to stop, and is lost where Python happens to be in a destructor. While the guard is held, an interrupt
is a call instead. Knows nothing of runs.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Self


class InterruptGuard:
    """Turns the first interrupt into a call of the action. A second one raises, as a last resort.

    On another thread than the main one, which no interrupt reaches, it does nothing.
    """

    def __init__(self) -> None:
        self._on_interrupt: Callable[[], None] | None = None
        self._is_interrupted = False
        self._is_blocking = False
        self._is_recalled = False
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

    def call(self, on_interrupt: Callable[[], None]) -> None:
        """What an interrupt does; one that has come already does it now."""
        self._on_interrupt = on_interrupt
        if self._is_interrupted:
            on_interrupt()

    @contextmanager
    def blocking(self) -> Iterator[None]:
        """For what blocks, such as a prompt: inside, an interrupt raises, too, and so does `recall`.

        Raises:
            KeyboardInterrupt: from inside.
        """
        self._is_blocking = True
        try:
            yield
        finally:
            self._is_blocking = False

    def recall(self) -> None:
        """Have the main thread leave what blocks it; no interrupt, so nothing is called. From any other thread."""
        if self._give_back is None or threading.current_thread() is threading.main_thread():
            return
        self._is_recalled = True
        if hasattr(signal, "pthread_kill"):
            # A real signal, because a terminal's read in C notices nothing else.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_recalled:
            self._is_recalled = False
            if self._is_blocking:
                raise KeyboardInterrupt
            return
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        if self._on_interrupt is not None:
            self._on_interrupt()
        if self._is_blocking:
            raise KeyboardInterrupt
