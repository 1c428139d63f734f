"""The input of a task's start, and the Protocol of what computes its key. The engine fills one and calls the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.outputs.chat_message import Messages
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.domain.seams.run_memory import PendingKey, TaskKey


# Not frozen, as is no value that is made for each task: setting the fields of a frozen one takes several times as long.
@dataclass(slots=True, kw_only=True)
class TaskStart:
    """One start of a task, with everything resolved: all that its key is made of.

    Attributes:
        node: the task, with its agent, models, tools and callables.
        description, expected_output: resolved.
        context: the outputs that it reads and that are there, in the order of its ``context``.
        missing: why other outputs that it reads are not there, as the prompt says it.
        memory: what was found for it, by scope, the best first.
        feedback: what reviews wanted to be different so far, oldest first (E46).
        previous: what it produced itself at the attempt before; None at the first.
        conversation: who said what in the conversation that it goes on with, in turns (E55).
        inputs: of the run; handlers and guardrails see them.
        item: the item for which the task starts, which they see, too; None for none (E53).
        reads_items: whether they look at the whole input that has the items, too.
    """

    node: TaskNode
    description: str
    expected_output: str
    context: tuple[TaskOutput, ...] = ()
    missing: tuple[str, ...] = ()
    memory: Mapping[str, Sequence[MemoryEntry]] = field(default_factory=dict)
    feedback: tuple[str, ...] = ()
    previous: str | None = None
    conversation: Messages = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    item: Any = None
    reads_items: bool = False


class TaskKeys(Protocol):
    """Makes the keys of one run; callables are looked at when it is made, at the start of the run (C34a)."""

    def make_key(self, start: TaskStart) -> TaskKey:
        """The key of a task that is about to start. Never raises: what can't be compared becomes its obstacle."""

    def make_key_later(self, start: TaskStart) -> PendingKey:
        """The same, computed when it is needed; but at once if an object in it might change by then."""

    def make_review_key(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> TaskKey:
        """The key of the review of a phase by a callable: by which code, and of which outputs."""
