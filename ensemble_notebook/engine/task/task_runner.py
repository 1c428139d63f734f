"""Works on one task of the plan, from what it is given to its output (E1, E2, E18, E31, E38, E44, E45).

The order of things: memory is read, a gate before, input guardrails; then attempts: the work, by handler or agent and
then by the fallback, output guardrails, a gate after, which may ask for one more; at last memory is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.definitions.tool import TaskInput, ToolResult
from ensemble_notebook.domain.events import TaskFellBack, TaskInputPrepared, TaskRetried, Warned
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.agent.agent_runner import AgentRequest, AgentRunner
from ensemble_notebook.engine.agent.prompts import framed_prompt, long_context_warnings, system_prompt, task_body
from ensemble_notebook.engine.agent.structured_output import output_format
from ensemble_notebook.engine.agent.toolbox import handler_function, result_text
from ensemble_notebook.engine.delegation.delegations import Delegations
from ensemble_notebook.engine.delegation.manager import Manager
from ensemble_notebook.engine.delegation.team_members import TeamMembers
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.limits.request_limits import RequestLimits
from ensemble_notebook.engine.review.review_queue import ReviewQueue
from ensemble_notebook.engine.review.task_gates import TaskGates
from ensemble_notebook.engine.specs.resolved_task import PreviousOutputKept, ResolvedTask, Revision, TaskAbandoned
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.task.guardrails import run_guardrails
from ensemble_notebook.engine.task.task_deadline import TaskDeadline
from ensemble_notebook.engine.task.task_memory import TaskMemory
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import BudgetExceededError, OutputParsingError, ReplayError, ToolExecutionError

Memory = Mapping[str, Sequence[MemoryEntry]]

NOTHING: Final[Memory] = MappingProxyType({})


class TaskRunner:
    """Runs the tasks of one run.

    Args:
        spec: the run.
        source: where models come from.
        caller: calls handlers, guardrails and all else that is not ours.
        clock: tells durations.
        run: the span of the run.
        exit_early: told when a person chose to leave (E27).
    """

    def __init__(
        self,
        spec: RunSpec,
        source: ChatSource,
        caller: FunctionCaller,
        clock: Clock,
        run: SpanEmitter,
        *,
        exit_early: Callable[[], None],
    ) -> None:
        self._inputs = MappingProxyType(dict(spec.inputs))
        self._caller = caller
        self._clock = clock
        limits = RequestLimits(spec.budget, [spec.rate_limit], spec.pricing, clock)
        self._agent_runner = AgentRunner(source, caller, run, limits, streams=spec.streams)
        self._memory = TaskMemory(spec.memory, caller)
        self.desk = ReviewQueue(spec.review_handler, caller, exit_early)
        self._gates = TaskGates(self.desk, spec.review_policy)
        team = TeamMembers(spec.graph.team, self._inputs)
        self._delegations = Delegations(spec, team, self._agent_runner, self._gates, caller, clock)
        self._manager = Manager(spec, team) if spec.graph.managed else None

    def close(self) -> None:
        """The run is over."""
        self._agent_runner.close()

    @property
    def delegated(self) -> Sequence[TaskOutput]:
        """What the workers of the manager, where there is one, have completed by now, in order of completion (E22)."""
        return () if self._manager is None else self._manager.delegated

    async def run(self, node: TaskNode, resolved: ResolvedTask, span: SpanEmitter) -> TaskOutput:
        """The output of a task.

        Raises:
            TaskAbandoned: a person ended the run before this task was done.
            PreviousOutputKept: the same, or the budget, while it was being redone; with the output that it had before.
            BudgetExceededError: a model request did not fit into the budget.
            Exception: whatever ended it; a model's failure as `AgentExecutionError`, a handler's as it was raised.
        """
        work = await self._begin(node, resolved, span)
        output, feedback = await self._try(work)
        attempt = 1
        while feedback is not None:
            attempt += 1
            span.emit(TaskRetried, attempt=attempt, feedback=feedback)
            work.revision = Revision(attempt=attempt, feedback=feedback)
            work.deadline.renew()
            try:
                output, feedback = await self._try(work)
            except (TaskAbandoned, BudgetExceededError) as stop:
                raise PreviousOutputKept(output) from stop
        if node.task.memory:
            await self._memory.write(node.task.memory, output, span, node.task.timeout)
        return output

    async def _begin(self, node: TaskNode, resolved: ResolvedTask, span: SpanEmitter) -> _Work:
        """All that comes before the first try."""
        started, task, memory = self._clock.monotonic(), node.task, NOTHING
        if task.memory:
            memory = await self._memory.read(task.memory, resolved.description, span, task.timeout)
        if self._gates.is_open:
            resolved = await self._gates.before(node, resolved, span)
        work = _Work(node, resolved, render(task.expected_output, self._inputs), memory, span, started)
        if task.input_guardrails:
            looking = run_guardrails("input", task.input_guardrails, self._task_input(work), self._caller, span)
            await work.deadline.keep(looking, "its input guardrails")
        return work

    async def _try(self, work: _Work) -> tuple[TaskOutput, str | None]:
        """One attempt: its output, and the feedback of a review that wants it redone."""
        node, task = work.node, work.node.task
        result, is_fallback = await self._attempt(work)
        output = TaskOutput(
            name=node.name,
            raw=result.text,
            task_description=work.resolved.description,
            agent_role=result.role,
            completed_at=self._clock.now(),
            duration=timedelta(seconds=self._clock.monotonic() - work.started),
            tool_call_count=work.tool_calls,
            parsed_output=result.value,
            from_fallback=is_fallback,
        )
        if task.output_guardrails:
            looking = run_guardrails("output", task.output_guardrails, output, self._caller, work.span)
            await work.deadline.keep(looking, "its output guardrails")
        if not self._gates.is_open:
            return output, None
        reviewed, feedback = await self._gates.after(node, output, work.resolved, work.span)
        if reviewed is not output and task.output_type is not None:
            reviewed = replace(reviewed, parsed_output=_value(task.output_type, reviewed.raw))
        return reviewed, feedback

    async def _attempt(self, work: _Work) -> tuple[_Result, bool]:
        """What the task's own worker did or, once that has finally failed, its fallback; and whether it was that."""
        node, fallback = work.node, work.node.task.fallback
        try:
            return await self._in_time(work, _Worker(node.agent, node.llm)), False
        except (TaskAbandoned, BudgetExceededError):
            raise
        except Exception as error:
            if fallback is None or isinstance(error.__cause__, ReplayError):  # a recording is no server that fails
                raise
            work.span.emit(TaskFellBack, agent=fallback.role, error=error)
            work.deadline.renew()
        return await self._in_time(work, _Worker(fallback, node.fallback_llm, is_fallback=True)), True

    async def _in_time(self, work: _Work, worker: _Worker) -> _Result:
        if worker.agent is None:
            return await work.deadline.keep(self._handle(work), "its handler")
        # Getting a model ready (imports, weights) happens once for all, so it is on no task's clock.
        port = await self._agent_runner.port(worker.llm, worker.agent, work.resolved.description)
        return await work.deadline.keep(self._assign(work, worker, worker.agent, port), "nothing yet")

    async def _assign(self, work: _Work, worker: _Worker, agent: Agent, port: ChatPort) -> _Result:
        is_derived = work.node.task.agent is None and not worker.is_fallback
        texts = await self._texts(work, agent, is_derived=is_derived)
        job = self._request(work, agent, worker, *texts)
        for message in long_context_warnings(work.resolved.context):
            work.span.emit(Warned, message=message)
        done = await self._agent_runner.work(job, port, work.span, work.watch)
        if self._manager is not None:
            self._manager.check()
        return _Result(done.text, agent.role, done.value)

    async def _handle(self, work: _Work) -> _Result:
        node, task_input = work.node, self._task_input(work)
        names = tuple(each.name for each in work.resolved.context)
        work.span.emit(TaskInputPrepared, system_prompt="", user_prompt=work.resolved.description, context=names)
        result = await self._caller.call(f"handler of {node.name}", handler_function(node.task.handler), task_input)
        if isinstance(result, ToolResult):
            if not result.is_success:
                message = f"The handler of task {node.name!r} reported a failure: {result.error_message}"
                raise ToolExecutionError(message, tool_name=node.name, tool_input=work.resolved.description)
            return self._read(node, result_text(result), result.structured_output)
        return self._read(node, result_text(result), None if isinstance(result, str) else result)

    def _read(self, node: TaskNode, text: str, value: Any) -> _Result:
        """What a handler gave, held to the task's output type; there is nobody who could correct it."""
        if node.task.output_type is not None:
            value = _value(node.task.output_type, text, value)
        return _Result(text, node.role, value)

    async def _texts(self, work: _Work, agent: Agent, *, is_derived: bool) -> tuple[str, str]:
        """The system prompt, and what of the user prompt says what is to be done."""
        resolved = work.resolved
        if self._manager is not None:
            return await self._manager.prompts(resolved.description, self._inputs, self._caller)
        system = system_prompt(agent, resolved.description if is_derived else agent.goal)
        return system, task_body(resolved.description, work.expected_output)

    def _request(self, work: _Work, agent: Agent, worker: _Worker, system: str, body: str) -> AgentRequest:
        task, resolved = work.node.task, work.resolved

        def user(output_format: str) -> str:
            text = framed_prompt(
                body,
                resolved.context,
                missing=resolved.missing,
                memory=work.memory,
                revision=work.revision,
                output_format=output_format,
            )
            names = tuple(each.name for each in resolved.context)
            work.span.emit(TaskInputPrepared, system_prompt=system, user_prompt=text, context=names)
            return text

        tools = (*agent.tools, *task.tools)
        natives = (
            *self._gates.tools(work.node, agent, tools),
            *self._delegations.tools(work.node, agent, work.node.name),
        )
        if self._manager is not None:
            natives = (*natives, self._delegations.tool(self._manager, work.node))
        return AgentRequest(
            agent=agent,
            llm=worker.llm,
            description=resolved.description,
            system=system,
            user=user,
            tools=tools,
            natives=natives,
            output=None if task.output_type is None else output_format(task.output_type),
            max_output_retries=task.max_output_retries,
            rate_limits=() if task.rate_limit is None else (task.rate_limit,),
            approve=self._gates.approval(work.node, agent),
            is_fallback=worker.is_fallback,
        )

    def _task_input(self, work: _Work) -> TaskInput:
        return TaskInput(
            name=work.node.name,
            description=work.resolved.description,
            expected_output=work.expected_output,
            context=work.resolved.context,
            inputs=self._inputs,
        )


