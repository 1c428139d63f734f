"""What a table is (T28): it names its grain, and each column's dtype, unit and meaning, in one place.

Rows become a DataFrame, or records of plain JSON values for the timeline. Every dtype is set explicitly, so that an
empty frame has the same ones as a full one, on pandas 2.2 as on 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypedDict, TypeVar

from ensemble_notebook.trace.spans.clean_text import shorten

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


# ----------------------------------------------------------------------------------------------------------------------
# The columns of some rows of a table, as JSON could hold them, and the arrays that many such make together (T24).
#
# A part of a column has one of these forms; a missing value is None, and the fewer there are to write, the shorter:
#
# - ``same``: the value of all rows. - ``values`` of the rows, in order: texts and records, None included; numbers
# without it, and then ``known`` has a ``1`` for each row that has one and a ``0`` for each other. - ``values``, each
# once, in order of appearance, and ``codes``, their places by row, -1 for None: categories. - ``flags``: ``1``, ``0``
# or ``?`` for each row.
#
# Instants are microseconds since 1970, in UTC.


Dtype = Literal["string", "category", "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "object"]

UTC_TIME: Final = "datetime64[ns, UTC]"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FLAGS: Final = {None: "?", False: "0", True: "1"}


class Part(TypedDict, total=False):
    """A part of a column, in one of the forms above."""

    same: Any
    values: list[Any]
    known: str
    codes: list[int]
    flags: str


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Some rows of a table, column by column.

    Attributes:
        count: of the rows.
        parts: by the names of the columns.
    """

    count: int
    parts: Mapping[str, Part]


Pieces = Sequence[tuple[int, Part]]
"""The parts of one column, each with the number of its rows."""


def make_part(values: list[Any], dtype: Dtype, *, is_whole: bool = False) -> Part:
    """The part of a column that holds these values.

    Args:
        values: as records give them; None is unknown.
        dtype: of the column.
        is_whole: its length is to be seen, so that nobody can claim rows without writing them.
    """
    if not is_whole and _are_same(values, dtype):
        (same,) = _to_plain(values[:1], dtype)
        return {"same": same}
    if dtype == "boolean":
        return {"flags": "".join([_FLAGS[each and True] for each in values])}
    if dtype == "category":
        places = {
            value: place for place, value in enumerate(dict.fromkeys(each for each in values if each is not None))
        }
        return {"values": list(places), "codes": [places.get(each, -1) for each in values]}
    plain = _to_plain(values, dtype)
    if dtype in ("string", "object") or None not in plain:
        return {"values": plain}
    return {
        "known": "".join(["0" if each is None else "1" for each in plain]),
        "values": [each for each in plain if each is not None],
    }


def _are_same(values: list[Any], dtype: Dtype) -> bool:
    """Whether one value stands for all. Records are compared by nobody: there 1 may be True."""
    if not values or (dtype == "object" and values[0] is not None):
        return False
    return values.count(values[0]) == len(values)


