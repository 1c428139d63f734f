"""Compares each task with those of earlier runs, before it starts, and keeps what it leaves behind (C34).

Knows no store: `KeptTasks` does, and `TaskKeys` knows what counts. Without them nothing is compared, and nothing kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ReviewTiming
from ensemble_notebook.domain.definitions.review import A_PERSON, ReviewAnswer, ReviewHandler, Verdict, name_reviewer
from ensemble_notebook.domain.events import TaskNotReused, Warned
from ensemble_notebook.domain.fingerprints.task_keys import TaskStart
from ensemble_notebook.domain.outputs.task_output import Saving, TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import find_typed_task, has_gates_inside, is_never_reused
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.seams.kept_tasks import (
    NO_KEY,
    Approval,
    DoneTask,
    InputRead,
    KeptTask,
    KeptTasks,
    PendingKey,
)
from ensemble_notebook.engine.agent.prompts import NO_MEMORY, MemoryEntries
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.engine.run_spec import FIRST_ATTEMPT, ResolvedTask, Revision
from ensemble_notebook.errors import OutputParsingError, summarize_error

PERSON: Final = "person"
_PASSED: Final = (Verdict.APPROVE, Verdict.EDIT)
GATES_INSIDE: Final = "its ensemble has reviews, so that its tasks are compared one by one"
NEVER: Final = "it says reuse: never"
_APPROVED: Final = "APPROVE"


_NOT_COMPARED: Final = PendingKey(lambda: NO_KEY)


class TaskReuse:
    """What earlier runs have left for the tasks of this one, and what this one leaves.

    Args:
        services: of the run.
        revisions: of the tasks that are not at their first attempt.
    """

    def __init__(self, services: RunServices, revisions: MutableMapping[TaskNode, Revision]) -> None:
        self._spec = services.spec
        self._keys = services.spec.task_keys
        self._kept_tasks = services.kept_tasks
        self._revisions = revisions
        self._made: dict[TaskNode, PendingKey] = {}
        self._made_for_first: dict[TaskNode, PendingKey] = {}
        self._reads: dict[TaskNode, set[InputRead]] = defaultdict(set)
        self._delegated: dict[TaskNode, tuple[TaskOutput, ...]] = {}
        self._given: set[TaskNode] = set()
        self._remembered_at: dict[TaskNode, datetime] = {}
        self._approvals: dict[TaskNode, tuple[Approval, ...]] = {}

    def find(self, resolved: ResolvedTask, memory: MemoryEntries, span: SpanEmitter) -> TaskOutput | None:
        """The output of an earlier run that serves in place of a task about to start; None where it runs.

        Says why it runs, where somebody has asked for reuse. What counts is what it is given now: what people and
        guardrails do to it from here on is part of the work.
        """
        if self._kept_tasks is None or (self._keys is None and not self._spec.is_reusing):
            return None
        node = resolved.node
        self._approvals.pop(node, None)  # those of an attempt before are of another output
        key = self._make_key(resolved, memory)
        if self._keys is not None:
            self._made[node] = key
        if not self._spec.is_reusing:
            return None
        kept, output, reason = self._look_up(self._kept_tasks, resolved, key)
        if kept is None or output is None:
            span.emit(TaskNotReused, reason=reason)
            return None
        if kept.warning:
            span.emit(Warned, message=kept.warning)
        self._delegated[node] = kept.delegated
        self._reads[node].update(kept.reads)
        self._approvals[node] = kept.approvals
        if kept.is_given:
            self._given.add(node)
        if kept.attempt > resolved.revision.attempt:
            self._revisions[node] = Revision(attempt=kept.attempt, feedback=kept.feedback, previous=output.raw)
        return output

    def _look_up(
        self, kept_tasks: KeptTasks, resolved: ResolvedTask, key: PendingKey
    ) -> tuple[KeptTask | None, TaskOutput | None, str]:
        """What is kept of a task, its output as that of this run, and why it serves or does not."""
        node = resolved.node
        only = self._spec.only
        is_asked_for = only is not None and node.index == only.task
        attempt = resolved.revision.attempt
        kept, reason = kept_tasks.find(self._make_path(node), key.get(), attempt=attempt, is_asked_for=is_asked_for)
        if kept is None:
            return None, None, reason
        try:
            return kept, _make_output(kept, resolved, reason), reason
        except OutputParsingError as error:
            return None, None, f"what is kept of it is not of its output type: {summarize_error(error)}"

    def take_given(self, node: TaskNode) -> bool:
        """Whether somebody gives the output that was found, so that it is still to be judged; is asked once."""
        is_given = node in self._given
        self._given.discard(node)
        return is_given

    def is_given(self, node: TaskNode) -> bool:
        """Whether the output of a task for each item is given as a whole."""
        return self._kept_tasks is not None and self._kept_tasks.is_given(self._make_path(node))

    def find_passed(self, item: ResolvedTask) -> tuple[Approval, ...]:
        """By whom the gate before a task for each item was passed in the run that this item would be reused from.

        Empty where the item would run, or may: what its memories find is known only when it starts.
        """
        if not self._spec.is_reusing or self._kept_tasks is None or item.node.task.memory:
            return ()
        kept, _, _ = self._look_up(self._kept_tasks, item, self._make_key(item, NO_MEMORY))
        return () if kept is None else _select(kept.approvals, ReviewTiming.BEFORE)

    def take_over_passed(self, whole: TaskNode, approvals: tuple[Approval, ...]) -> None:
        """A task for each item starts, before which these have let it pass in the runs that its items come from."""
        self._approvals[whole] = approvals

    def has_passed(self, node: TaskNode, timing: ReviewTiming) -> bool:
        """Whether a gate of a task has let it pass: in this run, or in those that its reused output comes from."""
        return any(each.gate == timing.value for each in self._approvals.get(node, ()))

    def note_passed(
        self, node: TaskNode, timing: ReviewTiming, answer: ReviewAnswer, reviewer: ReviewHandler | None
    ) -> None:
        """A gate has let a task pass, by somebody's decision."""
        if self._keys is None or answer.decision.verdict not in _PASSED:
            return
        by = answer.by or "somebody"
        # What was answered in an earlier run may have been answered by another handler of that name.
        known = None if answer.is_kept and by != A_PERSON else self._identify(reviewer)
        approval = Approval(timing.value, by, PERSON if by == A_PERSON else known)
        if timing is ReviewTiming.AFTER and answer.decision.verdict is Verdict.EDIT:
            self._forget_approvals(node)
        self._approvals[node] = (*self._approvals.get(node, ()), approval)

    def _forget_approvals(self, node: TaskNode) -> None:
        """What was approved of an output is not said of another one."""
        self._approvals[node] = _select(self._approvals.get(node, ()), ReviewTiming.BEFORE)

    def find_approved(self, node: TaskNode, output: TaskOutput, reviewer: ReviewHandler | None) -> TaskOutput | None:
        """A reused output that the same reviewer has approved, which it says; None where it is to be asked about."""
        found = self.find_approval(node, reviewer)
        if found is None or output.saving is None:
            return None
        return replace(output, saving=replace(output.saving, reason=f"reused; {found}"))

    def find_approval(self, node: TaskNode, reviewer: ReviewHandler | None) -> str | None:
        """Who has approved the output of an earlier run, and when, in words; None where it was not this reviewer."""
        who = self._identify(reviewer)
        approvals = _select(self._approvals.get(node, ()), ReviewTiming.AFTER)
        found = next((each for each in reversed(approvals) if who is not None and each.reviewer == who), None)
        return None if found is None else f"approved by {found.by} in run {found.run_id}"

    def recall_whole(self, resolved: ResolvedTask, output: TaskOutput) -> TaskOutput:
        """The output of a task for each item as the gate behind it left it, where all its items are of earlier runs.

        Whoever approved it then is known from here on. What was not seen there is as it is, and approved by nobody.
        """
        node = resolved.node
        self._forget_approvals(node)
        is_reused = all(each.reused for each in output.item_outputs) and not output.item_failures
        if not self._spec.is_reusing or not is_reused or self._keys is None or self._kept_tasks is None:
            return output
        made = self._keys.make_whole_key(node, resolved.description, output)
        kept, _ = self._kept_tasks.find(f"{self._make_path(node)}/", made)
        if kept is None:
            return output
        left = _select(kept.approvals, ReviewTiming.AFTER)
        self._approvals[node] = (*self._approvals[node], *left)
        text = kept.output.raw
        return output if text == output.raw else replace(output, raw=text, parsed_output=None)

    def give_up(self, node: TaskNode, span: SpanEmitter, reason: str) -> None:
        """What was found does not serve after all, and the task runs."""
        self._forget_approvals(node)
        span.emit(TaskNotReused, reason=reason)

    def tell_of_items(self, outputs: Sequence[TaskOutput], span: SpanEmitter, approval: str | None = None) -> None:
        """Say of a task for each item, which is put together anew, how many of its items were reused; who approved."""
        if self._spec.is_reusing and outputs:
            reused = f"reused: {sum(each.reused for each in outputs)} of {len(outputs)}"
            reason = "; ".join(filter(None, ("it is put together from its items", reused, approval)))
            span.emit(TaskNotReused, reason=reason)

    def _identify(self, reviewer: ReviewHandler | None) -> str | None:
        """What two reviewers have in common that count as the same; None for what can't be compared, and for nobody."""
        if reviewer is None or self._keys is None:
            return None
        return PERSON if name_reviewer(reviewer) == A_PERSON else self._keys.identify_reviewer(reviewer)

    def watch_inputs(self, node: TaskNode, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs for the code of a task: what it reads of them, in whatever attempt, counts."""
        return inputs if node not in self._made else WatchedInputs(inputs, self._reads[node].add)

    def note_remembered(self, node: TaskNode, output: TaskOutput) -> None:
        """Memories have this output now, as of this time, which tells their entries apart."""
        self._remembered_at[node] = output.completed_at

    def keep(
        self,
        node: TaskNode,
        output: TaskOutput,
        delegated: Sequence[TaskOutput] = (),
        *,
        whole: TaskNode | None = None,
    ) -> None:
        """A task is done, and its duration is fixed; its output is kept, so that later runs find it.

        Args:
            node: the task.
            output: of it.
            delegated: what its workers completed.
            whole: the task that it is an item of, which is sent back for it.
        """
        revision = self._revisions.get(whole or node, FIRST_ATTEMPT)
        if self._keys is None and self._kept_tasks is not None:  # for those who fork this very run
            self._kept_tasks.keep(
                DoneTask(
                    path=self._make_path(node),
                    key=_NOT_COMPARED,
                    output=output,
                    delegated=tuple(delegated),
                    attempt=revision.attempt,
                    feedback=revision.feedback,
                )
            )
        elif (key := self._made.pop(node, None)) is not None:
            self._keep(node, key, output, revision, delegated)

    def keep_item(self, whole: TaskNode, node: TaskNode, output: TaskOutput) -> None:
        """One item of a task is done, to whose approvals those of the gate before the whole belong."""
        passed = _select(self._approvals.get(whole, ()), ReviewTiming.BEFORE)
        if passed:
            self._approvals[node] = tuple(dict.fromkeys((*self._approvals.get(node, ()), *passed)))
        self.keep(node, output, whole=whole)

    def keep_whole(self, resolved: ResolvedTask, joined: TaskOutput, reviewed: TaskOutput) -> None:
        """The gate behind a task for each item is content: what it has left of the joined output of the items."""
        node = resolved.node
        approvals = _select(self._approvals.get(node, ()), ReviewTiming.AFTER)
        if approvals and self._keys is not None and self._kept_tasks is not None:
            made = self._keys.make_whole_key(node, resolved.description, joined)
            text = replace(reviewed, parsed_output=None, item_outputs=(), item_failures=())
            path, key = f"{self._make_path(node)}/", PendingKey(lambda: made)
            self._kept_tasks.keep(DoneTask(path=path, key=key, output=text, approvals=approvals))

    def keep_approved(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> None:
        """The review of a phase is content with these outputs.

        From now on they are what a first attempt comes to, in place of those that the review has sent back.
        """
        by_name = {output.name: output for output in outputs}
        for node in [self._spec.graph.tasks[index] for index in phase.tasks]:
            key, output = self._made_for_first.pop(node, None), by_name.get(node.name)
            if key is not None and output is not None:
                self._keep(node, key, output, self._revisions.get(node, FIRST_ATTEMPT))
        if phase.reviewer is None and outputs and self._keys is not None and self._kept_tasks is not None:
            answer = replace(outputs[-1], name=phase.name, raw=_APPROVED, parsed_output=None, saving=None)
            made = self._keys.make_review_key(phase, outputs)
            self._kept_tasks.keep(DoneTask(path=f"{phase.name}/", key=PendingKey(lambda: made), output=answer))

    def keep_approving_answer(self, reviewer: TaskNode, output: TaskOutput) -> None:
        """The task that reviews a phase approves of it; what it says to a phase that is not there yet is not kept."""
        for key in (self._made.pop(reviewer, None), self._made_for_first.pop(reviewer, None)):
            if key is not None:
                self._keep(reviewer, key, output, self._revisions.get(reviewer, FIRST_ATTEMPT))

    def is_approved(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> bool:
        """Whether the callable that reviews a phase has approved these very outputs in an earlier run."""
        if not self._spec.is_reusing or self._keys is None or self._kept_tasks is None:
            return False
        kept, _ = self._kept_tasks.find(f"{phase.name}/", self._keys.make_review_key(phase, outputs))
        return kept is not None and kept.output.raw == _APPROVED

    def take_delegated(self, node: TaskNode) -> tuple[TaskOutput, ...]:
        """What the workers of a manager had completed when its task was done, where that is reused."""
        return tuple(replace(each, reused=True, tool_call_count=0) for each in self._delegated.pop(node, ()))

    def _make_path(self, node: TaskNode) -> str:
        return make_task_path(node.name, self._spec.graph.get_phase_name(node))

    def _make_key(self, resolved: ResolvedTask, memory: MemoryEntries) -> PendingKey:
        """The key of a start; of one that is not the first, also what the first would have with the same input."""
        if self._keys is None:
            return _NOT_COMPARED
        node, revision, keys = resolved.node, resolved.revision, self._keys
        start = TaskStart(
            node=node,
            description=resolved.description,
            expected_output=resolved.expected_output,
            prompt=None if resolved.prompt is None else resolved.prompt.text,
            context=resolved.context,
            missing=tuple([each.reason for each in resolved.missing]),
            memory=memory,
            feedback=revision.told,
            previous=revision.previous,
            conversation=self._spec.conversations.get(node.name, ()) if node.agent is not None else (),
            history=self._spec.find_history(node.task, node.agent),
            inputs=self._spec.inputs,
            item=resolved.item,
        )
        if revision.attempt > 1:
            first = replace(start, feedback=(), previous=None)
            self._made_for_first[node] = _respect_mode(node, keys.make_key_later(first))
        return _respect_mode(node, keys.make_key_later(start))

    def _keep(
        self,
        node: TaskNode,
        key: PendingKey,
        output: TaskOutput,
        revision: Revision,
        delegated: Sequence[TaskOutput] = (),
    ) -> None:
        if self._kept_tasks is not None:
            if (remembered_at := self._remembered_at.get(node)) is not None:
                output = replace(output, completed_at=remembered_at)
            reads = frozenset(self._reads.get(node, ()))  # what its code has read of the inputs
            obstacles = (_find_obstacle(each, node) for each in (output, *delegated))
            obstacle = next((each for each in obstacles if each is not None), None)
            done = DoneTask(
                path=self._make_path(node),
                key=PendingKey(lambda: key.get().with_reads(reads)),
                output=output,
                delegated=tuple(delegated),  # a manager's workers grow
                obstacle=obstacle,
                attempt=revision.attempt,
                feedback=revision.feedback,
                approvals=self._approvals.get(node, ()),
            )
            self._kept_tasks.keep(done)


def _select(approvals: Sequence[Approval], timing: ReviewTiming) -> tuple[Approval, ...]:
    """Those of the gate before a task, or of that behind it."""
    return tuple([each for each in approvals if each.gate == timing.value])


def _respect_mode(node: TaskNode, key: PendingKey) -> PendingKey:
    """A task that is never to be reused has that as an obstacle; whoever goes on with its run has it all the same."""
    obstacle = NEVER if is_never_reused(node) else GATES_INSIDE if has_gates_inside(node) else None
    return key if obstacle is None else PendingKey(lambda: replace(key.get(), obstacle=obstacle))


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
            path=kept.path,
        ),
    )


def _find_obstacle(output: TaskOutput, node: TaskNode) -> str | None:
    """Why an output can't be given back later; None where it can. Secrets in it are found where it is written."""
    value = output.parsed_output
    if value is None:
        return None
    if find_typed_task(node).output_type is not None:
        task = find_typed_task(node)
        try:  # that of an agent does: it was read from there
            read = task.has_agent or get_output_format(task.output_type).read_or_fail(output.raw) == value
        except OutputParsingError:
            read = False
        return None if read else "its value is another one than its text says"
    try:
        is_plain = json.loads(json.dumps(value, ensure_ascii=False)) == value
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    return None if is_plain else f"its output is a {type(value).__name__}, which can't be kept as JSON"


class WatchedInputs(Mapping[str, Any]):
    """Inputs that tell what is read of them, by whomever they were passed on to, on any thread.

    A pickle or a copy is a plain dict, which can't tell: to make one is to read all of them.

    Args:
        inputs: of the run.
        note: called with what is read.
    """

    __slots__ = ("_inputs", "_note")

    def __init__(self, inputs: Mapping[str, Any], note: Callable[[InputRead], object]) -> None:
        self._inputs = inputs
        self._note = note

    def __getitem__(self, name: str) -> Any:
        """Get the value of an input."""
        self._note(InputRead("value" if name in self._inputs else "presence", name))
        return self._inputs[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether there is an input of this name."""
        if isinstance(name, str):
            self._note(InputRead("presence", name))
        return name in self._inputs

    def __len__(self) -> int:
        """How many there are."""
        self._note(InputRead("number"))
        return len(self._inputs)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, which is to read all of them, as are views, copies and comparisons."""
        self._note(InputRead("all"))
        return iter(self._inputs)

    def __reversed__(self) -> Iterator[str]:
        """Iterate over the names from the last to the first."""
        return reversed(self.copy())

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """Give all of them with others."""
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """Give others with all of them."""
        return {**other, **self}

    def copy(self) -> dict[str, Any]:
        """Copy all of them."""
        return dict(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle them as a dict."""
        return dict, (self.copy(),)

    def __repr__(self) -> str:
        """As of the inputs."""
        return repr(self.copy())
