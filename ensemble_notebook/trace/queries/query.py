"""SQL over all runs that the store keeps, by DuckDB (T121, T122).

DuckDB sees no store and no file: what a statement names is decoded into Arrow and handed over, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from decimal import Decimal
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Final

from ensemble_notebook.errors import MissingPackageError, ValidationError
from ensemble_notebook.trace.loading import TABLES, JoinedFrames, RunTables, load_run_tables
from ensemble_notebook.trace.queries.statement import Statement
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.tables.arrow_tables import columns_to_arrow, frame_to_arrow, make_arrow_schema
from ensemble_notebook.trace.tables.table import TableColumns

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

_SHUT: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
"""No files, no network, no extensions, and no variables of Python, from the first moment on."""
_LOOK_S: Final = 0.1
"""How often it is looked whether somebody has interrupted."""
_DAY_NS: Final = 86_400_000_000_000


def sql(query: str) -> pd.DataFrame:
    """Ask all remembered runs by one SELECT, in the SQL of DuckDB (extra ``sql``).

    For example::

        store.sql("select name, sum(cost) as cost from runs group by name order by cost desc")

    The tables are those of `load_traces`, by their names, each with the column `run_id`; what is an index there is a
    column here. Nothing but the tables and columns that are named is read. Runs that can't be read are left out with a
    warning.

    Returns:
        The rows. Whole numbers are Int64, other numbers Float64, truths boolean, texts and words string, instants and
        dates datetime64, intervals without months timedelta64, lists and records objects. A name that stands twice is
        ``name`` and ``name_1``.

    Raises:
        ValidationError: it is no SELECT, names what is not there, or can't be carried out; says what and where.
        StoreError: nothing is remembered since the store is off, or it can't be read.
        MissingPackageError: DuckDB is not installed.
    """
    RunStore.open()  # whoever keeps nothing is told so, whatever was asked
    if find_spec("duckdb") is None or find_spec("pyarrow") is None:
        raise MissingPackageError("SQL needs duckdb and pyarrow", extra="sql")
    import duckdb
    import pyarrow as pa

    with closing(connect()) as connection:
        statement = Statement(query, _parse(connection, query))
        schemas = {name: _make_schema(name) for name in TABLES}
        named = statement.list_columns({name: schema.names for name, schema in schemas.items()})
        try:
            if "rows" not in named:  # whose columns are known when they are read
                for name in named:
                    connection.register(name, schemas[name].empty_table())
                connection.sql(query)  # what is wrong is said before all runs are read
            parts = load_run_tables(None, names=named.keys()) if named else {}
            for name, columns in named.items():
                wanted = pa.schema([each for each in schemas[name] if each.name in {*columns, "run_id"}])
                table = _read_rows(parts) if name == "rows" else _read_table(parts, name, wanted)
                connection.register(name, table)
                schemas[name] = table.schema if name == "rows" else schemas[name]
            return _make_frame(_answer(connection, query))
        except duckdb.Error as error:
            known = [column for name in named for column in schemas[name].names]
            raise ValidationError(statement.explain(_shorten(error), known)) from None  # whose text is not masked


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that sees nothing else, and can't be opened by what is asked of it."""
    import duckdb

    connection = duckdb.connect(":memory:", config=_SHUT)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def _parse(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """What DuckDB reads in a text, as JSON text.

    Raises:
        ValidationError: it is no text that can be written as UTF-8.
    """
    if not isinstance(query, str):
        raise ValidationError(
            f"store.sql takes one SELECT as a text, such as 'select name from runs', not {type(query).__name__}."
        )
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"SQL: its character {error.start + 1}, {query[error.start]!a}, is half of one. Leave it out."
        ) from None
    ((document,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    return str(document)


def _make_schema(name: str) -> pa.Schema:
    """The columns of a table, `run_id` among them."""
    import pyarrow as pa

    schema = make_arrow_schema(TABLES[name])
    return (
        schema
        if "run_id" in schema.names
        else schema.append(pa.field("run_id", pa.dictionary(pa.int32(), pa.string())))
    )


def _read_table(parts: Mapping[str, RunTables], name: str, schema: pa.Schema) -> pa.Table:
    """The columns of a table that a schema names, run after run."""
    import pyarrow as pa

    batches = []
    for run_id, each in parts.items():
        columns = each.read_columns(name, schema.names)
        told = TableColumns(columns.count, {"run_id": [run_id], **columns.values})
        batches.append(columns_to_arrow(told, schema))
    return pa.Table.from_batches(batches, schema)


def _read_rows(parts: Mapping[str, RunTables]) -> pa.Table:
    """The rows of all maps, with a column for each input, output and score."""
    return frame_to_arrow(JoinedFrames(parts).rows, TABLES["rows"])


def _answer(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """What DuckDB answers, in a thread: of an interrupt of the one in which it works it sometimes hears nothing."""
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(lambda: connection.sql(query).to_arrow_table())
        try:
            while not future.done():
                wait([future], _LOOK_S)
        except KeyboardInterrupt:
            while not future.done():
                connection.interrupt()
                wait([future], _LOOK_S)
            raise
        return future.result()


def _shorten(error: Exception) -> str:
    """What DuckDB says, in one line, without the lists of all that would have been right."""
    told, _, more = str(error).partition("\n\n")[0].partition("\tCandidate functions")[0].partition(" Error: ")
    return clean_text(" ".join((more or told).split()))


# --- What DuckDB answers, as a frame ----------------------------------------------------------------------------------


def _make_frame(table: pa.Table) -> pd.DataFrame:
    """The frame of a table, with the types that the frames of runs have."""
    import pandas as pd
    import pyarrow as pa

    dtypes = {
        pa.int64(): pd.Int64Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
        pa.string(): pd.StringDtype(),
    }
    columns = [_simplify(each) for each in table.columns]
    numbers = [str(number) for number in range(len(columns))]  # a name may stand twice
    objects = {
        number: each
        for number, each in zip(numbers, columns, strict=True)
        if pa.types.is_nested(each.type) or pa.types.is_decimal(each.type)
    }
    plain = [pa.nulls(len(each)) if number in objects else each for number, each in zip(numbers, columns, strict=True)]
    frame: pd.DataFrame = pa.Table.from_arrays(plain, numbers).to_pandas(types_mapper=dtypes.get)
    for number, each in objects.items():
        values = each.to_pylist(maps_as_pydicts="lossy")
        frame[number] = pd.Series([int(v) if isinstance(v, Decimal) else v for v in values], dtype=object)
    frame.columns = pd.Index(_name_columns(table.column_names))
    return frame


def _name_columns(names: Sequence[str]) -> list[str]:
    """A name for each column: the second one of a name is ``name_1``, as in DuckDB's own frames."""
    named: list[str] = []
    for name in names:
        choices = (f"{name}_{number}" if number else name for number in count())
        named.append(next(each for each in choices if each not in named and (each == name or each not in names)))
    return named


def _simplify(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values in one of few types; as they are where one has no place in it."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_interval(kind):
        values = column.to_pylist()
        if any(each is not None and each.months for each in values):  # which have no length
            return column
        lengths = [None if each is None else each.days * _DAY_NS + each.nanoseconds for each in values]
        try:
            return pa.chunked_array([lengths], pa.duration("ns"))
        except OverflowError:
            return column
    goal = kind
    if types.is_dictionary(kind):
        goal = kind.value_type
    elif types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0):
        goal = pa.int64()
    elif types.is_floating(kind) or types.is_decimal(kind):
        goal = pa.float64()
    elif types.is_date(kind) or types.is_timestamp(kind):
        goal = pa.timestamp("ns", getattr(kind, "tz", None))
    try:
        return column.cast(goal)
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("s")) if types.is_date(kind) else column
