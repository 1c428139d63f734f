"""The tables of runs that are over, kept as columns beside their events: to load many runs is to decode them (T24).

Nothing is in them that the events do not tell. A mark says from which events, by which code, they were made; where it
is another one now, or something is wrong with them, they are made again (E71). Not kept is what has all texts once
more, the messages, or is quickly made, the events.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeVar

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.store.batch import unfold
from ensemble_notebook.trace.store.faults import opened
from ensemble_notebook.trace.store.loaded_trace import make_trace, summarize_trace
from ensemble_notebook.trace.store.run_facts import RememberedRun
from ensemble_notebook.trace.store.run_rows import write_summaries
from ensemble_notebook.trace.store.schema import KEPT_TABLES, transaction
from ensemble_notebook.trace.store.store_reader import decode_events, read_pieces, read_run
from ensemble_notebook.trace.tables.column_parts import TableColumns
from ensemble_notebook.trace.tables.column_text import read_columns, write_columns
from ensemble_notebook.trace.tables.table import list_frames, read_frame_columns

T = TypeVar("T")

_LEVEL: Final = 6
_STEP: Final = 100
_TABLES: Final = {name: table for name, table in list_frames(Frames).items() if name not in ("events", "messages")}


@dataclass(frozen=True, slots=True)
class KeptTable:
    """One table of a run: how many rows it has, and its columns, compressed."""

    count: int
    data: bytes

    def decode(self, name: str) -> TableColumns:
        """Its columns.

        Raises:
            ValueError: they are damaged.
        """
        if self.count == 0 and not self.data:
            return _TABLES[name].read_columns([])
        found = read_columns(_TABLES[name], unfold(self.data))
        if found.count != self.count:
            raise ValueError(f"{found.count} rows in place of {self.count}")
        return found


@dataclass(frozen=True, slots=True)
class KeptTables:
    """The tables of a run by their names; one that can't be kept is not there."""

    mark: bytes
    tables: Mapping[str, KeptTable]


def find_mark(run: RememberedRun, pieces: Iterable[tuple[object, object]]) -> bytes:
    """What tells whether tables were made from this run as it is stored now, by this version."""
    mark = blake2b(_find_mark_of_makers(), digest_size=16)
    mark.update(repr((run.run_id, run.status.value, run.facts.name, run.facts.cost)).encode(errors="replace"))
    for seq, data in pieces:
        content = data if isinstance(data, bytes) else repr(data).encode(errors="replace")
        mark.update(f" {seq!r} {len(content)} ".encode(errors="replace"))
        mark.update(content)
    return mark.digest()


@cache
def _find_mark_of_makers() -> bytes:
    """What tells whether the same events still make the same tables: all code of the trace, and the list of prices."""
    mark = blake2b(version("genai-prices").encode(), digest_size=16)
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        mark.update(file.read_bytes())
    return mark.digest()


def encode_tables(trace: ExecutionTrace, mark: bytes, pause: Callable[[], object] = bool) -> KeptTables:
    """The tables of a run, to be kept.

    Args:
        trace: of the run, which is over.
        mark: of what it was made from.
        pause: called between one table and the next.
    """
    tables = {}
    for name, table in _TABLES.items():
        pause()
        with suppress(ValueError):
            columns = read_frame_columns(trace.frames, name)
            data = zlib.compress(write_columns(table, columns), _LEVEL) if columns.count else b""
            tables[name] = KeptTable(columns.count, data)
    return KeptTables(mark, tables)


def read_kept(connection: sqlite3.Connection) -> dict[str, KeptTables]:
    """All that is kept, by run; what can't be read is left out."""
    found: dict[str, KeptTables] = {}
    try:
        rows = connection.execute("SELECT run_id, mark, name, count, data FROM kept_tables ORDER BY run_id, mark")
    except sqlite3.OperationalError:  # the file is of a time without
        return found
    for (run_id, mark), group in groupby(rows, itemgetter(0, 1)):
        tables = {
            name: KeptTable(count, data)
            for _, _, name, count, data in group
            if name in _TABLES and isinstance(count, int) and count >= 0 and isinstance(data, bytes)
        }
        found[run_id] = KeptTables(mark, tables)
    return found


def write_kept(connection: sqlite3.Connection, kept: Mapping[str, KeptTables]) -> None:
    """Keep the tables of these runs, in place of what was kept of them."""
    rows = [
        (run_id, name, each.mark, table.count, table.data)
        for run_id, each in kept.items()
        for name, table in each.tables.items()
    ]
    with transaction(connection):
        connection.execute(KEPT_TABLES)
        connection.executemany("DELETE FROM kept_tables WHERE run_id = ?", [(run_id,) for run_id in kept])
        connection.executemany("INSERT INTO kept_tables (run_id, name, mark, count, data) VALUES (?, ?, ?, ?, ?)", rows)


def make_kept(path: Path, run_id: str, pause: Callable[[], object]) -> None:
    """Make the tables and the summary of a run that is over from its events in the store, and keep them.

    Args:
        path: of the store.
        run_id: of the run.
        pause: called every few milliseconds; what it raises ends it all.

    Raises:
        StoreError: the run is damaged or gone, or the store can't be written.
    """
    with opened(path) as connection:
        run, pieces = read_run(connection, run_id), read_pieces(connection, run_id)
    if run is None or run.status is RunStatus.RUNNING or not pieces:
        return
    events = [*_pace(decode_events(run_id, pieces), pause)]
    trace = make_trace(run, events, lambda some: _pace(some, pause))
    kept = encode_tables(trace, find_mark(run, pieces), pause)
    summary = summarize_trace(trace)
    with opened(path) as connection:
        write_kept(connection, {run_id: kept})
        if summary is not None:
            write_summaries(connection, {run_id: summary})


def _pace(things: Iterable[T], pause: Callable[[], object]) -> Iterator[T]:
    """The same, with pauses."""
    for number, each in enumerate(things):
        if number % _STEP == 0:
            pause()
        yield each
