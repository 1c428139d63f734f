"""The tools of one agent, in the one form that the loop calls (E1, E13).

A spec for the model, and a call that always answers with a text.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, reduce, wraps
from types import FunctionType
from typing import Any, Final, NoReturn

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.run_context import find_context_parameter, give_context
from ensemble_notebook.domain.definitions.tool import (
    NO_REASON,
    AgentTool,
    RetrieverTool,
    SourcedTool,
    TaskInput,
    ToolResult,
    ToolSource,
    find_tool_methods,
    is_agent_tool,
    is_langchain_tool,
)
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolLeftRunning, ToolNeverBegun, ToolSpec
from ensemble_notebook.domain.value_text import (
    UnwritableValueError,
    describe_limited_table,
    is_record,
    read_json,
    write_value,
    write_whole,
)
from ensemble_notebook.engine.agent.structured_output import strip_fence
from ensemble_notebook.engine.agent.tool_function import find_other_names, find_withheld, make_langchain_tool
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan, find_calling_span
from ensemble_notebook.engine.function_caller import FunctionCaller, ThreadCall, is_async, is_unfinished
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.errors import (
    BudgetExceededError,
    Problem,
    ToolExecutionError,
    ValidationError,
    did_you_mean,
    find_nearest,
    get_message,
    summarize_error,
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: how the model sees it, and the function that takes its arguments as a dict.

    Attributes:
        schema: the pydantic model that checks the arguments, where there is one.
        is_remote: a server does the work, and goes on with it when nobody waits any more.
        own_names: of its parameters, by those that the schema has, where these are others.
    """

    spec: ToolSpec
    function: Callable[[dict[str, Any]], Any]
    schema: type | None = None
    is_remote: bool = False
    own_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineTool:
    """A tool of the engine itself: it knows the span of its call, and answers in its own words."""

    spec: ToolSpec
    answer: Callable[[dict[str, Any], SpanEmitter], Awaitable[ToolAnswer]]


AskInSpan = Callable[[str, str, SpanEmitter], Awaitable[str | None]]
"""Puts the question of a tool of a source to the person: tool, question, and the span of the call."""


