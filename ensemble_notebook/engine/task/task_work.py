"""One task at work: what it was given, its time, and the agents that have worked on it by now."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import TaskRetried
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.agent.agent_request import WorkResult
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.specs.revision import Revision
from ensemble_notebook.engine.task.task_deadline import make_deadline

MemoryEntries = Mapping[str, Sequence[MemoryEntry]]  # by scope, the best first

NO_MEMORY: Final[MemoryEntries] = MappingProxyType({})


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
        self.deadline = make_deadline(resolved.node.task.timeout, span.timer)
        self._revisions = revisions
        self._loops: tuple[AgentLoop, ...] = ()
        self._keeps_tools = False

    @property
    def loop_before(self) -> AgentLoop | None:
        """The agent at the attempt before, where a guardrail has sent back what it made with its tools (E51).

        It goes on with what they told, so that none is called, and paid, for an objection to the text alone.
        """
        last = self._loops[-1] if self._keeps_tools and self._loops else None
        return last if last is not None and last.tool_call_count else None

    @property
    def tool_call_count(self) -> int:
        """Executed calls of all agents, also of those who failed or were asked to do it again (E7)."""
        return sum(loop.tool_call_count for loop in self._loops)

    def send_back(self, cause: str, feedback: str, previous: str) -> None:
        """Another attempt follows, since a review or a guardrail wants the output to be different (E46)."""
        self._keeps_tools = cause == "guardrail"
        self._follow(self.revision.follow(feedback, previous), cause=cause, feedback=feedback)

    def try_again(self, error: Exception, delay_s: float) -> None:
        """Another attempt follows after a wait, since the handler failed (E30)."""
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
            feedback=self.revision.feedback,
            previous=self.revision.previous,
            item=resolved.item,
        )
