"""Pickles of our objects: complete in what happened, without models, tools, functions and secrets (E63, E69).

An object packs itself and all that belongs to it into one string of bytes. Texts are masked on the way. What is foreign
is packed by itself, so that what can't be pickled, or can't be found where it is unpickled, leaves its description and
breaks nothing else.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self
from uuid import UUID

from ensemble_notebook.errors.base import (
    AbsentObjectError,
    EnsembleError,
    RunInterrupted,
    SuggestsNames,
    make_readable,
    mask_text,
    register_reducer,
)
from ensemble_notebook.errors.http_status import read_http_status
from ensemble_notebook.errors.origin import find_origin
from ensemble_notebook.errors.recorded_errors import RecordedError, make_recorded_error


class DescribedObject:
    """A model, tool or function as a ``repr`` shows it.

    Attributes:
        kind: what it is, such as ``"model"`` or ``"handler"``.
        description: its name, secrets masked.
    """

    __slots__ = ("description", "kind")

    def __init__(self, kind: str, description: str) -> None:
        self.kind = kind
        self.description = description

    def __repr__(self) -> str:
        """Kind and name."""
        return f"<{self.kind} {self.description}>"


class AbsentObject(DescribedObject):
    """Something that was not pickled: it may hold keys or connections, or may not exist where the pickle goes."""

    __slots__ = ()

    @property
    def __name__(self) -> str:
        """The name of a function or tool, for views."""
        return self.description

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """It can't be called.

        Raises:
            AbsentObjectError: always.
        """
        raise self.make_error()

    def __getattr__(self, name: str) -> NoReturn:
        """It has nothing else.

        Raises:
            AbsentObjectError: always; an `AttributeError`, so that ``hasattr`` says no.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.make_error()

    def __eq__(self, other: object) -> bool:
        """Equal by what they say."""
        return isinstance(other, AbsentObject) and (self.kind, self.description) == (other.kind, other.description)

    def __hash__(self) -> int:
        """As equality."""
        return hash((self.kind, self.description))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as it is."""
        return AbsentObject, (self.kind, self.description)

    def __repr__(self) -> str:
        """What it was."""
        return f"<{self.kind} {self.description}, not in the pickle>"

    def make_error(self) -> AbsentObjectError:
        """What is to be told to whoever asks for the object itself."""
        return AbsentObjectError(
            f"The {self.kind} {self.description} is not here: this object comes from a pickle, which keeps only a "
            f"description of models, tools and functions. Use the object that was pickled, or put the {self.kind} in "
            f"again with dataclasses.replace()."
        )


def describe_object(value: Any) -> str:
    """The name of a model, tool or function, secrets masked; never its ``repr``, which may hold anything."""
    kind = type(value).__name__
    for attribute in ("__qualname__", "__name__", "name", "model_name", "model"):
        try:
            name = getattr(value, attribute, None)
        except Exception:  # noqa: BLE001 - a foreign property
            continue
        if isinstance(name, str) and name:
            return make_readable(name if attribute.startswith("__") else f"{name} ({kind})")
    return make_readable(kind)


_PROTOCOL: Final = pickle.HIGHEST_PROTOCOL
_OURS: Final = __name__.partition(".")[0]
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None), date, time, timedelta, tzinfo, Decimal, UUID)
_DATA: Final = (*_PLAIN, PurePath, Enum, re.Pattern)
_CONTAINERS: Final = (BaseException, list, tuple, dict)


class Pickled(SuggestsNames):
    """The base of what packs itself. Copies are as ever: they keep what a pickle leaves out."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """One string of bytes, whatever pickles it."""
        return reduce_packed(self)

    def _get_pickled_state(self) -> dict[str, Any]:
        """What goes into a pickle, by attribute."""
        return get_state(self)

    def __copy__(self) -> Self:
        """Another object with the same attributes."""
        blank: Self = make_blank(type(self))
        set_state(blank, get_state(self))
        return blank

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Another object with copies of the attributes."""
        blank: Self = make_blank(type(self))
        memo[id(self)] = blank
        set_state(blank, {name: _deep_copy(value, memo) for name, value in get_state(self).items()})
        return blank


def _deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, MappingProxyType):
        return MappingProxyType(copy.deepcopy(dict(value), memo))
    return copy.deepcopy(value, memo)


def get_state(value: Any) -> dict[str, Any]:
    """The attributes of an object, in slots or not, without those that are set once they are asked for."""
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return {name: getattr(value, name) for name in names if hasattr(value, name)} | getattr(value, "__dict__", {})


def make_blank(kind: type) -> Any:
    """An object without its constructor: what was pickled had been checked."""
    return object.__new__(kind)


def make_view(values: dict[Any, Any]) -> Mapping[Any, Any]:
    """A read-only view, which pickle knows nothing of."""
    return MappingProxyType(values)


def set_state(value: Any, state: Mapping[str, Any]) -> Any:
    """Give an object its attributes, frozen or not."""
    for name, each in state.items():
        try:
            object.__setattr__(value, name, each)
        except AttributeError:  # a slot that an earlier version has pickled under a public name
            object.__setattr__(value, f"_{name}", each)
    return value


