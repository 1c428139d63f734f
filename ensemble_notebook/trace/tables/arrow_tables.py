"""Tables as Arrow has them: a column's type is what its table says, whatever is in it, and also if nothing is.

Why not the types that pandas takes from the values: an empty list has none there, a category counts by as many bits as
it has words, and an instant has nanoseconds, which DuckDB can't subtract.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.tables.table import UTC_TIME, Table, TableColumns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def _list_types() -> dict[str, pa.DataType]:
    """The types of Arrow by those of pandas; what is of no one type is text."""
    import pyarrow as pa

    text = pa.string()
    return {
        "string": text,
        "object": text,
        "category": pa.dictionary(pa.int32(), text),
        "Int64": pa.int64(),
        "Float64": pa.float64(),
        "boolean": pa.bool_(),
        UTC_TIME: pa.timestamp("us", "UTC"),
    }


def make_arrow_schema(table: Table) -> pa.Schema:
    """The columns of a table with their types, the index first: lists of names are lists, records JSON text."""
    import pyarrow as pa

    types = _list_types()
    fields = {each.name: pa.list_(pa.string()) if each.is_list else types[each.dtype] for each in table.all_columns}
    return pa.schema(fields)


def frame_to_arrow(frame: pd.DataFrame, table: Table) -> pa.Table:
    """A frame as a table of Arrow, the index first.

    Args:
        frame: the columns of the table, and perhaps more, which have the type of their dtype; a mixed one is text.
        table: what the frame is of.
    """
    import pyarrow as pa

    known, types = make_arrow_schema(table), _list_types()
    fields: dict[str, pa.DataType] = {}
    texts: dict[str, pd.Series[Any]] = {}
    lists = {each.name for each in table.columns if each.is_list}
    for name, column in frame.items():
        if column.dtype == object and name not in lists:
            texts[str(name)] = column.map(write_value, na_action="ignore").astype("string")
        fields[str(name)] = known.field(name).type if name in lists else types.get(str(column.dtype), pa.string())
    index = {} if table.index is None else {table.index.name: known.field(table.index.name).type}
    schema = pa.schema({**fields, **index})  # what is noted for pandas is right only where the index comes last
    made = pa.Table.from_pandas(frame.assign(**texts), schema, preserve_index=bool(index), safe=False)
    return made.select([*index, *fields])


def columns_to_arrow(columns: TableColumns, schema: pa.Schema) -> pa.RecordBatch:
    """Those columns that a schema names, of `make_arrow_schema`, as Arrow."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        values = columns.values[field.name]
        if field.type == pa.string():
            values = [each if each is None else write_value(each) for each in values]
        arrays.append(pa.array(values if len(values) == columns.count else values * columns.count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write_value(value: Any) -> str:
    """A value as the text of a column that is of no one type: what is no text is JSON."""
    return value if isinstance(value, str) else json.dumps(to_plain(value), ensure_ascii=False, default=str)
