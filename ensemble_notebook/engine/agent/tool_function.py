"""A plain function as a tool of LangChain: schema from type hints, descriptions from the docstring (E1).

LangChain and pydantic keep some names for themselves, drop others, and pass by name alone. So a function is given to
them with other names for such parameters, which neither the model nor the function sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, formatannotation, signature
from types import MappingProxyType
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.run_context import find_context_parameter, give_context
from ensemble_notebook.domain.fingerprints.code_content import list_pydantic_fields
from ensemble_notebook.engine.function_caller import is_async
from ensemble_notebook.errors import ValidationError

_LANGCHAINS: Final = ("config", "callbacks", "run_manager", "self")
"""LangChain hands values of its own to these. A function that wants them has its types there."""
_LANGCHAINS_TYPE: Final = re.compile(r"langchain_core|\bRunnableConfig\b|\bCallbacks\b|CallbackManager")
_DROPPED: Final = ("cls", "args", "kwargs")
_DROPPED_STARTS: Final = ("_", "v__", "model_")
_REST: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def make_langchain_tool(function: Callable[..., Any], other_names: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Make a tool of LangChain from a plain function.

    Args:
        function: of a user.
        other_names: that the tool has for some of its parameters, by their own.
    """
    from langchain_core.tools import StructuredTool

    shown = _show(function, other_names)
    kind = "coroutine" if is_async(shown) else "func"
    text = None if function.__doc__ else function.__name__.replace("_", " ")
    named: Mapping[str, Any] = {kind: shown}
    return StructuredTool.from_function(
        **named, name=function.__name__, description=text, parse_docstring=True, error_on_invalid_docstring=False
    )


def find_other_names(function: Callable[..., Any]) -> dict[str, str]:
    """Find other names for the parameters of a function that LangChain or pydantic would not take, by their own.

    Raises:
        ValidationError: it is a method without its object.
    """
    from pydantic import BaseModel

    parameters = signature(give_context(function)).parameters
    _check_bound(function, parameters)
    other_names = {
        name: f"parameter_{place}_"
        for place, (name, each) in enumerate(parameters.items())
        if each.kind in _REST
        or name in _DROPPED
        or name.startswith(_DROPPED_STARTS)
        or hasattr(BaseModel, name)
        or _is_withheld(each)
    }
    while not parameters.keys().isdisjoint(other_names.values()):
        other_names = {name: f"{other}_" for name, other in other_names.items()}
    return other_names


def _show(function: Callable[..., Any], other_names: Mapping[str, str]) -> Callable[..., Any]:
    """The function as LangChain can read it: without the `RunContext`, and a type for whatever its docstring names."""
    inner, hidden = give_context(function), find_context_parameter(function)
    own = signature(inner)
    parameters = [_to_named(each, other_names.get(name, name)) for name, each in own.parameters.items()]
    types = {each.name: Any if each.annotation is each.empty else each.annotation for each in parameters}
    if not other_names and hidden is None and types.keys() <= getattr(inner, "__annotations__", {}).keys():
        return inner

    def call(**arguments: Any) -> Any:
        bound = own.bind_partial()
        for name, parameter in own.parameters.items():
            value = arguments.get(other_names.get(name, name), Parameter.empty)
            if value is not Parameter.empty and not (value is None and parameter.kind in _REST):
                bound.arguments[name] = value
        bound.apply_defaults()
        return inner(*bound.args, **bound.kwargs)

    async def call_async(**arguments: Any) -> Any:
        return await call(**arguments)

    wrapper: Any = wraps(inner)(call_async if is_async(inner) else call)
    wrapper.__signature__ = own.replace(parameters=parameters)
    wrapper.__annotations__ = types if hidden is None else {**types, hidden: Any}
    if inner.__doc__ and other_names:
        described = rf"(?m)^(\s*)({'|'.join(map(re.escape, other_names))})(?=\s*(?:\([^\n)]*\)\s*)?:)"
        wrapper.__doc__ = re.sub(described, lambda found: found[1] + other_names[found[2]], inner.__doc__)
    return cast("Callable[..., Any]", wrapper)


def _check_bound(function: Callable[..., Any], parameters: Mapping[str, Parameter]) -> None:
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    if owner and not owner.endswith("<locals>") and next(iter(parameters), "") in ("self", "cls"):
        raise ValidationError(f"it is a method of the class {owner}; give that of an object, as in {owner}(...).{name}")


def _to_named(parameter: Parameter, name: str) -> Parameter:
    """The same parameter under another name, passed by it; what takes the rest, as a list or a dict."""
    kind, annotation, default = parameter.kind, parameter.annotation, parameter.default
    if kind in _REST:
        start = "list[" if kind is Parameter.VAR_POSITIONAL else "dict[str, "
        if isinstance(annotation, str):
            annotation = f"{start}{annotation}]"
        else:
            each = Any if annotation is Parameter.empty else annotation
            annotation = list[each] if kind is Parameter.VAR_POSITIONAL else dict[str, each]  # type: ignore[valid-type]
        default = None
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def find_withheld(tool: Any) -> str | None:
    """Find a parameter of the function of a LangChain tool that gets nothing of what a model gives; None for none."""
    from langchain_core.tools import StructuredTool

    body = (tool.func or tool.coroutine) if isinstance(tool, StructuredTool) else None
    if body is None:
        return None
    schema = tool.args_schema
    if isinstance(schema, Mapping):
        known = schema.get("properties", {})
    else:
        known = list_pydantic_fields(schema) or vars(schema).get("__fields__", {})
    for name, each in signature(body).parameters.items():
        is_unfilled = name not in known and each.default is each.empty and each.kind not in _REST
        is_unspread = name in known and each.kind is Parameter.VAR_POSITIONAL
        if _is_withheld(each) or is_unspread or (is_unfilled and not _is_langchains(each)):
            return name
    return None


def _is_withheld(parameter: Parameter) -> bool:
    """Whether LangChain hands something of its own to such a parameter, or nothing at all."""
    is_own = parameter.name in _LANGCHAINS and not _is_langchains(parameter)
    return is_own or parameter.kind is Parameter.POSITIONAL_ONLY


def _is_langchains(parameter: Parameter) -> bool:
    """Whether a parameter asks by its type for what LangChain has."""
    return _LANGCHAINS_TYPE.search(formatannotation(parameter.annotation)) is not None