class Toolbox:
    """Tools by name. Built once per list of tools; building imports LangChain where a tool needs it.

    Args:
        entries: the tools. Those of sources that are not open yet are not among them.
        ask: puts questions of tools to the person; None where nobody can be asked.

    Raises:
        ValidationError: a tool's arguments have no schema, e.g. for a type that JSON does not know.
    """

    def __init__(self, entries: Iterable[Any], ask: AskInSpan | None = None) -> None:
        tools: list[Tool] = []
        for index, entry in enumerate(entries):
            try:
                tools += [_from_source(entry, ask)] if isinstance(entry, SourcedTool) else _make_tools(entry)
            except Exception as error:
                label = getattr(entry, "__name__", None) or getattr(entry, "name", type(entry).__name__)
                message = f"Tool at index {index} ({label}) can't be shown to a model: {summarize_error(error)}"
                raise ValidationError(Problem(message, field="tools", item=index)) from error
        self._tools: dict[str, Tool | EngineTool] = {tool.spec.name: tool for tool in tools}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(tool.spec for tool in self._tools.values())

    def with_engine_tools(self, engine_tools: Sequence[EngineTool]) -> Toolbox:
        """These tools and those of the engine, which replace tools of the same name; itself where there are none."""
        if not engine_tools:
            return self
        whole = Toolbox(())
        whole._tools = self._tools | {each.spec.name: each for each in engine_tools}
        return whole

    def has_engine_tool(self, name: str) -> bool:
        """Whether a name is that of a tool of the engine itself."""
        return isinstance(self._tools.get(name), EngineTool)

    async def answer(
        self, call: ToolCall, caller: FunctionCaller, span: SpanEmitter, *, mends: bool = True
    ) -> ToolAnswer:
        """Run a requested call, in its span. A fault of the tool or the request is told to the model.

        Args:
            call: what is asked for.
            caller: calls the tool.
            span: of the call.
            mends: as of `fit_arguments`.

        Raises:
            Exception: what a tool of the engine raises, which ends the task.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            hint = did_you_mean(call.name, self._tools)
            return ToolAnswer(f"Error: there is no tool named {call.name!r}.{hint}", ToolOutcome.FAILURE)
        arguments, mismatch = fit_arguments(call.arguments, tool.spec.parameters, mends=mends)
        if mismatch:
            return ToolAnswer(f"Error: the arguments of tool {call.name!r} don't fit: {mismatch}", ToolOutcome.FAILURE)
        if isinstance(tool, EngineTool):
            return await tool.answer(arguments, span)
        left: list[ThreadCall] = []
        ended: list[Callable[[], Any]] = []
        body = _body_of_call.set(ended)
        try:
            with CallingSpan(span):
                calling = caller.call(f"tool {call.name}", tool.function, arguments, on_left=left.append)
                return _to_answer(call.name, await calling)
        except (BudgetExceededError, TaskAbandoned):
            raise  # a run inside the tool has used up the budget of this one, or was ended by a review (E52, E54)
        except asyncio.CancelledError as stopped:
            if (met := _read_stop(call.name, tool, left, ended)) is not None:
                raise met from stopped
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is told to the model
            return _to_failure(call.name, tool, error)
        finally:
            _body_of_call.reset(body)


def _read_end(name: str, tool: Tool, give_result: Callable[[], Any]) -> ToolAnswer | None:
    """What a tool says that nobody waits for; None where it was stopped, as a run inside it."""
    try:
        result = give_result()
        return None if is_unfinished(result) else _to_answer(name, result)
    except (BudgetExceededError, TaskAbandoned):
        return None
    except Exception as error:  # noqa: BLE001 - as of a tool that somebody waits for
        is_stopped = isinstance(error.__cause__, KeyboardInterrupt | asyncio.CancelledError)
        return None if is_stopped else _to_failure(name, tool, error)


def _read_stop(
    name: str, tool: Tool, left: Sequence[ThreadCall], ended: Sequence[Callable[[], Any]]
) -> BaseException | None:
    """What a stop has met instead of a tool that took it; None where it did."""
    if left:
        call = left[0]
        late = ToolLeftRunning(lambda hear: call.hear_end(lambda give: hear(_read_end(name, tool, give))))
        return late if call.has_begun else ToolNeverBegun()
    if tool.is_remote:
        return ToolLeftRunning()
    answer = _read_end(name, tool, ended[0]) if ended else None
    return None if answer is None else ToolLeftRunning(lambda hear: hear(answer), answer)


def _to_failure(name: str, tool: Tool, error: Exception) -> ToolAnswer:
    if faults := _describe_schema_faults(error, tool):
        text = f"Error: the arguments of tool {name!r} don't fit: {faults}"
        return ToolAnswer(text, ToolOutcome.FAILURE, error)
    return ToolAnswer(_describe_fault(error), ToolOutcome.FAILURE, error)


def to_handler_function(handler: Any) -> Callable[[TaskInput], Any]:
    """Turn a handler into a function. A tool as handler gets the last context output, else the description."""
    is_function = type(handler) is FunctionType  # told at once; most are
    if is_function or (callable(handler) and not is_langchain_tool(handler) and not is_agent_tool(handler)):
        function: Callable[[TaskInput], Any] = handler
        return function
    tool = next(iter(_make_tools(handler)))

    def arguments(task: TaskInput) -> dict[str, Any]:
        text = task.context[-1].raw if task.context else task.description
        said, properties = _parse_json(text), _list_fields(tool.spec.parameters)
        # What a task said is no call of a model: as a value it stands as it is, whatever it looks like.
        given = said if isinstance(said, dict) else _to_only_field(text, properties)
        fitted, mismatch = fit_arguments(text if given is None else given, tool.spec.parameters, mends=False)
        if mismatch:
            message = f"Tool {tool.spec.name!r} can't handle task {task.name!r}: {mismatch}"
            raise ToolExecutionError(message, tool_name=tool.spec.name, tool_input=text)
        return fitted

    async def call_async(task: TaskInput) -> Any:
        return await tool.function(arguments(task))

    def call_sync(task: TaskInput) -> Any:
        return tool.function(arguments(task))

    return call_async if is_async(tool.function) else call_sync


def _to_answer(tool: str, result: Any) -> ToolAnswer:
    """What a model gets for what a tool gave; a value that no prompt can hold is a failure that says so."""
    value = None
    if isinstance(result, ToolResult):
        if not result.is_success:
            return ToolAnswer(f"Error: {result.error_message or NO_REASON}", ToolOutcome.FAILURE)
        result, value = result.output, result.structured_output
    elif isinstance(result, Mapping) or is_record(result):
        value = result
    try:
        written = write_value(result, config.max_table_chars)
    except UnwritableValueError as error:
        return ToolAnswer(f"Error: the result of tool {tool!r} can't be shown: {error}", ToolOutcome.FAILURE, error)
    warning = describe_limited_table(f"What tool {tool!r} returned", written) if written.shown else ""
    return ToolAnswer(written.text, ToolOutcome.SUCCESS, value=value, warning=warning)


def _describe_fault(error: Exception) -> str:
    """What a tool raised, as the model reads it: a bare ``'missing'`` says little without its type."""
    kind, message = type(error).__name__, get_message(error)
    if error.__cause__ is not None and message == summarize_error(error.__cause__):
        return f"Tool error: {message}"  # wrapped on its way here, since it would have ended the thread
    return f"Tool error: {kind}" if message == kind else f"Tool error: {kind}: {message}"


def to_text(result: Any) -> str:
    """The whole text of what a tool or handler gave back; None is empty."""
    return write_whole(result.output if isinstance(result, ToolResult) else result)


def _describe_schema_faults(error: Exception, tool: Tool) -> str:
    """The fields that a pydantic error about the arguments names; nothing for other errors, the tool's own included."""
    errors = getattr(error, "errors", None)
    if tool.schema is None or getattr(error, "title", None) != tool.schema.__name__ or not callable(errors):
        return ""
    names = tool.own_names
    places = ((".".join(names.get(str(part), str(part)) for part in each["loc"]), each["msg"]) for each in errors())
    return "; ".join(f"{place}: {message}" for place, message in places)