def _to_plain(values: list[Any], dtype: Dtype) -> list[Any]:
    if dtype == "Float64":
        return [None if each is None or math.isnan(each) else float(each) for each in values]
    if dtype == UTC_TIME:
        return [None if each is None else (each - _EPOCH) // _MICROSECOND for each in values]
    return values


def join_parts(pieces: Pieces, dtype: Dtype) -> Any:
    """The array of pandas that the parts of a column make, one after the other."""
    return _JOINERS[dtype](pieces)


def _join_texts(pieces: Pieces) -> Any:
    import pandas as pd

    return pd.array(_list_values(pieces), dtype="string")


def _join_records(pieces: Pieces) -> Any:
    import pandas as pd

    return pd.Series(_list_values(pieces), dtype=object).array


def _list_values(pieces: Pieces) -> list[Any]:
    values: list[Any] = []
    for count, part in pieces:
        values += part["values"] if "values" in part else [part["same"]] * count
    return values


def _join_integers(pieces: Pieces) -> Any:
    import pandas as pd

    return pd.arrays.IntegerArray(*_fill(pieces, "int64"))


def _join_floats(pieces: Pieces) -> Any:
    import pandas as pd

    return pd.arrays.FloatingArray(*_fill(pieces, "float64"))


def _join_times(pieces: Pieces) -> Any:
    import numpy as np
    import pandas as pd

    values, unknown = _fill(pieces, "int64")
    values *= 1_000
    values[unknown] = np.iinfo(np.int64).min  # what NaT is
    return pd.DatetimeIndex(values.view("datetime64[ns]")).tz_localize("UTC")


def _fill(pieces: Pieces, kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The numbers of all rows, and which are unknown."""
    import numpy as np

    total = sum(count for count, _ in pieces)
    values, unknown, start = np.zeros(total, kind), np.zeros(total, bool), 0
    for count, part in pieces:
        rows = slice(start, start + count)
        if "known" in part:
            known = np.frombuffer(part["known"].encode(), np.uint8) == ord("1")
            values[rows][known], unknown[rows] = part["values"], ~known
        elif "values" in part:
            values[rows] = part["values"]
        elif part["same"] is None:
            unknown[rows] = True
        else:
            values[rows] = part["same"]
        start += count
    return values, unknown


def _join_flags(pieces: Pieces) -> Any:
    import numpy as np
    import pandas as pd

    text = "".join([part["flags"] if "flags" in part else _FLAGS[part["same"]] * count for count, part in pieces])
    flags = np.frombuffer(text.encode(), np.uint8)
    return pd.arrays.BooleanArray(flags == ord("1"), flags == ord("?"))


def _join_categories(pieces: Pieces) -> Any:
    """Categories are what occurs, in order of appearance, so that groups by task are in the order they ran."""
    import numpy as np
    import pandas as pd

    places: dict[Any, int] = {}
    codes, start = np.full(sum(count for count, _ in pieces), -1, np.int64), 0
    for count, part in pieces:
        rows = slice(start, start + count)
        if "codes" in part:
            joined = [places.setdefault(each, len(places)) for each in part["values"]]
            codes[rows] = np.array([*joined, -1], np.int64)[part["codes"]]  # the place -1 is the last one
        elif part["same"] is not None:
            codes[rows] = places.setdefault(part["same"], len(places))
        start += count
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(places), dtype="string"))


_JOINERS: Final[Mapping[Dtype, Callable[[Pieces], Any]]] = {
    "string": _join_texts,
    "category": _join_categories,
    "Int64": _join_integers,
    "Float64": _join_floats,
    "boolean": _join_flags,
    UTC_TIME: _join_times,
    "object": _join_records,
}


# --- What a table is: it names its grain, and each column's dtype, unit and meaning, in one place ---------------


P = ParamSpec("P")
R = TypeVar("R")

NUMBERS: Final = ("Int64", "Float64")
_UNITS: Final = {"ms": "ms", "tokens": "tokens", "characters": "characters", "share": "0 to 1", "rate": "0 to 1"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it is called, what it holds, and how a row gives its value.

    Attributes:
        value: an attribute's path or a function of the row; None: the attribute of the column's name.
        type_name: of the values in TypeScript, where the dtype does not tell.
        is_nullable: a value may be unknown.
        longest: characters of a text in a record; the details of a span have all of it.
    """

    name: str
    dtype: Dtype
    meaning: str
    value: str | Callable[[Any], Any] | None = None
    type_name: str | None = None
    is_nullable: bool = True
    longest: int = 500

    @property
    def unit(self) -> str | None:
        """What a number counts, which its name tells; None for what has no unit.

        ``ms``, ``tokens``, ``characters``, ``currency`` for money, ``0 to 1`` for a share.
        """
        if self.dtype not in NUMBERS:
            return None
        if self.name == "cost" or self.name.startswith("cost_") or self.name.endswith("_cost"):
            return "currency"
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), None)

    @property
    def read(self) -> Callable[[Any], Any]:
        """The function that gives the value of a row; None is unknown."""
        value = self.value or self.name
        return attrgetter(value) if isinstance(value, str) else value

    @property
    def encoder(self) -> Callable[[Any], Any] | None:
        """The function that makes of a known value what JSON has; None where the value is that already."""
        if self.dtype == "Float64":
            return to_number
        if self.dtype == "string":
            return partial(shorten, limit=self.longest)
        return _encode if self.dtype in (UTC_TIME, "object") else None

    def values(self, rows: Iterable[Any]) -> list[Any]:
        """The values of this column for the rows; None is unknown."""
        return list(map(self.read, rows))


