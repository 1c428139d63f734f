"""Whether events from a file can be those of one run: in order, and each in its place (E71).

A run's own events are so by construction; a file may have been edited, and what is folded from it must not fail later,
when somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ensemble_notebook.domain import events as ev

_DEEPEST: Final = 300
_LONGEST_S: Final = 50_000 * 86_400.0
# Anchors and offsets come from two clocks, and are written with microseconds.
_TOLERANCE_S: Final = 1e-5


def check_events(events: Sequence[ev.Event]) -> None:
    """Check order, times and the tree of spans. What another process did may stand behind what came after it.

    Raises:
        ValueError: says which event is wrong, by its number, and why.
    """
    depths: dict[str, int] = {}
    parents: dict[str, str | None] = {}
    begins: dict[str | None, float] = {}
    seq = -1
    for event in events:
        if event.seq <= seq:
            raise ValueError(f"event {event.seq} stands behind event {seq}")
        since_s = begins.get(event.span_id, begins.get(event.parent_id, 0.0))
        if not since_s - _TOLERANCE_S <= event.offset_s <= _LONGEST_S:
            raise ValueError(f"event {event.seq} is at {event.offset_s} s, and its span begins at {since_s} s")
        begins.setdefault(event.span_id, event.offset_s)
        seq = event.seq
        _check_span(event, event.span_id, event.parent_id, depths, parents)
        if isinstance(event, ev.PlanMade):
            for span_id in (*event.phase_span_ids, *event.task_span_ids):
                if span_id in depths:
                    raise ValueError(f"event {seq} plans span {span_id!r}, which is there already")
                depths[span_id] = depths[event.span_id] + 1
    starts = [event.seq for event in events if isinstance(event, ev.RunStarted)]
    if len(starts) > 1:
        raise ValueError(f"event {starts[1]} starts the run again")


def _check_span(
    event: ev.Event, span_id: str, parent_id: str | None, depths: dict[str, int], parents: dict[str, str | None]
) -> None:
    if span_id in parents:
        if parents[span_id] != parent_id:
            raise ValueError(f"event {event.seq} has span {span_id!r} in another span than before")
        return
    if parent_id is not None and parent_id not in depths:
        raise ValueError(f"event {event.seq} is in span {parent_id!r}, which is not there")
    parents[span_id] = parent_id
    depth = 0 if parent_id is None else depths[parent_id] + 1
    if depth > _DEEPEST:
        raise ValueError(f"event {event.seq} is more than {_DEEPEST} spans deep")
    depths.setdefault(span_id, depth)
