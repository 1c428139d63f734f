"""The columns of some rows of a table, as JSON could hold them, and the arrays that many such make together (T24).

A part of a column has one of these forms; a missing value is None, and the fewer there are to write, the shorter:

- ``same``: the value of all rows.
- ``values`` of the rows, in order: texts and records, None included; numbers without it, and then ``known`` has a
  ``1`` for each row that has one and a ``0`` for each other.
- ``values``, each once, in order of appearance, and ``codes``, their places by row, -1 for None: categories.
- ``flags``: ``1``, ``0`` or ``?`` for each row.

Instants are microseconds since 1970, in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

if TYPE_CHECKING:
    import numpy as np

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
