"""Events and other records of the domain as plain JSON values: camelCase, secrets masked (T7, T11).

Instants are ISO 8601, in UTC with ``Z``. What a file holds is what the fields of the records are; a field that has its
default is left out. `records` reads them back. Why not pydantic for writing, too: each text is masked on its way, by
the name that it has, durations never have days (T11), and a value may be of any class that a user has made, which then
becomes text.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.attachments import Attachment, is_image
from ensemble_notebook.domain.outputs.secrets import list_protected, list_signs
from ensemble_notebook.domain.value_text import (
    format_instant,
    is_array,
    is_missing,
    is_table,
    read_array,
    write_duration,
    write_whole,
)
from ensemble_notebook.errors import find_http_status, find_origin
from ensemble_notebook.trace.spans.clean_text import clean_text, clean_value
from ensemble_notebook.trace.spans.span_tree import format_error_message

RecordWriter = Callable[[Any], dict[str, Any]]

_OURS: Final = __name__.partition(".")[0]
"""The package whose records are written in camelCase; values of users keep their names, and all fields."""
LEFT_OUT: Final = frozenset(
    {"trace", "metrics", "_declared_role", "saving", "messages", "item_outputs", "item_failures", "preview"}
)
"""Fields that no file has: they are made from the events, or matter to a live output alone."""


def to_plain(value: Any, write_record: RecordWriter | None = None) -> Any:
    """A value as JSON has it; what JSON has no form for is text. Records are as in files, unless told otherwise."""
    try:
        return _to_plain(value, write_record or _fields_to_plain)
    except RecursionError:  # a user's value that holds itself
        try:
            return clean_text(str(value))
        except RecursionError:
            return f"<{type(value).__name__} that holds itself>"


def _to_plain(value: Any, write_record: RecordWriter) -> Any:
    if isinstance(value, Enum):
        return _to_plain(value.value, write_record)
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value, write_record)
    if isinstance(value, Attachment) or is_image(value):  # a text has its mark; its bytes are in no file
        return value.mark if isinstance(value, Attachment) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value).__module__.partition(".")[0] == _OURS:
            return write_record(value)
        return _to_plain({each.name: getattr(value, each.name) for each in dataclasses.fields(value)}, write_record)
    return _foreign_to_plain(value, write_record)


def _foreign_to_plain(value: Any, write_record: RecordWriter) -> Any:
    """A value of a class that only its methods tell of."""
    if callable(dump := getattr(value, "model_dump", None)):
        return _to_plain(dump(), write_record)
    if is_array(value) and not is_table(value):
        return _to_plain(read_array(value), write_record)
    return None if is_missing(value) else clean_text(write_whole(value))


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
    plain = _to_plain(value, write_record)
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
    origin, status = find_origin(error), find_http_status(error)
    plain: dict[str, Any] = {"type": type(error).__name__, "message": format_error_message(error)}
    if origin is not None:
        plain["origin"] = clean_text(origin)
    return plain if status is None else {**plain, "httpStatus": status}


_WRITERS: Final[Mapping[Any, Any]] = {
    # As a user has it: without a zone where it has none, and NaT of pandas is none.
    datetime: lambda moment, _: (
        None if is_missing(moment) else moment.isoformat() if moment.tzinfo is None else format_instant(moment)
    ),
    timedelta: lambda duration, _: write_duration(duration),
    Decimal: lambda number, _: str(number),
    BaseException: lambda error, _: _error_to_plain(error),
    Mapping: lambda items, write_record: {
        clean_text(str(key)): _mask_named(str(key), value, write_record) for key, value in items.items()
    },
    (list, tuple, set, frozenset): lambda items, write_record: [_to_plain(each, write_record) for each in items],
}


@cache
def to_camel(name: str) -> str:
    """``input_tokens`` as ``inputTokens``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


# --- Whether there may be a secret somewhere in much text, quickly: what finds one for sure is `secrets.mask` ----
#
# Python has nothing that searches for fifty words at once; the regular expressions of pydantic-core, which are Rust's,
# do so hundreds of times as fast. The text is JSON: what is searched for holds no character that JSON writes in another
# way.


def make_secret_search() -> Callable[[bytes], bool]:
    """A function that tells whether a JSON text may hold what is masked now. It may say so where there is nothing."""
    return _make_search(list_protected())


@lru_cache(maxsize=8)
def _make_search(protected: tuple[str, ...]) -> Callable[[bytes], bool]:
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as cs

    values = [re.escape(json.dumps(value, ensure_ascii=False)[1:-1]) for value in protected]
    pattern = "|".join([*list_signs(), *values])
    text = cs.str_schema(pattern=pattern, regex_engine="rust-regex")
    return SchemaValidator(text).isinstance_python
