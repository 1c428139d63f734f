"""Events as JSON text, quickly: what `event_codec` writes to files, for those who write each event as it comes.

pydantic-core writes them, from schemas made of the type hints of the records, eight times as fast as plain values are
made and dumped. Secrets are searched for in what was written, all at once; where there may be one, the event is
written again, and each of its texts masked (T7). `record_reader` reads it all. Durations have days here, which no file
that others read may have (T11).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.codec.event_codec import LEFT_OUT, RECURSIVE, to_camel, to_plain
from ensemble_notebook.trace.codec.secret_search import make_secret_search
from ensemble_notebook.trace.spans.clean_text import clean_text

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer
    from pydantic_core.core_schema import CoreSchema

_LEFT_OUT: Final = LEFT_OUT | {"run_id"}


def write_events(events: Iterable[Event]) -> bytes:
    """A JSON array of these events, each with its ``type``, without the run's id, and without what is None.

    No event has a field where None tells something that its default does not; a test sees to that.

    Raises:
        ValueError: one holds what can't be written, such as a value that contains itself.
    """
    events = list(events)
    try:
        texts = _write_each(events, is_masking=False)
        search = make_secret_search()
        if search(b",".join(texts)):
            pairs = zip(events, texts, strict=True)
            texts = [_write_each([event], is_masking=True)[0] if search(text) else text for event, text in pairs]
    except ValueError:  # half a character somewhere, which the masking takes out, too
        texts = _write_each(events, is_masking=True)
    return b"[" + b",".join(texts) + b"]"


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


def write_record(record: Any) -> bytes:
    """A record as JSON text. Secrets are not masked, but in values of users: which is not seen here.

    Raises:
        ValueError: as above.
    """
    kind: type = type(record)
    _, serializer = _make_serializer(kind, is_masking=False)
    return serializer.to_json(record, by_alias=True, exclude_none=True, warnings=False)


def _write_each(events: Sequence[Event], *, is_masking: bool) -> list[bytes]:
    """The texts of events. A loop without a call of ours for each event, since there are thousands a second."""
    kinds: Mapping[type, Any] = {kind: _make_serializer(kind, is_masking) for kind in set(map(type, events))}
    texts = []
    for event in events:
        beginning, serializer = kinds[type(event)]
        texts.append(beginning + serializer.to_json(event, by_alias=True, exclude_none=True, warnings=False)[1:])
    return texts


@cache
def _make_serializer(kind: type, is_masking: bool) -> tuple[bytes, SchemaSerializer]:
    """How the text of an event of this kind begins, and what writes the rest; no event is without fields."""
    from pydantic_core import SchemaSerializer
    from pydantic_core import core_schema as cs

    maker = _SchemaMaker(is_masking=is_masking)
    schema = maker.make_record_schema(kind)
    if maker.has_references:
        schema = cs.definitions_schema(schema, maker.make_definitions())
    return f'{{"type":"{kind.__name__}",'.encode(), SchemaSerializer(schema)


def list_fields_where_none_tells(kind: type) -> list[str]:
    """The fields of a record that may be None and have another default: there None can't be left out."""
    hints = get_type_hints(kind)
    return [
        field.name
        for field in dataclasses.fields(kind)
        if type(None) in get_args(hints[field.name]) and field.default not in (dataclasses.MISSING, None)
    ]


class _SchemaMaker:
    """Schemas of what is written. Texts are masked, or left as they are; whatever is no text always is."""

    def __init__(self, *, is_masking: bool) -> None:
        self._is_masking = is_masking
        self.has_references = False

    def make_definitions(self) -> list[CoreSchema]:
        """Of the records that hold others of their own kind; they are referred to by name."""
        return [self.make_record_schema(kind, kind.__name__) for kind in RECURSIVE]

    def make_record_schema(self, kind: type, ref: str | None = None) -> CoreSchema:
        """Of a record, all fields but those that no file has."""
        from pydantic_core import core_schema as cs

        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        fields = [
            cs.dataclass_field(
                name,
                cs.any_schema() if name in _LEFT_OUT else self._make_schema(hints[name]),
                serialization_alias=to_camel(name),
                serialization_exclude=name in _LEFT_OUT,
            )
            for name in names
        ]
        return cs.dataclass_schema(kind, cs.dataclass_args_schema(kind.__name__, fields), names, slots=True, ref=ref)

    def _make_schema(self, hint: Any) -> CoreSchema:
        from pydantic_core import core_schema as cs

        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            known = [each for each in arguments if each is not type(None)]
            return cs.nullable_schema(self._make_schema(known[0])) if len(known) == 1 else self._make_schema(Any)
        if origin is tuple:
            return cs.tuple_variable_schema(self._make_schema(arguments[0]))
        if isinstance(hint, type) and issubclass(hint, Enum):
            return cs.str_schema() if issubclass(hint, str) else cs.any_schema()  # a text is written at once
        if hint in RECURSIVE:
            self.has_references = True
            return cs.definition_reference_schema(hint.__name__)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type) and not list_fields_where_none_tells(hint):
            return self.make_record_schema(hint)
        if hint is str and not self._is_masking:
            return cs.str_schema()
        return _make_native_schemas().get(hint) or cs.any_schema(
            serialization=cs.plain_serializer_function_ser_schema(_write_value)
        )


@cache
def _make_native_schemas() -> Mapping[Any, CoreSchema]:
    from pydantic_core import core_schema as cs

    return {
        bool: cs.bool_schema(),
        int: cs.int_schema(),
        float: cs.float_schema(),
        datetime: cs.datetime_schema(),
        timedelta: cs.timedelta_schema(),
        Decimal: cs.decimal_schema(),
    }


def _write_value(value: Any) -> Any:
    """A text, or a value of whatever class; secrets masked."""
    return clean_text(value) if type(value) is str else to_plain(value)
