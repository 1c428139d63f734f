"""Which ways the lines of a graph take (W32): round all nodes that are not theirs, as they are drawn."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from ensemble_notebook.domain.planning.graph_layout import Edge, Layout, Node, lay_out
from ensemble_notebook.domain.planning.graph_ways import Place, to_path

CASES = json.loads((Path(__file__).parent.parent / "curve_cases.json").read_text())["cases"]
WIDTH, HEIGHT, HEAD = 184, 78, 34
SAMPLES = 24

Point = tuple[float, float]


def make_graph(draw: random.Random) -> tuple[list[Node], list[Edge]]:
    """Phases, tasks with runs and workers inside, nested at will, and lines between them, a few of which go back."""
    count, depth = draw.randint(2, 24), draw.choice([0, 0.3, 0.6, 0.8])
    parents = [None, *(draw.randrange(number) if draw.random() < depth else None for number in range(1, count))]
    boxes = {parent for parent in parents if parent is not None and draw.random() < 0.6}
    nodes = [
        Node(f"n{number}", parent, WIDTH, HEAD if number in boxes else HEIGHT, number in boxes)
        for number, parent in enumerate(parents)
    ]
    edges: dict[tuple[int, int], Edge] = {}
    for _ in range(draw.randint(0, 2 * count)):
        ends = draw.randrange(count), draw.randrange(count)
        edge = Edge(*(ends if draw.random() < 0.05 else sorted(ends)), draw.random() < 0.2)
        edges.setdefault(edge[:2], edge)
    for number, parent in enumerate(parents):
        if parent is not None and draw.random() < 0.4:  # work that is handed on
            edges.setdefault((parent, number), Edge(parent, number, draw.random() < 0.5))
    return nodes, [*edges.values()]


def list_around(nodes: Sequence[Node], number: int | None) -> Iterator[int]:
    while number is not None:
        yield number
        number = nodes[number].parent


def list_pieces(path: str) -> Iterator[tuple[Point, Point, Point, Point]]:
    """The pieces of a path of SVG, each as a curve of Bezier."""
    x = y = 0.0
    for letter, said in re.findall(r"([MCVHvaq])([^A-Za-z]*)", path):
        numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", said)]
        points = [*zip(numbers[::2], numbers[1::2], strict=False)]
        if letter == "M":
            ((x, y),) = points
            continue
        match letter:
            case "C":
                controls = points
            case "V":
                controls = [(x, y), (x, numbers[0]), (x, numbers[0])]
            case "H":
                controls = [(x, y), (numbers[0], y), (numbers[0], y)]
            case "v":
                controls = [(x, y), (x, y + numbers[0]), (x, y + numbers[0])]
            case _:  # a corner
                end = (x + numbers[-2], y + numbers[-1])
                controls = [(x, y), end, end]
        yield ((x, y), *controls)
        x, y = controls[-1]


def meets(piece: Sequence[Point], box: Place) -> bool:
    """Whether a piece of a line is in a box, or at its border."""
    xs, ys = zip(*piece, strict=True)
    right, bottom = box.x + box.width, box.y + box.height
    if max(xs) < box.x or min(xs) > right or max(ys) < box.y or min(ys) > bottom:
        return False
    for step in range(SAMPLES + 1):
        t = step / SAMPLES
        weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        x, y = (sum(weight * value for weight, value in zip(weights, each, strict=True)) for each in (xs, ys))
        if box.x <= x <= right and box.y <= y <= bottom:
            return True
    return False


def find_met(nodes: Sequence[Node], edges: Sequence[Edge], layout: Layout) -> list[tuple[Edge, str]]:
    """The lines that meet a node that is not theirs, or the head of a box that they only come out of or go into."""
    found = []
    for edge, way in zip(edges, layout.ways, strict=True):
        own = {*list_around(nodes, edge.source), *list_around(nodes, edge.target)}
        pieces = [*list_pieces(to_path(way, is_loop=edge.source == edge.target))]
        for number, place in enumerate(layout.places):
            is_end = number in (edge.source, edge.target)
            box = place._replace(height=nodes[number].height) if number in own else place
            if not is_end and any(meets(each, box) for each in pieces):
                found.append((edge, nodes[number].key))
    return found


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_w32_no_line_meets_a_node_that_is_not_its_own(first: int) -> None:
    for seed in range(first, first + 200):
        draw = random.Random(seed)
        nodes, edges = make_graph(draw)
        assert find_met(nodes, edges, lay_out(nodes, edges)) == [], seed
        count = draw.randint(1, len(nodes))
        before = lay_out(nodes[:count], [edge for edge in edges if max(edge[:2]) < count])
        assert find_met(nodes, edges, lay_out(nodes, edges, before.inner)) == [], seed


def test_w32_a_line_that_would_go_through_a_node_is_seen_to() -> None:
    nodes = [Node(name, None, WIDTH, HEIGHT) for name in "abc"]
    edges = [Edge(0, 1), Edge(1, 2), Edge(0, 2)]
    layout = lay_out(nodes, edges)
    straight = Layout(layout.places, (*layout.ways[:2], (WIDTH, 45, layout.places[2].x, 45)), {}, 0, 0)
    assert find_met(nodes, edges, straight) == [(edges[2], "b")]


def test_w32_what_a_later_phase_reads_goes_past_what_comes_after_it_in_its_own() -> None:
    """Not into it and out of it again, as if it were handed on."""
    nodes = [
        *(Node("one", None, WIDTH, HEAD, True), Node("draft", 0, WIDTH, HEIGHT), Node("critic", 0, WIDTH, HEIGHT)),
        *(Node("two", None, WIDTH, HEAD, True), Node("memo", 3, WIDTH, HEIGHT)),
    ]
    edges = [Edge(1, 2), Edge(0, 3), Edge(1, 4)]
    layout = lay_out(nodes, edges)
    assert find_met(nodes, edges, layout) == []
    assert len({y for way in layout.ways[::2] for y in way[-1::-2]}) > 2


def test_w32_work_is_handed_on_round_what_stands_before_it() -> None:
    nodes = [Node("manager", None, WIDTH, HEIGHT), *(Node(f"w{number}", 0, WIDTH, HEIGHT) for number in range(9))]
    edges = [Edge(0, number) for number in range(1, 10)]
    layout = lay_out(nodes, edges)
    assert len({place.x for place in layout.places[1:]}) > 1
    assert find_met(nodes, edges, layout) == []
    assert {way[0] for way in layout.ways} == {way[2] for way in layout.ways} == {7}


def test_w32_lines_of_one_node_run_together_and_others_beside_them() -> None:
    nodes = [Node(name, None, WIDTH, HEIGHT) for name in ("a", "b", "c", "d", "e")]
    edges = [Edge(0, 2), Edge(1, 2), Edge(2, 3), Edge(3, 4), Edge(0, 4), Edge(0, 3), Edge(1, 4)]
    layout = lay_out(nodes, edges)
    below = layout.places[2].x + 1
    heights = []
    for way in layout.ways[4:]:
        points = [*zip(way[::2], way[1::2], strict=True)]
        heights.append(next(y for (x, _), (next_x, y) in pairwise(points) if x <= below < next_x))
    assert heights[0] == heights[1] != heights[2]


def test_w32_a_line_with_words_arrives_level_below_them() -> None:
    nodes = [Node(name, None, WIDTH, HEIGHT) for name in "abc"]
    layout = lay_out(nodes, [Edge(0, 1, True), Edge(0, 2, True)])
    for way in layout.ways:
        assert way[-1] == way[-3]
        assert way[-2] - way[-4] > 100


def test_a_line_to_each_worker_of_a_manager_is_level_as_far_as_its_words_go_w149() -> None:
    nodes = [Node("manager", None, WIDTH, HEIGHT), *(Node(f"w{number}", 0, WIDTH, HEIGHT) for number in range(9))]
    edges = [Edge(0, number, True) for number in range(1, 10)]
    layout = lay_out(nodes, edges)
    assert len({place.x for place in layout.places[1:]}) > 1
    assert find_met(nodes, edges, layout) == []
    for way in layout.ways:
        assert way[-1] == way[-3]
        assert way[-2] - way[-4] >= 152


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_w32_ways_are_drawn_as_the_view_draws_them(case: dict[str, object]) -> None:
    assert to_path(case["way"], is_loop=case["kind"] == "loop") == case["path"]
