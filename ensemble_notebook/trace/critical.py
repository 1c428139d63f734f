"""The settle pass: which spans made the run as long as it was, and how much later the others could have ended.

Runs once, after the run has ended, backwards over what waited for what: tasks and phases over their links (T20),
everything inside a task over time alone, since turns, calls and attempts follow each other by construction.

Times are measured, so a node is taken to begin when the last thing it waited for ended; the gap up to its start (a
queue, the engine) counts as its own. So the last predecessor of a critical span is critical, with a slack of exactly 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ensemble_notebook.trace.span import Span, SpanKind

_LINKED: Final = (SpanKind.RUN, SpanKind.PHASE, SpanKind.TASK)


def settle(spans: Mapping[str, Span]) -> list[Span]:
    """Set ``critical`` and ``slack_ms`` on every span that is over; gives those spans.

    ``slack_ms`` is how much later a span could have ended without the run ending later, all else as it was; None for
    what never ran. Critical tasks never overlap, and neither do critical spans inside one task, so that their durations
    add up to no more than the run (T25); a phase is critical with any of its tasks.
    """
    over = [span for span in spans.values() if span.end_seq is not None]
    for span in over:
        span.critical = False
    run = next((span for span in over if span.kind is SpanKind.RUN), None)
    if run is None:
        return over
    run.critical, run.slack_ms = True, 0.0
    _settle_linked(run, [span for span in over if span.kind in _LINKED and span is not run])
    inside: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in over:
        if span.kind not in _LINKED:
            inside[span.parent_id].append(span)
    for parent in over:
        if parent.span_id in inside:
            _settle_inside(parent, inside[parent.span_id])
    return over


# --- Tasks and phases: over links -------------------------------------------------------------------------------------


class _Moment:
    """The end of a task, the opening or the closing of a phase, the end of the run; skipping takes no time.

    Args:
        span: the task, phase or run.
        seq: number of the event with which it begins to happen.
        end_seq: number of the event with which it has happened, at `end_ms`.
    """

    __slots__ = ("before", "end_ms", "end_seq", "seq", "slack_ms", "span")

    def __init__(self, span: Span, seq: int, end_seq: int, end_ms: float | None) -> None:
        self.span = span
        self.seq = seq
        self.end_seq = end_seq
        self.end_ms = end_ms or 0.0
        self.slack_ms = math.inf
        self.before: list[_Moment] = []

    def wait_for(self, others: Iterable[_Moment | None]) -> None:
        """Add predecessors; what was not over when this began can't have held it up."""
        self.before += [each for each in others if each is not None and each.end_seq < self.seq]

    def push_slack(self) -> None:
        """Tell the predecessors how late they could have ended."""
        released_ms = max((each.end_ms for each in self.before), default=0.0)
        for each in self.before:
            each.slack_ms = min(each.slack_ms, self.slack_ms + released_ms - each.end_ms)


def _settle_linked(run: Span, nodes: Sequence[Span]) -> None:
    tasks = {span.name: _of_node(span) for span in nodes if span.kind is SpanKind.TASK}
    closing = {span.name: _of_node(span) for span in nodes if span.kind is SpanKind.PHASE}
    opening = {name: _opening(moment) for name, moment in closing.items()}
    run_end = run.end_seq or 0
    last = _Moment(run, run_end + 1, run_end + 1, run.end_ms)
    _link(tasks, opening, closing, last)
    last.slack_ms = 0.0
    moments = [*tasks.values(), *opening.values(), *closing.values(), last]
    for moment in sorted(moments, key=lambda each: each.end_seq, reverse=True):
        moment.push_slack()
    for moment in (*tasks.values(), *closing.values()):
        if moment.span.start_ms is not None and moment.slack_ms < math.inf:
            moment.span.slack_ms = round(moment.slack_ms, 6)
    _mark_chain(last, closing)


def _of_node(span: Span) -> _Moment:
    """The end of a task (which begins when the task does), or the closing of a phase (which takes no time)."""
    end_seq = span.seq if span.end_seq is None else span.end_seq
    return _Moment(span, span.seq if span.kind is SpanKind.TASK else end_seq, end_seq, span.resolved_ms)


def _opening(closing: _Moment) -> _Moment:
    span = closing.span
    return closing if span.start_ms is None else _Moment(span, span.seq, span.seq, span.start_ms)


def _link(
    tasks: Mapping[str, _Moment], opening: Mapping[str, _Moment], closing: Mapping[str, _Moment], last: _Moment
) -> None:
    """Link what waited for what: the links of the plan, the gates of the phases, and the places that became free."""
    ran = sorted((each for each in tasks.values() if each.span.start_ms is not None), key=lambda each: each.end_seq)
    end_seqs = [each.end_seq for each in ran]
    for name, moment in opening.items():
        moment.wait_for(map(closing.get, moment.span.depends_on))
        closing[name].wait_for([moment])
    for moment in tasks.values():
        moment.wait_for(map(tasks.get, moment.span.depends_on))
        moment.wait_for([opening.get(moment.span.phase or "")])
        place = bisect_left(end_seqs, moment.seq)
        if place and _made_room(ran[place - 1], moment.span):
            moment.wait_for([ran[place - 1]])
    for moment in ran:
        gate = closing.get(moment.span.phase or "", last)
        gate.wait_for([moment])
    last.wait_for(moment for moment in closing.values() if moment.span.start_ms is not None)


def _made_room(latest: _Moment, queued: Span) -> bool:
    """True when the latest task to end before a queued one started did so during its wait for a free place."""
    return bool(queued.queue_ms) and latest.end_ms >= (queued.start_ms or 0.0) - (queued.queue_ms or 0.0)


def _mark_chain(last: _Moment, closing: Mapping[str, _Moment]) -> None:
    moment = last
    while moment.before:
        moment = max(moment.before, key=lambda each: each.end_seq)
        if moment.span.kind is SpanKind.TASK and moment.span.start_ms is not None:
            moment.span.critical = True
            if (phase := closing.get(moment.span.phase or "")) is not None:
                phase.span.critical = True


# --- Inside a task: over time -----------------------------------------------------------------------------------------


def _settle_inside(parent: Span, children: Sequence[Span]) -> None:
    """Children of one span: each is held up by those that were over when it started."""
    if parent.slack_ms is None:
        return
    children = sorted(children, key=lambda each: each.seq)
    seqs = [each.seq for each in children]
    by_end = sorted(children, key=lambda each: each.end_seq or 0)
    end_seqs = [each.end_seq or 0 for each in by_end]
    last_ms = max(each.end_ms or 0.0 for each in children)
    # latest_ms[i]: how late everything that was over when the i-th or a later child started could have ended
    latest_ms = [last_ms + parent.slack_ms] * (len(children) + 1)
    for index in range(len(children) - 1, -1, -1):
        child = children[index]
        child.slack_ms = round(latest_ms[bisect_right(seqs, child.end_seq or 0)] - (child.end_ms or 0.0), 6)
        held_up = bisect_left(end_seqs, child.seq)
        released_ms = by_end[held_up - 1].end_ms or 0.0 if held_up else math.inf
        latest_ms[index] = min(latest_ms[index + 1], child.slack_ms + released_ms)
    if parent.critical:
        place = len(by_end)
        while place:
            child = by_end[place - 1]
            child.critical = True
            place = bisect_left(end_seqs, child.seq)
