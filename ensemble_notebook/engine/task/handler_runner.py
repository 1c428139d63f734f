"""Does a task by its handler, which is the user's function or tool, in place of an agent and a model (E2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ensemble_notebook.domain.definitions.tool import ToolResult
from ensemble_notebook.domain.events import TaskInputPrepared
from ensemble_notebook.domain.value_text import is_table
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.agent.retry_policy import compute_backoff
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import to_handler_function, to_text
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.lifecycle.task_abandonment import TaskAbandoned
from ensemble_notebook.engine.task.task_work import TaskWork
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import EnsembleError, ToolExecutionError


async def run_handler(
    work: TaskWork, inputs: Mapping[str, Any], caller: FunctionCaller, draw: Callable[[], float]
) -> WorkResult:
    """What the handler of a task gives, held to the task's output type.

    Args:
        work: the task; it has a handler.
        inputs: of the run.
        caller: calls the handler.
        draw: gives a random number from 0 to 1, for the waits between attempts (E30).

    Raises:
        ToolExecutionError: it reported a failure.
        OutputParsingError: its result is not of the output type. Nobody can be asked to correct it.
        Exception: what the handler raised.
    """
    node, resolved = work.node, work.resolved
    names = tuple([each.name for each in resolved.context])
    work.span.emit(TaskInputPrepared, system_prompt="", user_prompt=resolved.description, context=names, build_s=0.0)
    function, max_retries = to_handler_function(node.task.handler), node.task.max_retries or 0
    for attempt in range(1, max_retries + 2):  # nobody can tell which faults would pass
        try:
            with CallingSpan(work.span):
                result = await caller.call(f"handler of {node.name}", function, work.make_input(inputs))
        except (EnsembleError, TaskAbandoned):
            raise
        except Exception as error:
            if attempt > max_retries:
                raise
            delay_s = compute_backoff(attempt, draw())
            work.try_again(error, delay_s)
        else:
            break
        await asyncio.sleep(delay_s)
    is_slow = is_table(result)  # to write a table of a million rows takes seconds
    text = await caller.call(f"writing the table of {node.name}", to_text, result) if is_slow else to_text(result)
    return _read_result(work, result, text)


def _read_result(work: TaskWork, result: Any, text: str) -> WorkResult:
    """What a handler has given, and that as a text, as the result of its task."""
    node = work.node
    if not isinstance(result, ToolResult):
        value = None if isinstance(result, str) else result
    elif result.is_success:
        value = result.structured_output
    else:
        message = f"The handler of task {node.name!r} reported a failure: {result.error_message or 'it gave no reason'}"
        raise ToolExecutionError(message, tool_name=node.name, tool_input=work.resolved.description)
    if node.task.output_type is not None:
        value = get_output_format(node.task.output_type).read_or_fail(text, value)
    return WorkResult(text=text, role=node.role, value=value)
