"""The fold of a run's events into spans: one event at a time, each in constant time (T1, T2).

The same fold serves a live timeline and a finished trace. Knows no pandas, no clock and nothing of how spans are
shown; a stream that was cut gives what was known by then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final

from ensemble_notebook.domain import event as ev
from ensemble_notebook.domain.choice import ExitReason, PhaseStatus, RunStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.cost import CostConfiguration
from ensemble_notebook.domain.metric import Metrics, TokenUsage
from ensemble_notebook.domain.plan import ExecutionPlan
from ensemble_notebook.domain.secret import mask
from ensemble_notebook.trace.critical import settle
from ensemble_notebook.trace.lane import LanePool
from ensemble_notebook.trace.price import price_of
from ensemble_notebook.trace.span import Message, RequestedCall, Role, Span, SpanKind
from ensemble_notebook.trace.tally import Tally
from ensemble_notebook.trace.text import StreamedText

_LEAVES: Final = (SpanKind.ATTEMPT, SpanKind.TOOL)
_PHASE_STATUS: Final = {
    PhaseStatus.COMPLETED: SpanStatus.OK,
    PhaseStatus.FAILED: SpanStatus.ERROR,
    PhaseStatus.SKIPPED: SpanStatus.SKIPPED,
}
_RUN_STATUS: Final = {
    RunStatus.COMPLETED: SpanStatus.OK,
    RunStatus.FAILED: SpanStatus.ERROR,
    RunStatus.INTERRUPTED: SpanStatus.CANCELLED,
}


class TraceFold:
    """What is known of a run by now.

    One thread adds; others may read under `lock`.

    Attributes:
        count: how many events were added; the version of everything that the last one changed.
        spans: by id, in order of first appearance; what is planned is there from the plan on, as ghosts (W1).
        messages: of each task, by its span id, in order.
        run: the span of the run itself; None before it starts.
        open: the spans that are running, by id.
        streams: text streamed so far, by id of the LLM call.
        status, exit_reason: of the run. error: type and message of what ended it, or None.
        note: what is being prepared, e.g. a model that is loading; None once a model was asked, or after the end.
    """

    def __init__(self, cost: CostConfiguration | None = None) -> None:
        self.lock = threading.RLock()
        self.rates = cost
        self.currency = "USD" if cost is None else cost.currency
        self.count = 0
        self.spans: dict[str, Span] = {}
        self.messages: dict[str, list[Message]] = {}
        self.open: dict[str, Span] = {}
        self.streams: dict[str, StreamedText] = {}
        self.run: Span | None = None
        self.run_id = ""
        self.name: str | None = None
        self.workflow: str | None = None
        self.inputs: Mapping[str, str] = {}
        self.max_concurrency: int | None = None
        self.plan: ExecutionPlan | None = None
        self.status = RunStatus.PENDING
        self.exit_reason: ExitReason | None = None
        self.error: tuple[str, str | None] | None = None
        self.warnings: list[str] = []
        self.note: str | None = None
        self.is_scripted = False
        self.task_counts: dict[SpanStatus, int] = dict.fromkeys(SpanStatus, 0)
        self._changed: dict[str, Span] = {}
        self._lanes: dict[str, LanePool] = {}
        self._last_attempts: dict[str, Span] = {}
        self._tool_groups: dict[str, tuple[int, float]] = {}

    @classmethod
    def of(cls, events: Iterable[ev.Event], cost: CostConfiguration | None = None) -> TraceFold:
        """The fold of these events, in order."""
        fold = cls(cost)
        for event in events:
            fold.add(event)
        return fold

    def add(self, event: ev.Event) -> None:
        """Take in the next event. Types that it doesn't know change nothing."""
        with self.lock:
            self.count += 1
            handler = self._HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)

    @property
    def metrics(self) -> Metrics:
        """Of the run, by now."""
        return self.metrics_of(self.run)

    def metrics_of(self, span: Span | None) -> Metrics:
        """Of everything beneath a span."""
        tally = None if span is None else span.tally
        return (tally or Tally()).to_metrics(self.currency)

    def changed_since(self, version: int) -> Iterator[Span]:
        """The spans that changed after `version`, latest change first; costs no more than what it gives."""
        for span in reversed(self._changed.values()):
            if span.version <= version:
                return
            yield span

    # --- The run ------------------------------------------------------------------------------------------------------

    def _run_started(self, event: ev.RunStarted) -> None:
        self.run_id, self.name, self.workflow = event.run_id, event.name, event.workflow
        self.inputs = {name: mask(value) for name, value in event.inputs.items()}
        self.max_concurrency = event.max_concurrency
        self.status = RunStatus.RUNNING
        self.run = self._begin(event, SpanKind.RUN, event.name or "run")

    def _plan_made(self, event: ev.PlanMade) -> None:
        """Rows for everything that will come, so that rows never jump (W1)."""
        plan = self.plan = event.plan
        phase_ids = dict(zip(plan.phases, event.phase_span_ids, strict=True))
        for (name, after), span_id in zip(plan.phases.items(), event.phase_span_ids, strict=True):
            self._ghost(event, SpanKind.PHASE, name, span_id, event.span_id, phase=name, depends_on=after)
        for task, span_id in zip(plan.tasks, event.task_span_ids, strict=True):
            parent_id = event.span_id if task.phase is None else phase_ids[task.phase]
            ghost = self._ghost(event, SpanKind.TASK, task.name, span_id, parent_id, phase=task.phase)
            ghost.depends_on, ghost.agent = task.depends_on, task.agent
            ghost.description = mask(task.description)

    def _ghost(
        self, event: ev.Event, kind: SpanKind, name: str, span_id: str, parent_id: str | None, **facts: Any
    ) -> Span:
        span = Span(
            span_id=span_id, run_id=event.run_id, parent_id=parent_id, kind=kind, name=name, seq=event.seq, **facts
        )
        return self._enter(span)

    def _warned(self, event: ev.Warned) -> None:
        self.warnings.append(mask(event.message))

    def _noted(self, event: ev.Noted) -> None:
        self.note = mask(event.message)

    def _run_ended(self, event: ev.RunEnded) -> None:
        self.status, self.exit_reason, self.note = event.status, event.exit_reason, None
        for span in reversed([*self.open.values()]):
            if span is not self.run:
                self._abandon(span, event)
        run = self.spans.get(event.span_id)
        if run is not None:
            self._end(run, event, _RUN_STATUS.get(event.status, SpanStatus.OK), event.error)
        if event.error is not None:
            self.error = _error_facts(event.error)
        for span in settle(self.spans):
            self._touch(span)

    def _abandon(self, span: Span, event: ev.RunEnded) -> None:
        """What never said how it ended, because it ignored its cancellation, ends with the span around it."""
        parent = self.spans.get(span.parent_id or "")
        if span.kind is SpanKind.ATTEMPT:
            self._book_usage(span, TokenUsage())
        self._end(span, event, SpanStatus.CANCELLED)
        if parent is not None and parent.end_ms is not None:
            span.end_ms, span.end_time = parent.end_ms, parent.end_time

    # --- Phases and tasks ---------------------------------------------------------------------------------------------

    def _phase_started(self, event: ev.PhaseStarted) -> None:
        self._begin(event, SpanKind.PHASE, event.phase or "phase")

    def _phase_ended(self, event: ev.PhaseEnded) -> None:
        status = SpanStatus.CANCELLED if event.is_cancelled else _PHASE_STATUS[event.status]
        self._end_by_id(event, status)

    def _task_started(self, event: ev.TaskStarted) -> None:
        span = self._begin(event, SpanKind.TASK, event.task or "task", agent=event.agent)
        span.description = mask(event.description)
        span.queue_ms = event.queued_s * 1000

    def _task_input_prepared(self, event: ev.TaskInputPrepared) -> None:
        if event.system_prompt:
            self._say(event, "system", event.system_prompt)
        self._say(event, "user", event.user_prompt)

    def _task_completed(self, event: ev.TaskCompleted) -> None:
        span = self._end_by_id(event, SpanStatus.OK)
        if span is not None:
            span.output = mask(event.output.raw)

    def _task_failed(self, event: ev.TaskFailed) -> None:
        self._end_by_id(event, event.status, event.error)

    def _skipped(self, event: ev.TaskSkipped | ev.PhaseSkipped) -> None:
        kind = SpanKind.TASK if isinstance(event, ev.TaskSkipped) else SpanKind.PHASE
        span = self._find_or_make(event, kind, event.task or event.phase or kind)
        span.seq = span.end_seq = event.seq
        span.resolved_ms = event.offset_s * 1000
        span.reason = mask(event.reason)
        self._set_status(span, SpanStatus.SKIPPED)
        self._touch(span)

    # --- Turns and model calls ----------------------------------------------------------------------------------------

    def _turn_started(self, event: ev.TurnStarted) -> None:
        span = self._begin(event, SpanKind.TURN, f"turn {event.iteration}", agent=event.agent)
        span.iteration = event.iteration

    def _turn_ended(self, event: ev.TurnEnded) -> None:
        self._end_by_id(event, event.status)

    def _llm_started(self, event: ev.LlmCallStarted) -> None:
        span = self._begin(event, SpanKind.LLM, event.model, agent=event.agent)
        span.model_requested, span.provider = event.model, event.provider
        span.max_attempts, span.is_scripted = event.max_attempts, event.is_scripted
        span.lane = self._take_lane(span)
        self.is_scripted = self.is_scripted or event.is_scripted
        for tally in self._tallies(span):
            tally.llm_call_count += 1

    def _attempt_started(self, event: ev.LlmAttemptStarted) -> None:
        span = self._begin(event, SpanKind.ATTEMPT, f"attempt {event.attempt}")
        span.attempt, span.usage_leaf = event.attempt, True
        self.note = None
        for tally in self._tallies(span):
            tally.llm_attempt_count += 1
        call = self.spans.get(event.parent_id or "")
        if call is None:
            return
        span.provider, span.model_requested, span.model = call.provider, call.model_requested, call.model
        span.max_attempts, span.is_scripted, span.lane = call.max_attempts, call.is_scripted, call.lane
        call.attempt = event.attempt
        self._last_attempts[call.span_id] = span
        self._set_status(call, SpanStatus.RUNNING)
        if (stream := self.streams.get(call.span_id)) is not None:
            stream.add(f"\n[attempt {event.attempt}]\n", self.count)

    def _token(self, event: ev.LlmToken) -> None:
        stream = self.streams.pop(event.span_id, None)
        if stream is None:
            stream = StreamedText()
            self._first_token(event)
        self.streams[event.span_id] = stream
        stream.add(event.text, self.count)

    def _first_token(self, event: ev.LlmToken) -> None:
        call = self.spans.get(event.span_id)
        if call is not None and call.start_ms is not None:
            call.time_to_first_token_ms = event.offset_s * 1000 - call.start_ms
            self._touch(call)

    def _attempt_ended(self, event: ev.LlmAttemptEnded) -> None:
        span = self._end_by_id(event, event.status, event.error)
        if span is None:
            return
        self._book_usage(span, event.usage)
        call = self.spans.get(span.parent_id or "")
        if call is not None:
            call.latency_ms = span.duration_ms

    def _llm_retried(self, event: ev.LlmCallRetried) -> None:
        call, attempt = self.spans.get(event.span_id), self._last_attempts.get(event.span_id)
        if call is None or attempt is None:
            return
        attempt.backoff_ms, attempt.retry_reason = event.delay_s * 1000, mask(event.reason)
        self._touch(attempt)
        self._set_status(call, SpanStatus.WAITING)
        for tally in self._tallies(attempt):
            tally.retry_count += 1
            tally.backoff_ms += attempt.backoff_ms

    def _llm_completed(self, event: ev.LlmCallCompleted) -> None:
        span = self._end_by_id(event, SpanStatus.OK)
        if span is None:
            return
        span.model, span.finish_reason = event.model or span.model_requested, event.finish_reason
        if event.time_to_first_token_s is not None:
            span.time_to_first_token_ms = event.time_to_first_token_s * 1000
        span.tool_request_count = len(event.tool_calls)
        self._close_call(span)
        attempt = self._last_attempts.pop(event.span_id, None)
        if attempt is not None and attempt.model != span.model:
            attempt.model = span.model
            self._reprice(attempt, event.usage)
        calls = tuple(
            RequestedCall(id=call.id, name=call.name, arguments=mask(_as_text(call.arguments)))
            for call in event.tool_calls
        )
        span.output = self._say(event, "assistant", event.text, tool_calls=calls).text

    def _llm_failed(self, event: ev.LlmCallFailed) -> None:
        span = self._end_by_id(event, event.status, event.error)
        self._last_attempts.pop(event.span_id, None)
        if span is not None:
            self._close_call(span)

    def _close_call(self, span: Span) -> None:
        self._give_back_lane(span)
        stream = self.streams.pop(span.span_id, None)
        if stream is not None:
            self.streams[span.span_id] = stream
            stream.end(self.count)

    # --- Tools --------------------------------------------------------------------------------------------------------

    def _tool_started(self, event: ev.ToolCallStarted) -> None:
        span = self._begin(event, SpanKind.TOOL, event.tool, agent=event.agent)
        span.tool, span.tool_call_id, span.input = event.tool, event.tool_call_id, mask(event.arguments)
        span.lane = self._take_lane(span)
        parent_id = span.parent_id or ""
        running, since_ms = self._tool_groups.get(parent_id, (0, 0.0))
        self._tool_groups[parent_id] = (running + 1, since_ms if running else span.start_ms or 0.0)

    def _tool_completed(self, event: ev.ToolCallCompleted) -> None:
        span = self.spans.get(event.span_id)
        if span is None:
            return
        message = self._say(event, "tool", event.result, name=event.tool, tool_call_id=event.tool_call_id)
        span.output, span.outcome = message.text, event.outcome and event.outcome.value
        failure = event.error or (None if event.status is not SpanStatus.ERROR else _ToolFailure(event.result))
        self._end(span, event, event.status, failure)
        self._give_back_lane(span)
        waited_ms = self._leave_tool_group(span)
        for tally in self._tallies(span):
            tally.tool_wait_ms += waited_ms
            if event.outcome is not ToolOutcome.SKIPPED_MAX_ITERATIONS:
                tally.tool_call_count += 1
                tally.tool_ms += span.duration_ms or 0.0

    def _leave_tool_group(self, span: Span) -> float:
        """Milliseconds that the turn has waited for tools, once the last of those side by side is back; else 0."""
        running, since_ms = self._tool_groups.pop(span.parent_id or "", (1, span.start_ms or 0.0))
        if running > 1:
            self._tool_groups[span.parent_id or ""] = (running - 1, since_ms)
            return 0.0
        return (span.end_ms or 0.0) - since_ms
