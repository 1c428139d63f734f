"""Which spans made the run as long as it was, and how much later the others could have ended.

Runs once, after the run has ended, backwards over what waited for what: planned tasks, phases and the reviews of phases
over their links (T20), everything inside a task over time alone, since turns, calls and attempts follow each other by
construction. A task whose phase was sent back has several active intervals, each with links of its own (E28).

Times are measured, so a node is taken to begin when the last thing it waited for ended; the gap up to its start (a
queue, the engine) counts as its own. So the last predecessor of a critical span is critical, with a slack of exactly 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ensemble_notebook.trace.folding.milestones import Milestone, Milestones, is_linked, is_startup
from ensemble_notebook.trace.spans.span import ActiveInterval, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind


def mark_critical_spans(spans: Mapping[str, Span]) -> tuple[list[Span], list[ActiveInterval]]:
    """Set ``critical`` and ``slack_ms`` on every span that is over; gives those spans, and the longest chain.

    ``slack_ms`` is how much later a span could have ended without the run ending later, all else as it was; None for
    what never ran. The chain is made of tasks and of reviews of phases, in order of time; they never overlap, and
    neither do critical spans inside one task, so that their durations add up to no more than the run (T25). A phase is
    critical with any of its tasks.
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


# --- Tasks and phases: over links -------------------------------------------------------------------------------------


def _mark_linked(run: Span, nodes: Sequence[Span]) -> list[ActiveInterval]:
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
    return _mark_chain(milestones.last, milestones.closing)


def _mark_chain(last: Milestone, closing: Mapping[str, Milestone]) -> list[ActiveInterval]:
    chain, milestone = [], last
    while milestone.before:
        milestone = max(milestone.before, key=lambda each: each.end_seq)
        if milestone.interval is not None:
            chain.append(milestone.interval)
            milestone.span.critical = True
            if (phase := closing.get(milestone.span.phase or "")) is not None:
                phase.span.critical = True
    return chain[::-1]


# --- Inside a task: over time -----------------------------------------------------------------------------------------


def _mark_inside(parent: Span, children: Sequence[Span]) -> None:
    """Mark the children of one span. Each is held up by those that were over when it started."""
    if parent.slack_ms is None:
        return
    if len(children) == 1:  # as in most of a run: a turn, its call, its attempt
        (child,) = children
        end_ms = child.end_ms or 0.0
        child.critical, child.slack_ms = parent.critical, round(end_ms + parent.slack_ms - end_ms, 6)
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
