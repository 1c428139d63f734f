"""Reads the rows of messages of our own making, as `js/src/wire/columns.ts` does for views."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ensemble_notebook.trace.timeline.row_columns import UNKNOWN

_CODES = {"float": "d", "flag": "B"}


def read_rows(message: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> list[dict[str, Any]]:
    """Read the rows of a snapshot, a delta or a saved view, of any version: what is unknown is absent."""
    if "rows" in message:
        return list(message["rows"])
    reader = _Reader(message, buffers)
    columns = {name: reader.read(spec) for name, spec in reader.specs.items()}
    return [{name: each[k] for name, each in columns.items() if each[k] is not None} for k in range(reader.count)]


class _Reader:
    """Reads the columns of a message, each of which may be told by those before it."""

    def __init__(self, message: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
        self.count: int = message["count"]
        self.specs = {spec["name"]: spec for spec in message["columns"]}
        self._buffers = buffers
        self._known: dict[str, list[Any]] = {}

    def read(self, spec: Mapping[str, Any]) -> list[Any]:
        """The values of a column."""
        self._known[spec["name"]] = values = self._decode(spec)
        return values

    def _decode(self, spec: Mapping[str, Any]) -> list[Any]:
        if spec["type"] == "record":
            at = _add_up(_parse(spec["at"])) if isinstance(spec["at"], str) else spec["at"]
            places = dict(zip(at, spec["values"], strict=True))
            return [places.get(k) for k in range(self.count)]
        codes, numbers, words = self._list(spec, "codes"), self._list(spec, "numbers"), spec.get("words", ())
        match spec["type"]:
            case "word":
                return [None if code is None or code < 0 else words[code] for code in codes]
            case "id":
                return [f"{words[code]}{number}" for code, number in zip(codes, numbers, strict=True)]
            case "row":
                ids, rows = self._known["span_id"], [-1 if number is None else number for number in numbers]
                return [None if k == -1 else ids[k] if k >= 0 else words[-2 - k] for k in rows]
            case "flag":
                return [True if number == 1 else None for number in numbers]
        return [None if number in (None, UNKNOWN) or math.isnan(number) else number for number in numbers]

    def _list(self, spec: Mapping[str, Any], field: str) -> list[Any]:
        told = spec.get(field)
        if told is None:
            return []
        if isinstance(told, int):
            code = _CODES.get(spec["type"], "i") if field == "numbers" else "i"
            return list(struct.unpack_from(f"<{self.count}{code}", self._buffers[0], told))
        numbers = _parse(told)
        if spec.get("differences") and field == "numbers":
            numbers = _add_up(numbers)
        if "kinds" in spec:
            kinds = [self.specs["kind"]["words"][code] for code in spec["kinds"]]
            given = iter(numbers)
            numbers = [next(given) if kind in kinds else None for kind in self._known["kind"]]
        if spec.get("from") == "start_ms":
            starts = self._known.get("start_ms") or [None] * self.count
            pairs = zip(numbers, starts, strict=True)
            numbers = [n if n is None or s is None else n + round(s * 1000) for n, s in pairs]
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
