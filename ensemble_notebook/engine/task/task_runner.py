"""Works on one task, from what it is given to its output (E1, E2, E18, E31, E38, E44, E45, E51).

The order of things: memory is read, and where an earlier run has done the same, its output serves (C34). Else a gate
before, input guardrails; then attempts: the work, by handler or agent,
output guardrails, which may send it back, the same by the fallback where that came to nothing, a gate after, which may
ask for one more attempt; at last memory is written.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Final, Literal

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ReviewTiming, SpanStatus
from ensemble_notebook.domain.definitions.memory import MemoryEntry, get_memory_kind
from ensemble_notebook.domain.definitions.run_context import RunContext, set_context
from ensemble_notebook.domain.definitions.task import GuardrailResult
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import (
    GuardrailEnded,
    GuardrailStarted,
    MemoryEnded,
    MemoryStarted,
    ProgressReported,
    TaskFellBack,
    Warned,
)
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import set_asking_task
from ensemble_notebook.domain.value_text import to_plain
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.agent.call_again import CallAgain
from ensemble_notebook.engine.agent.preparation import PreparedTools
from ensemble_notebook.engine.agent.prompts import NO_MEMORY, write_exchange
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.call_gates import CallGates
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan, find_calling_span
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.engine.request_limits import RequestLimits, SendGate
from ensemble_notebook.engine.review_queue import ReviewQueue
from ensemble_notebook.engine.run_services import ParentRun, RunServices
from ensemble_notebook.engine.run_spec import ResolvedTask, Revision
from ensemble_notebook.engine.task.for_each import ForEachRunner, ItemPlaces
from ensemble_notebook.engine.task.handler_runner import run_ensemble, run_handler, run_row
from ensemble_notebook.engine.task.task_agents import TaskAgents
from ensemble_notebook.engine.task.task_reuse import TaskReuse
from ensemble_notebook.engine.task.task_work import TaskWork
from ensemble_notebook.engine.task_gates import TaskGates
from ensemble_notebook.engine.task_lifecycle import PreviousOutputKept, TaskAbandoned
from ensemble_notebook.errors import (
    BudgetExceededError,
    FallbackFailedError,
    GuardrailViolationError,
    ReplayError,
    summarize_error,
)


class TaskRunner:
    """Runs the tasks of one run.

    Args:
        services: of the run.
        item_places: gets places for the items of tasks that run for each of a list.

    Attributes:
        as_parent: what the run is for those that are begun inside its tasks.
        review_queue: where all reviews of the run are asked for, those of phases too.
        revisions: of the tasks that are not at their first attempt, the latest.
        reuse: what earlier runs have left for the tasks of this one, and what this one leaves.
    """

    def __init__(self, services: RunServices, item_places: ItemPlaces) -> None:
        spec, parent = services.spec, services.parent
        self._services = services
        self._spec = spec
        self._deadline = None if spec.timeout is None else services.clock.now() + timedelta(seconds=spec.timeout)
        self.revisions: dict[TaskNode, Revision] = {}
        if spec.revision is not None:  # they are inside a task that was sent back
            final = find_final_tasks(spec.graph)
            for node in spec.graph.tasks:
                self.revisions[node] = spec.revision.revise(node.name, is_final=node.index in final)
        self._gate = SendGate()
        shared = None if parent is None else parent.tools
        prepared = services.tools or shared
        self._tools = prepared if isinstance(prepared, PreparedTools) else PreparedTools()
        self._owns_tools = self._tools is not shared
        self.reuse = TaskReuse(services, self.revisions)
        self.as_parent = ParentRun(services)
        self.as_parent.tools = self._tools
        self.review_queue = ReviewQueue(services, self.as_parent.row)
        calls = CallGates(services, self.review_queue)
        self._gates = TaskGates(self.review_queue, spec.definition.review_policy, self.reuse.note_passed, calls)
        self.item_places = item_places
        # What few runs need is made once it is: the rows of a map have thousands of runners.
        self._for_each: ForEachRunner | None = None
        self._agents: TaskAgents | None = None
        self._left_inside: dict[str, tuple[str, Mapping[str, str]]] = {}

    @cached_property
    def _memory(self) -> TaskMemory:
        return TaskMemory(self._services)

    def begin(self) -> None:
        """The run has begun: tell what was made ready for it before."""
        if self._owns_tools:
            self._tools.begin(self._services.span)

    def stop_requests(self) -> None:
        """Let no agent send anything any more, whatever its tools do with their cancellation."""
        self._gate.close()
        self.as_parent.stop_nested()

    def close(self) -> None:
        """Release what is still being made ready: the run is over."""
        self._gate.close()
        self.as_parent.end()
        if self._agents is not None:
            self._agents.close()
        if self._owns_tools:
            self._tools.stop_opening()

    async def close_tools(self, limit_s: float) -> None:
        """Close the connections of its tools, unless they are those of a run around it."""
        if self._owns_tools:
            await self._tools.close(limit_s)

    def release(self) -> None:
        """No task begins any more. Without this, only the garbage collector would free what runs items with it."""
        self._for_each = None

    @property
    def delegated(self) -> Sequence[TaskOutput]:
        """What was delegated by the manager, where there is one, and completed by now, in that order."""
        manager = None if self._agents is None else self._agents.manager
        return () if manager is None else manager.delegated

    @property
    def undone_stages(self) -> Sequence[tuple[int, tuple[str, ...]]]:
        """The required stages that the manager has not had done, each with the workers that are still to come."""
        manager = None if self._agents is None else self._agents.manager
        return () if manager is None else manager.list_undone_stages()

    def run(self, resolved: ResolvedTask, span: SpanEmitter) -> Coroutine[Any, Any, TaskOutput]:
        """The output of a task.

        Raises:
            TaskAbandoned: a person ended the run before this task was done.
            PreviousOutputKept: the same, or the budget, while it was being redone; with the output that it had before.
            PartialOutputKept: it ended before all its items were done, with the output of the others.
            BudgetExceededError: a model request did not fit into the budget.
            Exception: whatever ended it; a model's failure as `AgentExecutionError`, a handler's as it was raised.
        """
        if self._spec.task_noun.is_run:
            self._note_asking(resolved.node, span)
            return run_row(resolved, span)
        if resolved.node.task.for_each is None or self.reuse.is_given(resolved.node):
            return self._run_once(resolved, span)
        if self._for_each is None:
            self._for_each = ForEachRunner(
                self._spec, self._gates, self.reuse, self.revisions, self.item_places, self._run_once
            )
        return self._for_each.run(resolved, span)

    def _get_agents(self) -> TaskAgents:
        """Get what has agents work; many runs have none."""
        if self._agents is None:
            parent, clock = self.as_parent, self._services.clock
            limits = RequestLimits(parent.accounts, parent.rate_limits, self._spec.pricing, clock, self._gate)
            self._agents = TaskAgents(self._services, limits, self._gates, self._tools)
        return self._agents

    def _note_asking(self, node: TaskNode, span: SpanEmitter) -> None:
        """What is asked from here on is asked for this task, or, in a nested run, for the task around it."""
        self._gates.forbid_mending(node)
        if self._services.parent is None:
            set_asking_task(node.name, span.phase)

    def make_context(self, node: TaskNode, span: SpanEmitter) -> RunContext[Any]:
        """What functions are given that the task calls and that ask for it."""
        timeout = node.task.timeout
        ends = [] if self._deadline is None else [self._deadline]
        ends += [] if timeout is None else [self._services.clock.now() + timedelta(seconds=timeout)]
        return RunContext(
            inputs=self.reuse.watch_inputs(node, self._services.inputs),
            task=node.name,
            agent=None if node.agent is None else node.agent.role,
            run_id=span.stream.run_id,
            deadline=min(ends, default=None),
            deps=self._spec.deps,
            _report=ProgressReporter(),
        )

    async def _run_once(self, resolved: ResolvedTask, span: SpanEmitter) -> TaskOutput:
        """The output of a task, or of one item of it."""
        self._note_asking(resolved.node, span)
        task, asked_of = resolved.node.task, resolved.description
        memory = await self._memory.read(task.memory, asked_of, span, task.timeout) if task.memory else NO_MEMORY
        reused, feedback, by = self.reuse.find(resolved, memory, span), None, "review"
        # Not before: what is read of the inputs counts from now on.
        set_context(partial(self.make_context, resolved.node, span))
        if reused is None or not self.reuse.has_passed(resolved.node, ReviewTiming.BEFORE):
            asked = await self._gates.ask_before(resolved, span)
            if reused is not None and asked is not resolved:
                self.reuse.give_up(resolved.node, span, "its review changed what is asked for")
                reused = None
            resolved = asked
        if reused is not None:
            messages = self._get_agents().make_messages(resolved, memory, reused.raw)
            reused = dataclasses.replace(reused, messages=messages)
            output, feedback, by = await self._judge_reused(resolved, reused, span)
            if feedback is None:
                return await self._take_over(output, resolved.node, span)
            self.reuse.give_up(resolved.node, span, f"its {by} sent it back")
        work = TaskWork(resolved, memory, span, self.revisions)
        if task.input_guardrails:
            await self._run_guardrails(work, "input", work.make_input(self._see_inputs(work)))
        if reused is None:
            output, feedback = await self._attempt(work)
        while feedback is not None:
            work.send_back(by, feedback, output.raw)
            work.deadline.renew()
            by = "review"
            try:
                output, feedback = await self._attempt(work)
            except (TaskAbandoned, BudgetExceededError) as stop:
                raise PreviousOutputKept(output) from stop
        work.release()
        if task.memory:
            await self._memory.write(task.memory, output, span, task.timeout)
            self.reuse.note_remembered(resolved.node, output)
        return output

    async def _judge_reused(
        self, resolved: ResolvedTask, output: TaskOutput, span: SpanEmitter
    ) -> tuple[TaskOutput, str | None, str]:
        """What the gate behind a task leaves of an output that is reused, unless it has approved it before.

        One that somebody gives is judged by guardrails first. Gives what it is sent back with, or None, and by whom.
        """
        if self.reuse.take_given(resolved.node):
            try:
                await self._run_guardrails(TaskWork(resolved, NO_MEMORY, span, self.revisions), "output", output)
            except GuardrailViolationError as objection:
                return output, objection.message, "guardrail"
        if not self._gates.has_gate(resolved, ReviewTiming.AFTER):
            return output, None, "review"
        approved = self.reuse.find_approved(resolved.node, output, self._gates.reviewer)
        if approved is not None:
            return approved, None, "review"
        return *await self._ask_after(TaskWork(resolved, NO_MEMORY, span, self.revisions), output), "review"

    async def _take_over(self, output: TaskOutput, node: TaskNode, span: SpanEmitter) -> TaskOutput:
        """The output of an earlier run as this one's; later tasks remember it as if it had been made now."""
        if (manager := self._get_agents().manager) is not None:
            manager.delegated.extend(self.reuse.take_delegated(node))
        if node.task.memory:
            await self._memory.restore(node.task.memory, output, span, node.task.timeout)
            self.reuse.note_remembered(node, output)
        return output

    async def _attempt(self, work: TaskWork) -> tuple[TaskOutput, str | None]:
        """One attempt: its output, and the feedback with which a review wants it to be redone, or None."""
        node, fallback = work.node, work.node.fallback
        try:
            if node.task.output_guardrails:
                output = await self._produce_until_it_passes(work)
            else:
                output = work.make_output(await self._work_in_time(work, node.agent, node.llm))
        except (TaskAbandoned, BudgetExceededError):
            raise
        except Exception as error:
            if fallback is None or isinstance(error.__cause__, ReplayError):  # a recording is no server that fails
                raise
            work.span.emit(TaskFellBack, agent=fallback.role, error=error, replaced=node.role)
            work.deadline.renew()
            try:
                output = work.make_output(await self._work_in_time(work, fallback, node.fallback_llm, is_fallback=True))
                await self._run_guardrails(work, "output", output)
            except (TaskAbandoned, BudgetExceededError):
                raise
            except Exception as second:
                raise FallbackFailedError(node.role, error, fallback.role, second) from second
        return await self._ask_after(work, output)

    async def _produce_until_it_passes(self, work: TaskWork) -> TaskOutput:
        """What the task's own agent or handler makes; guardrails may send it back to the agent so often."""
        node = work.node
        for retries_left in range(node.task.max_guardrail_retries, -1, -1):
            output = work.make_output(await self._work_in_time(work, node.agent, node.llm))
            try:
                await self._run_guardrails(work, "output", output)
            except GuardrailViolationError as objection:
                if not retries_left:
                    raise
                work.send_back("guardrail", objection.message, output.raw)
            else:
                return output
        raise AssertionError("unreachable")

    async def _run_guardrails(self, work: TaskWork, kind: GuardrailKind, subject: TaskInput | TaskOutput) -> None:
        task = work.node.task
        if guardrails := task.input_guardrails if kind == "input" else task.output_guardrails:
            checks = run_guardrails(kind, guardrails, subject, self._services.caller, work.span)
            await work.deadline.limit(checks, f"its {kind} guardrails")

    async def _ask_after(self, work: TaskWork, output: TaskOutput) -> tuple[TaskOutput, str | None]:
        """The output that the reviewer leaves, and the feedback with which it is to be redone, or None."""
        task = work.node.task
        reviewed, feedback = await self._gates.ask_after(work.resolved, output, work.span)
        if reviewed is not output:  # what a person wrote is the output now, and no table or the like that was there
            output_format = None if task.output_type is None else get_output_format(task.output_type)
            value = None if output_format is None else output_format.read_or_fail(reviewed.raw)
            reviewed = dataclasses.replace(reviewed, parsed_output=value)
        return reviewed, feedback

    def _work_in_time(
        self, work: TaskWork, agent: Agent | None, llm: Any, *, is_fallback: bool = False
    ) -> Awaitable[WorkResult]:
        if work.node.task.ensemble is not None and agent is None:
            return work.deadline.limit(run_ensemble(work, self._services, self._left_inside), "its ensemble")
        if isinstance(work.node.task.handler, CallAgain):
            return self._get_agents().call_again(work.node.task.handler, work)
        if agent is None:
            return work.deadline.limit(run_handler(work, self._see_inputs(work), self._services), "its handler")
        return self._get_agents().run(work, agent, llm, is_fallback=is_fallback)

    def _see_inputs(self, work: TaskWork) -> Mapping[str, Any]:
        """What the code of a task sees of the inputs."""
        return self.reuse.watch_inputs(work.node, self._services.inputs)


