"""What a table is (T28): it names its grain, and each column's dtype, unit and meaning, in one place.

Rows become a DataFrame, or records of plain JSON values for the timeline. Every dtype is set explicitly, so that an
empty frame has the same ones as a full one, on pandas 2.2 as on 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

from ensemble_notebook.trace.spans.clean_text import shorten

if TYPE_CHECKING:
    import pandas as pd


Dtype = Literal["string", "category", "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "object"]

UTC_TIME: Final = "datetime64[ns, UTC]"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

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
    def is_list(self) -> bool:
        """A value is a list of names."""
        return self.type_name == "readonly string[]"

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


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Some rows of a table, column by column, as JSON could hold them (T24).

    Attributes:
        count: of the rows.
        values: by the names of the columns: of all rows, in order, or one that stands for all of them. None is unknown;
            instants are microseconds since 1970, in UTC.
    """

    count: int
    values: Mapping[str, list[Any]]


Pieces = Sequence[tuple[int, list[Any]]]
"""The values of one column in several tables, each with the number of rows there."""


def encode_values(values: list[Any], dtype: Dtype, *, is_whole: bool = False) -> list[Any]:
    """The values of a column as `TableColumns` has them.

    Args:
        values: as records give them; None is unknown.
        dtype: of the column.
        is_whole: one value does not stand for all, so that nobody can claim rows without writing them.
    """
    # Records are compared by nobody: there 1 may be True.
    if not is_whole and values and (dtype != "object" or values[0] is None) and values.count(values[0]) == len(values):
        values = values[:1]
    if dtype == "boolean":
        return [None if each is None else bool(each) for each in values]
    if dtype == "Float64":
        return [None if each is None or math.isnan(each) else float(each) for each in values]
    if dtype == UTC_TIME:
        return [None if each is None else (each - _EPOCH) // _MICROSECOND for each in values]
    return values


def join_values(pieces: Pieces, dtype: Dtype) -> Any:
    """The array of pandas that a column of several tables makes, one after the other."""
    import numpy as np
    import pandas as pd

    if dtype in ("string", "object"):
        texts: list[Any] = []
        for count, values in pieces:
            texts += values if len(values) == count else values * count
        return pd.array(texts, dtype="string") if dtype == "string" else pd.Series(texts, dtype=object).array
    total, start = sum(count for count, _ in pieces), 0
    # Categories are what occurs, in order of appearance, so that groups by task are in the order they ran.
    places: dict[Any, int] = {}
    joined = np.zeros(total, {"Float64": "float64", "boolean": "bool"}.get(dtype, "int64"))
    unknown = np.zeros(total, bool)
    for count, values in pieces:
        rows, known = slice(start, start := start + count), values
        if None in values:
            unknown[rows] = [each is None for each in values]
            known = [each or 0 for each in values]
        if dtype == "category":
            known = [-1 if each is None else places.setdefault(each, len(places)) for each in values]
        joined[rows] = known
    if dtype == "category":
        return pd.Categorical.from_codes(joined, categories=pd.Index(list(places), dtype="string"))
    if dtype == UTC_TIME:
        joined *= 1_000
        joined[unknown] = np.iinfo(np.int64).min  # what NaT is
        return pd.DatetimeIndex(joined.view("datetime64[ns]")).tz_localize("UTC")
    arrays: dict[Dtype, Any] = {"Int64": pd.arrays.IntegerArray, "Float64": pd.arrays.FloatingArray}
    return arrays.get(dtype, pd.arrays.BooleanArray)(joined, unknown)


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

    def read_columns(self, rows: Sequence[Any], names: Collection[str] | None = None) -> TableColumns:
        """The same rows column by column, those of these names or all: what a frame is made of."""
        first = self.all_columns[0]
        return TableColumns(
            len(rows),
            {
                each.name: encode_values(each.values(rows), each.dtype, is_whole=each is first) if rows else []
                for each in self.all_columns
                if names is None or each.name in names
            },
        )

    def join(self, tables: Sequence[TableColumns]) -> pd.DataFrame:
        """Make a frame of the rows of several runs, one after the other."""
        import pandas as pd

        arrays = {
            each.name: join_values([(table.count, table.values[each.name]) for table in tables], each.dtype)
            for each in self.all_columns
        }
        if self.index is None:
            return pd.DataFrame(arrays, index=pd.RangeIndex(sum(table.count for table in tables)))
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


make_known: Final = partial(Column, is_nullable=False)
"""Makes a column whose values are never unknown."""


def make_attribute(name: str, dtype: Dtype, meaning: str, type_name: str | None = None) -> Column:
    """A column of what only spans of one kind have, in their attributes."""
    return Column(name, dtype, meaning, make_attribute_reader(name), type_name)


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


Finish = Callable[[Any, "pd.DataFrame"], "pd.DataFrame"]
"""Makes a frame out of its owner and the rows of a table."""


class FrameProperty(cached_property["pd.DataFrame"]):
    """A frame, made at first use.

    Attributes:
        name: of the property.
        table: of the frame. rows: the function that gives its rows. finish: what else is to be done, see `as_frame`.
    """

    def __init__(self, rows: Callable[[Any], Sequence[Any]], table: Table, finish: Finish | None) -> None:
        super().__init__(self._make)
        self.name: str = rows.__name__
        self.table: Table = table
        self.rows: Callable[[Any], Sequence[Any]] = rows
        self.finish: Finish | None = finish
        self.__doc__ = table.documentation

    def _make(self, owner: HasFrames) -> pd.DataFrame:
        made = owner.make_frame(self)
        return made if self.finish is None else self.finish(owner, made)

    def count_rows(self, owner: Any) -> int:
        """How many rows it has for an owner."""
        return len(self.rows(owner))

    def read_columns(self, owner: Any, names: Collection[str] | None = None) -> TableColumns:
        """These rows, column by column: those of these names, or all."""
        return self.table.read_columns(self.rows(owner), names)


class HasFrames:
    """What has properties that are frames."""

    def make_frame(self, frame: FrameProperty) -> pd.DataFrame:
        """The frame of the rows of the table, before anything else is done."""
        return frame.table.to_frame(frame.rows(self))


def as_frame(
    table: Table, finish: Finish | None = None
) -> Callable[[Callable[[Any], Sequence[Any]]], cached_property[pd.DataFrame]]:
    """Make a method that gives rows into a property that gives them as a frame, made at first use and kept.

    Args:
        table: of the frame.
        finish: makes the frame of the rows of the table, where it has columns that no table can know.
    """
    return partial(FrameProperty, table=table, finish=finish)


def list_frames(kind: type) -> dict[str, FrameProperty]:
    """The properties of a class that are frames, by their names."""
    return {name: each for name, each in vars(kind).items() if isinstance(each, FrameProperty)}


def document_table(table: Table) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Append the documentation of the frame that a method gives to the method's own."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        method.__doc__ = f"{method.__doc__ or ''}\n\n{table.documentation}"
        return method

    return decorate
