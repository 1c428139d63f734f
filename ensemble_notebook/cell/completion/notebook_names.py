"""The variables of a notebook that a key may take. Looks at what they are, and calls nothing of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from types import ModuleType
from typing import Any, Final

from ensemble_notebook.cell.language.vocabulary import ValueKind
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble

_SHELL_NAMES: Final = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open"})


def list_names(names: Mapping[str, Any], kind: ValueKind | None) -> Iterator[str]:
    """List the names of what a key of this kind takes; without a kind, of what may be the value of an input."""
    fits = _is_value if kind is None else _FITS.get(kind)
    if fits is None:
        return
    for name, value in names.items():
        if not name.startswith("_") and name not in _SHELL_NAMES and fits(value):
            yield name


def _is_value(value: object) -> bool:
    return not isinstance(value, ModuleType | type) and not callable(value) and not is_ensemble(value)


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type | ModuleType)


def _is_class(value: object) -> bool:
    return isinstance(value, type)


def _is_list(value: object) -> bool:
    return isinstance(value, Sized) and not isinstance(value, str | bytes | type)


def _has(*attributes: str) -> Callable[[object], bool]:
    """Whether the class of an object has these; the object itself is not asked, it may answer anything."""
    return lambda value: all(hasattr(type(value), each) for each in attributes)


def _is_tool(value: object) -> bool:
    kind = type(value)
    return _is_function(value) or (hasattr(kind, "invoke") and not hasattr(kind, "bind_tools"))


def _is_tool_or_tools(value: object) -> bool:
    return _is_tool(value) or (isinstance(value, list | tuple) and any(map(_is_tool, value)))


def _is_object(value: object) -> bool:
    return _is_function(value) or (_is_value(value) and not isinstance(value, str | int | float | list | dict))


_FITS: Final[Mapping[ValueKind, Callable[[object], bool]]] = {
    ValueKind.OBJECT: _is_tool,
    ValueKind.OBJECTS: _is_object,
    ValueKind.FUNCTIONS: _is_function,
    ValueKind.TOOLS: _is_tool_or_tools,
    ValueKind.REVIEWER: _is_function,
    ValueKind.PHASE_REVIEW: _is_function,
    ValueKind.MODEL: _has("invoke", "bind_tools"),
    ValueKind.ENSEMBLE: is_ensemble,
    ValueKind.OUTPUT_TYPE: _is_class,
    ValueKind.ITEM_SOURCE: _is_list,
    ValueKind.PROMPT: _has("system", "user"),
    ValueKind.STORE: _has("store", "retrieve"),
    ValueKind.EXPORTER: _has("export"),
}
