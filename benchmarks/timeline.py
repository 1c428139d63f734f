"""What the view of a run costs the main thread of a page, in the system's headless Chromium without a GPU.

The view is the built one, fed by the model that stands in for a kernel on the page of ``js/dev``, where `measure.js`
does what is measured. Beside each is the same on a chart without bars. The cost of a frame is CPU time of the page's
main thread from one frame to the next, scripts, styles, painting and garbage included, as the browser records it: the
wall clock would count what else runs on the machine. Of a batch, it is that of the scripts. First paint is by the wall
clock.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.row import Row
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    from playwright.sync_api import Page

_ROOT: Final = Path(__file__).parents[1]
_CHROMIUM: Final = os.environ.get("ENSEMBLE_NOTEBOOK_CHROMIUM", "/usr/bin/chromium")
_FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_EMPTY: Final = (1, 0)
_DRESSED: Final = {"columns": ["input", "output", "calls", "time"], "lane": "work", "paint": "agent"}
_ALL: Final = frozenset({"ThreadControllerImpl::RunTask"})
_SCRIPTS: Final = frozenset(
    {"FunctionCall", "FireAnimationFrame", "TimerFire", "EventDispatch", "RunMicrotasks", "HandlePostMessage", "v8.run"}
)


def measure(*, quick: bool) -> list[Row]:
    some, many = ((5, 20), (5, 40)) if quick else ((100, 100), (100, 1000))
    one = (1, 200) if quick else (1, 10_000)
    mapped = (20, 3) if quick else (2500, 3)
    with _opened(quick=quick) as page:
        ask = functools.partial(_ask, page)
        ask("firstPaint", *some)  # to warm up
        first, bare = ask("firstPaint", *some), ask("firstPaint", *_EMPTY)
        panning, bare_panning = _frames(page, "pan", *many), _frames(page, "pan", *_EMPTY)
        by_agent, anew = _frames(page, "pan", *some, "Agent"), _frames(page, "group", *some)
        playhead, bare_playhead = _frames(page, "playhead", *some), _frames(page, "playhead", 1, 1)
        live = _frames(page, "live", *some)
        batch, alone, bare_batch = (_frames(page, "batch", *shape, names=_SCRIPTS) for shape in (some, one, (1, 1)))
        cells = (5, 3) if quick else (2_500, 3)
        ask("gridOpened", *cells)  # to warm up
        grid, bare_grid = ask("gridOpened", *cells), ask("gridOpened", 1, 1)
        lines = 20 if quick else 10_000
        scroll, bare_scroll = _frames(page, "scrollTable", lines), _frames(page, "scrollTable", 1)
        rows, few = _frames(page, "pageDown", one[1], 1)[95], _frames(page, "pageDown", 5, 1)[95]
        pan = [
            max(_list_costs(page, "first", *shape, noun, "pan")) for shape, noun in ((some, "task"), (mapped, "row"))
        ]
        opened = [
            *(max(_list_costs(page, "first", *some, "task", what)) for what in ("drawer", "table", "search")),
            *(max(_list_costs(page, "first", *mapped, "row", what)) for what in ("rows", "drawer")),
        ]
        bare_first = max(_list_costs(page, "first", *_EMPTY, "task", "pan"))
        graphs = [_make_graph(count) for count in ((30, 1) if quick else (300, 1))]
        ask("graphOpened", *graphs[0])  # to warm up
        graph, bare_graph = (ask("graphOpened", *each) for each in graphs)
        lit, bare_lit = (_frames(page, "graphLive", *each) for each in graphs)
        stage, streams = (_make_graph(8), 2) if quick else (_make_graph(40), 8)
        spoken = _frames(page, "streams", *stage, streams)
        barred = _frames(page, "streams", stage[0], None, streams)
        rest = ask("callbacksAtRest", *some, 1 if quick else 3)
        page.evaluate("look => sessionStorage.setItem('ensemble-timeline-look', look)", json.dumps(_DRESSED))
        dressed, dressed_live = _frames(page, "pan", *many), _frames(page, "live", *some)
    cell_count = f"{cells[0] * (cells[1] + 1):,}"  # a cell for the row itself, too
    nodes = 30 if quick else 300
    n, all_spans = f"{_count(some):,}", f"{_count(many):,}"
    return [
        _row(f"first paint of {n} spans", first, bare, most=150),
        _row(f"a frame, panning {all_spans} spans, p50, CPU", panning[50], bare_panning[50], most=8),
        _row(f"a frame, panning {all_spans} spans, p95, CPU", panning[95], bare_panning[95], most=16),
        _row(f"a frame, panning {n} spans by agent, p95, CPU", by_agent[95], bare_panning[95], most=16),
        _row(f"a frame, {n} spans grouped anew, p95, CPU", anew[95], bare_panning[95], most=100),
        _row(f"a frame, dragging the playhead of {n} spans, p95, CPU", playhead[95], bare_playhead[95], most=16),
        _row(f"a frame, {n} spans come live, p95, CPU", live[95], bare_panning[95], most=33),
        _row(
            f"the same with columns, lane and colours, panning {all_spans} spans",
            dressed[95],
            bare_panning[95],
            most=16,
        ),
        _row(f"the same, {n} spans come live", dressed_live[95], bare_panning[95], most=33),
        _row(f"a batch of 200 in {n}, {some[0]} tasks, CPU", batch[50], bare_batch[50], most=4),
        _row(f"a batch of 200 in {_count(one):,}, one task, CPU", alone[50], bare_batch[50], most=4),
        _row(f"grid of {cell_count} cells, opened", grid, bare_grid, beside="a grid of one cell", most=250),
        _row(
            f"a frame, scrolling {lines:,} rows of a map, p95, CPU",
            scroll[95],
            bare_scroll[95],
            beside="a map of one row",
            most=16,
        ),
        _row(f"PageDown through {one[1]:,} rows, p95, CPU", rows, few, beside="five rows", most=25),
        _row(f"the longest frame of a first pan of {n} spans, CPU", max(pan), bare_first, most=100),
        _row(f"the longest frame of a first opening in {n}, CPU", max(opened), bare_first, most=100),
        _row(f"graph of {nodes} nodes, opened", graph, bare_graph, beside="a graph of one node", most=250),
        _row(
            f"a frame, a graph of {nodes} nodes live, p95, CPU",
            lit[95],
            bare_lit[95],
            beside="a graph of one node",
            most=16,
        ),
        _row(
            f"a frame, a graph of {len(stage[0]['rows'])} nodes, {streams} replies come, p95, CPU",
            spoken[95],
            barred[95],
            beside="the same as bars",
            most=8,
            most_ratio=1.2,
        ),
        _row("callbacks of a finished run at rest", rest, 0.0, unit="", most=0),
    ]


def _make_graph(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run of so many tasks, each of which reads two others, as views are told of it, and its graph."""
    reads = {
        f"task {number}": [f"task {number - back}" for back in (9, 17) if number >= back] for number in range(count)
    }
    build = EventBuilder(reads)
    messages = TimelineMessages(TraceFold.from_events(build.events), lambda: build.now)
    return messages.make_snapshot(), messages.make_graph()


