"""How records become a DataFrame: a table names its grain, and each column's dtype and meaning, in one place.

Every dtype is set explicitly, so that an empty frame has the same ones as a full one, on pandas 2.2 as on 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    import pandas as pd

Dtype = Literal["string", "category", "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "object"]
P = ParamSpec("P")
R = TypeVar("R")

UTC_TIME: Final = "datetime64[ns, UTC]"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (with the unit, where it has one), dtype, meaning, and how a row gives its value.

    `value` is an attribute's path or a function; left out, it is the attribute of the column's name.
    """

    name: str
    dtype: Dtype
    meaning: str
    value: str | Callable[[Any], Any] | None = None

    def values(self, rows: Iterable[Any]) -> list[Any]:
        """This column of the rows; None is unknown."""
        value = self.value or self.name
        return list(map(attrgetter(value) if isinstance(value, str) else value, rows))


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of frame: what a row is, what identifies it (None: its place), and its columns in order."""

    grain: str
    index: Column | None
    columns: tuple[Column, ...]

    def to_frame(self, rows: Sequence[Any]) -> pd.DataFrame:
        """These rows as a frame, in the order given."""
        import pandas as pd

        columns = {each.name: _make_array(pd, each.values(rows), each.dtype) for each in self.columns}
        if self.index is None:
            return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))
        dtype = self.index.dtype
        return pd.DataFrame(columns, index=pd.Index(self.index.values(rows), dtype=dtype, name=self.index.name))

    @property
    def documentation(self) -> str:
        """Grain, index and columns, for the docstring."""
        index = "Index: the row's number, from 0."
        if self.index is not None:
            index = f"Index: {self.index.name} ({self.index.dtype}), {self.index.meaning}."
        lines = [f"    {each.name} ({each.dtype}): {each.meaning}." for each in self.columns]
        return "\n".join([f"One row per {self.grain}.", "", index, "", "Columns:", *lines])


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
    """Categories are what occurs, in order of appearance: grouping by task lists the tasks in the order they ran."""
    codes = {value: code for code, value in enumerate(dict.fromkeys(each for each in values if each is not None))}
    categories = pd.Index(list(codes), dtype="string")
    return pd.Categorical.from_codes([codes.get(each, -1) for each in values], categories=categories)
