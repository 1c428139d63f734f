"""The content of an object: its class, and its state as far as Python can copy it; models by their parameters."""

from __future__ import annotations

import copyreg
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.fingerprints.class_content import list_pydantic_fields
from ensemble_notebook.domain.fingerprints.code_content import hide_key
from ensemble_notebook.domain.fingerprints.code_origin import is_installed
from ensemble_notebook.domain.fingerprints.content import Child, Content, IncomparableError, encode_name
from ensemble_notebook.domain.fingerprints.content_graph import describe_type
from ensemble_notebook.domain.outputs.secrets import is_secret_name

# How a model is asked, and who watches; not what.
_UNCOUNTED_OF_MODELS: Final = frozenset(
    {
        "cache",
        "callbacks",
        "custom_get_token_ids",
        "disable_streaming",
        "http_async_client",
        "http_client",
        "max_retries",
    }
    | {"http_socket_options", "include_response_headers", "metadata", "name", "openai_proxy", "profile", "rate_limiter"}
    | {"request_timeout", "stream_chunk_timeout", "stream_usage", "streaming", "tags", "tiktoken_model_name", "timeout"}
    | {"default_headers", "verbose"}
)
# What definitions say of how and when something runs; not of what it does.
_UNCOUNTED_OF_DEFINITIONS: Final = frozenset(
    {"budget", "capture_mode", "cost", "listeners", "llm_timeout", "max_concurrency", "max_retries", "name"}
    | {"rate_limit", "review", "review_handler", "review_policy", "timeout", "trace_exporter", "verbose"}
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
        return Content(b"definition", [("", cls), *_list_definition_fields(value)])
    if is_chat_model(value):
        return Content(b"model", [("", cls), ("", list_model_fields(value))])
    if list_pydantic_fields(cls) or hasattr(cls, "__pydantic_fields_set__"):
        return Content(b"object", [("", cls), *_list_pydantic_state(value)], is_foreign=is_installed(cls.__module__))
    return _describe_by_copy(value)


def _list_definition_fields(value: Definition) -> Iterator[Child]:
    for each in dataclasses.fields(value):  # type: ignore[arg-type]
        if each.name not in _UNCOUNTED_OF_DEFINITIONS:
            yield f".{each.name}", getattr(value, each.name)


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
        return Content(encode_name("global", cls.__module__, cls.__qualname__, made))
    make, arguments, state, items, pairs = (*made, None, None, None)[:5]
    children: list[Child] = [("", make), ("", tuple(arguments)), *_list_state(state)]
    if items is not None:
        children.append(("", list(items)))
    if pairs is not None:
        children.append(("", dict(pairs)))
    return Content(b"object", children, is_foreign=is_foreign)


def _list_state(state: Any) -> Iterator[Child]:
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    for part in parts:
        if isinstance(part, Mapping) and all(isinstance(name, str) for name in part):
            yield "", tuple(sorted(part))
            yield from ((f".{name}", hide_key(each)) for name, each in sorted(part.items()))
        else:
            yield "", part