def describe_parts(kind: str, value: Any, mark: Callable[[str, str], Any] = AbsentObject) -> Any:
    """A value of a definition; in place of each model, tool or function a mark of this kind, with its name."""
    if isinstance(value, (*_DATA, Pickled, AbsentObject, type)):
        return value
    if isinstance(value, Mapping):
        return {name: describe_parts(kind, each, mark) for name, each in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return type(value)([describe_parts(kind, each, mark) for each in value])
    if type(value).__module__.partition(".")[0] == _OURS and not callable(value) and not hasattr(value, "ainvoke"):
        return value
    return mark(kind, describe_object(value))


def pack(value: Any) -> bytes:
    """An object of ours, and all that belongs to it, as bytes."""
    return _dump(value, _Pickler)


def reduce_packed(value: Any) -> tuple[Any, ...]:
    """How pickle is told of an object that packs itself."""
    return unpack, (pack(value),)


def unpack(packed: bytes | bytearray) -> Any:
    """What was packed."""
    return _Unpickler(io.BytesIO(packed)).load()


def _dump(value: Any, kind: type[_TextPickler]) -> bytes:
    buffer = io.BytesIO()
    kind(buffer, protocol=_PROTOCOL).dump(value)
    return buffer.getvalue()


class _TextPickler(pickle.Pickler):
    """Masks texts. What a persistent id stands for is itself."""

    def persistent_id(self, value: Any) -> Any:
        if type(value) is str:
            masked: Any = mask_text(value)
        elif type(value) is bytes:
            masked = mask_text(value.decode("latin-1")).encode("latin-1")
        else:
            return None
        return None if masked == value else (masked,)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return pid[0]


class _Pickler(_TextPickler):
    """Knows what is ours, what is plain data, and packs everything else by itself."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type):
            root = value.__module__.partition(".")[0]
            is_known = root in (_OURS, *sys.stdlib_module_names) and value.__module__ != "__main__"
            if is_known and "<locals>" not in value.__qualname__:
                return NotImplemented
            return find_class, (value.__module__, value.__qualname__)
        if isinstance(value, BaseException):
            return _reduce_error(value)
        if isinstance(value, Pickled):
            return make_blank, (type(value),), value._get_pickled_state(), None, None, set_state
        if isinstance(value, MappingProxyType):
            return make_view, (dict(value),)
        module = getattr(value, "__module__", None) if callable(value) else type(value).__module__
        if isinstance(value, (*_DATA, frozenset)) or str(module).partition(".")[0] in (_OURS, "copyreg", "_codecs"):
            return NotImplemented
        return _reduce_foreign(value)


def find_class(module: str, name: str) -> Any:
    """The class of this name, or its description where it can't be found."""
    found: Any = sys.modules.get(module)
    try:
        if found is None:
            found = __import__(module, fromlist=["_"])
        for each in name.split("."):
            found = getattr(found, each)
    except (ImportError, AttributeError):
        return AbsentObject("type", name)
    return found if isinstance(found, type) else AbsentObject("type", name)


def _reduce_foreign(value: Any) -> Any:
    described = describe_object(value)
    try:
        packed = bytearray(_dump(value, _TextPickler))
        unpack(packed)
    except Exception:  # noqa: BLE001 - whatever a foreign object raises when it is pickled, or made again
        return AbsentObject, ("object", described)
    return unpack_foreign, (packed, described)


def unpack_foreign(packed: bytearray, described: str) -> Any:
    """A foreign object, or its description where its class can't be found."""
    try:
        return unpack(packed)
    except Exception:  # noqa: BLE001 - another version of a foreign library, or none
        return AbsentObject("object", described)


def _reduce_error(error: BaseException) -> Any:
    links: dict[str, Any] = {"__cause__": error.__cause__, "__suppress_context__": error.__suppress_context__}
    if (notes := getattr(error, "__notes__", None)) is not None:
        links["__notes__"] = list(notes)
    kind, text, origin = type(error), _text_of(error), find_origin(error)
    if origin is not None:
        links["origin"] = origin
    if (status := read_http_status(error)) is not None:  # the response that it is read from is left out
        links["http_status"] = status
    made: tuple[Any, ...]
    if isinstance(error, EnsembleError | RunInterrupted):
        made, facts = (make_error, (kind.__module__, kind.__qualname__, error.args, text)), dict(vars(error))
    else:
        args = tuple(each if isinstance(each, (*_PLAIN, *_CONTAINERS)) else _text_of(each) for each in error.args)
        facts = {name: each for name, each in vars(error).items() if isinstance(each, _PLAIN)}
        made = (make_error, (kind.__module__, kind.__qualname__, args, text))
        again = make_error(*made[1])
        set_error_state(again, facts)
        if isinstance(error, RecordedError) or type(again) is not kind or _text_of(again) != text:
            made, facts = (make_recorded_error, (kind.__name__, text)), {}
    return *made, facts | links, None, None, set_error_state


def make_error(module: str, name: str, args: tuple[Any, ...], text: str) -> BaseException:
    """An error without its constructor, which may take anything; a stand-in where its class is not here."""
    kind = find_class(module, name)
    try:
        error: BaseException = kind.__new__(kind, *args)
        error.args = args
    except Exception:  # noqa: BLE001 - a foreign class, or none
        return make_recorded_error(name.rpartition(".")[2], text)
    return error


def set_error_state(error: BaseException, state: dict[str, Any]) -> None:
    """Give an error what it knew, and what it was raised from."""
    for name, value in state.items():
        try:
            setattr(error, name, value)
        except Exception:  # noqa: BLE001 - a foreign class may have read-only attributes
            continue


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a broken text of a foreign object
        return type(value).__name__


register_reducer(reduce_packed)
