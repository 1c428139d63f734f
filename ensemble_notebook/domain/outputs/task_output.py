"""What a task leaves behind (E7): its output, conversation and numbers, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, TypeVar

from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.outputs.secrets import Record, mask_start
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.errors import SuggestsNames, get_state, make_readable

_SHOWN: Final = 80
_READ: Final = 1_000  # some of it may be white space

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Saving(Record):
    """What was saved by reusing a task's output from an earlier run.

    Attributes:
        run_id: the run that did the work.
        reason: why its output could be reused, in words.
        tokens: input and output together; only the known part, None if nothing is known.
        cost: in `currency`; None if unknown.
        currency: code of the currency; None if the cost is unknown.
        duration: how long the work took then.
        path: of the task in that run; empty if unknown.
    """

    run_id: str
    reason: str
    tokens: int | None = None
    cost: Decimal | None = None
    currency: str | None = None
    duration: timedelta = timedelta()
    path: str = ""


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
            all its attempts. Not its queue, nor a startup.
        tool_call_count: executed tool calls.
        parsed_output: the value behind the text, where there is one: what a handler returned, or the
            ``structured_output`` of its `ToolResult`.
        from_fallback: the task's `fallback` did it.
        reused: taken over from an earlier run.
        saving: what that saved; None where it was not.
        messages: the conversation of its agent with the model: the system prompt, then prompts and final replies,
            with the replies between them that ask for tools and the results; those of the conversation that it went on
            with come first. Empty for handlers and ensembles, and where no text is kept.
        trace: this task's part of the execution trace; None until the run has ended.
        metrics: tokens, calls and cost of this task; None until the run has ended.
        item_outputs: of a task that runs for each item, the outputs of the items that were completed, in their order;
            then `parsed_output` is the list of their values.
        item_failures: of such a task, the items that failed.
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
    item_outputs: tuple[TaskOutput, ...] = ()
    item_failures: tuple[Failure, ...] = ()
    # Of a run that keeps no text, the role before its variables were filled: then ``repr`` and pickles show it alone.
    _declared_role: str | None = None

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

    def _fix_end(self, completed_at: datetime, duration: timedelta) -> None:
        """Set when the task ended and how long it took, which is not known yet while guardrails look at its output.

        The engine does this once, before anybody else has the output. Making a second object would cost as much as all
        the scheduling of a task.

        Args:
            completed_at: UTC.
            duration: as the attribute.
        """
        object.__setattr__(self, "completed_at", completed_at)
        object.__setattr__(self, "duration", duration)

    def _get_pickled_state(self) -> dict[str, Any]:
        """All fields; without texts where the run keeps none."""
        state = get_state(self)
        if self._declared_role is None:
            return state
        state |= {"raw": "", "task_description": "", "agent_role": self._declared_role, "parsed_output": None}
        return {**state, "item_failures": ()}  # errors are texts

    def __repr__(self) -> str:
        """One line: who, how long, and how the text begins."""
        if self._declared_role is not None:
            start = f"<TaskOutput {self.name} ({self._declared_role}) in {format_duration(self.duration)}"
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
        item_of: of an item of a task that runs for each of a list, the name of that task.
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


# --- Numbers about model calls: the usage of one, and the sums over many. Unknown is None, never 0 --------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage(SuggestsNames):
    """Tokens of one physical model request, as the provider counts them.

    Attributes:
        input_tokens: includes cached tokens.
        output_tokens: includes reasoning tokens.
        cache_read_tokens: part of the input that was read from a cache; None if the provider does not say.
        cache_write_tokens: part of the input that was written to a cache; likewise.
        reasoning_tokens: part of the output; likewise.
        source: who counted: ``"provider"``, or ``"scripted"`` for the deterministic counts of a scripted model.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    source: str = "provider"


NO_USAGE = TokenUsage(input_tokens=0, output_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums(SuggestsNames):
    """Sums over all model requests and other leaves of a task or of runs.

    Attributes:
        input_tokens: the known part of the sum; None if models were asked and nothing is known, 0 if none was.
        output_tokens: likewise.
        total_tokens: input and output together.
        tokens_complete: False if the tokens of some request are unknown.
        llm_call_count: model calls that sent at least one request.
        llm_attempt_count: the physical requests of these calls.
        tool_call_count: executed tool calls.
        delegation_count: requested delegations, refused ones included.
        memory_retrieve_count: reads from the memory.
        memory_store_count: writes to the memory.
        llm_latency: time of all model requests. This and the other times add up work that ran concurrently.
        tool_time: time of all tools, without what they delegate or ask a person.
        prompt_build_time: time to make prompts.
        memory_time: time of all memory operations.
        human_wait_time: time spent waiting for people.
        cost: the known part, in `currency`; None if no request's price is known.
        currency: code of the currency; None without a cost.
        cost_complete: False if the price of some request is unknown.
    """

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    total_tokens: int | None = 0
    tokens_complete: bool = True
    llm_call_count: int = 0
    llm_attempt_count: int = 0
    tool_call_count: int = 0
    delegation_count: int = 0
    memory_retrieve_count: int = 0
    memory_store_count: int = 0
    llm_latency: timedelta = timedelta()
    tool_time: timedelta = timedelta()
    prompt_build_time: timedelta = timedelta()
    memory_time: timedelta = timedelta()
    human_wait_time: timedelta = timedelta()
    cost: Decimal | None = None
    cost_complete: bool = True
    currency: str = "USD"

    def _list_sums(self) -> dict[str, Any]:
        """All of them, by name."""
        return {each.name: getattr(self, each.name) for each in fields(Sums)}

    def _add(self, other: Sums) -> dict[str, Any]:
        """All of them with those of other runs; a cost in another currency is not in them."""
        sums = self._list_sums()
        for name, mine in sums.items():
            theirs = getattr(other, name)
            if isinstance(mine, bool):
                sums[name] = mine and theirs
            elif name != "currency":
                known = [amount for amount in (mine, theirs) if amount is not None]
                sums[name] = sum(known[1:], known[0]) if known else None
        if other.cost is not None and other.currency != self.currency:
            sums |= {"cost": self.cost, "cost_complete": False}
        return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySums(Sums):
    """Sums over a run, its forks, calls of it made again, and what it came of or what went on with one of these.

    Attributes:
        run_ids: of the runs that are in them, in the order of their start.
        note: what is not in them, and why; empty where all is.
    """

    run_ids: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(Sums):
    """Sums over all model requests and other leaves of a task or a run.

    Attributes:
        earlier: the sums of the runs that this one goes on with, all in one; None where there are none.
        run_id: of the run; None of a part of one.
    """

    earlier: Sums | None = field(default=None, repr=False, compare=False)
    run_id: str | None = field(default=None, repr=False, compare=False)
    _ask_family: Callable[[Metrics], FamilySums] | None = field(default=None, repr=False, compare=False)

    @property
    def total(self) -> Metrics:
        """The sums over this run and those that it goes on with: what the whole of it took, wherever that was paid."""
        return self if self.earlier is None else replace(self, earlier=None, **self._add(self.earlier))

    @property
    def family(self) -> FamilySums:
        """The sums over all runs that came of one: it, its forks, calls made again, and what went on with one of these.

        The store is asked each time; where it does not have them, they are those of this run alone, and `note` says so.
        """
        if self._ask_family is None:
            return FamilySums(**self._list_sums(), note="A part of a run has no family: this part alone.")
        return self._ask_family(self)
