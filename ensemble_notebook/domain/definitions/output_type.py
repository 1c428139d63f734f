"""What a structured output may be: a pydantic model, a dataclass, a TypedDict, a JSON schema, or fields (E2, E16).

Checks the form only, and imports no pydantic; reading values with it is the engine's.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum, Flag
from typing import Any, Final

from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.json_schema import find_schema_faults
from ensemble_notebook.domain.value_text import PlainValueError, read_plain_value
from ensemble_notebook.errors import Problem, ValidationError, did_you_mean, find_nearest

_JSON_TYPES: Final = ("array", "string", "number", "integer", "boolean", "null")


def is_typed_dict(kind: Any) -> bool:
    """True for a `TypedDict` of `typing` or of `typing_extensions`, which are different things before Python 3.13."""
    return typing.is_typeddict(kind) or (
        isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")
    )


def find_output_type_fault(kind: Any) -> str | None:
    """Find what is wrong with the form of an output type; None when it can be used."""
    if isinstance(kind, Mapping):
        return _find_schema_fault(kind)
    if not isinstance(kind, type):
        return f"must be a class, fields such as {{'title': 'str'}}, or a JSON schema, got {kind!r}"
    if dataclasses.is_dataclass(kind) or is_typed_dict(kind) or callable(getattr(kind, "model_validate", None)):
        return None
    label = kind.__name__
    if issubclass(kind, str | int | float | bool | bytes | complex | type(None)):
        return f"must not be a scalar alone ({label}). Wrap it: a class with one field"
    if issubclass(kind, Mapping | Sequence | set | frozenset):
        return f"must not be a bare {label}. Wrap it: a class with a field of that type"
    return f"must be a pydantic model, a dataclass, a TypedDict or a JSON schema, got the class {label}"


def _find_schema_fault(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type", "object" if "properties" in schema or "$ref" in schema else None)
    if kind == "object":
        faults = find_schema_faults({"type": "object", **schema})
        shown = [
            f"at {'.'.join(map(str, each.path)) or 'its root'}, {each.message} {each.hint}".strip() for each in faults
        ]
        return f"is a JSON schema with a mistake: {' '.join(shown)}".removesuffix(".") if shown else None
    remedy = "Wrap it: {'type': 'object', 'properties': ...}"
    return f"must be a JSON schema of type 'object', got type {kind!r}. {remedy}"


def describe_output_type(kind: Any) -> str:
    """Name an output type, for people."""
    return str(kind.get("title", "JSON schema")) if isinstance(kind, Mapping) else str(kind.__name__)


def normalize_output_type(owner: Definition) -> None:
    """Check the `output_type` of a definition, where it has one; fields with types become a JSON schema.

    Raises:
        ValidationError: it has none of the forms of an output type.
    """
    given: Any = getattr(owner, "output_type")  # noqa: B009 - the base of all definitions has none
    if given is None:
        return
    if not isinstance(given, Mapping) or is_json_schema(given):
        if fault := find_output_type_fault(given):
            raise owner._refuse("output_type", f"{owner._label} output_type {fault}.")
        return
    problems: list[Problem] = []

    def add_problem(path: Path, message: str, hint: str) -> None:
        item = str(path[0]) if path else None
        problems.append(Problem(f"{owner._label} output_type: {message} {hint}", owner, "output_type", item))

    made = read_type_fields(given, "output_type", add_problem)
    # {"type": "array", "items": ...} is a JSON schema of something else; {"type": "string"} alone hardly a field.
    kind = given.get("type")
    if isinstance(kind, str) and kind in _JSON_TYPES and (problems or len(given) == 1):
        raise owner._refuse("output_type", f"{owner._label} output_type {_find_schema_fault(given)}.")
    if problems:
        raise ValidationError(problems)
    owner._set("output_type", made)


# --- The shape of an output as fields with types, ``{title: str, score: int}``, made into a JSON schema ---------------
#
# Plain data in, a JSON schema of type object out. Cells give the texts of their nodes, Python its own mappings.


TYPE_WORDS: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("str", "string", "text"), "string"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    "any": None,
}
NULL_WORDS: Final = ("null", "None", "none")
_BAR: Final = "|"
_SHOWN: Final = (
    "Types are: str (or string, text), int (integer), float (number), bool (boolean), any, [str] for a list, "
    "{name: str} for fields, `yes | no` for one of these words; `str?` may be missing."
)
_PLAIN_CLASSES: Final = (str, int, float, bool)
_LONGEST_QUOTED: Final = 60
_LONGEST_WORD: Final = 80

Path = tuple[str | int, ...]
Report = Callable[[Path, str, str], None]


class Verbatim(str):
    """A type that stood in quotes, so that the words in it are texts, whatever they look like."""

    __slots__ = ()


class _TypeFieldError(ValueError):
    """What is wrong with one type, and where."""

    def __init__(self, path: Path, message: str, hint: str = _SHOWN) -> None:
        super().__init__(message)
        self.path, self.hint = path, hint


def is_json_schema(fields: Mapping[str, Any]) -> bool:
    """True for a mapping that can only be meant as a JSON schema, and not as fields with types."""
    has_properties = isinstance(fields.get("properties"), Mapping)
    return fields.get("type") == "object" or has_properties or any(str(name).startswith("$") for name in fields)


def is_type(text: str) -> bool:
    """True for the type of a field alone, such as ``str`` or ``yes | no``."""
    return text.strip().removesuffix("?") in TYPE_WORDS or _BAR in text


def read_type_fields(fields: Mapping[Any, Any], label: str, report: Report, path: Path = ()) -> dict[str, Any]:
    """Make the schema of an object with these fields; those without ``?`` are required, all others refused.

    Args:
        fields: names to types: texts such as ``"int?"`` and ``"yes | no"``, lists of one type, mappings of fields.
        label: what has them, for messages.
        report: is told of each mistake: the keys and indices that lead to it, what is wrong, and what to write.
        path: leads to these fields.
    """
    properties: dict[str, Any] = {}
    required = []
    if not fields:
        report(path, f"{label} has no fields.", "Write {title: str, score: int}.")
    for name, each in fields.items():
        if not isinstance(name, str):
            report(path, f"{label} has a field {_quote(name)}, and names of fields are texts.", _SHOWN)
            continue
        try:
            schema, is_optional = _read_type(each, f"the field {_quote(name)}", report, (*path, name))
        except _TypeFieldError as error:
            report(error.path, str(error), error.hint)
            continue
        properties[name] = schema
        required += [] if is_optional else [name]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _read_type(value: Any, label: str, report: Report, path: Path) -> tuple[dict[str, Any], bool]:
    """Read the schema of one field, and whether the field may be missing."""
    if isinstance(value, type) and value in _PLAIN_CLASSES:  # what Python has for these types
        value = value.__name__
    if isinstance(value, str):
        shown = value.strip()
        word = shown.removesuffix("?")
        is_optional = word != shown
        if _BAR in shown:
            is_verbatim = isinstance(value, Verbatim)
            return _read_alternatives(word, label, path, is_optional=is_optional, is_verbatim=is_verbatim), is_optional
        if word not in TYPE_WORDS:
            raise _TypeFieldError(path, f"{label} takes a type, and {_quote(shown)} is none.{_suggest(word)}")
        kind = TYPE_WORDS[word]
        return ({} if kind is None else {"type": [kind, "null"] if is_optional else kind}), is_optional
    if isinstance(value, Mapping):
        return read_type_fields(value, label, report, path), False
    if not isinstance(value, Sequence):
        raise _TypeFieldError(path, f"{label} takes a type, and {_quote(value)} is none.")
    if len(value) != 1:
        raise _TypeFieldError(path, f"{label} is a list: write the one type of its items in it.")
    items, is_optional = _read_type(value[0], f"an item of {label}", report, (*path, 0))
    if is_optional:
        raise _TypeFieldError((*path, 0), "an item of a list can't be missing.", "Remove the '?'.")
    return {"type": "array", "items": items}, False


def _read_alternatives(text: str, label: str, path: Path, *, is_optional: bool, is_verbatim: bool) -> dict[str, Any]:
    """Read ``int | str``, a union of types, or ``billing | other``, of which the value is one."""
    parts = [part.strip() for part in text.split(_BAR)]
    types = [part for part in parts if part in TYPE_WORDS or part in NULL_WORDS]
    if "" in parts:
        raise _TypeFieldError(path, f"{label} has a '{_BAR}' with nothing beside it.", f"Remove it. {_SHOWN}")
    if marked := next((part for part in parts if part.endswith("?")), None):
        raise _TypeFieldError(path, f"{label} has a '?' behind {_quote(marked)}, and it belongs behind the last word.")
    if repeated := next((part for part in parts if parts.count(part) > 1), None):
        raise _TypeFieldError(path, f"{label} has {_quote(repeated)} twice.", "Remove one of them.")
    if types and len(types) < len(parts):
        others = [part for part in parts if part not in types]
        message = f"{label} mixes types ({_join(types)}) and words ({_join(others)})."
        close = next(filter(None, map(_suggest, others)), "")
        hint = "Of words alone it is one of them, of types alone any of them."
        raise _TypeFieldError(path, message + close, hint)
    if types:
        kinds = ["null" if name in NULL_WORDS else TYPE_WORDS[name] for name in types]
        kinds += ["null"] if is_optional else []
        return {} if None in kinds else {"type": list(dict.fromkeys(kinds))}  # `any` among them allows everything
    words = parts if is_verbatim else [_read_word(part, path) for part in parts]
    kind: dict[str, Any] = {}
    if all(isinstance(word, str) for word in words):  # native schemas of some servers want a type beside an enum
        kind = {"type": ["string", "null"] if is_optional else "string"}
    return {**kind, "enum": [*words, None] if is_optional else words}


def _read_word(text: str, path: Path) -> Any:
    """Read one of the words as YAML does where it stands alone: ``1 | 2`` are numbers, not texts."""
    try:
        return read_plain_value(text)
    except PlainValueError as error:
        raise _TypeFieldError(path, str(error), error.hint) from None


def _suggest(word: str) -> str:
    close = find_nearest(word, TYPE_WORDS) if len(word) <= _LONGEST_WORD else None
    return "" if close is None else f" Did you mean {close!r}?"


def _quote(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return repr(text if len(text) <= _LONGEST_QUOTED else text[: _LONGEST_QUOTED - 3] + "...")


def _join(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


# --- Fields of typed outputs by their paths, such as ``address.city`` -------------------------------------------------
#
# Finds out before a run whether an output type has such a field, and reads it from a value after one. Imports no
# pydantic: what is not loaded has no models.


_SCALARS: Final = (str, int, float, bool, Enum)
_ANYTHING: Final = object()
"""The type of a field of which nothing is known."""


def find_field_fault(output_type: Any, path: str, root: Any = None) -> str | None:
    """Find why values of an output type can have no field of this path, as a sentence; None where they can.

    `root` is the whole output type, where `output_type` is a part of it: a schema refers to its own whole.
    """
    found = _follow_path(output_type, path, output_type if root is None else root)
    return found if isinstance(found, str) else None


def _follow_path(output_type: Any, path: str, root: Any) -> list[Any] | str:
    """Find the types that the field of this path may have; where there is no such field, why not."""
    found: list[Any] = [output_type]
    walked: list[str] = []
    for part in path.split("."):
        owner = f"field {'.'.join(walked)!r}" if walked else "output type"
        branches = [fields for each in found for fields in _list_fields(each, root)]
        if not branches:
            return f"its {owner} has no fields of its own."
        if _ANYTHING in branches:
            return [_ANYTHING]
        if not (found := [fields[part] for fields in branches if part in fields]):
            known = {name for fields in branches for name in fields}
            return f"its {owner} has no field {part!r}.{did_you_mean(part, sorted(known))}"
        walked.append(part)
    return found


class FieldKind(Enum):
    """What a field can be, where its values can't be listed; the value is how people call it."""

    TEXT = "a text"
    NUMBER = "a number"
    LIST = "a list"