def _value(kind: Any, text: str, value: Any = None) -> Any:
    """A text, or the value that it stands for, as an output type that nobody can be asked to correct it to."""
    output = output_format(kind)
    try:
        return output.read(text) if value is None else output.accept(value)
    except ValueError as error:
        raise OutputParsingError(
            raw_output=text, output_type=kind, parse_errors=[str(error)], attempt_count=1
        ) from None


class _Worker:
    """Who does a task: an agent with its model, or nobody but the handler."""

    __slots__ = ("agent", "is_fallback", "llm")

    def __init__(self, agent: Agent | None, llm: Any, *, is_fallback: bool = False) -> None:
        self.agent = agent
        self.llm = llm
        self.is_fallback = is_fallback


class _Result:
    """The text of a task and what stands behind it."""

    __slots__ = ("role", "text", "value")

    def __init__(self, text: str, role: str, value: Any) -> None:
        self.text = text
        self.role = role
        self.value = value


class _Work:
    """One task at work: what is resolved of it, its time, and the agents that have worked on it by now."""

    __slots__ = ("_loops", "deadline", "expected_output", "memory", "node", "resolved", "revision", "span", "started")

    def __init__(
        self,
        node: TaskNode,
        resolved: ResolvedTask,
        expected_output: str,
        memory: Memory,
        span: SpanEmitter,
        started: float,
    ) -> None:
        self.node = node
        self.resolved = resolved
        self.expected_output = expected_output
        self.memory = memory
        self.span = span
        self.started = started
        self.revision = resolved.revision
        self.deadline = TaskDeadline(node.task.timeout)
        self._loops: list[AgentLoop] = []

    def watch(self, loop: AgentLoop) -> None:
        """An agent begins."""
        self._loops.append(loop)
        self.deadline.watch(lambda: loop.activity)

    @property
    def tool_calls(self) -> int:
        """Executed calls of all agents, also of those who failed or were asked to do it again (E7)."""
        return sum(loop.tool_calls_made for loop in self._loops)
