"""The columns that several tables of a trace have; the whole tables are in `frame_tables` (T20, T21).

Names are those of the spans and of the timeline's rows. Unknown is NA, never 0 (T3). Durations are milliseconds on the
monotonic clock, with ``_ms`` in the name; ``_time`` columns are UTC anchors. What repeats is a category.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table, make_known

_READING_ORDER: Final = (
    *("kind", "name", "variant", "row", "repeat", "task", "agent", "status", "start_ms", "duration_ms"),
    *("input_tokens", "output_tokens", "cost", "model"),
)


def arrange(columns: Iterable[Column], first: Iterable[str] = ()) -> tuple[Column, ...]:
    """Columns in the order in which people read, since a notebook hides those in the middle of a wide frame.

    What it is, whose, how it ended, when it began, how long it took, what it used and who answered; ids come last.

    Args:
        columns: of a table.
        first: names of those that its rows are known by.
    """
    order = dict.fromkeys((*first, *_READING_ORDER))
    places = {name: place for place, name in enumerate(order)}

    def find_place(column: Column) -> int:
        is_id = column.name == "seq" or column.name.endswith(("_id", "_key"))
        return places.get(column.name, len(places) + is_id)

    return tuple(sorted(columns, key=find_place))


def make_table(grain: str, index: Column | None, columns: Iterable[Column], first: Iterable[str] = ()) -> Table:
    """A table with its columns in that order."""
    return Table(grain, index, arrange(columns, first))


SPAN_ID: Final = make_known("span_id", "string", "unique in all runs")

WHERE: Final = (
    Column("phase", "category", "name of the phase, NA in a flat ensemble"),
    Column("task_id", "string", "span_id of the task"),
    Column("task", "category", "name of the task"),
    Column("agent", "category", "role of the agent, 'Handler' for a handler"),
    Column("iteration", "Int64", "number of the turn in the agent's loop, from 1"),
    Column("is_fallback", "boolean", "a fallback agent is at work; of a task: one took over"),
    Column("delegation_id", "string", "of the innermost delegation that it is a part of"),
)
STATUS: Final = make_known(
    "status",
    "category",
    "pending, running, waiting, ok, error, cancelled, interrupted or skipped",
    "status.value",
    "Status",
)
TIMES: Final = (
    Column("start_time", UTC_TIME, "when it started, NA for what never ran"),
    Column("end_time", UTC_TIME, "when it ended"),
    Column("start_ms", "Float64", "start, since the run started"),
    Column("duration_ms", "Float64", "start to end, retries and back-off included"),
)
BEGUN: Final = tuple(replace(each, is_nullable=False) if each.name.startswith("start_") else each for each in TIMES)
"""The times of what has a row only once it has begun."""

OWN_TIME: Final = Column(
    "duration_ms",
    "Float64",
    "its own time, as output, file and timeline say it: it or its agents worked, or waited for a model, tool, limit or "
    "person; not queue, startup and the time until it was sent back",
    "own_ms",
)
ERROR: Final = (
    Column("error_type", "category", "class of the error, where status is error"),
    Column("error_message", "string", "its text, secrets masked"),
)
HTTP_STATUS: Final = Column("http_status", "Int64", "with which a server refused it, 400 or more; NA where none did")
CHAIN: Final = (
    Column("critical", "boolean", "on the longest chain; NA before the run has ended"),
    Column("slack_ms", "Float64", "how much later it could have ended without delaying the run"),
)
REUSE: Final = (
    make_known("reused", "boolean", "it has the output of an earlier run, and was not run"),
    Column("reuse_reason", "string", "why it was reused, or ran all the same; NA where nobody asked"),
    Column("saved_tokens", "Int64", "what it took in that run: input and output; NA where it was not reused"),
    Column("saved_cost", "Float64", "the same of its cost, in currency; NA where that is unknown"),
    Column("saved_ms", "Float64", "the same of its duration"),
)
MODEL: Final = (
    Column("provider", "category", "who serves the model"),
    Column("model_requested", "category", "name as asked for"),
    Column(
        "model",
        "category",
        "name as the provider gave it; as asked for, where none answered",
        lambda span: span.model or span.model_requested,  # so that groups by model have the failures in them
    ),
    Column("is_scripted", "boolean", "a script answered for the model"),
)
LEAF_TOKENS: Final = (
    Column("input_tokens", "Int64", "cached ones included"),
    Column("cache_read_tokens", "Int64", "the part read from the provider's cache"),
    Column("cache_write_tokens", "Int64", "the part written to it"),
    Column("output_tokens", "Int64", "reasoning ones included"),
    Column("reasoning_tokens", "Int64", "the part spent on reasoning"),
)
LEAF_USAGE: Final = (
    *LEAF_TOKENS,
    Column("tokens_source", "category", "who counted: provider or scripted"),
    Column("cost_input", "Float64", "price of the input, in currency"),
    Column("cost_output", "Float64", "price of the output, in currency"),
    Column("cost", "Float64", "both"),
    Column("currency", "category", "of the cost", lambda span: None if span.cost is None else span.currency),
    Column(
        "cost_source", "category", "who told the cost, of runs of other frameworks; NA: it is the price of the tokens"
    ),
)
SUMS: Final = (
    *(Column(each.name, "Int64", f"{each.meaning}; known part", f"totals.{each.name}") for each in LEAF_TOKENS),
    Column("total_tokens", "Int64", "input and output", "totals.total_tokens"),
    make_known(
        "tokens_complete", "boolean", "False when the tokens of a request are unknown", "totals.tokens_complete"
    ),
    Column("cost", "Float64", "known part, in currency", "totals.cost"),
    make_known("cost_complete", "boolean", "False when the price of a request is unknown", "totals.cost_complete"),
    make_known("currency", "category", "of the cost"),
)


def _make_time(name: str, meaning: str, total: str) -> Column:
    return make_known(name, "Float64", meaning, f"totals.{total}")


COUNTS: Final = (
    make_known("llm_call_count", "Int64", "model calls", "totals.llm_call_count"),
    make_known("llm_attempt_count", "Int64", "physical requests behind them", "totals.llm_attempt_count"),
    make_known("retry_count", "Int64", "attempts that were followed by another one", "totals.retry_count"),
    make_known("tool_call_count", "Int64", "tool calls that were executed", "totals.tool_call_count"),
    make_known("delegation_count", "Int64", "delegations asked for, refused ones included", "totals.delegation_count"),
    make_known("fallback_count", "Int64", "tasks that another agent took over", "totals.fallback_count"),
    make_known("memory_retrieve_count", "Int64", "scopes of the memory that were read", "totals.memory_retrieve_count"),
    make_known("memory_store_count", "Int64", "scopes of the memory that were written", "totals.memory_store_count"),
    make_known("error_count", "Int64", "failures, each counted once", "totals.error_count"),
    _make_time("llm_time_ms", "time of all attempts; side by side adds up", "llm_ms"),
    _make_time("tool_time_ms", "tools' own time, without delegated work; side by side adds up", "tool_ms"),
    _make_time("tool_wait_ms", "time in which turns waited for tools; side by side once", "tool_wait_ms"),
    _make_time("backoff_ms", "waits between attempts", "backoff_ms"),
    _make_time("wait_ms", "waits of requests for rate limits and budgets; side by side adds up", "wait_ms"),
    _make_time("human_wait_ms", "waits for answers of reviews; side by side adds up", "human_wait_ms"),
    _make_time("prompt_build_ms", "making the prompts", "prompt_ms"),
    Column("memory_time_ms", "Float64", "reading and writing the memory", "totals.memory_ms"),
)
