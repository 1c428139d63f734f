"""Does a task without an agent: by a handler, which is the user's function or tool (E2), or by an ensemble (E54)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from ensemble_notebook.domain.definitions.agent import USUAL_RETRY_WAIT_S
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.definitions.nested_ensemble import NestedOutput, fill_inputs, find_final_output
from ensemble_notebook.domain.definitions.review import NOBODY_HERE
from ensemble_notebook.domain.definitions.tool import TaskInput, ToolResult
from ensemble_notebook.domain.events import TaskInputPrepared, Warned
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import is_table
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.agent.langchain_tools import to_text
from ensemble_notebook.engine.agent.retry_delay import compute_backoff
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import to_handler_function
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.run_services import RunServices, find_parent_run
from ensemble_notebook.engine.run_spec import InnerRevision, ResolvedTask, hand_down
from ensemble_notebook.engine.task.task_work import TaskWork
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.errors import EnsembleError, ToolExecutionError


async def run_handler(work: TaskWork, inputs: Mapping[str, Any], services: RunServices) -> WorkResult:
    """What the handler of a task gives, held to the task's output type.

    Args:
        work: the task; it has a handler.
        inputs: of the run, as the handler sees them.
        services: of the run.

    Raises:
        ToolExecutionError: it reported a failure.
        OutputParsingError: its result is not of the output type. Nobody can be asked to correct it.
        Exception: what the handler raised.
    """
    node, resolved, caller = work.node, work.resolved, services.caller
    names = tuple([each.name for each in resolved.context])
    work.span.emit(TaskInputPrepared, system_prompt="", user_prompt=resolved.description, context=names, build_s=0.0)
    function, max_retries = to_handler_function(node.task.handler), node.task.max_retries or 0
    for attempt in range(1, max_retries + 2):  # nobody can tell which faults would pass
        try:
            with CallingSpan(work.span):
                given = work.make_input(inputs)
                result = await caller.call(f"handler of {node.name}", function, given, timer=work.span.timer)
        except (EnsembleError, TaskAbandoned):
            raise
        except Exception as error:
            if attempt > max_retries:
                raise
            delay_s = compute_backoff(attempt, services.draw(), most=node.task.max_retry_wait or USUAL_RETRY_WAIT_S)
            work.try_again(error, delay_s)
        else:
            break
        await asyncio.sleep(delay_s)
    is_slow = is_table(result)  # to write a table of a million rows takes seconds
    text = await caller.call(f"writing the table of {node.name}", to_text, result) if is_slow else to_text(result)
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


async def run_row(resolved: ResolvedTask, span: SpanEmitter) -> TaskOutput:
    """The output of a row.

    What `TaskRunner` does around a handler (memory, guardrails, reviews, attempts, deadlines) the run of the row has
    for its own tasks. Without it, what the garbage collector has to look at for each row under way is a quarter less.

    Raises:
        Exception: what ended the run of the row.
    """
    node, description = resolved.node, resolved.description
    handler: Any = node.task.handler  # the map's own
    del resolved
    with CallingSpan(span):
        text = await handler(TaskInput(name=node.name, description=description, expected_output=""))
    return WorkResult(text=text, role=node.role).to_output(node.name, description, span)


def leave_with(output: NestedOutput) -> None:
    """Where a review has ended a run that did a task or a tool call, the run around it ends early, too.

    Raises:
        TaskAbandoned: it has, so that nothing goes on with what that run has not done.
    """
    parent = find_parent_run()
    if output.status is RunStatus.EXITED_EARLY and parent is not None and parent.exit_early is not None:
        is_unanswered = output.exit_reason is ExitReason.NOBODY_TO_ASK
        words = "nobody could be asked" if is_unanswered else "a review ended a run inside"
        if is_unanswered and parent.warn is not None:
            parent.warn(f"A run inside was ended by a review: {NOBODY_HERE}.")
        parent.exit_early(output.exit_reason, words)
        raise TaskAbandoned(f"not done: {words}")


def tell_warnings(output: NestedOutput, whose: str, span: SpanEmitter) -> None:
    """Tell what a run that did a task or a tool call warned of: whoever began it never sees its output."""
    for each in output.warnings:
        span.emit(Warned, message=f"{whose} warns: {each}")


async def run_ensemble(
    work: TaskWork, services: RunServices, left: MutableMapping[str, tuple[str, Mapping[str, str]]]
) -> WorkResult:
    """What the final task of the ensemble of a task leaves.

    Args:
        work: the task.
        services: of its run.
        left: by name of each task of the run, what its ensemble has left last: the output, and those of its tasks.

    Raises:
        EnsembleError: it came to no end that leaves an output; or whatever its run raised.
    """
    node, resolved, told = work.node, work.resolved, f"The ensemble of task {work.node.name!r}"
    ensemble = node.task.ensemble
    assert ensemble is not None
    names, text = tuple(each.name for each in resolved.context), resolved.description
    work.span.emit(TaskInputPrepared, system_prompt="", user_prompt=text, context=names, build_s=0.0)
    values = fill_inputs(node.task.inputs, services.inputs, resolved.context, item=resolved.item)
    revision = None
    # Another attempt without feedback (a handler failed, something it reads has changed) begins inside from nothing.
    if work.revision.feedback:  # else nobody has said what the tasks inside are to do better
        last, previous = left.get(node.name, (None, None))
        is_known = last == work.revision.previous
        revision = InnerRevision(revision=work.revision, previous=previous if is_known else None)
    with CallingSpan(work.span), hand_down(revision):
        output = await services.caller.call(f"ensemble of {node.name}", ensemble.arun, values)
    leave_with(output)
    final = find_final_output(output, told)
    if output.status is RunStatus.COMPLETED_WITH_WARNINGS:
        work.span.emit(Warned, message=f"{told} has completed with warnings.")
    tell_warnings(output, told, work.span)
    left[node.name] = final.raw, {each.name: each.raw for each in output.task_outputs}
    return WorkResult(text=final.raw, role=node.role, value=final.parsed_output)
