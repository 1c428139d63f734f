"""A plan as a graph (W32): cards and boxes where the run will fill them, with lines between them.

Where styles are taken away, as on GitHub, the words of the nodes are left, one below the other, and nothing of the
lines: these alone are SVG, and hold no word. Colours are those of the page around, so that light and dark both do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from ensemble_notebook.domain.outputs.cost_estimate import TaskEstimate
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.domain.planning.graph_layout import LABEL_GAP
from ensemble_notebook.domain.planning.graph_ways import Place, to_path
from ensemble_notebook.domain.planning.shown_graph import (
    HEADS,
    HEIGHT,
    ShownEdge,
    ShownGraph,
    ShownNode,
    add_plan,
    fold_many,
    make_key,
)
from ensemble_notebook.domain.wording import format_count, format_money, pluralize
from ensemble_notebook.notebook.picture import html_table as html

MOST_DRAWN: Final = 100
"""More nodes than these are drawn as groups: a notebook keeps every card."""
LONGEST: Final = 120

_LINE: Final = "rgba(128,128,128,0.9)"
_ONE_LINE: Final = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
_BOX: Final = "border-radius:8px;border:1px solid rgba(128,128,128,0.35);background:rgba(128,128,128,0.07)"
_CARD: Final = "border-radius:6px;border:1px solid rgba(128,128,128,0.6);background:rgba(128,128,128,0.1)"
_PLANNED: Final = _CARD.replace("solid", "dashed")
_ROOM: Final = 22
"""Above all of it, for a loop and its words."""


def draw_plan(plan: ExecutionPlan) -> html.Html:
    """The graph of a plan, with agents, models, tools, conditions and what each task is likely to cost."""
    graph = ShownGraph()
    add_plan(graph, plan)
    graph = fold_many(graph, most=MOST_DRAWN)
    layout = graph.lay_out()
    places = dict(zip(graph.nodes, layout.places, strict=True))
    tools = {} if plan.preview is None else plan.preview.tools
    estimate = None if plan.preview is None else plan.preview.estimate
    costs = {} if estimate is None else _describe_costs(estimate.tasks, estimate.currency)
    edges = [*zip(graph.edges.values(), layout.ways, strict=True)]
    size = f"width:{layout.width + 2}px;height:{layout.height + _ROOM + 2}px"
    svg = html.tag(
        "svg",
        *(path for edge, way in edges for path in _draw_line(edge, way)),
        style=f"position:absolute;left:0;top:{_ROOM}px;overflow:visible",
        width=str(layout.width),
        height=str(layout.height),
        aria_hidden="true",
    )
    drawn: list[html.Html] = []
    for key in _list_in_order(graph):  # as it is read without styles
        drawn.append(_draw_node(graph.nodes[key], places[key], tools, costs))
        drawn += [_draw_words(edge, way, places[key]) for edge, way in edges if edge.words and edge.target == key]
    drawing = html.tag("div", svg, *drawn, style=f"position:relative;{size};font-size:12px;line-height:1.4")
    facts = []
    if estimate is not None and estimate.cost is not None and estimate.llm_calls.high:
        facts.append(f"likely cost: {estimate.describe_cost()}")
    if estimate is not None and estimate.servers:
        facts.append(f"asks {', '.join(estimate.servers)}")
    if graph.note:
        facts.append(f"{graph.note}: more than a picture holds")
    said = [html.tag("div", html.faint(text)) for text in facts]
    return html.join(*said, html.tag("div", drawing, style="overflow-x:auto;margin:6px 0"))


def _list_in_order(graph: ShownGraph, parent: str | None = None) -> Iterable[str]:
    """The keys of the nodes in a box, or of all, each followed by what is in it."""
    for node in graph.nodes.values():
        if node.parent == parent:
            yield node.key
            yield from _list_in_order(graph, node.key)


def _draw_node(
    node: ShownNode, place: Place, tools: Mapping[str, tuple[str, ...]], costs: Mapping[str, str]
) -> html.Html:
    where = f"position:absolute;box-sizing:border-box;left:{place.x}px;top:{place.y + _ROOM}px;width:{place.width}px"
    style = f"{where};height:{place.height}px;padding:5px 9px"
    count = f" x {node.count:,}" if node.count is not None else " x ?" if node.is_many else ""
    title = f"{_cut(node.title)}{count}"
    is_around = node.kind in HEADS or place.height != HEIGHT
    settings = [" ", html.faint(node.settings)] if is_around and node.settings else []
    whole = " ".join(filter(None, [title, node.settings if is_around else ""]))
    lines = [html.tag("div", html.tag("strong", title), *settings, style=_ONE_LINE, title=whole)]
    if node.kind in HEADS:
        return html.tag("div", *lines, style=f"{style};{_BOX}")
    used = ", ".join(tools.get(node.agent, ()))
    below = " · ".join(filter(None, [costs.get(node.key, ""), used, "" if is_around else node.settings]))
    lines += [
        html.tag("div", text, style=f"{_ONE_LINE};{html.FAINT}", title=text)
        for text in (node.agent, node.model, below)
        if text
    ]
    look = _PLANNED if node.kind == "written" else _BOX if is_around else _CARD
    return html.tag("div", *lines, style=f"{style};{look}")


def _draw_words(edge: ShownEdge, way: tuple[int, ...], target: Place) -> html.Html:
    """The words of an edge: before its end, or of a loop above its box."""
    if edge.source == edge.target:
        where = f"left:{target.x + 8}px;width:{target.width - 76}px;top:{target.y + 1}px;text-align:right"
    else:
        x, y = way[-2:]
        where = f"left:{x - LABEL_GAP + 6}px;width:{LABEL_GAP - 20}px;top:{y + _ROOM - 19}px;text-align:right"
    style = f"position:absolute;{where};{_ONE_LINE};font-size:11px;font-style:italic"
    words = edge.words if edge.kind in ("loop", "round") else f"if {edge.words}"
    return html.tag("div", _cut(words), style=style, title=_cut(words))


def _draw_line(edge: ShownEdge, way: tuple[int, ...]) -> Iterable[html.Html]:
    """A line as a path of SVG, and a head where it ends."""
    x, y = way[-2:]
    is_loop = edge.kind == "loop"
    dashed = ' stroke-dasharray="4 4"' if edge.kind in ("order", "condition") else ""
    head = f"M{x - 4} {y - 6}l4 6 4-6" if is_loop else f"M{x - 6} {y - 4}l6 4-6 4"
    for path, look in ((to_path(way, is_loop=is_loop), dashed), (head, "")):
        yield html.Html(f'<path d="{path}" fill="none" stroke="{_LINE}" stroke-width="1.5"{look}></path>')


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _describe_costs(tasks: Iterable[TaskEstimate], currency: str, scope: str = "") -> dict[str, str]:
    """What each task is likely to cost, by the key of its node; of those that ask a model, of variants each its own."""
    found: dict[str, str] = {}
    for task in tasks:
        key = make_key("task", task.name, scope)
        said = {key: _describe_cost(task, currency)} if task.llm_calls.likely else {}
        for each, cost in (*said.items(), *_describe_costs(task.tasks, currency, key).items()):
            found[each] = f"{found[each]} + {cost}" if each in found else cost
    return found


def _describe_cost(task: TaskEstimate, currency: str) -> str:
    if task.cost is not None and task.cost.likely > Decimal(0):
        return f"≈ {format_money(task.cost.likely, currency)}"
    tokens = task.total_tokens.likely
    return f"≈ {format_count(tokens)} tokens" if tokens else pluralize(task.llm_calls.likely, "call")
