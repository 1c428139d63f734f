"""One task at work: what it was given, the time that it has (E38), and the agents that have worked on it by now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeVar

from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import TaskRetried
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.agent.prompts import MemoryEntries
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.run_spec import ResolvedTask, Revision
from ensemble_notebook.engine.task_timer import TaskTimer
from ensemble_notebook.errors import DeadlineExceededError


class TaskWork:
    """The state of one started task.

    Attributes:
        node: the task.
        resolved: what the task was given; a review before it may have edited its description.
        memory: what was read for it.
        span: of the task.
        revision: which attempt this is, and what it is to do better.
        deadline: the time that an attempt has.

    Args:
        resolved, memory, span: as above.
        revisions: of all tasks of the run. `revision` is kept there, too, since a review of the phase may send the task
            back when this work is over.
    """

    __slots__ = ("_keeps_tools", "_loops", "_revisions", "deadline", "memory", "node", "resolved", "revision", "span")

    def __init__(
        self,
        resolved: ResolvedTask,
        memory: MemoryEntries,
        span: SpanEmitter,
        revisions: MutableMapping[TaskNode, Revision],
    ) -> None:
        self.node = resolved.node
        self.resolved = resolved
        self.memory = memory
        self.span = span
        self.revision = resolved.revision
        self.deadline = TaskDeadline(resolved.node.task.timeout, span.timer)
        self._revisions = revisions
        self._loops: tuple[AgentLoop, ...] = ()
        self._keeps_tools = False

    @property
    def loop_before(self) -> AgentLoop | None:
        """The agent at the attempt before, where a guardrail has sent back what it made with its tools.

        It goes on with what they told, so that none is called, and paid, for an objection to the text alone.
        """
        last = self._loops[-1] if self._keeps_tools and self._loops else None
        return last if last is not None and last.tool_call_count else None

    @property
    def tool_call_count(self) -> int:
        """Executed calls of all agents, also of those who failed or were asked to do it again."""
        return sum(loop.tool_call_count for loop in self._loops)

    def send_back(self, cause: str, feedback: str, previous: str) -> None:
        """Another attempt follows, since a review or a guardrail wants the output to be different."""
        self._keeps_tools = cause == "guardrail"
        revision = self.revision.follow(feedback, previous, is_by_guardrail=self._keeps_tools)
        self._follow(revision, cause=cause, feedback=feedback)

    def try_again(self, error: Exception, delay_s: float) -> None:
        """Another attempt follows after a wait, since the handler failed."""
        self._follow(self.revision.follow(), cause="error", feedback="", error=error, delay_s=delay_s)

    def _follow(self, revision: Revision, **facts: Any) -> None:
        self.revision = self._revisions[self.node] = revision
        self.span.emit(TaskRetried, attempt=revision.attempt, **facts)

    def watch(self, loop: AgentLoop) -> None:
        """Count the tool calls of an agent that begins, and let the deadline ask it what it is doing."""
        self._loops = (*self._loops, loop)
        self.deadline.watch(lambda: loop.activity)

    def release(self) -> None:
        """The task is done: let go of its agents, whose requests know this, too, so that all is freed at once."""
        self._loops = ()
        self.deadline.watch(str)

    def make_output(self, result: WorkResult) -> TaskOutput:
        """The output of the task, of what came of its work."""
        name, description = self.node.name, self.resolved.description
        return result.to_output(name, description, self.span, tool_call_count=self.tool_call_count)

    def make_input(self, inputs: Mapping[str, Any]) -> TaskInput:
        """The task as handlers and input guardrails see it.

        Args:
            inputs: of the run.
        """
        resolved = self.resolved
        return TaskInput(
            name=resolved.node.name,
            description=resolved.description,
            expected_output=resolved.expected_output,
            context=resolved.context,
            inputs=inputs,
            attempt=self.revision.attempt,
            feedback=self.revision.told,
            previous=self.revision.previous,
            item=resolved.item,
        )


T = TypeVar("T")


class TaskDeadline:
    """The seconds of a task.

    They run only in what is awaited through `limit`. The time in which a model is made ready, or a person decides, does
    not count.

    Args:
        limit_s: the seconds; None for no limit.
        timer: of the task; the seconds stand still when it does.
    """

    __slots__ = ("_activity", "_left_s", "_limit_s", "_timer")

    def __init__(self, limit_s: float | None, timer: TaskTimer) -> None:
        self._limit_s = limit_s
        self._timer = timer
        self._left_s = limit_s or 0.0
        self._activity: Callable[[], str] = str

    def renew(self) -> None:
        """Begin with all its seconds again, for a new attempt."""
        self._left_s = self._limit_s or 0.0

    def watch(self, activity: Callable[[], str]) -> None:
        """From now on, ask this function what is being done; the error says it."""
        self._activity = activity

    async def limit(self, work: Awaitable[T], activity: str) -> T:
        """The result of `work`, which is called `activity` unless it says itself what it is doing.

        Raises:
            DeadlineExceededError: the time is over.
        """
        if self._limit_s is None:
            return await work
        self.watch(lambda: activity)
        loop = asyncio.get_running_loop()
        timeout = asyncio.timeout(self._left_s)
        since: float | None = loop.time()

        def take_time() -> None:
            nonlocal since
            self._left_s = max(0.0, self._left_s - (0.0 if since is None else loop.time() - since))
            since = None

        def stand_or_go_on(is_held_up: bool) -> None:
            nonlocal since
            take_time()
            if not is_held_up:
                since = loop.time()
            if not timeout.expired():
                timeout.reschedule(None if since is None else since + self._left_s)

        try:
            async with timeout:
                self._timer.watcher = stand_or_go_on
                return await work
        except TimeoutError:
            if not timeout.expired():
                raise
            advice = "Raise the task's timeout or make it smaller."
            raise DeadlineExceededError("task", self._limit_s, self._activity(), advice) from None
        finally:
            self._timer.watcher = None
            take_time()
