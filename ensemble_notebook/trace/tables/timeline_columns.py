"""What the timeline is sent (T28): the columns of the frames, and the few that only a picture needs.

The rows of live messages and saved views are made from these tables, and so are TypeScript's types, by ``make
wire-types``. A column that no view reads has no place here: every row carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus, find_framework
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.links import list_work
from ensemble_notebook.trace.spans.span import Span, read_score
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.usage_totals import UsageTotals
from ensemble_notebook.trace.tables.frame_tables import DELEGATIONS, PHASES, REVIEWS, RUNS, SPANS, TASKS
from ensemble_notebook.trace.tables.shared_columns import OWN_TIME
from ensemble_notebook.trace.tables.table import Column, Table, make_attribute, make_attribute_reader, make_known

VERSION: Final = 4
"""Of these tables. A view reads all versions up to its own: 1 is that of 0.1.0; since 3 the rows come as columns, since
4 a saved view has each text once."""


def _make_usage_reader(name: str) -> Callable[[Span], Any]:
    """Tokens and cost of an attempt are its own, of everything else the sums over the attempts beneath it."""
    get = attrgetter(name)

    def read(span: Span) -> Any:
        if span.usage_leaf:
            return get(span)
        totals = span.totals
        return None if totals is None or span.start_ms is None else get(totals)

    return read


_COST: Final = _make_usage_reader("cost")


def _make_sum_reader(get: Callable[[UsageTotals], Any]) -> Callable[[Span], Any]:
    """What a task or phase sums up, once it has begun; of no other span a view asks for it."""

    def read(span: Span) -> Any:
        if span.totals is None or span.start_ms is None or span.kind not in _WITH_ROWS:
            return None
        return get(span.totals)

    return read


_WITH_ROWS: Final = (SpanKind.TASK, SpanKind.PHASE)


def _make_record_reader(kind: SpanKind, table: Table) -> Callable[[Span], Any]:
    """What only spans of one kind have, as a record of its own."""

    def read(span: Span) -> Any:
        return table.to_record(span) if span.kind is kind else None

    return read


def _read_variant(span: Span) -> str | None:
    """Of a row of a map."""
    variant = None if span.planned_row is None else span.planned_row.variant
    return variant and clean_text(variant)


DELEGATION: Final = Table(
    "delegation: how an agent asked another one to work, and what came of it",
    None,
    (
        *DELEGATIONS.pick("delegator", "depth", "priority"),
        make_attribute("errors", "object", "why it was refused or failed", type_name="readonly string[]"),
    ),
)
REVIEW: Final = Table(
    "review: what a person is, or was, asked",
    None,
    (
        *REVIEWS.pick("subject", "tool", "text"),
        make_known(
            "verdicts", "object", "what may be answered", make_attribute_reader("verdicts"), "readonly Verdict[]"
        ),
        make_attribute("deadline_ms", "Float64", "when on_timeout decides, since the run started; absent: never"),
        make_attribute("on_timeout", "category", "what it decides"),
        Column("decision", "category", "what was answered", "review_decision"),
        *REVIEWS.pick("by", "is_timeout"),
        make_attribute(
            "otherwise",
            "string",
            "of a call of a reviewed tool: what happens to it if nobody answers, whatever on_timeout says",
        ),
        make_attribute("row", "string", "name of the row of a map that it is about; an answer may then serve all rows"),
    ),
)
MEMORY: Final = Table(
    "memory operation",
    None,
    (
        make_known("operation", "category", "retrieve or store", make_attribute_reader("operation")),
        make_known("scope", "category", "of the memory", make_attribute_reader("scope")),
        make_attribute("count", "Int64", "entries that were found or written"),
    ),
)
ROUND: Final = Table(
    "round: one go at the work of a phase or task that was sent back",
    None,
    (
        make_known("start_ms", "Float64", "its start, since the run started"),
        Column("end_ms", "Float64", "its end; absent while it lasts"),
        Column("verdict", "string", "what became of it, in words; absent where nobody said"),
    ),
)

WORK: Final = Table(
    "part of what a manager saw to: a task as it was written, or work that was handed on",
    None,
    (
        make_known("title", "string", "what it is called"),
        Column("span_id", "string", "of the task that a worker did, or of a delegation that was refused"),
        Column("agent", "string", "who did it"),
        Column("note", "string", "why there is no work to be seen, in words"),
    ),
)


ROWS: Final = Table(
    "span that views show. What is unknown or false is absent; times are milliseconds since the run started",
    SPANS.index,
    (
        *SPANS.pick("parent_id", "kind", "name", "status", "phase", "task", "agent", "is_fallback"),
        *TASKS.pick(
            "description", "depends_on", "item_count", "reuse_reason", "saved_tokens", "saved_cost", "saved_ms"
        ),
        Column(
            "context",
            "object",
            "names of the tasks whose outputs it was given",
            lambda span: list(span.context) or None,
            "readonly string[]",
        ),
        Column(
            "output_characters",
            "Int64",
            "of a task: length of what it gave",
            lambda span: len(span.output) if span.kind is SpanKind.TASK and span.output is not None else None,
        ),
        *SPANS.pick("start_ms"),
        Column("end_ms", "Float64", "end, since the run started; absent while it runs"),
        Column(
            "settled_ms",
            "Float64",
            "of what never began: when it was settled that it would not, since the run started",
            lambda span: span.resolved_ms if span.start_ms is None else None,
        ),
        Column(
            OWN_TIME.name,
            OWN_TIME.dtype,
            "of a task: its own time, which is less than from start to end where it was over in between, or waited for "
            "a model to be made ready",
            OWN_TIME.value,
        ),
        Column("lane", "Int64", "number of the sub-lane inside its task, for calls side by side"),
        Column(
            "rounds",
            "object",
            "of a phase or task that was sent back: each go at its work, in order",
            lambda span: [ROUND.to_record(each) for each in span.rounds] or None,
            "readonly Round[]",
        ),
        Column("line", "Int64", "of a row of a map: its number there, from 0: the same under each variant"),
        Column("variant", "category", "of a row of a map: the variant that it runs under", _read_variant),
        Column(
            "repeat",
            "Int64",
            "of a row of a map: the number of the repeat, from 1",
            lambda span: span.planned_row and span.planned_row.repeat,
        ),
        Column("map_rows", "Int64", "of a task in which a map runs: how many of its rows have begun"),
        Column(
            "title", "string", "what a task is called whose name nobody chose: its first words, or the name of its item"
        ),
        Column("work", "object", "of a manager: what stands below it, in order", list_work, "readonly Work[]"),
        Column("review_id", "string", "of a task that answers the review of a phase: span_id of that"),
        *SPANS.pick("critical", "slack_ms", "queue_ms", "backoff_ms", "time_to_first_token_ms", "wait_kind"),
        *SPANS.pick("error_type", "error_message", "reason"),
        Column("outcome", "category", "of what was skipped: declined, exited early, or settled", "outcome_word"),
        *SPANS.pick("attempt", "max_attempts", "retry_reason"),
        *SPANS.pick("provider", "model_requested"),
        Column("model", "category", "name as the provider gave it"),
        *SPANS.pick("is_scripted", "finish_reason"),
        *(
            Column(each.name, each.dtype, f"{each.meaning}; known part", _make_usage_reader(each.name))
            for each in SPANS.pick("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
        ),
        Column("cost", "Float64", "known part, in currency", _COST),
        Column(
            "currency",
            "category",
            "of the cost: there wherever a cost is",
            lambda span: None if _COST(span) is None else span.currency,
        ),
        Column("score", "Float64", "its first score that is a number; 1 or 0 where it passed or failed"),
        Column(
            "scores",
            "object",
            "all that it was scored, in the order of the run's score_names; the last ones may be missing",
            lambda span: list(span.scores) or None,
            "readonly (number | boolean | string | null)[]",
        ),
        Column(
            "llm_call_count", "Int64", "of a task or phase: model calls", _make_sum_reader(attrgetter("llm_call_count"))
        ),
        Column(
            "lacks_tokens",
            "boolean",
            "of a task or phase: the tokens of a request are unknown",
            _make_sum_reader(lambda totals: not totals.tokens_complete),
        ),
        Column(
            "lacks_cost",
            "boolean",
            "of a task or phase: the price of a request is unknown",
            _make_sum_reader(lambda totals: not totals.cost_complete),
        ),
        *SPANS.pick("reused", "tool", "delegate_to", "delegation_id"),
        Column(
            "delegation",
            "object",
            "of a delegation",
            _make_record_reader(SpanKind.DELEGATION, DELEGATION),
            "Delegation",
        ),
        Column("review", "object", "of a review", _make_record_reader(SpanKind.REVIEW, REVIEW), "Review"),
        Column("memory", "object", "of a memory operation", _make_record_reader(SpanKind.MEMORY, MEMORY), "Memory"),
        Column("guardrail", "category", "what a guardrail looks at: input or output", make_attribute_reader("kind")),
        make_attribute("is_correction", "boolean", "of a turn: the reply before was not of the output type"),
        make_attribute("progress", "string", "what its code has said last of how far it is"),
        make_attribute(
            "delta", "string", "of a task in a view of two runs: how much more it took in the second one, in words"
        ),
        make_attribute(
            "settings",
            "object",
            "how a task was declared, by the names of its fields, where that differs from the defaults",
            type_name="Readonly<Record<string, string | number | boolean>>",
        ),
    ),
)

KNOWN_BEFORE: Final = (
    *("span_id", "parent_id", "kind", "name", "phase", "task", "agent", "description", "depends_on", "item_count"),
    *("line", "variant", "repeat", "title", "work", "review_id", "delegation_id", "delta", "settings"),
)
KNOWN_AT_START: Final = (
    *KNOWN_BEFORE,
    *("context", "start_ms", "lane", "queue_ms", "wait_kind", "max_attempts", "provider"),
    *("model_requested", "is_scripted", "tool", "delegate_to", "guardrail", "is_correction"),
)
"""The columns of a row that say something before it begins, and as soon as it has; the others do once it is over, and
some of them say less as long as it goes on (W35)."""

SERIES: Final = Table(
    "point of a run: what it had come to at a time (W35)",
    None,
    (
        make_known("at_ms", "Float64", "since the run started"),
        make_known("input_tokens", "Int64", "of the requests that had ended; known part"),
        make_known("output_tokens", "Int64", "of the requests that had ended; known part"),
        make_known("cost", "Float64", "of the requests that had ended, in currency; known part"),
        make_known("done", "Int64", "tasks of the plan that had completed"),
        make_known("failed", "Int64", "tasks of the plan that had failed"),
        make_known("skipped", "Int64", "tasks of the plan that had been skipped"),
        make_known("cancelled", "Int64", "tasks of the plan that had been cancelled or interrupted"),
        make_known("running", "Int64", "tasks of the plan that were at work"),
        make_known("llm_calls", "Int64", "model calls that had been made"),
        make_known("requests", "Int64", "requests that had been made for them"),
        make_known("tool_calls", "Int64", "tool calls that had been executed"),
        make_known("errors", "Int64", "failures, each counted once"),
        make_known("retries", "Int64", "attempts that were followed by another one"),
    ),
)

PHASE: Final = Table(
    "phase of the plan",
    None,
    (
        make_known("name", "string", "of the phase"),
        make_known("span_id", "string", "of its span"),
        *PHASES.pick("after"),
    ),
)
ACTIVE: Final = Table(
    "span at work",
    None,
    (make_known("span_id", "string", "of the span"), *SPANS.pick("kind"), make_known("name", "string", "of the span")),
)
BUDGET: Final = Table(
    "limit of the run",
    None,
    (
        Column("max_cost", "Float64", "limit of the cost, in currency"),
        Column("max_tokens", "Float64", "limit of input and output together"),
        Column("max_llm_calls", "Float64", "limit of physical requests"),
        Column("cost", "Float64", "spent of it, in currency"),
        Column("tokens", "Int64", "spent of them"),
        Column("llm_calls", "Int64", "spent of them"),
        Column("share", "Float64", "what is spent of the limit that is nearest, 0 to 1 and more"),
        Column("warn_at", "Float64", "the share at which there is a warning"),
        Column("currency", "category", "of both costs"),
    ),
)
MANY: Final = Table(
    "work on many, while it goes on",
    None,
    (
        make_known("total", "Int64", "how many items, or rows"),
        make_known("done", "Int64", "of them that completed"),
        make_known("failed", "Int64", "of them that ended otherwise"),
        make_known("start_ms", "Float64", "when the first of them could begin"),
    ),
)
FAILURE: Final = Table(
    "error",
    None,
    (make_known("type", "string", "its class"), make_known("message", "string", "its text, secrets masked")),
)
RANGE: Final = Table(
    "time of a run of which a person has said something",
    None,
    (
        make_known("from_ms", "Float64", "its begin, since the start of the run"),
        make_known("to_ms", "Float64", "its end, since the start of the run"),
        make_known("name", "string", "of the score", lambda score: clean_text(score.name)),
        Column("value", "object", "whether it is good, a number, or a word", read_score, "boolean | number | string"),
        Column("reason", "string", "why, in words", lambda score: score.reason and clean_text(score.reason)),
        Column("author", "string", "who said so"),
    ),
)


PENDING_CALL: Final = Table(
    "call of a reviewed tool that waits until somebody answers",
    None,
    (
        make_known("id", "string", "by which an answer names it"),
        make_known("span_id", "string", "of the call"),
        make_known("text", "string", "the tool and its arguments, shortened"),
        make_known("since", "string", "the instant when it was asked about first"),
        Column("agent", "string", "role of who asks for it"),
        Column("task", "string", "that it is in"),
        Column("row", "string", "name of the row that it is in, in a map"),
        Column("is_unknown", "boolean", "it was begun once before, and nobody knows whether it was done"),
    ),
)
PENDING: Final = Table(
    "what of a run waits for answers",
    None,
    (
        make_known("count", "Int64", "how many calls"),
        make_known("calls", "object", "the first of them", type_name="readonly PendingCall[]"),
        make_known("code", "string", "the line that goes on, with {} for the answers by the ids of calls"),
    ),
)
HEAD: Final = Table(
    "variant of a map under a score",
    None,
    (
        Column("variant", "category", "its name, as rows have it; null where there are no variants"),
        make_known("title", "string", "as short as it is told apart", lambda head: clean_text(head.title)),
        make_known(
            "score", "string", "name of the score; of a label, with the word", lambda head: clean_text(head.found.score)
        ),
        make_known("rows", "Int64", "that count by now", "found.rows"),
        Column("mean", "Float64", "over these rows; of what passes, a share of one", "found.mean"),
        Column("low", "Float64", "end of its interval", lambda head: head.found.interval and head.found.interval[0]),
        Column("high", "Float64", "the other end", lambda head: head.found.interval and head.found.interval[1]),
        make_known("kind", "category", "of which kind the interval is, in words", "found.kind"),
        make_known("is_share", "boolean", "the score passes or fails", "question.is_share"),
    ),
)
STANDING: Final = Table(
    "word on how the variants of a map stand by now",
    None,
    (
        make_known(
            "heads",
            "object",
            "of each score, those of all variants",
            lambda standing: [HEAD.to_full_record(each) for each in standing.heads],
            "readonly Head[]",
        ),
        Column(
            "sentence",
            "string",
            "the verdict by now, in short; null where nothing is compared",
            lambda standing: standing.sentence and clean_text(standing.sentence),
        ),
        Column(
            "reason",
            "string",
            "what it rests on, a line for each comparison",
            lambda standing: standing.reason and clean_text(standing.reason),
        ),
    ),
)


RUN: Final = Table(
    "run, as of the latest event. What is unknown is null",
    RUNS.index,
    (
        Column("name", "string", "its own, else that of the variable with its output, else the number of its cell"),
        *RUNS.pick("status", "exit_reason"),
        Column("sentence", "string", "what happened, in one sentence; null before the end"),
        make_known("elapsed_ms", "Float64", "since the start; of a run that is over, its length"),
        Column("ended_at", "string", "the instant of its end; null before"),
        make_known("task_noun", "category", "what a task is called: task, row, variant or run", "fold.task_noun.value"),
        make_known(
            "tasks_total",
            "Int64",
            "tasks of the plan",
            lambda state: sum(state.fold.tree.task_counts[each] for each in SpanStatus),
        ),
        *RUNS.pick("tasks_done", "tasks_failed", "tasks_skipped", "tasks_cancelled"),
        Column(
            "tasks_settled",
            "Int64",
            "of those that were skipped, rows of a map that were not needed; null where there are none",
            lambda state: state.fold.tree.settled_count or None,
        ),
        make_known("phases_now", "object", "names of the phases that run", type_name="readonly string[]"),
        make_known("active", "object", "what is at work, the longest running first", type_name="readonly ActiveSpan[]"),
        make_known(
            "waiting", "object", "span_id of the reviews that nobody has answered yet", type_name="readonly string[]"
        ),
        Column("pending", "object", "what waits for answers after its end; null where nothing does", None, "Pending"),
        Column("view", "string", "the view it opens in: bars, graph, grid, messages or table", "opening_view"),
        Column("many", "object", "the items or rows that are at work; null where there are none", None, "Many"),
        *RUNS.pick("input_tokens", "cache_read_tokens", "output_tokens", "tokens_complete"),
        *RUNS.pick("cost", "cost_complete", "currency"),
        *RUNS.pick("llm_call_count", "tool_call_count", "error_count", "retry_count"),
        Column("budget", "object", "limits, and what is spent of them; null without one", None, "Budget"),
        make_known("is_scripted", "boolean", "a script answered for a model", "fold.is_scripted"),
        *RUNS.pick("max_concurrency"),
        Column(
            "rate_limit",
            "Int64",
            "how many model requests it lets through in rate_limit_ms; null without a limit",
            lambda state: state.fold.rate_limit and state.fold.rate_limit.requests,
        ),
        Column(
            "rate_limit_ms",
            "Float64",
            "the time in which so many may be sent",
            lambda state: state.fold.rate_limit and state.fold.rate_limit.period * 1000,
        ),
        *RUNS.pick("capture_mode"),
        Column("variable", "string", "the notebook's variable that has its output"),
        Column("is_resumable", "boolean", "a line of the notebook can go on with it; null: nobody knows"),
        # Told by what the views hear of the run from.
        Column(
            "is_stoppable", "boolean", "false where a view can't stop it, as a run of another framework", lambda _: None
        ),
        Column(
            "framework",
            "string",
            "what told of it, where another framework ran it; null: an ensemble's",
            lambda state: clean_text(find_framework(state.fold.workflow) or "") or None,
        ),
        *RUNS.pick("replayed_from"),
        make_known(
            "score_names", "object", "names of the scores of its spans", "fold.score_names", "readonly string[]"
        ),
        make_known(
            "row_inputs", "object", "names of what the rows of a map are given", "fold.row_inputs", "readonly string[]"
        ),
        Column(
            "standing",
            "object",
            "of a map with scores: how its variants stand; null of others",
            lambda state: state.standing and STANDING.to_full_record(state.standing),
            "Standing",
        ),
        Column(
            "ranges", "object", "its times that a person has named; null where there are none", None, "readonly Range[]"
        ),
        make_known("warnings", "object", "the latest warnings", type_name="readonly string[]"),
        Column("note", "string", "what is being prepared, e.g. a model that loads", "fold.note"),
        Column("error", "object", "what ended the run", None, "Failure"),
    ),
)

GRAPH_NODES: Final = Table(
    "node of the graph of a run, or a box around others",
    None,
    (
        make_known("key", "string", "identifies it in this graph, as long as the run goes on", "node.key"),
        make_known("kind", "category", "phase, round or rows, which are boxes; else a node", "node.kind"),
        Column("parent", "Int64", "place of the box around it among the nodes, before it"),
        make_known("title", "string", "what it is called", "node.title"),
        Column("agent", "category", "role of who is to do it", lambda row: row.node.agent or None),
        Column("model", "category", "by which model", lambda row: row.node.model or None),
        Column("settings", "string", "how it was declared, in words", lambda row: row.node.settings or None),
        Column("count", "Int64", "how many it stands for", "node.count"),
        Column("is_many", "boolean", "it runs for each item of a list", "node.is_many"),
        make_known("x", "Int64", "its left side, in pixels from that of the graph", "place.x"),
        make_known("y", "Int64", "its top, in pixels from that of the graph", "place.y"),
        make_known("width", "Int64", "of all of it, in pixels", "place.width"),
        make_known("height", "Int64", "of all of it, in pixels", "place.height"),
    ),
)
GRAPH_EDGES: Final = Table(
    "edge of the graph of a run",
    None,
    (
        make_known("source", "Int64", "place of the node that it comes from, among the nodes"),
        make_known("target", "Int64", "place of the node that it goes to, among the nodes"),
        make_known("kind", "category", "context, items, condition, order, delegation, loop or round", "edge.kind"),
        Column("words", "string", "what is said of it", lambda row: row.edge.words or None),
        Column("answer", "string", "what a manager was answered", lambda row: row.edge.answer or None),
        make_known("way", "object", "the points that it goes through: x, y, x, y, ...", type_name="readonly number[]"),
    ),
)
GRAPH_MEMBERS: Final = Table(
    "span that a node of the graph stands for",
    None,
    (
        make_known("span_id", "string", "of the span"),
        make_known("node", "Int64", "place of the node among the nodes"),
        Column("go", "Int64", "which go at its work, from 1; absent for all of it"),
    ),
)
