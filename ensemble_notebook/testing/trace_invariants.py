"""What every trace must hold (T25): for tests of the trace, of the engine that feeds it, and of other engines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span import ActiveInterval, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

TOLERANCE_MS: Final = 1e-3

_STARTS: Final = tuple(event for kind in SpanKind for event in kind.traits.starts)
_ENDS: Final = tuple(event for kind in SpanKind for event in kind.traits.ends if event is not ev.TaskSkipped)


def find_violations(
    trace: ExecutionTrace, spans: Iterable[Span] | None = None, *, is_loaded: bool = False
) -> list[str]:
    """What is wrong with a trace, in words; empty when nothing is. Of a run that goes on, only what holds already.

    Args:
        trace: of one run.
        spans: checked instead of the trace's own, against its events and sums.
        is_loaded: it comes from a file or a store, which keep no pieces of streamed text, but the numbers of the rest.
    """
    by_id = {span.span_id: span for span in (trace.spans if spans is None else spans)}
    return [
        *_check_numbering(trace.events, is_loaded),
        *_check_endings(trace),
        *_check_places(by_id),
        *_check_times(by_id),
        *_check_durations(trace),
        *_check_usage(trace.events, by_id),
        *_check_sums(trace, by_id),
        *_check_reuse(trace, by_id),
        *_check_delegations(trace, by_id),
        *_check_critical(trace, by_id),
    ]


def _check_numbering(events: Sequence[ev.Event], is_loaded: bool) -> Iterator[str]:
    asked = set[str]()
    expected = 0
    for event in events:
        if event.seq != expected and not (is_loaded and asked and event.seq > expected):
            yield f"event {event.seq} stands at place {expected}"
            return
        expected = event.seq + 1
        if isinstance(event, ev.LlmCallStarted):
            asked.add(event.span_id)
        elif isinstance(event, ev.LlmCallCompleted | ev.LlmCallFailed):
            asked.discard(event.span_id)
    # In its span: what another process did may stand behind what came after it.
    begins: dict[str | None, float] = {}
    latest: dict[str, float] = {}
    for event in events:
        least_s = latest.get(event.span_id, begins.get(event.parent_id, 0.0))
        if event.offset_s < least_s or event.run_id != events[0].run_id:
            yield f"event {event.seq} is before its span, or before the last one of it"
        begins.setdefault(event.span_id, event.offset_s)
        latest[event.span_id] = event.offset_s


def _check_endings(trace: ExecutionTrace) -> Iterator[str]:
    """Each span that starts ends once, a task once more for each time its phase is sent back; nothing else ends."""
    started, ended, sent_back = Counter[str](), Counter[str](), Counter[str | None]()
    phase_of = {}
    for event in trace.events:
        if isinstance(event, ev.PhaseRetried):
            sent_back[event.span_id] += 1
        elif isinstance(event, _STARTS):
            started[event.span_id] += 1
            phase_of[event.span_id] = event.parent_id if isinstance(event, ev.TaskStarted) else None
        elif isinstance(event, _ENDS) or (
            isinstance(event, ev.TaskSkipped) and ended[event.span_id] < started[event.span_id]
        ):
            ended[event.span_id] += 1
    is_over = trace.status not in (RunStatus.PENDING, RunStatus.RUNNING)
    cut_off = _find_cut_off(trace)
    for span_id in started.keys() | ended.keys():
        starts, ends = started[span_id], ended[span_id]
        is_open = 0 <= starts - ends <= (0 if is_over and span_id not in cut_off else 1)
        if not is_open or not 1 <= starts <= 1 + sent_back[phase_of.get(span_id)]:
            yield f"span {span_id} starts {starts} times and ends {ends} times"


def _find_cut_off(trace: ExecutionTrace) -> set[str]:
    """What is inside nested runs that nobody waited for any more: it ends with these, without an event."""
    inside = {event.span_id for event in trace.events if isinstance(event, ev.NestedRunEnded) and not event.run_status}
    for event in trace.events:
        if event.parent_id in inside:
            inside.add(event.span_id)
    return inside


def _check_places(spans: Mapping[str, Span]) -> Iterator[str]:
    """Every end of every link exists."""
    names = {(span.kind, span.name) for span in spans.values()}
    for span in spans.values():
        if span.kind is not SpanKind.RUN and span.parent_id not in spans:
            yield f"span {span.span_id} is inside {span.parent_id}, which is not there"
        parent = spans.get(span.parent_id or "")
        if parent is not None and parent.kind not in span.kind.traits.parents:
            yield f"span {span.span_id} is a {span.kind} inside a {parent.kind}"
        for name in span.depends_on:
            if (span.kind, name) not in names:
                yield f"span {span.span_id} waits for {name!r}, which is not there"


def _check_times(spans: Mapping[str, Span]) -> Iterator[str]:
    """Children are inside their parents; what never ran has no times, and what failed an error."""
    for span in spans.values():
        if (span.status is SpanStatus.ERROR) != (span.error_type is not None):
            yield f"span {span.span_id} is {span.status} with an error of type {span.error_type}"
        if span.start_ms is None and span.status in (SpanStatus.PENDING, SpanStatus.SKIPPED):
            if span.end_ms is not None:
                yield f"span {span.span_id} is {span.status} and has times"
            continue
        parent = spans.get(span.parent_id or "")
        if span.start_ms is None or span.status is SpanStatus.PENDING:
            yield f"span {span.span_id} is {span.status} and has no start"
        elif parent is not None and not _is_inside(span, parent):
            yield f"span {span.span_id} is not inside its parent {parent.span_id}"
        if (span.self_ms or 0.0) > (span.duration_ms or 0.0) + TOLERANCE_MS:
            yield f"span {span.span_id} worked longer than it took"
        for before, after in pairwise(span.active_intervals):
            if (before.end_ms or 0.0) > after.start_ms + TOLERANCE_MS:
                yield f"span {span.span_id} goes on before it was over"


def _check_durations(trace: ExecutionTrace) -> Iterator[str]:
    """A task has one duration, which is no longer than the time in which it was not over."""
    said = {event.span_id: event for event in trace.events if isinstance(event, ev.TaskCompleted)}
    for span in trace.spans:
        if span.own_ms is None:
            continue
        around_ms = sum((each.end_ms or 0.0) - each.start_ms for each in span.active_intervals)
        if not 0 <= span.own_ms <= around_ms + TOLERANCE_MS:
            yield f"task {span.span_id} took {span.own_ms} ms in {around_ms} ms"
        completed = said.get(span.span_id)
        if completed is None or completed.duration is None or span.status is not SpanStatus.OK:
            continue
        if completed.output.duration != completed.duration:
            yield f"task {span.span_id} took {completed.duration}, and {completed.output.duration} as its output says"
        if abs(completed.duration.total_seconds() * 1000 - span.own_ms) > TOLERANCE_MS:
            yield f"task {span.span_id} took {completed.duration}, and {span.own_ms} ms as its span says"


def _is_inside(span: Span, parent: Span) -> bool:
    if span.start_ms is None or parent.start_ms is None or span.start_ms < parent.start_ms - TOLERANCE_MS:
        return False
    if parent.end_ms is None:
        return True
    return span.end_ms is not None and span.start_ms <= span.end_ms <= parent.end_ms + TOLERANCE_MS


def _check_usage(events: Iterable[ev.Event], spans: Mapping[str, Span]) -> Iterator[str]:
    """The usage of a reply is that of the attempt that brought it; parts are no larger than what they are part of."""
    leaves = defaultdict(list)
    for span in spans.values():
        if span.usage_leaf:
            leaves[span.parent_id].append(span)
            if (span.cache_read_tokens or 0) > (span.input_tokens or 0):
                yield f"attempt {span.span_id} read more from the cache than it sent"
            if (span.reasoning_tokens or 0) > (span.output_tokens or 0):
                yield f"attempt {span.span_id} reasoned more than it wrote"
    for event in events:
        if isinstance(event, ev.LlmCallCompleted):
            usage = (event.usage.input_tokens, event.usage.output_tokens)
            served = [(leaf.input_tokens, leaf.output_tokens) for leaf in leaves[event.span_id]][-1:]
            if served != ([] if event.reused else [usage]):  # an earlier run paid for what is reused
                yield f"call {event.span_id} used {usage} tokens, its last attempt {served}"
        elif isinstance(event, ev.TaskCompleted) and event.span_id in spans:
            # Executed ones, without those of workers.
            calls = (each for each in spans.values() if each.kind is SpanKind.TOOL and each.task_id == event.span_id)
            told, found = event.output.tool_call_count, sum(each.status is not SpanStatus.SKIPPED for each in calls)
            if not spans[event.span_id].inactive_intervals and told != found:
                yield f"task {event.span_id} tells of {told} tool calls, its trace of {found}"


def _sum_known(leaves: Sequence[Span], counts: Sequence[int | None]) -> int | None:
    """The known part; None where there are leaves and nothing is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known or not leaves else None


