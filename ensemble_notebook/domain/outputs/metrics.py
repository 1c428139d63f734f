"""Numbers about model calls: the usage of one, and the sums over many. Unknown is None, never 0 (T3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
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
class Metrics:
    """Sums over all model requests and other leaves of a task or a run (T2).

    Attributes:
        input_tokens: the known part of the sum; None if models were asked and nothing is known, 0 if none was (E64).
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
