"""Events and other records of the domain as plain JSON values, and back: camelCase, secrets masked (T7, T11).

What a file holds is what the fields of the records are; a field that has its default is left out. Errors come back as
`RecordedError`: their class is known by name only.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from ensemble_notebook.domain import events as ev
from ensemble_notebook.trace.codec.iso_time import format_duration, format_instant, parse_duration, parse_instant
from ensemble_notebook.trace.spans.clean_text import clean_text, clean_value
from ensemble_notebook.trace.spans.span_tree import format_error_message

_EVENTS: Final = {
    name: kind
    for name, kind in vars(ev).items()
    if isinstance(kind, type) and issubclass(kind, ev.Event) and kind is not ev.Event
}
_LEFT_OUT: Final = frozenset({"trace", "metrics"})


class RecordedError(Exception):
    """An error as a file tells of it; its class has the name of the one that was raised."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by name, since the class is made on the way."""
        return make_recorded_error, (type(self).__name__, str(self))


@cache
def _error_class(name: str) -> type[RecordedError]:
    return type(name, (RecordedError,), {})


def make_recorded_error(name: str, message: str) -> RecordedError:
    """The error of a class of this name, with this message."""
    return _error_class(name)(message)


# --- Writing ----------------------------------------------------------------------------------------------------------


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
    return clean_text(str(value))


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
        if field.name not in _LEFT_OUT and not _is_default(field, value := getattr(record, field.name))
    }


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value is field.default or (type(value) is type(field.default) and value == field.default))
    return value is None


_WRITERS: Final[Mapping[Any, Any]] = {
    datetime: format_instant,
    timedelta: format_duration,
    Decimal: str,
    BaseException: lambda error: {"type": type(error).__name__, "message": format_error_message(error)},
    Mapping: lambda items: {clean_text(str(key)): _mask_named(str(key), value) for key, value in items.items()},
    (list, tuple, set, frozenset): lambda items: [to_plain(each) for each in items],
}


# --- Reading ----------------------------------------------------------------------------------------------------------


def event_from_plain(plain: Mapping[str, Any], run_id: str) -> ev.Event | None:
    """The event of a dict; None for a type that a later version has added.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is none.
    """
    kind = _EVENTS.get(plain["type"])
    return None if kind is None else _record({**plain, "runId": run_id}, kind)


def from_plain(value: Any, hint: Any) -> Any:
    """The value of a field with this type hint."""
    if value is None or hint is Any:
        return value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return from_plain(value, next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        return tuple(from_plain(each, arguments[0]) for each in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: from_plain(each, arguments[1]) for key, each in value.items()}
    if not isinstance(hint, type):
        return value
    return _of_class(value, hint)


def _of_class(value: Any, kind: type) -> Any:
    if issubclass(kind, BaseException):
        return make_recorded_error(value["type"], value.get("message", ""))
    if issubclass(kind, datetime):
        return parse_instant(value)
    if issubclass(kind, timedelta):
        return parse_duration(value)
    if dataclasses.is_dataclass(kind):
        return _record(value, kind)
    if issubclass(kind, Enum | Decimal | float):
        return kind(value)
    return value


def _record(plain: Mapping[str, Any], kind: Any) -> Any:
    hints = _hints(kind)
    values = {name: from_plain(plain[key], hint) for name, (key, hint) in hints.items() if key in plain}
    missing = {name: None for name, (_, hint) in hints.items() if name not in values and _is_required(kind, name)}
    return kind(**values, **missing)


@cache
def _hints(kind: type) -> dict[str, tuple[str, Any]]:
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init and field.name not in _LEFT_OUT]
    return {name: (to_camel(name), hints[name]) for name in names}


@cache
def _is_required(kind: type, name: str) -> bool:
    field = next(each for each in dataclasses.fields(kind) if each.name == name)
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@cache
def to_camel(name: str) -> str:
    """``input_tokens`` as ``inputTokens``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
