"""Which ways the lines of a graph take between the nodes of one box: round all of them, from left to right.

The room is cut where a node begins or ends into strips, and each strip by the nodes in it into cells. A line goes from
cell to cell, and between two of its points, of which both are in one cell, it is a curve that leaves and arrives level
and so stays in it: no line meets a node by construction. What stands side by side, and what stands one above the other,
has room between it, so that a cell always has a next one, and no way has to be searched. Lines of one node run
together, others beside each other as long as there is room.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

MARGIN: Final = 8
"""Between a line and a node that it passes."""
BORDER: Final = 3
"""Between a line and the border of the box that it is in."""
LEVEL: Final = 30
"""Up to so many pixels, a line does not go up or down before it has to."""
LANE: Final = 6
"""Between lines that pass together."""
CROWDED: Final = 60
"""So much further away lines look for a cell in which there is room beside others."""

Point = tuple[int, int]


class Place(NamedTuple):
    """Where something stands."""

    x: int
    y: int
    width: int
    height: int


class _Cell:
    """A part of a strip without nodes: from where to where lines pass it, and where those of which node do."""

    __slots__ = ("high", "low", "taken")

    def __init__(self, top: int, bottom: int) -> None:
        self.low, self.high = top + MARGIN, bottom - MARGIN
        self.taken: dict[int, int] = {}

    def find_lane(self, low: int, high: int, wish: int, line: int) -> tuple[int, int]:
        """Where a line passes between two heights, as near as can be to where it wants to; and how bad that is."""
        for y, other in self.taken.items():
            if other == line and low <= y <= high:
                return y, abs(y - wish)
        best = min(max(wish, low), high)
        for offset in range(0, high - low + 1, LANE):
            for y in (best + offset, best - offset):
                if low <= y <= high and all(abs(y - other) >= LANE for other in self.taken):
                    return y, abs(y - wish)
        return best, abs(best - wish) + CROWDED


_EVERYWHERE: Final[Mapping[int, Sequence[_Cell]]] = {}


class Channels:
    """The room between the nodes of one box, for all lines in it."""

    def __init__(self, places: Iterable[Place], around: Place) -> None:
        """Cut the room of a box, below its head, by the places of what is in it."""
        begin: dict[int, list[Place]] = {}
        end: dict[int, list[Place]] = {}
        for each in places:
            begin.setdefault(each.x, []).append(each)
            end.setdefault(each.x + each.width, []).append(each)
        self._bounds: Final = [around.x, *sorted({*begin, *end}), around.x + around.width]
        self._strips: Final[list[list[_Cell]]] = []
        here: list[tuple[int, int]] = []
        for x in self._bounds[:-1]:
            for each in end.get(x, ()):
                here.remove((each.y, each.y + each.height))
            for each in begin.get(x, ()):
                insort(here, (each.y, each.y + each.height))
            tops = [around.y + BORDER - MARGIN, *(bottom for _, bottom in here)]
            bottoms = [*(top for top, _ in here), around.y + around.height - BORDER + MARGIN]
            self._strips.append([_Cell(*each) for each in zip(tops, bottoms, strict=True)])

    def leave(self, way: list[Point], aim: Point, line: int) -> None:
        """Go on with a way from the right side of a node to that of the box, towards a point."""
        self._walk(way, aim, line, len(self._strips) - 1)
        way.append((self._bounds[-1], way[-1][1]))

    def enter(self, way: list[Point], aim: Point, line: int) -> None:
        """Go on with a way from the left side of a node to that of the box, where it comes from."""
        self._walk(way, aim, line, 0)
        way.append((self._bounds[0], way[-1][1]))

    def join(self, head: list[Point], tail: list[Point], line: int) -> list[Point]:
        """The way from the right side of a node to the left side of another one, which has to be read backwards."""
        first, last = bisect_left(self._bounds, head[-1][0]), bisect_left(self._bounds, tail[-1][0]) - 1
        goals = self._list_cells_before(last, tail[-1][1], first)
        if first <= last and _find(goals.get(first, self._strips[first]), head[-1][1]) is not None:
            self._walk(head, tail[-1], line, last, goals)
        else:  # back: round all that is at the right of it, or at the left of the other one
            turn, until = self._find_open(first, 1), self._find_open(last, -1)
            self._walk(head, tail[-1], line, turn)
            self._walk(tail, head[-1], line, until)
            back = [(self._bounds[turn + 1], head[-1][1])]
            self._walk(back, tail[-1], line, until)
            head += [*self._turn(turn, head[-1][1], back[1][1]), *back[1:]]
            head += self._turn(until, back[-1][1], tail[-1][1])
        return [*head, *reversed(tail)]

    def _turn(self, strip: int, start: int, end: int) -> list[Point]:
        """Up or down in a strip that is open."""
        x = (self._bounds[strip] + self._bounds[strip + 1]) // 2
        return [(x, start), (x, end)]

    def _find_open(self, strip: int, direction: int) -> int:
        """The next strip without nodes; there is one at either side of all nodes."""
        while len(self._strips[strip]) > 1:
            strip += direction
        return strip

    def _list_cells_before(self, last: int, y: int, first: int) -> dict[int, Sequence[_Cell]]:
        """By strip the cells from which one gets to a height in the last one, as long as these are not all of them."""
        goals: dict[int, Sequence[_Cell]] = {}
        if len(self._strips[last]) > 1:
            goals[last] = [each for each in self._strips[last] if each.low <= y <= each.high]
        for strip in range(last - 1, first - 1, -1):
            after = goals.get(strip + 1)
            if after is None:
                break
            cells = self._strips[strip]
            found = [each for each in cells if any(each.low <= goal.high and goal.low <= each.high for goal in after)]
            if len(found) < len(cells):
                goals[strip] = found
        return goals

    def _walk(
        self, way: list[Point], aim: Point, line: int, until: int, goals: Mapping[int, Sequence[_Cell]] = _EVERYWHERE
    ) -> None:
        """Go on with a way towards a point, by the places where it gets from strip to strip."""
        x, y = way[-1]
        strip = bisect_left(self._bounds, x)
        direction = 1 if strip <= until else -1
        strip -= direction < 0
        cell = _find(self._strips[strip], y)
        assert cell is not None, "a line begins beside its node"
        while strip != until:
            x_before, x = x, self._bounds[strip + (direction > 0)]
            rise = 0
            if len(self._strips[strip]) == 1 and aim[0] != x_before:  # straight on, as far as the last strip
                rise = (aim[1] - y) * (x - x_before) // (aim[0] - x_before)
            strip += direction
            cells = goals.get(strip, self._strips[strip])
            if len(self._strips[strip]) == 1:
                (cell,) = cells
            else:
                cell, y = _pick(cells, cell.low, cell.high, y + rise if abs(rise) > LEVEL else y, line)
                cell.taken.setdefault(y, line)
            way.append((x, y))


def _find(cells: Sequence[_Cell], y: int) -> _Cell | None:
    return next((each for each in cells if each.low <= y <= each.high), None)


def _pick(cells: Sequence[_Cell], low: int, high: int, wish: int, line: int) -> tuple[_Cell, int]:
    """The cell that a line goes to from between two heights, and where it goes there."""
    best: tuple[int, _Cell, int] | None = None
    for cell in sorted(cells, key=lambda each: max(each.low - wish, wish - each.high)):
        if best is not None and best[0] <= max(cell.low - wish, wish - cell.high):
            break
        lowest, highest = max(low, cell.low), min(high, cell.high)
        if lowest > highest:
            continue
        y, cost = cell.find_lane(lowest, highest, wish, line)
        if best is None or cost < best[0]:
            best = cost, cell, y
    assert best is not None, "nodes stand too near to each other"
    return best[1], best[2]


def simplify(way: Iterable[Point]) -> list[Point]:
    """The same without points on straight lines between others."""
    points: list[Point] = []
    for x, y in way:
        if points and points[-1] == (x, y):
            continue
        if len(points) > 1 and points[-1][1] == points[-2][1] == y:
            points.pop()
        points.append((x, y))
    return points


def to_path(way: Sequence[int], *, is_loop: bool = False) -> str:
    """A way as it is drawn, in the words of SVG's paths; ``js/src/explore/graph-edges.tsx`` has the same.

    A loop goes over the corner of its node. What begins downwards, from the head of a box, turns to the right; all else
    leaves and arrives level, at each of its points.
    """
    points = [*zip(way[::2], way[1::2], strict=True)]
    (x, y), (next_x, next_y) = points[:2]
    if is_loop:
        return f"M{x} {y}v-6a6 6 0 0 0-6-6H{next_x + 6}a6 6 0 0 0-6 6v6"
    path = f"M{x} {y}"
    if next_x == x:
        path += f"V{next_y - 5}q0 5 5 5"
        points.pop(0)
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = f"{(x + next_x) / 2:g}"
        path += f"C{middle} {y} {middle} {next_y} {next_x} {next_y}"
    return path
