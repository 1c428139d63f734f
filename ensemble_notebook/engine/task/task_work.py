"""One task at work: what it was given, its time, and the agents that have worked on it by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.task.task_deadline import TaskDeadline

MemoryEntries = Mapping[str, Sequence[MemoryEntry]]  # by scope, the best first

NO_MEMORY: Final[MemoryEntries] = MappingProxyType({})


class TaskWork:
    """The state of one started task.

    Attributes:
        node: the task.
        resolved: what the task was given; a review before it may have edited its description.
        memory: what was read for it.
        span: of the task.
        revision: what the present attempt is to do better; None for the first one.
        deadline: the time that an attempt has.
    """

    __slots__ = ("_loops", "deadline", "memory", "node", "resolved", "revision", "span")

    def __init__(self, resolved: ResolvedTask, memory: MemoryEntries, span: SpanEmitter) -> None:
        self.node = resolved.node
        self.resolved = resolved
        self.memory = memory
        self.span = span
        self.revision = resolved.revision
        self.deadline = TaskDeadline(resolved.node.task.timeout)
        self._loops: list[AgentLoop] = []

    @property
    def tool_call_count(self) -> int:
        """Executed calls of all agents, also of those who failed or were asked to do it again (E7)."""
        return sum(loop.tool_call_count for loop in self._loops)

    def watch(self, loop: AgentLoop) -> None:
        """Count the tool calls of an agent that begins, and let the deadline ask it what it is doing."""
        self._loops.append(loop)
        self.deadline.watch(lambda: loop.activity)

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
        )
