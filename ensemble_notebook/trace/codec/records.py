"""Records of the domain as JSON, and back (T12): one schema, made of the type hints of a record, for both directions.

pydantic-core reads and writes by it, seven times as fast as code of our own. Why not pydantic's own dataclasses: the
records know no JSON, so names in camelCase, fields left out because they were None, and errors, which come back as
`RecordedError`, would have to be declared on them. It is imported with the first record: no other way of using this
package waits for it (T28). Files that others read are written by `event_codec`, value by value; durations have days
here, which no such file may have (T11).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from operator import attrgetter, itemgetter, methodcaller
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedTask
from ensemble_notebook.errors import make_recorded_error
from ensemble_notebook.trace.codec.event_codec import LEFT_OUT, make_secret_search, to_camel, to_plain
from ensemble_notebook.trace.spans.clean_text import clean_text

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer, SchemaValidator
    from pydantic_core.core_schema import CoreSchema, DataclassField

WITHOUT: Final = LEFT_OUT | {"run_id"}
"""Fields that are not written; the run's id is there once for all events."""

_RECURSIVE: Final = (ExecutionPlan, PlannedTask)
"""The records that hold others of their own kind."""

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
        return _make_validator(hint).validate_python(plain)
    except ValueError as error:
        from pydantic_core import ValidationError  # not before: each event is read here

        if not isinstance(error, ValidationError):
            raise
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error


def write_record(record: Any) -> bytes:
    """A record as JSON text. Secrets are not masked, but in values of users: which is not seen here.

    Raises:
        ValueError: there is half a character in it.
    """
    kind: type = type(record)
    return _make_serializer(kind).to_json(record, by_alias=True, exclude_none=True, warnings=False)


def write_plain(value: Any) -> bytes:
    """A plain value as JSON text, as it is: secrets are not masked.

    Raises:
        ValueError: there is half a character in it.
    """
    return _get_writer()(value, inf_nan_mode="null")


@cache
def _get_writer() -> Callable[..., bytes]:
    """What writes plain values: an import for each of them would take as long as the writing."""
    from pydantic_core import to_json

    return to_json


@cache
def _make_validator(hint: Any) -> SchemaValidator:
    from pydantic_core import SchemaValidator

    maker = SchemaMaker(is_masking=False)
    return SchemaValidator(maker.complete(maker.make_schema(hint)))


@cache
def _make_serializer(kind: type) -> SchemaSerializer:
    from pydantic_core import SchemaSerializer

    maker = SchemaMaker(is_masking=False)
    return SchemaSerializer(maker.complete(maker.make_record_schema(kind)))


def list_fields_where_none_tells(kind: type) -> list[str]:
    """The fields of a record that may be None and have another default: there None can't be left out."""
    hints = get_type_hints(kind)
    return [
        field.name
        for field in dataclasses.fields(kind)
        if type(None) in get_args(hints[field.name]) and field.default not in (dataclasses.MISSING, None)
    ]


