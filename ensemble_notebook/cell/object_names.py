"""Finds names for the objects of a definition: a variable, a dotted name, or their own (C4, C32).

The inverse of `name_resolver`, which finds the same object by that name. Imports nothing.
"""

from __future__ import annotations

import re
import sys
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any, Final

from ensemble_notebook.cell.binding.name_resolver import list_imported
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.item_list import Items, list_items
from ensemble_notebook.domain.definitions.tool import RetrieverTool, human_input
from ensemble_notebook.domain.value_text import is_table
from ensemble_notebook.errors import Problem, ValidationError

HUMAN_INPUT: Final = human_input.__name__

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_OF_IPYTHON: Final = re.compile(r"_+(\d*|i+\d*|[iod]h|exit_code|ensemble)")


_given: Final[weakref.WeakKeyDictionary[EnsembleDefinition, Mapping[str, Any]]] = weakref.WeakKeyDictionary()


def remember_names(ensemble: EnsembleDefinition, namespace: Mapping[str, Any]) -> None:
    """Remember the variables by which a cell has named the objects of an ensemble, as long as that lives."""
    _given[ensemble] = namespace


def find_names(ensemble: EnsembleDefinition) -> Mapping[str, Any] | None:
    """Find the variables that `remember_names` was given for an ensemble; None where it was given none."""
    return _given.get(ensemble)


class ObjectNames:
    """Names for the objects of one definition.

    Args:
        namespace: the notebook's variables; None where they are not known: then functions and classes go by their own
            names, and other objects have none.
    """

    def __init__(self, namespace: Mapping[str, Any] | None) -> None:
        self._namespace = namespace
        self._taken: dict[str, Any] = {}

    def find(self, found: Any, label: str, owner: Any = None, field: str | None = None) -> str:
        """Find the name of an object.

        Args:
            found: the object.
            label: where it stands, for messages: ``handler of task 'gather'``.
            owner: the definition that it belongs to.
            field: of the owner.

        Raises:
            ValidationError: it has none; says where it stands and what to do.
        """
        if isinstance(found, RetrieverTool):
            # the model knows it by its variable's name, so no other will do
            if self.get_value(found.name) is found.retriever or self._namespace is None:
                return found.name
            dotted = (each for each in list_imported() if each.rpartition(".")[2] == found.name)
            if name := next((each for each in dotted if self._follow(each) is found.retriever), None):
                return name
            message = (
                f"The {label} is a retriever that models know as {found.name!r}, and no variable of this name holds it."
            )
            raise ValidationError(Problem(f"{message} Bind it to {found.name!r}.", owner, field))
        name = self.look_up(found)
        own = getattr(found, "__name__", None)
        if name is None and self._namespace is None and _is_named(found) and _is_variable(own):
            name = own  # functions and classes have one by themselves
        if name is None:
            kind = f"an object of type {type(found).__name__}"
            if own == "<lambda>":
                kind = "a lambda"
            elif _is_named(found) and isinstance(own, str):
                kind = f"{'the class' if isinstance(found, type) else 'the function'} {own!r}"
            how = (
                "Bind it to a variable, and give the namespace that has it: ensemble.to_yaml(namespace=globals())."
                if self._namespace is None
                else "Bind it to a variable of this notebook, and use that."
            )
            raise ValidationError(Problem(f"The {label} is {kind}, which has no name here. {how}", owner, field))
        if self._taken.setdefault(name, found) is not found and not _is_same(self._taken[name], found):
            message = f"The {label} is another {name!r} than the one before it. Give them two names."
            raise ValidationError(Problem(message, owner, field))
        return name

    def look_up(self, found: Any) -> str | None:
        """Look up the variable that holds an object, or the dotted name that it was imported by; None without one."""
        if found is human_input and self.get_value(HUMAN_INPUT, found) is found:
            return HUMAN_INPUT
        own = getattr(found, "__name__", None)
        variables = list(self._list_variables(found))
        if variables:
            return own if own in variables else variables[0]
        return next(self._list_paths(found), None)

    def list_tools(self, tools: Sequence[Any]) -> Iterator[tuple[Any, str | None]]:
        """List tools; where some without a name are the items of a variable, the first of them with its name."""
        left = list(tools)
        while left:
            name = None if self.look_up(left[0]) is not None else self._find_list(left)
            yield left[0], name
            del left[: 1 if name is None else len(self.get_value(name))]

    def _find_list(self, items: Sequence[Any]) -> str | None:
        """Find a variable that holds a list with which these tools begin; None without one."""
        for name, value in (self._namespace or {}).items():
            if isinstance(value, list | tuple) and value and _is_variable(name) and len(value) <= len(items):
                pairs = enumerate(zip(value, items, strict=False), start=1)
                if all(_is_item(item, tool, f"{name}_{number}") for number, (item, tool) in pairs):
                    return name
        return None

    def find_items(self, items: Items) -> str | None:
        """Find a variable that holds a list or table with these items; None without one."""
        return next((name for name, value in (self._namespace or {}).items() if _holds(name, value, items)), None)

    def get_value(self, name: str, default: Any = None) -> Any:
        """Get the value of a variable."""
        return (self._namespace or {}).get(name, default)

    def _list_variables(self, found: Any) -> list[str]:
        """List the variables that hold an object, those without an underscore first."""
        names = [name for name, value in list((self._namespace or {}).items()) if value is found and _is_variable(name)]
        return sorted(names, key=lambda name: name.startswith("_"))

    def _list_paths(self, found: Any) -> Iterator[str]:
        """List the dotted names under which an object is found: as cells wrote it, of a variable, of its module."""
        yield from (name for name in list_imported() if _is_same(self._follow(name), found))
        if isinstance(found, EnsembleDefinition):
            outputs = list((self._namespace or {}).items())
            yield from (f"{name}.ensemble" for name, value in outputs if getattr(value, "ensemble", None) is found)
        if isinstance(found, types.MethodType):
            yield from (f"{name}.{found.__name__}" for name in self._list_variables(found.__self__))
        module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
        if isinstance(found, types.MethodType) and isinstance(owner := found.__self__, type):  # which may inherit it
            module, name = owner.__module__, f"{owner.__qualname__}.{found.__name__}"
        # A private module is where a package keeps what it shows under its own name: `pathlib._local` of Python 3.13.
        for place in dict.fromkeys((str(module).partition("._")[0], module)):
            path = f"{place}.{name}"
            if module != "__main__" and _DOTTED.fullmatch(path) and _is_same(self._follow(path), found):
                yield path

    def _follow(self, path: str) -> Any:
        """Follow a dotted name from a variable, or through what is imported already; None where it leads nowhere."""
        first, _, rest = path.partition(".")
        if first in (self._namespace or {}):
            return _follow_parts(self.get_value(first), rest)
        module = split_module(path)
        return None if module is None else _follow_parts(sys.modules[module], path[len(module) + 1 :])