def _check_sums(trace: ExecutionTrace, spans: Mapping[str, Span]) -> Iterator[str]:
    """The sums of the run, of each task and of each call are those of the leaves beneath."""
    for owner in spans.values():
        if owner.totals is None:
            continue
        leaves = [span for span in spans.values() if span.usage_leaf and _is_beneath(span, owner, spans)]
        ended = [span for span in leaves if span.end_ms is not None]
        metrics = trace._fold.sum_metrics(owner)
        counted = {
            "input_tokens": _sum_known(leaves, [span.input_tokens for span in ended]),
            "output_tokens": _sum_known(leaves, [span.output_tokens for span in ended]),
            "llm_attempt_count": len(leaves),
            "tokens_complete": all(None not in (span.input_tokens, span.output_tokens) for span in ended),
            "cost_complete": all(span.cost is not None for span in ended),
            "delegation_count": sum(
                span.kind is SpanKind.DELEGATION and span is not owner and _is_beneath(span, owner, spans)
                for span in spans.values()
            ),
        }
        for name, value in counted.items():
            if getattr(metrics, name) != value:
                yield f"{owner.kind} {owner.name!r} has {name} {getattr(metrics, name)}, its leaves {value}"
        if (metrics.cost or 0) != sum((span.cost or Decimal(0) for span in ended), Decimal(0)):
            yield f"{owner.kind} {owner.name!r} costs {metrics.cost}, its leaves something else"


