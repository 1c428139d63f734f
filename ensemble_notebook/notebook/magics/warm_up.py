"""The warm-up: imports what the first run needs, on a thread, while the kernel is idle.

It opens no connection, prints nothing, and gives way to cells. An import can't be interrupted, so the work is split
into steps, small ones and dependencies first. Between two steps, the warm-up waits until no cell runs. Inside a step,
it sleeps before each module while a cell has just begun, but at most `GIVE_WAY_S`: the cell may import the same
package, and would wait for the import lock.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.notebook.live.frontend import has_reader

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

THREAD_NAME: Final = "ensemble-warm-up"
REST_S: Final = 0.2
"""How long no cell must have run before a step begins: cells of "Run All" follow each other."""
GIVE_WAY_S: Final = 0.3
"""How long a step that is going on sleeps for a cell that begins."""

_NAP_S: Final = 0.01
_MODULES: Final = (
    "ruamel.yaml",
    "ensemble_notebook.cell.cell_reader",
    "pydantic",
    "ensemble_notebook.ensemble.ensemble",
    "ensemble_notebook.ensemble.person",
    "ensemble_notebook.notebook.live.run_display",
    "ensemble_notebook.notebook.picture.answer_html",
    "ipywidgets",
    "ensemble_notebook.notebook.live.timeline_widget",
    "ensemble_notebook.trace.execution_trace",
    "ensemble_notebook.models.model_source",
    "aiohttp",
    "genai_prices",
    "xllamacpp",
)

_log: Final = logging.getLogger("ensemble_notebook")


IMPORTS: Final[Sequence[Callable[[], object]]] = (
    *(partial(importlib.import_module, name) for name in _MODULES),
    # What speaks to models is made once, as by the first request; nothing is contacted.
    lambda: importlib.import_module("ensemble_notebook.models.chat_completions").load_client(),
)


class WarmUp:
    """Starts after the cell in which it is created, if a person may be there; not for nbclient and terminals.

    Args:
        shell: of the kernel.
        imports: the steps, in order; a failing one is skipped.
    """

    def __init__(self, shell: InteractiveShell, imports: Sequence[Callable[[], object]] = IMPORTS) -> None:
        self._shell = shell
        self._imports = imports
        self._is_stopped = False
        self._is_resting = threading.Event()
        self._rested_at = self._yields_until = 0.0
        self._thread: threading.Thread | None = None
        self._notices = {"pre_execute": self._notice_cell, "post_execute": self._notice_rest}
        if getattr(shell, "kernel", None) is not None:
            for event, notice in self._notices.items():
                shell.events.register(event, notice)

    def stop(self) -> None:
        """Start no further step, and stop giving way; a running step ends by itself. May be called twice."""
        self._is_stopped = True
        self._is_resting.set()
        for event, notice in self._notices.items():
            with suppress(ValueError):  # they are not there
                self._shell.events.unregister(event, notice)

    def find_spec(self, _name: str, _path: Any = None, _target: Any = None) -> None:
        """Python's hook before each import: finds nothing, but gives way to a cell that has begun."""
        if threading.current_thread() is self._thread:
            while time.monotonic() < self._yields_until and not self._is_stopped:
                time.sleep(_NAP_S)

    def _notice_cell(self) -> None:
        self._is_resting.clear()
        self._yields_until = time.monotonic() + GIVE_WAY_S

    def _notice_rest(self) -> None:
        self._rested_at = time.monotonic()
        self._yields_until = self._rested_at + REST_S  # the reply is not sent yet
        self._is_resting.set()
        if self._thread is None and not self._is_stopped and has_reader(self._shell):
            self._thread = threading.Thread(target=self._work, name=THREAD_NAME, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        sys.meta_path.insert(0, self)
        try:
            for step in self._imports:
                if not self._wait_for_rest():
                    break
                try:
                    step()
                except Exception as error:  # noqa: BLE001 - whatever foreign modules raise; the run will say it
                    _log.debug("Warm-up: %s", error)
        finally:
            sys.meta_path.remove(self)
            self.stop()

    def _wait_for_rest(self) -> bool:
        """Wait until no cell has run for a while; False where the warm-up is over."""
        while not self._is_stopped:
            self._is_resting.wait()
            left_s = self._rested_at + REST_S - time.monotonic()
            if left_s <= 0 and self._is_resting.is_set():
                break
            time.sleep(max(left_s, _NAP_S))
        # Where a warning on import raises, it would be raised here, once, and never where the user could see it.
        raises = any(action == "error" and kind.__module__ == "builtins" for action, _, kind, *_ in warnings.filters)
        return not self._is_stopped and not raises