def _is_named(found: Any) -> bool:
    """True for what `def` and `class` make, which have a name of their own."""
    return isinstance(found, types.FunctionType | types.BuiltinFunctionType | type)


def _is_variable(name: Any) -> bool:
    """Whether a cell can name this variable."""
    return isinstance(name, str) and name.isidentifier() and not iskeyword(name) and not _OF_IPYTHON.fullmatch(name)


def _is_same(one: Any, other: Any) -> bool:
    """The same object; of methods, which are made at each look, the same of the same."""
    is_method = isinstance(one, types.MethodType | types.BuiltinMethodType) and type(one) is type(other)
    return one is other or (is_method and one == other)


def _holds(name: str, value: Any, items: Items) -> bool:
    """Whether a variable has exactly these items."""
    is_list = isinstance(value, list | tuple) or is_table(value)
    if not is_list or not _is_variable(name) or len(value) != len(items):
        return False
    try:
        return bool(list_items(value) == items)
    except Exception:  # noqa: BLE001 - whatever items raise that are compared
        return False


def _is_item(item: Any, tool: Any, name: str) -> bool:
    if isinstance(tool, RetrieverTool) and not isinstance(item, RetrieverTool):
        return tool.retriever is item and tool.name == name
    return item is tool


def _follow_parts(found: Any, path: str) -> Any:
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def split_module(path: str) -> str | None:
    """Split off the longest beginning of a dotted name that is an imported module; None where there is none."""
    parts = path.split(".")
    candidates = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((each for each in candidates if each in sys.modules), None)
