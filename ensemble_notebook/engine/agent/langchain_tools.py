"""Makes a tool of whatever a user gives as one: a function, a method, an `AgentTool`, a tool of LangChain (E1).

The schema of a function comes from its type hints, descriptions from its docstring. LangChain and pydantic keep some
names for themselves, drop others, and pass by name alone. So a function is given to them with other names for such
parameters, which neither the model nor the function sees.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, reduce, wraps
from inspect import Parameter, formatannotation, signature
from types import MappingProxyType
from typing import Any, Final, NoReturn, cast

from ensemble_notebook.domain.attachments import mark_encoded
from ensemble_notebook.domain.definitions.run_context import find_context_parameter, give_context
from ensemble_notebook.domain.definitions.tool import (
    AgentTool,
    RetrieverTool,
    ToolResult,
    ToolReview,
    ToolSource,
    find_tool_methods,
    is_agent_tool,
    is_langchain_tool,
)
from ensemble_notebook.domain.definitions.tool import Tool as ReviewedTool
from ensemble_notebook.domain.fingerprints.code_content import list_pydantic_fields
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.domain.value_text import write_whole
from ensemble_notebook.engine.function_caller import is_async
from ensemble_notebook.errors import ValidationError

_LANGCHAINS: Final = ("config", "callbacks", "run_manager", "self")
"""LangChain hands values of its own to these. A function that wants them has its types there."""
_LANGCHAINS_TYPE: Final = re.compile(r"langchain_core|\bRunnableConfig\b|\bCallbacks\b|CallbackManager")
_DROPPED: Final = ("cls", "args", "kwargs")
_DROPPED_STARTS: Final = ("_", "v__", "model_")
_REST: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: how the model sees it, and the function that takes its arguments as a dict.

    Attributes:
        schema: the pydantic model that checks the arguments, where there is one.
        is_remote: a server does the work, and goes on with it when nobody waits any more.
        own_names: of its parameters, by those that the schema has, where these are others.
        review: when somebody is asked about its calls; None: never.
    """

    spec: ToolSpec
    function: Callable[[dict[str, Any]], Any]
    schema: type | None = None
    is_remote: bool = False
    own_names: Mapping[str, str] = field(default_factory=dict)
    review: ToolReview | None = None


