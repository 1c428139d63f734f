"""The tools of one agent, in the one form that the loop calls (E1, E13).

A spec for the model, and a call that always answers with a text.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.tool import (
    NO_REASON,
    AgentTool,
    RetrieverTool,
    TaskInput,
    ToolResult,
    find_tool_methods,
    is_agent_tool,
    is_langchain_tool,
)
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolCall, ToolSpec
from ensemble_notebook.domain.value_text import UnwritableValueError, describe_limited_table, write_value, write_whole
from ensemble_notebook.engine.agent.tool_arguments import fit_arguments
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.threads.function_caller import FunctionCaller, is_async
from ensemble_notebook.errors import (
    BudgetExceededError,
    Problem,
    ToolExecutionError,
    ValidationError,
    did_you_mean,
    get_message,
    summarize_error,
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: how the model sees it, and the function that takes its arguments as a dict.

    `schema` is the pydantic model that checks the arguments, where there is one.
    """

    spec: ToolSpec
    function: Callable[[dict[str, Any]], Any]
    schema: type | None = None


@dataclass(frozen=True, slots=True)
class EngineTool:
    """A tool of the engine itself: it knows the span of its call, and answers in its own words."""

    spec: ToolSpec
    answer: Callable[[dict[str, Any], SpanEmitter], Awaitable[ToolAnswer]]


class Toolbox:
    """Tools by name. Built once per list of tools; building imports LangChain where a tool needs it.

    Raises:
        ValidationError: a tool's arguments have no schema, e.g. for a type that JSON does not know.
    """

    def __init__(self, entries: Iterable[Any]) -> None:
        tools: list[Tool] = []
        for index, entry in enumerate(entries):
            try:
                tools += _make_tools(entry)
            except Exception as error:
                label = getattr(entry, "__name__", type(entry).__name__)
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

    async def answer(self, call: ToolCall, caller: FunctionCaller, span: SpanEmitter) -> ToolAnswer:
        """Run a requested call, in its span. A fault of the tool or the request is told to the model (E13).

        Raises:
            Exception: what a tool of the engine raises, which ends the task.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            hint = did_you_mean(call.name, self._tools)
            return ToolAnswer(f"Error: there is no tool named {call.name!r}.{hint}", ToolOutcome.FAILURE)
        arguments, mismatch = fit_arguments(call.arguments, tool.spec.parameters)
        if mismatch:
            return ToolAnswer(f"Error: the arguments of tool {call.name!r} don't fit: {mismatch}", ToolOutcome.FAILURE)
        if isinstance(tool, EngineTool):
            return await tool.answer(arguments, span)
        try:
            with CallingSpan(span):
                return _to_answer(call.name, await caller.call(f"tool {call.name}", tool.function, arguments))
        except BudgetExceededError:
            raise  # of a run inside the tool, for the budget of this one (E52)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is told to the model (E13)
            if faults := _describe_schema_faults(error, tool.schema):
                text = f"Error: the arguments of tool {call.name!r} don't fit: {faults}"
                return ToolAnswer(text, ToolOutcome.FAILURE, error)
            return ToolAnswer(_describe_fault(error), ToolOutcome.FAILURE, error)


def to_handler_function(handler: Any) -> Callable[[TaskInput], Any]:
    """Turn a handler into a function. A tool as handler gets the last context output, else the description (E2)."""
    is_function = type(handler) is FunctionType  # told at once; most are
    if is_function or (callable(handler) and not is_langchain_tool(handler) and not is_agent_tool(handler)):
        function: Callable[[TaskInput], Any] = handler
        return function
    tool = next(iter(_make_tools(handler)))

    def arguments(task: TaskInput) -> dict[str, Any]:
        text = task.context[-1].raw if task.context else task.description
        fitted, mismatch = fit_arguments(text, tool.spec.parameters)
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
    """What a model gets for what a tool gave; a value that no prompt can hold is a failure that says so (E47)."""
    value = None
    if isinstance(result, ToolResult):
        if not result.is_success:
            return ToolAnswer(f"Error: {result.error_message or NO_REASON}", ToolOutcome.FAILURE)
        result, value = result.output, result.structured_output
    try:
        written = write_value(result, config.max_table_chars)
    except UnwritableValueError as error:
        return ToolAnswer(f"Error: the result of tool {tool!r} can't be shown: {error}", ToolOutcome.FAILURE, error)
    warning = describe_limited_table(f"What tool {tool!r} returned", written) if written.shown else ""
    return ToolAnswer(written.text, ToolOutcome.SUCCESS, value=value, warning=warning)


def _describe_fault(error: Exception) -> str:
    """What a tool raised, as the model reads it: a bare ``'missing'`` says little without its type (E13)."""
    kind, message = type(error).__name__, get_message(error)
    if error.__cause__ is not None and message == summarize_error(error.__cause__):
        return f"Tool error: {message}"  # wrapped on its way here, since it would have ended the thread
    return f"Tool error: {kind}" if message == kind else f"Tool error: {kind}: {message}"


def to_text(result: Any) -> str:
    """The whole text of what a tool or handler gave back; None is empty."""
    return write_whole(result.output if isinstance(result, ToolResult) else result)


def _describe_schema_faults(error: Exception, schema: type | None) -> str:
    """The fields that a pydantic error about the arguments names; nothing for other errors, the tool's own included."""
    errors = getattr(error, "errors", None)
    if schema is None or getattr(error, "title", None) != schema.__name__ or not callable(errors):
        return ""
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors())