def _from_source(tool: SourcedTool, ask: AskInSpan | None) -> Tool:
    spec = ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)

    async def call(arguments: dict[str, Any]) -> Any:
        calling = find_calling_span()

        async def ask_here(question: str) -> str | None:
            return None if ask is None or calling is None else await ask(tool.name, question, calling.span)

        return await tool.call(arguments, ask_here)

    return Tool(spec, call, is_remote=True)


def _make_tools(entry: Any) -> Iterable[Tool]:
    if isinstance(entry, ToolSource):
        return []
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


_body_of_call: Final[ContextVar[list[Callable[[], Any]] | None]] = ContextVar("ensemble_body_of_call", default=None)
"""Is given what gives the result of an async body, once that has ended by itself; None where nobody asks.

LangChain runs the body in a task of its own, and a stop that comes between the end of that and ours would lose it.
"""


def _tell_end(body: Callable[..., Awaitable[Any]], *, has_artifact: bool) -> Callable[..., Awaitable[Any]]:
    """The same async function, which tells how it has ended."""

    @wraps(body)
    async def call(*args: Any, **kwargs: Any) -> Any:
        ended = _body_of_call.get()
        _body_of_call.set(None)  # other tools that it calls are not this one
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


def _watch_body(tool: Any) -> Any:
    """The same async tool of LangChain, whose body tells how it has ended; what that keeps, it keeps in the tool."""
    watched = tool.model_copy()
    vars(watched)["_arun"] = _tell_end(tool._arun, has_artifact=tool.response_format == "content_and_artifact")
    return watched


