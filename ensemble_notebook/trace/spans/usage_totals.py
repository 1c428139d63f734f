"""Sums over the leaves beneath a span (T2): kept up to date leaf by leaf, never recomputed.

Knows no span: it is given numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain.outputs.task_output import Metrics, TokenUsage
from ensemble_notebook.domain.wording import describe_saving, pluralize

_NO_TIME: Final = timedelta()
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_TOLD: Final = (
    *("input_tokens", "output_tokens", "total_tokens", "tokens_complete", "llm_call_count", "llm_attempt_count"),
    *("tool_call_count", "delegation_count", "memory_retrieve_count", "memory_store_count", "cost", "cost_complete"),
)
_TIMES: Final = {
    "llm_latency": "llm_ms",
    "tool_time": "tool_ms",
    "prompt_build_time": "prompt_ms",
    "memory_time": "memory_ms",
    "human_wait_time": "human_wait_ms",
}


@dataclass(slots=True)
class UsageTotals:
    """What the attempts and tool calls beneath a span add up to.

    A sum of tokens is its known part: 0 where no model was asked, None where nothing is known. What runs side by side
    adds up in all times but `tool_wait_ms`, the time in which a turn had tools running, counted once. `tool_ms` is the
    tools' own time: what they delegate or ask a person is counted where it is done.
    """

    llm_call_count: int = 0
    llm_attempt_count: int = 0
    retry_count: int = 0
    tool_call_count: int = 0
    delegation_count: int = 0
    fallback_count: int = 0
    memory_retrieve_count: int = 0
    memory_store_count: int = 0
    error_count: int = 0
    llm_ms: float = 0.0
    tool_ms: float = 0.0
    tool_wait_ms: float = 0.0
    backoff_ms: float = 0.0
    wait_ms: float = 0.0
    human_wait_ms: float = 0.0
    prompt_ms: float = 0.0
    memory_ms: float = 0.0
    tokens_complete: bool = True
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    known_cost: Decimal = Decimal(0)
    unpriced_count: int = 0

    def add_attempt(self) -> None:
        """A request was sent. What it takes is unknown as long as it has not ended."""
        if not self.llm_attempt_count:
            self.input_tokens = self.output_tokens = self.reasoning_tokens = None
            self.cache_read_tokens = self.cache_write_tokens = None
        self.llm_attempt_count += 1

    def add_usage(self, leaf: TokenUsage) -> None:
        """Add the tokens of an attempt that has ended."""
        if leaf.input_tokens is None or leaf.output_tokens is None:
            self.tokens_complete = False
        for name in _TOKENS:
            if (count := getattr(leaf, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + count)

    def add_cost(self, cost: Decimal | None) -> None:
        """Add what an attempt cost; None is unknown."""
        if cost is None:
            self.unpriced_count += 1
        else:
            self.known_cost += cost

    def take_back_cost(self, cost: Decimal | None) -> None:
        """Undo `add_cost`, for an attempt whose price turns out to be another one."""
        if cost is None:
            self.unpriced_count -= 1
        else:
            self.known_cost -= cost

    @property
    def total_tokens(self) -> int | None:
        """The sum of input and output, as far as it is known."""
        if self.input_tokens is None or self.output_tokens is None:
            return self.input_tokens if self.output_tokens is None else self.output_tokens
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> Decimal | None:
        """The known part of the cost; None where a price is unknown, and nothing else was paid for."""
        return None if self.unpriced_count and not self.known_cost else self.known_cost

    @property
    def cost_complete(self) -> bool:
        """False when a price is missing."""
        return self.unpriced_count == 0

    def to_metrics(self, currency: str) -> Metrics:
        """The public form."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in _TOLD}
        # No time is one object for all, since most tasks have no time of most kinds.
        times = ((name, getattr(self, ms)) for name, ms in _TIMES.items())
        facts |= {name: timedelta(milliseconds=ms) if ms else _NO_TIME for name, ms in times}
        return Metrics(**facts, currency=currency)


@dataclass(frozen=True, slots=True)
class Savings:
    """What a run did not spend, since earlier runs had done the work of its tasks (C34). No sum of the run has it.

    Tokens and cost are the known part, None where nothing is known of any task that was reused.

    Attributes:
        currency: of the run; what was paid in another one is not in `cost`.
        task_count: how many tasks were reused.
    """

    currency: str
    task_count: int
    tokens: int | None
    cost: Decimal | None
    ms: float

    def describe(self, tasks: int) -> str:
        """What was reused of so many tasks, and what that saved; what costs nothing is not told of."""
        told = describe_saving(self.cost, self.tokens, self.ms, self.currency)
        saved = f": {told}" if told else ""
        return f"{self.task_count:,} of {pluralize(tasks, 'task')} reused{saved}"
