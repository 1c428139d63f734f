"""The tables of a trace: every column of every frame, with dtype, unit and meaning (T20, T21).

Names are those of the spans and of the timeline's rows. Unknown is NA, never 0 (T3). Durations are milliseconds on the
monotonic clock, with ``_ms`` in the name; ``_time`` columns are UTC anchors. What repeats is a category.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.spans.span import Message, Span
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table, attribute_reader


def _format_arguments(message: Message) -> str | None:
    return "; ".join(f"{call.name}({call.arguments})" for call in message.tool_calls) or None


def _task_counter(status: SpanStatus) -> Callable[[Any], int]:
    """How a record of a run gives how many tasks of the plan are in a status."""
    return lambda record: int(record.fold.tree.task_counts[status])


def _read_currency(span: Span) -> str | None:
    return None if span.cost is None else span.currency


_SPAN_ID: Final = Column("span_id", "string", "unique in all runs", is_nullable=False)

_WHERE: Final = (
    Column("phase", "category", "name of the phase, NA in a flat ensemble"),
    Column("task_id", "string", "span_id of the task"),
    Column("task", "category", "name of the task"),
    Column("agent", "category", "role of the agent, 'Handler' for a handler"),
    Column("iteration", "Int64", "number of the turn in the agent's loop, from 1"),
    Column("is_fallback", "boolean", "a fallback agent is at work; of a task: one took over"),
    Column("delegation_id", "string", "of the innermost delegation that it is a part of"),
)
STATUS: Final = Column(
    "status",
    "category",
    "pending, running, waiting, ok, error, cancelled or skipped",
    "status.value",
    "Status",
    is_nullable=False,
)
TIMES: Final = (
    Column("start_time", UTC_TIME, "when it started, NA for what never ran"),
    Column("end_time", UTC_TIME, "when it ended"),
    Column("start_ms", "Float64", "start, since the run started"),
    Column("duration_ms", "Float64", "start to end, retries and back-off included"),
)
_ERROR: Final = (
    Column("error_type", "category", "class of the error, where status is error"),
    Column("error_message", "string", "its text, secrets masked"),
)
_CHAIN: Final = (
    Column("critical", "boolean", "on the longest chain; NA before the run has ended"),
    Column("slack_ms", "Float64", "how much later it could have ended without delaying the run"),
)
_MODEL: Final = (
    Column("provider", "category", "who serves the model"),
    Column("model_requested", "category", "name as asked for"),
    Column("model", "category", "name as the provider gave it"),
    Column("is_scripted", "boolean", "a script answered for the model"),
)
_LEAF_TOKENS: Final = (
    Column("input_tokens", "Int64", "cached ones included"),
    Column("cache_read_tokens", "Int64", "the part read from the provider's cache"),
    Column("cache_write_tokens", "Int64", "the part written to it"),
    Column("output_tokens", "Int64", "reasoning ones included"),
    Column("reasoning_tokens", "Int64", "the part spent on reasoning"),
)
_LEAF_USAGE: Final = (
    *_LEAF_TOKENS,
    Column("tokens_source", "category", "who counted: provider or scripted"),
    Column("cost_input", "Float64", "price of the input, in currency"),
    Column("cost_output", "Float64", "price of the output, in currency"),
    Column("cost", "Float64", "both"),
    Column("currency", "category", "of the cost", _read_currency),
)
SUMS: Final = (
    *(Column(each.name, "Int64", f"{each.meaning}; known part", f"totals.{each.name}") for each in _LEAF_TOKENS),
    Column("total_tokens", "Int64", "input and output", "totals.total_tokens"),
    Column(
        "tokens_complete",
        "boolean",
        "False when the tokens of a request are unknown",
        "totals.tokens_complete",
        is_nullable=False,
    ),
    Column("cost", "Float64", "known part, in currency", "totals.cost"),
    Column(
        "cost_complete",
        "boolean",
        "False when the price of a request is unknown",
        "totals.cost_complete",
        is_nullable=False,
    ),
    Column("currency", "category", "of the cost", is_nullable=False),
)
COUNTS: Final = (
    Column("llm_call_count", "Int64", "model calls", "totals.llm_call_count", is_nullable=False),
    Column("attempt_count", "Int64", "physical requests behind them", "totals.llm_attempt_count", is_nullable=False),
    Column(
        "retry_count", "Int64", "attempts that were followed by another one", "totals.retry_count", is_nullable=False
    ),
    Column("tool_call_count", "Int64", "tool calls that were executed", "totals.tool_call_count", is_nullable=False),
    Column(
        "delegation_count",
        "Int64",
        "delegations asked for, refused ones included",
        "totals.delegation_count",
        is_nullable=False,
    ),
    Column("fallback_count", "Int64", "tasks that another agent took over", "totals.fallback_count", is_nullable=False),
    Column(
        "memory_retrieve_count",
        "Int64",
        "scopes of the memory that were read",
        "totals.memory_retrieve_count",
        is_nullable=False,
    ),
    Column(
        "memory_store_count",
        "Int64",
        "scopes of the memory that were written",
        "totals.memory_store_count",
        is_nullable=False,
    ),
    Column("error_count", "Int64", "failures, each counted once", "totals.error_count", is_nullable=False),
    Column("llm_time_ms", "Float64", "time of all attempts; side by side adds up", "totals.llm_ms", is_nullable=False),
    Column(
        "tool_time_ms",
        "Float64",
        "tools' own time, without delegated work; side by side adds up",
        "totals.tool_ms",
        is_nullable=False,
    ),
    Column(
        "tool_wait_ms",
        "Float64",
        "time in which turns waited for tools; side by side once",
        "totals.tool_wait_ms",
        is_nullable=False,
    ),
    Column("backoff_ms", "Float64", "waits between attempts", "totals.backoff_ms", is_nullable=False),
    Column(
        "wait_ms",
        "Float64",
        "waits of requests for rate limits and budgets; side by side adds up",
        "totals.wait_ms",
        is_nullable=False,
    ),
    Column(
        "human_wait_ms",
        "Float64",
        "waits for answers of reviews; side by side adds up",
        "totals.human_wait_ms",
        is_nullable=False,
    ),
    Column("prompt_build_ms", "Float64", "making the prompts", "totals.prompt_ms", is_nullable=False),
    Column("memory_time_ms", "Float64", "reading and writing the memory", "totals.memory_ms"),
)

SPANS: Final = Table(
    "interval of the run: the run itself, phases, tasks (delegated ones, too), turns, LLM calls, attempts, waits, tool "
    "calls, delegations, reviews, guardrails and memory operations. Tokens and cost are on the leaves alone, so that a "
    "plain sum is right",
    _SPAN_ID,
    (
        Column("run_id", "category", "of the run"),
        Column("parent_id", "string", "span_id of the span around it, NA for the run"),
        Column("seq", "Int64", "number of the event that started it"),
        Column("depth", "Int64", "how many spans are around it"),
        Column(
            "kind",
            "category",
            "as in the list above: run, phase, task, turn, llm, ...",
            "kind.value",
            "Kind",
            is_nullable=False,
        ),
        Column("name", "category", "of the phase, task, model or tool; else its kind and number", is_nullable=False),
        *_WHERE,
        *TIMES,
        Column("self_ms", "Float64", "the part of duration_ms in which it was not over and no child was running"),
        Column("wait_kind", "category", "what a wait waits for: rate_limit, budget or startup"),
        Column("queue_ms", "Float64", "a task was ready and waited for a free place"),
        Column("backoff_ms", "Float64", "the wait after a failed attempt"),
        Column("human_wait_ms", "Float64", "of a review: nothing but its answer was missing"),
        Column("time_to_first_token_ms", "Float64", "of an LLM call that streamed"),
        STATUS,
        *_ERROR,
        Column("reason", "string", "why it was skipped or refused"),
        Column("attempt", "Int64", "its number, from 1; of an LLM call or of a task sent back, how many there were"),
        Column("max_attempts", "Int64", "how many were allowed"),
        Column("retry_reason", "category", "why another attempt followed"),
        *_MODEL,
        Column("finish_reason", "category", "why the model stopped, as the provider says"),
        *_LEAF_USAGE,
        Column("usage_leaf", "boolean", "True for the rows that hold tokens and cost: the attempts"),
        Column("tool", "category", "name of the tool"),
        Column("tool_call_id", "string", "the model's id of the tool call"),
        Column("outcome", "category", "of a tool call: success, failure or skipped_max_iterations"),
        Column("delegate_to", "category", "of a delegation: role of the worker"),
        Column("review_decision", "category", "of a review: approve, edit, retry, reject or exit_early"),
        *_CHAIN,
        Column("attributes", "object", "dict of what only its kind has, NA where there is nothing"),
    ),
)

PHASES: Final = Table(
    "phase, those that never ran included",
    _SPAN_ID,
    (
        Column("phase", "category", "name"),
        Column("after", "object", "names of its predecessors", "depends_on", "readonly string[]", is_nullable=False),
        STATUS,
        *TIMES,
        *_ERROR,
        Column("reason", "string", "why it was skipped"),
        *COUNTS,
        *SUMS,
        *_CHAIN,
    ),
)

TASKS: Final = Table(
    "task of the plan, those that never ran included, and task that reviewed a phase; delegated work counts in the "
    "task that it was done for, and has rows of its own in delegations",
    _SPAN_ID,
    (
        Column("task", "category", "name"),
        Column("phase", "category", "name of its phase, NA in a flat ensemble"),
        Column("agent", "category", "role of the agent, 'Handler' for a handler"),
        Column("depends_on", "object", "names of the tasks that it waited for", type_name="readonly string[]"),
        STATUS,
        *TIMES,
        Column("self_ms", "Float64", "the part of duration_ms in which it was not over and no turn or other step ran"),
        Column("queue_ms", "Float64", "it was ready and waited for a free place"),
        Column("attempt", "Int64", "how often it was done, where it was sent back; else NA"),
        Column("is_fallback", "boolean", "a fallback agent took over"),
        *_ERROR,
        Column("reason", "string", "why it was skipped"),
        *COUNTS,
        *SUMS,
        *_CHAIN,
        Column("description", "string", "resolved, secrets masked"),
        Column("output", "string", "the final text, secrets masked"),
    ),
)

LLM_CALLS: Final = Table(
    "LLM call: one reply that was asked for, whatever it took to get it",
    _SPAN_ID,
    (
        *_WHERE,
        STATUS,
        *_MODEL,
        *TIMES,
        Column("latency_ms", "Float64", "time of the last attempt alone"),
        Column("time_to_first_token_ms", "Float64", "until the first streamed piece; NA when not streamed"),
        Column("backoff_ms", "Float64", "waits between attempts", "totals.backoff_ms"),
        Column("attempt_count", "Int64", "physical requests", "totals.llm_attempt_count"),
        Column("max_attempts", "Int64", "how many were allowed"),
        Column("finish_reason", "category", "why the model stopped, as the provider says"),
        Column("tool_call_count", "Int64", "tool calls that the reply asks for", "tool_request_count"),
        Column("tool_wait_ms", "Float64", "how long its agent then waited for those tools", "totals.tool_wait_ms"),
        *SUMS,
        *_ERROR,
        *_CHAIN,
    ),
)

ATTEMPTS: Final = Table(
    "attempt: one physical request, also when it failed",
    _SPAN_ID,
    (
        Column("llm_id", "string", "span_id of the LLM call", "parent_id"),
        *_WHERE,
        Column("attempt", "Int64", "its number, from 1"),
        Column("max_attempts", "Int64", "how many were allowed"),
        STATUS,
        Column("retry_reason", "category", "why another attempt followed"),
        Column("backoff_ms", "Float64", "the wait before that one"),
        *_MODEL,
        *TIMES,
        *_LEAF_USAGE,
        *_ERROR,
        *_CHAIN,
    ),
)

TOOL_CALLS: Final = Table(
    "tool call that a model asked for, refused ones included",
    _SPAN_ID,
    (
        *_WHERE,
        Column("tool", "category", "name"),
        Column("tool_call_id", "string", "the model's id of the call"),
        Column("outcome", "category", "success, failure or skipped_max_iterations; NA while running and if cancelled"),
        STATUS,
        *TIMES,
        Column("arguments", "string", "JSON text, secrets masked", "input"),
        Column("result", "string", "the text that the model got, secrets masked", "output"),
        *_ERROR,
        *_CHAIN,
    ),
)

MESSAGES: Final = Table(
    "message between an agent and its model: prompts, replies, tool results",
    Column("message", "Int64", "its number in the run, from 0", "number"),
    (
        Column("seq", "Int64", "number of the event that brought it"),
        Column("span_id", "string", "where it arose: task, correcting turn, LLM call or tool call", "span.span_id"),
        *(Column(each.name, each.dtype, each.meaning, f"span.{each.name}") for each in _WHERE),
        Column("time", UTC_TIME, "when it arose"),
        Column("role", "category", "system, user, assistant or tool"),
        Column("name", "category", "of the tool, for a tool's result"),
        Column("text", "string", "secrets masked"),
        Column("characters", "Int64", "length of the text", lambda message: len(message.text)),
        Column("tool_calls", "string", "what a reply asks for, as name(arguments)", _format_arguments),
        Column("tool_call_id", "string", "which request a tool's result answers", "span.tool_call_id"),
    ),
)

DELEGATIONS: Final = Table(
    "delegation that an agent asked for, refused ones included",
    _SPAN_ID,
    (
        Column("delegation_id", "string", "id of request and response"),
        Column("phase", "category", "name of the phase, NA in a flat ensemble"),
        Column("task", "category", "name of the task in which it was asked for"),
        Column("delegator", "category", "role of who asked", attribute_reader("delegator")),
        Column("delegate_to", "category", "role of the worker"),
        Column(
            "depth",
            "Int64",
            "1 for what the agent of a task asks for, 2 for what its worker does, ...",
            attribute_reader("depth"),
        ),
        Column("priority", "category", "as the request says", attribute_reader("priority")),
        STATUS,
        Column("response", "category", "success, failure or partial; NA while running", attribute_reader("status")),
        Column("reason", "string", "why it was refused"),
        *TIMES,
        Column("request", "string", "what was asked, as the worker got it; secrets masked", "input"),
        Column("result", "string", "what the worker answered, secrets masked", "output"),
        *_ERROR,
        *COUNTS,
        *SUMS,
        *_CHAIN,
    ),
)

REVIEWS: Final = Table(
    "review: a person, or what stands for one, was asked",
    _SPAN_ID,
    (
        Column("phase", "category", "name of the phase, NA in a flat ensemble"),
        Column("task", "category", "name of the task; NA for a phase"),
        Column("agent", "category", "role of who did or will do what is looked at"),
        Column(
            "subject",
            "category",
            "task, output, tool, question or phase",
            attribute_reader("subject"),
            is_nullable=False,
        ),
        Column("tool", "category", "name of the tool, for a tool call", attribute_reader("tool")),
        STATUS,
        *TIMES,
        Column("human_wait_ms", "Float64", "nothing but the answer was missing"),
        Column("text", "string", "what was shown, secrets masked", "input", is_nullable=False, longest=2_000),
        Column("review_decision", "category", "approve, edit, retry, reject or exit_early; NA without an answer"),
        Column("answer", "string", "the edited text, the feedback or the reason, secrets masked", "output"),
        Column("is_timeout", "boolean", "nobody answered in time", attribute_reader("is_timeout")),
        *_ERROR,
        *_CHAIN,
    ),
)

ERRORS: Final = Table(
    "span that ended in an error; one failure has a row on each level that it went through",
    _SPAN_ID,
    (
        Column("seq", "Int64", "number of the event that reported it", "end_seq"),
        Column("time", UTC_TIME, "when", "end_time"),
        Column("kind", "category", "of the span", "kind.value"),
        Column("name", "category", "of the span"),
        *_WHERE,
        *_ERROR,
        Column("is_origin", "boolean", "the failure began here"),
        Column(
            "is_retried", "boolean", "an attempt that was followed by another one", lambda span: bool(span.retry_reason)
        ),
        Column("attempt", "Int64", "its number, for an attempt"),
        Column("model", "category", "that was asked", "model_requested"),
        Column("tool", "category", "name of the tool"),
    ),
)

RUNS: Final = Table(
    "run. Its time is told apart: wall_ms = active_ms + human_wait_ms + idle_ms",
    Column("run_id", "string", "unique", "fold.run_id", is_nullable=False),
    (
        Column("name", "category", "of the ensemble", "fold.name"),
        Column("workflow", "category", "of the ensemble", "fold.workflow"),
        Column("status", "category", "how the run ended, or stands", "fold.status.value", "RunStatus", False),
        Column(
            "exit_reason",
            "category",
            "why it ended",
            lambda each: each.fold.exit_reason and each.fold.exit_reason.value,
        ),
        Column("capture_mode", "category", "off, standard or full", "fold.capture_mode.value"),
        Column("replayed_from", "string", "the recording that answered in place of models", "fold.replayed_from"),
        Column("start_time", UTC_TIME, "when it started", "run.start_time"),
        Column("end_time", UTC_TIME, "when it ended", "run.end_time"),
        Column("wall_ms", "Float64", "from start to end"),
        Column("active_ms", "Float64", "something was at work: a request, a tool, a handler, a guardrail or memory"),
        Column("human_wait_ms", "Float64", "nothing was at work, and a review was open"),
        Column("idle_ms", "Float64", "neither: waits for rate limits and startups, back-off, the engine itself"),
        Column("work_ms", "Float64", "of all that was at work; side by side adds up"),
        Column("parallelism", "Float64", "work_ms / active_ms"),
        Column("max_concurrency", "Int64", "the limit of tasks at the same time", "fold.max_concurrency"),
        *(
            Column(
                f"tasks_{name}",
                "Int64",
                f"tasks of the plan that {meaning}",
                _task_counter(status),
                is_nullable=False,
            )
            for name, status, meaning in (
                ("done", SpanStatus.OK, "completed"),
                ("failed", SpanStatus.ERROR, "failed"),
                ("skipped", SpanStatus.SKIPPED, "were skipped"),
                ("cancelled", SpanStatus.CANCELLED, "were cancelled"),
            )
        ),
        *(each for each in COUNTS if each.name != "human_wait_ms"),
        *SUMS,
    ),
)
