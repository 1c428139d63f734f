"""What a table is (T28): it names its grain, and each column's dtype, unit and meaning, in one place.

Rows become a DataFrame, or records of plain JSON values for the timeline. Every dtype is set explicitly, so that an
empty frame has the same ones as a full one, on pandas 2.2 as on 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

from ensemble_notebook.trace.spans.clean_text import shorten

if TYPE_CHECKING:
    import pandas as pd

Dtype = Literal["string", "category", "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "object"]
P = ParamSpec("P")
R = TypeVar("R")

UTC_TIME: Final = "datetime64[ns, UTC]"

NUMBERS: Final = ("Int64", "Float64")


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
        """What a number counts, which its name tells: ms, tokens, or currency for money; None for all else."""
        if self.name == "cost" or self.name.startswith("cost_") or self.name.endswith("_cost"):
            return "currency" if self.dtype == "Float64" else None
        return next((unit for unit in ("ms", "tokens") if self.name.endswith(unit) and self.dtype in NUMBERS), None)

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
        import pandas as pd

        columns = {each.name: _make_array(pd, each.values(rows), each.dtype) for each in self.columns}
        if self.index is None:
            return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))
        dtype = self.index.dtype
        return pd.DataFrame(columns, index=pd.Index(self.index.values(rows), dtype=dtype, name=self.index.name))

    @property
    def documentation(self) -> str:
        """The grain, the index and the columns in words, for the docstring."""
        index = "Index: the row's number, from 0."
        if self.index is not None:
            index = f"Index: {self.index.name} ({self.index.dtype}), {self.index.meaning}."
        lines = [f"    {each.name} ({each.dtype}): {each.meaning}." for each in self.columns]
        return "\n".join([f"One row per {self.grain}.", "", index, "", "Columns:", *lines])


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


def as_frame(table: Table) -> Callable[[Callable[[Any], Sequence[Any]]], cached_property[pd.DataFrame]]:
    """Make a method that gives rows into a property that gives them as a frame, made at first use and kept."""

    def decorate(rows: Callable[[Any], Sequence[Any]]) -> cached_property[pd.DataFrame]:
        def build(owner: Any) -> pd.DataFrame:
            return table.to_frame(rows(owner))

        build.__doc__ = table.documentation
        return cached_property(build)

    return decorate


def document_table(table: Table) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Append the documentation of the frame that a method gives to the method's own."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        method.__doc__ = f"{method.__doc__ or ''}\n\n{table.documentation}"
        return method

    return decorate


def _make_array(pd: Any, values: list[Any], dtype: Dtype) -> Any:
    if dtype == "category":
        return _make_categorical(pd, values)
    if dtype == UTC_TIME:
        return pd.DatetimeIndex(values, dtype=dtype)
    if dtype == "object":
        return pd.Series(values, dtype=object).array
    if dtype == "Float64":
        values = [None if each is None else float(each) for each in values]
    return pd.array(values, dtype=dtype)


def _make_categorical(pd: Any, values: list[Any]) -> Any:
    """Make categories of what occurs, in order of appearance, so that groups by task are in the order they ran."""
    codes = {value: code for code, value in enumerate(dict.fromkeys(each for each in values if each is not None))}
    categories = pd.Index(list(codes), dtype="string")
    return pd.Categorical.from_codes([codes.get(each, -1) for each in values], categories=categories)