_KIND_OF: Final = {str: FieldKind.TEXT, float: FieldKind.NUMBER, int: FieldKind.NUMBER} | dict.fromkeys(
    (list, tuple, AbstractSet, Sequence), FieldKind.LIST
)
_SCHEMA_VALUES: Final[Mapping[Any, tuple[Any, ...]]] = {
    "boolean": (True, False),
    "string": (FieldKind.TEXT,),
    "number": (FieldKind.NUMBER,),
    "integer": (FieldKind.NUMBER,),
    "array": (FieldKind.LIST,),
    "null": (),
}
_MOST_WORDS: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class FieldValues:
    """What a field of a typed output can be, as JSON has it.

    Attributes:
        words: single values, such as the words of an enum; of a bool True and False.
        kinds: what else it can be.
    """

    words: tuple[str | int | float | bool, ...]
    kinds: tuple[FieldKind, ...]

    def describe(self) -> str:
        """``'praise', 'blame' or a number``; of many words the first."""
        shown = [*(repr(each) for each in self.words[:_MOST_WORDS]), *(each.value for each in self.kinds)]
        if len(self.words) > _MOST_WORDS:
            return f"{', '.join(shown)}, ..."
        return " or ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def find_field_values(output_type: Any, path: str) -> FieldValues | None:
    """Find what the field of this path can be; None where that is not known, or there is no such field."""
    found = _follow_path(output_type, path, output_type)
    if isinstance(found, str):
        return None
    values = [each for kind in found for single in _list_singles(kind, output_type) for each in _list_values(single)]
    if _ANYTHING in values or not values:
        return None
    kinds = {each: None for each in values if isinstance(each, FieldKind)}
    return FieldValues(tuple(each for each in values if not isinstance(each, FieldKind)), tuple(kinds))


