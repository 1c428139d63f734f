"""The spans of a run while they come and go: who is inside whom, what is open, what changed, what failed where.

Knows intervals and errors; what a model or a tool call is, is the business of those who write to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED
from ensemble_notebook.errors import find_http_status, find_origin
from ensemble_notebook.trace.spans.clean_text import clean_text, shorten
from ensemble_notebook.trace.spans.span import InactiveInterval, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.usage_totals import UsageTotals


class ErrorSummary(NamedTuple):
    """Class and message of an error, where in the user's own code it came from, and what a server said.

    What is not known is None.
    """

    type: str
    message: str | None
    origin: str | None = None
    http_status: int | None = None


_LONGEST_MESSAGE: Final = 4_000
_UNEXPLAINED: Final = ErrorSummary("Unknown", None)


def summarize_error(error: BaseException | None) -> ErrorSummary | None:
    """The class and the message of an error, masked and not too long; the message is None where there is none."""
    if error is None:
        return None
    origin = find_origin(error)
    return ErrorSummary(
        type(error).__name__,
        shorten(format_error_message(error), _LONGEST_MESSAGE) or None,
        None if origin is None else clean_text(origin),
        find_http_status(error),
    )


def format_error_message(error: BaseException) -> str:
    """The message of an error, masked. Foreign texts may be broken."""
    try:
        return clean_text(str(error).strip())
    except Exception:  # noqa: BLE001 - whatever a foreign __str__ raises
        return "(its message can't be shown)"


def to_ms(seconds: float) -> float:
    """The same in milliseconds, rounded to the nanosecond, so that there are no digits that nobody measured."""
    return round(seconds * 1000, 6)


class SpanTree:
    """All spans of one run.

    Attributes:
        version: the number of the event being folded, from 1; what it changes gets this version.
        spans: by id, in order of first appearance.
        open: those that are running, by id, in order of start.
        task_counts: how many tasks of the plan are in each status.
        settled_count: how many of those that were skipped are rows of a map that were not needed (V60).
    """

    def __init__(self, currency: str) -> None:
        self.version: int = 0
        self.currency = currency
        self.spans: dict[str, Span] = {}
        self.open: dict[str, Span] = {}
        self.task_counts: dict[SpanStatus, int] = dict.fromkeys(SpanStatus, 0)
        self.settled_count: int = 0
        self._touched: list[Span] = []
        self._marks: list[int] = [0]
        self._unexplained: dict[str, Span] = {}

    def enter(self, event: Event, kind: SpanKind, name: str, span_id: str, parent_id: str | None, **facts: Any) -> Span:
        """A new span that has not started."""
        parent = self.spans.get(parent_id or "")
        span = Span(
            span_id=span_id,
            run_id=event.run_id,
            parent_id=parent_id,
            kind=kind,
            name=name,
            position=len(self.spans),
            seq=event.seq,
            **facts,
        )
        if parent is not None:
            span.parent = span.parent or parent
            span.depth = parent.depth + 1
            span.task_id, span.task = parent.task_id, parent.task
            span.phase = span.phase or parent.phase
            span.agent = span.agent or parent.agent
            span.delegation_id = parent.delegation_id
            span.nested_in = parent.span_id if parent.kind is SpanKind.NESTED else parent.nested_in
            if kind is not SpanKind.TASK and parent.kind is not SpanKind.TASK:
                span.iteration, span.is_fallback = parent.iteration, parent.is_fallback
        if kind is SpanKind.TASK:
            span.task_id, span.task = span_id, name
        if span.is_planned:
            self.task_counts[SpanStatus.PENDING] += 1
        span.usage_leaf = kind.traits.is_leaf
        if kind.traits.has_totals:
            span.totals = UsageTotals()
        if kind is SpanKind.PHASE:
            span.attempt_totals = UsageTotals()
        elif kind is SpanKind.DELEGATION:
            span.own_totals = UsageTotals()
        if kind.traits.has_totals or kind.traits.is_leaf:
            span.currency = self.currency
        self.spans[span_id] = span
        self.touch(span)
        return span

    def find_or_enter(self, event: Event, kind: SpanKind, name: str, **facts: Any) -> Span:
        """The span of an event that starts or skips one: the ghost of what was planned, else a new one."""
        span = self.spans.get(event.span_id)
        if span is None:
            span = self.enter(event, kind, name, event.span_id, event.parent_id, phase=event.phase, **facts)
        if span.start_ms is None:
            span.seq = event.seq
        span.depends_on = event.depends_on or span.depends_on
        return span

    def begin(self, event: Event, kind: SpanKind, name: str, agent: str | None = None, **facts: Any) -> Span:
        """A span starts, or goes on: a task whose phase was sent back starts again in the same span."""
        span = self.find_or_enter(event, kind, name, **facts)
        span.agent = agent or span.agent
        now_ms = to_ms(event.offset_s)
        if span.start_ms is None:
            span.start_ms, span.start_time = now_ms, event.time
        if span.end_seq is not None:
            _reopen(span, event.seq, now_ms)
        self.open[span.span_id] = span
        self.set_status(span, SpanStatus.WAITING if span.kind.traits.is_wait else SpanStatus.RUNNING)
        if (parent := span.parent) is not None:
            # Children side by side cover their parent once, so only the first to begin and the last to end count.
            if parent.open_children == 0:
                parent.covered_from_ms = now_ms
            parent.open_children += 1
        return span

    def end(self, event: Event, span: Span, status: SpanStatus, error: ErrorSummary | None = None) -> None:
        """A span ends, for whatever reason; one that has ended already stays as it is."""
        if self.open.pop(span.span_id, None) is None:
            return
        span.end_ms = span.resolved_ms = to_ms(event.offset_s)
        span.end_time, span.end_seq = event.time, event.seq
        self.set_status(span, status)
        if (parent := span.parent) is not None:
            parent.open_children -= 1
            if parent.open_children == 0:
                parent.covered_ms += span.end_ms - parent.covered_from_ms
            if span.item_of is not None and span.kind is SpanKind.TASK:
                parent.items_done += status is SpanStatus.OK
                parent.items_failed += status is not SpanStatus.OK
        if status is SpanStatus.ERROR:
            self._fail(span, error)

    def skip(self, event: Event, span: Span, reason: str) -> None:
        """A span will not start, or not go on; what it has done stays."""
        span.reason = clean_text(reason)
        self.settled_count += reason == NOT_NEEDED
        if span.span_id in self.open:
            self.end(event, span, SpanStatus.SKIPPED)
            return
        if span.start_ms is None:
            span.end_seq, span.resolved_ms = event.seq, to_ms(event.offset_s)
        self.set_status(span, SpanStatus.SKIPPED)

    def set_status(self, span: Span, status: SpanStatus) -> None:
        """Change the status, and what depends on it."""
        if span.is_planned:
            self.task_counts[span.status] -= 1
            self.task_counts[status] += 1
        span.status = status
        self.touch(span)

    def next_version(self) -> None:
        """Another event follows."""
        self.version += 1
        self._marks.append(len(self._touched))

    def touch(self, span: Span) -> None:
        """Note that a span has changed."""
        if span.version != self.version:
            span.version = self.version
            self._touched.append(span)

    def list_changed_since(self, version: int) -> Iterable[Span]:
        """The spans that changed after `version`, once each; costs in proportion to the changes since."""
        first = self._marks[version + 1] if version < self.version else len(self._touched)
        return {span.span_id: span for span in self._touched[first:]}.values()

    def touch_totals_around(self, span: Span, *, is_wait: bool = False) -> Iterator[UsageTotals]:
        """The totals that a span counts in, its own and those of the spans around it, marked as changed.

        Those of a wait for a tool reach up to the tool around it, whose wait it is a part of.
        """
        around: Span | None = span
        is_handed_on = False
        while around is not None and not (is_wait and around is not span and around.kind is SpanKind.TOOL):
            self.touch(around)
            if around.totals is not None:
                yield around.totals
            if around.attempt_totals is not None:
                yield around.attempt_totals
            # What a delegation delegates further is not its own; how long that made it wait is.
            if around.own_totals is not None and (is_wait or not is_handed_on):
                is_handed_on = True
                yield around.own_totals
            around = around.parent

    def _fail(self, span: Span, error: ErrorSummary | None) -> None:
        """Say what failed; an error that came from a child is not counted again."""
        cause = span.failed_child
        facts = error or (_UNEXPLAINED if cause is None else cause[1])
        _set_facts(span, facts)
        child = self._unexplained.pop(span.span_id, None)
        if child is not None:
            _set_facts(child, facts)
            self.touch(child)
        span.is_origin = cause is None
        parent = span.parent
        if parent is not None and not span.kind.traits.is_failure_contained:
            # What tells no error of its own gets that of its parent, which follows.
            if facts == _UNEXPLAINED:
                self._unexplained[parent.span_id] = span
            # The first failure is the cause, but of a call's attempts the last one, for which it was given up.
            if parent.failed_child is None or span.kind is SpanKind.ATTEMPT:
                parent.failed_child = (span.span_id, facts)
        if span.is_counted_failure:
            for totals in self.touch_totals_around(span):
                totals.error_count += 1


def _set_facts(span: Span, facts: ErrorSummary) -> None:
    span.error_type, span.error_message, span.origin, span.http_status = facts


def _reopen(span: Span, seq: int, now_ms: float) -> None:
    """What was over goes on; the time between is nobody's work."""
    if span.end_ms is not None and span.end_seq is not None:
        span.inactive_intervals += (
            InactiveInterval(end_seq=span.end_seq, end_ms=span.end_ms, seq=seq, start_ms=now_ms),
        )
        span.covered_ms += now_ms - span.end_ms
    span.end_seq = span.end_ms = span.end_time = span.resolved_ms = span.worked_ms = None
    span.error_type = span.error_message = span.origin = span.http_status = span.failed_child = span.reason = None
    span.is_origin = False
