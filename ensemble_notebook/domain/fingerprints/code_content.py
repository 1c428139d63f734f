"""The content of a function: its source, its defaults, what it closes over, and the globals that it reaches."""

from __future__ import annotations

import dis
import functools
import inspect
import typing
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.code_origin import find_own_file, find_version, is_installed
from ensemble_notebook.domain.fingerprints.code_source import write_code, write_module
from ensemble_notebook.domain.fingerprints.content import Child, Content, encode_name
from ensemble_notebook.domain.outputs.secrets import mask

_LONGEST_KEY: Final = 4_000
_ABSENT: Final = object()
# What `functools.singledispatch` keeps of the calls that were made.
_CACHES: Final = frozenset({"dispatch_cache", "cache_token"})
_NAMES: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_SILENT: Final = frozenset({"CACHE", "PUSH_NULL", "NOP"})


def describe_function(function: FunctionType) -> Content:
    """Describe a function: one of a package by name and version, any other by its code and all that it reaches."""
    module, code = function.__globals__.get("__name__"), function.__code__
    if not is_installed(module):
        children = [*_list_held(function), *_list_annotations(function), *_list_reached(function)]
        return Content(write_code(code) + _write_imports(code), children, is_code=True)
    own = encode_name("function", module, code.co_qualname, find_version(str(module)))
    return Content(own, list(_list_held(function)) if "<locals>" in code.co_qualname else ())


def describe_module(module: ModuleType) -> Content:
    """Describe a module that is used as a whole."""
    if is_installed(module.__name__):
        return Content(encode_name("module", module.__name__, find_version(module.__name__)))
    return Content(encode_name("module", module.__name__) + write_module(getattr(module, "__file__", None)))


def hide_key(value: Any) -> Any:
    """The value, with everything that looks like a key masked: keys are not compared."""
    return mask(value) if type(value) is str and len(value) <= _LONGEST_KEY else value


def _list_held(function: FunctionType) -> Iterator[Child]:
    """The defaults of a function, and what it closes over."""
    code, defaults = function.__code__, function.__defaults__ or ()
    places = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    yield from ((name, hide_key(value)) for name, value in zip(places, defaults, strict=True))
    yield from ((name, hide_key(value)) for name, value in sorted((function.__kwdefaults__ or {}).items()))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            if not (name in _CACHES and function.__globals__.get("__name__") == "functools"):
                yield ("" if name == "__class__" else name), hide_key(cell.cell_contents)
        except ValueError:  # not filled yet
            continue


def _list_annotations(function: FunctionType) -> Iterator[Child]:
    """The types of its arguments, which models are told."""
    try:
        found = function.__annotations__  # from Python 3.14 on, they are looked up only now
        if any(isinstance(each, str) for each in found.values()):
            found = typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - names that nobody knows; the syntax tree has them as they are written
        return
    for _, each in sorted(found.items()):
        yield (getattr(each, "__name__", "") if isinstance(each, type) else ""), each


def _list_reached(function: FunctionType) -> Iterator[Child]:
    """The globals that the code reaches by name: variables of the notebook, and members of the user's modules."""
    for label, *rest in _find_chains(function.__code__):
        value: Any = function.__globals__.get(label, _ABSENT)
        if value is _ABSENT:  # a builtin, or nothing; the name is in the code
            continue
        for name in rest:
            if not isinstance(value, ModuleType) or is_installed(value.__name__):
                break
            value = inspect.getattr_static(value, name, None)
            label = f"{label}.{name}"
        yield label, hide_key(value)


def _write_imports(code: CodeType) -> bytes:
    """The user's modules that the code imports when it runs; as files, since it may not have run yet."""
    return b"".join(write_module(find_own_file(name)) for name in _find_imports(code))


@functools.lru_cache(maxsize=4_096)
def _find_chains(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """The names of globals in some code, each with the attributes that are read from it."""
    found, chain = set(), []
    for each in dis.get_instructions(code):
        if each.opname in _NAMES:
            chain = [each.argval]
        elif each.opname in _ATTRIBUTES and chain:
            chain.append(each.argval)
        elif each.opname not in _SILENT:
            chain = []
        if chain:
            found.discard(tuple(chain[:-1]))
            found.add(tuple(chain))
    return tuple(sorted(found.union(*map(_find_chains, _list_inner(code)))))


@functools.lru_cache(maxsize=4_096)
def _find_imports(code: CodeType) -> tuple[str, ...]:
    """The modules that are imported inside some code."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"}
    return tuple(sorted(found.union(*map(_find_imports, _list_inner(code)))))


def _list_inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]