def _check_reuse(trace: ExecutionTrace, spans: Mapping[str, Span]) -> Iterator[str]:
    """What was reused was not worked on: nothing is spent beneath it, and what it saved is in no sum."""
    tasks = [span for span in spans.values() if span.kind is SpanKind.TASK]
    for task in tasks:
        if not task.reused and (task.saved_tokens, task.saved_cost, task.saved_ms) != (None, None, None):
            yield f"task {task.span_id} was not reused, and saved something"
        if task.reused and (task.status is not SpanStatus.OK or task.reuse_reason is None):
            yield f"task {task.span_id} was reused, and is {task.status} for the reason {task.reuse_reason}"
        is_first = task.attempt in (None, 1)  # what was asked before it was sent back stays beneath it
        if (
            task.reused
            and is_first
            and any(span.usage_leaf and _is_beneath(span, task, spans) for span in spans.values())
        ):
            yield f"task {task.span_id} was reused, and asked a model"
    reused = [task for task in tasks if task.reused]
    savings = trace._fold.savings
    told = (savings.task_count, savings.tokens or 0)
    if told != (sum(task.is_listed_task for task in reused), sum(task.saved_tokens or 0 for task in reused)):
        yield f"the run has reused {told[0]} tasks and saved {told[1]} tokens, its tasks something else"


def _is_beneath(span: Span, owner: Span, spans: Mapping[str, Span]) -> bool:
    around: Span | None = span
    while around is not None and around is not owner:
        around = spans.get(around.enclosing_id or "")
    return around is owner


def _check_delegations(trace: ExecutionTrace, spans: Mapping[str, Span]) -> Iterator[str]:
    """Each request has one response with the same id, refusals included; work of a worker is inside its delegation."""
    asked = {event.span_id: event.request.task_id for event in trace.events if isinstance(event, ev.DelegationStarted)}
    if len(set(asked.values())) != len(asked):
        yield "two delegations have the same id"
    answers = (event for event in trace.events if isinstance(event, ev.DelegationCompleted | ev.DelegationFailed))
    for event in answers:
        if asked.get(event.span_id) != event.response.task_id:
            yield f"delegation {event.span_id} is answered under the id {event.response.task_id}"
    for span in spans.values():
        around = spans.get(span.parent_id or "")
        if span.kind is not SpanKind.DELEGATION and around is not None and span.delegation_id != around.delegation_id:
            yield f"span {span.span_id} is not of the delegation around it"


def _check_critical(trace: ExecutionTrace, spans: Mapping[str, Span]) -> Iterator[str]:
    """No chain is longer than the run: critical spans of one parent follow each other. They have no slack."""
    inside: defaultdict[str | None, list[ActiveInterval]] = defaultdict(list)
    chain = trace._fold.chain
    in_chain = {stretch.span.span_id for stretch in chain}
    for span in spans.values():
        if span.slack_ms is not None and span.slack_ms < 0:
            yield f"span {span.span_id} has a slack of {span.slack_ms} ms"
        if span.critical and span.kind is not SpanKind.PHASE:
            if span.slack_ms != 0:
                yield f"span {span.span_id} is critical with a slack of {span.slack_ms} ms"
            if span.span_id not in in_chain:
                inside[span.enclosing_id].extend(span.active_intervals)
    for active_intervals in (chain, *inside.values()):
        for before, after in pairwise(sorted(active_intervals, key=lambda each: (each.start_ms, each.seq))):
            if (before.end_ms or 0.0) > after.start_ms + TOLERANCE_MS:
                yield f"critical spans {before.span.span_id} and {after.span.span_id} overlap"
    wall_ms = 0.0 if trace._fold.run is None else trace._fold.run.duration_ms or 0.0
    if sum((each.end_ms or 0.0) - each.start_ms for each in chain) > wall_ms + TOLERANCE_MS:
        yield "the critical path is longer than the run"
