"""Where the nodes of a graph stand (W32): properties that hold for every graph."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.planning.graph_layout import GAP_Y, Edge, Node, lay_out

WIDTH, HEIGHT, HEAD = 184, 78, 34


@st.composite
def graphs(draw, *, is_flat=False):
    """Nodes, some of them in boxes up to three deep, and edges that never go back."""
    count = draw(st.integers(1, 24))
    parents = [
        None if is_flat or number == 0 else draw(st.none() | st.integers(0, number - 1)) for number in range(count)
    ]
    boxes = {parent for parent in parents if parent is not None}
    nodes = [
        Node(f"n{number}", parent, WIDTH, HEAD if number in boxes else HEIGHT, number in boxes)
        for number, parent in enumerate(parents)
    ]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.booleans())
    edges = dict.fromkeys(Edge(*sorted(pair[:2]), pair[2]) for pair in draw(st.lists(pairs, max_size=40)))
    return nodes, [*edges]


def list_around(nodes, number):
    while number is not None:
        yield number
        number = nodes[number].parent


def overlap(one, other):
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def check_places(nodes, layout):
    for number, place in enumerate(layout.places):
        assert place.x >= 0
        assert place.y >= 0
        assert place.x + place.width <= layout.width
        assert place.y + place.height <= layout.height
        parent = nodes[number].parent
        if parent is not None:
            around = layout.places[parent]
            assert around.x < place.x
            assert around.y + nodes[parent].height <= place.y
            assert place.x + place.width < around.x + around.width
            assert place.y + place.height < around.y + around.height
    for one, other in combinations(range(len(nodes)), 2):
        if one not in list_around(nodes, other) and other not in list_around(nodes, one):
            assert not overlap(layout.places[one], layout.places[other]), (one, other)


@given(graphs())
def test_w32_nodes_never_overlap_and_stand_inside_their_boxes(graph):
    nodes, edges = graph
    check_places(nodes, lay_out(nodes, edges))


@given(graphs())
def test_w32_equal_graphs_are_laid_out_equally(graph):
    assert lay_out(*graph) == lay_out(*graph)


@given(graphs(is_flat=True))
def test_w32_edges_go_to_the_right(graph):
    nodes, edges = graph
    layout = lay_out(nodes, edges)
    for edge, way in zip(edges, layout.ways, strict=True):
        if edge.source != edge.target:
            source, target = layout.places[edge.source], layout.places[edge.target]
            assert source.x + source.width <= target.x
            xs = way[::2]
            assert all(one <= other for one, other in pairwise(xs))
            assert (xs[0], xs[-1]) == (source.x + source.width, target.x)


@given(graphs(), st.data())
def test_w32_a_layout_goes_on_from_an_earlier_one_without_overlaps(graph, data):
    nodes, edges = graph
    number = data.draw(st.integers(1, len(nodes)))
    before = lay_out(nodes[:number], [edge for edge in edges if max(edge[:2]) < number])
    after = lay_out(nodes, edges, before.inner)
    check_places(nodes, after)
    assert lay_out(nodes, edges, after.inner).places == after.places


@given(graphs(is_flat=True), st.data())
def test_w32_what_is_new_moves_nothing_that_was_there(graph, data):
    nodes, edges = graph
    number = data.draw(st.integers(1, len(nodes)))
    before = lay_out(nodes[:number], [edge for edge in edges if max(edge[:2]) < number])
    after = lay_out(nodes, edges, before.inner)
    assert after.places[:number] == before.places


def test_w32_a_box_that_grows_moves_only_what_it_would_cover():
    flat = [Node(name, None, WIDTH, HEIGHT) for name in ("asks", "below", "beside", "after")]
    edges = [Edge(0, 3), Edge(1, 3), Edge(2, 3)]
    before = lay_out(flat, edges)
    grown = lay_out([*flat, Node("helper", 0, WIDTH, HEIGHT)], [*edges, Edge(0, 4)], before.inner)
    assert [place.x for place in grown.places[:3]] == [0, 0, 0]
    assert grown.places[0][:2] == before.places[0][:2]
    assert grown.places[1].y == grown.places[0].y + grown.places[0].height + GAP_Y
    assert grown.places[2].y == grown.places[1].y + HEIGHT + GAP_Y
    assert grown.places[3].y == before.places[3].y


def test_w32_a_chain_is_a_straight_line():
    nodes = [Node(f"n{number}", None, WIDTH, HEIGHT) for number in range(12)]
    layout = lay_out(nodes, [Edge(number, number + 1) for number in range(11)])
    assert {place.y for place in layout.places} == {0}


def test_w32_no_line_crosses_another_where_that_can_be():
    nodes = [Node(name, None, WIDTH, HEIGHT) for name in "abcdef"]
    layout = lay_out(nodes, [Edge(0, 5), Edge(1, 4), Edge(2, 3)])
    tops = [place.y for place in layout.places]
    assert (tops[0] < tops[1] < tops[2]) == (tops[5] < tops[4] < tops[3])


@pytest.mark.parametrize("count", [1, 2, 300])
def test_w32_nodes_without_edges_stand_in_a_block(count):
    layout = lay_out([Node(f"n{number}", None, WIDTH, HEIGHT) for number in range(count)], [])
    assert len(set(layout.places)) == count
    assert layout.width < 4 * layout.height + WIDTH
    assert layout.height < 4 * layout.width


def test_w32_many_between_the_same_two_stand_in_a_block():
    nodes = [Node(f"n{number}", None, WIDTH, HEIGHT) for number in range(102)]
    edges = [edge for number in range(1, 101) for edge in (Edge(0, number), Edge(number, 101))]
    layout = lay_out(nodes, edges)
    assert layout.height < 20 * HEIGHT
    check_places(nodes, layout)


def test_w32_a_cycle_is_laid_out_with_one_edge_that_goes_back():
    nodes = [Node(name, None, WIDTH, HEIGHT) for name in "abc"]
    layout = lay_out(nodes, [Edge(0, 1), Edge(1, 2), Edge(2, 0)])
    assert layout.places[0].x < layout.places[1].x < layout.places[2].x


def test_w32_nothing_is_laid_out_as_nothing():
    assert lay_out([], []).places == ()


def test_w32_a_new_node_low_in_a_column_moves_no_column_for_what_stands_beside_it():
    nodes = [Node(f"n{number}", None, WIDTH, HEIGHT) for number in range(13)]
    edges = [Edge(0, 1, has_words=True), Edge(1, 2)]
    before = lay_out(nodes[:12], edges)
    after = lay_out(nodes, [*edges, Edge(1, 12)], before.inner)
    assert after.places[:12] == before.places