def adapt(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function that is given what `change` makes of its argument; async where it is."""

    def call_sync(given: Any) -> Any:
        return function(change(given))

    async def call_async(given: Any) -> Any:
        return await call_sync(given)

    return call_async if is_async(function) else call_sync


def make_tools(entry: Any) -> Iterable[Tool]:
    """The tools of one entry of a user's list; none for a source, whose tools are opened one by one."""
    if isinstance(entry, ToolSource):
        return []
    if isinstance(entry, ReviewedTool):
        return [replace(each, review=entry.review) for each in make_tools(entry.tool)]
    if is_langchain_tool(entry):
        return [_from_langchain(entry)]
    if is_agent_tool(entry):
        return [_from_agent_tool(entry)]
    if methods := list(find_tool_methods(entry)):
        return [_from_langchain(_bind_method(method, entry)) for method in methods]
    other_names = find_other_names(entry)
    tool = _from_langchain(make_langchain_tool(entry, other_names))
    return [_give_own_names(tool, other_names) if other_names else tool]


def _bind_method(tool: Any, owner: Any) -> Any:
    """The tool of one object, from ``@tool`` on a method, whose ``self`` LangChain takes for one more argument."""
    bodies = [(kind, getattr(tool, kind, None)) for kind in ("func", "coroutine")]
    own: dict[str, Any] = {
        kind: body.__get__(owner)
        for kind, body in bodies
        if body is not None and "self" in inspect.signature(body).parameters
    }
    if any(map(find_context_parameter, own.values())) or "self" in tool.args:
        own["args_schema"] = make_langchain_tool(next(iter(own.values()))).args_schema
    return tool.model_copy(update=own)


def _hide_context(tool: Any) -> Any:
    """The same tool of LangChain, without the parameter of its function that takes the `RunContext`."""
    bodies = {kind: body for kind in ("func", "coroutine") if (body := getattr(tool, kind, None)) is not None}
    asking = {kind: body for kind, body in bodies.items() if find_context_parameter(body)}
    if not asking:
        return tool
    own: dict[str, Any] = {kind: give_context(body) for kind, body in asking.items()}
    own["args_schema"] = make_langchain_tool(next(iter(asking.values()))).args_schema
    return tool.model_copy(update=own)


body_of_call: Final[ContextVar[list[Callable[[], Any]] | None]] = ContextVar("ensemblebody_of_call", default=None)
"""Is given what gives the result of an async body, once that has ended by itself; None where nobody asks.

LangChain runs the body in a task of its own, and a stop that comes between the end of that and ours would lose it.
"""


def _tell_end(body: Callable[..., Awaitable[Any]], *, has_artifact: bool) -> Callable[..., Awaitable[Any]]:
    """The same async function, which tells how it has ended."""

    @wraps(body)
    async def call(*args: Any, **kwargs: Any) -> Any:
        ended = body_of_call.get()
        body_of_call.set(None)  # other tools that it calls are not this one
        try:
            result = await body(*args, **kwargs)
        except Exception as error:
            if ended is not None:
                ended.append(partial(_raise, error))
            raise
        if ended is not None:
            ended.append(lambda: _join_text_blocks(result[0] if has_artifact else result))
        return result

    return call


def _raise(error: Exception) -> NoReturn:
    raise error


def _from_langchain(tool: Any) -> Tool:
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    tool = _hide_context(tool)
    if (name := find_withheld(tool)) is not None:
        hint = "Rename it, or give the function without @tool"
        raise ValidationError(f"LangChain never hands a value to its parameter {name!r}. {hint}")
    function = convert_to_openai_tool(tool)["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    spec = ToolSpec(name=function["name"], description=function.get("description", ""), parameters=parameters)
    schema = tool.args_schema if isinstance(tool.args_schema, type) else None

    if hasattr(tool, "coroutine"):
        is_on_loop = tool.coroutine is not None
    else:  # one without an async body of its own LangChain would send to the default executor
        is_on_loop = type(tool)._arun is not BaseTool._arun
    watched = tool
    if is_on_loop:  # what it keeps, it keeps in the tool
        watched, has_artifact = tool.model_copy(), tool.response_format == "content_and_artifact"
        vars(watched)["_arun"] = _tell_end(tool._arun, has_artifact=has_artifact)

    async def call_async(arguments: dict[str, Any]) -> Any:
        return _join_text_blocks(await watched.ainvoke(arguments))

    def call_sync(arguments: dict[str, Any]) -> Any:
        return _join_text_blocks(tool.invoke(arguments))

    return Tool(spec, call_async if is_on_loop else call_sync, schema)


def _give_own_names(tool: Tool, other_names: Mapping[str, str]) -> Tool:
    """The same tool, whose parameters a model knows by their own names in place of the other ones."""
    spec, own_names = tool.spec, {other: name for name, other in other_names.items()}
    properties = {own_names.get(name, name): each for name, each in spec.parameters.get("properties", {}).items()}
    parameters = {**spec.parameters, "properties": properties}
    if "required" in parameters:
        parameters["required"] = [own_names.get(name, name) for name in parameters["required"]]
    description = reduce(lambda text, name: text.replace(name, own_names[name]), own_names, spec.description)

    def rename(arguments: dict[str, Any]) -> dict[str, Any]:
        return {other_names.get(name, name): each for name, each in arguments.items()}

    function = adapt(tool.function, rename)
    named = replace(spec, description=description, parameters=parameters)
    return replace(tool, spec=named, function=function, own_names=own_names)


def _join_text_blocks(result: Any) -> Any:
    """The text of a result that is a list of blocks, as LangChain's adapter for MCP gives it; else the result."""
    if not isinstance(result, list) or not result or not all(isinstance(each, dict) for each in result):
        return result
    texts = [_read_block(each) for each in result]
    return "\n".join(map(str, texts)) if all(isinstance(each, str) for each in texts) else result


def _read_block(block: Mapping[str, Any]) -> Any:
    """The text of a block, or the mark of one that is a picture or PDF; None for others."""
    if block.get("type") == "text":
        return block.get("text")
    encoded = block.get("base64") or block.get("data")
    return mark_encoded(encoded, block.get("mime_type")) if isinstance(encoded, str) else None


def _from_agent_tool(tool: AgentTool | RetrieverTool) -> Tool:
    name = "query" if isinstance(tool, RetrieverTool) else "input"
    argument = {"type": "string", "description": f"The {name} as text."}
    parameters = {"type": "object", "properties": {name: argument}, "required": [name]}
    spec = ToolSpec(name=tool.name, description=tool.description, parameters=parameters)
    execute = give_context(tool.execute)

    return Tool(spec, adapt(execute, lambda arguments: to_text(arguments[name])))


def to_text(result: Any) -> str:
    """The whole text of what a tool or handler gave back; None is empty."""
    return write_whole(result.output if isinstance(result, ToolResult) else result)


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
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    if owner and not owner.endswith("<locals>") and next(iter(parameters), "") in ("self", "cls"):
        raise ValidationError(f"it is a method of the class {owner}; give that of an object, as in {owner}(...).{name}")
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