@dataclass(frozen=True)
class Table:
    """What a row is, what identifies it (None: its place), and its columns in order."""

    grain: str
    index: Column | None
    columns: tuple[Column, ...]

    @cached_property
    def all_columns(self) -> tuple[Column, ...]:
        """The index, where there is one, and the columns."""
        return self.columns if self.index is None else (self.index, *self.columns)

    @property
    def short_grain(self) -> str:
        """The grain, without what explains it."""
        return re.split(r"[.:;] ", self.grain)[0]

    def pick(self, *names: str) -> tuple[Column, ...]:
        """Columns by name, for another table that has them too.

        Raises:
            KeyError: there is no such column.
        """
        by_name = {each.name: each for each in self.all_columns}
        return tuple(by_name[name] for name in names)

    def to_record(self, row: Any) -> dict[str, Any]:
        """The values of a row as JSON has them; what is unknown, false or empty is left out."""
        record = {}
        for name, read, encode in self._encoders:
            value = read(row)
            if value is None or value is False:
                continue
            if encode is not None:
                value = encode(value)
            if value is not None and value != []:
                record[name] = value
        return record

    def to_full_record(self, row: Any) -> dict[str, Any]:
        """The same with all columns: None is unknown."""
        values = ((name, read(row), encode) for name, read, encode in self._encoders)
        return {name: value if value is None or encode is None else encode(value) for name, value, encode in values}

    @cached_property
    def _encoders(self) -> tuple[tuple[str, Callable[[Any], Any], Callable[[Any], Any] | None], ...]:
        """What to do for each column, worked out once: the timeline asks for all of them with each change."""
        return tuple((each.name, each.read, each.encoder) for each in self.all_columns)

    def to_frame(self, rows: Sequence[Any]) -> pd.DataFrame:
        """Make a frame of these rows, in the order given."""
        return self.join([self.read_columns(rows)])

    def read_columns(self, rows: Sequence[Any]) -> TableColumns:
        """The same rows column by column: what a frame is made of."""
        return self._make_columns(rows) if rows else self._no_rows

    @cached_property
    def _no_rows(self) -> TableColumns:
        """Made once: most runs have no rows in half of the tables."""
        return self._make_columns(())

    def _make_columns(self, rows: Sequence[Any]) -> TableColumns:
        first = self.all_columns[0]
        parts = {
            each.name: make_part(each.values(rows), each.dtype, is_whole=each is first) for each in self.all_columns
        }
        return TableColumns(len(rows), parts)

    def join(self, parts: Sequence[TableColumns]) -> pd.DataFrame:
        """Make a frame of the rows of several runs, one after the other."""
        import pandas as pd

        arrays = {
            each.name: join_parts([(part.count, part.parts[each.name]) for part in parts], each.dtype)
            for each in self.all_columns
        }
        if self.index is None:
            return pd.DataFrame(arrays, index=pd.RangeIndex(sum(part.count for part in parts)))
        index = pd.Index(arrays.pop(self.index.name), name=self.index.name)
        return pd.DataFrame(arrays, index=index)

    @property
    def documentation(self) -> str:
        """The grain, the index and the columns in words, for the docstring."""
        index = "Index: the row's number, from 0."
        if self.index is not None:
            index = f"Index: {self.index.name} ({self.index.dtype}), {self.index.meaning}."
        lines = [f"    {each.name} ({each.dtype}): {each.meaning}." for each in self.columns]
        return "\n".join([f"One row per {self.grain}.", "", index, "", "Columns:", *lines])


