"""Reads rows that were packed as columns back into records, as TypeScript does it for views.

For messages of our own making: what comes from elsewhere is checked by the views.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ensemble_notebook.trace.timeline.row_columns import UNKNOWN

_CODES = {"float": "d", "flag": "B"}
_SIZES = {"d": 8, "B": 1, "i": 4}


def read_rows(message: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> list[dict[str, Any]]:
    """Read the rows of a snapshot, a delta or a saved view, of any version: what is unknown is absent."""
    if "rows" in message:
        return list(message["rows"])
    count = message["count"]
    specs = {spec["name"]: spec for spec in message["columns"]}
    read: dict[str, list[Any]] = {}
    for name, spec in specs.items():
        read[name] = _read(spec, count, buffers, specs, read)
    return [{name: read[name][k] for name in specs if read[name][k] is not None} for k in range(count)]


def _read(
    spec: Mapping[str, Any], count: int, buffers: Sequence[bytes], specs: Mapping[str, Any], read: Mapping[str, Any]
) -> list[Any]:
    if spec["type"] == "record":
        at = _add_up(_parse(spec["at"])) if isinstance(spec["at"], str) else spec["at"]
        places = dict(zip(at, spec["values"], strict=True))
        return [places.get(k) for k in range(count)]
    codes = _list(spec, "codes", count, buffers, specs, read)
    numbers = _list(spec, "numbers", count, buffers, specs, read)
    match spec["type"]:
        case "word":
            return [None if code is None or code < 0 else spec["words"][code] for code in codes]
        case "id":
            return [f"{spec['words'][code]}{number}" for code, number in zip(codes, numbers, strict=True)]
        case "row":
            outside = spec["words"]
            return [
                None if k == -1 else read["span_id"][k] if k >= 0 else outside[-2 - k]
                for k in (-1 if number is None else number for number in numbers)
            ]
        case "flag":
            return [True if number == 1 else None for number in numbers]
    return [None if number in (None, UNKNOWN) or math.isnan(number) else number for number in numbers]


def _list(
    spec: Mapping[str, Any],
    field: str,
    count: int,
    buffers: Sequence[bytes],
    specs: Mapping[str, Any],
    read: Mapping[str, Any],
) -> list[Any]:
    told = spec.get(field)
    if told is None:
        return []
    if isinstance(told, int):
        code = _CODES.get(spec["type"], "i") if field == "numbers" else "i"
        return list(struct.unpack_from(f"<{count}{code}", buffers[0], told))
    numbers = _parse(told)
    if spec.get("differences") and field == "numbers":
        numbers = _add_up(numbers)
    if "kinds" in spec:
        kinds = [specs["kind"]["words"][code] for code in spec["kinds"]]
        given = iter(numbers)
        numbers = [next(given) if kind in kinds else None for kind in read["kind"]]
    if spec.get("from") == "start_ms":
        starts = read.get("start_ms") or [None] * count
        numbers = [n if n is None or s is None else n + round(s * 1000) for n, s in zip(numbers, starts, strict=True)]
    return [n if n is None or not spec.get("thousandths") else n / 1000 for n in numbers]


def _parse(text: str) -> list[Any]:
    numbers: list[Any] = []
    for item in text.split(",") if text else []:
        word, _, times = item.partition("*")
        number = None if word == "" else float(word) if any(mark in word for mark in ".e") else int(word)
        numbers += [number] * int(times or 1)
    return numbers


def _add_up(numbers: list[Any]) -> list[Any]:
    last, found = 0, []
    for number in numbers:
        last = last if number is None else last + number
        found.append(None if number is None else last)
    return found
