"""The rows of a snapshot, column by column (W16): a tenth of the cost of as many records, and a third of the size.

A column is one or two lists of numbers, all of the same length, and the words that the numbers stand for. On the wire
the lists are binary, one after the other in one buffer; in saved views they are short texts. What a column holds is in
`timeline_columns`; `js/src/wire/columns.ts` reads both forms, and for tests `tests/support/row_reader.py`.

Why not Arrow (arro3 0.9 and flechette): 1,000 spans take 63 kB in a notebook as texts, and 210 kB as Arrow in base64.
Compressed as well, Arrow takes 28 kB, our buffer with its words 27 kB, and our texts 19 kB. The tables that the store
keeps of these spans take 67 kB as compressed JSON, and 117 kB as compressed Arrow. It would also be 34 MB to install.
"""

from __future__ import annotations

import math
import operator
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, Literal

from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.tables.table import Column, Table, to_number
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


def pack_table(table: Table, rows: Sequence[Any]) -> list[PackedColumn]:
    """The columns of another table, without those that say nothing; `span_id` is what it is in rows."""
    columns: list[PackedColumn | None] = []
    for each in table.all_columns if rows else ():
        values = each.values(rows)
        columns.append(_pack_ids("span_id", values) if each.name == "span_id" else _PACKERS[each.dtype](each, values))
    return [*filter(None, columns)]


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
            if sys.byteorder == "big" and numbers.itemsize > 1:
                numbers = numbers[:]
                numbers.byteswap()
            piece = numbers.tobytes()
            pieces += [piece, bytes(-len(piece) % 8)]
            spec[name] = offset
            offset += len(piece) + len(pieces[-1])
        specs.append(spec)
    return specs, b"".join(pieces)


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


Numbers = list[float | None]

# Neighbours have nearly the same of these.
_WITH_DIFFERENCES: Final = ("parent_id", "start_ms", "slack_ms")


def to_texts(columns: Sequence[PackedColumn]) -> list[dict[str, Any]]:
    """The columns for a saved view: what each is, with its lists as texts.

    In a notebook's file every item of a JSON list has a line of its own, and is mostly a digit or two. Items are
    separated by commas; ``7*3`` is three times 7, and nothing is unknown. A column tells how its texts are to be read:
    with ``kinds`` there are items for rows of these kinds alone, and the others are unknown; with ``thousandths`` the
    items are whole thousandths; with ``differences`` each is the difference from the known one before it, with ``from``
    that from the same row of that column.
    """
    by_name = {each.name: each for each in columns}
    kinds = (by_name["kind"].codes if "kind" in by_name else None) or array("i")
    starts = _find_thousandths(by_name["start_ms"]) if "start_ms" in by_name else None
    return [_describe(each, kinds, starts) for each in columns]


def write_list(numbers: Iterable[float | None]) -> str:
    """Numbers as one text."""
    items: list[str] = []
    last: float | None = None
    length = 0
    # Most runs are of one number: `groupby` makes an iterator of each, which takes three times as long.
    for number in numbers:
        if length and number == last:
            length += 1
            continue
        if length:
            items.append(_write_run(last, length))
        last, length = number, 1
    if length:
        items.append(_write_run(last, length))
    return ",".join(items)


def _write_run(number: float | None, length: int) -> str:
    text = "" if number is None else repr(number)
    return text if length == 1 else f"{text}*{length}"


def _describe(column: PackedColumn, kinds: array[int], starts: Numbers | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": column.name, "type": column.type}
    if column.words is not None:
        spec["words"] = column.words
    if column.type == "record":
        return {**spec, "at": write_list(to_differences(column.at)), "values": column.values}
    if column.type == "id":
        numbers = write_list(to_differences(column.numbers or ()))
        return {**spec, "codes": write_list(column.codes or ()), "differences": True, "numbers": numbers}
    if column.codes is not None:
        codes, narrowed = _narrow([None if each < 0 else each for each in column.codes], kinds, column.name)
        return {**spec, **narrowed, "codes": write_list(codes)}
    form: dict[str, Any] = {}
    if column.type == "float" and not column.name.endswith("_ms"):
        known = shorten(_find_known(column))
    elif column.name == "end_ms" and starts is not None:
        pairs = zip(_find_thousandths(column), starts, strict=True)
        known = [end if end is None or start is None else end - start for end, start in pairs]
        form = {"thousandths": True, "from": "start_ms"}
    elif column.type == "float":
        known, form = _find_thousandths(column), {"thousandths": True}
    else:
        known = _find_known(column)
    known, narrowed = _narrow(known, kinds, column.name)
    if column.name in _WITH_DIFFERENCES:
        return {**spec, **narrowed, **form, "differences": True, "numbers": write_list(to_differences(known))}
    return {**spec, **narrowed, **form, "numbers": write_list(known)}


def _narrow(numbers: Numbers, kinds: array[int], name: str) -> tuple[Numbers, dict[str, Any]]:
    """The numbers without those of kinds of which none is known, and what says so."""
    if name == "kind" or not kinds:
        return numbers, {}
    told = {kind for kind, number in zip(kinds, numbers, strict=True) if number is not None}
    if len(told) == len(set(kinds)):
        return numbers, {}
    return list(compress(numbers, map(told.__contains__, kinds))), {"kinds": sorted(told)}


def shorten(numbers: Numbers) -> Numbers:
    """Whole numbers without their point."""
    return [int(each) if each is not None and each.is_integer() else each for each in numbers]


def _find_known(column: PackedColumn) -> Numbers:
    if column.type == "flag":
        return [each or None for each in column.numbers or ()]
    return [None if each != each or each == UNKNOWN else each for each in column.numbers or ()]


def _find_thousandths(column: PackedColumn) -> Numbers:
    return [None if each is None else round(each * 1000) for each in _find_known(column)]


def to_differences(numbers: Iterable[float | None]) -> Iterable[float | None]:
    """Each number as the difference from the known one before it."""
    last: float = 0
    for number in numbers:
        yield None if number is None else number - last
        last = last if number is None else number
