"""Where traces go when a run is over (T6): to files, or to whatever else takes one."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.ensemble_definition import Exporter
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.errors import SuggestsNames, add_origin, summarize_error

if TYPE_CHECKING:
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

SUFFIX: Final = ".trace.json"
DEFAULT_FOLDER: Final = "traces"

_log: Final = logging.getLogger("ensemble_notebook.trace")


class JsonTraceExporter(SuggestsNames):
    """Writes each trace as JSON.

    Args:
        path: a file, when it ends in ``.json``, which every run replaces; else a folder, where each run gets a file
            ``RUN.trace.json`` of its own. Folders are made.

    Raises:
        ValidationError: it is no path, or an address.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = read_path(path, "path")

    def export(self, trace: ExecutionTrace) -> Path:
        """Write a trace.

        Args:
            trace: of one run.

        Returns:
            The path of the file.

        Raises:
            OSError: the file can't be written.
        """
        return trace.save(self.path if self.path.suffix == ".json" else self.path / make_file_name(trace.run_id))

    def __repr__(self) -> str:
        """As it is written."""
        return f"JsonTraceExporter({str(self.path)!r})"


def make_file_name(run_id: str) -> str:
    """Of the file of a run; ids of other systems may hold anything."""
    return re.sub(r"[^\w.-]", "_", run_id).lstrip(".")[:200] + SUFFIX


def export_trace(trace: ExecutionTrace, exporter: Exporter | None) -> str | None:
    """Hand a trace to an exporter; without one, a trace of mode FULL goes to ``./traces/``.

    Never raises: what an exporter raises is logged, since the run has its result all the same.

    Returns:
        A warning for the run's output, where the exporter has failed.
    """
    if exporter is None:
        if trace.capture_mode is not CaptureMode.FULL:
            return None
        exporter = JsonTraceExporter(DEFAULT_FOLDER)
    if hasattr(exporter, "on_event"):
        return None  # it has heard of everything
    export: Callable[[ExecutionTrace], Any] = getattr(exporter, "export", None) or exporter  # type: ignore[assignment]
    try:
        export(trace)
    except Exception as error:  # noqa: BLE001 - whatever a foreign exporter raises
        name = getattr(exporter, "__name__", type(exporter).__name__)
        warning = f"The trace could not be exported by {name}: {add_origin(summarize_error(error), error)}"
        _log.warning("%s", warning)
        return warning
    return None
