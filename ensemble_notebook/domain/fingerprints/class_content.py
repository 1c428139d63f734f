"""The content of a class: its bases, its methods, the values and types of its fields."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Iterator, Mapping
from functools import cached_property, partialmethod
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.code_content import hide_key
from ensemble_notebook.domain.fingerprints.code_origin import find_by_name, find_version, is_installed
from ensemble_notebook.domain.fingerprints.content import Child, Content, encode_name

METHODS: Final = (FunctionType, classmethod, staticmethod, property, cached_property, partialmethod)
# What a field of pydantic tells a model, or does to a value.
_FIELD_FACTS: Final = ("annotation", "default", "default_factory", "alias", "title", "description", "metadata")
_MADE_BY_DATACLASSES: Final = "<string>"


def describe_class(cls: type) -> Content:
    """Describe a class: one of a package by name and version, any other by its content."""
    if is_installed(cls.__module__) and find_by_name(cls.__module__, cls.__qualname__) is cls:
        return Content(encode_name("class", cls.__module__, cls.__qualname__, find_version(cls.__module__)))
    children: list[Child] = [("", each) for each in (type(cls), *cls.__bases__)]
    if issubclass(cls, enum.Enum):
        children += [("", {name: each.value for name, each in cls.__members__.items()})]
    else:
        children += _list_values(cls)
    children += _list_methods(cls)
    doc = cls.__doc__ or ""
    if doc.startswith(f"{cls.__name__}("):  # the signature, as dataclasses write it: with the addresses of defaults
        doc = ""
    return Content(encode_name("class", cls.__name__, inspect.cleandoc(doc)), children, is_code=True)


def list_pydantic_fields(cls: type) -> Mapping[str, Any]:
    """List the fields of a pydantic model; none of any other class."""
    if not callable(getattr(cls, "model_validate", None)):
        return {}
    fields = getattr(cls, "__pydantic_fields__", None) or getattr(cls, "model_fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _list_methods(cls: type) -> Iterator[Child]:
    is_dataclass = "__dataclass_fields__" in vars(cls)
    for name, value in sorted(vars(cls).items()):
        if isinstance(value, METHODS):
            file = value.__code__.co_filename if isinstance(value, FunctionType) else ""
            if not (is_dataclass and file == _MADE_BY_DATACLASSES):
                yield name, value


def _list_values(cls: type) -> Iterator[Child]:
    """The attributes of the class beside methods: plain values, and fields with their types and defaults."""
    fields = list_pydantic_fields(cls)
    for name, value in sorted(vars(cls).items()):
        is_machinery = name.startswith("_abc_") or (name.startswith("__") and name.endswith("__"))
        if not (is_machinery or name in fields or isinstance(value, METHODS)) and not _is_slot(value):
            yield f".{name}", hide_key(value)
    for name, field in sorted(fields.items()):
        yield f".{name}", {fact: getattr(field, fact, None) for fact in _FIELD_FACTS}
        yield f".{name}", getattr(field, "json_schema_extra", None)
    for name, field in sorted(vars(cls).get("__dataclass_fields__", {}).items()):
        is_required = field.default is field.default_factory is dataclasses.MISSING
        yield f".{name}", (is_required, field.kw_only, dict(field.metadata))
        yield f".{name}", None if is_required else (field.default, field.default_factory)
    if not fields:
        yield "", _read_types(cls)
    if typing.is_typeddict(cls) or hasattr(cls, "__required_keys__"):
        yield "", (cls.__total__, cls.__required_keys__)  # type: ignore[attr-defined]


def _is_slot(value: Any) -> bool:
    return isinstance(value, MemberDescriptorType | GetSetDescriptorType)


def _read_types(cls: type) -> Mapping[str, Any]:
    """The types that the class gives its fields."""
    found = inspect.get_annotations(cls)
    if any(isinstance(each, str) for each in found.values()):
        try:
            known = typing.get_type_hints(cls, include_extras=True)
        except Exception:  # noqa: BLE001 - names that nobody knows; then their texts count
            return found
        return {name: known.get(name, each) for name, each in found.items()}
    return found