GuardrailKind = Literal["input", "output"]


async def run_guardrails(
    kind: GuardrailKind,
    guardrails: Sequence[Callable[..., Any]],
    subject: Any,
    caller: FunctionCaller,
    task: SpanEmitter,
) -> None:
    """Ask the guardrails about the `TaskInput` or `TaskOutput` of a task, in order.

    A guardrail whose answer has a wrong shape objects, and is warned of.

    Raises:
        GuardrailViolationError: the first objection; a guardrail that raises objects, too.
    """
    for guardrail in guardrails:
        name = getattr(guardrail, "__name__", type(guardrail).__name__)
        span = task.child()
        span.emit(GuardrailStarted, kind=kind, name=name)
        cause: Exception | None = None
        try:
            with CallingSpan(span):
                answer = to_plain(await caller.call(f"guardrail {name}", guardrail, subject))
            objection = _read_objection(answer)
            if objection is not None and not isinstance(answer, bool | str | GuardrailResult):
                message = f"Guardrail {name!r} is broken: {objection}. That counts as an objection."
                task.emit_once(("guardrail", id(guardrail)), Warned, message=message)
        except asyncio.CancelledError:
            span.emit(GuardrailEnded, status=SpanStatus.CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it raises is an objection
            cause, objection = error, summarize_error(error)
        if objection is not None:
            span.emit(GuardrailEnded, status=SpanStatus.ERROR, message=objection, error=cause)
            raise GuardrailViolationError(kind, objection) from cause
        span.emit(GuardrailEnded, status=SpanStatus.OK)


def _read_objection(answer: Any) -> str | None:
    """What a guardrail has against it; None where nothing."""
    if answer is None or answer is True:
        return None
    if isinstance(answer, GuardrailResult):
        return None if answer.is_success else str(answer.message or "no reason given")
    if isinstance(answer, str):
        return answer or "no reason given"
    if answer is False:
        return "it returned False"
    told = f"it must return None, True, a text or a GuardrailResult, and returned {type(answer).__name__}"
    if isinstance(answer, tuple):  # as those of crewAI do
        told += ". In place of (True, ...) return True, in place of (False, objection) the objection as a text"
    return told


_LEAST_S: Final = 0.1
"""What is told sooner after the last time is left out, unless it says that all is done: nobody could read it."""


class ProgressReporter:
    """Reports for the span from which the function is called that this is made for; then from any thread."""

    __slots__ = ("_calling", "_last_s")

    def __init__(self) -> None:
        self._calling = find_calling_span()
        self._last_s = float("-inf")

    def __call__(self, text: str, fraction: float | None) -> None:
        """Say how far it is."""
        now_s = time.monotonic()
        if self._calling is None or (now_s - self._last_s < _LEAST_S and fraction != 1):
            return
        self._last_s, span = now_s, self._calling.span
        call_on_loop(self._calling.loop, lambda: span.emit(ProgressReported, text=text, fraction=fraction))


ENTRIES_PER_SCOPE: Final = 5


class TaskMemory:
    """The memory of one run. A store that fails, or takes longer than a task may take, costs a warning, never the task.

    What a store gives is anybody's, too, so it is looked at before it is believed.
    """

    def __init__(self, services: RunServices) -> None:
        self._store = services.spec.memory
        self._caller = services.caller

    async def read(
        self, scopes: Sequence[str], query: str, task: SpanEmitter, limit_s: float | None
    ) -> dict[str, Sequence[MemoryEntry]]:
        """The entries of each scope that fit the query; each scope has `limit_s` seconds to answer."""
        found: dict[str, Sequence[MemoryEntry]] = {}
        if self._store is not None:
            for name in scopes:
                found[name] = await self._use_store("retrieve", name, task, limit_s, query, ENTRIES_PER_SCOPE)
        return found

    async def write(self, scopes: Sequence[str], output: TaskOutput, task: SpanEmitter, limit_s: float | None) -> None:
        """Keep what was asked and answered in each scope, for which each has `limit_s` seconds."""
        if self._store is None or self._is_read_only(scopes, task):
            return
        facts = {"task": output.name, "agent": output.agent_role, "run_id": task.stream.run_id}
        for name in scopes:
            entry = MemoryEntry(text=write_exchange(output), created_at=output.completed_at, metadata=facts)
            await self._use_store("store", name, task, limit_s, entry)

    async def restore(
        self, scopes: Sequence[str], output: TaskOutput, task: SpanEmitter, limit_s: float | None
    ) -> None:
        """Let each scope have an output of an earlier run, as of then: a store that outlives runs has it already."""
        found = await self.read(scopes, output.raw, task, limit_s)
        made = (write_exchange(output), output.completed_at)
        missing = [name for name in scopes if all((each.text, each.created_at) != made for each in found.get(name, ()))]
        await self.write(missing, output, task, limit_s)

    def _is_read_only(self, scopes: Sequence[str], task: SpanEmitter) -> bool:
        """Whether the store is only to be read; says so once where nobody asked for it, and a task has something (E60).

        A `VectorStoreMemory` that somebody has built is read-only on purpose; a vector store as it is may be not.
        """
        is_read_only = bool(getattr(self._store, "read_only", False))
        if is_read_only and scopes and getattr(self._store, "is_wrapped", False):
            message = (
                f"What task {task.task!r} leaves for its memory is not stored: the vector store is only read. Where "
                f"tasks may write into it, give memory=VectorStoreMemory(store, read_only=False)."
            )
            task.emit_once("memory is only read", Warned, message=message)
        return is_read_only

    def _get_kind(self, name: str) -> str:
        try:
            return get_memory_kind(self._store, name)
        except Exception:  # noqa: BLE001 - the store is anybody's, and this is only to count by
            return "long_term"

    async def _use_store(
        self, operation: str, name: str, task: SpanEmitter, limit_s: float | None, *args: Any
    ) -> tuple[MemoryEntry, ...]:
        """The entries that were read or written; none where that failed."""
        span = task.child()
        span.emit(MemoryStarted, operation=operation, scope=name, store_kind=self._get_kind(name))
        limit = asyncio.timeout(limit_s)
        try:
            with CallingSpan(span):
                async with limit:
                    given = await self._caller.call(f"memory {name}", getattr(self._store, operation), name, *args)
                entries = args if operation == "store" else tuple(given or ())[:ENTRIES_PER_SCOPE]
                for each in entries:
                    if not isinstance(each, MemoryEntry):
                        kind = type(each).__name__
                        raise TypeError(f"a store must give MemoryEntry objects, and this one gave {kind}")
        except asyncio.CancelledError as stopped:
            span.emit(MemoryEnded, status=SpanStatus.CANCELLED, count=0, error=stopped)
            raise
        except Exception as error:  # noqa: BLE001 - the store is anybody's
            span.emit(MemoryEnded, status=SpanStatus.ERROR, count=0, error=error)
            verb = "be read" if operation == "retrieve" else "be written"
            reason = f"no answer within {limit_s:g} s" if limit.expired() else summarize_error(error)
            message = f"The memory {name!r} could not {verb} for task {task.task!r}: {reason}"
            task.emit_once(("memory", operation, name), Warned, message=message)
            return ()
        span.emit(MemoryEnded, status=SpanStatus.OK, count=len(entries))
        return entries
