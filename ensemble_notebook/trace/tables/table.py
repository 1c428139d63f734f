"""What a table is (T28): it names its grain, and each column's dtype, unit and meaning, in one place.

Rows become a DataFrame, or records of plain JSON values for the timeline. Every dtype is set explicitly, so that an
empty frame has the same ones as a full one, on pandas 2.2 as on 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ensemble_notebook.trace.spans.clean_text import shorten
from ensemble_notebook.trace.tables.column_parts import UTC_TIME, Dtype, TableColumns, join_parts, make_part

if TYPE_CHECKING:
    import pandas as pd

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
        table: of the frame. rows: the function that gives its rows.
    """

    table: Table
    rows: Callable[[Any], Sequence[Any]]


def as_frame(table: Table) -> Callable[[Callable[[Any], Sequence[Any]]], cached_property[pd.DataFrame]]:
    """Make a method that gives rows into a property that gives them as a frame, made at first use and kept."""

    def decorate(rows: Callable[[Any], Sequence[Any]]) -> cached_property[pd.DataFrame]:
        def build(owner: Any) -> pd.DataFrame:
            return table.to_frame(rows(owner))

        build.__doc__ = table.documentation
        made = _FrameProperty(build)
        made.table, made.rows = table, rows
        return made

    return decorate


def list_frames(kind: type) -> dict[str, Table]:
    """The tables of the properties of a class that are frames, by their names."""
    return {name: each.table for name, each in vars(kind).items() if isinstance(each, _FrameProperty)}


def count_frame_rows(owner: Any, name: str) -> int:
    """How many rows one such property of an object has."""
    return len(vars(type(owner))[name].rows(owner))


def read_frame_columns(owner: Any, name: str) -> TableColumns:
    """The rows of one such property of an object, column by column."""
    frame = vars(type(owner))[name]
    return frame.table.read_columns(frame.rows(owner))  # type: ignore[no-any-return]


def as_joined_frame(name: str, table: Table, read: Callable[[Any, str], Mapping[str, TableColumns]]) -> Any:
    """A property that gives the same frame of several runs, one after the other, with `run_id` as a column.

    Args:
        name: of the property.
        table: of the frame.
        read: gives, of an object and a name, the rows of each run, by its id.
    """

    def build(owner: Any) -> pd.DataFrame:
        parts = read(owner, name)
        made = table.join([*parts.values()])
        if "run_id" not in [each.name for each in table.all_columns]:
            run_ids = join_parts([(part.count, {"same": run_id}) for run_id, part in parts.items()], "category")
            made.insert(0, "run_id", run_ids)
        return made

    build.__doc__ = table.documentation
    return cached_property(build)


def document_table(table: Table) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Append the documentation of the frame that a method gives to the method's own."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        method.__doc__ = f"{method.__doc__ or ''}\n\n{table.documentation}"
        return method

    return decorate
