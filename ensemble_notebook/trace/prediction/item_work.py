"""The work of tasks that run for each item of a list (E53), as a schedule has to see it: an item at a time.

The items of a task share the places of the run with all other work, so each is work of its own. What is left of the
task itself is what comes before its items and after them, where reviews are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ensemble_notebook.trace.folding.milestones import Milestone
from ensemble_notebook.trace.spans.span import ActiveInterval, Span


def split_at_items(milestones: Sequence[Milestone], spans: Iterable[Span]) -> list[Milestone]:
    """The milestones of a run, and those of its items. The end of a task with items is what comes after them."""
    items: defaultdict[str | None, list[ActiveInterval]] = defaultdict(list)
    for span in spans:
        if span.item_of is not None and span.is_own_task:
            items[span.enclosing_id] += [each for each in span.active_intervals if each.end_seq is not None]
    return [part for each in milestones for part in _split(each, items.get(each.span.span_id, ()))]


def _split(whole: Milestone, items: Iterable[ActiveInterval]) -> list[Milestone]:
    """The parts of a task between its items, and the items; each waits for what comes before it."""
    if whole.interval is None:
        return [whole]
    rest, before = whole.interval, whole.before
    parts: list[Milestone] = []
    for items_at_once in _list_rounds([each for each in items if rest.seq < each.seq < whole.end_seq]):
        first_seq, ready_ms = items_at_once[0].seq, min(map(_find_ready, items_at_once))
        lead = rest._replace(end_seq=first_seq - 1, end_ms=max(ready_ms, rest.start_ms))
        leading = _make_milestone(lead, before)
        done = [_make_milestone(each, [leading]) for each in items_at_once]
        parts += [leading, *done]
        rest = rest._replace(seq=max(each.end_seq for each in done), start_ms=max(each.end_ms for each in done))
        before = done
    whole.interval, whole.seq, whole.before = rest, rest.seq, before
    return [*parts, whole]


def _list_rounds(items: Iterable[ActiveInterval]) -> list[list[ActiveInterval]]:
    """The items that could be worked on side by side; where a review has sent them back, they come again."""
    rounds: list[dict[str, ActiveInterval]] = []
    for each in sorted(items, key=lambda each: each.seq):
        if not rounds or each.span.name in rounds[-1]:
            rounds.append({})
        rounds[-1][each.span.name] = each
    return [list(each.values()) for each in rounds]


def _find_ready(item: ActiveInterval) -> float:
    """When an item could have begun, had there been a place for it."""
    return item.start_ms - (item.span.queue_ms or 0.0)


def _make_milestone(interval: ActiveInterval, before: list[Milestone]) -> Milestone:
    end_seq = interval.seq if interval.end_seq is None else interval.end_seq
    milestone = Milestone(interval.span, interval.seq, end_seq, interval.end_ms, interval)
    milestone.before = before
    return milestone
