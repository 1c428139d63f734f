"""The part of the fold that is about the other steps of a task: delegations, reviews, guardrails, memory, waits.

What only spans of one kind have is in their `attributes`, which are plain values: of a delegation ``delegator``,
``depth``, ``priority``, ``scope``, ``expected_output_schema``, ``status`` and ``errors``; of a review ``subject``,
``tool``, ``text``, ``verdicts``, ``deadline_ms`` (since the run started), ``on_timeout``, ``decision`` and
``is_timeout``; of a guardrail ``kind`` and ``message``; of a memory operation ``operation``, ``scope`` and ``count``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.span_tree import SpanTree, summarize_error, to_ms


class OperationFold:
    """Folds the events of these five kinds of spans."""

    def __init__(self, tree: SpanTree) -> None:
        self._tree = tree

    def make_handlers(self) -> dict[type[ev.Event], Callable[[Any], None]]:
        """What to call for each type of event."""
        return {
            ev.DelegationStarted: self._delegation_started,
            ev.DelegationCompleted: self._delegation_completed,
            ev.DelegationFailed: self._delegation_failed,
            ev.ReviewRequested: self._review_requested,
            ev.ReviewAnswered: self._review_answered,
            ev.GuardrailStarted: self._guardrail_started,
            ev.GuardrailEnded: self._guardrail_ended,
            ev.MemoryStarted: self._memory_started,
            ev.MemoryEnded: self._memory_ended,
            ev.WaitStarted: self._wait_started,
            ev.WaitEnded: self._wait_ended,
            ev.RateLimitWaited: self._wait_ended,
        }

    # --- Delegations --------------------------------------------------------------------------------------------------

    def _delegation_started(self, event: ev.DelegationStarted) -> None:
        span = self._begin(event, SpanKind.DELEGATION, event.request.agent_role, event.delegator)
        span.delegation_id = event.request.task_id
        span.attributes = {"delegator": event.delegator, "depth": event.depth}
        _set_request(span, event.request)
        if span.parent is not None:
            for totals in self._tree.touch_totals_around(span.parent):
                totals.delegation_count += 1

    def _delegation_completed(self, event: ev.DelegationCompleted) -> None:
        if (span := self._tree.open.get(event.span_id)) is not None:
            self._tree.end(event, span, SpanStatus.OK)
            _set_response(span, event.request, event.response)

    def _delegation_failed(self, event: ev.DelegationFailed) -> None:
        span = self._tree.open.get(event.span_id)
        if span is None:
            return
        refusal = clean_text("; ".join(event.response.errors)) or None
        facts = summarize_error(event.error)
        if facts is None and span.child_error is None:
            facts, span.reason = ("DelegationRefused", refusal), refusal
        self._tree.end(event, span, event.status, facts)
        _set_response(span, event.request, event.response)

    # --- Reviews ------------------------------------------------------------------------------------------------------

    def _review_requested(self, event: ev.ReviewRequested) -> None:
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
        }

    def _review_answered(self, event: ev.ReviewAnswered) -> None:
        span = self._tree.open.get(event.span_id)
        if span is None:
            return
        self._tree.end(event, span, event.status, summarize_error(event.error))
        if (decision := event.decision) is not None:
            span.review_decision, span.output = decision.verdict.value, clean_text(decision.text) or None
        _add_attributes(span, decision=span.review_decision, is_timeout=event.is_timeout)
        span.human_wait_ms = span.self_ms
        for totals in self._tree.touch_totals_around(span):
            totals.human_wait_ms += span.human_wait_ms or 0.0

    # --- Guardrails, memory, waits ------------------------------------------------------------------------------------

    def _guardrail_started(self, event: ev.GuardrailStarted) -> None:
        self._begin(event, SpanKind.GUARDRAIL, event.name).attributes = {"kind": event.kind}

    def _guardrail_ended(self, event: ev.GuardrailEnded) -> None:
        if (span := self._tree.open.get(event.span_id)) is not None:
            span.output = clean_text(event.message) or None
            self._tree.end(event, span, event.status, ("GuardrailViolationError", span.output))
            _add_attributes(span, message=span.output)

    def _memory_started(self, event: ev.MemoryStarted) -> None:
        span = self._begin(event, SpanKind.MEMORY, event.scope)
        span.attributes = {"operation": event.operation, "scope": event.scope}
        for totals in self._tree.touch_totals_around(span):
            totals.memory_retrieve_count += event.operation == "retrieve"
            totals.memory_store_count += event.operation == "store"

    def _memory_ended(self, event: ev.MemoryEnded) -> None:
        span = self._tree.open.get(event.span_id)
        if span is None:
            return
        self._tree.end(event, span, event.status, summarize_error(event.error))
        _add_attributes(span, count=event.count)
        for totals in self._tree.touch_totals_around(span):
            totals.memory_ms += span.duration_ms or 0.0

    def _wait_started(self, event: ev.WaitStarted) -> None:
        span = self._begin(event, SpanKind.WAIT, clean_text(event.subject) or event.cause)
        span.wait_kind = event.cause
        if span.parent is not None and _holds_up(span):
            self._tree.set_status(span.parent, SpanStatus.WAITING)

    def _wait_ended(self, event: ev.WaitEnded) -> None:
        span = self._tree.open.get(event.span_id)
        if span is None:
            return
        self._tree.end(event, span, event.status, summarize_error(event.error))
        if not _holds_up(span):
            return
        if span.parent is not None and span.parent.end_seq is None:
            self._tree.set_status(span.parent, SpanStatus.RUNNING)
        for totals in self._tree.touch_totals_around(span):
            totals.wait_ms += span.duration_ms or 0.0

    def _begin(self, event: ev.Event, kind: SpanKind, name: str, agent: str | None = None) -> Span:
        """A step starts, on the sub-lane of what is around it."""
        span = self._tree.begin(event, kind, name, agent)
        if span.parent is not None:
            span.lane = span.parent.lane
        return span


def _holds_up(span: Span) -> bool:
    """Whether a wait holds up the call around it; a startup is the run's, in which others may be at work (E57)."""
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
    )


def _set_response(span: Span, request: DelegationRequest, response: DelegationResponse) -> None:
    _set_request(span, request)
    span.output = None if response.raw_output is None else clean_text(response.raw_output)
    _add_attributes(span, status=response.status.value, errors=[clean_text(each) for each in response.errors])


def _add_attributes(span: Span, **facts: Any) -> None:
    span.attributes = {**(span.attributes or {}), **facts}
