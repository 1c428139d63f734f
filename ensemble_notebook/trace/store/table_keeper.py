"""The thread that makes the tables of runs that have ended, so that many runs load quickly later (T24).

It works while no run of this process goes on, and lets one that begins have the processor at once. What it has not come
to when the process ends is made when the runs are loaded. Knows no tables: what makes them is imported once there is
something to make, since a run waits for what is imported before it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from ensemble_notebook.errors import StoreError, summarize_error

QUIET_S: Final = 0.5
"""How long there has been no run before it begins: mostly, another one follows at once."""

_STOP_S: Final = 5.0

_log: Final = logging.getLogger("ensemble_notebook.store")


class _StoppedError(Exception):
    """The process ends."""


class TableKeeper:
    """Makes and keeps the tables of the runs in one file. Its thread lives as long as there is something to do.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._open_count = 0
        self._quiet_since = 0.0
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        atexit.register(self.stop)

    def begin(self) -> None:
        """A run begins, for which all waits."""
        with self._changed:
            self._open_count += 1

    def end(self, run_id: str, *, is_written: bool) -> None:
        """A run is over; its tables are to be made if it is in the file."""
        with self._changed:
            self._open_count -= 1
            self._quiet_since = time.monotonic()
            if is_written:
                self._waiting.append(run_id)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="ensemble-tables", daemon=True)
                    self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while (run_id := self._take()) is not None:
            try:
                from ensemble_notebook.trace.store.kept_tables import make_kept

                make_kept(self._path, run_id, self._pause)
            except _StoppedError:
                return
            except StoreError as error:
                _log.debug("%s", error)
            except Exception as error:  # noqa: BLE001 - the next one may go well, and nobody waits for this one
                _log.warning("The tables of run %s can't be kept: %s", run_id, summarize_error(error))

    def _take(self) -> str | None:
        """The next run, once it is quiet; None where there is none."""
        with self._changed:
            while True:
                if self._is_stopped or not self._waiting:
                    self._thread = None
                    return None
                left_s = self._quiet_since + QUIET_S - time.monotonic()
                if not self._open_count and left_s <= 0:
                    return self._waiting.popleft()
                self._changed.wait(None if self._open_count else left_s)

    def _pause(self) -> None:
        """Let runs that go on have the processor.

        Raises:
            _StoppedError: the process ends.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or not self._open_count)
            if self._is_stopped:
                raise _StoppedError

    def stop(self) -> None:
        """Give up what is left, since the process ends: no thread may be inside a library then."""
        if self._pid != os.getpid():
            return
        with self._changed:
            self._is_stopped, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_STOP_S)
