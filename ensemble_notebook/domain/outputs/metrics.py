"""Numbers about model calls: the usage of one, and the sums over many. Unknown is None, never 0 (T3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one physical model request, as the provider counts them.

    Attributes:
        input_tokens: includes cached ones.
        output_tokens: includes reasoning ones.
        cache_read_tokens, cache_write_tokens, reasoning_tokens: subsets; None where the provider does not say.
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
class Metrics:
    """Sums over the leaf requests of a task or a run (T2).

    Attributes:
        input_tokens, output_tokens, total_tokens: the known part of the sums; None where models were asked and nothing
            is known, 0 where none was (E64).
        tokens_complete: False when some request's tokens are unknown.
        llm_call_count: model calls of which a request was sent; `llm_attempt_count` counts the requests behind them.
        tool_call_count: executed tool calls.
        delegation_count: delegations that were asked for, refused ones included.
        memory_retrieve_count, memory_store_count: memory operations.
        llm_latency, tool_time, prompt_build_time, memory_time, human_wait_time: sums of durations; what runs side by
            side adds up. A tool's time is its own: without what it delegates or asks a person.
        cost: the known part in `currency`; None when no request's price is known.
        cost_complete: False when some request's price is unknown.
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
