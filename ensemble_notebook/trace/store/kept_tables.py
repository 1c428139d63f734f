"""The tables of runs that are over, kept as columns beside their events: to load many runs is to decode them (T24).

Nothing is in them that the events do not tell. A mark says from which events, by which code, they were made; where it
is another one now, or something is wrong with them, they are made again (E71). Not kept is what has all texts once
more, the messages, or is quickly made, the events.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.trace.codec.event_codec import make_secret_search, to_plain
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.run_facts import RememberedRun
from ensemble_notebook.trace.store.run_rows import LARGEST, unfold, unfold_first, write_summaries
from ensemble_notebook.trace.store.store_file import KEPT_TABLES, opened, transaction
from ensemble_notebook.trace.store.store_reader import decode_events, make_trace, read_pieces, read_run, summarize_trace
from ensemble_notebook.trace.tables.table import UTC_TIME, Dtype, Table, TableColumns, list_frames

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema


# --- The columns of a table, to be kept; read back as they were, or refused --------------------------------------
#
# Each long column is compressed by itself, so that a query reads those alone that it names (T120). Short ones stand
# together, since most say one thing of all rows. What is read is taken for hostile: each column has the types and the
# length that the table asks for, or the whole is none. Secrets that were none when it was written are masked on the way
# (T7).


_LARGEST: Final = 2**63 - 1
_LATEST: Final = 7_258_118_400_000_000
"""The year 2200, in microseconds since 1970: frames count nanoseconds."""
_LEVEL: Final = 6
_SHORT: Final = 256
"""Bytes of a column that is not worth being compressed by itself."""
_MOST_ROWS_A_BYTE: Final = 516
"""A value takes two bytes of JSON, and nothing is compressed to less than a 1,032nd."""


def write_columns(table: Table, columns: TableColumns) -> bytes:
    """Some rows of a table: how many, with all short columns and the sizes of the long ones; then the long ones.

    Raises:
        ValueError: they hold something that would not come back as it is.
    """
    from pydantic_core import to_json

    texts = [to_json(columns.values[each.name], inf_nan_mode="constants") for each in table.all_columns]
    long = [zlib.compress(text, _LEVEL) if len(text) > _SHORT else b"" for text in texts]
    told = b",".join(b"%d" % len(part) if part else text for text, part in zip(texts, long, strict=True))
    data = zlib.compress(b"[%d,[%b]]" % (columns.count, told), _LEVEL) + b"".join(long)
    found = read_columns(table, data)
    for column in table.all_columns:
        before, after = columns.values[column.name], found.values[column.name]
        # 1 is equal to True, which are not the same in a record of whatever there is
        if before != after or (column.dtype == "object" and repr(before) != repr(after)):
            raise ValueError(f"{column.name} has values that JSON has no form for")
    return data


def read_columns(table: Table, data: bytes, names: Collection[str] | None = None) -> TableColumns:
    """The rows that were written.

    Args:
        table: that they are of.
        data: of `write_columns`.
        names: of the columns that are read; None: of all.

    Raises:
        ValueError: it holds no rows of this table.
    """
    head, rest = unfold_first(data)
    count, told = _make_head_reader().validate_json(head)
    sizes = [each if isinstance(each, int) else 0 for each in told]
    if sum(sizes) != len(rest):
        raise ValueError("a column is cut off, or there is something after the last")
    # Whoever claims rows has to write their ids, though nobody may read them.
    if count > (sizes[0] * _MOST_ROWS_A_BYTE if sizes[0] else len(told[0])):
        raise ValueError("nobody has written as many rows as there are said to be")
    search = make_secret_search()
    is_head_secret, left = search(head), LARGEST - len(head)
    found: dict[str, list[Any]] = {}
    for column, values, size, end in zip(table.all_columns, told, sizes, accumulate(sizes), strict=True):
        if names is not None and column.name not in names:
            continue
        is_masked, reader = is_head_secret, _make_reader(column.dtype)
        if size:
            text = unfold(rest[end - size : end])
            left -= len(text)
            if left < 0:
                raise ValueError("it is too large")
            is_masked, values = search(text), reader.validate_json(text)
        else:
            values = reader.validate_python(values)
        if len(values) not in (1, count) or (column is table.all_columns[0] and len(values) != count):
            raise ValueError(f"{column.name} is no column of {count} rows")
        if is_masked and column.dtype in ("string", "category", "object"):
            values = [tuple(map(clean_text, v)) if isinstance(v, tuple) else to_plain(v) for v in values]
        found[column.name] = values
    return TableColumns(count, found)


@cache
def _make_head_reader() -> SchemaValidator:
    """What reads the number of rows, and the columns or their sizes."""
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as cs

    number = cs.int_schema(strict=True, ge=0)
    told = cs.union_schema([cs.int_schema(strict=True, ge=1), cs.list_schema(cs.any_schema())])
    return SchemaValidator(cs.tuple_schema([number, cs.list_schema(told, min_length=1)]))


@cache
def _make_reader(dtype: Dtype) -> SchemaValidator:
    """What reads a column of this type."""
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
    return SchemaValidator(cs.list_schema(cs.nullable_schema(schemas[dtype])))


T = TypeVar("T")

_STEP: Final = 100
_FRAMES: Final = {
    name: each for name, each in list_frames(Frames).items() if name not in ("events", "messages", "scores")
}


@dataclass(frozen=True, slots=True)
class KeptTable:
    """One table of a run: how many rows it has, and its columns, see `write_columns`."""

    count: int
    data: bytes

    def decode(self, name: str, columns: Collection[str] | None = None) -> TableColumns:
        """Its columns of these names, or all.

        Raises:
            ValueError: they are damaged.
        """
        if self.count == 0 and not self.data:
            return _FRAMES[name].table.read_columns([])
        found = read_columns(_FRAMES[name].table, self.data, columns)
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
            data = write_columns(frame.table, columns) if columns.count else b""
            tables[name] = KeptTable(columns.count, data)
    return KeptTables(mark, tables)


def read_kept(
    connection: sqlite3.Connection, run_ids: Sequence[str], names: Collection[str] = _FRAMES
) -> dict[str, KeptTables]:
    """What is kept of these runs, by run: the tables of these names; what can't be read is left out."""
    found: dict[str, KeptTables] = {}
    try:
        rows = connection.execute(
            "SELECT run_id, mark, name, count, CASE WHEN name IN (SELECT value FROM json_each(?)) THEN data END "
            "FROM kept_tables WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, mark",
            [json.dumps([*names]), json.dumps(run_ids)],
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
