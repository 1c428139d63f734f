"""What is wrong with a JSON schema: what is none, and what no value fits, each with its place (E16).

Plain data in, sentences out. Loads the validator only where there is a schema to look at.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ensemble_notebook.errors import summarize_error

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords of which the value is data, and no schema."""
_BOUNDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "number": (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")),
    "string": (("minLength",), ("maxLength",)),
    "array": (("minItems",), ("maxItems",)),
    "object": (("minProperties",), ("maxProperties",)),
}
_HINTS: Final[Mapping[str, str]] = {
    "required": "Write the names of fields that must be there: required: [title].",
    "pattern": "Write a regular expression; a bracket that is meant has a \\ before it.",
    "$ref": "What it names stands under $defs.",
    "$schema": "Leave it out for the version of 2020-12.",
}
_ANY_HINT: Final = "What a keyword takes is said at json-schema.org."


class SchemaFault(NamedTuple):
    """One thing wrong: the keys and indices that lead to it, what it is, and what to write."""

    path: tuple[str | int, ...]
    message: str
    hint: str = _ANY_HINT


def find_schema_faults(schema: Mapping[str, Any]) -> list[SchemaFault]:
    """Find what keeps a schema from being one; where it is one, which parts of it no value can fit."""
    from jsonschema_rs import ValidationError

    plain, version = _copy(schema), schema.get("$schema")
    try:  # by the form of its own version, where that is known
        checker = _make_checker(version if isinstance(version, str) else _NEWEST)
    except ValueError:
        checker = _make_checker(_NEWEST)
    try:
        found = {
            tuple(each.instance_path): each.message.replace('is not a "regex"', "is no regular expression")
            for each in checker.iter_errors(plain)
        }
    except ValueError as error:  # what is no data of JSON
        return [SchemaFault((), summarize_error(error))]
    if found:
        return [SchemaFault(path, f"{message}.", _find_hint(path)) for path, message in found.items()]
    try:
        make_validator(plain)
    except ValidationError as error:  # it refers to something that is not there
        message = error.message.rpartition("LookupError: ")[2]
        near = (path for path, target in _find_references(plain, ()) if target.lstrip("#") in message)
        path = next(near, ())
        return [SchemaFault(path, f"{message}.", _find_hint(path))]
    return list(_find_impossible(plain))


def make_validator(schema: Mapping[str, Any]) -> Validator:
    """What holds a value to a schema.

    Raises:
        Exception: it is no schema, or refers to another document, which nobody fetches.
    """
    from jsonschema_rs import validator_for

    return validator_for(dict(schema), retriever=_refuse_to_fetch)


def find_kind(schema: Any, root: Mapping[str, Any]) -> str | None:
    """Find the one type that a field has in JSON, whether it may be null or not; of an enumeration that of its members.

    Args:
        schema: of the field.
        root: the schema that it is a part of, where references lead.

    Returns:
        ``"string"``, ``"integer"`` and so on; ``"null"`` where it is nothing else; None where it may be of several
        types, or none is told.
    """
    return _find_kind(schema, root, ())


def follow_reference(schema: Any, root: Mapping[str, Any]) -> Any:
    """The schema that a reference leads to, also over others; None where it leads nowhere, or to itself."""
    seen = set[str]()
    while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
        if reference in seen:
            return None
        seen.add(reference)
        schema = root.get("$defs", {}).get(reference.rpartition("/")[2])
    return schema


def _find_kind(schema: Any, root: Mapping[str, Any], around: tuple[Any, ...]) -> str | None:
    schema = follow_reference(schema, root)
    if not isinstance(schema, Mapping) or any(each is schema for each in around):  # a choice of which it is one itself
        return None
    around = *around, schema
    if "type" not in schema and ("enum" in schema or "const" in schema):
        members = schema.get("enum", [schema.get("const")])
        return "string" if all(isinstance(each, str | None) for each in members) else None
    given = schema.get("type")
    kinds: set[str | None] = {given} if isinstance(given, str) else set(given or ())
    kinds |= {_find_kind(each, root, around) for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))}
    found = kinds - {"null"}
    if found == {"integer", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else "null" if kinds == {"null"} else None


def _refuse_to_fetch(address: str) -> Any:
    raise LookupError(f"{address} is not fetched; put its definitions under $defs")


@functools.cache
def _make_checker(version: str) -> Validator:
    from jsonschema_rs import validator_for

    return validator_for({"$ref": version}, validate_formats=True, retriever=_refuse_to_fetch)


def _copy(value: Any) -> Any:
    """A part of a schema as plain data. What has two bounds is of the type that they are of, where it has none.

    By the letter, a text fits ``minimum: 5, maximum: 3``, which says something of numbers alone; nobody means that.
    """
    if isinstance(value, list | tuple):
        return [_copy(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    made = {name: each if name in SCHEMA_DATA else _copy(each) for name, each in value.items()}
    for kind, bounds in _BOUNDS.items():
        if "type" not in made and all(any(isinstance(made.get(each), int | float) for each in side) for side in bounds):
            made["type"] = kind
    return made


def _find_references(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in items:
        if name in ("$ref", "$schema", "$dynamicRef") and isinstance(each, str):
            yield (*path, name), each
        else:
            yield from _find_references(each, (*path, name))


def _find_impossible(schema: dict[str, Any]) -> Iterator[SchemaFault]:
    """The smallest parts that no value fits, each at the last of the keywords that exclude each other.

    ``false`` by itself is meant, and so is what stands below `not` and `if`.
    """
    from jsonschema_rs import canonicalize
    from jsonschema_rs.canonical import Satisfiability, UnsatisfiableReason, find_unsatisfiable

    reasons = find_unsatisfiable(schema, retriever=_refuse_to_fetch)
    parts = {
        pointer: reason
        for pointer, reason in reasons.items()
        if isinstance(reason, UnsatisfiableReason.Empty | UnsatisfiableReason.Conflict)
        and not {"not", "if"}.intersection(pointer.split("/"))
    }
    found = False
    for pointer, reason in parts.items():
        causes = [reason.cause] if isinstance(reason, UnsatisfiableReason.Empty) else reason.causes
        words = dict.fromkeys(word for cause in causes for word in cause.keywords)
        is_outer = any(each.startswith(f"{pointer}/") for each in parts)
        if is_outer or (len(parts) > 1 and "$ref" in words):  # the reason is another part
            continue
        found = True
        path = _follow(schema, causes[-1].pointer) + tuple(causes[-1].keywords[-1:])
        *others, last = [repr(word) for word in words if word != "type"] or ["'type'"]
        told = f"both {', '.join(others)} and {last}" if others else last
        yield SchemaFault(path, f"no value fits {told}.", f"Change {'one of them' if others else 'it'}.")
    if not found and canonicalize(schema, retriever=_refuse_to_fetch).satisfiability() is Satisfiability.NO:
        yield SchemaFault(
            (), "no value fits it: it needs itself inside itself, without an end.", "Let one of its fields be optional."
        )


def _follow(schema: Any, pointer: str) -> tuple[str | int, ...]:
    """The keys and indices of a JSON pointer (RFC 6901)."""
    path: list[str | int] = []
    for part in pointer.split("/")[1:]:
        key: str | int = part.replace("~1", "/").replace("~0", "~")
        key = int(key) if isinstance(schema, list) else key
        path.append(key)
        schema = schema[key]
    return tuple(path)


def _find_hint(path: tuple[str | int, ...]) -> str:
    return next((_HINTS[str(each)] for each in reversed(path) if each in _HINTS), _ANY_HINT)
