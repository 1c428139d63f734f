"""What waited for what in a run that is over: tasks, reviews of phases and the gates of phases, as measured.

The ends of a run's work are its milestones. Whoever goes over them finds what made the run as long as it was, or how
long it would have been otherwise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ensemble_notebook.trace.spans.span import ActiveInterval, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind


def is_linked(span: Span) -> bool:
    """True for what waits for other work by its links: the run, its phases and their reviews, the tasks of the plan.

    Whatever else there is follows each other inside these.
    """
    if span.nested_in is not None:
        return False
    if span.kind is SpanKind.REVIEW:
        return span.parent is not None and span.parent.kind is SpanKind.PHASE
    return span.is_planned or span.kind in (SpanKind.RUN, SpanKind.PHASE)


def is_startup(span: Span) -> bool:
    """True for a wait beside all work: which tasks waited for it, and how long, is not known (E57)."""
    return span.kind is SpanKind.WAIT and span.parent is not None and span.parent.kind is SpanKind.RUN


class Milestone:
    """The end of an interval of work, the opening or the closing of a phase, the end of the run; a skip takes no time.

    Args:
        span: the task, review, phase or run.
        interval: of the task or review; None where it happens at once.
        seq: number of the event with which it begins to happen.
        end_seq: number of the event with which it has happened, at `end_ms`.
    """

    __slots__ = ("before", "end_ms", "end_seq", "interval", "seq", "slack_ms", "span")

    def __init__(
        self, span: Span, seq: int, end_seq: int, end_ms: float | None, interval: ActiveInterval | None = None
    ) -> None:
        self.span = span
        self.interval = interval
        self.seq = seq
        self.end_seq = end_seq
        self.end_ms = end_ms or 0.0
        self.slack_ms = math.inf
        self.before: list[Milestone] = []

    def wait_for(self, others: Iterable[Milestone]) -> None:
        """Add predecessors; what was not over when this began can't have held it up."""
        self.before += [each for each in others if each.end_seq < self.seq]

    def push_slack(self) -> None:
        """Tell the predecessors how late they could have ended."""
        released_ms = max((each.end_ms for each in self.before), default=0.0)
        for each in self.before:
            each.slack_ms = min(each.slack_ms, self.slack_ms + released_ms - each.end_ms)


class Milestones:
    """The milestones of a run, by what they belong to."""

    def __init__(self, run: Span, nodes: Sequence[Span]) -> None:
        run_end = run.end_seq or 0
        self.last = Milestone(run, run_end + 1, run_end + 1, run.end_ms)
        self.tasks = {span.name: _make_ends(span) for span in nodes if span.kind is SpanKind.TASK}
        self.closing = {span.name: _make_closing(span) for span in nodes if span.kind is SpanKind.PHASE}
        self.opening = {name: _make_opening(milestone) for name, milestone in self.closing.items()}
        self.reviews: defaultdict[str | None, list[Milestone]] = defaultdict(list)
        for span in nodes:
            if span.kind is SpanKind.REVIEW:
                self.reviews[span.phase] += _make_ends(span)

    @property
    def work(self) -> list[Milestone]:
        """What took time: active intervals of tasks and reviews, those that never began included."""
        return [milestone for each in (*self.tasks.values(), *self.reviews.values()) for milestone in each]

    def list_latest_first(self) -> list[Milestone]:
        """All milestones of the run."""
        milestones = [*self.work, *self.opening.values(), *self.closing.values(), self.last]
        return sorted(milestones, key=lambda each: each.end_seq, reverse=True)

    def link(self) -> None:
        """Link what waited for what: the links of the plan, and the gates of the phases."""
        for name, milestone in self.opening.items():
            milestone.wait_for(self.closing[each] for each in milestone.span.depends_on if each in self.closing)
            self.closing[name].wait_for([milestone])
        for ends in self.tasks.values():
            for milestone in ends:
                for name in milestone.span.depends_on:
                    milestone.wait_for(self.tasks.get(name, ()))
                self._wait_for_phase(milestone)
        in_phase: defaultdict[str | None, list[Milestone]] = defaultdict(list)
        for milestone in self._list_ran():
            in_phase[milestone.span.phase].append(milestone)
            self.closing.get(milestone.span.phase or "", self.last).wait_for([milestone])
        for reviews in self.reviews.values():
            for milestone in reviews:
                milestone.wait_for(in_phase[milestone.span.phase])
                self._wait_for_phase(milestone)
        self.last.wait_for(milestone for milestone in self.closing.values() if milestone.span.start_ms is not None)

    def _wait_for_phase(self, milestone: Milestone) -> None:
        """Work in a phase waits for its opening, and for the review that sent the phase back."""
        phase = milestone.span.phase
        milestone.wait_for([self.opening[phase]] if phase in self.opening else [])
        milestone.wait_for(self.reviews.get(phase, ()))

    def link_places(self) -> None:
        """Link the places that became free, too, to the tasks that waited for one."""
        ran = self._list_ran()
        end_seqs = [each.end_seq for each in ran]
        for ends in self.tasks.values():
            for milestone in ends:
                place = bisect_left(end_seqs, milestone.seq)
                if place and _has_freed_place(ran[place - 1], milestone):
                    milestone.wait_for([ran[place - 1]])

    def _list_ran(self) -> list[Milestone]:
        """What took time, in order of its end."""
        return sorted((each for each in self.work if each.span.start_ms is not None), key=lambda each: each.end_seq)


def _make_ends(span: Span) -> list[Milestone]:
    """The end of each interval; of what never began, the moment in which that was settled."""
    if span.start_ms is None:
        return [Milestone(span, span.seq, span.seq if span.end_seq is None else span.end_seq, span.resolved_ms)]
    return [Milestone(span, each.seq, each.end_seq or each.seq, each.end_ms, each) for each in span.active_intervals]


def _make_closing(span: Span) -> Milestone:
    end_seq = span.seq if span.end_seq is None else span.end_seq
    return Milestone(span, end_seq, end_seq, span.resolved_ms)


def _make_opening(closing: Milestone) -> Milestone:
    span = closing.span
    return closing if span.start_ms is None else Milestone(span, span.seq, span.seq, span.start_ms)


def _has_freed_place(latest: Milestone, queued: Milestone) -> bool:
    """True when the latest work to end before a queued task started did so during its wait for a free place."""
    queue_ms, start_ms = queued.span.queue_ms, queued.interval.start_ms if queued.interval else 0.0
    return bool(queue_ms) and latest.end_ms >= start_ms - (queue_ms or 0.0)