def _from_langchain(tool: Any) -> Tool:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    tool = _hide_context(tool)
    if (name := find_withheld(tool)) is not None:
        hint = "Rename it, or give the function without @tool"
        raise ValidationError(f"LangChain never hands a value to its parameter {name!r}. {hint}")
    function = convert_to_openai_tool(tool)["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    spec = ToolSpec(name=function["name"], description=function.get("description", ""), parameters=parameters)
    schema = tool.args_schema if isinstance(tool.args_schema, type) else None

    is_on_loop = _runs_on_loop(tool)
    watched = _watch_body(tool) if is_on_loop else tool

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

    def call_sync(arguments: dict[str, Any]) -> Any:
        return tool.function({other_names.get(name, name): each for name, each in arguments.items()})

    async def call_async(arguments: dict[str, Any]) -> Any:
        return await call_sync(arguments)

    function = call_async if is_async(tool.function) else call_sync
    named = replace(spec, description=description, parameters=parameters)
    return replace(tool, spec=named, function=function, own_names=own_names)


def _join_text_blocks(result: Any) -> Any:
    """The text of a result that is a list of text blocks, as LangChain's adapter for MCP gives it; else the result."""
    if not isinstance(result, list) or not result:
        return result
    texts = [each.get("text") if isinstance(each, dict) and each.get("type") == "text" else None for each in result]
    return "\n".join(map(str, texts)) if all(isinstance(each, str) for each in texts) else result


def _runs_on_loop(tool: Any) -> bool:
    """True for a tool that has an async body of its own; LangChain would send the others to the default executor."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    from langchain_core.tools import BaseTool

    return type(tool)._arun is not BaseTool._arun


def _describe_text_argument(name: str) -> dict[str, Any]:
    """The schema of a tool that takes one text."""
    argument = {"type": "string", "description": f"The {name} as text."}
    return {"type": "object", "properties": {name: argument}, "required": [name]}


def _from_agent_tool(tool: AgentTool | RetrieverTool) -> Tool:
    name = "query" if isinstance(tool, RetrieverTool) else "input"
    spec = ToolSpec(name=tool.name, description=tool.description, parameters=_describe_text_argument(name))
    execute = give_context(tool.execute)

    async def call_async(arguments: dict[str, Any]) -> Any:
        result: Any = execute(to_text(arguments[name]))
        return await result

    def call_sync(arguments: dict[str, Any]) -> Any:
        return execute(to_text(arguments[name]))

    return Tool(spec, call_async if is_async(execute) else call_sync)


_NO_TEXT: Final = ("integer", "number", "boolean", "array", "object")


def fit_arguments(arguments: Any, parameters: Mapping[str, Any], *, mends: bool = True) -> tuple[dict[str, Any], str]:
    """Arguments as a dict that has the schema's fields.

    A JSON text is parsed; arguments nested under one foreign key are taken out; a bare value goes to the only field.

    Args:
        arguments: as they came.
        parameters: the JSON schema of the tool.
        mends: whether a text that is nearly one JSON object may be taken for it.

    Returns:
        The dict and an empty text, or what came and a text naming the missing and unexpected fields.
    """
    properties, required, is_open = _list_fields(parameters), parameters.get("required") or (), _is_open(parameters)
    given = _parse_json(arguments) if is_open and isinstance(arguments, str) else arguments
    if is_open and isinstance(given, dict) and given.keys() >= set(required):
        return given, ""  # whatever is in it is what it may be
    fitted = _as_fields(arguments, properties, mends=mends)
    if fitted is None:
        expected = ", ".join(repr(name) for name in properties) or ("any fields" if is_open else "no fields")
        return {}, f"expected an object with {expected}, got {_shorten(arguments)}."
    missing = [name for name in properties if name in required and name not in fitted]
    unexpected = [] if is_open else [name for name in fitted if name not in properties]
    faults = []
    if missing:
        faults.append("missing " + ", ".join(repr(name) for name in missing))
    if unexpected:
        faults.append("unexpected " + ", ".join(_add_hint(name, properties) for name in unexpected))
    return fitted, "; ".join(faults) + "." if faults else ""


def _list_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas of the fields that the schema of a tool names, if only as required."""
    named = parameters.get("properties") or {}
    return {**named, **{name: {} for name in parameters.get("required") or () if name not in named}}


_MORE_FIELDS: Final = frozenset(
    {"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"}
)


def _is_open(parameters: Mapping[str, Any]) -> bool:
    """Whether the schema of a tool takes fields beside those that it names at its top.

    By JSON Schema one that says nothing of them takes all, but most that name their fields mean no others.
    """
    if "additionalProperties" in parameters and "patternProperties" not in parameters:
        return parameters["additionalProperties"] is not False
    return "properties" not in parameters or not _MORE_FIELDS.isdisjoint(parameters)


def _as_fields(arguments: Any, properties: Mapping[str, Any], *, mends: bool) -> dict[str, Any] | None:
    """A dict of fields, or None where there is no unambiguous one."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        return _read_fields(arguments, properties, mends=mends)
    if not isinstance(arguments, dict):
        return _to_only_field(arguments, properties)
    if len(arguments) == 1:
        ((key, inner),) = arguments.items()
        if key not in properties:
            nested = _parse_json(inner) if isinstance(inner, str) else inner
            if isinstance(nested, dict) and nested and set(nested) <= set(properties):
                return nested
            if str(key).startswith("__arg"):
                return _as_fields(inner, properties, mends=mends)
    return {str(key): value for key, value in arguments.items()}


def _read_fields(text: str, properties: Mapping[str, Any], *, mends: bool) -> dict[str, Any] | None:
    """The fields of a text that is a JSON object, or may be mended to one; else it is the value of the only field.

    None for what was meant as an object and is none, or is a text in quotes that was cut: its JSON is nobody's value.
    """
    if _OPEN_TEXT.match(text):
        return None
    value = _parse_json(text)
    if isinstance(value, dict | list):
        return _as_fields(value, properties, mends=mends)
    if isinstance(value, str) and _is_meant_as_object(value, properties):
        if value != text:
            return _read_fields(value, properties, mends=mends)
        mended = _mend_object(text) if mends else None
        return mended if isinstance(mended, dict) and set(mended) <= set(properties) else None
    return _to_only_field(text, properties)


def _to_only_field(value: Any, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """A bare value belongs to the one field there is; a text is read as JSON only where that field can't be a text."""
    if value == "" and not properties:
        return {}
    if len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" and isinstance(value, dict | list):
        return None
    return {name: _parse_json(value) if isinstance(value, str) and kind in _NO_TEXT else value}


# --- Arguments that are nearly JSON: mended where they can mean but one thing, and never run as a bare text -----------
#
# Where a call was cut, or something stands beside its object, the rest of what was meant is not known.


_OBJECT_START: Final = re.compile(
    r"""\s*+(?:```[\w-]++\s*+\Z|(?:```[\w-]*+\s*+)?+(?:\{\s*+(?:["'“}]|\Z)|\[\s*+["'“{]))"""
)
_OPEN_TEXT: Final = re.compile(r"""\s*+"(?:[^"\\]|\\.)*+\\?\Z""", re.DOTALL)
_CALL_MARK: Final = re.compile(r"</?tool_calls?>|<\|\w++\|>|\[/?TOOL_CALLS?\]")
# A text that is left open reaches to the end, so that nothing in it is looked at again.
_MENDABLE: Final = re.compile(
    r""""(?:[^"\\]|\\.?)*+(?:"|\Z)|'(?P<single>(?:[^'\\]|\\.?)*+)(?P<end>'|\Z)"""
    r"""|\b(?:True|False|None)\b|(?P<comma>,)(?=\s*+[}\]])""",
    re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_QUOTE: Final = re.compile(r"""\\(.)|\"""", re.DOTALL)


def _is_meant_as_object(text: str, properties: Mapping[str, Any]) -> bool:
    """Whether a text is a call, an object of fields or a list, or part of one."""
    if _OBJECT_START.match(text) or _CALL_MARK.search(text):
        return True
    names = "|".join(map(re.escape, properties))
    return bool(names) and re.search(rf"""(?<!\w)(?:{names})\\*+["'”]\s*+:|\{{\s*+(?:{names})\s*+:""", text) is not None


def _mend_object(text: str) -> Any:
    """What a text says without the fence around it, one trailing comma, and Python's quotes and words.

    None where that is no JSON, as with an open string or brace, or with anything behind the object.
    """
    commas = 0

    def mend(part: re.Match[str]) -> str:
        nonlocal commas
        if part["comma"]:
            commas += 1
            return ""
        if part["end"]:
            return f'"{_QUOTE.sub(_turn_quote, part["single"])}"'
        return _WORDS.get(part[0], part[0])

    mended = _parse_json(_MENDABLE.sub(mend, strip_fence(text)))
    return mended if commas <= 1 else None


def _turn_quote(part: re.Match[str]) -> str:
    """A quote, or what is escaped, in a text in single quotes, as JSON has it."""
    if part[1] is None:
        return '\\"'
    return "'" if part[1] == "'" else part[0]


def _parse_json(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is none."""
    try:
        return read_json(text, strict=False)
    except ValueError:
        return text


def _add_hint(name: str, properties: Mapping[str, Any]) -> str:
    close = find_nearest(name, properties)
    return f"{name!r} (did you mean {close!r}?)" if close else repr(name)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
