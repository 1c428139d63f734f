"""The events of a batch as JSON text: those of one kind together, and what they have in common once.

A busy run tells the same few kinds of things of each of its tasks. So what a batch has of a kind is one group: its
``type``; under ``same`` the fields that are equal in all of these events; under ``each`` a list of values for every
other field, ``seq`` always among them. That takes half the room, and less time, than one event after the other. Of a
kind that a batch has little of, events stand by themselves, as all do in version 1 of the store.

Secrets are searched for in what was written, all at once; a group where there may be one is written again, and each of
its texts masked (T7).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_type_hints

from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.codec.event_codec import make_secret_search, to_camel
from ensemble_notebook.trace.codec.records import WITHOUT, SchemaMaker

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer

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
        if may_be_same and _are_same(values[0], values):
            same[name] = values[0]
        else:
            each[name] = values
    group = {"type": kind.__name__, "same": same, "each": each}
    return known.write_group.to_json(group, by_alias=True, exclude_none=True, warnings=False)


def _are_same(first: Any, values: tuple[Any, ...]) -> bool:
    """Whether all values are None, or nothing, or the same text or number; others nearly never are."""
    return (first is None or first == () or isinstance(first, str | int)) and values.count(first) == len(values)


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
