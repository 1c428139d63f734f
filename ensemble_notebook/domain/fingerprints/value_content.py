"""The content of any object: decides whether it is plain data, a table, code, or an object with a state."""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import operator
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType, UnionType
from typing import Any, Final
from weakref import ReferenceType

from ensemble_notebook.domain.attachments import Attachment, UnwritableValueError, read_attachment
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.fingerprints.code_content import (
    describe_class,
    describe_function,
    describe_module,
    encode_class,
    hide_key,
    is_installed,
    list_pydantic_fields,
)
from ensemble_notebook.domain.fingerprints.content import (
    SCALARS,
    Child,
    Content,
    IncomparableError,
    describe_type,
    digest,
    encode_all,
    encode_name,
    encode_scalar,
)
from ensemble_notebook.domain.outputs.secrets import is_secret_name

_CACHED: Final = type(functools.cache(len))
_CONTAINERS: Final = (list, tuple, dict)
_SEQUENCES: Final = (list, tuple, deque)
_SETS: Final = (set, frozenset)
_WRAPPERS: Final[dict[Any, tuple[str, ...]]] = {
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    functools.cached_property: ("func",),
}
"""What only wraps functions, and the attributes that hold these."""
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
    if (attachment := _find_attachment(value)) is not None:
        return Content(encode_name("attachment", attachment.digest))
    return _describe_code(value) or _describe_table(value) or describe_object(value)


def _find_attachment(value: Any) -> Attachment | None:
    """The picture or PDF that an object is for a model, which is compared by its bytes; None for all else."""
    try:
        return read_attachment(value)
    except UnwritableValueError:
        return None


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
        # IPython's shell, which code that uses magics or shell commands reaches.
        case MethodType() if any(each.__name__ == "InteractiveShell" for each in type(value.__self__).__mro__):
            return Content(encode_name("shell", value.__name__))
        case MethodType():
            return Content(b"method", [("", value.__func__), ("", value.__self__)])
        case BuiltinFunctionType():
            owner = None if isinstance(value.__self__, ModuleType) else value.__self__
            return Content(encode_name("builtin", value.__module__, value.__qualname__), [("", owner)])
        case ReferenceType():
            return Content(b"reference", [("", value())])
        case PurePath():  # as `copy` makes it up to Python 3.11
            return Content(b"object", [("", type(value)), ("", value.parts), ("", None)], is_foreign=True)
        case UnionType():  # as `copy` makes it up to Python 3.13; from 3.14 on, `Optional[int]` is one, too
            return Content(b"object", [("", functools.reduce), ("", (operator.or_, value.__args__)), ("", None)])
    names = next((names for kind, names in _WRAPPERS.items() if isinstance(value, kind)), ())
    inner = [("", getattr(value, name)) for name in names]
    inner += [("", value.__wrapped__), ("", value.cache_parameters())] if type(value) is _CACHED else []
    return Content(encode_name("wrapper", type(value).__name__), inner) if inner else None


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


# How a model is asked, and who watches; not what.
_UNCOUNTED_OF_MODELS: Final = frozenset(
    {
        *("cache", "callbacks", "custom_get_token_ids", "disable_streaming", "http_async_client", "http_client"),
        *("max_retries", "http_socket_options", "include_response_headers", "metadata", "name", "openai_proxy"),
        *("profile", "rate_limiter", "request_timeout", "stream_chunk_timeout", "stream_usage", "streaming"),
        *("tags", "tiktoken_model_name", "timeout", "default_headers", "verbose"),
    }
)
# What definitions say of how and when something runs; not of what it does.
_UNCOUNTED_OF_DEFINITIONS: Final = frozenset(
    {
        *("budget", "capture_mode", "cost", "fallback_is_warning", "listeners", "llm_timeout", "max_concurrency"),
        *("max_retries", "max_retry_wait", "name", "rate_limit", "review", "review_handler", "review_policy"),
        *("timeout", "trace_exporter", "verbose"),
    }
)


def is_chat_model(value: Any) -> bool:
    """Whether an object is a chat model of LangChain."""
    return hasattr(type(value), "_llm_type") and hasattr(type(value), "ainvoke")


