"""The settle pass: which spans made the run as long as it was, and how much later the others could have ended.

Runs once, after the run has ended, backwards over what waited for what: planned tasks, phases and the reviews of phases
over their links (T20), everything inside a task over time alone, since turns, calls and attempts follow each other by
construction. A task whose phase was sent back has several stretches, each with links of its own (E28).

Times are measured, so a node is taken to begin when the last thing it waited for ended; the gap up to its start (a
queue, the engine) counts as its own. So the last predecessor of a critical span is critical, with a slack of exactly 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ensemble_notebook.trace.spans.span import Span, Stretch
from ensemble_notebook.trace.spans.span_kinds import SpanKind

_LINKED: Final = (SpanKind.RUN, SpanKind.PHASE)


def settle(spans: Mapping[str, Span]) -> tuple[list[Span], list[Stretch]]:
    """Set ``critical`` and ``slack_ms`` on every span that is over; gives those spans, and the longest chain.

    ``slack_ms`` is how much later a span could have ended without the run ending later, all else as it was; None for
    what never ran. The chain is made of tasks and of reviews of phases, in order of time; they never overlap, and
    neither do critical spans inside one task, so that their durations add up to no more than the run (T25). A phase is
    critical with any of its tasks.
    """
    over = [span for span in spans.values() if span.end_seq is not None]
    for span in over:
        span.critical = False
    run = next((span for span in over if span.kind is SpanKind.RUN), None)
    if run is None:
        return over, []
    run.critical, run.slack_ms = True, 0.0
    chain = _settle_linked(run, [span for span in over if span is not run and _is_linked(span)])
    inside: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in over:
        if not _is_linked(span):
            inside[span.around_id].append(span)
    for parent in over:
        if parent.span_id in inside:
            _settle_inside(parent, inside[parent.span_id])
    return over, chain


def _is_linked(span: Span) -> bool:
    if span.kind is SpanKind.REVIEW:
        return span.parent is not None and span.parent.kind is SpanKind.PHASE
    return span.is_planned or span.kind in _LINKED


# --- Tasks and phases: over links -------------------------------------------------------------------------------------


class _Moment:
    """The end of a stretch of work, the opening or the closing of a phase, the end of the run; skipping takes no time.

    Args:
        span: the task, review, phase or run.
        stretch: of the task or review; None where it happens at once.
        seq: number of the event with which it begins to happen.
        end_seq: number of the event with which it has happened, at `end_ms`.
    """

    __slots__ = ("before", "end_ms", "end_seq", "seq", "slack_ms", "span", "stretch")

    def __init__(
        self, span: Span, seq: int, end_seq: int, end_ms: float | None, stretch: Stretch | None = None
    ) -> None:
        self.span = span
        self.stretch = stretch
        self.seq = seq
        self.end_seq = end_seq
        self.end_ms = end_ms or 0.0
        self.slack_ms = math.inf
        self.before: list[_Moment] = []

    def wait_for(self, others: Iterable[_Moment]) -> None:
        """Add predecessors; what was not over when this began can't have held it up."""
        self.before += [each for each in others if each.end_seq < self.seq]

    def push_slack(self) -> None:
        """Tell the predecessors how late they could have ended."""
        released_ms = max((each.end_ms for each in self.before), default=0.0)
        for each in self.before:
            each.slack_ms = min(each.slack_ms, self.slack_ms + released_ms - each.end_ms)