def _list_singles(kind: Any, root: Any) -> list[Any]:
    """The single types that a type allows: those of a union, the one that is annotated or that a schema refers to."""
    if isinstance(kind, Mapping):
        kind = _follow_reference(kind, root)
        inside = [each for word in ("anyOf", "oneOf") for each in kind.get(word, ()) if isinstance(each, Mapping)]
    else:
        origin, inside = typing.get_origin(kind), [*typing.get_args(kind)]
        if origin not in (typing.Union, types.UnionType):
            inside = inside[:1] if origin is typing.Annotated else []
    return [single for each in inside for single in _list_singles(each, root)] if inside else [kind]


def _list_values(kind: Any) -> list[Any]:
    """List what a single type allows, single values and kinds of them; null is left out.

    `_ANYTHING` stands for what is not known, or has fields of its own.
    """
    if isinstance(kind, Mapping):
        if "enum" in kind or "const" in kind:
            return [each for each in kind.get("enum", [kind.get("const")]) if each is not None]
        words = kind.get("type")
        words = words if isinstance(words, list) else [words]
        return [each for word in words for each in _SCHEMA_VALUES.get(word, (_ANYTHING,))]
    if typing.get_origin(kind) is typing.Literal:
        return [_to_scalar(each) for each in typing.get_args(kind) if each is not None]
    kind = typing.get_origin(kind) or kind
    if not isinstance(kind, type):
        return [_ANYTHING]
    if issubclass(kind, Enum):
        return [_ANYTHING] if issubclass(kind, Flag) else [_to_scalar(each) for each in kind]
    if issubclass(kind, bool):
        return [True, False]
    if kind is type(None):
        return []
    return [next((_KIND_OF[base] for base in _KIND_OF if issubclass(kind, base)), _ANYTHING)]


