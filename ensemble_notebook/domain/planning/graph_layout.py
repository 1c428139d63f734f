"""Where the nodes of a graph stand, from left to right: plain geometry, in pixels. `graph_ways` has the lines between.

The usual steps (Sugiyama, Tagawa, Toda 1981): columns by the longest path, the order in each by sweeps of barycentres,
of which the one with the fewest crossings is kept, then heights in which chains are straight. What is in a box is laid
out by itself, and then the box as one node, so that nothing outside depends on more than its size. Equal input gives
equal output. Where an earlier layout is given, what was in it stays, new nodes stand where there is room below the
others of their column, and only what a grown box would cover makes way.

Knows nothing of what a node is. Libraries in the browser were slower: dagre took 107 to 1,961 ms for 300 nodes.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, NamedTuple

from ensemble_notebook.domain.planning.graph_ways import Channels, Place, Point, simplify

GAP_X: Final = 56
"""Between columns; how long a text is that is handed over has room in it."""
LABEL_GAP: Final = 158
"""The same before a column into which an edge with words goes."""
ASK_GAP: Final = 170
"""Between the side of a box and what it hands work on to, with the words on the line."""
LEAST_GAP_X: Final = 16
"""What a box that grows leaves of it, before the columns at its right make way."""
GAP_Y: Final = 28
"""Between nodes of a column; a loop has room in it."""
PAD: Final = 14
"""Between the edge of a box and what is in it."""
SWEEPS: Final = 4
STRAIGHTENINGS: Final = 6
WAY: Final = 12
"""Between lines that pass a column."""
SHAPE: Final = 1.7
"""About how much wider than high nodes without edges stand together."""
FEW: Final = 4
"""So many of them, and no more, stand in one column."""
MANY_ALIKE: Final = 8
"""So many with the same nodes before and after them stand together, too, lest a column be as high as they are many."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, or a box.

    Attributes:
        key: unique.
        parent: place of the box around it among the nodes, which comes before it; None for the outermost.
        width, height: of the node; of a box those of its head, below which stands what is in it.
        is_centred: lines reach it in the middle of its height, not of that of its head.
    """

    key: str
    parent: int | None
    width: int
    height: int
    is_centred: bool = False


class Edge(NamedTuple):
    """From one node to another, by their places; with words there is more room before its end.

    Where it is from a box to what is in it, that room is left of all that is in the box.
    """

    source: int
    target: int
    has_words: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is.

    Attributes:
        places: of the nodes, in their order.
        ways: of the edges: the points that each goes through, ``x, y, x, y, ...``.
        inner: by the key of a node, where it stands inside the box around it, and how large it is: what a later layout
            starts with.
        width, height: of all.
    """

    places: tuple[Place, ...]
    ways: tuple[tuple[int, ...], ...]
    inner: Mapping[str, Place]
    width: int
    height: int


def lay_out(nodes: Sequence[Node], edges: Sequence[Edge], earlier: Mapping[str, Place] | None = None) -> Layout:
    """Lay out a graph.

    Args:
        nodes: a box before what is in it.
        edges: also within cycles, in which some go back; from a node to what is in it, and to itself.
        earlier: `Layout.inner` of the same graph as it was.
    """
    return _Layouter(nodes, edges, earlier or {}).lay_out()


@dataclass(slots=True)
class _Level:
    """What is in one box: which edges are between its members, however deep their ends are, and which go in and out.

    Attributes:
        lead: between the left side of the box and its members.
        gap: between columns of members that no edge tells apart.
    """

    members: list[int] = field(default_factory=list)
    edges: dict[tuple[int, int], bool] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    lead: int = PAD
    gap: int = GAP_X // 2


