"""Does a task by an ensemble, which runs inside the run of the task, in place of an agent and a model (E54, E52)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.nested_ensemble import fill_inputs, find_final_output
from ensemble_notebook.domain.events import TaskInputPrepared, Warned
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.specs.inner_revision import InnerRevision, hand_down
from ensemble_notebook.engine.specs.revision import Revision
from ensemble_notebook.engine.task.task_work import TaskWork
from ensemble_notebook.engine.threads.function_caller import FunctionCaller


class EnsembleRunner:
    """Runs the ensembles of the tasks of one run.

    Args:
        inputs: of that run.
        caller: keeps inside what their runs raise.
    """

    def __init__(self, inputs: Mapping[str, Any], caller: FunctionCaller) -> None:
        self._inputs = inputs
        self._caller = caller
        self._left: dict[str, tuple[str, Mapping[str, str]]] = {}

    async def run(self, work: TaskWork) -> WorkResult:
        """What the final task of the ensemble of a task leaves.

        Raises:
            EnsembleError: it came to no end that leaves an output; or whatever its run raised.
        """
        node, resolved = work.node, work.resolved
        ensemble = node.task.ensemble
        assert ensemble is not None
        names, text = tuple(each.name for each in resolved.context), resolved.description
        work.span.emit(TaskInputPrepared, system_prompt="", user_prompt=text, context=names, build_s=0.0)
        values = fill_inputs(node.task.inputs, self._inputs, resolved.context, item=resolved.item)
        with CallingSpan(work.span), hand_down(self._make_revision(node.name, work.revision)):
            output = await self._caller.call(f"ensemble of {node.name}", ensemble.arun, values)
        final = find_final_output(output, f"The ensemble of task {node.name!r}")
        if output.status is RunStatus.COMPLETED_WITH_WARNINGS:
            work.span.emit(Warned, message=f"The ensemble of task {node.name!r} has completed with warnings.")
        self._left[node.name] = final.raw, {each.name: each.raw for each in output.task_outputs}
        return WorkResult(text=final.raw, role=node.role, value=final.parsed_output)

    def _make_revision(self, name: str, revision: Revision) -> InnerRevision | None:
        """What the tasks inside are to do better; None where nobody has said anything."""
        if not revision.feedback:
            return None
        text, previous = self._left.get(name, (None, None))
        return InnerRevision(revision=revision, previous=previous if text == revision.previous else None)
