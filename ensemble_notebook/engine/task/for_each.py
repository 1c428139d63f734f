"""Works on a task that runs once for each item of a list (E53): finds the items, has each done, joins their outputs.

What an item is given and goes through is that of any task, and no business of this module; nor is when it may begin.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ReviewTiming
from ensemble_notebook.domain.definitions.item_list import Items, NoListError, describe_count, list_items, name_item
from ensemble_notebook.domain.definitions.templates import ItemTemplate
from ensemble_notebook.domain.events import ItemsListed, Warned
from ensemble_notebook.domain.outputs.task_output import Failure, TaskOutput
from ensemble_notebook.domain.planning.ensemble_rules import find_excess
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.kept_tasks import Approval
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.engine.agent.prompts import NO_MEMORY
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.run_spec import ResolvedTask, Revision, RunSpec
from ensemble_notebook.engine.scheduler_messages import PlaceReturned, PlacesWanted, SchedulerInput
from ensemble_notebook.engine.task.task_reuse import TaskReuse
from ensemble_notebook.engine.task.task_work import TaskWork
from ensemble_notebook.engine.task_gates import TaskGates
from ensemble_notebook.engine.task_lifecycle import (
    PartialOutputKept,
    PreviousOutputKept,
    TaskAbandoned,
    abandonment_in,
    run_unplanned_task,
)
from ensemble_notebook.errors import BudgetExceededError, EnsembleError, ItemsFailedError, mask_error, summarize_error

_LONGEST_LABEL: Final = 60
_MOST_NAMED: Final = 5
_QUOTED: Final = 200

Templates = tuple[ItemTemplate, ItemTemplate]  # of description and expected output
RunTask = Callable[[ResolvedTask, SpanEmitter], Awaitable[TaskOutput]]


class ForEachRunner:
    """Runs the tasks of one run that run for each item.

    Args:
        spec: the run.
        gates: where people are asked, once for the whole.
        reuse: keeps what each item leaves.
        revisions: of the tasks that are not at their first attempt.
        places: where items get their places.
        run_task: does what there is to do for one item.
    """

    def __init__(
        self,
        spec: RunSpec,
        gates: TaskGates,
        reuse: TaskReuse,
        revisions: MutableMapping[TaskNode, Revision],
        places: ItemPlaces,
        run_task: RunTask,
    ) -> None:
        self._spec = spec
        self._gates = gates
        self._reuse = reuse
        self._revisions = revisions
        self._places = places
        self._run_task = run_task
        self._previous: dict[TaskNode, Mapping[str, TaskOutput]] = {}

    async def run(self, resolved: ResolvedTask, span: SpanEmitter) -> TaskOutput:
        """The output of a task, made of what its items put out.

        Raises:
            PartialOutputKept: it was to end before all items were done; its cause says why.
            ItemsFailedError: items failed.
            EnsembleError: there are no items to run for, or too many.
            Exception: whatever a review of the whole raised.
        """
        items = self._find_items(resolved)
        span.emit(ItemsListed, count=len(items))
        if not items:
            span.emit(Warned, message=f"Task {resolved.node.name!r} has no items to run for.")
        work, templates = TaskWork(resolved, NO_MEMORY, span, self._revisions), self._make_templates(resolved)
        if self._gates.has_gate(resolved, ReviewTiming.BEFORE) and not await self._has_passed(work, items, templates):
            asked = await self._gates.ask_before(resolved, span)
            work = TaskWork(asked, NO_MEMORY, span, self._revisions)
            templates = self._make_templates(asked, is_edited=asked is not resolved)
        output, feedback = await self._attempt(work, items, templates)
        while feedback is not None:
            work.send_back("review", feedback, output.raw)
            try:
                output, feedback = await self._attempt(work, items, templates)
            except (TaskAbandoned, BudgetExceededError) as stop:
                raise PreviousOutputKept(output) from stop
            except PartialOutputKept as stop:
                raise PartialOutputKept(output) from stop.__cause__
        return output

    def _find_items(self, resolved: ResolvedTask) -> Items:
        """The items: those that were known before the run, else those of the output that has them."""
        node, source = resolved.node, resolved.item_source
        if source is None:
            given = node.task.for_each
            return given if isinstance(given, Items) else self._spec.items[node.index]
        try:
            items = list_items(source.raw if source.parsed_output is None else source.parsed_output)
        except NoListError as error:
            quoted = source.raw if len(source.raw) <= _QUOTED else f"{source.raw[: _QUOTED - 3]}..."
            quote = "" if source.parsed_output is None else f": {quoted!r}"  # a text is quoted by now
            message = f"Task {node.name!r} runs for each item of {source.name!r}, whose output {error}{quote}."
            raise EnsembleError(message) from None
        if (fault := find_excess(node, items)) is not None:
            raise EnsembleError(f"{fault} Raise it, or let {source.name!r} put out fewer.")
        return items

    async def _has_passed(self, work: TaskWork, items: Items, templates: Templates) -> bool:
        """Whether no item is to run, since all are of earlier runs, and the gate before the task was passed there."""
        item_work, passed = _ItemWork(self, work, items, templates), tuple[Approval, ...]()
        for number in range(len(items)):
            passed = self._reuse.find_passed(item_work.resolve(number)[0])
            if not passed:
                break
            await asyncio.sleep(0)  # each looks into the store, and others have work, too
        self._reuse.take_over_passed(work.node, passed)
        return bool(passed)

    async def _attempt(self, work: TaskWork, items: Items, templates: Templates) -> tuple[TaskOutput, str | None]:
        """The joined output, and the feedback with which a review wants it to be redone, or None."""
        output = await self._run_items(work, items, templates)
        self._previous[work.node] = {each.name: each for each in output.item_outputs}
        if not self._gates.has_gate(work.resolved, ReviewTiming.AFTER):
            self._reuse.tell_of_items(output.item_outputs, work.span)
            return output, None
        recalled = self._reuse.recall_whole(work.resolved, output)
        approval = self._reuse.find_approval(work.node, self._gates.reviewer)
        self._reuse.tell_of_items(output.item_outputs, work.span, approval)
        reviewed, feedback = recalled, None
        if approval is None:
            reviewed, feedback = await self._gates.ask_after(work.resolved, recalled, work.span)
        if reviewed is not recalled:  # what a person wrote is the output now, and no list of what was there
            reviewed = replace(reviewed, parsed_output=None)
        if feedback is None:
            self._reuse.keep_whole(work.resolved, output, reviewed)
        return reviewed, feedback

    async def _run_items(self, work: TaskWork, items: Items, templates: Templates) -> TaskOutput:
        node, item_work = work.node, _ItemWork(self, work, items, templates)
        strategy = self._spec.definition.error_strategy

        def may_go_on(error: BaseException) -> bool:
            """Whether other items still begin after one that ended with this error."""
            goes_on = strategy is not ErrorStrategy.FAIL_FAST and not isinstance(error, asyncio.CancelledError)
            return goes_on and abandonment_in(error) is None

        tasks = ItemTasks(node.index, len(items), item_work.begin, may_go_on, self._places)
        try:
            await tasks.run()
        except asyncio.CancelledError as stopped:
            if tasks.outputs:
                raise PartialOutputKept(_join(work, items, tasks.outputs)) from stopped
            raise
        stop = next((each for each in map(abandonment_in, tasks.errors.values()) if each is not None), None)
        if stop is None and tasks.reason is not None:
            stop = TaskAbandoned(f"{len(tasks.outputs)} of its {describe_count(len(items))} are done; {tasks.reason}")
        if stop is not None:
            if tasks.outputs:
                raise PartialOutputKept(_join(work, items, tasks.outputs)) from stop
            raise stop
        failures = [
            Failure(
                name=item_work.name_item(number),
                agent_role=node.role,
                error=mask_error(error),
                item_of=node.name,
                item_description=item_work.descriptions.get(number),
            )
            for number, error in sorted(tasks.errors.items())
        ]
        output = _join(work, items, tasks.outputs, failures)
        if failures and (strategy is not ErrorStrategy.PARTIAL or not tasks.outputs):
            first, count = next(iter(tasks.errors.values())), len(failures)
            said = [f"{each.name} ({summarize_error(each.error).rstrip('.')})" for each in failures[:_MOST_NAMED]]
            said += [f"and {count - _MOST_NAMED} more"] if count > _MOST_NAMED else []
            message = f"{count} of {describe_count(len(items))} failed: {'; '.join(said)}."
            raise ItemsFailedError(message, failures=failures, item_outputs=output.item_outputs) from first
        return output

    async def run_item(self, item_work: _ItemWork, number: int, queued_s: float) -> TaskOutput:
        """One item, as a task in a span of its own, kept for later runs once it is done."""
        resolved, fault = item_work.resolve(number)
        node, work = resolved.node, item_work.work

        async def fail() -> TaskOutput:
            raise fault or AssertionError

        span = work.span.task_child(node.name, work.span.phase)
        doing = self._run_task(resolved, span) if fault is None else fail()
        output = await run_unplanned_task(
            span,
            doing,
            agent=node.role,
            description=resolved.description,
            queued_s=queued_s,
            label=name_item(resolved.item),
        )
        self._reuse.keep_item(work.node, node, output)
        return output

    def find_previous(self, node: TaskNode, name: str) -> TaskOutput | None:
        """What an item put out at the attempt before."""
        return self._previous.get(node, {}).get(name)

    def _make_templates(self, resolved: ResolvedTask, *, is_edited: bool = False) -> Templates:
        """What an item is asked and expected to put out; the former may have been edited by a person."""
        task = resolved.node.task
        if is_edited:
            return ItemTemplate(resolved.description, {}), ItemTemplate(task.expected_output, self._spec.inputs)
        return ItemTemplate(task.description, self._spec.inputs), ItemTemplate(task.expected_output, self._spec.inputs)


class _ItemWork:
    """Makes the work of each item at an attempt of its task.

    Attributes:
        work: the task.
        descriptions: what the items that began are asked for, by number; without those that could not be filled in.
    """

    def __init__(self, runner: ForEachRunner, work: TaskWork, items: Items, templates: Templates) -> None:
        self._runner = runner
        self.work = work
        self._items = items
        self._description, self._expected_output = templates
        self._ready_at_s = work.span.stream.offset_s()
        self.descriptions: dict[int, str] = {}

    def name_item(self, number: int) -> str:
        """The name of an item, by which traces, outputs and failures know it."""
        return f"{self.work.node.name}[{number}]"

    def begin(self, number: int) -> Coroutine[Any, Any, TaskOutput]:
        """The work of an item that has its place now."""
        return self._runner.run_item(self, number, self.work.span.stream.offset_s() - self._ready_at_s)

    def resolve(self, number: int) -> tuple[ResolvedTask, Exception | None]:
        """The start of an item; and why its texts can't be filled in, where they can't."""
        work, item = self.work, self._items[number]
        node = replace(work.node, name=self.name_item(number))
        description, expected_output, fault = work.resolved.description, work.resolved.expected_output, None
        prompt = work.resolved.prompt
        try:
            description, expected_output = self._description.fill(item), self._expected_output.fill(item)
            prompt = None if prompt is None else prompt.fill_item(item)
            self.descriptions[number] = description
        except Exception as error:  # noqa: BLE001 - the item is anybody's, and so is how it is written
            why = str(error) if isinstance(error, LookupError) else summarize_error(error)
            fault = EnsembleError(f"The texts of {node.name!r} can't be filled in: {why}")
        revision = work.revision
        if revision.attempt > 1:  # with the feedback that the whole was given, and what the item itself put out last
            before = self._runner.find_previous(work.node, node.name)
            is_same = before is not None and before.task_description == description
            revision = replace(revision, previous=before.raw if before is not None and is_same else None)
        resolved = replace(
            work.resolved,
            node=node,
            description=description,
            expected_output=expected_output,
            prompt=prompt,
            revision=revision,
            is_item=True,
            item=item,
        )
        return resolved, fault


def _join(
    work: TaskWork, items: Items, outputs: Mapping[int, TaskOutput], failures: list[Failure] | None = None
) -> TaskOutput:
    """The output of a task from those of its items, in their order."""
    numbers = sorted(outputs)
    done = [outputs[number] for number in numbers]
    texts = [
        f"### {each.name}{_label(items[number])}\n\n{each.raw}" for number, each in zip(numbers, done, strict=True)
    ]
    return TaskOutput(
        name=work.node.name,
        raw=mend_text("\n\n".join(texts)),
        task_description=work.resolved.description,
        agent_role=work.node.role,
        completed_at=work.span.stream.now(),
        duration=work.span.timer.duration,
        tool_call_count=sum(each.tool_call_count for each in done),
        parsed_output=[each.raw if each.parsed_output is None else each.parsed_output for each in done],
        from_fallback=any(each.from_fallback for each in done),
        _declared_role=work.span.stream.find_declared_role(work.node.role),
        item_outputs=tuple(done),
        item_failures=tuple(failures or ()),
    )


def _label(item: Any) -> str:
    """What tells a reader which item a heading is about, where it is short enough to say."""
    text = str(item) if isinstance(item, str | int | float) and not isinstance(item, bool) else ""
    return f": {text}" if text.strip() and "\n" not in text and len(text) <= _LONGEST_LABEL else ""


# --- The items of one task at work, side by side, each in a place of its own ------------------------------------------
#
# Knows nothing of what is done for an item. Which places there are is decided by the scheduler, which counts the items
# of all tasks together; the place of the task itself is that of one item at a time.


Work = Callable[[int], Coroutine[Any, Any, TaskOutput]]


class ItemPlaces:
    """Gets places for the items of the tasks of one run.

    Args:
        act: calls a function that moves the run on, and ends the run where that fails.
        advance: tells the scheduler something.
    """

    def __init__(self, act: Callable[..., None], advance: Callable[[SchedulerInput], None]) -> None:
        self.act = act
        self._advance = advance
        self.at_work: dict[int, ItemTasks] = {}

    def advance(self, scheduler_input: SchedulerInput) -> None:
        """Tell the scheduler something, and end the run where that fails."""
        self.act(self._advance, scheduler_input)

    def grant(self, task: int) -> None:
        """The scheduler gives a place to an item of a task."""
        if (items := self.at_work.get(task)) is not None:
            items.begin_in_place()

    def deny(self, task: int, reason: str) -> None:
        """The scheduler gives no more places to a task."""
        if (items := self.at_work.get(task)) is not None:
            items.begin_no_more(reason)


class ItemTasks:
    """The asyncio tasks that work for the items of one task.

    Args:
        task: index of the task.
        count: of its items.
        work: makes the work of an item of its number.
        goes_on: whether other items still begin after one that ended so.
        places: where places come from.

    Attributes:
        outputs: of the items that are done, by number.
        errors: of those that ended otherwise.
        reason: why not all have begun; None where that is only because of `errors`.
    """

    def __init__(
        self, task: int, count: int, work: Work, goes_on: Callable[[BaseException], bool], places: ItemPlaces
    ) -> None:
        self.outputs: dict[int, TaskOutput] = {}
        self.errors: dict[int, BaseException] = {}
        self.reason: str | None = None
        self._task = task
        self._work = work
        self._goes_on = goes_on
        self._places = places
        self._pending = deque(range(count))
        self._working: set[asyncio.Task[TaskOutput]] = set()
        self._granted = 0
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Items begin where the scheduler is told of something, by whomever; they belong to this task all the same.
        self._context = contextvars.copy_context()

    async def run(self) -> None:
        """Let all items be worked on that may; returns when none is at work any more.

        Raises:
            CancelledError: the task was to end at once; by then its items have ended.
        """
        if not self._pending:
            return
        self._places.at_work[self._task] = self
        try:
            self._begin()
            self._want_places()
            await self._finished
        except asyncio.CancelledError:
            self._pending.clear()
            for each in self._working:
                each.cancel()
            if self._working:
                await asyncio.wait(self._working)
            raise
        finally:
            self._places.at_work.pop(self._task, None)

    def begin_in_place(self) -> None:
        """One place more: the next item begins in it."""
        self._granted += 1
        if self._pending:
            self._begin()
        else:
            self._return_place()

    def begin_no_more(self, reason: str) -> None:
        """Nothing begins any more; what is at work goes on."""
        if self._pending:
            self.reason = reason
            self._pending.clear()

    def _begin(self) -> None:
        number = self._pending.popleft()
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._work(number), context=self._context.copy())
        self._working.add(task)
        task.add_done_callback(functools.partial(self._places.act, self._end, number))

    def _end(self, number: int, task: asyncio.Task[TaskOutput]) -> None:
        self._working.discard(task)
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.outputs[number] = task.result()
        else:
            self.errors[number] = error
            if self._pending and not self._goes_on(error):
                self._pending.clear()
                self._want_places()
        if self._granted:
            self._return_place()
        elif self._pending:  # in the place of the task itself
            self._begin()
            self._want_places()
        if not self._working and not self._pending and not self._finished.done():
            self._finished.set_result(None)

    def _want_places(self) -> None:
        self._places.advance(PlacesWanted(self._task, len(self._pending)))

    def _return_place(self) -> None:
        self._granted -= 1
        self._places.advance(PlaceReturned(self._task))
