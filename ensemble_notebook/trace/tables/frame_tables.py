"""The tables of a trace: every frame, with its grain and its columns in order (T20, T21)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import Event, LlmToken
from ensemble_notebook.errors import show_hidden_characters
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span_tree import summarize_error, to_ms
from ensemble_notebook.trace.tables.shared_columns import (
    BEGUN,
    CHAIN,
    COUNTS,
    ERROR,
    HTTP_STATUS,
    LEAF_USAGE,
    MODEL,
    OWN_TIME,
    REUSE,
    SPAN_ID,
    STATUS,
    SUMS,
    TIMES,
    WHERE,
    make_table,
)
from ensemble_notebook.trace.tables.table import (
    UTC_TIME,
    Column,
    Table,
    make_attribute,
    make_attribute_reader,
    make_known,
)


def _make_json_reader(name: str) -> Callable[[Any], str | None]:
    """How a span gives a mapping that only its kind has, as text; NA where it is empty."""
    read = make_attribute_reader(name)
    return lambda span: json.dumps(value, ensure_ascii=False) if (value := read(span)) else None


def _make_task_counter(*statuses: SpanStatus) -> Callable[[Any], int]:
    """How a record of a run gives how many tasks of the plan are in one of these statuses."""
    return lambda record: sum(record.fold.tree.task_counts[status] for status in statuses)


_OUTCOMES: Final = "success, failure, declined, pending, unknown or skipped_max_iterations"
_SUBTREE: Final = ("llm_call_count", "input_tokens", "output_tokens", "cost")


def _make_error_reader(name: str) -> Callable[[Any], str | None]:
    """How a record of a run gives a fact of the error that ended it."""
    return lambda record: None if record.fold.error is None else getattr(record.fold.error, name)


SPANS: Final = make_table(
    "interval of the run: the run itself, phases, tasks (delegated ones, too), turns, LLM calls, attempts, waits, tool "
    "calls, delegations, reviews, guardrails, memory operations and scores. Tokens and cost are on the leaves alone, "
    "so that a plain sum is right",
    SPAN_ID,
    (
        make_known("run_id", "category", "of the run"),
        Column("parent_id", "string", "span_id of the span around it, NA for the run"),
        make_known("seq", "Int64", "number of the event that started it"),
        make_known("depth", "Int64", "how many spans are around it"),
        make_known("kind", "category", "as in the list above: run, phase, task, turn, llm, ...", "kind.value", "Kind"),
        make_known("name", "category", "of the phase, task, model or tool; else its kind and number"),
        *WHERE,
        *TIMES,
        make_known(
            "is_clamped",
            "boolean",
            "of a run of another framework: a time ran back or left the span around it, and was moved",
        ),
        Column("self_ms", "Float64", "the part of duration_ms in which it was not over and no child was running"),
        Column("wait_kind", "category", "what a wait waits for: rate_limit, budget, connection or startup"),
        Column("queue_ms", "Float64", "a task was ready and waited for a free place"),
        Column("backoff_ms", "Float64", "the wait after a failed attempt"),
        Column("human_wait_ms", "Float64", "of a review: nothing but its answer was missing"),
        Column("time_to_first_token_ms", "Float64", "of an LLM call that streamed"),
        STATUS,
        *ERROR,
        Column("reason", "string", "why it was skipped or refused"),
        Column("attempt", "Int64", "its number, from 1; of an LLM call or of a task sent back, how many there were"),
        Column("max_attempts", "Int64", "how many were allowed"),
        Column("retry_reason", "category", "why another attempt followed"),
        *MODEL,
        Column("finish_reason", "category", "why the model stopped, as the provider says"),
        Column("reused", "boolean", "of a task, a call or a review: an earlier run had done it"),
        *LEAF_USAGE,
        make_known("usage_leaf", "boolean", "True for the rows that hold tokens and cost: the attempts"),
        Column("tool", "category", "name of the tool"),
        Column("tool_call_id", "string", "the model's id of the tool call"),
        Column("outcome", "category", f"of a tool call: {_OUTCOMES}"),
        Column("delegate_to", "category", "of a delegation: role of the worker"),
        Column("review_decision", "category", "of a review: approve, edit, retry, reject or exit_early"),
        *CHAIN,
        Column("attributes", "object", "dict of what only its kind has, NA where there is nothing"),
    ),
)

PHASES: Final = make_table(
    "attempt of a phase: more than one where its review sent it back; phases that never ran have one, too",
    make_known("span_id", "string", "of the phase's span, the same for all its attempts"),
    (
        make_known("phase", "category", "name"),
        Column("attempt", "Int64", "its number, from 1; NA for what never ran"),
        make_known("after", "object", "names of its predecessors", "depends_on", "readonly string[]"),
        Column(
            "status",
            "category",
            "completed, failed, exited_early, skipped; NA before its end",
            lambda phase: phase.phase_status and phase.phase_status.value,
            "PhaseStatus",
        ),
        *TIMES,
        *ERROR,
        Column("reason", "string", "why it was skipped, or left by a person"),
        make_attribute(
            "feedback",
            "string",
            "with which its review sent it back, or its `until`, which did not hold; secrets masked",
        ),
        *COUNTS,
        *SUMS,
        *CHAIN,
    ),
    first=("phase", "attempt"),
)

TASKS: Final = make_table(
    "task of the plan, those that never ran included, task that reviewed a phase, and item of a task that runs for "
    "each of a list, which counts in that task, too: for sums leave out the rows that have item_of. Delegated work "
    "counts in the task that it was done for, and has rows of its own in delegations. In a map they are the tasks of "
    "its rows that began, called row 0/NAME, whose depends_on only their own runs know, and each row that has no run",
    SPAN_ID,
    (
        make_known("task", "category", "name"),
        Column("phase", "category", "name of its phase, NA in a flat ensemble"),
        Column("agent", "category", "role of the agent, 'Handler' for a handler"),
        Column(
            "depends_on",
            "object",
            "names of the tasks that it waited for",
            lambda task: task.depends_on if task.row is None else None,
            "readonly string[]",
        ),
        Column("item_of", "category", "of an item: name of the task that runs for each of them"),
        Column("item_count", "Int64", "of such a task: for how many items it runs"),
        STATUS,
        *(OWN_TIME if each.name == OWN_TIME.name else each for each in TIMES),
        Column("self_ms", "Float64", "the time in which it was not over and no turn or other step ran"),
        Column("queue_ms", "Float64", "it was ready and waited for a free place"),
        make_known(
            "attempt_count",
            "Int64",
            "how often it was begun: more than once where it was sent back; 0 for what never ran",
            lambda task: 0 if task.start_ms is None else task.attempt or 1,
        ),
        Column("is_fallback", "boolean", "a fallback agent took over"),
        *REUSE,
        *ERROR,
        Column("reason", "string", "why it was skipped"),
        *COUNTS,
        *SUMS,
        *CHAIN,
        Column("description", "string", "resolved, secrets masked"),
        Column("output", "string", "the final text, secrets masked"),
    ),
)

LLM_CALLS: Final = make_table(
    "LLM call: one reply that was asked for, whatever it took to get it",
    SPAN_ID,
    (
        *WHERE,
        STATUS,
        *MODEL,
        *BEGUN,
        Column("latency_ms", "Float64", "time of the last attempt alone"),
        Column("time_to_first_token_ms", "Float64", "until the first streamed piece; NA when not streamed"),
        make_known("backoff_ms", "Float64", "waits between attempts", "totals.backoff_ms"),
        make_known("attempt_count", "Int64", "physical requests", "totals.llm_attempt_count"),
        Column("max_attempts", "Int64", "how many were allowed"),
        Column("finish_reason", "category", "why the model stopped, as the provider says"),
        Column("tool_call_count", "Int64", "tool calls that the reply asks for", "tool_request_count"),
        make_known("tool_wait_ms", "Float64", "how long its agent then waited for those tools", "totals.tool_wait_ms"),
        *SUMS,
        *ERROR,
        *CHAIN,
    ),
)

ATTEMPTS: Final = make_table(
    "attempt: one physical request, also when it failed",
    SPAN_ID,
    (
        make_known("llm_id", "string", "span_id of the LLM call", "parent_id"),
        *WHERE,
        Column("attempt", "Int64", "its number, from 1"),
        Column("max_attempts", "Int64", "how many were allowed"),
        STATUS,
        Column("retry_reason", "category", "why another attempt followed"),
        Column("backoff_ms", "Float64", "the wait before that one"),
        *MODEL,
        *BEGUN,
        *LEAF_USAGE,
        *ERROR,
        HTTP_STATUS,
        *CHAIN,
    ),
    first=("task", "agent", "attempt"),
)

TOOL_CALLS: Final = make_table(
    "tool call that a model asked for, refused ones included",
    SPAN_ID,
    (
        *WHERE,
        Column("tool", "category", "name"),
        Column("tool_call_id", "string", "the model's id of the call"),
        Column("outcome", "category", f"{_OUTCOMES}; NA if stopped"),
        STATUS,
        *BEGUN,
        Column("arguments", "string", "JSON text, secrets masked", "input"),
        Column("result", "string", "the text that the model got, secrets masked", "output"),
        *ERROR,
        *CHAIN,
    ),
    first=("tool",),
)

MESSAGES: Final = make_table(
    "message between an agent and its model: prompts, replies, tool results",
    Column("message", "Int64", "its number in the run, from 0", "number"),
    (
        make_known("seq", "Int64", "number of the event that brought it"),
        make_known("span_id", "string", "where it arose: task, correcting turn, LLM call or tool call", "span.span_id"),
        *(Column(each.name, each.dtype, each.meaning, f"span.{each.name}") for each in WHERE),
        make_known("time", UTC_TIME, "when it arose"),
        make_known("role", "category", "system, user, assistant or tool"),
        make_known("is_earlier", "boolean", "said in an earlier run, which the task continues"),
        make_known("is_left_out", "boolean", "said there, and not sent, since there is a limit"),
        Column("name", "category", "of the tool, for a tool's result"),
        make_known("text", "string", "secrets masked"),
        make_known("characters", "Int64", "length of the text", lambda message: len(message.text)),
        Column("reasoning", "string", "what the model thought before a reply, secrets masked"),
        Column(
            "tool_calls",
            "string",
            "what a reply asks for, as name(arguments)",
            lambda message: "; ".join(f"{call.name}({call.arguments})" for call in message.tool_calls) or None,
        ),
        Column("tool_call_id", "string", "which request a tool's result answers"),
    ),
    first=("task", "agent", "role", "name", "text"),
)

DELEGATIONS: Final = make_table(
    "delegation that an agent asked for, refused ones included. What its worker delegates has a row of its own and "
    "counts there: a plain sum is right. With all that is inside it are the columns that begin with subtree_",
    SPAN_ID,
    (
        Column("delegation_id", "string", "id of request and response"),
        Column("phase", "category", "name of the phase, NA in a flat ensemble"),
        Column("task", "category", "name of the task in which it was asked for"),
        make_attribute("delegator", "category", "role of who asked"),
        Column("delegate_to", "category", "role of the worker"),
        make_attribute("depth", "Int64", "1 for what the agent of a task asks for, 2 for what its worker does, ..."),
        make_attribute("priority", "category", "as the request says"),
        Column(
            "scope", "string", "JSON text: facts for the worker, by name; secrets masked", _make_json_reader("scope")
        ),
        make_attribute(
            "expected_output_schema", "string", "what the answer should look like; NA: nothing in particular"
        ),
        make_attribute("max_output_retries", "Int64", "corrections of an answer that does not match the schema"),
        Column("metadata", "string", "JSON text: what policies noted; secrets masked", _make_json_reader("metadata")),
        STATUS,
        Column(
            "response", "category", "success, failure or partial; NA while running", make_attribute_reader("status")
        ),
        Column("reason", "string", "why it was refused"),
        *BEGUN,
        Column("request", "string", "what was asked, as the worker got it; secrets masked", "input"),
        Column("result", "string", "what the worker answered, secrets masked", "output"),
        *ERROR,
        # Sums without what further delegations inside are.
        *(
            replace(each, value=f"own_{each.value}") if str(each.value).startswith("totals.") else each
            for each in (*COUNTS, *SUMS)
        ),
        *(
            replace(each, name=f"subtree_{each.name}", meaning=f"{each.meaning}; with all delegations inside")
            for each in (*COUNTS, *SUMS)
            if each.name in _SUBTREE
        ),
        *CHAIN,
    ),
    first=("delegator", "delegate_to"),
)


REVIEWS: Final = make_table(
    "review: a person, or what stands for one, was asked",
    SPAN_ID,
    (
        Column("phase", "category", "name of the phase, NA in a flat ensemble"),
        Column("task", "category", "name of the task; NA for a phase"),
        Column("agent", "category", "role of who did or will do what is looked at"),
        make_known("subject", "category", "task, output, tool, question or phase", make_attribute_reader("subject")),
        make_attribute("tool", "category", "name of the tool, for a tool call"),
        STATUS,
        *BEGUN,
        Column("human_wait_ms", "Float64", "nothing but the answer was missing"),
        make_known(
            "text",
            "string",
            "what was shown, secrets masked",
            lambda span: span.input and show_hidden_characters(span.input),
            longest=2_000,
        ),
        Column("review_decision", "category", "approve, edit, retry, reject or exit_early; NA without an answer"),
        make_attribute(
            "by",
            "category",
            "who decided: a person, the name of a handler, on_timeout, or nobody_to_ask; NA without an answer",
        ),
        Column("answer", "string", "the edited text, the feedback or the reason, secrets masked", "output"),
        make_attribute("is_timeout", "boolean", "nobody answered in time"),
        *ERROR,
        *CHAIN,
    ),
    first=("subject",),
)

LINKS: Final = Table(
    "link between two spans that ran: context (an output was read), dependency (one waited for the other without "
    "reading it), delegation (from the tool call to the worker's task), delegation_return (back), retry (from an "
    "attempt to the next one) or fallback (from the last turn of an agent to the first one of its substitute)",
    None,
    (
        make_known("kind", "category", "as above"),
        make_known("src_name", "category", "name of the span where it begins", "source.name"),
        make_known("dst_name", "category", "name of the span where it ends", "target.name"),
        Column("characters", "Int64", "length of the text that was handed over; NA where there was none"),
        Column("tokens", "Int64", "of that text, where a model wrote it and its provider counted"),
        make_known("src", "string", "span_id of where it begins", "source.span_id"),
        make_known("dst", "string", "span_id of where it ends", "target.span_id"),
    ),
)

ERRORS: Final = make_table(
    "span that ended in an error; one failure has a row on each level that it went through",
    SPAN_ID,
    (
        make_known("seq", "Int64", "number of the event that reported it", "end_seq"),
        make_known("time", UTC_TIME, "when", "end_time"),
        make_known("kind", "category", "of the span", "kind.value"),
        Column("name", "category", "of the span"),
        *WHERE,
        *ERROR,
        HTTP_STATUS,
        Column("origin", "string", "file:line in function of your own code that it came from"),
        make_known("is_origin", "boolean", "the failure began here"),
        make_known(
            "is_fatal",
            "boolean",
            "it ended a task, a phase or the run; False for what was tried again, or was got over, as the failure "
            "of a tool that the model was told of",
        ),
        make_known(
            "is_retried", "boolean", "an attempt that was followed by another one", lambda span: bool(span.retry_reason)
        ),
        Column("attempt", "Int64", "its number, for an attempt"),
        Column("model", "category", "that was asked", "model_requested"),
        Column("tool", "category", "name of the tool"),
    ),
    first=("kind", "name", "task", "agent", "error_type", "error_message", "time"),
)

RUNS: Final = make_table(
    "run. Its time is told apart: wall_ms = active_ms + human_wait_ms + idle_ms",
    make_known("run_id", "string", "unique", "fold.run_id"),
    (
        Column("name", "category", "of the ensemble, else of the variable that the output is bound to", "fold.name"),
        make_known(
            "kind",
            "category",
            "run, map, rerun (calls of an earlier run made again), fork (an earlier run done again from a span on) or "
            "nested (a part of another run)",
            "fold.kind.value",
        ),
        make_known("workflow", "category", "of the ensemble", "fold.workflow"),
        make_known("status", "category", "how the run ended, or stands", "fold.status.value", "RunStatus"),
        Column(
            "exit_reason",
            "category",
            "why it ended",
            lambda each: each.fold.exit_reason and each.fold.exit_reason.value,
        ),
        Column("error_type", "category", "class of the error that ended it", _make_error_reader("type")),
        Column("error", "string", "its text, secrets masked", _make_error_reader("message")),
        Column("capture_mode", "category", "metadata, off, standard or full", "fold.capture_mode.value"),
        Column(
            "inputs",
            "object",
            "dict of what filled the {names} in texts, as text, NA where nothing did; secrets masked",
            lambda each: dict(each.fold.inputs) or None,  # a file of columns has no form for a dict without names
        ),
        Column(
            "definition_version",
            "string",
            "of what was declared, without inputs and the code of functions: the same text, the same version",
            "fold.definition_version",
        ),
        Column(
            "prompts_version",
            "string",
            "of the texts of tasks and agents, as they were declared: the same texts, the same version",
            "fold.prompts_version",
        ),
        Column("replayed_from", "string", "the recording that answered in place of models", "fold.replayed_from"),
        Column("resumed_from", "string", "run_id of the run that it goes on with", "fold.resumed_from"),
        Column(
            "forked_from_run", "string", "run_id of the run that it forks, or calls again from", "fold.forked_from_run"
        ),
        Column("forked_from_span", "string", "span_id in that run: where", "fold.forked_from_span"),
        Column(
            "changed",
            "object",
            "what a fork, or a call made again, changes there: the names of its arguments; NA where nothing",
            lambda each: each.fold.changed or None,
            "readonly string[]",
        ),
        make_known("start_time", UTC_TIME, "when it started", "run.start_time"),
        Column("end_time", UTC_TIME, "when it ended", "run.end_time"),
        make_known("wall_ms", "Float64", "from start to end"),
        make_known(
            "active_ms", "Float64", "something was at work: a request, a tool, a handler, a guardrail or memory"
        ),
        make_known("human_wait_ms", "Float64", "nothing was at work, and a review was open"),
        make_known("idle_ms", "Float64", "neither: waits for rate limits and startups, back-off, the engine itself"),
        make_known("work_ms", "Float64", "of all that was at work; side by side adds up"),
        Column("parallelism", "Float64", "work_ms / active_ms"),
        make_known("queue_ms", "Float64", "its tasks were ready and waited for a free place; side by side adds up"),
        Column("max_concurrency", "Int64", "the limit of tasks at the same time", "fold.max_concurrency"),
        *(
            make_known(f"tasks_{name}", "Int64", f"tasks of the plan that {meaning}", _make_task_counter(*statuses))
            for name, statuses, meaning in (
                ("done", (SpanStatus.OK,), "completed"),
                ("failed", (SpanStatus.ERROR,), "failed"),
                ("skipped", (SpanStatus.SKIPPED,), "were skipped"),
                ("cancelled", (SpanStatus.CANCELLED, SpanStatus.INTERRUPTED), "were cancelled or interrupted"),
            )
        ),
        make_known(
            "tasks_reused",
            "Int64",
            "tasks of the plan that were reused; of a map, the tasks of its rows",
            "fold.savings.task_count",
        ),
        Column(
            "saved_tokens",
            "Int64",
            "what those took then, and what judges did that were not asked again; known part, 0 where none was reused",
            "fold.savings.tokens",
        ),
        Column("saved_cost", "Float64", "the same of their cost, in currency", "fold.savings.cost"),
        Column("saved_ms", "Float64", "the same of their durations; side by side adds up", "fold.savings.ms"),
        *(each for each in COUNTS if each.name != "human_wait_ms"),
        *SUMS,
    ),
    first=("name", "status", "start_time", "wall_ms", "active_ms", "human_wait_ms", "idle_ms"),
)


def _read_message(event: Event) -> str | None:
    for name in ("message", "reason", "feedback"):
        if text := getattr(event, name, None):
            return clean_text(text)
    facts = summarize_error(getattr(event, "error", None))
    return None if facts is None else facts[1]


EVENTS: Final = make_table(
    "event, in order; pieces of streamed text are left out",
    Column("seq", "Int64", "its number in the run, from 0"),
    (
        make_known("type", "category", "as the event's class is called", lambda event: type(event).__name__),
        make_known("time", UTC_TIME, "when"),
        make_known("offset_ms", "Float64", "since the run started", lambda event: to_ms(event.offset_s)),
        make_known("span_id", "string", "the span that it belongs to"),
        Column("parent_id", "string", "the span around that one, NA for the run"),
        Column("phase", "category", "name of the phase"),
        Column("task", "category", "name of the task"),
        Column(
            "status",
            "category",
            "how something ended, where it says so",
            lambda event: (status := getattr(event, "status", None)) and str(status.value),
        ),
        Column("message", "string", "its message, reason, feedback or error, secrets masked", _read_message),
    ),
    first=("type", "time", "offset_ms", "task", "status", "message"),
)


def list_logged_events(events: Iterable[Event]) -> list[Event]:
    """The events of that table."""
    return [event for event in events if not isinstance(event, LlmToken)]


SCORES: Final = make_table(
    "score of a run, or of something in it",
    None,
    (
        Column("map_run_id", "string", "of the map that the run is a row of"),
        make_known("run_id", "string", "of the run that was scored; of a map, the row's own run"),
        Column("span_id", "string", "of what was scored in the run; NA for the run as a whole, and a time of it"),
        Column("from_ms", "Float64", "of a time that was scored: its begin, since the start of the run"),
        Column("to_ms", "Float64", "its end"),
        Column("variant", "category", "of the row"),
        Column("row", "category", "label of the row, as the map calls it"),
        Column("repeat", "Int64", "number of the repeat, from 1"),
        make_known("name", "category", "of the score"),
        Column("value", "Float64", "the number; 1 or 0 where it passed or failed"),
        Column("label", "string", "the word, where the score is one"),
        Column("passed", "boolean", "whether it passed, where the score says that"),
        Column(
            "reason", "string", "why; what the scorer failed with, where it did", lambda each: each.reason or each.error
        ),
        make_known("kind", "category", "code, judge or human", "kind.value"),
        Column("scorer", "category", "name of the function or the judge"),
        Column("pair_of", "category", "of a judge of pairs: the name of its score, without the pair"),
        Column("against", "category", "the variant that the run was compared with"),
        Column("has_changed_mind", "boolean", "the judge chose otherwise with the two the other way round: a tie"),
        Column("model", "category", "that the judge asked"),
        Column("cost", "Float64", "of the judge, in currency"),
        make_known("scored_at", UTC_TIME, "when it was given"),
    ),
    first=("variant", "row", "repeat", "name", "value", "label", "passed", "reason"),
)