def mark_known(columns: Iterable[Column], *names: str) -> tuple[Column, ...]:
    """The same columns, of which those of these names are never NA in the table at hand; without names, all of them."""
    return tuple(replace(each, is_nullable=False) if each.name in names or not names else each for each in columns)


def make_attribute_reader(name: str) -> Callable[[Any], Any]:
    """How a span gives what only its kind has."""
    return lambda span: (span.attributes or {}).get(name)


def to_number(value: float | Decimal) -> float | None:
    """A JSON number, no longer than anyone can see; None for what JSON has no number for."""
    number = float(value)
    if not math.isfinite(number):
        return None
    return number if isinstance(value, Decimal) else round(number, 3)


def _encode(value: Any) -> Any:
    """A time, a list or a record as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


class _FrameProperty(cached_property["pd.DataFrame"]):
    """A frame, made at first use.

    Attributes:
        table: of the frame. rows: the function that gives its rows. finish: what else is to be done, see `as_frame`.
    """

    table: Table
    rows: Callable[[Any], Sequence[Any]]
    finish: Finish | None


Finish = Callable[[Any, "pd.DataFrame"], "pd.DataFrame"]
"""Makes a frame out of its owner and the rows of a table."""


def as_frame(
    table: Table, finish: Finish | None = None
) -> Callable[[Callable[[Any], Sequence[Any]]], cached_property[pd.DataFrame]]:
    """Make a method that gives rows into a property that gives them as a frame, made at first use and kept.

    Args:
        table: of the frame.
        finish: makes the frame of the rows of the table, where it has columns that no table can know.
    """

    def decorate(rows: Callable[[Any], Sequence[Any]]) -> cached_property[pd.DataFrame]:
        def build(owner: Any) -> pd.DataFrame:
            made = table.to_frame(rows(owner))
            return made if finish is None else finish(owner, made)

        build.__doc__ = table.documentation
        made = _FrameProperty(build)
        made.table, made.rows, made.finish = table, rows, finish
        return made

    return decorate


def list_frames(kind: type) -> dict[str, Table]:
    """The tables of the properties of a class that are frames, by their names."""
    return {name: each.table for name, each in vars(kind).items() if isinstance(each, _FrameProperty)}


def get_finish(kind: type, name: str) -> Finish | None:
    """What else is to be done for one such property of a class."""
    found: Finish | None = vars(kind)[name].finish
    return found


def count_frame_rows(owner: Any, name: str) -> int:
    """How many rows one such property of an object has."""
    return len(vars(type(owner))[name].rows(owner))


def read_frame_columns(owner: Any, name: str) -> TableColumns:
    """The rows of one such property of an object, column by column."""
    frame = vars(type(owner))[name]
    return frame.table.read_columns(frame.rows(owner))  # type: ignore[no-any-return]


def as_joined_frame(
    name: str, table: Table, read: Callable[[Any, str], Mapping[str, TableColumns]], finish: Finish | None = None
) -> Any:
    """A property that gives the same frame of several runs, one after the other, with `run_id` as a column.

    Args:
        name: of the property.
        table: of the frame.
        read: gives, of an object and a name, the rows of each run, by its id.
        finish: as of the frame of one run.
    """

    def build(owner: Any) -> pd.DataFrame:
        parts = read(owner, name)
        made = table.join([*parts.values()])
        if finish is not None:
            return finish(owner, made)
        if "run_id" not in [each.name for each in table.all_columns]:
            run_ids = join_parts([(part.count, {"same": run_id}) for run_id, part in parts.items()], "category")
            made["run_id"] = run_ids
        return made

    build.__doc__ = table.documentation
    return cached_property(build)


def document_table(table: Table) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Append the documentation of the frame that a method gives to the method's own."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        method.__doc__ = f"{method.__doc__ or ''}\n\n{table.documentation}"
        return method

    return decorate
