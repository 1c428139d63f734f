"""What waited for what in a run that is over: tasks, reviews of phases and the gates of phases, as measured.

The ends of a run's work are its milestones. Whoever goes over them finds what made the run as long as it was, or how
long it would have been otherwise.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

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
    """True for a wait beside all work: which tasks waited for it, and how long, is not known."""
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
        self.closing: dict[str, Milestone] = {}
        self.opening: dict[str, Milestone] = {}
        for span in nodes:
            if span.kind is SpanKind.PHASE:
                seq = span.seq if span.end_seq is None else span.end_seq
                closing = self.closing[span.name] = Milestone(span, seq, seq, span.resolved_ms)
                is_begun = span.start_ms is not None
                self.opening[span.name] = Milestone(span, span.seq, span.seq, span.start_ms) if is_begun else closing
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
                place, queue_ms = bisect_left(end_seqs, milestone.seq), milestone.span.queue_ms or 0.0
                start_ms = milestone.interval.start_ms if milestone.interval else 0.0
                # The latest work to end before it started did so during its wait for a free place.
                if place and queue_ms and ran[place - 1].end_ms >= start_ms - queue_ms:
                    milestone.wait_for([ran[place - 1]])

    def _list_ran(self) -> list[Milestone]:
        """What took time, in order of its end."""
        return sorted((each for each in self.work if each.span.start_ms is not None), key=lambda each: each.end_seq)


def _make_ends(span: Span) -> list[Milestone]:
    """The end of each interval; of what never began, the moment in which that was settled."""
    if span.start_ms is None:
        return [Milestone(span, span.seq, span.seq if span.end_seq is None else span.end_seq, span.resolved_ms)]
    return [Milestone(span, each.seq, each.end_seq or each.seq, each.end_ms, each) for each in span.active_intervals]


def mark_critical_spans(spans: Mapping[str, Span]) -> tuple[list[Span], list[ActiveInterval]]:
    """Set ``critical`` and ``slack_ms`` on every span that is over; gives those spans, and the longest chain.

    ``slack_ms`` is how much later a span could have ended without the run ending later, all else as it was; None for
    what never ran. The chain is made of tasks and of reviews of phases, in order of time; they never overlap, and
    neither do critical spans inside one task, so that their durations add up to no more than the run. A phase is
    critical with any of its tasks.

    Runs once, after the run has ended, backwards over what waited for what: planned tasks, phases and the reviews of
    phases over their links (T20), everything inside a task over time alone, since turns, calls and attempts follow each
    other by construction. A task whose phase was sent back has several active intervals, each with links of its own
    (E28). Times are measured, so a node is taken to begin when the last thing it waited for ended; the gap up to its
    start (a queue, the engine) counts as its own. So the last predecessor of a critical span is critical, with a slack
    of exactly 0.
    """
    over = [span for span in spans.values() if span.end_seq is not None]
    linked: list[Span] = []
    inside: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in over:
        span.critical = False
        if is_linked(span):
            linked.append(span)
        elif not is_startup(span):
            inside[span.enclosing_id].append(span)
    run = next((span for span in linked if span.kind is SpanKind.RUN), None)
    if run is None:
        return over, []
    run.critical, run.slack_ms = True, 0.0
    chain = _mark_linked(run, [span for span in linked if span is not run])
    for parent in over:
        if parent.span_id in inside:
            _mark_inside(parent, inside[parent.span_id])
    return over, chain


def _mark_linked(run: Span, nodes: Sequence[Span]) -> list[ActiveInterval]:
    """Mark tasks, phases and reviews, over their links; gives the longest chain."""
    milestones = Milestones(run, nodes)
    milestones.link()
    milestones.link_places()
    milestones.last.slack_ms = 0.0
    for milestone in milestones.list_latest_first():
        milestone.push_slack()
    for milestone in (*milestones.work, *milestones.closing.values()):
        span = milestone.span
        if span.start_ms is not None and milestone.slack_ms < math.inf:
            slack_ms = round(milestone.slack_ms, 6)
            span.slack_ms = slack_ms if span.slack_ms is None else min(span.slack_ms, slack_ms)
    chain, milestone = [], milestones.last
    while milestone.before:
        milestone = max(milestone.before, key=lambda each: each.end_seq)
        if milestone.interval is not None:
            chain.append(milestone.interval)
            milestone.span.critical = True
            if (phase := milestones.closing.get(milestone.span.phase or "")) is not None:
                phase.span.critical = True
    return chain[::-1]


def _mark_inside(parent: Span, children: Sequence[Span]) -> None:
    """Mark the children of one span. Each is held up by those that were over when it started."""
    if parent.slack_ms is None:
        return
    if len(children) == 1:  # as in most of a run: a turn, its call, its attempt
        (child,) = children
        end_ms = child.end_ms or 0.0
        child.critical, child.slack_ms = parent.critical, round(end_ms + parent.slack_ms - end_ms, 6)
        return
    children = sorted(children, key=_find_start)
    starts = [_find_start(each) for each in children]
    by_end = sorted(children, key=_find_end)
    ends = [_find_end(each) for each in by_end]
    last_ms = max(each.end_ms or 0.0 for each in children)
    # latest_ms[i]: how late everything that was over when the i-th or a later child started could have ended
    latest_ms = [last_ms + parent.slack_ms] * (len(children) + 1)
    for index in range(len(children) - 1, -1, -1):
        child = children[index]
        child.slack_ms = round(latest_ms[bisect_right(starts, _find_end(child))] - (child.end_ms or 0.0), 6)
        held_up = bisect_left(ends, _find_start(child))
        released_ms = by_end[held_up - 1].end_ms or 0.0 if held_up else math.inf
        latest_ms[index] = min(latest_ms[index + 1], child.slack_ms + released_ms)
    if parent.critical:
        place = len(by_end)
        while place:
            child = by_end[place - 1]
            child.critical = True
            place = bisect_left(ends, _find_start(child))


def _find_start(span: Span) -> tuple[float, int]:
    """When it began. By time before number: of other frameworks some spans are told of when they are over."""
    return (span.resolved_ms or 0.0) if span.start_ms is None else span.start_ms, span.seq


def _find_end(span: Span) -> tuple[float, int]:
    # Never before it began, whatever an edited file says: who held up whom would go round in a ring.
    return max(_find_start(span), (span.end_ms or 0.0, span.end_seq or 0))
