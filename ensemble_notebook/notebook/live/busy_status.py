"""Repeats the status "busy" to frontends that may take the kernel for idle.

A kernel sends "idle" after every message it has handled, even one on a subshell while a cell is still running on the
main thread. Frontends, and servers that cull idle kernels, believe the last status.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_EVENTS: Final = ("pre_run_cell", "post_run_cell")


class BusyStatus:
    """Tracks the running cell, and repeats its status."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cell: dict[str, Any] | None = None

    def begin(self) -> None:
        """Register the callbacks for cells."""
        for name, act in zip(_EVENTS, (self._notice_begin, self._notice_end), strict=True):
            self._shell.events.register(name, act)

    def end(self) -> None:
        """Unregister them."""
        for name, act in zip(_EVENTS, (self._notice_begin, self._notice_end), strict=True):
            self._shell.events.unregister(name, act)
        self._cell = None

    def renew(self) -> None:
        """Schedule another "busy" for after the message that this thread is handling, which ends with "idle"."""
        if self._cell is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no thread of a kernel's loop
            return
        loop.call_soon(self._say_busy)

    def _notice_begin(self, _info: object = None) -> None:
        self._cell = getattr(self._shell, "get_parent", dict)() or None

    def _notice_end(self, _result: object = None) -> None:
        self._cell = None

    def _say_busy(self) -> None:
        cell = self._cell
        if cell is None:
            return
        self._publish("busy", cell)
        if self._cell is not cell:  # it ended just now, and its own "idle" may have come before our "busy"
            self._publish("idle", cell)

    def _publish(self, state: str, parent: dict[str, Any]) -> None:
        kernel: Any = getattr(self._shell, "kernel", None)
        if kernel is not None:
            ident = f"kernel.{kernel.ident}.status".encode()
            kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=ident)