def _count(shape: tuple[int, int]) -> int:
    return shape[0] * shape[1]


def _row(
    what: str,
    ours: float,
    floor: float,
    *,
    unit: str = "ms",
    beside: str = "an empty chart",
    most: float,
    most_ratio: float | None = None,
) -> Row:
    ratio = ours / floor if floor else 1.0
    return Row(
        what=what, ours=ours, floor=floor, beside=beside, unit=unit, ratio=ratio, most=most, most_ratio=most_ratio
    )


def _ask(page: Page, name: str, *values: Any) -> Any:
    return page.evaluate(f"values => measure.{name}({{ widget, FakeModel, place }}, ...values)", list(values))


def _frames(page: Page, name: str, *values: Any, names: frozenset[str] = _ALL) -> dict[int, float]:
    """The 50th and 95th percentile of main-thread CPU from mark to mark, in ms, while the page does this."""
    costs = sorted(_list_costs(page, name, *values, names=names))
    return {share: costs[min(len(costs) - 1, len(costs) * share // 100)] for share in (50, 95)}


def _list_costs(page: Page, name: str, *values: Any, names: frozenset[str] = _ALL) -> list[float]:
    return record_costs(page, lambda: _ask(page, name, *values), names)


def record_costs(page: Page, act: Callable[[], object], names: frozenset[str] = _ALL) -> list[float]:
    """What each frame but the first ones, in which the chart is made, cost the main thread, in ms of CPU.

    Args:
        page: that is looked at.
        act: has it do something, with a mark called ``frame`` before each frame.
        names: of the recorded parts that count; of one inside another, the outer.
    """
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["-*", "toplevel", "blink.user_timing", "devtools.timeline"])
    act()
    events = json.loads(browser.stop_tracing())["traceEvents"]
    marks = [each for each in events if each["name"] == "frame" and "user_timing" in each["cat"]]
    thread = (marks[0]["pid"], marks[0]["tid"])
    starts = sorted(each["ts"] for each in marks)
    costs = [0.0] * (len(starts) + 1)
    parts = [each for each in events if each["name"] in names and (each["pid"], each["tid"]) == thread]
    end = 0.0
    for each in sorted(parts, key=lambda part: (part["ts"], -part.get("dur", 0))):
        # The mark stands in the task that began the frame, so that the task counts where it ends. A task in which the
        # recording began has no CPU time of its own.
        length = each.get("dur", 0)
        if each["ts"] + length > end:
            end = each["ts"] + length
            costs[bisect_right(starts, end)] += each.get("tdur", length) / 1000
    return costs[3:-1]


@contextlib.contextmanager
def _opened(*, quick: bool) -> Iterator[Page]:
    """The page, at the size of a wide notebook on a screen of two pixels to the point."""
    from playwright.sync_api import sync_playwright

    with _serving() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 700}, device_scale_factor=2)
        page.goto(f"{address}/js/dev/index.html?empty" + "&quick" * quick)
        page.wait_for_selector("body[data-ready]")
        yield page
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *values: object) -> None:
        """Say nothing between the rows."""


@contextlib.contextmanager
def _serving() -> Iterator[str]:
    """The repository, on loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(_ROOT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
