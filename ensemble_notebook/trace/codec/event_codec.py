"""Events and other records of the domain as plain JSON values: camelCase, secrets masked (T7, T11).

What a file holds is what the fields of the records are; a field that has its default is left out. `record_reader` reads
them back. Why not pydantic for writing, too: each text is masked on its way, by the name that it has, durations never
have days (T11), and a value may be of any class that a user has made, which then becomes text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.value_text import write_whole
from ensemble_notebook.errors import find_origin
from ensemble_notebook.trace.codec.iso_time import format_duration, format_instant
from ensemble_notebook.trace.spans.clean_text import clean_text, clean_value
from ensemble_notebook.trace.spans.span_tree import format_error_message

LEFT_OUT: Final = frozenset({"trace", "metrics"})
"""Fields that no file has: they are made from the events."""


def to_plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no form for becomes text."""
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
            return write(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields_to_plain(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return to_plain(dump())
    return clean_text(write_whole(value))


def event_to_plain(event: ev.Event) -> dict[str, Any]:
    """An event as a dict with its ``type``; without the run's id, which a file has once."""
    plain = _fields_to_plain(event)
    del plain["runId"]
    return {"type": type(event).__name__, **plain}


def _mask_named(name: str, value: Any) -> Any:
    plain = to_plain(value)
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
    datetime: format_instant,
    timedelta: format_duration,
    Decimal: str,
    BaseException: _error_to_plain,
    Mapping: lambda items: {clean_text(str(key)): _mask_named(str(key), value) for key, value in items.items()},
    (list, tuple, set, frozenset): lambda items: [to_plain(each) for each in items],
}


@cache
def to_camel(name: str) -> str:
    """``input_tokens`` as ``inputTokens``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
