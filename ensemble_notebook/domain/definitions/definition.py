"""The form of a definition: keyword-only, frozen, slotted, and strict about the names of its fields.

Knows no particular definition; `agent`, `task`, `phase` and `ensemble` are written with it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast, dataclass_transform, overload

from ensemble_notebook.domain.definitions.amounts import AmountError, read_history
from ensemble_notebook.domain.definitions.run_context import find_foreign_context
from ensemble_notebook.domain.outputs.secrets import mask_repr
from ensemble_notebook.domain.value_text import find_data_url_fault, mend_text
from ensemble_notebook.errors import (
    DescribedObject,
    Pickled,
    Problem,
    ValidationError,
    describe_parts,
    did_you_mean,
    find_nearest,
)

D = TypeVar("D")
P = TypeVar("P", bound="Definition")
E = TypeVar("E", bound=Enum)
Kept = TypeVar("Kept", covariant=True)
Given = TypeVar("Given", contravariant=True)

PlainValue = str | int | float | bool
TextReader = Callable[[str], Mapping[str, Any]]
_SHOW: Final = "show"
_LONGEST_SHOWN: Final = 60
# The fields that hold models, tools, functions and other live objects, and what they are called.
_LIVE: Final = {
    "llm": "model",
    "manager_llm": "model",
    "tool": "tool",
    "tools": "tool",
    "handler": "handler",
    "input_guardrails": "guardrail",
    "output_guardrails": "guardrail",
    "predicate": "predicate",
    "listeners": "listener",
    "review_handler": "review handler",
    "delegation_policies": "policy",
    "manager_prompt": "manager prompt",
    "trace_exporter": "exporter",
    "memory": "memory",
    "deps": "object",
}


class Converted(Generic[Kept, Given]):
    """The type of a field that is given in one form and kept in another: ``Converted[Workflow, Workflow | str]``.

    For type checkers alone. They take the parameter of the constructor from ``__set__`` and the attribute from
    ``__get__``, as the specification of dataclasses has it for descriptors; ``__post_init__`` does the conversion. At
    run time such a field is like any other, and needs `converted` for its default.
    """

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Kept: ...
        def __get__(self, instance: object, owner: type) -> Any: ...

        def __set__(self, instance: object, value: Given) -> None: ...


def converted(*, default: Any, kw_only: bool = True, metadata: Mapping[str, Any] | None = None) -> Any:
    """A field with a default whose type is `Converted`; type checkers hold ``dataclasses.field`` to its default's."""
    return field(default=default, kw_only=kw_only, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, converted))
def definition(cls: type[D]) -> type[D]:
    """Make `cls` a frozen, slotted, keyword-only dataclass that is identified by identity.

    Its constructor answers unknown and missing field names with a `ValidationError` that names the right one.
    A field is taken by position, too, when it is declared as ``field(kw_only=False)``.
    """
    # Weakly referable, so that what the engine counts for a definition goes with it.
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True, repr=False)(cls)
    mask_repr(made)
    init: Callable[..., None] = made.__init__
    places = [each.name for each in fields(made) if not each.kw_only]

    @functools.wraps(init)
    def checked(self: Any, /, *args: Any, **values: Any) -> None:
        placed = dict(zip(places, args, strict=False))
        values = type(self)._complete_fields(values)
        if problems := find_field_problems(made, args[len(placed) :], values, placed):
            raise ValidationError(problems)
        init(self, **placed, **values)

    made.__init__ = checked
    result: type[D] = made
    return result


def get_field_names(cls: type) -> tuple[str, ...]:
    """Get the names of the fields that the constructor of a definition takes, in order."""
    return _read_field_names(cls)[0]


