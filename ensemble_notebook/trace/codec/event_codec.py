"""Events and other records of the domain as plain JSON values: camelCase, secrets masked (T7, T11).

What a file holds is what the fields of the records are; a field that has its default is left out. `record_reader` reads
them back. Why not pydantic for writing, too: each text is masked on its way, by the name that it has, durations never
have days (T11), and a value may be of any class that a user has made, which then becomes text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.domain.value_text import write_whole
from ensemble_notebook.errors import find_origin
from ensemble_notebook.trace.codec.iso_time import format_duration, format_instant
from ensemble_notebook.trace.spans.clean_text import clean_text, clean_value
from ensemble_notebook.trace.spans.span_tree import format_error_message

RecordWriter = Callable[[Any], dict[str, Any]]

RECURSIVE: Final = (ExecutionPlan,)
"""The records that hold others of their own kind."""
LEFT_OUT: Final = frozenset(
    {"trace", "metrics", "declared_role", "saving", "messages", "item_outputs", "item_failures"}
)
"""Fields that no file has: they are made from the events, or matter to a live output alone."""


def to_plain(value: Any, write_record: RecordWriter | None = None) -> Any:
    """A value as JSON has it; what JSON has no form for is text. Records are as in files, unless told otherwise."""
    write_record = write_record or _fields_to_plain
    if isinstance(value, Enum):
        return to_plain(value.value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value, write_record)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return write_record(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return to_plain(dump())
    return clean_text(write_whole(value))


def event_to_plain(event: ev.Event) -> dict[str, Any]:
    """An event as a dict with its ``type``; without the run's id, which a file has once."""
    plain = _fields_to_plain(event)
    del plain["runId"]
    return {"type": type(event).__name__, **plain}


def event_to_dict(event: Any) -> dict[str, Any]:
    """An event with its ``type`` and all its fields, by the names that they have in Python."""
    return {"type": type(event).__name__, **_fields_to_dict(event)}


def _fields_to_dict(record: Any) -> dict[str, Any]:
    names = (field.name for field in dataclasses.fields(record) if field.name not in LEFT_OUT)
    return {name: to_plain(getattr(record, name), _fields_to_dict) for name in names}


def _mask_named(name: str, value: Any, write_record: RecordWriter) -> Any:
    plain = to_plain(value, write_record)
    return clean_value(name, plain) if isinstance(plain, str) else plain


def _fields_to_plain(record: Any) -> dict[str, Any]:
    return {
        to_camel(field.name): to_plain(value)
        for field in dataclasses.fields(record)
        if field.name not in LEFT_OUT and not _is_default(field, value := getattr(record, field.name))
    }


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value is field.default or (type(value) is type(field.default) and value == field.default))
    return value is None


def _error_to_plain(error: BaseException) -> dict[str, Any]:
    origin = find_origin(error)
    plain = {"type": type(error).__name__, "message": format_error_message(error)}
    return plain if origin is None else {**plain, "origin": clean_text(origin)}


_WRITERS: Final[Mapping[Any, Any]] = {
    datetime: lambda moment, _: format_instant(moment),
    timedelta: lambda duration, _: format_duration(duration),
    Decimal: lambda number, _: str(number),
    BaseException: lambda error, _: _error_to_plain(error),
    Mapping: lambda items, write_record: {
        clean_text(str(key)): _mask_named(str(key), value, write_record) for key, value in items.items()
    },
    (list, tuple, set, frozenset): lambda items, write_record: [to_plain(each, write_record) for each in items],
}


@cache
def to_camel(name: str) -> str:
    """``input_tokens`` as ``inputTokens``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