class SchemaMaker:
    """Schemas of values with a type hint. Texts are written masked, or as they are; whatever is no text always is."""

    def __init__(self, *, is_masking: bool) -> None:
        self._is_masking = is_masking
        self._has_references = False

    def complete(self, schema: CoreSchema) -> CoreSchema:
        """A schema that this has made, with the records that it refers to by name."""
        from pydantic_core import core_schema as cs

        if not self._has_references:
            return schema
        return cs.definitions_schema(schema, [self.make_record_schema(kind, kind.__name__) for kind in _RECURSIVE])

    def make_record_schema(self, kind: Any, ref: str | None = None) -> CoreSchema:
        """Of a record. Fields are in camelCase; one without a default that was left out was None."""
        from pydantic_core import core_schema as cs

        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        fields = [self._make_field(field, hints[field.name]) for field in dataclasses.fields(kind)]
        return cs.dataclass_schema(
            kind,
            cs.dataclass_args_schema(kind.__name__, fields),
            names,
            slots=True,
            ref=ref,
            post_init=hasattr(kind, "__post_init__"),
            serialization=_write_by_value() if list_fields_where_none_tells(kind) else None,
        )

    def _make_field(self, field: dataclasses.Field[Any], hint: Any) -> DataclassField:
        from pydantic_core import core_schema as cs

        is_read = field.name not in LEFT_OUT
        schema = self.make_schema(hint) if is_read else cs.any_schema()
        if field.default_factory is not dataclasses.MISSING:
            schema = cs.with_default_schema(schema, default_factory=field.default_factory)
        elif field.default is not dataclasses.MISSING:
            schema = cs.with_default_schema(schema, default=field.default)
        elif hint is Any or type(None) in get_args(hint):
            schema = cs.with_default_schema(schema, default=None)
        alias = to_camel(field.name)
        return cs.dataclass_field(
            field.name,
            schema,
            init=is_read,
            validation_alias=alias,
            serialization_alias=alias,
            serialization_exclude=field.name in WITHOUT,
        )

    def make_schema(self, hint: Any) -> CoreSchema:
        """Of a field with this type hint. Of a union, the value tells which of the types it is of."""
        from pydantic_core import core_schema as cs

        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            choices = [self.make_schema(each) for each in arguments if each is not type(None)]
            schema = choices[0] if len(choices) == 1 else _make_union(choices, _write_by_value())
            return cs.nullable_schema(schema) if type(None) in arguments else schema
        if origin is tuple:
            return cs.tuple_variable_schema(self.make_schema(arguments[0]))
        if _is_mapping(hint):
            values = self.make_schema(arguments[1])
            if _is_mapping(arguments[1]):
                values = cs.no_info_before_validator_function(_mend_blank, values)
            return cs.dict_schema(values_schema=values, serialization=_write_by_value())
        if hint in _RECURSIVE:
            self._has_references = True
            return cs.definition_reference_schema(hint.__name__)
        return self._make_class_schema(hint)

    def _make_class_schema(self, kind: Any) -> CoreSchema:
        from pydantic_core import core_schema as cs

        if not isinstance(kind, type):
            return cs.any_schema(serialization=_write_by_value())
        if issubclass(kind, BaseException):
            return cs.no_info_plain_validator_function(_read_error, serialization=_write_by_value())
        if dataclasses.is_dataclass(kind):
            return self.make_record_schema(kind)
        if issubclass(kind, Enum):
            written = cs.simple_ser_schema("str" if issubclass(kind, str) else "any")  # a text is written at once
            return cs.no_info_plain_validator_function(kind, serialization=written)
        if kind is str:
            return cs.str_schema(strict=True, serialization=_write_by_value() if self._is_masking else None)
        return _make_plain_schemas().get(kind) or cs.any_schema(serialization=_write_by_value())


@cache
def _make_plain_schemas() -> Mapping[type, CoreSchema]:
    """Numbers, booleans and times, as they are: no text for a number, and no number that nothing can hold.

    Amounts alone may be texts: they are written so, to lose no digit. Seconds that somebody has set as 45 stay 45.
    """
    from pydantic_core import core_schema as cs

    whole = cs.int_schema(strict=True, ge=-_LARGEST, le=_LARGEST)
    number = cs.float_schema(strict=True, allow_inf_nan=False, ge=-_LARGEST, le=_LARGEST)
    moment = cs.datetime_schema(tz_constraint="aware", microseconds_precision="truncate", ge=_FIRST, le=_LAST)
    return {
        bool: cs.bool_schema(strict=True),
        int: whole,
        float: _make_union([whole, number], cs.simple_ser_schema("any")),
        Decimal: cs.decimal_schema(allow_inf_nan=False, ge=Decimal(-_LARGEST), le=Decimal(_LARGEST)),
        datetime: cs.no_info_after_validator_function(_to_utc, moment),
        timedelta: cs.timedelta_schema(ge=-_LONGEST, le=_LONGEST),
    }


def _make_union(choices: list[CoreSchema], serialization: Any) -> CoreSchema:
    from pydantic_core import core_schema as cs

    return cs.union_schema([*choices], mode="left_to_right", serialization=serialization)


@cache
def _write_by_value() -> Any:
    """What writes a text, or a value of whatever class; secrets masked."""
    from pydantic_core import core_schema as cs

    return cs.plain_serializer_function_ser_schema(_write_value)


def _write_value(value: Any) -> Any:
    return clean_text(value) if type(value) is str else to_plain(value)


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _mend_blank(value: Any) -> Any:
    """Runs that kept no text once had an empty text in place of a mapping inside another one."""
    return {} if value == "" else value


def _read_error(plain: Any) -> BaseException | None:
    if plain is None:
        return None
    kind, message, origin = plain["type"], plain.get("message", ""), plain.get("origin")
    if not (isinstance(kind, str) and isinstance(message, str) and isinstance(origin, str | None)):
        raise ValueError("an error has a type and a message, which are texts")
    status = plain.get("httpStatus")
    if not isinstance(status, int | None) or (status is not None and not 100 <= status <= 599):
        raise ValueError("an HTTP status is a whole number from 100 to 599")
    return make_recorded_error(kind, message, origin, status)


# --- The events of a batch: those of one kind together, and what they have in common once -----------------------------
#
# A busy run tells the same few kinds of things of each of its tasks. So what a batch has of a kind is one group: its
# ``type``; under ``same`` the fields that are equal in all of these events; under ``each`` a list of values for every
# other field, ``seq`` always among them. That takes half the room, and less time, than one event after the other. Of a
# kind that a batch has little of, events stand by themselves, as all do in version 1 of the store.
#
# Secrets are searched for in what was written, all at once; a group where there may be one is written again, and each
# of its texts masked (T7).