@functools.cache
def _read_field_names(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the fields that the constructor takes, and of those without a default."""
    given = [each for each in fields(cls) if each.init]
    required = (each.name for each in given if each.default is each.default_factory is MISSING)
    return tuple(each.name for each in given), tuple(required)


def find_field_problems(
    cls: Any, extra: Sequence[Any], values: Mapping[str, Any], placed: Mapping[str, Any]
) -> list[Problem]:
    """Find what is wrong with the names of the arguments of a definition.

    Args:
        cls: the definition.
        extra: arguments by position that have no place.
        values: arguments by name.
        placed: arguments by position, under the names of their fields.
    """
    owner, (known, required) = get_label(cls), _read_field_names(cls)
    problems = []
    if extra:  # what it was meant for can't be told, so nothing is said about missing fields
        first = next((name for name in known if name not in placed), known[0])
        message = f"{owner} takes keyword arguments only: {', '.join(known[:3])}, ... Write {owner}({first}=...)."
        return [Problem(message, cls)]
    for name in values:
        if name in placed:
            problems.append(Problem(f"{owner} got {name} twice, by position and by name.", cls, name))
        elif name not in known:
            problems.append(Problem(f"{owner} has no field {name!r}.{did_you_mean(name, known)}", cls, name))
    meant = {near: value for name, value in values.items() if name not in known and (near := find_nearest(name, known))}
    given = {*cls._complete_fields({**meant, **values}), *placed}
    missing = [name for name in required if name not in given]
    problems += [Problem(f"{owner} needs {'an' if name[0] in 'aeiou' else 'a'} {name}.", cls, name) for name in missing]
    return problems


def shown(to_plain: Callable[[Any], PlainValue] = lambda value: value) -> Mapping[str, Any]:
    """The metadata of a field that is one of the settings of its definition, as every view shows them.

    Args:
        to_plain: makes a text, a number or a boolean of a value; without it, the value is one.
    """
    return {_SHOW: to_plain}


def read_settings(definition: Definition) -> dict[str, PlainValue]:
    """Read the settings that differ from their defaults, by field, in the order of the definition.

    Plan, trace and timeline carry them as they are, so that a field shows in all of them once it is `shown`.
    """
    kind: Any = type(definition)
    names, defaults, get_values = _read_fields(kind, are_shown=True)
    settings = {}
    for name, default, value in zip(names, defaults, get_values(definition), strict=True):
        if value is not default and value not in (None, (), default):
            settings[name] = kind.__dataclass_fields__[name].metadata[_SHOW](value)
    return settings


def list_given(definition: Definition) -> list[tuple[str, Any]]:
    """List the fields that are neither None nor the very object that is their default, with their values, in order."""
    kind: Any = type(definition)
    names, defaults, get_values = _read_fields(kind)
    return [
        (name, value)
        for name, default, value in zip(names, defaults, get_values(definition), strict=True)
        if value is not default and value is not None
    ]


@functools.cache
def _read_fields(
    cls: type, *, are_shown: bool = False
) -> tuple[tuple[str, ...], tuple[Any, ...], Callable[[Any], tuple[Any, ...]]]:
    """Names and defaults of all fields, or of the settings, and a function that gets their values.

    Kept for each class, since it is asked for each task of each run.
    """
    every = [each for each in fields(cast("Any", cls)) if not are_shown or _SHOW in each.metadata]
    names = tuple(each.name for each in every)
    # That of `operator` is quick, and gives no tuple for one name.
    get_one = lambda owner: tuple(getattr(owner, name) for name in names)  # noqa: E731
    return names, tuple(each.default for each in every), operator.attrgetter(*names) if len(names) > 1 else get_one


def get_label(cls: type) -> str:
    """Say what people call a definition: an ``EnsembleDefinition`` is an ensemble."""
    return cls.__name__.removesuffix("Definition")


def show_value(value: object) -> str:
    """Show a value in a message: texts and numbers as they are, cut where they are long, all else by its type."""
    if not isinstance(value, str | int | float):
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def is_seconds(value: object) -> bool:
    """True for a duration: a finite number of seconds > 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


class Definition(Pickled):
    """Building blocks for ``__post_init__``: each takes a field's name, checks it, and may set the clean value."""

    __slots__ = ()

    def _get_pickled_state(self) -> dict[str, Any]:
        """The fields; models, tools and functions are described."""
        state = super()._get_pickled_state()
        return state | {name: describe_parts(word, state[name]) for name, word in _LIVE.items() if name in state}

    @classmethod
    def _complete_fields(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Add to the arguments of the constructor what follows from others, where they leave it out."""
        return values

    def replace(self, **changes: Any) -> Self:
        """Make a copy with other values of some fields: ``task.replace(timeout=30)``.

        Args:
            **changes: fields, in any form that the constructor takes.

        Raises:
            ValidationError: a field has a wrong value, or does not exist; names the nearest one.
        """
        made: Self = dataclasses.replace(cast("Any", self), **changes)
        return made

    def with_texts(self, **texts: str) -> Self:
        """The same with other texts, which are not checked; quicker where thousands are alike."""
        kind: Any = type(self)
        made: Self = object.__new__(kind)
        names, _, get_values = _read_fields(kind)
        for name, value in zip(names, get_values(self), strict=True):
            object.__setattr__(made, name, texts.get(name, value))
        return made

    def __repr__(self) -> str:
        """The fields that differ from their defaults; models, tools and functions by name."""
        shown = []
        for each in fields(cast("Any", self)):
            value = getattr(self, each.name)
            is_default = type(value) is type(each.default) and value == each.default  # a pickle has its own 300.0
            if is_default or value == ():
                continue
            value = describe_parts(_LIVE[each.name], value, DescribedObject) if each.name in _LIVE else value
            shown.append(f"{each.name}={dict(value) if isinstance(value, MappingProxyType) else value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def _label(self) -> str:
        return get_label(type(self))

    def _refuse(self, field: str, message: str, item: int | str | None = None) -> ValidationError:
        return ValidationError(Problem(message, self, field, item))

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _require_text(self, field: str, *, may_be_blank: bool = False) -> None:
        value = getattr(self, field)
        label = f"{self._label} {field}"
        if not isinstance(value, str):
            raise self._refuse(field, f"{label} must be text, got {type(value).__name__}.")
        if not value.strip() and not may_be_blank:
            raise self._refuse(field, f"{label} must not be blank.")
        if fault := find_data_url_fault(value):
            raise self._refuse(field, f"{label} {fault}")

    def _check_optional_text(self, field: str) -> None:
        if getattr(self, field) is not None:
            self._require_text(field, may_be_blank=True)

    def _require_whole_characters(self, field: str, name: str | None, item: int | None = None) -> None:
        """Refuse a name that no file can hold; texts are mended, and a name is what others find it by."""
        if name is not None and mend_text(name) != name:
            message = f"{self._label} {field} holds half of a character (a lone surrogate). Write the character itself."
            raise self._refuse(field, message, item=item)

    def _require_bool(self, field: str) -> None:
        value = getattr(self, field)
        if not isinstance(value, bool):
            raise self._refuse(field, f"{self._label} {field} must be True or False, got {value!r}.")

    def _require_integer(self, field: str, *, least: int) -> None:
        value = getattr(self, field)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._refuse(field, f"{self._label} {field} must be a whole number >= {least}, got {value!r}.")

    def _check_optional_seconds(self, field: str) -> None:
        value = getattr(self, field)
        if value is not None and not is_seconds(value):
            raise self._refuse(field, f"{self._label} {field} must be seconds > 0 or None, got {value!r}.")

    def _check_history(self) -> None:
        """The field `history` is None, or says how much of an earlier conversation is sent."""
        value: Any = getattr(self, "history")  # noqa: B009 - the base of all definitions has none
        if value is None:
            return
        try:
            if not isinstance(value, str):
                raise AmountError(f"it is a text, got {type(value).__name__}.", "Write '20 turns' or '8k tokens'.")
            read_history(value)
        except AmountError as error:
            raise self._refuse("history", f"{self._label} history: {error} {error.hint}") from None

    def _make_tuple(self, field: str, *single: type) -> None:
        """Copy a sequence to a tuple; an object of the `single` types stands for a list of one (C6a)."""
        value = getattr(self, field)
        if type(value) is tuple:  # most are, by default; the question below takes long
            return
        if single and isinstance(value, single):
            self._set(field, (value,))
            return
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self._refuse(field, f"{self._label} {field} must be a list or tuple, got {type(value).__name__}.")
        self._set(field, tuple(value))

    def _make_part(self, field: str, kind: type[P], example: str, read: TextReader | None = None) -> None:
        """Accept None, or a part in any of the forms that `_to_part` takes."""
        value = getattr(self, field)
        if value is not None:
            self._set(field, self._to_part(field, value, kind, example, read))

    def _to_part(
        self,
        field: str,
        value: Any,
        kind: type[P],
        example: str,
        read: TextReader | None = None,
        item: int | None = None,
    ) -> P:
        """Make a part of what it may be given as: itself, a mapping of its fields, or a text that `read` makes one of.

        `example` says in a message what may stand there.
        """
        if isinstance(value, kind):
            return value
        try:
            if isinstance(value, str) and read is not None:
                value = read(value)
            if isinstance(value, Mapping):
                return kind(**{str(name): each for name, each in value.items()})
        except AmountError as error:
            raise self._refuse(field, f"{self._label} {field}: {error} {error.hint}", item) from None
        except ValidationError as error:
            problems = [Problem(f"{self._label} {field}: {each.message}", self, field, item) for each in error.problems]
            raise ValidationError(problems) from None
        raise self._refuse(field, f"{self._label} {field} must be {example}, got {show_value(value)}.", item)

    def _check_optional_function(self, field: str, example: str) -> None:
        """The field is None or can be called, as in `example`."""
        value = getattr(self, field)
        if value is not None and (not callable(value) or isinstance(value, type)):
            raise self._refuse(field, f"{self._label} {field} must be a function {example}, got {value!r}.")
        if value is not None:
            self._refuse_foreign_context(field, value)

    def _make_functions(self, field: str, example: str) -> None:
        """Check that each entry can be called, as in `example`; a single function becomes a tuple of one."""
        value = getattr(self, field)
        self._set(field, (value,) if callable(value) else value)
        self._make_tuple(field)
        for index, each in enumerate(getattr(self, field)):
            if not callable(each) or isinstance(each, type):
                message = f"{self._label} {field}[{index}] must be a function {example}, got {each!r}."
                raise self._refuse(field, message, item=index)
            self._refuse_foreign_context(field, each, index)

    def _refuse_foreign_context(self, field: str, function: Any, item: int | None = None) -> None:
        """Refuse a function that wants the `RunContext` of another package, such as pydantic-ai's."""
        if fault := find_foreign_context(function):
            name = getattr(function, "__name__", type(function).__name__)
            raise self._refuse(field, f"{self._label} {field}: {name} {fault}", item)

    def _make_enum(self, field: str, kind: type[E]) -> None:
        """Accept a member or its name in any case; name the nearest one otherwise."""
        value = getattr(self, field)
        if isinstance(value, kind):
            return
        names = [str(member.value) for member in kind]
        if isinstance(value, str) and value.lower() in names:
            self._set(field, kind(value.lower()))
        else:
            raise self._refuse(field, f"{self._label} {field} can't be {value!r}.{did_you_mean(str(value), names)}")
