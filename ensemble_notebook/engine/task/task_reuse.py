"""Compares each task with those of earlier runs, before it starts, and keeps what it leaves behind (C34).

Knows no store: `KeptTasks` does, and `TaskKeys` knows what counts. Without them nothing is compared, and nothing kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.definitions.templates import find_input_name
from ensemble_notebook.domain.events import TaskNotReused
from ensemble_notebook.domain.fingerprints.task_start import TaskKeys, TaskStart
from ensemble_notebook.domain.outputs.task_output import Saving, TaskOutput
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.domain.planning.nested_tasks import find_typed_task, is_never_reused
from ensemble_notebook.domain.seams.asking_task import make_task_path
from ensemble_notebook.domain.seams.run_memory import KeptTask, KeptTasks, PendingKey
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.specs.revision import FIRST_ATTEMPT, Revision
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.task.task_work import MemoryEntries
from ensemble_notebook.engine.task.watched_inputs import WatchedInputs
from ensemble_notebook.errors import OutputParsingError, summarize_error

NEVER: Final = "it says reuse: never"
_APPROVED: Final = "APPROVE"


class TaskReuse:
    """What earlier runs have left for the tasks of this one, and what this one leaves.

    Args:
        spec: the run.
        kept_tasks: of earlier runs, and where this one's are kept; None where nothing is.
        revisions: of the tasks that are not at their first attempt.
    """

    def __init__(
        self, spec: RunSpec, kept_tasks: KeptTasks | None, revisions: MutableMapping[TaskNode, Revision]
    ) -> None:
        self._graph = spec.graph
        self._keys = spec.task_keys
        self._kept_tasks = kept_tasks
        self._revisions = revisions
        self._is_reusing = spec.is_reusing
        self._only = spec.only
        self._inputs = spec.inputs
        self._conversations = spec.conversations
        self._made: dict[TaskNode, PendingKey] = {}
        self._made_for_first: dict[TaskNode, PendingKey] = {}
        self._made_of_list: dict[TaskNode, PendingKey] = {}
        self._has_read_list: set[TaskNode] = set()
        self._delegated: dict[TaskNode, tuple[TaskOutput, ...]] = {}
        self._remembered_at: dict[TaskNode, datetime] = {}

    def find(self, resolved: ResolvedTask, memory: MemoryEntries, span: SpanEmitter) -> TaskOutput | None:
        """The output of an earlier run that serves in place of a task about to start; None where it runs.

        Says why it runs, where somebody has asked for reuse. What counts is what it is given now: what people and
        guardrails do to it from here on is part of the work.
        """
        if self._keys is None or self._kept_tasks is None:
            return None
        node = resolved.node
        key = self._made[node] = self._make_key(self._keys, resolved, memory)
        if not self._is_reusing:
            return None
        is_asked_for = self._only is not None and node.index == self._only.task
        kept, reason = self._kept_tasks.find(self._make_path(node), key.get(), is_asked_for=is_asked_for)
        if kept is None and (of_list := self._made_of_list.get(node)) is not None:
            kept, other = self._kept_tasks.find(self._make_path(node), of_list.get(), is_asked_for=is_asked_for)
            if kept is not None:
                reason = other
                self._has_read_list.add(node)  # as its code did then
        if kept is not None:
            try:
                output = _make_output(kept, resolved, reason)
            except OutputParsingError as error:
                reason = f"what is kept of it is not of its output type: {summarize_error(error)}"
            else:
                self._delegated[node] = kept.delegated
                if kept.attempt > resolved.revision.attempt:
                    self._revisions[node] = Revision(attempt=kept.attempt, feedback=kept.feedback, previous=output.raw)
                return output
        span.emit(TaskNotReused, reason=reason)
        return None

    def watch_inputs(self, node: TaskNode, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs for the code of a task; that of an item may look at the whole list, which counts then."""
        name = _find_item_input(node)
        if name is None or node not in self._made_of_list:
            return inputs
        return WatchedInputs(inputs, name, lambda: self._has_read_list.add(node))

    def note_remembered(self, node: TaskNode, output: TaskOutput) -> None:
        """Memories have this output now, as of this time, which tells their entries apart (C34a)."""
        self._remembered_at[node] = output.completed_at

    def keep(self, node: TaskNode, output: TaskOutput, delegated: Sequence[TaskOutput] = ()) -> None:
        """A task is done, and its duration is fixed; its output is kept, so that later runs find it."""
        of_list = self._made_of_list.pop(node, None)
        if (key := self._made.pop(node, None)) is not None:
            has_read = of_list is not None and node in self._has_read_list
            self._keep(node, of_list if has_read and of_list is not None else key, output, delegated)

    def keep_approved(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> None:
        """The review of a phase is content with these outputs.

        From now on they are what a first attempt comes to, in place of those that the review has sent back.
        """
        by_name = {output.name: output for output in outputs}
        for node in [self._graph.tasks[index] for index in phase.tasks]:
            key, output = self._made_for_first.pop(node, None), by_name.get(node.name)
            if key is not None and output is not None:
                self._keep(node, key, output)
        if phase.reviewer is None and outputs and self._keys is not None and self._kept_tasks is not None:
            answer = replace(outputs[-1], name=phase.name, raw=_APPROVED, parsed_output=None, saving=None)
            made = self._keys.make_review_key(phase, outputs)
            self._kept_tasks.keep(f"{phase.name}/", PendingKey(lambda: made), answer)

    def keep_approving_answer(self, reviewer: TaskNode, output: TaskOutput) -> None:
        """The task that reviews a phase approves of it; what it says to a phase that is not there yet is not kept."""
        for key in (self._made.pop(reviewer, None), self._made_for_first.pop(reviewer, None)):
            if key is not None:
                self._keep(reviewer, key, output)

    def is_approved(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> bool:
        """Whether the callable that reviews a phase has approved these very outputs in an earlier run."""
        if not self._is_reusing or self._keys is None or self._kept_tasks is None:
            return False
        kept, _ = self._kept_tasks.find(f"{phase.name}/", self._keys.make_review_key(phase, outputs))
        return kept is not None and kept.output.raw == _APPROVED

    def take_delegated(self, node: TaskNode) -> tuple[TaskOutput, ...]:
        """What the workers of a manager had completed when its task was done, where that is reused (E22)."""
        return tuple(replace(each, reused=True, tool_call_count=0) for each in self._delegated.pop(node, ()))

    def _make_path(self, node: TaskNode) -> str:
        return make_task_path(node.name, self._graph.get_phase_name(node))

    def _make_key(self, keys: TaskKeys, resolved: ResolvedTask, memory: MemoryEntries) -> PendingKey:
        """The key of a start; of one that is not the first, also what the first would have with the same input."""
        node, revision = resolved.node, resolved.revision
        start = TaskStart(
            node=node,
            description=resolved.description,
            expected_output=resolved.expected_output,
            context=resolved.context,
            missing=tuple([each.reason for each in resolved.missing]),
            memory=memory,
            feedback=revision.feedback,
            previous=revision.previous,
            conversation=self._conversations.get(node.name, ()) if node.agent is not None else (),
            inputs=self._inputs,
            item=resolved.item,
        )
        if resolved.is_item and _find_item_input(node) is not None:
            whole = replace(start, reads_items=True)
            self._made_of_list[node] = _respect_mode(node, PendingKey(partial(keys.make_key, whole)))
        if revision.attempt > 1:
            first = replace(start, feedback=(), previous=None)
            self._made_for_first[node] = _respect_mode(node, keys.make_key_later(first))
        return _respect_mode(node, keys.make_key_later(start))

    def _keep(self, node: TaskNode, key: PendingKey, output: TaskOutput, delegated: Sequence[TaskOutput] = ()) -> None:
        if self._kept_tasks is not None:
            if (remembered_at := self._remembered_at.get(node)) is not None:
                output = replace(output, completed_at=remembered_at)
            obstacles = (_find_obstacle(each, node) for each in (output, *delegated))
            obstacle = next((each for each in obstacles if each is not None), None)
            revision = self._revisions.get(node, FIRST_ATTEMPT)
            self._kept_tasks.keep(
                self._make_path(node),
                key,
                output,
                delegated,
                obstacle=obstacle,
                attempt=revision.attempt,
                feedback=revision.feedback,
            )


def _find_item_input(node: TaskNode) -> str | None:
    """The name of the input for whose items a task runs; None where they come from elsewhere, or it runs once."""
    source = node.task.for_each
    return find_input_name(source) if isinstance(source, str) else None


def _respect_mode(node: TaskNode, key: PendingKey) -> PendingKey:
    """A task that is never to be reused has that as an obstacle; whoever goes on with its run has it all the same."""
    return PendingKey(lambda: replace(key.get(), obstacle=NEVER)) if is_never_reused(node) else key


def _make_output(kept: KeptTask, resolved: ResolvedTask, reason: str) -> TaskOutput:
    """The output of an earlier run as that of a task, whose name and texts may be others by now.

    Raises:
        OutputParsingError: its text is not of the output type.
    """
    node, output = resolved.node, kept.output
    output_type = find_typed_task(node).output_type
    is_typed = output_type is not None
    value = get_output_format(output_type).read_or_fail(output.raw) if is_typed else output.parsed_output
    return replace(
        output,
        name=node.name,
        task_description=resolved.description,
        parsed_output=value,
        tool_call_count=0,
        reused=True,
        saving=Saving(
            run_id=kept.run_id,
            reason=reason,
            tokens=kept.tokens,
            cost=kept.cost,
            currency=kept.currency,
            duration=timedelta(milliseconds=kept.duration_ms),
        ),
    )


def _find_obstacle(output: TaskOutput, node: TaskNode) -> str | None:
    """Why an output can't be given back later; None where it can. Secrets in it are found where it is written."""
    value = output.parsed_output
    if value is None:
        return None
    if find_typed_task(node).output_type is not None:
        return None if _is_read_again(output, node) else "its value is another one than its text says"
    try:
        is_plain = json.loads(json.dumps(value, ensure_ascii=False)) == value
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    return None if is_plain else f"its output is a {type(value).__name__}, which can't be kept as JSON"


def _is_read_again(output: TaskOutput, node: TaskNode) -> bool:
    """Whether the text of a typed output reads as its value. That of an agent does: it was read from there."""
    task = find_typed_task(node)
    if task.has_agent:
        return True
    try:
        return bool(get_output_format(task.output_type).read_or_fail(output.raw) == output.parsed_output)
    except OutputParsingError:
        return False
