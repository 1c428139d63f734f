"""Spans and runs as the timeline gets them: plain JSON values, absent where unknown, bounded in size.

Names are those of the frames' columns. Knows nothing of what asks for them or when.
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import shorten
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

LONGEST_TEXT: Final = 500
LONGEST_QUESTION: Final = 2_000
MOST_ACTIVE: Final = 20
MOST_WARNINGS: Final = 20

_PLAIN: Final = (
    "parent_id",
    "phase",
    "task",
    "agent",
    "provider",
    "tool",
    "tool_call_id",
    "attempt",
    "max_attempts",
    "retry_reason",
    "finish_reason",
    "error_type",
    "delegate_to",
    "delegation_id",
    "review_decision",
)
_TEXTS: Final = ("description", "error_message", "reason")
_TIMES: Final = (
    "start_ms",
    "end_ms",
    "queue_ms",
    "backoff_ms",
    "time_to_first_token_ms",
    "human_wait_ms",
    "slack_ms",
)
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens")
_WITH_FACTS: Final = (SpanKind.DELEGATION, SpanKind.REVIEW, SpanKind.MEMORY)


def to_row(span: Span) -> dict[str, Any]:
    """One row. Tokens and cost of anything but an attempt are sums over the attempts beneath (T2).

    Delegations, reviews and memory operations have what only they have in a field of the kind's name; ``guardrail``
    says what one looks at (input or output), ``wait`` what a wait waits for, ``settings`` how a task was declared, by
    the names of its fields.
    """
    row: dict[str, Any] = {
        "span_id": span.span_id,
        "kind": span.kind.value,
        "name": span.name,
        "status": span.status.value,
        "lane": span.lane,
        "seq": span.seq,
    }
    for name in _PLAIN:
        row[name] = getattr(span, name)
    for name in _TEXTS:
        text = getattr(span, name)
        row[name] = None if text is None else shorten(text, LONGEST_TEXT)
    for name in _TIMES:
        row[name] = _to_number(getattr(span, name))
    row["model"] = span.model or span.model_requested
    row["depends_on"] = list(span.depends_on) or None
    row["is_scripted"] = span.is_scripted or None
    row["is_fallback"] = span.is_fallback or None
    row["critical"] = span.critical or None
    row["wait"] = span.wait_kind
    facts = span.attributes or {}
    if span.kind in _WITH_FACTS:
        row[span.kind.value] = {name: _shorten_value(value) for name, value in facts.items()}
    elif span.kind is SpanKind.TASK:
        row["settings"] = {name: _shorten_value(value) for name, value in facts.get("settings", {}).items()} or None
    elif span.kind is SpanKind.GUARDRAIL:
        row["guardrail"] = facts.get("kind")
    if span.start_ms is not None and (span.totals is not None or span.usage_leaf):
        sums = span if span.totals is None else span.totals
        for name in _TOKENS:
            row[name] = getattr(sums, name)
        row["cost"] = _to_number(sums.cost)
        row["currency"] = None if sums.cost is None else span.currency
    return {name: value for name, value in row.items() if value is not None}


def to_run(fold: TraceFold, now: datetime) -> dict[str, Any]:
    """The state of the run as a whole, `now` being the time of asking."""
    metrics, counts, run = fold.metrics, fold.tree.task_counts, fold.run
    totals = None if run is None else run.totals
    return {
        "run_id": fold.run_id,
        "name": fold.name,
        "workflow": fold.workflow,
        "status": fold.status.value,
        "exit_reason": fold.exit_reason and fold.exit_reason.value,
        "started_at": None if run is None or run.start_time is None else run.start_time.isoformat(),
        "elapsed_ms": _measure_elapsed_ms(fold, now),
        "tasks_total": sum(counts.values()),
        "tasks_done": counts[SpanStatus.OK],
        "tasks_failed": counts[SpanStatus.ERROR],
        "tasks_skipped": counts[SpanStatus.SKIPPED],
        "phases_now": [span.name for span in fold.tree.open.values() if span.kind is SpanKind.PHASE],
        "active": _list_active(fold),
        "waiting": [span.span_id for span in fold.tree.open.values() if _is_question_to_person(span)],
        "input_tokens": metrics.input_tokens,
        "output_tokens": metrics.output_tokens,
        "cache_read_tokens": (totals and totals.cache_read_tokens) or 0,
        "tokens_complete": metrics.tokens_complete,
        "cost": _to_number(metrics.cost),
        "cost_complete": metrics.cost_complete,
        "currency": metrics.currency,
        "llm_call_count": metrics.llm_call_count,
        "tool_call_count": metrics.tool_call_count,
        "errors": 0 if totals is None else totals.error_count,
        "retries": 0 if totals is None else totals.retry_count,
        "fallbacks": 0 if totals is None else totals.fallback_count,
        "delegations": metrics.delegation_count,
        "budget": _to_budget(fold),
        "max_concurrency": fold.max_concurrency,
        "is_scripted": fold.is_scripted,
        "warnings": [shorten(each, LONGEST_TEXT) for each in fold.warnings[-MOST_WARNINGS:]],
        "note": fold.note,
        "error": None if fold.error is None else {"type": fold.error[0], "message": fold.error[1] or ""},
    }


def _is_question_to_person(span: Span) -> bool:
    """An open question; phases are looked at by tasks and functions (E28)."""
    is_open = span.kind is SpanKind.REVIEW and span.status is SpanStatus.WAITING
    return is_open and (span.attributes or {}).get("subject") != "phase"


def to_phases(fold: TraceFold) -> list[dict[str, Any]]:
    """The phases with their predecessors, in order of declaration."""
    return [
        {"name": span.name, "span_id": span.span_id, "after": list(span.depends_on)}
        for span in fold.spans.values()
        if span.kind is SpanKind.PHASE
    ]


def _to_budget(fold: TraceFold) -> dict[str, Any] | None:
    """The limits, what this run has spent of them, and the largest share; None without a budget."""
    if fold.budget is None:
        return None
    metrics = fold.metrics
    spent = {
        "max_cost": metrics.cost or 0,
        "max_tokens": metrics.total_tokens,
        "max_llm_calls": metrics.llm_attempt_count,
    }
    limits = fold.budget.limits
    return {
        **{name: _to_number(limits.get(name)) for name in spent},
        "cost": _to_number(metrics.cost),
        "tokens": metrics.total_tokens,
        "llm_calls": metrics.llm_attempt_count,
        "currency": metrics.currency,
        "warn_at": fold.budget.warn_at,
        "share": max(_to_number(float(spent[name]) / float(limit)) or 0.0 for name, limit in limits.items()),
    }


def _shorten_value(value: Any) -> Any:
    return shorten(value, LONGEST_QUESTION) if isinstance(value, str) else value


def _list_active(fold: TraceFold) -> list[dict[str, Any]]:
    """What runs now, by name: calls, and tasks that are in no call; the longest running first."""
    running = list(fold.tree.open.values())
    calling = {span.task_id for span in running if span.kind.traits.is_activity}
    active = [
        span
        for span in running
        if span.kind.traits.is_activity or (span.kind is SpanKind.TASK and span.span_id not in calling)
    ]
    return [
        {
            "span_id": span.span_id,
            "kind": span.kind.value,
            "name": span.name,
            "agent": span.agent,
            "since_ms": _to_number(span.start_ms),
        }
        for span in active[:MOST_ACTIVE]
    ]


def _measure_elapsed_ms(fold: TraceFold, now: datetime) -> float:
    """On the run's own clock once it is over; before that by the time of day, which is all that the reader has."""
    run = fold.run
    if run is None or run.start_time is None:
        return 0.0
    if run.end_ms is not None:
        return _to_number(run.end_ms) or 0.0
    return round(max(0.0, (now - run.start_time).total_seconds() * 1000), 3)


def _to_number(value: float | Decimal | None) -> float | None:
    """A JSON number: finite, no longer than anyone can see."""
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        return None
    return number if isinstance(value, Decimal) else round(number, 3)
