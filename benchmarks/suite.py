"""The measurements by name, in the order of the table."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.row import Row
from ensemble_notebook.trace.store import run_store
from ensemble_notebook.trace.store.store_file import VARIABLE

MEASUREMENTS: Final = (
    "extension",
    "first_reply",
    "warm_up",
    "cell",
    "reading",
    "handler",
    "memory",
    "pictures",
    "rows",
    "cluster",
    "plan",
    "call",
    "rerun",
    "conversation",
    "reuse",
    "forks",
    "improve",
    "board",
    "chain",
    "fan",
    "stop",
    "watching",
    "watched_framework",
    "watched_spans",
    "sent_spans",
    "first_view",
    "timeline",
    "store",
    "sessions",
    "span_files",
)


def run(names: Iterable[str], *, quick: bool) -> Iterator[Row]:
    """The rows, in order. Each measurement has a process and a run store of its own.

    One runs after the other, so that none takes the processor from another; two at a time where nothing is judged.
    """
    with ThreadPoolExecutor(2 if quick else 1) as threads:
        for rows in threads.map(partial(_measure_alone, quick=quick), names):
            yield from rows


def _measure_alone(name: str, *, quick: bool) -> list[Row]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_measure, name, quick=quick).result()


def _measure(name: str, *, quick: bool) -> list[Row]:
    run_store.QUIET_S = 3600.0  # what is made between runs would be counted with whatever runs then
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = str(Path(folder) / "runs.db")
        rows: list[Row] = importlib.import_module(f"benchmarks.{name}").measure(quick=quick)
    return rows
