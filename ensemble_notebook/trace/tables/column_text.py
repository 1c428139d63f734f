"""The columns of a table as JSON text, to be kept; read back as they were, or refused (E71).

What is read is taken for hostile: each part has the form, the types and the length that its column asks for, or the
whole is none. Secrets that were none when it was written are masked on the way (T7).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.codec.secret_search import make_secret_search
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.tables.column_parts import UTC_TIME, Dtype, Part, TableColumns
from ensemble_notebook.trace.tables.table import Table

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema

_NUMBERS: Final = ({"same"}, {"values"}, {"values", "known"})
_FORMS: Final[Mapping[Dtype, tuple[set[str], ...]]] = {
    "string": ({"same"}, {"values"}),
    "object": ({"same"}, {"values"}),
    "category": ({"same"}, {"values", "codes"}),
    "boolean": ({"same"}, {"flags"}),
    "Int64": _NUMBERS,
    "Float64": _NUMBERS,
    UTC_TIME: _NUMBERS,
}
_LARGEST: Final = 2**63 - 1
_LATEST: Final = 7_258_118_400_000_000
"""The year 2200, in microseconds since 1970: frames count nanoseconds."""


def write_columns(table: Table, columns: TableColumns) -> bytes:
    """The JSON text of some rows of a table.

    Raises:
        ValueError: they hold something that would not come back as it is.
    """
    from pydantic_core import to_json

    parts = [columns.parts[each.name] for each in table.all_columns]
    text = to_json([columns.count, parts], inf_nan_mode="constants")
    found = read_columns(table, text)
    for column in table.all_columns:
        before, after = columns.parts[column.name], found.parts[column.name]
        # 1 is equal to True, which are not the same in a record of whatever there is
        if before != after or (column.dtype == "object" and repr(before) != repr(after)):
            raise ValueError(f"{column.name} has values that JSON has no form for")
    return text


def read_columns(table: Table, text: bytes) -> TableColumns:
    """The rows that a text holds.

    Raises:
        ValueError: it holds no rows of this table.
    """
    count, parts = _make_reader(tuple(each.dtype for each in table.all_columns)).validate_json(text)
    if "same" in parts[0]:
        raise ValueError("nobody has written as many rows as there are said to be")
    may_be_secret = make_secret_search()(text)
    for column, part in zip(table.all_columns, parts, strict=True):
        if not _is_part(part, column.dtype, count):
            raise ValueError(f"{column.name} is no column of {count} rows")
        if may_be_secret and column.dtype in ("string", "category", "object"):
            _mask(part)
    return TableColumns(count, {column.name: part for column, part in zip(table.all_columns, parts, strict=True)})


def _is_part(part: Part, dtype: Dtype, count: int) -> bool:
    """Whether a part has the form of its column, and is of so many rows: what no schema says."""
    if part.keys() not in _FORMS[dtype]:
        return False
    if "same" in part:
        return True
    if "flags" in part:
        return len(part["flags"]) == count
    if "codes" in part:
        return len(part["codes"]) == count and max(part["codes"], default=-1) < len(part["values"])
    if "known" in part:
        return len(part["known"]) == count and part["known"].count("1") == len(part["values"])
    return len(part["values"]) == count


def _mask(part: Part) -> None:
    if "same" in part:
        part["same"] = _mask_value(part["same"])
    else:
        part["values"] = [_mask_value(each) for each in part["values"]]


def _mask_value(value: Any) -> Any:
    return tuple(map(clean_text, value)) if isinstance(value, tuple) else to_plain(value)


@cache
def _make_reader(dtypes: tuple[Dtype, ...]) -> SchemaValidator:
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as cs

    parts = cs.tuple_schema([_make_part_schema(dtype) for dtype in dtypes])
    return SchemaValidator(cs.tuple_schema([cs.int_schema(strict=True, ge=0), parts]))


def _make_part_schema(dtype: Dtype) -> CoreSchema:
    from pydantic_core import core_schema as cs

    value = _make_value_schema(dtype)
    may_be_none = cs.nullable_schema(value)
    forms = {
        "same": may_be_none,
        "values": cs.list_schema(may_be_none if dtype in ("string", "object") else value),
        "known": cs.str_schema(strict=True, pattern="^[01]*$"),
        "codes": cs.list_schema(cs.int_schema(strict=True, ge=-1)),
        "flags": cs.str_schema(strict=True, pattern="^[01?]*$"),
    }
    fields = {name: cs.typed_dict_field(schema, required=False) for name, schema in forms.items()}
    return cs.typed_dict_schema(fields, extra_behavior="forbid")


def _make_value_schema(dtype: Dtype) -> CoreSchema:
    """Of one value. A record has names; a list of names comes back as the tuple that it was."""
    from pydantic_core import core_schema as cs

    match dtype:
        case "Int64":
            return cs.int_schema(strict=True, ge=-_LARGEST, le=_LARGEST)
        case "Float64":
            return cs.float_schema(strict=True, allow_inf_nan=False)
        case "boolean":
            return cs.bool_schema(strict=True)
        case "object":
            names = cs.tuple_variable_schema(cs.str_schema(strict=True))
            return cs.union_schema([cs.dict_schema(cs.str_schema(strict=True), cs.any_schema()), names])
        case "string" | "category":
            return cs.str_schema(strict=True)
    return cs.int_schema(strict=True, ge=0, le=_LATEST)
