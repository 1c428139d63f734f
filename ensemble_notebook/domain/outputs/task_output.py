"""What a task leaves behind (E7), and why others left nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar

from ensemble_notebook.domain.outputs.metrics import Metrics
from ensemble_notebook.domain.outputs.record import Record
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.errors import make_readable

_SHOWN: Final = 80

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskOutput(Record):
    """The result of one completed task.

    Attributes:
        name: the task's name.
        raw: the complete text.
        task_description: resolved.
        agent_role: who did it; ``"Handler"`` for a task with a handler.
        completed_at: UTC.
        duration: how long it, or agents on its behalf, worked or waited for a model, a tool, a limit or a person, in
            all its attempts (E50). Not its queue, nor a startup.
        tool_call_count: executed tool calls.
        parsed_output: the value behind the text, where there is one: what a handler returned, or the
            ``structured_output`` of its `ToolResult`.
        from_fallback: the task's `fallback` did it (E31).
        reused: taken over from an earlier run.
        trace: this task's part of the execution trace; None until the run has ended.
        metrics: tokens, calls and cost of this task; None until the run has ended.
    """

    name: str
    raw: str
    task_description: str
    agent_role: str
    completed_at: datetime
    duration: timedelta
    tool_call_count: int = 0
    parsed_output: Any = None
    from_fallback: bool = False
    reused: bool = False
    trace: Any = None
    metrics: Metrics | None = None

    @property
    def output_type(self) -> type | None:
        """Type of `parsed_output`, or None where there is none."""
        return None if self.parsed_output is None else type(self.parsed_output)

    def get_parsed_output(self, kind: type[T]) -> T:
        """`parsed_output`, when it is of this type.

        Raises:
            ValueError: there is none, or it is of another type.
        """
        if isinstance(self.parsed_output, kind):
            return self.parsed_output
        found = "no parsed output" if self.parsed_output is None else f"a {type(self.parsed_output).__name__}"
        raise ValueError(f"Task {self.name!r} has {found}, not a {kind.__name__}.")

    def __repr__(self) -> str:
        """One line: who, how long, and how the text begins."""
        text = " ".join(self.raw.split())
        start = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        took = format_duration(self.duration)
        return make_readable(f"<TaskOutput {self.name} ({self.agent_role}) in {took}: {mask(start)!r}>")

    def __str__(self) -> str:
        """The text."""
        return self.raw


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Failure(Record):
    """One failed task, or a phase that its review rejected.

    Attributes:
        name: of the task or phase.
        agent_role: who worked on it, or reviewed it.
        error: with its chain of causes.
        kind: ``"task"`` or ``"phase"``.
    """

    name: str
    agent_role: str
    error: BaseException
    kind: Literal["task", "phase"] = "task"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Skipped(Record):
    """A task or phase that never ran, and why."""

    name: str
    kind: Literal["task", "phase"]
    reason: str