_FEW: Final = 4
"""Events of a kind that are a group: fewer are written more quickly one by one."""

_MOST: Final = 1_000_000
"""Events of a piece: a batch never has so many, but a few bytes that somebody has made may."""


class _Kind(NamedTuple):
    """How events of a kind are written.

    Attributes:
        names: of the fields that are written.
        may_be_same: whether equal values of each are the same; not of the sequence, nor where objects of users are.
        get_values: of these fields, of an event.
        write_group: writes a group.
        write_event: writes one event, without its type.
    """

    names: Sequence[str]
    may_be_same: Sequence[bool]
    get_values: Callable[[Event], tuple[Any, ...]]
    write_group: SchemaSerializer
    write_event: SchemaSerializer


def write_events(events: Iterable[Event]) -> bytes:
    """A JSON array of groups and events, without the run's id, and without what is None.

    No event has a field where None tells something that its default does not; a test sees to that.

    Raises:
        ValueError: one holds what can't be written, such as a value that contains itself.
    """
    groups: dict[type[Event], list[Event]] = {}
    for event in events:
        groups.setdefault(type(event), []).append(event)
    try:
        texts = [_write_group(kind, group, is_masking=False) for kind, group in groups.items()]
        search = make_secret_search()
        if search(b",".join(texts)):
            pairs = zip(groups.items(), texts, strict=True)
            texts = [_write_group(*each, is_masking=True) if search(text) else text for each, text in pairs]
    except ValueError:  # half a character somewhere, which the masking takes out, too
        texts = [_write_group(kind, group, is_masking=True) for kind, group in groups.items()]
    return b"[%b]" % b",".join(texts)


def read_groups(piece: Iterable[Any]) -> list[Any]:
    """The events of a piece as plain values, in order.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: a group is damaged.
    """
    found: list[Any] = []
    for each in piece:
        if isinstance(each, dict) and "each" in each:
            found += _read_group(each, _MOST - len(found))
        else:
            found.append(each)
    found.sort(key=itemgetter("seq"))
    return found


def _read_group(group: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
    kind, same, names = group["type"], group["same"], list(group["each"])
    if len(group["each"]["seq"]) > most:
        raise ValueError("more events than a batch ever has")
    for values in zip(*group["each"].values(), strict=True):
        own = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        yield {"type": kind, **same, **own}


def _write_group(kind: type, events: Sequence[Event], *, is_masking: bool) -> bytes:
    known = _read_kind(kind, is_masking)
    if len(events) < _FEW:
        beginning, write = f'{{"type":"{kind.__name__}",'.encode(), known.write_event.to_json
        texts = [write(event, by_alias=True, exclude_none=True, warnings=False) for event in events]
        return b",".join([beginning + text[1:] for text in texts])  # no event is without fields
    same, each = {}, {}
    columns = zip(*map(known.get_values, events), strict=True)
    for name, may_be_same, values in zip(known.names, known.may_be_same, columns, strict=True):
        first = values[0]
        # All are None, or nothing, or the same text or number; others nearly never are the same.
        is_comparable = first is None or first == () or isinstance(first, str | int)
        if may_be_same and is_comparable and values.count(first) == len(values):
            same[name] = first
        else:
            each[name] = values
    group = {"type": kind.__name__, "same": same, "each": each}
    return known.write_group.to_json(group, by_alias=True, exclude_none=True, warnings=False)


@cache
def _read_kind(kind: type, is_masking: bool) -> _Kind:
    from pydantic_core import SchemaSerializer
    from pydantic_core import core_schema as cs

    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name not in WITHOUT]
    maker = SchemaMaker(is_masking=is_masking)
    same, each = {}, {}
    for name in names:
        schema, alias = maker.make_schema(hints[name]), to_camel(name)
        same[name] = cs.typed_dict_field(schema, required=False, serialization_alias=alias)
        each[name] = cs.typed_dict_field(cs.tuple_variable_schema(schema), required=False, serialization_alias=alias)
    parts = {"type": cs.str_schema(), "same": cs.typed_dict_schema(same), "each": cs.typed_dict_schema(each)}
    group = cs.typed_dict_schema({name: cs.typed_dict_field(schema) for name, schema in parts.items()})
    may_be_same = [name != "seq" and hints[name] is not Any for name in names]
    write_group, write_event = (
        SchemaSerializer(maker.complete(each)) for each in (group, maker.make_record_schema(kind))
    )
    return _Kind(names, may_be_same, attrgetter(*names), write_group, write_event)
