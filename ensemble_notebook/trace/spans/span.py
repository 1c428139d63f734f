"""One interval of a run, and one message of a task's conversation (T2, T5, T20).

Plain records: how they come about is the fold's business, how they look is that of the frames and the timeline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ensemble_notebook.domain.definitions.enums import PhaseStatus, SpanStatus
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.planning.execution_plan import PlannedTask
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED, SETTLED, PlannedRow
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.errors import SuggestsNames
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.timeline_wording import (
    ANSWERS,
    DONE_AGAIN,
    ENDING_ANSWERS,
    NO_RETRY_LEFT,
    NO_ROUND_LEFT,
    OUTCOMES,
    STATUSES,
    UNTIL_MET,
)
from ensemble_notebook.trace.spans.usage_totals import UsageTotals

ShownScore: TypeAlias = float | bool | str | None
"""What a score came to, as views tell it: a number, passed or failed, a word; None where there was no opinion."""


def read_score(record: ScoreRecord) -> ShownScore:
    """What views tell of a score."""
    if record.passed is not None:
        return record.passed
    if record.value is not None:
        return record.value if math.isfinite(record.value) else None
    return None if record.label is None else clean_text(record.label)


_UNTOLD_ENDS: Final = {
    SpanStatus.SKIPPED: PhaseStatus.SKIPPED,
    SpanStatus.CANCELLED: PhaseStatus.FAILED,
    SpanStatus.INTERRUPTED: PhaseStatus.FAILED,
}
"""Of phases that have not told how they ended: that never began, or were open to the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InactiveInterval:
    """The time between the end of a task and its next start, after its phase was sent back."""

    end_seq: int
    end_ms: float
    seq: int
    start_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One go at the work of a phase or task that was sent back (W23), whoever sent it back, and why.

    Attributes:
        start_ms, end_ms: from when to when; the last one may still last.
        verdict: what became of it, in words; None as long as nobody knows, and where only the phase was judged.
        end_time, feedback, totals: of a phase that its review sent back: when, with what, and what it had taken.
        end_seq: number of the event that sent it back; None for the last one.
    """

    start_ms: float
    end_ms: float | None
    verdict: str | None
    end_time: datetime | None = None
    feedback: str | None = None
    totals: UsageTotals | None = None
    end_seq: int | None = None


class ActiveInterval(NamedTuple):
    """A part of a span in which it was not over, with the numbers of the events around it; the last may still last."""

    span: Span
    seq: int
    start_ms: float
    end_seq: int | None
    end_ms: float | None


@dataclass(slots=True, kw_only=True, repr=False)
class Span(SuggestsNames):
    """One interval. Only the fold writes to it; the attributes are the columns of T20, unknown is None.

    Attributes:
        position: how many spans were there before it; those planned come in the order of the plan.
        seq, end_seq: numbers of the events that started (of a ghost: announced) and ended it.
        task_id: `span_id` of the task it belongs to; its own for a task.
        is_planned: a task of the plan; delegated work is none.
        item_count: of a task that runs for each item of a list: for how many.
        map_rows: of a task in which a map runs: how many of its rows have begun, of the largest of these maps.
        items_done, items_failed: how many of them have ended at this attempt, well and otherwise.
        item_of: of such an item: the name of its task.
        title: what views call a task that nobody named: its first words, of an item its own name; None where its name
            will do.
        managed: of a manager: the tasks that it sees to, as written.
        handed_on: of a manager: its delegations, in order.
        worker: of a delegation: the task that came of it.
        row: of a task of a row of a map: the name of that row.
        line: of a row of a map: its number there, from 0, which it has in common with its other runs.
        planned_row: of a row of a map: under which variant it runs, how often, and what it was given.
        start_ms, end_ms: milliseconds since the run started; both None for what never ran.
        resolved_ms: when it ended or was skipped.
        worked_ms: of a task or a nested run: its own time, as its last end tells it; None where that tells nothing.
        waits: of a task that a handler does: when that waited for a thread, or for its next attempt; from and to, in
            milliseconds since the run started.
        inactive_intervals: a task was over in between, because its phase was sent back.
        depends_on: names of the tasks or phases that it waited for.
        context: names of the tasks whose outputs it was given.
        queue_ms: a task was ready and waited for a free place.
        backoff_ms: the wait after a failed attempt, before the next one.
        latency_ms: of the last attempt of an LLM call.
        error_type, error_message: where `status` is ERROR; taken from a child where the failure came from there.
        origin: ``file:line in function`` of the user's own code where that error came from.
        http_status: with which a server refused what failed; None where none did.
        is_origin: True where an error began, so that each failure counts once.
        attempt: number of an attempt, from 1; of an LLM call, how many there were; of a task or phase, how often it was
            done, where it was sent back.
        cost_source: who told the cost of an attempt, where that was another framework.
        is_clamped: one of its times was moved, since it could not be.
        is_fallback: a fallback agent is at work; of a task: one took over.
        reused: an earlier run has done it: it cost nothing now.
        reuse_reason: of a task: why that is so, or why it ran all the same; None where nobody asked.
        saved_tokens, saved_cost, saved_ms: of a reused task: what the work took then.
        iteration: number of the turn it belongs to, from 1.
        usage_leaf: True for attempts, which alone hold tokens and cost; others have them in `totals`.
        tool_request_count: tool calls that the reply of an LLM call asks for.
        tool_characters: of an LLM call: how long the descriptions of the tools are that it is offered.
        context_window: of an LLM call: tokens that the model can take, where it says so itself.
        reason: why it was skipped, or a delegation refused.
        delegate_to, delegation_id: of a delegation: role of the worker, id of request and response; all that happens in
            it has the id, too.
        nested_in: id of the innermost nested run that it is in; None for what the run itself does.
        structured_output: of a tool call: the value that the tool gave beside its text.
        human_wait_ms: of a review: how long nothing but its answer was missing.
        attributes: what only its kind has: see `operation_fold`.
        input, output: arguments and result of a tool call; text of a reply; output of a task; what was asked and
            answered in a delegation or review. Secrets masked.
        lane: number of the sub-lane inside its task, for calls side by side.
        critical, slack_ms: on the longest chain; how much later it could have ended. None before the run has ended.
        sent_back: of a phase or task: the rounds that were sent back, in order.
        round_ms: when its present round began, or its last one, where it was sent back.
        answer: of a phase or task: what its last review came to, as text of a verdict; None where none was answered.
        is_kept: of a phase that was done as often as it may be: whether its last outputs are kept all the same.
        ended_as: of a phase that has told its end: how.
        attempt_totals: of a phase: sums over the leaves of its present attempt, or of its last one.
        own_totals: of a delegation: sums over the leaves beneath that are in no further delegation.
        totals: sums over the leaves beneath; None for a leaf.
        scores: what it was scored, in the order of the names of the run's scores; the last ones may be missing.
        version: number of the event that last changed it, from 1.
        parent: the span around it, by `parent_id`; for the work of a task that reviews a phase, the review beside it.
        failed_child: of what failed, or will: id of the child that it failed by, and what is known of that error.
    """

    # Flat, and not a record for each kind: most of these are columns of a table of all kinds, read as attributes (T20).
    # Where it is, and of what.
    span_id: str
    run_id: str
    parent_id: str | None
    kind: SpanKind
    name: str
    position: int
    seq: int
    depth: int = 0
    status: SpanStatus = SpanStatus.PENDING
    phase: str | None = None
    task_id: str | None = None
    task: str | None = None
    agent: str | None = None
    iteration: int | None = None
    is_fallback: bool = False
    delegation_id: str | None = None
    nested_in: str | None = None
    lane: int = 0

    # When it was, and how it came to its end.
    end_seq: int | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    start_ms: float | None = None
    end_ms: float | None = None
    resolved_ms: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    origin: str | None = None
    http_status: int | None = None
    is_origin: bool = False
    reason: str | None = None

    # What was asked and answered, used and counted.
    input: str | None = None
    output: str | None = None
    attributes: Mapping[str, Any] | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    retry_reason: str | None = None
    reused: bool = False
    usage_leaf: bool = False
    currency: str | None = None
    totals: UsageTotals | None = None
    scores: tuple[ShownScore, ...] = ()
    critical: bool | None = None
    slack_ms: float | None = None
    version: int = 0

    # Of tasks.
    is_planned: bool = False
    item_count: int | None = None
    items_done: int = 0
    items_failed: int = 0
    map_rows: int | None = None
    item_of: str | None = None
    row: str | None = None
    line: int | None = None
    planned_row: PlannedRow | None = None
    title: str | None = None
    description: str | None = None
    context: tuple[str, ...] = ()
    managed: tuple[PlannedTask, ...] = ()
    handed_on: tuple[Span, ...] = field(default=(), repr=False, compare=False)
    queue_ms: float | None = None
    worked_ms: float | None = None
    waits: tuple[tuple[float, float], ...] = ()
    reuse_reason: str | None = None
    saved_tokens: int | None = None
    saved_cost: Decimal | None = None
    saved_ms: float | None = None

    # Of phases, and of tasks that are sent back like them.
    depends_on: tuple[str, ...] = ()
    inactive_intervals: tuple[InactiveInterval, ...] = ()
    sent_back: tuple[Round, ...] = ()
    round_ms: float | None = None
    answer: str | None = None
    is_kept: bool = False
    ended_as: PhaseStatus | None = None
    attempt_totals: UsageTotals | None = None

    # Of model calls and their attempts.
    provider: str | None = None
    model_requested: str | None = None
    model: str | None = None
    is_scripted: bool | None = None
    finish_reason: str | None = None
    tool_request_count: int | None = None
    tool_characters: int | None = None
    context_window: int | None = None
    latency_ms: float | None = None
    time_to_first_token_ms: float | None = None
    backoff_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    tokens_source: str | None = None
    cost_source: str | None = None
    is_clamped: bool = False
    cost_input: Decimal | None = None
    cost_output: Decimal | None = None
    cost: Decimal | None = None

    # Of tool calls, delegations, reviews and waits.
    tool: str | None = None
    tool_call_id: str | None = None
    outcome: str | None = None
    structured_output: Any = None
    pending: PendingCall | None = None
    delegate_to: str | None = None
    worker: Span | None = field(default=None, repr=False, compare=False)
    own_totals: UsageTotals | None = None
    review_decision: str | None = None
    human_wait_ms: float | None = None
    wait_kind: str | None = None

    # How the tree of spans keeps its sums and its times.
    parent: Span | None = field(default=None, repr=False, compare=False)
    failed_child: tuple[str, Any] | None = field(default=None, repr=False)
    open_children: int = field(default=0, repr=False)
    covered_from_ms: float = field(default=0.0, repr=False)
    covered_ms: float = field(default=0.0, repr=False)

    @property
    def enclosing_id(self) -> str | None:
        """The id of the span that its time is a part of."""
        return None if self.parent is None else self.parent.span_id

    @property
    def is_call(self) -> bool:
        """Whether it is a model call that is going on, was sent, or was answered by an earlier run.

        One that a limit has refused was none: nothing was asked, whatever it has waited.
        """
        if self.kind is not SpanKind.LLM or self.totals is None:
            return False
        return self.end_seq is None or self.reused or self.totals.llm_attempt_count > 0

    @property
    def is_own_task(self) -> bool:
        """Whether it is a task of this run itself: neither delegated nor of a nested run."""
        return self.kind is SpanKind.TASK and self.delegation_id is None and self.nested_in is None

    @property
    def is_listed_task(self) -> bool:
        """Whether it has a place of its own in `frames.tasks`: a task of this run itself, or of a row of a map."""
        return self.is_own_task or self.row is not None

    @property
    def phase_status(self) -> PhaseStatus | None:
        """Of a phase: how it ended; None before the end."""
        return self.ended_as or _UNTOLD_ENDS.get(self.status)

    @property
    def outcome_word(self) -> str | None:
        """What became of it, where views say that in place of its status."""
        if self.reason == NOT_NEEDED:
            return SETTLED
        return OUTCOMES.get(self.outcome or self.ended_as or "")

    @property
    def is_executed(self) -> bool:
        """Whether it is a tool call that counts as executed: it is over, and the tool has heard of it in this run."""
        is_over = self.kind is SpanKind.TOOL and self.end_ms is not None
        return is_over and self.status is not SpanStatus.SKIPPED and not self.reused

    @property
    def is_counted_failure(self) -> bool:
        """Whether it is one of the failures that sums count: where one began, and each model call that failed."""
        # Attempts that were followed by a good one are no errors of the run: their call tells whether it failed.
        is_first = self.is_origin and self.kind is not SpanKind.ATTEMPT
        return self.status is SpanStatus.ERROR and (is_first or self.kind is SpanKind.LLM)

    @property
    def is_fatal(self) -> bool:
        """Whether it failed and so ended a task, a phase or the run; False for what was tried again or got over."""
        span = self
        while span.status is SpanStatus.ERROR:
            is_phase = span.kind is SpanKind.PHASE and span.nested_in is None
            if span.is_listed_task or is_phase or span.kind is SpanKind.RUN:
                return True
            parent = span.parent
            if parent is None or parent.failed_child is None or parent.failed_child[0] != span.span_id:
                return False
            span = parent
        return False

    @property
    def duration_ms(self) -> float | None:
        """The time from first start to last end, with retries and waits; None while it runs, or if it never did."""
        return None if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms

    @property
    def duration(self) -> timedelta | None:
        """The same as a timedelta."""
        return None if self.duration_ms is None else timedelta(milliseconds=self.duration_ms)

    @property
    def own_ms(self) -> float | None:
        """Of a task: the time that was its own, as `TaskOutput.duration` says it; None as for `duration_ms`.

        Where no event says it, in traces of 0.1.0 and where a task was open to the last, it is the time in which the
        task was not over.
        """
        if self.kind is not SpanKind.TASK or self.duration_ms is None:
            return None
        if self.worked_ms is not None:
            return self.worked_ms
        return sum(each.end_ms - each.start_ms for each in self.active_intervals if each.end_ms is not None)

    @property
    def active_intervals(self) -> tuple[ActiveInterval, ...]:
        """The times from each start to the next end, in order; none for what never ran."""
        if self.start_ms is None:
            return ()
        intervals, seq, start_ms = [], self.seq, self.start_ms
        for inactive in self.inactive_intervals:
            intervals.append(ActiveInterval(self, seq, start_ms, inactive.end_seq, inactive.end_ms))
            seq, start_ms = inactive.seq, inactive.start_ms
        return (*intervals, ActiveInterval(self, seq, start_ms, self.end_seq, self.end_ms))

    @property
    def score(self) -> float | None:
        """Its first score that is a number; 1 or 0 where it passed or failed."""
        return next((float(each) for each in self.scores if isinstance(each, int | float)), None)

    @property
    def review_id(self) -> str | None:
        """Of a task that answers the review of a phase: the id of that review."""
        is_answer = self.kind is SpanKind.TASK and self.parent is not None and self.parent.kind is SpanKind.REVIEW
        return self.parent.span_id if is_answer and self.parent is not None else None

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All goes at its work, in order; none where it was never sent back."""
        if not self.sent_back or self.round_ms is None:
            return ()
        last = Round(start_ms=self.round_ms, end_ms=self.end_ms, verdict=self._describe_end())
        return (*self.sent_back, last)

    @property
    def is_repeated(self) -> bool:
        """Whether its present round is there because a condition does not hold yet."""
        return bool(self.sent_back) and (self.sent_back[-1].verdict or "").startswith(DONE_AGAIN)

    def _describe_end(self) -> str | None:
        """What became of the last round: what its review said, unless that is not why it ended."""
        if self.end_ms is None:
            return None
        if self.status is not SpanStatus.OK:
            return ANSWERS[self.answer] if self.answer in ENDING_ANSWERS else self.outcome_word or STATUSES[self.status]
        if self.answer == Verdict.RETRY:
            return NO_RETRY_LEFT
        if self.kind is SpanKind.PHASE and self.is_repeated:
            return NO_ROUND_LEFT if self.is_kept else UNTIL_MET
        return None if self.answer is None else ANSWERS.get(self.answer, self.answer)

    def send_back(self, end_ms: float, start_ms: float, verdict: str, **facts: Any) -> None:
        """Its present round has ended, at `end_ms`; the next one begins."""
        began_ms = self.start_ms if self.round_ms is None else self.round_ms
        began_ms = end_ms if began_ms is None else began_ms
        ended = Round(start_ms=began_ms, end_ms=end_ms, verdict=verdict, **facts)
        self.sent_back, self.round_ms, self.answer = (*self.sent_back, ended), start_ms, None

    @property
    def self_ms(self) -> float | None:
        """The part of the length in which it was not over in between, and no child was running."""
        duration = self.duration_ms
        return None if duration is None else max(0.0, duration - self.covered_ms)

    def describe(self) -> str:
        """Its name and how it stands: ``'gather': ok in 1.2 s``."""
        took = self.duration_ms if self.own_ms is None else self.own_ms
        return f"{self.name!r}: {self.status}{'' if took is None else f' in {format_duration(took)}'}"

    def __repr__(self) -> str:
        """One line: with all columns it would be fifty."""
        return f"<Span {self.kind} {self.describe()}>"


Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A tool call as a reply asks for it; `arguments` is text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(SuggestsNames):
    """One message between an agent and its model, secrets masked.

    Attributes:
        number: position among all messages of the run, from 0.
        span: where it arose: the task for prompts, the turn for what a correction asks, the LLM call for replies, the
            tool call for results.
        seq: number of the event that brought it.
        tool_calls: what a reply asks for.
        is_earlier: whether it was said in an earlier run, whose conversation the task goes on with.
        is_left_out: whether it is one of those, and is not sent.
        is_resent: whether a fork tells it in place of all that the task was told before; `is_earlier` where that was
            among it.
        earlier_tool: of a tool's result of an earlier run, the name of the tool.
        earlier_call_id: likewise, the id of the call.
        reasoning: what the model thought before a reply; None where nothing is known of it.
    """

    number: int
    span: Span
    seq: int
    time: datetime
    role: Role
    text: str
    tool_calls: tuple[RequestedCall, ...] = ()
    is_earlier: bool = False
    is_left_out: bool = False
    is_resent: bool = False
    earlier_tool: str | None = None
    earlier_call_id: str | None = None
    reasoning: str | None = None

    @property
    def is_prompt(self) -> bool:
        """Whether this run itself says it to a model: a system prompt, that of a task, or a correction."""
        return self.role in ("system", "user") and not self.is_earlier

    @property
    def name(self) -> str | None:
        """The name of the tool, for a tool's result."""
        return self.earlier_tool or self.span.tool

    @property
    def tool_call_id(self) -> str | None:
        """The id of the call that a tool's result answers."""
        return self.earlier_call_id or self.span.tool_call_id


def find_sent(messages: Sequence[Message]) -> int:
    """Where in the messages of a task, up to a call, the conversation begins that the call goes on with.

    That is with the last system prompt of the task, or where a fork tells the model all anew.
    """
    for place in reversed(range(len(messages))):
        each = messages[place]
        if each.is_resent:
            return next(at for at, other in enumerate(messages) if other.seq == each.seq)
        if each.role == "system" and each.is_prompt:
            return place
    return 0


def list_pending(spans: Iterable[Span]) -> list[tuple[Span, PendingCall]]:
    """The calls of reviewed tools that wait for an answer, each with its span, in the order in which they were left."""
    left = [(span, span.pending) for span in spans if span.pending is not None]
    return sorted(left, key=lambda pair: pair[0].end_seq or 0)