def find_list_fields(output_type: Any) -> dict[str, Any] | None:
    """Find the fields of an output type that hold lists, with the type of their items; None where that is not known."""
    found: dict[str, Any] = {}
    for fields in _list_fields(output_type, output_type):
        if fields is _ANYTHING:
            return None
        for name, kind in fields.items():
            if (items := _find_item_type(kind, output_type)) is not None:
                found[name] = items
    return found


def _find_item_type(kind: Any, root: Any) -> Any:
    """Find the type of the items of a list; None for what is no list."""
    for each in (_follow_reference(kind, root) if isinstance(kind, Mapping) else kind, *_list_singles(kind, root)):
        if isinstance(each, Mapping):
            if each.get("type") == "array" or (isinstance(each.get("type"), list) and "array" in each["type"]):
                items = each.get("items")
                return items if isinstance(items, Mapping) else _ANYTHING
        elif each in (list, tuple) or typing.get_origin(each) in (list, tuple, Sequence):
            return next(iter(typing.get_args(each)), _ANYTHING)
    return None


def find_part(value: Any, path: str) -> Any:
    """Find what stands at a path of a mapping, a record, or any object with attributes.

    Raises:
        LookupError: nothing does; the message is a sentence.
    """
    walked: list[str] = []
    for part in path.split("."):
        if value is None:
            where = f"its field {'.'.join(walked)!r} is null" if walked else "it has no typed output"
            raise LookupError(f"There is no field {path!r}: {where}.")
        fields = get_parts(value)
        if part not in fields:
            where = f" in {'.'.join(walked)!r}" if walked else ""
            raise LookupError(f"There is no field {part!r}{where}.{did_you_mean(part, map(str, fields))}")
        value = fields[part]
        walked.append(part)
    return value