def list_model_fields(model: Any) -> dict[str, Any]:
    """The fields of a chat model that may change its answers; no keys, timeouts and clients."""
    fields = list_pydantic_fields(type(model))
    return {
        name: value
        for name in sorted(fields)
        if name not in _UNCOUNTED_OF_MODELS
        and not fields[name].exclude
        and not is_secret_name(name)
        and (value := getattr(model, name, None)) is not None
    }


def describe_object(value: Any) -> Content:
    """Describe an object that is neither plain data nor code.

    Raises:
        IncomparableError: Python can't copy it: it is bound to something outside.
    """
    cls = type(value)
    if hasattr(cls, "get_secret_value"):
        return Content(b"secret")
    if isinstance(value, Definition):
        names = [each.name for each in dataclasses.fields(value)]  # type: ignore[arg-type]
        counted = [(f".{name}", getattr(value, name)) for name in names if name not in _UNCOUNTED_OF_DEFINITIONS]
        return Content(b"definition", [("", cls), *counted])
    if is_chat_model(value):
        return Content(b"model", [("", cls), ("", list_model_fields(value))])
    if list_pydantic_fields(cls) or hasattr(cls, "__pydantic_fields_set__"):
        return Content(b"object", [("", cls), *_list_pydantic_state(value)], is_foreign=is_installed(cls.__module__))
    return _describe_by_copy(value)


def _list_pydantic_state(value: Any) -> Iterator[Child]:
    """The fields of a pydantic object. What a package leaves out of its own copies is machinery."""
    is_machine = is_installed(type(value).__module__) or hasattr(type(value), "invoke")
    for name, field in sorted(list_pydantic_fields(type(value)).items()):
        if not (is_machine and field.exclude):
            yield f".{name}", hide_key(getattr(value, name, None))
    yield "", getattr(value, "__pydantic_extra__", None)
    if not is_installed(type(value).__module__) and not is_machine:
        yield "", getattr(value, "__pydantic_private__", None)


def _describe_by_copy(value: Any) -> Content:
    """Describe an object by what `copy` and `pickle` would make it of: a function, its arguments, and the state."""
    cls = type(value)
    try:
        reduce = copyreg.dispatch_table.get(cls)
        made = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except Exception as error:  # whatever an object says that will not be copied
        raise IncomparableError(describe_type(value)) from error
    is_foreign = is_installed(cls.__module__)
    if isinstance(made, str):
        return Content(encode_class("global", cls, made))
    make, arguments, state, items, pairs = (*made, None, None, None)[:5]
    children: list[Child] = [("", make), ("", tuple(arguments))]
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(part, Mapping) and all(isinstance(name, str) for name in part):
            children.append(("", tuple(sorted(part))))
            children += [(f".{name}", hide_key(each)) for name, each in sorted(part.items())]
        else:
            children.append(("", part))
    if items is not None:
        children.append(("", list(items)))
    if pairs is not None:
        children.append(("", dict(pairs)))
    return Content(b"object", children, is_foreign=is_foreign)


# Deeper data may be a ring, and wider data the same lists over and over: both are compared object by object.
_DEEPEST: Final = 16
_MOST: Final = 1_000_000
_TEXT: Final = {str}


class _NotPlainError(Exception):
    """Something in it is no plain data."""


def write_plain(value: Any) -> bytes | None:
    """Encode plain data with sorted keys; None if something in it is not plain, or it is too deep or wide."""
    try:
        return _write(value, _DEEPEST, [_MOST]).encode("utf-8", "surrogatepass")
    except _NotPlainError:
        return None


def _write(value: Any, depth: int, room: list[int]) -> str:
    kind = type(value)
    if kind in SCALARS:
        return repr(value)
    room[0] -= 1
    if kind not in (list, tuple, dict) or not depth or room[0] < 0:
        raise _NotPlainError
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            raise _NotPlainError
        if SCALARS.issuperset(map(type, value.values())):
            return f"{{{sorted(value.items())!r}}}"
        return f"{{{', '.join([f'{key!r}: {_write(value[key], depth - 1, room)}' for key in sorted(value)])}}}"
    if SCALARS.issuperset(map(type, value)):
        return repr(value)
    return f"{kind.__name__}({', '.join([_write(each, depth - 1, room) for each in value])})"
