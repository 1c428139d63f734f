"""The tools of one agent, in the one form that the loop calls (E1, E13).

A spec for the model, and a call that always answers with a text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.tool import (
    NO_REASON,
    SourcedTool,
    TaskInput,
    ToolResult,
    ToolReview,
    is_agent_tool,
    is_langchain_tool,
)
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolLeftRunning, ToolNeverBegun, ToolSpec
from ensemble_notebook.domain.value_text import UnwritableValueError, describe_limited_table, is_record, write_value
from ensemble_notebook.engine.agent.langchain_tools import Tool, adapt, body_of_call, make_tools
from ensemble_notebook.engine.agent.tool_arguments import fit_arguments, fit_text
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan, find_calling_span
from ensemble_notebook.engine.function_caller import FunctionCaller, ThreadCall, is_unfinished
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
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
class EngineTool:
    """A tool of the engine itself: it knows the span of its call, and answers in its own words."""

    spec: ToolSpec
    answer: Callable[[dict[str, Any], SpanEmitter], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class CallToReview:
    """A call of a reviewed tool.

    Attributes:
        call: with its arguments by name.
        spec: of the tool.
        review: when somebody is asked about its calls.
    """

    call: ToolCall
    spec: ToolSpec
    review: ToolReview


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
                tools += [_from_source(entry, ask)] if isinstance(entry, SourcedTool) else make_tools(entry)
            except Exception as error:
                label = getattr(entry, "__name__", None) or getattr(entry, "name", type(entry).__name__)
                message = f"Tool at index {index} ({label}) can't be shown to a model: {summarize_error(error)}"
                raise ValidationError(Problem(message, field="tools", item=index)) from error
        self._tools: dict[str, Tool | EngineTool] = {tool.spec.name: tool for tool in tools}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(tool.spec for tool in self._tools.values())

    @cached_property
    def character_count(self) -> int:
        """How long all that is that a model is told of the tools."""
        return sum(len(each.name) + len(each.description) + len(json.dumps(each.parameters)) for each in self.specs)

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

    def find_reviewed(self, call: ToolCall) -> CallToReview | ToolAnswer | None:
        """A requested call of a reviewed tool; an answer where its arguments don't fit; None for one of another tool.

        Arguments of such a call are never mended: what is asked about is what came.
        """
        tool = self._tools.get(call.name)
        if not isinstance(tool, Tool) or tool.review is None:
            return None
        arguments, mismatch = fit_arguments(call.arguments, tool.spec.parameters, mends=False)
        if mismatch:
            return _refuse_arguments(call, mismatch)
        fitted = ToolCall(id=call.id, name=call.name, arguments=arguments)  # a dict of its own; `replace` is slow
        return CallToReview(fitted, tool.spec, tool.review)

    async def answer(
        self,
        call: ToolCall,
        caller: FunctionCaller,
        span: SpanEmitter,
        *,
        mends: bool = True,
        is_fitted: bool = False,
    ) -> ToolAnswer:
        """Run a requested call, in its span. A fault of the tool or the request is told to the model.

        Args:
            call: what is asked for.
            caller: calls the tool.
            span: of the call.
            mends: as of `fit_arguments`.
            is_fitted: whether its arguments are those of `find_reviewed`, which fit already.

        Raises:
            Exception: what a tool of the engine raises, which ends the task.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            hint = did_you_mean(call.name, self._tools)
            return ToolAnswer(f"Error: there is no tool named {call.name!r}.{hint}", ToolOutcome.FAILURE)
        arguments, mismatch = call.arguments, ""
        if not is_fitted:
            arguments, mismatch = fit_arguments(arguments, tool.spec.parameters, mends=mends)
        if mismatch:
            return _refuse_arguments(call, mismatch)
        if isinstance(tool, EngineTool):
            return await tool.answer(arguments, span)
        left: list[ThreadCall] = []
        ended: list[Callable[[], Any]] = []
        body = body_of_call.set(ended)
        try:
            with CallingSpan(span):
                calling = caller.call(f"tool {call.name}", tool.function, arguments, on_left=left.append)
                return to_answer(tool.spec.name, await calling)
        except (BudgetExceededError, TaskAbandoned):
            raise  # a run inside the tool has used up the budget of this one, or was ended by a review (E52, E54)
        except asyncio.CancelledError as stopped:
            if (met := _read_stop(tool, left, ended)) is not None:
                raise met from stopped
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is told to the model
            return _to_failure(tool, error)
        finally:
            body_of_call.reset(body)