def read_field(value: Any, path: str) -> Any:
    """Read a value as JSON has it: a text, a number, True or False, a list of these, or None.

    Raises:
        LookupError: there is no such field, or it holds fields in place of a value; the message is a sentence.
    """
    value = find_part(value, path)
    if isinstance(value, list | tuple | AbstractSet):
        return [_to_scalar(each) for each in value]
    if isinstance(value, Mapping) or dataclasses.is_dataclass(value) or hasattr(type(value), "model_fields"):
        raise LookupError(f"The field {path!r} has fields of its own; a condition looks at one value.")
    return _to_scalar(value)


def is_same_scalar(first: object, second: object) -> bool:
    """Whether two values are the same in JSON: 1 is 1.0, and neither is true, nor the text of itself."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, str) and isinstance(second, str):
        return first.strip() == second.strip()
    return first == second


def to_scalar_text(value: object) -> str:
    """The text of a value as JSON writes it; a text without its quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _to_scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, _SCALARS):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def get_parts(value: Any) -> Mapping[str, Any]:
    """Get what a value has by name: the pairs of a mapping, the fields of a record, else its public attributes."""
    if isinstance(value, Mapping):
        return value
    if not hasattr(value, "__dict__") and not dataclasses.is_dataclass(value):
        return {}
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else None
    names = list(getattr(type(value), "model_fields", None) or vars(value)) if names is None else names
    return {name: getattr(value, name) for name in names if not name.startswith("_") and hasattr(value, name)}


def _list_fields(kind: Any, root: Any) -> list[Any]:
    """List the fields of each form that a type allows; `_ANYTHING` for one that is not known, none for a scalar."""
    return [fields for each in _list_singles(kind, root) if (fields := _get_own_fields(each)) is not None]


def _get_own_fields(kind: Any) -> Any:
    if isinstance(kind, Mapping):  # of which the reference, where one is left, leads to another document
        properties, word = kind.get("properties"), kind.get("type")
        is_open = kind.get("additionalProperties") or "allOf" in kind or "$ref" in kind
        if isinstance(properties, Mapping) and not is_open:
            return dict(properties)
        is_scalar = "enum" in kind or (
            word is not None and "object" not in (word if isinstance(word, list) else [word])
        )
        return None if is_scalar and "$ref" not in kind else _ANYTHING
    if isinstance(kind, type) and issubclass(kind, (*_SCALARS, type(None), list, tuple, AbstractSet)):
        return None
    if typing.get_origin(kind) in (list, tuple, set, frozenset, typing.Literal):
        return None
    if isinstance(models := getattr(kind, "model_fields", None), Mapping):
        return {name: each.annotation for name, each in models.items()}
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        with suppress(Exception):  # a type that only type checkers know
            return typing.get_type_hints(kind)
    return _ANYTHING


def _follow_reference(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any]:
    """The part of the whole that a JSON schema refers to; itself where it is none, or refers elsewhere."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    found = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) and "$ref" not in found else schema
