"""The columns of rows as a saved view has them: each list is one short text.

In a notebook's file every item of a JSON list has a line of its own, and an item is mostly a digit or two.

Items are separated by commas; ``7*3`` is three times 7, and nothing is unknown. A column tells how its texts are to be
read: with ``kinds`` there are items for rows of these kinds alone, and the others are unknown; with ``thousandths`` the
items are whole thousandths; with ``differences`` each is the difference from the known one before it, with ``from``
that from the same row of that column.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, Final

from ensemble_notebook.trace.timeline.row_columns import UNKNOWN, PackedColumn

Numbers = list[float | None]

# Neighbours have nearly the same of these.
_WITH_DIFFERENCES: Final = ("parent_id", "start_ms", "slack_ms")


def to_texts(columns: Sequence[PackedColumn]) -> list[dict[str, Any]]:
    """What each column is, with its lists as texts."""
    by_name = {each.name: each for each in columns}
    kinds = (by_name["kind"].codes if columns else None) or array("i")
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
        return {**spec, "at": write_list(_to_differences(column.at)), "values": column.values}
    if column.type == "id":
        return {
            **spec,
            "codes": write_list(column.codes or ()),
            "differences": True,
            "numbers": _write_differences(column.numbers),
        }
    if column.codes is not None:
        codes, narrowed = _narrow([None if each < 0 else each for each in column.codes], kinds, column.name)
        return {**spec, **narrowed, "codes": write_list(codes)}
    return {**spec, **_describe_numbers(column, kinds, starts)}


def _describe_numbers(column: PackedColumn, kinds: array[int], starts: Numbers | None) -> dict[str, Any]:
    if column.type == "float" and not column.name.endswith("_ms"):
        numbers, spec = _narrow(_shorten(_find_known(column)), kinds, column.name)
        return {**spec, "numbers": write_list(numbers)}
    if column.name == "end_ms" and starts is not None:
        pairs = zip(_find_thousandths(column), starts, strict=True)
        lengths: Numbers = [end if end is None or start is None else end - start for end, start in pairs]
        numbers, spec = _narrow(lengths, kinds, column.name)
        return {**spec, "thousandths": True, "from": "start_ms", "numbers": write_list(numbers)}
    if column.type == "float":
        numbers, spec = _narrow(_find_thousandths(column), kinds, column.name)
        spec = {**spec, "thousandths": True}
    else:
        numbers, spec = _narrow(_find_known(column), kinds, column.name)
    if column.name in _WITH_DIFFERENCES:
        return {**spec, "differences": True, "numbers": write_list(_to_differences(numbers))}
    return {**spec, "numbers": write_list(numbers)}


def _narrow(numbers: Numbers, kinds: array[int], name: str) -> tuple[Numbers, dict[str, Any]]:
    """The numbers without those of kinds of which none is known, and what says so."""
    if name == "kind":
        return numbers, {}
    told = {kind for kind, number in zip(kinds, numbers, strict=True) if number is not None}
    if len(told) == len(set(kinds)):
        return numbers, {}
    return list(compress(numbers, map(told.__contains__, kinds))), {"kinds": sorted(told)}


def _shorten(numbers: Numbers) -> Numbers:
    """Whole numbers without their point."""
    return [int(each) if each is not None and each.is_integer() else each for each in numbers]


def _find_known(column: PackedColumn) -> Numbers:
    if column.type == "flag":
        return [each or None for each in column.numbers or ()]
    return [None if each != each or each == UNKNOWN else each for each in column.numbers or ()]


def _find_thousandths(column: PackedColumn) -> Numbers:
    return [None if each is None else round(each * 1000) for each in _find_known(column)]


def _write_differences(numbers: Iterable[float] | None) -> str:
    return write_list(_to_differences(numbers or ()))


def _to_differences(numbers: Iterable[float | None]) -> Iterable[float | None]:
    last: float = 0
    for number in numbers:
        yield None if number is None else number - last
        last = last if number is None else number
