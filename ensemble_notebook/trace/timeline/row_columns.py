"""The rows of a snapshot, column by column (W16): a tenth of the cost of as many records, and a third of the size.

A column is one or two lists of numbers, all of the same length, and the words that the numbers stand for. On the wire
the lists are binary, one after the other in one buffer; `column_texts` has the form of saved views. What a column holds
is in `timeline_columns`; `js/src/wire/columns.ts` reads both forms.
"""

from __future__ import annotations

import math
import operator
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.tables.table import Column, to_number
from ensemble_notebook.trace.tables.timeline_columns import ROWS

UNKNOWN: Final = -(2**31)
"""What stands for an unknown integer, where a list can hold no null."""

Type = Literal["word", "id", "row", "int", "float", "flag", "record"]


@dataclass(slots=True)
class PackedColumn:
    """The values of one column.

    Attributes:
        name: of the column.
        type: ``word``: `codes` are places in `words`, -1 where there is none. ``id``: a word, and its number behind it.
            ``row``: the place of the row whose `span_id` it is, -1 where there is none; below that, a word, from -2 on.
            ``int``, ``float``, ``flag``: what stands in `numbers`. ``record``: `values` are JSON, for the rows `at`.
    """

    name: str
    type: Type
    words: list[str] | None = None
    codes: array[int] | None = None
    numbers: array[int] | array[float] | None = None
    at: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


def pack_rows(spans: Sequence[Span], parents: Sequence[str | None] | None = None) -> list[PackedColumn]:
    """The columns of these spans as rows, without those that say nothing; like `to_row` of each.

    Args:
        spans: in the order of the rows.
        parents: ids of the spans around them, where those are not to be their own.
    """
    if not spans:
        return []
    columns = [_PACKERS[each.dtype](each, each.values(spans)) for each in ROWS.columns if each.name != "parent_id"]
    ids = [span.span_id for span in spans]
    parents = [span.parent_id for span in spans] if parents is None else parents
    return [_pack_ids("span_id", ids), *filter(None, [_pack_parents(ids, parents), *columns])]


def to_buffer(columns: Sequence[PackedColumn]) -> tuple[list[dict[str, Any]], bytes]:
    """The columns for the wire: what each is, and all lists in one buffer, little-endian, each at a multiple of 8."""
    specs, pieces, offset = [], [], 0
    for column in columns:
        spec: dict[str, Any] = {"name": column.name, "type": column.type}
        if column.words is not None:
            spec["words"] = column.words
        if column.type == "record":
            spec["at"], spec["values"] = column.at, column.values
        for name, numbers in (("codes", column.codes), ("numbers", column.numbers)):
            if numbers is None:
                continue
            piece = _to_little_endian(numbers).tobytes()
            pieces += [piece, bytes(-len(piece) % 8)]
            spec[name] = offset
            offset += len(piece) + len(pieces[-1])
        specs.append(spec)
    return specs, b"".join(pieces)


def _to_little_endian(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "little" or numbers.itemsize == 1:
        return numbers
    swapped = numbers[:]
    swapped.byteswap()
    return swapped


# --- Packing ----------------------------------------------------------------------------------------------------------


def _pack_words(column: Column, values: list[Any]) -> PackedColumn | None:
    """Texts: each word once, in order of appearance."""
    distinct = dict.fromkeys(values)
    distinct.pop(None, None)
    if not distinct:
        return None
    words = list(distinct)
    codes: dict[Any, int] = dict(zip(words, range(len(words)), strict=True))
    codes[None] = -1
    encode = column.encoder
    told = words if encode is None else list(map(encode, words))
    return PackedColumn(column.name, "word", told, array("i", map(codes.__getitem__, values)))


def _pack_ids(name: str, ids: Sequence[str]) -> PackedColumn:
    """Ids of spans: the run's id and a number, as the engine makes them, else words as they are."""
    prefixes = [each[: each.rfind(".") + 1] for each in ids]
    codes = {prefix: code for code, prefix in enumerate(dict.fromkeys(prefixes))}
    try:
        numbers = array("i", [int(each[each.rfind(".") + 1 :]) for each in ids])
    except (ValueError, OverflowError):
        numbers = array("i")
    if list(map(operator.add, prefixes, map(str, numbers))) != list(ids):
        return PackedColumn(name, "word", list(ids), array("i", range(len(ids))))
    return PackedColumn(name, "id", list(codes), array("i", map(codes.__getitem__, prefixes)), numbers)


def _pack_parents(ids: Sequence[str], parents: Sequence[str | None]) -> PackedColumn | None:
    """Ids of the spans around: mostly those of other rows."""
    places: dict[str | None, int] = dict(zip(ids, range(len(ids)), strict=True))
    places[None] = -1
    words = [each for each in dict.fromkeys(parents) if each is not None and each not in places]
    places.update(zip(words, range(-2, -2 - len(words), -1), strict=True))
    numbers = array("i", map(places.__getitem__, parents))
    return PackedColumn("parent_id", "row", words, numbers=numbers) if numbers.count(-1) < len(ids) else None


def _pack_integers(column: Column, values: list[Any]) -> PackedColumn | None:
    if values.count(None) == len(values):
        return None
    try:
        numbers = array("i", [UNKNOWN if each is None else each for each in values])
    except OverflowError:  # more tokens than four bytes can count
        return _pack_floats(column, values)
    return PackedColumn(column.name, "int", numbers=numbers)


def _pack_floats(column: Column, values: list[Any]) -> PackedColumn | None:
    if values.count(None) == len(values):
        return None
    # As `to_number` does it, but without a call for each.
    is_time = column.unit == "ms"
    known = (math.nan if each is None else round(each, 3) for each in values) if is_time else map(_to_float, values)
    numbers = array("d", known)
    if numbers.count(math.inf) or numbers.count(-math.inf):  # what JSON has no number for is unknown
        numbers = array("d", map(_to_float, values))
    return PackedColumn(column.name, "float", numbers=numbers)


def _to_float(value: Any) -> float:
    number = None if value is None else to_number(value)
    return math.nan if number is None else number


def _pack_flags(column: Column, values: list[Any]) -> PackedColumn | None:
    if True not in values:
        return None
    return PackedColumn(column.name, "flag", numbers=array("B", [each is True for each in values]))


def _pack_records(column: Column, values: list[Any]) -> PackedColumn | None:
    encode: Callable[[Any], Any] = column.encoder or (lambda value: value)
    found = [(place, encode(each)) for place, each in enumerate(values) if each is not None and each != ()]
    found = [(place, each) for place, each in found if each is not None and each != []]
    if not found:
        return None
    return PackedColumn(column.name, "record", at=[place for place, _ in found], values=[each for _, each in found])


_PACKERS: Final[Mapping[str, Callable[[Column, list[Any]], PackedColumn | None]]] = {
    "string": _pack_words,
    "category": _pack_words,
    "Int64": _pack_integers,
    "Float64": _pack_floats,
    "boolean": _pack_flags,
    "object": _pack_records,
}
