"""Many runs at once, from the store or from files, as the same tables (T24)."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.joined_frames import FoldedTables, RunTables
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.stored_tables import load_tables

PathLike = str | os.PathLike[str]
_SQLITE = b"SQLite format 3\0"


def load_run_tables(where: PathLike | Sequence[PathLike] | None) -> dict[str, RunTables]:
    """The tables of all runs in these places, by run. Those that are in several places are taken once.

    Args:
        where: None for all runs that the store remembers, in order of their start; the path of a ``*.trace.json`` or
            of another store; a pattern such as ``"traces/**/*.trace.json"``; or a list of these.

    Raises:
        StoreError: nothing is remembered since the store is off, or it can't be read. Single runs in it that can't be
            read are left out with a warning.
        FileNotFoundError: there is no such file, or none fits the pattern.
        TraceFormatError: a file is no trace, or not a whole one.
    """
    if where is None:
        return _load_stored(RunStore.open())
    places = [where] if isinstance(where, str | os.PathLike) else where
    by_run: dict[str, RunTables] = {}
    for path in (path for place in places for path in _find_files(place)):
        for run_id, tables in _load_file(path).items():
            by_run.setdefault(run_id, tables)
    return by_run


def _load_stored(store: RunStore) -> dict[str, RunTables]:
    """The tables of all runs in a store, the oldest first; what can't be read is left out, with one warning."""
    tables, problems = load_tables(store.path)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        warnings.warn(f"{store.path}: {problems[0]}{more}. They are left out.", UserWarning, stacklevel=4)
    return tables


def _find_files(place: PathLike) -> Iterable[Path]:
    """The files that a path or a pattern names, in order of their names."""
    path = Path(place).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder. Its traces: load_traces({str(path / '*.trace.json')!r}).")
    found = sorted(Path(each) for each in glob.glob(str(path), recursive=True))  # noqa: PTH207 - it may be absolute
    if not found:
        raise FileNotFoundError(f"There is no trace {str(place)!r}.")
    return [each for each in found if each.is_file()]


def _load_file(path: Path) -> dict[str, RunTables]:
    with path.open("rb") as file:
        is_store = file.read(len(_SQLITE)) == _SQLITE
    if is_store:
        return _load_stored(RunStore.open(path.absolute()))
    trace = ExecutionTrace.load(path)
    return {trace.run_id: FoldedTables(trace)}
