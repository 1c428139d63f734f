"""Runs one row of a map: its work is a run of its own, which is nested in the map's task for the row (E52)."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask


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
