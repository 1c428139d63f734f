"""The schedule of a run: which work waited for which, how long each piece took, and the places that they shared.

A prediction carries the schedule out again with other lengths and another number of places. The engine gives a free
place to the work that has been ready longest. With that rule alone, more places or faster work can make a run *longer*:
work that is ready sooner may take the place that a longer chain needs (Graham, "Bounds on multiprocessing timing
anomalies", 1969). A prediction should not show this anomaly, since nobody has to accept such a schedule. So, for each
number of places up to the requested one, the order of the work and its places are first settled with the measured
lengths: for the run's own number as they were, for others as the engine would do it. Then the changed lengths are tried
in two ways: all work keeps its place, or each piece takes the first free place, in that order. Both are monotonic:
shorter work never makes them longer. The first consists of sums and maxima along links; for the second, Kiefer and
Wolfowitz showed it (1955, for queues served in order). The shortest schedule is the prediction: it can be carried out,
and no further place and no speed-up make it longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ensemble_notebook.trace.folding.milestones import Milestone


@dataclass(slots=True, eq=False)
class Node:
    """A milestone, and its measured times.

    Attributes:
        milestone: of an interval of work, a phase, or the run.
        before: numbers of the nodes that it waited for; they come earlier in the run.
        start_ms: measured start.
        end_ms: measured end; the same as the start for what takes no time.
        takes_place: whether it occupies a place while it lasts.
        pause_ms: from the last end in `before` until it was ready.
        lag_ms: from when it was ready and had a place, until it started.
    """

    milestone: Milestone
    before: list[int]
    start_ms: float
    end_ms: float
    takes_place: bool
    pause_ms: float = 0.0
    lag_ms: float = 0.0


@dataclass(slots=True)
class Times:
    """A schedule that was carried out, by number of node.

    Attributes:
        starts: in milliseconds.
        ends: in milliseconds.
        after: the node that it waited for last; None: the start of the run.
        places: the place that it took.
        order: in which the nodes were settled.
    """

    starts: list[float]
    ends: list[float]
    after: list[int | None]
    places: list[int]
    order: list[int]

    @property
    def wall_ms(self) -> float:
        """The end of the last node, which is the run."""
        return self.ends[-1]

    def list_chain(self) -> list[int]:
        """The nodes that determine the length of the run, in order of time."""
        chain: list[int] = []
        number: int | None = len(self.ends) - 1
        while number is not None:
            chain.append(number)
            number = self.after[number]
        return chain[::-1]


class Schedule:
    """The schedule of a run that has ended.

    Args:
        milestones: linked, without places; the last one is the run.
        start_ms: when the run started.
        max_concurrency: how many tasks could run at the same time; None: no limit.

    Attributes:
        nodes: in order of their first events; the last one is the run.
        places: as `max_concurrency`, but at least the number that ran at the same time.
    """

    def __init__(self, milestones: Iterable[Milestone], start_ms: float, max_concurrency: int | None) -> None:
        in_order = sorted(dict.fromkeys(milestones), key=lambda each: each.seq)
        numbers = {id(each): number for number, each in enumerate(in_order)}
        self.nodes = [_make_node(each, [numbers[id(before)] for before in each.before]) for each in in_order]
        self._start_ms = start_ms
        self._work_count = sum(node.takes_place for node in self.nodes)
        self.places = None if max_concurrency is None else max(max_concurrency, _find_peak(self.nodes))
        self._readers: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for before in node.before:
                self._readers[before].append(number)
        self._measured = self._measure()

    @property
    def lengths(self) -> list[float]:
        """As measured, by node."""
        return [node.end_ms - node.start_ms for node in self.nodes]

    def predict(self, places: int | None, lengths: Sequence[float]) -> Times:
        """The times with this number of places (None: as in the run) and these lengths, by node."""
        places = self.places if places is None else places
        if places is None or places >= self._work_count:
            return _Replay(self.nodes, self._start_ms, lengths, None).follow(range(len(self.nodes)))
        found: Times | None = None
        for count in range(places, 0, -1):
            settled = self._settle(count)
            for fixed in (settled.places, None):
                times = _Replay(self.nodes, self._start_ms, lengths, count, fixed).follow(settled.order)
                found = times if found is None or times.wall_ms < found.wall_ms else found
        assert found is not None
        return found

    def _settle(self, count: int) -> Times:
        """The order of the work and its places for a number of places, with the measured lengths."""
        if count == self.places:
            return self._measured
        times = _Replay(self.nodes, self._start_ms, self.lengths, count).follow_readiness(self._readers)
        if times.wall_ms < self._measured.wall_ms and (self.places is None or count < self.places):
            return _Replay(self.nodes, self._start_ms, self.lengths, count).follow(range(len(self.nodes)))
        return times

    def _measure(self) -> Times:
        """Find the pause and lag of each node, so that unchanged lengths give the measured times."""
        replay = _Replay(self.nodes, self._start_ms, self.lengths, self.places)
        queued_ms = {id(node.milestone.span): node.milestone.span.queue_ms or 0.0 for node in self.nodes}
        for number, node in enumerate(self.nodes):
            released_ms, _ = replay.find_release(number)
            ready_ms = max(released_ms, node.start_ms)
            if node.takes_place and self.places is not None:
                span_id = id(node.milestone.span)
                waited_ms = min(queued_ms[span_id], max(0.0, node.start_ms - released_ms))
                queued_ms[span_id] -= waited_ms
                ready_ms = max(released_ms, node.start_ms - waited_ms)
            node.pause_ms = ready_ms - released_ms
            free_ms, _ = replay.find_place(number)
            node.lag_ms = max(0.0, node.start_ms - max(ready_ms, free_ms)) if node.takes_place else 0.0
            replay.add(number)
        return replay.times


class _Replay:
    """Carries a schedule out, node by node; each comes after the nodes that it waits for.

    Args:
        nodes: of the schedule.
        start_ms: when the run starts.
        lengths: by node.
        count: of places; None: no limit.
        fixed: the place of each node; None: each takes the first free place.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        start_ms: float,
        lengths: Sequence[float],
        count: int | None,
        fixed: Sequence[int] | None = None,
    ) -> None:
        self._nodes, self._start_ms, self._lengths, self._fixed = nodes, start_ms, lengths, fixed
        size = len(nodes)
        self.times = Times([0.0] * size, [0.0] * size, [None] * size, [0] * size, [])
        self._has_places = count is not None
        free: list[tuple[float, int]] = [(start_ms, place) for place in range(count or 0)]
        self._free = free
        self._last: list[int | None] = [None] * (count or 0)
        self._free_ms = [start_ms] * (count or 0)

    def follow(self, order: Iterable[int]) -> Times:
        """Carry out all nodes in this order."""
        for number in order:
            self.add(number)
        return self.times

    def follow_readiness(self, readers: Sequence[Sequence[int]]) -> Times:
        """Carry out all nodes as the engine does: the node that has been ready longest gets the next place."""
        waiting = [len(node.before) for node in self._nodes]
        ready = [(self._find_ready(number), number) for number, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        while ready:
            _, number = heapq.heappop(ready)
            self.add(number)
            for reader in readers[number]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (self._find_ready(reader), reader))
        return self.times

    def find_release(self, number: int) -> tuple[float, int | None]:
        """When the last node that this one waits for ends, and which it is; else the start of the run."""
        before = self._nodes[number].before
        if not before:
            return self._start_ms, None
        last = max(before, key=lambda each: (self.times.ends[each], each))
        return max(self._start_ms, self.times.ends[last]), last

    def find_place(self, number: int) -> tuple[float, int]:
        """When the place of a node is free, and which place it is."""
        if not self._has_places or not self._nodes[number].takes_place:
            return self._start_ms, 0
        if self._fixed is None:
            return self._free[0]
        place = self._fixed[number]
        return self._free_ms[place], place

    def add(self, number: int) -> None:
        """Let a node start as soon as it can."""
        node, times = self._nodes[number], self.times
        released_ms, after = self.find_release(number)
        free_ms, place = self.find_place(number)
        ready_ms = released_ms + node.pause_ms
        if free_ms > ready_ms:
            ready_ms, after = free_ms, self._last[place]
        times.starts[number] = ready_ms + node.lag_ms
        times.ends[number] = times.starts[number] + self._lengths[number]
        times.after[number], times.places[number] = after, place
        times.order.append(number)
        if self._has_places and node.takes_place:
            self._last[place], self._free_ms[place] = number, times.ends[number]
            if self._fixed is None:
                heapq.heapreplace(self._free, (times.ends[number], place))

    def _find_ready(self, number: int) -> float:
        return self.find_release(number)[0] + self._nodes[number].pause_ms


def _make_node(milestone: Milestone, before: list[int]) -> Node:
    interval = milestone.interval
    start_ms = milestone.end_ms if interval is None else interval.start_ms
    return Node(milestone, before, start_ms, max(start_ms, milestone.end_ms), interval is not None)


def _find_peak(nodes: Iterable[Node]) -> int:
    """How many pieces of work went on at once, at most."""
    ends: list[float] = []
    peak = 0
    for node in nodes:
        if node.takes_place:
            while ends and ends[0] <= node.start_ms:
                heapq.heappop(ends)
            heapq.heappush(ends, node.end_ms)
            peak = max(peak, len(ends))
    return peak