def _make_tools(entry: Any) -> Iterable[Tool]:
    if is_langchain_tool(entry):
        return [_from_langchain(entry)]
    if is_agent_tool(entry):
        return [_from_agent_tool(entry)]
    if methods := list(find_tool_methods(entry)):
        return [_from_langchain(_bind_method(method, entry)) for method in methods]
    return [_from_langchain(_make_langchain_tool(entry))]


def _make_langchain_tool(function: Callable[..., Any]) -> Any:
    """A LangChain tool from a plain function: schema from type hints, descriptions from the docstring."""
    from langchain_core.tools import StructuredTool

    kind = "coroutine" if is_async(function) else "func"
    text = None if function.__doc__ else function.__name__.replace("_", " ")
    named: Mapping[str, Any] = {kind: function}
    return StructuredTool.from_function(
        **named, name=function.__name__, description=text, parse_docstring=True, error_on_invalid_docstring=False
    )


def _bind_method(tool: Any, owner: Any) -> Any:
    """The tool of one object, from ``@tool`` on a method, whose ``self`` LangChain takes for one more argument."""
    bodies = [(kind, getattr(tool, kind, None)) for kind in ("func", "coroutine")]
    own: dict[str, Any] = {
        kind: body.__get__(owner)
        for kind, body in bodies
        if body is not None and "self" in inspect.signature(body).parameters
    }
    if "self" in tool.args:
        own["args_schema"] = _make_langchain_tool(next(iter(own.values()))).args_schema
    return tool.model_copy(update=own)


def _from_langchain(tool: Any) -> Tool:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    function = convert_to_openai_tool(tool)["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    spec = ToolSpec(name=function["name"], description=function.get("description", ""), parameters=parameters)
    schema = tool.args_schema if isinstance(tool.args_schema, type) else None

    async def call_async(arguments: dict[str, Any]) -> Any:
        return await tool.ainvoke(arguments)

    def call_sync(arguments: dict[str, Any]) -> Any:
        return tool.invoke(arguments)

    return Tool(spec, call_async if _runs_on_loop(tool) else call_sync, schema)


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

    async def call_async(arguments: dict[str, Any]) -> Any:
        result: Any = tool.execute(to_text(arguments[name]))
        return await result

    def call_sync(arguments: dict[str, Any]) -> Any:
        return tool.execute(to_text(arguments[name]))

    return Tool(spec, call_async if is_async(tool.execute) else call_sync)
