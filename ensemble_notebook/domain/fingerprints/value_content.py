"""The content of any object: decides whether it is plain data, a table, code, or an object with a state."""

from __future__ import annotations

import functools
from collections import deque
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final
from weakref import ReferenceType

from ensemble_notebook.domain.fingerprints.class_content import describe_class
from ensemble_notebook.domain.fingerprints.code_content import describe_function, describe_module
from ensemble_notebook.domain.fingerprints.content import (
    SCALARS,
    Child,
    Content,
    digest,
    encode_all,
    encode_name,
    encode_scalar,
)
from ensemble_notebook.domain.fingerprints.object_content import describe_object
from ensemble_notebook.domain.fingerprints.plain_data import write_plain

_CACHED: Final = type(functools.cache(len))
_CONTAINERS: Final = (list, tuple, dict)
_SEQUENCES: Final = (list, tuple, deque)
_SETS: Final = (set, frozenset)
_MAPPINGS: Final = (dict, MappingProxyType)


def describe_value(value: Any) -> Content:
    """Describe what an object consists of.

    Raises:
        IncomparableError: it has no content that could be compared.
    """
    kind = type(value)
    if kind in SCALARS:
        return Content(encode_scalar(value))
    if kind in _CONTAINERS and (plain := write_plain(value)) is not None:
        return Content(b"plain " + plain)
    if kind in _SEQUENCES:
        children: list[Child] = []
        own = encode_all(value, children)
        return Content(encode_name(kind.__name__) + own, children)
    if kind in _MAPPINGS:
        return _describe_mapping(value)
    if kind in _SETS:
        children = []
        written = sorted(encode_scalar(each) for each in value if type(each) in SCALARS)
        encode_all((each for each in value if type(each) not in SCALARS), children)
        return Content(b"set" + b"".join(written), children, is_unordered=True)
    if isinstance(value, type):
        return describe_class(value)
    return _describe_code(value) or _describe_table(value) or describe_object(value)


def _describe_mapping(value: Any) -> Content:
    """Describe a mapping; the order of its keys is no part of it."""
    if not all(type(key) in SCALARS for key in value):
        return Content(b"mapping", [("", pair) for pair in value.items()], is_unordered=True)
    children: list[Child] = []
    written = [b"dict"]
    for name, key in sorted((encode_scalar(key), key) for key in value):
        written += [name, encode_all((value[key],), children, f".{key}" if type(key) is str else "")]
    return Content(b"".join(written), children)


def _describe_code(value: Any) -> Content | None:
    """Describe a callable without a state of its own; None for all others."""
    match value:
        case FunctionType():
            return describe_function(value)
        case ModuleType():
            return describe_module(value)
        case MethodType() if _is_shell(value.__self__):
            return Content(encode_name("shell", value.__name__))
        case MethodType():
            return Content(b"method", [("", value.__func__), ("", value.__self__)])
        case BuiltinFunctionType():
            owner = None if isinstance(value.__self__, ModuleType) else value.__self__
            return Content(encode_name("builtin", value.__module__, value.__qualname__), [("", owner)])
        case ReferenceType():
            return Content(b"reference", [("", value())])
    inner = _list_wrapped(value)
    return Content(encode_name("wrapper", type(value).__name__), [("", each) for each in inner]) if inner else None


def _list_wrapped(value: Any) -> tuple[Any, ...]:
    """The functions inside an object that only wraps them; empty for any other."""
    match value:
        case property():
            return value.fget, value.fset, value.fdel
        case classmethod() | staticmethod():
            return (value.__func__,)
        case functools.cached_property():
            return (value.func,)
    if type(value) is _CACHED:
        return value.__wrapped__, value.cache_parameters()
    return ()


def _is_shell(value: Any) -> bool:
    """Whether it is IPython's shell, which code that uses magics or shell commands reaches."""
    return any(each.__name__ == "InteractiveShell" for each in type(value).__mro__)


def _describe_table(value: Any) -> Content | None:
    """Describe an array, a series or a table, known by what its class has; None for all else."""
    kind = type(value)
    if hasattr(kind, "iloc") and hasattr(kind, "columns"):
        columns = [value.iloc[:, at] for at in range(len(value.columns))]
        return Content(b"table", [("", each) for each in (value.index, value.columns, *columns)])
    if hasattr(kind, "iloc"):
        parts = (value.name, value.index, value.to_numpy())
        return Content(encode_name("series", value.dtype), [("", each) for each in parts])
    if hasattr(kind, "nlevels") and hasattr(kind, "to_numpy"):
        return Content(encode_name("index", value.dtype), [("", list(value.names)), ("", value.to_numpy())])
    if not (hasattr(kind, "dtype") and hasattr(kind, "tobytes") and hasattr(kind, "strides")) or not value.shape:
        return None
    if value.dtype.hasobject:
        return Content(encode_name("array", value.shape), [("", value.tolist())])
    return Content(encode_name("array", value.dtype, value.shape) + digest(value.tobytes()))
