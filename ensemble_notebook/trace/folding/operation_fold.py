"""The part of the fold that is about operations: delegations, reviews, guardrails, memory, waits, and new kinds.

A kind whose events nothing here names is folded by what all events have, so that a new one costs no code here. What
only spans of one kind have is in their `attributes`, which are plain values: of a delegation ``delegator``, ``depth``,
``priority``, ``scope``, ``expected_output_schema``, ``max_output_retries``, ``metadata``, ``status`` and ``errors``; of
a review ``subject``, ``tool``, ``text``, ``verdicts``, ``deadline_ms`` (since the run started), ``on_timeout``,
``decision`` and ``is_timeout``, of one of a call of a reviewed tool ``call_id``, ``is_unknown`` and
``otherwise``, too; of a guardrail ``kind`` and ``message``; of every other kind what only its own
events have, such as ``operation``, ``scope`` and ``count`` of a memory operation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.errors import find_origin
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.folding.event_handlers import EventFold, on, on_open
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.span_tree import ErrorSummary, SpanTree, summarize_error, to_ms

_COMMON_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(ev.Event))
_HOW_IT_ENDED: Final = ("status", "error", "duration")
_KINDS: Final = {event: kind for kind in SpanKind for event in kind.traits.starts}

STARTUP: Final = "startup"
"""The `wait_kind` of what has to be made ready before a model can be asked."""


class OperationFold(EventFold):
    """Folds the events of these kinds of spans."""

    def __init__(self, tree: SpanTree) -> None:
        self.tree = tree

    @on(*_KINDS)
    def _begin_operation(self, event: ev.Event) -> Span:
        """An operation starts; what only its event has becomes its attributes, but for its name."""
        attributes, kind = _read_own_fields(event), _KINDS[type(event)]
        span = self._begin(event, kind, attributes.pop("name", None) or kind.traits.title.lower())
        span.attributes = attributes
        return span

    @on_open(*(event for kind in SpanKind for event in kind.traits.ends))
    def end_operation(self, event: ev.Event, span: Span) -> None:
        """An operation ends; what only its event has is added to its attributes, but for how it ended and its time."""
        facts = {name: value for name, value in _read_own_fields(event).items() if name not in _HOW_IT_ENDED}
        error = summarize_error(getattr(event, "error", None))
        self.tree.end(event, span, getattr(event, "status", SpanStatus.OK), error)
        _add_attributes(span, **facts)

    @on_open(ev.TimesMoved)
    def _on_times_moved(self, _: ev.TimesMoved, span: Span) -> None:
        span.is_clamped = True

    def _begin(self, event: ev.Event, kind: SpanKind, name: str, agent: str | None = None) -> Span:
        """An operation starts, on the sub-lane of what is around it."""
        span = self.tree.begin(event, kind, name, agent)
        if span.parent is not None:
            span.lane = span.parent.lane
        return span

    @on(ev.DelegationStarted)
    def _on_delegation_started(self, event: ev.DelegationStarted) -> None:
        span = self._begin(event, SpanKind.DELEGATION, event.request.agent_role, event.delegator)
        span.delegation_id = event.request.task_id
        span.attributes = {"delegator": event.delegator, "depth": event.depth}
        _set_request(span, event.request)
        manager = self.tree.spans.get(span.task_id or "")
        if manager is not None and manager.managed:
            manager.handed_on = (*manager.handed_on, span)
            self.tree.touch(manager)
        if span.parent is not None:
            for totals in self.tree.touch_totals_around(span.parent):
                totals.delegation_count += 1

    @on_open(ev.DelegationCompleted)
    def _on_delegation_completed(self, event: ev.DelegationCompleted, span: Span) -> None:
        self.tree.end(event, span, SpanStatus.OK)
        _set_response(span, event.request, event.response)

    @on_open(ev.DelegationFailed)
    def _on_delegation_failed(self, event: ev.DelegationFailed, span: Span) -> None:
        refusal = clean_text("; ".join(event.response.errors)) or None
        facts = summarize_error(event.error)
        if facts is None and span.failed_child is None:
            facts, span.reason = ErrorSummary("DelegationRefused", refusal), refusal
        self.tree.end(event, span, event.status, facts)
        _set_response(span, event.request, event.response)
        if (manager := self.tree.spans.get(span.task_id or "")) is not None and manager.managed:
            self.tree.touch(manager)

    @on(ev.ReviewRequested)
    def _on_review_requested(self, event: ev.ReviewRequested) -> None:
        request = event.request
        span = self._begin(event, SpanKind.REVIEW, request.subject, request.agent)
        span.input = clean_text(request.text)
        timeout = request.timeout
        span.attributes = {
            "subject": request.subject,
            "tool": request.tool,
            "text": span.input,
            "verdicts": [each.value for each in request.verdicts],
            "deadline_ms": None if timeout is None else to_ms(event.offset_s + timeout),
            "on_timeout": request.on_timeout.value,
            "row": request.row,
        }
        if request.call_id is not None:
            span.attributes |= {
                "call_id": request.call_id,
                "is_unknown": request.is_unknown,
                "otherwise": "the call is not made, and waits for an answer",
            }

    @on_open(ev.ReviewAnswered)
    def _on_review_answered(self, event: ev.ReviewAnswered, span: Span) -> None:
        self.tree.end(event, span, event.status, summarize_error(event.error))
        if (decision := event.decision) is not None:
            span.review_decision, span.output = decision.verdict.value, clean_text(decision.text) or None
        _add_attributes(span, decision=span.review_decision, is_timeout=event.is_timeout, by=event.by)
        span.reused = event.reused
        # The others look at what is going to be done.
        if span.parent is not None and span.name in ("phase", "output"):
            span.parent.answer = span.review_decision
            self.tree.touch(span.parent)
        span.human_wait_ms = span.self_ms
        for totals in self.tree.touch_totals_around(span):
            totals.human_wait_ms += span.human_wait_ms or 0.0

    @on_open(ev.GuardrailEnded)
    def _on_guardrail_ended(self, event: ev.GuardrailEnded, span: Span) -> None:
        span.output = clean_text(event.message) or None
        origin = None if event.error is None else find_origin(event.error)
        self.tree.end(event, span, event.status, ErrorSummary("GuardrailViolationError", span.output, origin))
        _add_attributes(span, message=span.output)

    @on(ev.MemoryStarted)
    def _on_memory_started(self, event: ev.MemoryStarted) -> None:
        span = self._begin_operation(event)
        span.name = clean_text(event.scope)
        for totals in self.tree.touch_totals_around(span):
            totals.memory_retrieve_count += event.operation == "retrieve"
            totals.memory_store_count += event.operation == "store"

    @on_open(ev.MemoryEnded)
    def _on_memory_ended(self, event: ev.MemoryEnded, span: Span) -> None:
        self.end_operation(event)
        for totals in self.tree.touch_totals_around(span):
            totals.memory_ms += span.duration_ms or 0.0

    @on(ev.WaitStarted)
    def _on_wait_started(self, event: ev.WaitStarted) -> None:
        span = self._begin(event, SpanKind.WAIT, clean_text(event.subject) or event.cause)
        span.wait_kind = event.cause
        if span.parent is not None and _holds_up(span):
            self.tree.set_status(span.parent, SpanStatus.WAITING)

    @on_open(ev.WaitEnded, ev.RateLimitWaited)
    def end_wait(self, event: ev.WaitEnded, span: Span) -> None:
        """A wait is over, and what it held up goes on."""
        self.tree.end(event, span, event.status, summarize_error(event.error))
        if not _holds_up(span):
            return
        if span.parent is not None and span.parent.end_seq is None:
            self.tree.set_status(span.parent, SpanStatus.RUNNING)
        for totals in self.tree.touch_totals_around(span):
            totals.wait_ms += span.duration_ms or 0.0


def _read_own_fields(event: ev.Event) -> dict[str, Any]:
    """What an event has beside what all events have, as plain values, secrets masked."""
    names = [field.name for field in dataclasses.fields(event) if field.name not in _COMMON_FIELDS]
    return {name: to_plain(getattr(event, name)) for name in names}


def _holds_up(span: Span) -> bool:
    """Whether a wait holds up the call around it; a startup is the run's, in which others may be at work."""
    return span.parent is not None and span.parent.kind is not SpanKind.RUN


def _set_request(span: Span, request: DelegationRequest) -> None:
    """What the worker is asked; policies may still change it."""
    span.name = span.delegate_to = request.agent_role
    span.input = clean_text(request.task_description)
    schema = request.expected_output_schema
    _add_attributes(
        span,
        priority=request.priority.value,
        scope=to_plain(request.scope),
        expected_output_schema=None if schema is None else clean_text(schema),
        max_output_retries=request.max_output_retries,
        metadata=to_plain(request.metadata),
    )


def _set_response(span: Span, request: DelegationRequest, response: DelegationResponse) -> None:
    _set_request(span, request)
    span.output = None if response.raw_output is None else clean_text(response.raw_output)
    _add_attributes(span, status=response.status.value, errors=[clean_text(each) for each in response.errors])


def _add_attributes(span: Span, **facts: Any) -> None:
    span.attributes = {**(span.attributes or {}), **facts}
