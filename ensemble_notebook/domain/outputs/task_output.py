"""What a task leaves behind (E7), and why others left nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, TypeVar

from ensemble_notebook.domain.outputs.chat_message import ChatMessage
from ensemble_notebook.domain.outputs.metrics import Metrics
from ensemble_notebook.domain.outputs.record import Record, fill_slots_directly
from ensemble_notebook.domain.outputs.secrets import mask_start
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.errors import get_state, make_readable

_SHOWN: Final = 80
_READ: Final = 1_000  # some of it may be white space

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Saving(Record):
    """What was saved by reusing a task's output from an earlier run (C34).

    Attributes:
        run_id: the run that did the work.
        reason: why its output could be reused, in words.
        tokens: input and output together; only the known part, None if nothing is known.
        cost: in `currency`; None if unknown.
        currency: code of the currency; None if the cost is unknown.
        duration: how long the work took then.
    """

    run_id: str
    reason: str
    tokens: int | None = None
    cost: Decimal | None = None
    currency: str | None = None
    duration: timedelta = timedelta()


@fill_slots_directly
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
        reused: taken over from an earlier run (C34).
        saving: what that saved; None where it was not.
        messages: the conversation of its agent with the model: the system prompt, then prompts and final replies,
            without tool calls; those of the conversation that it went on with come first (E55). Empty for handlers
            and ensembles, and where no text is kept.
        trace: this task's part of the execution trace; None until the run has ended.
        metrics: tokens, calls and cost of this task; None until the run has ended.
        item_outputs: of a task that runs for each item, the outputs of the items that were completed, in their order;
            then `parsed_output` is the list of their values (E53).
        item_failures: of such a task, the items that failed.
        declared_role: of a run that keeps no text (T6a), the role before its variables were filled: then ``repr`` and
            pickles show it, and no text. None where texts are kept.
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
    saving: Saving | None = None
    messages: tuple[ChatMessage, ...] = ()
    trace: Any = None
    metrics: Metrics | None = None
    declared_role: str | None = None
    item_outputs: tuple[TaskOutput, ...] = ()
    item_failures: tuple[Failure, ...] = ()

    @property
    def output_type(self) -> type | None:
        """Type of `parsed_output`, or None where there is none."""
        return None if self.parsed_output is None else type(self.parsed_output)

    def get_parsed_output(self, kind: type[T]) -> T:
        """`parsed_output`, with its type checked.

        Args:
            kind: the expected class.

        Raises:
            ValueError: there is no parsed output, or it is not of this class.
        """
        if isinstance(self.parsed_output, kind):
            return self.parsed_output
        found = "no parsed output" if self.parsed_output is None else f"a {type(self.parsed_output).__name__}"
        raise ValueError(f"Task {self.name!r} has {found}, not a {kind.__name__}.")

    def fix_end(self, completed_at: datetime, duration: timedelta) -> None:
        """Set when the task ended and how long it took, which is not known yet while guardrails look at its output.

        The engine does this once, before anybody else has the output. Making a second object would cost as much as all
        the scheduling of a task.

        Args:
            completed_at: UTC.
            duration: as the attribute.
        """
        object.__setattr__(self, "completed_at", completed_at)
        object.__setattr__(self, "duration", duration)

    def get_pickled_state(self) -> dict[str, Any]:
        """All fields; without texts where the run keeps none."""
        state = get_state(self)
        if self.declared_role is None:
            return state
        state |= {"raw": "", "task_description": "", "agent_role": self.declared_role, "parsed_output": None}
        return {**state, "item_failures": ()}  # errors are texts

    def __repr__(self) -> str:
        """One line: who, how long, and how the text begins."""
        if self.declared_role is not None:
            start = f"<TaskOutput {self.name} ({self.declared_role}) in {format_duration(self.duration)}"
            return make_readable(f"{start}: the text is in its raw, and nowhere else>")
        text = " ".join(mask_start(self.raw, _READ).split())
        start = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        took = format_duration(self.duration)
        if self.saving is not None:
            took = f"reused from run {self.saving.run_id}, where it took {format_duration(self.saving.duration)}"
            return make_readable(f"<TaskOutput {self.name} ({self.agent_role}) {took}: {start!r}>")
        return make_readable(f"<TaskOutput {self.name} ({self.agent_role}) in {took}: {start!r}>")

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
        item_of: of an item of a task that runs for each of a list, the name of that task (E53).
        item_description: what that item was to do, resolved; None where it could not be, and for all that is no item.
    """

    name: str
    agent_role: str
    error: BaseException
    kind: Literal["task", "phase"] = "task"
    item_of: str | None = None
    item_description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Skipped(Record):
    """A task or phase that never ran.

    Attributes:
        name: of the task or phase.
        kind: ``"task"`` or ``"phase"``.
        reason: why, in words.
    """

    name: str
    kind: Literal["task", "phase"]
    reason: str
