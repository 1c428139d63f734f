"""Plain JSON values as records of the domain again (T12): the other direction of `event_codec`.

pydantic-core reads them, from schemas made of the type hints of the records, seven times as fast as a reader of
our own. Why not pydantic's own reading of dataclasses: the records know no JSON, so names in camelCase, fields left
out because they were None, and errors, which come back as `RecordedError`, would have to be declared on them. It is
imported at the first file that is loaded: no other way of using this package waits for it (T28).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from ensemble_notebook.domain import events as ev
from ensemble_notebook.errors import make_recorded_error
from ensemble_notebook.trace.codec.event_codec import LEFT_OUT, RECURSIVE, to_camel

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema

# What a file may say (E71): frames count nanoseconds, and JavaScript has no larger whole numbers.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_LONGEST: Final = timedelta(days=50_000)
_LARGEST: Final = 2**53

_to_utc: Final = methodcaller("astimezone", UTC)
_EVENTS: Final = {
    name: kind
    for name, kind in vars(ev).items()
    if isinstance(kind, type) and issubclass(kind, ev.Event) and kind is not ev.Event
}


def read_event(plain: Mapping[str, Any], run_id: str) -> ev.Event | None:
    """The event of a dict; None for a type that a later version has added.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is none.
    """
    kind = _EVENTS.get(plain["type"])
    return None if kind is None else read_value({**plain, "runId": run_id}, kind)


def read_value(plain: Any, hint: Any) -> Any:
    """The value of a field with this type hint.

    Raises:
        TypeError, ValueError, AttributeError: it is none.
    """
    try:
        return _make_reader(hint).validate_python(plain)
    except ValueError as error:
        from pydantic_core import ValidationError  # not before: each event is read here

        if not isinstance(error, ValidationError):
            raise
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error


@cache
def _make_reader(hint: Any) -> SchemaValidator:
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as cs

    return SchemaValidator(cs.definitions_schema(_make_schema(hint), _make_definitions()))


@cache
def _make_definitions() -> list[CoreSchema]:
    """Of the records that hold others of their own kind; they are referred to by name."""
    return [_make_record_schema(kind, kind.__name__) for kind in RECURSIVE]


def _make_schema(hint: Any) -> CoreSchema:
    """What pydantic-core reads for a type hint. A union is one type and None, or whatever its first type is."""
    from pydantic_core import core_schema as cs

    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return cs.nullable_schema(_make_schema(next(each for each in arguments if each is not type(None))))
    if origin is tuple:
        return cs.tuple_variable_schema(_make_schema(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return cs.dict_schema(values_schema=_make_schema(arguments[1]))
    return _make_class_schema(hint) if isinstance(hint, type) else cs.any_schema()


def _make_class_schema(kind: type) -> CoreSchema:
    from pydantic_core import core_schema as cs

    if issubclass(kind, BaseException):
        return cs.no_info_plain_validator_function(_read_error)
    if issubclass(kind, datetime):
        moment = cs.datetime_schema(tz_constraint="aware", microseconds_precision="truncate", ge=_FIRST, le=_LAST)
        return cs.no_info_after_validator_function(_to_utc, moment)
    if issubclass(kind, timedelta):
        return cs.timedelta_schema(ge=-_LONGEST, le=_LONGEST)
    if kind in RECURSIVE:
        return cs.definition_reference_schema(kind.__name__)
    if dataclasses.is_dataclass(kind):
        return _make_record_schema(kind)
    if issubclass(kind, Enum):
        return cs.no_info_plain_validator_function(kind)
    return _make_plain_schema(kind)


def _make_plain_schema(kind: type) -> CoreSchema:
    """Texts, numbers and booleans, as they are: no text for a number, and no number that nothing can hold (E71).

    Amounts alone may be texts: they are written so, to lose no digit.
    """
    from pydantic_core import core_schema as cs

    if kind is str:
        return cs.str_schema(strict=True)
    if kind is bool:
        return cs.bool_schema(strict=True)
    if kind is int:
        return cs.int_schema(strict=True, ge=-_LARGEST, le=_LARGEST)
    if kind is float:
        return cs.float_schema(allow_inf_nan=False, ge=-_LARGEST, le=_LARGEST)
    if kind is Decimal:
        return cs.decimal_schema(allow_inf_nan=False, ge=Decimal(-_LARGEST), le=Decimal(_LARGEST))
    return cs.any_schema()


def _make_record_schema(kind: type, ref: str | None = None) -> CoreSchema:
    """Fields are in camelCase. One without a default that was left out was None."""
    from pydantic_core import core_schema as cs

    hints = get_type_hints(kind)
    fields: dict[str, cs.TypedDictField] = {}
    for field in dataclasses.fields(kind):
        if field.init and field.name not in LEFT_OUT:
            hint = hints[field.name]
            schema = _make_schema(hint)
            is_required = field.default is field.default_factory is dataclasses.MISSING
            is_optional = hint is Any or type(None) in get_args(hint)
            if is_required and is_optional:
                schema = cs.with_default_schema(schema, default=None)
            fields[field.name] = cs.typed_dict_field(
                schema, validation_alias=to_camel(field.name), required=is_required and not is_optional
            )
    return cs.no_info_after_validator_function(lambda values: kind(**values), cs.typed_dict_schema(fields), ref=ref)


def _read_error(plain: Any) -> BaseException | None:
    if plain is None:
        return None
    kind, message, origin = plain["type"], plain.get("message", ""), plain.get("origin")
    if not (isinstance(kind, str) and isinstance(message, str) and isinstance(origin, str | None)):
        raise ValueError("an error has a type and a message, which are texts")
    return make_recorded_error(kind, message, origin)