class _Links:
    """The moments of a run, by what they belong to."""

    def __init__(self, run: Span, nodes: Sequence[Span]) -> None:
        run_end = run.end_seq or 0
        self.last = _Moment(run, run_end + 1, run_end + 1, run.end_ms)
        self.tasks = {span.name: _stretches(span) for span in nodes if span.kind is SpanKind.TASK}
        self.closing = {span.name: _closing(span) for span in nodes if span.kind is SpanKind.PHASE}
        self.opening = {name: _opening(moment) for name, moment in self.closing.items()}
        self.reviews: defaultdict[str | None, list[_Moment]] = defaultdict(list)
        for span in nodes:
            if span.kind is SpanKind.REVIEW:
                self.reviews[span.phase] += _stretches(span)

    @property
    def work(self) -> list[_Moment]:
        """What took time: stretches of tasks and reviews, those that never began included."""
        return [moment for each in (*self.tasks.values(), *self.reviews.values()) for moment in each]

    def all(self) -> list[_Moment]:
        """Latest first."""
        moments = [*self.work, *self.opening.values(), *self.closing.values(), self.last]
        return sorted(moments, key=lambda each: each.end_seq, reverse=True)

    def link(self) -> None:
        """Link what waited for what: the links of the plan, the gates of the phases, the places that became free."""
        for name, moment in self.opening.items():
            moment.wait_for(self.closing[each] for each in moment.span.depends_on if each in self.closing)
            self.closing[name].wait_for([moment])
        for stretches in self.tasks.values():
            for moment in stretches:
                for name in moment.span.depends_on:
                    moment.wait_for(self.tasks.get(name, ()))
                self._wait_for_phase(moment)
        ran = sorted((each for each in self.work if each.span.start_ms is not None), key=lambda each: each.end_seq)
        in_phase: defaultdict[str | None, list[_Moment]] = defaultdict(list)
        for moment in ran:
            in_phase[moment.span.phase].append(moment)
            self.closing.get(moment.span.phase or "", self.last).wait_for([moment])
        for reviews in self.reviews.values():
            for moment in reviews:
                moment.wait_for(in_phase[moment.span.phase])
                self._wait_for_phase(moment)
        self._link_places(ran)
        self.last.wait_for(moment for moment in self.closing.values() if moment.span.start_ms is not None)

    def _wait_for_phase(self, moment: _Moment) -> None:
        """Work in a phase waits for its opening, and for the review that sent the phase back."""
        phase = moment.span.phase
        moment.wait_for([self.opening[phase]] if phase in self.opening else [])
        moment.wait_for(self.reviews.get(phase, ()))

    def _link_places(self, ran: Sequence[_Moment]) -> None:
        end_seqs = [each.end_seq for each in ran]
        for stretches in self.tasks.values():
            for moment in stretches:
                place = bisect_left(end_seqs, moment.seq)
                if place and _made_room(ran[place - 1], moment):
                    moment.wait_for([ran[place - 1]])


def _settle_linked(run: Span, nodes: Sequence[Span]) -> list[Stretch]:
    links = _Links(run, nodes)
    links.link()
    links.last.slack_ms = 0.0
    for moment in links.all():
        moment.push_slack()
    for moment in (*links.work, *links.closing.values()):
        span = moment.span
        if span.start_ms is not None and moment.slack_ms < math.inf:
            slack_ms = round(moment.slack_ms, 6)
            span.slack_ms = slack_ms if span.slack_ms is None else min(span.slack_ms, slack_ms)
    return _mark_chain(links.last, links.closing)


def _stretches(span: Span) -> list[_Moment]:
    """The end of each stretch; of what never began, the moment in which that was settled."""
    if span.start_ms is None:
        return [_Moment(span, span.seq, span.seq if span.end_seq is None else span.end_seq, span.resolved_ms)]
    return [_Moment(span, each.seq, each.end_seq or each.seq, each.end_ms, each) for each in span.stretches]


def _closing(span: Span) -> _Moment:
    end_seq = span.seq if span.end_seq is None else span.end_seq
    return _Moment(span, end_seq, end_seq, span.resolved_ms)


def _opening(closing: _Moment) -> _Moment:
    span = closing.span
    return closing if span.start_ms is None else _Moment(span, span.seq, span.seq, span.start_ms)


def _made_room(latest: _Moment, queued: _Moment) -> bool:
    """True when the latest work to end before a queued task started did so during its wait for a free place."""
    queue_ms, start_ms = queued.span.queue_ms, queued.stretch.start_ms if queued.stretch else 0.0
    return bool(queue_ms) and latest.end_ms >= start_ms - (queue_ms or 0.0)


def _mark_chain(last: _Moment, closing: Mapping[str, _Moment]) -> list[Stretch]:
    chain, moment = [], last
    while moment.before:
        moment = max(moment.before, key=lambda each: each.end_seq)
        if moment.stretch is not None:
            chain.append(moment.stretch)
            moment.span.critical = True
            if (phase := closing.get(moment.span.phase or "")) is not None:
                phase.span.critical = True
    return chain[::-1]


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