def _refuse_arguments(call: ToolCall, mismatch: str) -> ToolAnswer:
    return ToolAnswer(f"Error: the arguments of tool {call.name!r} don't fit: {mismatch}", ToolOutcome.FAILURE)


def _read_end(tool: Tool, give_result: Callable[[], Any]) -> ToolAnswer | None:
    """What a tool says that nobody waits for; None where it was stopped, as a run inside it."""
    try:
        result = give_result()
        return None if is_unfinished(result) else to_answer(tool.spec.name, result)
    except (BudgetExceededError, TaskAbandoned):
        return None
    except Exception as error:  # noqa: BLE001 - as of a tool that somebody waits for
        is_stopped = isinstance(error.__cause__, KeyboardInterrupt | asyncio.CancelledError)
        return None if is_stopped else _to_failure(tool, error)


def _read_stop(tool: Tool, left: Sequence[ThreadCall], ended: Sequence[Callable[[], Any]]) -> BaseException | None:
    """What a stop has met instead of a tool that took it; None where it did."""
    if left:
        call = left[0]
        late = ToolLeftRunning(lambda hear: call.hear_end(lambda give: hear(_read_end(tool, give))))
        return late if call.has_begun else ToolNeverBegun()
    if tool.is_remote:
        return ToolLeftRunning()
    answer = _read_end(tool, ended[0]) if ended else None
    return None if answer is None else ToolLeftRunning(lambda hear: hear(answer), answer)


def _to_failure(tool: Tool, error: Exception) -> ToolAnswer:
    errors = getattr(error, "errors", None)
    # The fields that a pydantic error about the arguments names; nothing for other errors, the tool's own included.
    if tool.schema is not None and getattr(error, "title", None) == tool.schema.__name__ and callable(errors):
        own = tool.own_names
        places = ((".".join(own.get(str(part), str(part)) for part in each["loc"]), each["msg"]) for each in errors())
        if faults := "; ".join(f"{place}: {message}" for place, message in places):
            text = f"Error: the arguments of tool {tool.spec.name!r} don't fit: {faults}"
            return ToolAnswer(text, ToolOutcome.FAILURE, error)
    kind, message = type(error).__name__, get_message(error)
    if error.__cause__ is not None and message == summarize_error(error.__cause__):
        kind = message  # wrapped on its way here, since it would have ended the thread
    # A bare ``'missing'`` says little without its type.
    told = f"Tool error: {kind}" if message == kind else f"Tool error: {kind}: {message}"
    return ToolAnswer(told, ToolOutcome.FAILURE, error)


def to_handler_function(handler: Any) -> Callable[[TaskInput], Any]:
    """Turn a handler into a function. A tool as handler gets the last context output, else the description."""
    is_function = type(handler) is FunctionType  # told at once; most are
    if is_function or (callable(handler) and not is_langchain_tool(handler) and not is_agent_tool(handler)):
        function: Callable[[TaskInput], Any] = handler
        return function
    tool = next(iter(make_tools(handler)))

    def arguments(task: TaskInput) -> dict[str, Any]:
        text = task.context[-1].raw if task.context else task.description
        fitted, mismatch = fit_text(text, tool.spec.parameters)
        if mismatch:
            message = f"Tool {tool.spec.name!r} can't handle task {task.name!r}: {mismatch}"
            raise ToolExecutionError(message, tool_name=tool.spec.name, tool_input=text)
        return fitted

    return adapt(tool.function, arguments)


def to_answer(tool: str, result: Any) -> ToolAnswer:
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


def _from_source(tool: SourcedTool, ask: AskInSpan | None) -> Tool:
    spec = ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)

    async def call(arguments: dict[str, Any]) -> Any:
        calling = find_calling_span()

        async def ask_here(question: str) -> str | None:
            return None if ask is None or calling is None else await ask(tool.name, question, calling.span)

        return await tool.call(arguments, ask_here)

    return Tool(spec, call, is_remote=True, review=tool.review)