class _Layouter:
    def __init__(self, nodes: Sequence[Node], edges: Sequence[Edge], earlier: Mapping[str, Place]) -> None:
        self._nodes = nodes
        self._edges = edges
        self._earlier = earlier
        self._sizes = [(earlier[node.key][2:] if node.key in earlier else (node.width, node.height)) for node in nodes]
        self._inner: list[tuple[int, int]] = [(0, 0)] * len(nodes)
        self._levels: dict[int | None, _Level] = {}
        for number, node in enumerate(nodes):
            self._levels.setdefault(node.parent, _Level()).members.append(number)
        self._chains: list[tuple[list[int], list[int]]] = []
        for edge in edges:
            if edge.has_words and edge.source == nodes[edge.target].parent:
                self._levels[edge.source].lead = self._levels[edge.source].gap = ASK_GAP
        for edge in edges:  # of both ends the node and the boxes around it, but those around the other end, or it
            outwards, inwards = self._list_around(edge.source), self._list_around(edge.target)
            while outwards and inwards and outwards[-1] == inwards[-1]:
                outwards.pop()
                inwards.pop()
            self._chains.append((outwards, inwards))
        for edge, (outwards, inwards) in zip(edges, self._chains, strict=True):
            if outwards and inwards:
                source, target = outwards[-1], inwards[-1]
                between = self._levels[nodes[source].parent].edges
                between[source, target] = between.get((source, target), False) or edge.has_words
            is_between = bool(outwards and inwards)
            for each in outwards[: len(outwards) - is_between]:
                self._levels[nodes[each].parent].left.add(each)
            for each in inwards[: len(inwards) - is_between]:
                self._levels[nodes[each].parent].entered.add(each)

    def lay_out(self) -> Layout:
        """The innermost boxes first."""
        for number in range(len(self._nodes) - 1, -1, -1):
            if number in self._levels:
                level = self._levels[number]
                width, height = self._lay_out_level(level)
                head, size = self._nodes[number], self._sizes[number]
                # A box that was there shrinks no more than anything in it moves.
                self._sizes[number] = (
                    max(size[0], level.lead + width + PAD),
                    max(size[1], head.height + height + 2 * PAD),
                )
        width, height = self._lay_out_level(self._levels[None]) if self._nodes else (0, 0)
        places: list[Place] = []
        for number, node in enumerate(self._nodes):
            (x, y), box = self._inner[number], node.parent
            if box is not None:
                x, y = x + places[box].x + self._levels[box].lead, y + places[box].y + self._nodes[box].height + PAD
            places.append(Place(x, y, *self._sizes[number]))
        inner = {node.key: Place(*self._inner[number], *self._sizes[number]) for number, node in enumerate(self._nodes)}
        channels: dict[int | None, Channels] = {}
        for box, level in self._levels.items():
            room = Place(-PAD, -PAD, width + 2 * PAD, height + 2 * PAD)
            if box is not None:  # below its head
                around, top = places[box], self._nodes[box].height
                room = around._replace(y=around.y + top, height=around.height - top)
            channels[box] = Channels([places[each] for each in level.members], room)
        ways = tuple(
            tuple(chain.from_iterable(self._find_way(edge, *boxes, places, channels)))
            for edge, boxes in zip(self._edges, self._chains, strict=True)
        )
        return Layout(tuple(places), ways, inner, width, height)

    def _list_around(self, number: int) -> list[int]:
        """The node and the boxes around it, from the innermost."""
        found: list[int] = []
        at: int | None = number
        while at is not None:
            found.append(at)
            at = self._nodes[at].parent
        return found

    def _get_port(self, number: int) -> int:
        """How far below its top lines reach a node."""
        return self._sizes[number][1] // 2 if self._nodes[number].is_centred else self._nodes[number].height // 2

    def _find_way(
        self,
        edge: Edge,
        outwards: Sequence[int],
        inwards: Sequence[int],
        places: Sequence[Place],
        channels: Mapping[int | None, Channels],
    ) -> Sequence[Point]:
        """Out of the boxes around both ends, of that where it arrives backwards, and then from one to the other."""
        source, target = places[edge.source], places[edge.target]
        right = source.x + source.width
        if edge.source == edge.target:  # a loop over its right corner
            return (right - 16, source.y), (right - 60, source.y)
        start = (right, source.y + self._get_port(edge.source))
        end = (target.x, target.y + self._get_port(edge.target))
        head, tail = [start], [end]
        is_between = bool(outwards and inwards)
        for each in inwards[: len(inwards) - is_between]:
            channels[self._nodes[each].parent].enter(tail, start, edge.source)
        for each in outwards[: len(outwards) - is_between]:
            channels[self._nodes[each].parent].leave(head, tail[-1], edge.source)
        if is_between:
            way = channels[self._nodes[outwards[-1]].parent].join(head, tail, edge.source)
        elif inwards:  # from a box to what is in it: down from its head
            x, (_, y) = source.x + PAD // 2, tail.pop()
            way = [(x, source.y + self._nodes[edge.source].height), (x, y), *reversed(tail)]
        else:  # from a box that is in it
            way = head
        straight = end[0] - (LABEL_GAP - GAP_X if is_between else ASK_GAP - PAD)
        if edge.has_words and way[-2][0] < straight:
            way.insert(-1, (straight, end[1]))  # below the words
        return simplify(way)

    def _lay_out_level(self, level: _Level) -> tuple[int, int]:
        """Give the members of a level their places in it; how large it is."""
        lowest = 0
        if any(self._nodes[each].key in self._earlier for each in level.members):
            self._go_on(level)
        else:
            tied = {each for edge in level.edges for each in edge}
            lowest = self._place_tied([each for each in level.members if each in tied], level) if tied else 0
            loose = [each for each in level.members if each not in tied]
            self._place_block(loose, (0, lowest + GAP_Y if tied else 0), level.gap)
        right = max(self._inner[each][0] + self._sizes[each][0] for each in level.members)
        return right, max(lowest, *(self._inner[each][1] + self._sizes[each][1] for each in level.members))

    def _place_block(self, members: Sequence[int], origin: tuple[int, int], gap: int = GAP_X // 2) -> tuple[int, int]:
        """Place nodes that no edge tells apart, column by column; how large that is."""
        height = _find_column_height(len(members))
        x, bottom = 0, 0
        for first in range(0, len(members), height):
            y = 0
            column = members[first : first + height]
            for each in column:
                self._inner[each] = (origin[0] + x, origin[1] + y)
                y += self._sizes[each][1] + GAP_Y
            x += max(self._sizes[each][0] for each in column) + gap
            bottom = max(bottom, y)
        return x - gap, bottom - GAP_Y

    def _place_tied(self, members: Sequence[int], level: _Level) -> int:
        """Place what has edges; how far down it is, with room for its lines."""
        blocks = _find_blocks(members, level.edges)
        first_of = {each: first for first, block in blocks.items() for each in block}
        sizes = {each: self._sizes[each] for each in blocks}
        ports = {each: self._get_port(each) for each in blocks}
        for each, block in blocks.items():
            if len(block) > 1:
                sizes[each] = self._place_block(block, (0, 0))
                ports[each] = sizes[each][1] // 2
        joined = dict.fromkeys((first_of[source], first_of[target]) for source, target in level.edges)
        entered, left = ({first_of[each] for each in ends if each in first_of} for ends in (level.entered, level.left))
        columns = _Columns([*blocks], [*joined], entered, left)
        columns.sort()
        tops = columns.straighten(sizes, ports)
        _close_gaps(tops, sizes)
        wide = {columns.number_of[first_of[target]] for (_, target), has_words in level.edges.items() if has_words}
        x = bottom = 0
        for number, column in enumerate(columns.columns):
            if number:
                x += LABEL_GAP if number in wide else GAP_X
            for each in column:
                y = math.floor(tops[each] + 0.5)
                for member in blocks.get(each, ()):
                    at = self._inner[member] if len(blocks[each]) > 1 else (0, 0)
                    self._inner[member] = (at[0] + x, at[1] + y)
                bottom = max(bottom, y + sizes.get(each, (0, 0))[1])
            x += max((sizes[each][0] for each in column if each >= 0), default=0)
        return bottom

    def _go_on(self, level: _Level) -> None:
        """Keep what was there where it was; put what is new below the others of its column."""
        known = dict.fromkeys(each for each in level.members if self._nodes[each].key in self._earlier)
        for each in known:
            self._inner[each] = self._earlier[self._nodes[each].key][:2]
        tied = {each for edge in level.edges for each in edge}
        loose = [each for each in known if each not in tied]
        placed = dict.fromkeys(known)
        for each in level.members:
            if each in placed:
                continue
            if each in tied:
                before = [source for source, target in level.edges if target == each and source in placed]
                # The column that comes next after these, which may be a new one at the right.
                xs = sorted({self._inner[other][0] for other in placed})
                right = max((self._inner[other][0] + self._sizes[other][0] for other in before), default=xs[0])
                x = next((x for x in xs if x >= right), right + GAP_X)
                top = max((self._inner[other][1] for other in before), default=0)
            else:
                x = self._find_loose_column(loose, level)
                top = min((self._inner[other][1] for other in loose), default=self._find_bottom(placed))
                loose.append(each)
            beside = [other for other in placed if self._inner[other][0] == x]
            self._inner[each] = (x, max(self._find_bottom(beside), 0 if beside and each in tied else top))
            placed[each] = None
        self._make_way(level.members, {each for each in placed if each not in known})

    def _find_bottom(self, members: Iterable[int]) -> int:
        """Where there is room below all of these."""
        return max((self._inner[each][1] + self._sizes[each][1] + GAP_Y for each in members), default=0)

    def _find_loose_column(self, loose: Sequence[int], level: _Level) -> int:
        """Where the next node without edges stands: the last column of those, until it is as high as the first."""
        xs = [self._inner[each][0] for each in loose]
        columns = sorted(set(xs))
        if not columns:
            return 0
        full = xs.count(columns[0]) if len(columns) > 1 else _find_column_height(len(level.members))
        if xs.count(columns[-1]) < full:
            return columns[-1]
        width = max(self._sizes[each][0] for each, x in zip(loose, xs, strict=True) if x == columns[-1])
        return columns[-1] + width + level.gap

    def _make_way(self, members: Sequence[int], new: set[int]) -> None:
        """Move what would be covered by something that has grown: columns to the right, nodes down."""
        moved: dict[int, int] = {}
        columns: dict[int, list[int]] = {}
        for each in members:
            columns.setdefault(self._inner[each][0], []).append(each)
        for x in sorted(columns):
            # What is new makes no column go that was there, nor is it made way for in one: it stands further down.
            column = [each for each in columns[x] if each not in new]
            pushing = [each for each in members if each not in new] if column else members
            left = [
                moved[self._inner[each][0]] + self._sizes[each][0] + LEAST_GAP_X
                for each in pushing
                if self._inner[each][0] < x and self._is_beside(each, column or columns[x])
            ]
            moved[x] = max([x, *left])
        for each in members:
            x, y = self._inner[each]
            self._inner[each] = (moved[x], y)
        done: list[int] = []
        for each in sorted(members, key=lambda each: (each in new, self._inner[each][1], self._inner[each][0])):
            x, y = self._inner[each]
            width, height = self._sizes[each]
            for other in sorted(done, key=lambda other: self._inner[other][1]):
                other_x, other_y = self._inner[other]
                other_width, other_height = self._sizes[other]
                is_beside = other_x >= x + width + LEAST_GAP_X or x >= other_x + other_width + LEAST_GAP_X
                if not is_beside and other_y < y + height + GAP_Y - 1 and y < other_y + other_height + GAP_Y - 1:
                    y = other_y + other_height + GAP_Y
            self._inner[each] = (x, y)
            done.append(each)

    def _is_beside(self, each: int, column: Sequence[int]) -> bool:
        """Whether something of a column is as high up as a node."""
        top, bottom = self._inner[each][1] - GAP_Y, self._inner[each][1] + self._sizes[each][1] + GAP_Y
        return any(
            self._inner[other][1] < bottom and top < self._inner[other][1] + self._sizes[other][1] for other in column
        )


def _find_column_height(count: int) -> int:
    """How many of so many nodes without edges stand in a column."""
    return max(FEW, math.ceil(math.sqrt(count * 2.4 / SHAPE)))


def _find_blocks(members: Sequence[int], edges: Mapping[tuple[int, int], bool]) -> dict[int, list[int]]:
    """By the first of each the nodes that stand together: many with the same ones before and after them, else one."""
    before: dict[int, list[int]] = {each: [] for each in members}
    after: dict[int, list[int]] = {each: [] for each in members}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    alike: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for each in members:
        alike.setdefault((frozenset(before[each]), frozenset(after[each])), []).append(each)
    many = {each: block for block in alike.values() if len(block) > MANY_ALIKE for each in block}
    return {each: many.get(each, [each]) for each in members if many.get(each, [each])[0] == each}


# --- The columns of what has edges, and the order and height in them --------------------------------------------------


class _Columns:
    """Columns from left to right, each from its top. Where lines of a node pass, they have a place: a number below 0.

    Attributes:
        columns: the nodes and places of each.
        number_of: in which column a node is.
    """

    def __init__(
        self, members: Sequence[int], edges: Sequence[tuple[int, int]], entered: Iterable[int], left: Iterable[int]
    ) -> None:
        """Give nodes their columns, and lines their room: those of edges, and those into and out of the box around."""
        self.number_of = _find_longest_paths(members, edges)
        self.columns: list[list[int]] = [[] for _ in range(max(self.number_of.values()) + 1)]
        self._passing = 0
        self._before: dict[int, list[int]] = {}
        self._after: dict[int, list[int]] = {}
        for each in members:
            self.columns[self.number_of[each]].append(each)
        passing: dict[int, list[int]] = {}  # by where they come from, in the columns after that
        for source, target in edges:
            first, last = self.number_of[source], self.number_of[target]
            if first < last:  # else it goes back, in a cycle
                self._join(self._pass(source, passing.setdefault(source, []), first, last), target)
        for source in left:
            self._pass(source, passing.setdefault(source, []), self.number_of[source], len(self.columns))
        for target in entered:
            if last := self.number_of[target]:
                self._join(self._pass(None, [], -1, last), target)

    def _pass(self, source: int | None, passing: list[int], first: int, last: int) -> int | None:
        """Have lines pass from one column to another one, as far as they do not yet; by which place they get there."""
        for number in range(first + 1 + len(passing), last):
            self._passing -= 1
            self.columns[number].append(self._passing)
            self._join(passing[-1] if passing else source, self._passing)
            passing.append(self._passing)
        return passing[last - first - 2] if last - first > 1 else source

    def _join(self, source: int | None, target: int) -> None:
        if source is None:
            return
        self._after.setdefault(source, []).append(target)
        self._before.setdefault(target, []).append(source)

    def sort(self) -> None:
        """Sort each column by the barycentres of its neighbours: to the right, to the left, and again."""
        best, fewest = self.columns, self._count_crossings()
        for sweep in range(2 * SWEEPS):
            if not fewest:
                break
            is_right = sweep % 2 == 0
            neighbours = self._before if is_right else self._after
            sorted_columns: list[list[int]] = []
            rank: dict[int, float] = {}
            for column in self.columns if is_right else reversed(self.columns):
                centres = {
                    each: sum(map(rank.__getitem__, near)) / len(near) if (near := neighbours.get(each)) else place
                    for place, each in enumerate(column)
                }
                sorted_columns.append(sorted(column, key=centres.__getitem__))
                rank = {each: float(place) for place, each in enumerate(sorted_columns[-1])}
            self.columns = sorted_columns if is_right else sorted_columns[::-1]
            if (crossings := self._count_crossings()) < fewest:
                best, fewest = self.columns, crossings
        self.columns = best

    def _count_crossings(self) -> int:
        count = 0
        for column, following in pairwise(self.columns):
            place = {each: number for number, each in enumerate(following)}
            passed: list[int] = []
            for each in column:
                ends = sorted(map(place.__getitem__, self._after.get(each, ())))
                count += sum(len(passed) - bisect_right(passed, end) for end in ends)
                for end in ends:
                    insort(passed, end)
        return count

    def straighten(self, sizes: Mapping[int, tuple[int, int]], ports: Mapping[int, int]) -> dict[int, float]:
        """The tops of all, so that lines are as straight as the order in each column allows."""
        tops: dict[int, float] = {}
        for column in self.columns:
            offsets, height = self._stack(column, sizes)
            tops.update({each: offset - height / 2 for each, offset in zip(column, offsets, strict=True)})
        for turn in range(STRAIGHTENINGS):
            is_right = turn % 2 == 0
            for column in self.columns if is_right else reversed(self.columns):
                self._straighten_column(column, sizes, ports, tops, self._before if is_right else self._after)
        return tops

    def _straighten_column(
        self,
        column: Sequence[int],
        sizes: Mapping[int, tuple[int, int]],
        ports: Mapping[int, int],
        tops: dict[int, float],
        neighbours: Mapping[int, Sequence[int]],
    ) -> None:
        """Move each as near to the middle of its neighbours as the others allow: least squares."""
        offsets, _ = self._stack(column, sizes)
        blocks: list[tuple[float, float, int]] = []  # what touches moves together: mean, weight, how many
        for each, offset in zip(column, offsets, strict=True):
            near = neighbours.get(each, ())
            wished = sum(tops[other] + ports.get(other, 0) for other in near) / len(near) if near else tops[each]
            # Lines that pass, and chains, are to be straight before all else.
            weight = 8.0 if each < 0 else 1.0 if not near else 4.0 if len(near) == 1 else 2.0
            mean, count = wished - (ports.get(each, 0) if near else 0) - offset, 1
            while blocks and blocks[-1][0] >= mean:
                last_mean, last_weight, last_count = blocks.pop()
                mean = (mean * weight + last_mean * last_weight) / (weight + last_weight)
                weight, count = weight + last_weight, count + last_count
            blocks.append((mean, weight, count))
        shifts = [mean for mean, _, count in blocks for _ in range(count)]
        tops.update({each: shift + offset for each, shift, offset in zip(column, shifts, offsets, strict=True)})

    def _stack(self, column: Sequence[int], sizes: Mapping[int, tuple[int, int]]) -> tuple[list[float], float]:
        """How far below the first each stands at least, and how high that is in all."""
        offsets, y = [], 0.0
        for each in column:
            offsets.append(y)
            y += WAY if each < 0 else sizes[each][1] + GAP_Y
        return offsets, y


def _close_gaps(tops: dict[int, float], sizes: Mapping[int, tuple[int, int]]) -> None:
    """Have the highest stand at 0, and nothing further below all of those above it than it has to."""
    moved = min(tops.values())
    bottom = moved - GAP_Y
    for each in sorted(tops, key=tops.__getitem__):
        top = tops[each]
        moved += max(0.0, top - bottom - GAP_Y)
        bottom = max(bottom, top + sizes.get(each, (0, 0))[1])
        tops[each] = top - moved


def _find_longest_paths(members: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """In which column each is: after all that it comes after. In a cycle, the first one counts as before the others."""
    waiting = dict.fromkeys(members, 0)
    after: dict[int, list[int]] = {each: [] for each in members}
    for source, target in edges:
        waiting[target] += 1
        after[source].append(target)
    columns = dict.fromkeys(members, 0)
    ready = [each for each in members if not waiting[each]]
    left = dict.fromkeys(members)
    while left:
        if not ready:
            ready.append(next(iter(left)))
        each = ready.pop(0)
        if each not in left:
            continue
        del left[each]
        for target in after[each]:
            if target in left:
                columns[target] = max(columns[target], columns[each] + 1)
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
    return columns
