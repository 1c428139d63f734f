"""Records as JSON text, quickly: what `event_codec` writes to files, for those who write each as it comes.

pydantic-core writes them, from schemas made of the type hints of the records, eight times as fast as plain values are
made and dumped. `record_reader` reads it all. Durations have days here, which no file that others read may have (T11).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from ensemble_notebook.trace.codec.event_codec import LEFT_OUT, RECURSIVE, to_camel, to_plain
from ensemble_notebook.trace.spans.clean_text import clean_text

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer
    from pydantic_core.core_schema import CoreSchema

WITHOUT: Final = LEFT_OUT | {"run_id"}
"""Fields that are not written; the run's id is there once for all events."""


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
    return _make_serializer(kind).to_json(record, by_alias=True, exclude_none=True, warnings=False)


@cache
def _make_serializer(kind: type) -> SchemaSerializer:
    maker = SchemaMaker(is_masking=False)
    return maker.make_serializer(maker.make_record_schema(kind))


def list_fields_where_none_tells(kind: type) -> list[str]:
    """The fields of a record that may be None and have another default: there None can't be left out."""
    hints = get_type_hints(kind)
    return [
        field.name
        for field in dataclasses.fields(kind)
        if type(None) in get_args(hints[field.name]) and field.default not in (dataclasses.MISSING, None)
    ]


class SchemaMaker:
    """Schemas of what is written. Texts are masked, or left as they are; whatever is no text always is."""

    def __init__(self, *, is_masking: bool) -> None:
        self._is_masking = is_masking
        self._has_references = False

    def make_serializer(self, schema: CoreSchema) -> SchemaSerializer:
        """What writes values of a schema that this has made. Records of their own kind are referred to by name."""
        from pydantic_core import SchemaSerializer
        from pydantic_core import core_schema as cs

        if self._has_references:
            definitions = [self.make_record_schema(kind, kind.__name__) for kind in RECURSIVE]
            schema = cs.definitions_schema(schema, definitions)
        return SchemaSerializer(schema)

    def make_record_schema(self, kind: type, ref: str | None = None) -> CoreSchema:
        """Of a record, all fields but those that no file has."""
        from pydantic_core import core_schema as cs

        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        fields = [
            cs.dataclass_field(
                name,
                cs.any_schema() if name in WITHOUT else self.make_schema(hints[name]),
                serialization_alias=to_camel(name),
                serialization_exclude=name in WITHOUT,
            )
            for name in names
        ]
        return cs.dataclass_schema(kind, cs.dataclass_args_schema(kind.__name__, fields), names, slots=True, ref=ref)

    def make_schema(self, hint: Any) -> CoreSchema:
        """Of a field with this type hint."""
        from pydantic_core import core_schema as cs

        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            known = [each for each in arguments if each is not type(None)]
            return cs.nullable_schema(self.make_schema(known[0])) if len(known) == 1 else self.make_schema(Any)
        if origin is tuple:
            return cs.tuple_variable_schema(self.make_schema(arguments[0]))
        if isinstance(hint, type) and issubclass(hint, Enum):
            return cs.str_schema() if issubclass(hint, str) else cs.any_schema()  # a text is written at once
        if hint in RECURSIVE:
            self._has_references = True
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
