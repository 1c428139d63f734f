"""The tables of runs that are over, kept as columns beside their events: to load many runs is to decode them (T24).

Nothing is in them that the events do not tell. A mark says from which events, by which code, they were made; where it
is another one now, or something is wrong with them, they are made again (E71). Not kept is what has all texts once
more, the messages, or is quickly made, the events.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.trace.codec.event_codec import make_secret_search, to_plain
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.run_facts import RememberedRun
from ensemble_notebook.trace.store.run_rows import unfold, write_summaries
from ensemble_notebook.trace.store.store_file import KEPT_TABLES, opened, transaction
from ensemble_notebook.trace.store.store_reader import decode_events, make_trace, read_pieces, read_run, summarize_trace
from ensemble_notebook.trace.tables.table import UTC_TIME, Dtype, Table, TableColumns, list_frames

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema


# --- The columns of a table as JSON text, to be kept; read back as they were, or refused ------------------------
#
# What is read is taken for hostile: each column has the types and the length that the table asks for, or the whole is
# none. Secrets that were none when it was written are masked on the way (T7).


_LARGEST: Final = 2**63 - 1
_LATEST: Final = 7_258_118_400_000_000
"""The year 2200, in microseconds since 1970: frames count nanoseconds."""


def write_columns(table: Table, columns: TableColumns) -> bytes:
    """The JSON text of some rows of a table.

    Raises:
        ValueError: they hold something that would not come back as it is.
    """
    from pydantic_core import to_json

    text = to_json([columns.count, [columns.values[each.name] for each in table.all_columns]], inf_nan_mode="constants")
    found = read_columns(table, text)
    for column in table.all_columns:
        before, after = columns.values[column.name], found.values[column.name]
        # 1 is equal to True, which are not the same in a record of whatever there is
        if before != after or (column.dtype == "object" and repr(before) != repr(after)):
            raise ValueError(f"{column.name} has values that JSON has no form for")
    return text


def read_columns(table: Table, text: bytes) -> TableColumns:
    """The rows that a text holds.

    Raises:
        ValueError: it holds no rows of this table.
    """
    count, columns = _make_reader(tuple(each.dtype for each in table.all_columns)).validate_json(text)
    if len(columns[0]) != count:
        raise ValueError("nobody has written as many rows as there are said to be")
    may_be_secret = make_secret_search()(text)
    found = {}
    for column, values in zip(table.all_columns, columns, strict=True):
        if len(values) not in (1, count):
            raise ValueError(f"{column.name} is no column of {count} rows")
        is_masked = may_be_secret and column.dtype in ("string", "category", "object")
        found[column.name] = values
        if is_masked:
            found[column.name] = [tuple(map(clean_text, v)) if isinstance(v, tuple) else to_plain(v) for v in values]
    return TableColumns(count, found)


@cache
def _make_reader(dtypes: tuple[Dtype, ...]) -> SchemaValidator:
    """What reads the number of rows, and columns of these types."""
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as cs

    text = cs.str_schema(strict=True)
    # A record has names; a list of names comes back as the tuple that it was.
    record = cs.union_schema([cs.dict_schema(text, cs.any_schema()), cs.tuple_variable_schema(text)])
    schemas: dict[Dtype, CoreSchema] = {
        "string": text,
        "category": text,
        "Int64": cs.int_schema(strict=True, ge=-_LARGEST, le=_LARGEST),
        "Float64": cs.float_schema(strict=True, allow_inf_nan=False),
        "boolean": cs.bool_schema(strict=True),
        UTC_TIME: cs.int_schema(strict=True, ge=0, le=_LATEST),
        "object": record,
    }
    columns = cs.tuple_schema([cs.list_schema(cs.nullable_schema(schemas[each])) for each in dtypes])
    return SchemaValidator(cs.tuple_schema([cs.int_schema(strict=True, ge=0), columns]))


T = TypeVar("T")

_LEVEL: Final = 6
_STEP: Final = 100
_FRAMES: Final = {
    name: each for name, each in list_frames(Frames).items() if name not in ("events", "messages", "scores")
}


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
            return _FRAMES[name].table.read_columns([])
        found = read_columns(_FRAMES[name].table, unfold(self.data))
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
    for name, frame in _FRAMES.items():
        pause()
        with suppress(ValueError):
            columns = frame.read_columns(trace.frames)
            data = zlib.compress(write_columns(frame.table, columns), _LEVEL) if columns.count else b""
            tables[name] = KeptTable(columns.count, data)
    return KeptTables(mark, tables)


def read_kept(connection: sqlite3.Connection, run_ids: Sequence[str]) -> dict[str, KeptTables]:
    """What is kept of these runs, by run; what can't be read is left out."""
    found: dict[str, KeptTables] = {}
    try:
        rows = connection.execute(
            "SELECT run_id, mark, name, count, data FROM kept_tables "
            "WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, mark",
            [json.dumps(run_ids)],
        )
    except sqlite3.OperationalError:  # the file is of a time without
        return found
    for (run_id, mark), group in groupby(rows, itemgetter(0, 1)):
        tables = {
            name: KeptTable(count, data)
            for _, _, name, count, data in group
            if name in _FRAMES and isinstance(count, int) and count >= 0 and isinstance(data, bytes)
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
