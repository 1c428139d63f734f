"""What each agent has done: one record per role."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from operator import methodcaller
from typing import Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.shared_columns import make_table
from ensemble_notebook.trace.tables.table import Column, make_known


class AgentStats:
    """The spans that an agent worked on, and what they add up to; the attributes are the columns.

    Args:
        agent: its role.
        spans: in no order.
    """

    def __init__(self, agent: str, spans: Iterable[Span]) -> None:
        self.agent = agent
        self.currency: str | None = None
        self._by_kind: defaultdict[SpanKind, list[Span]] = defaultdict(list)
        for span in spans:
            self.currency = span.currency or self.currency
            if span.start_ms is not None and (span.is_call or span.kind is not SpanKind.LLM):
                self._by_kind[span.kind].append(span)

    def count_spans(self, kind: SpanKind) -> int:
        """How many spans of a kind began."""
        return len(self._by_kind[kind])

    @property
    def tool_count(self) -> int:
        """How many tool calls were executed."""
        return sum(span.is_executed for span in self._by_kind[SpanKind.TOOL])

    def compute_rate(self, kind: SpanKind, *, is_retried: bool = False) -> float | None:
        """The share of spans of a kind that failed, or were followed by another try; None where there were none."""
        spans = self._by_kind[kind]
        hits = sum(bool(span.retry_reason) if is_retried else span.status is SpanStatus.ERROR for span in spans)
        return hits / len(spans) if spans else None

    def find_duration(self, kind: SpanKind, share: float) -> float | None:
        """The duration that this share of the spans of a kind does not exceed; None where none is over."""
        taken = (each.own_ms if kind is SpanKind.TASK else each.duration_ms for each in self._by_kind[kind])
        durations = sorted(each for each in taken if each is not None)
        return durations[max(0, math.ceil(share * len(durations)) - 1)] if durations else None

    def sum_tokens(self, name: str) -> int | None:
        """The known part of a sum over its requests; None where no part is known although something was asked for."""
        return _sum_known([getattr(span, name) for span in self._by_kind[SpanKind.ATTEMPT]])

    @property
    def total_tokens(self) -> int | None:
        """Input and output of its requests, as far as it is known."""
        return _sum_known([self.sum_tokens("input_tokens"), self.sum_tokens("output_tokens")])

    @property
    def tool_wait_ms(self) -> float:
        """How long its turns waited for tools; side by side once."""
        return sum(span.totals.tool_wait_ms for span in self._by_kind[SpanKind.LLM] if span.totals is not None)

    @property
    def tool_tokens(self) -> int | None:
        """Input and output of the calls that asked for tools, as far as it is known."""
        asked = [span.totals for span in self._by_kind[SpanKind.LLM] if span.tool_request_count]
        return _sum_known([None if totals is None else totals.total_tokens for totals in asked])

    @property
    def cost(self) -> Decimal | None:
        """The known part of what its requests cost; None where a price is unknown, and nothing else was paid for."""
        costs = [span.cost for span in self._by_kind[SpanKind.ATTEMPT]]
        known = sum((each for each in costs if each is not None), Decimal(0))
        return None if None in costs and not known else known

    @property
    def cost_complete(self) -> bool:
        """False when a price is missing."""
        return all(span.cost is not None for span in self._by_kind[SpanKind.ATTEMPT] if span.end_seq is not None)


def _sum_known(numbers: Sequence[int | None]) -> int | None:
    known = [each for each in numbers if each is not None]
    return sum(known) if known or not numbers else None


def _make_duration_columns(kind: SpanKind, what: str) -> tuple[Column, ...]:
    shares = (("p50", 0.5, "half"), ("p90", 0.9, "nine in ten"), ("max", 1.0, "all"))
    return tuple(
        Column(
            f"{kind.value}_{name}_ms",
            "Float64",
            f"{words} of its {what} took no longer",
            methodcaller("find_duration", kind, share),
        )
        for name, share, words in shares
    )


def _make_count_column(kind: SpanKind, what: str) -> Column:
    return make_known(f"{kind.value}_count", "Int64", what, methodcaller("count_spans", kind))


def _make_token_column(name: str, meaning: str) -> Column:
    return Column(name, "Int64", f"{meaning}; known part", methodcaller("sum_tokens", name))


AGENTS: Final = make_table(
    "agent, by role; a fallback agent and a worker have their own part of a task. 'Handler' stands for all handlers",
    make_known("agent", "string", "role"),
    (
        _make_count_column(SpanKind.TASK, "tasks that began, delegated ones included"),
        _make_count_column(SpanKind.LLM, "model calls"),
        _make_count_column(SpanKind.ATTEMPT, "physical requests behind them"),
        make_known("tool_count", "Int64", "tool calls that were executed"),
        _make_count_column(SpanKind.DELEGATION, "delegations that it asked for"),
        *_make_duration_columns(SpanKind.TASK, "tasks"),
        *_make_duration_columns(SpanKind.LLM, "model calls"),
        Column(
            "task_error_rate", "Float64", "share of its tasks that failed", methodcaller("compute_rate", SpanKind.TASK)
        ),
        Column(
            "llm_error_rate",
            "Float64",
            "share of its model calls that failed",
            methodcaller("compute_rate", SpanKind.LLM),
        ),
        Column(
            "retry_rate",
            "Float64",
            "share of its requests that were tried again",
            methodcaller("compute_rate", SpanKind.ATTEMPT, is_retried=True),
        ),
        make_known("tool_wait_ms", "Float64", "how long its turns waited for tools; side by side once"),
        Column("tool_tokens", "Int64", "input and output of the calls that asked for tools; known part"),
        _make_token_column("input_tokens", "cached ones included"),
        _make_token_column("cache_read_tokens", "read from the provider's cache"),
        _make_token_column("output_tokens", "reasoning ones included"),
        _make_token_column("reasoning_tokens", "spent on reasoning"),
        Column("total_tokens", "Int64", "input and output; known part"),
        Column("cost", "Float64", "known part, in currency"),
        make_known("cost_complete", "boolean", "False when the price of a request is unknown"),
        Column("currency", "category", "of the cost"),
    ),
    first=("task_count", "llm_count", "tool_count", "task_p50_ms", "llm_p50_ms", "tool_wait_ms"),
)


def collect_agent_stats(spans: Sequence[Span]) -> list[AgentStats]:
    """One per agent, in order of first appearance; agents that never began are there, too."""
    by_agent: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.agent and span.item_count is None:  # of a task with items, these are what the agent did
            by_agent[span.agent].append(span)
    return [AgentStats(agent, spans_of_agent) for agent, spans_of_agent in by_agent.items()]
