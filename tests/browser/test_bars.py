"""The bars on the page are the spans of the frames: read back from the canvas of generated runs (W1, W2, W8)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import wait_for_picture, wait_until_measured
from tests.browser.lab import ROOT, photograph, wait_for, wait_for_text
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    import pandas as pd
    from playwright.sync_api import Browser, Page, Route

STATIC: Final = ROOT / "ensemble_notebook" / "static"
ADDRESS: Final = "http://view.test/"
MARGIN_PX: Final = 20  # of a finished run, right of its end
WIDE_PX: Final = 6
PAGE: Final = """<!doctype html><link rel="stylesheet" href="timeline.css"><body style="margin:0;background:#fff">
<div id="place"></div><script type="module">
import { keepLateTexts, renderSaved } from "./timeline.js";
const late = ["details", "explorer", "views"].map(async (name) => (await fetch(`./${name}.js`)).text());
keepLateTexts(...(await Promise.all(late)));
window.show = (content) => renderSaved(document.getElementById("place"), content);
document.body.dataset.ready = "true";
</script>"""

_READ: Final = """() => {
  const canvas = document.querySelector(".et-canvas");
  return { width: canvas.getBoundingClientRect().width, bars: canvas.listBars() };
}"""
# The colour at points of the canvas, in points of the page.
_COLORS: Final = """points => {
  const canvas = document.querySelector(".et-canvas");
  const ctx = canvas.getContext("2d");
  const ratio = canvas.width / canvas.getBoundingClientRect().width;
  return points.map(([x, y]) => [...ctx.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data]);
}"""
_HUES: Final = {"llm": (0x5B, 0x5B, 0xD6), "attempt": (0x5B, 0x5B, 0xD6), "tool": (0x0E, 0x98, 0xA0)}


def make_run(seed: int) -> TraceFold:
    """Tasks that read each other, with tools side by side, retries, delegations and handlers."""
    rand = random.Random(seed)
    names = [f"task {number}" for number in range(rand.randint(3, 5))]
    tasks = {name: rand.sample(names[:place], rand.randint(0, min(place, 2))) for place, name in enumerate(names)}
    roles = {name: rand.choice(["Ana", "Bo", "Handler"]) for name in names}
    build = EventBuilder(tasks, agents=roles)
    ends: dict[str, float] = {}
    for name, reads in tasks.items():
        build.now_s = max((ends[each] for each in reads), default=0.0)
        with build.task(name):
            if roles[name] == "Handler":
                build.wait(rand.uniform(0.01, 4))
            else:
                for number in range(rand.randint(1, 3)):
                    write_turn(build, rand, number + 1)
        ends[name] = build.now_s
    build.now_s = max(ends.values())
    return TraceFold.from_events(build.finish())


def write_turn(build: EventBuilder, rand: random.Random, number: int) -> None:
    with build.turn(number):
        tools = [f"tool_{letter}" for letter in "abc"[: rand.randint(0, 3)]]
        retries = [("429", rand.uniform(0.1, 1))] if rand.random() < 0.3 else []
        build.llm("Done.", asks=tools, seconds=rand.uniform(0.02, 3), retries=retries)
        for tool in build.beside(tools):
            build.tool(tool, seconds=rand.uniform(0.005, 2))
        if rand.random() < 0.3:
            with build.delegate("Cy", seconds=0.1), build.turn(1):
                build.llm("Helped.", seconds=rand.uniform(0.2, 2))


@pytest.fixture(scope="module", params=[1, 2], ids=["1x", "2x"])
def screen(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A page on a screen of one or two pixels to the point, with our files alone; no request leaves the browser."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, device_scale_factor=request.param)
    page = context.new_page()

    def answer(route: Route) -> None:
        name = route.request.url.removeprefix(ADDRESS)
        if name == "":
            route.fulfill(body=PAGE, content_type="text/html")
        elif (STATIC / name).is_file():
            route.fulfill(path=STATIC / name)
        else:
            route.fulfill(status=404)

    page.route("**/*", answer)
    yield page
    context.close()


@pytest.fixture
def view_page(screen: Page) -> Page:
    """The built view alone."""
    screen.mouse.move(0, 0)
    screen.goto(ADDRESS)
    screen.wait_for_selector("body[data-ready]", state="attached")
    return screen


def show(page: Page, fold: TraceFold) -> tuple[float, list[dict[str, Any]]]:
    """Show a finished run; gives the width of the chart and the bars in it."""
    content = json.loads(json.dumps(TimelineMessages(fold).make_saved_view(2_000_000)))
    page.evaluate("content => show(content)", content)
    wait_until_measured(page)
    wait_for_picture(page)
    read = page.evaluate(_READ)
    return read["width"], read["bars"]


def describe_drawn(spans: pd.DataFrame) -> pd.DataFrame:
    """The spans that have bars: a call that was tried again is drawn by its attempts, a tool that hands on by that."""
    retried = spans[(spans.kind == "llm") & (spans.attempt > 1)].index
    around = spans.parent_id[spans.kind == "delegation"]
    is_bar = spans.kind.isin(["tool", "delegation"]) | ((spans.kind == "llm") & ~spans.index.isin(retried))
    is_bar |= (spans.kind == "attempt") & spans.parent_id.isin(retried)
    is_bar |= (spans.kind == "task") & (spans.agent == "Handler")
    return spans[is_bar & ~spans.index.isin(around)]


@pytest.mark.parametrize("seed", range(4))
def test_bars_stand_where_the_frames_say_within_a_pixel(view_page: Page, seed: int) -> None:
    fold = make_run(seed)
    width, bars = show(view_page, fold)
    spans = Frames(fold).spans
    scale = (width - MARGIN_PX) / spans.loc[fold.run.span_id, "duration_ms"]
    starts, ends = spans.start_ms * scale, (spans.start_ms + spans.duration_ms) * scale
    drawn = {bar["span"]: bar for bar in bars if bar["shape"] not in {"wait", "backoff", "queue", "bead", "notch"}}
    for span_id, bar in drawn.items():
        assert bar["x"] == pytest.approx(starts[span_id], abs=1), bar
        assert bar["x"] + bar["w"] == pytest.approx(max(ends[span_id], starts[span_id] + 2), abs=1.01), bar
    wanted = describe_drawn(spans)
    wide = wanted.index[(ends - starts)[wanted.index] > WIDE_PX]
    assert len(wide) > 3
    assert set(wide) <= set(drawn)
    photograph(f"bars-{seed}", view_page.locator(".ensemble-timeline"))


@pytest.mark.parametrize("seed", range(4))
def test_the_pixels_of_the_canvas_are_those_of_the_bars(view_page: Page, seed: int) -> None:
    fold = make_run(seed)
    _, bars = show(view_page, fold)
    statuses = Frames(fold).spans.status
    plain = [bar for bar in bars if bar["shape"] in _HUES and statuses[bar["span"]] == "ok" and bar["w"] > WIDE_PX]
    assert len(plain) > 1
    # Model calls are the upper part of a lane and tools the lower one, so that each shows where the other is not.
    inside = [(bar["x"] + bar["w"] / 2, bar["y"] + (1.5 if bar["shape"] != "tool" else bar["h"] - 2)) for bar in plain]
    for bar, color in zip(plain, view_page.evaluate(_COLORS, inside), strict=True):
        assert all(abs(seen - hue) <= 12 for seen, hue in zip(color[:3], _HUES[bar["shape"]], strict=True)), (
            bar,
            color,
        )
    alone = [bar for bar in plain if not any(is_close_before(other, bar) for other in bars)]
    assert alone
    for offset, is_inside in ((-1.5, False), (1.5, True)):
        points = [(bar["x"] + offset, bar["y"] + bar["h"] / 2) for bar in alone]
        for bar, color in zip(alone, view_page.evaluate(_COLORS, points), strict=True):
            is_hue = all(abs(seen - hue) <= 12 for seen, hue in zip(color[:3], _HUES[bar["shape"]], strict=True))
            assert is_hue is is_inside, (bar, offset, color)


def test_very_many_thin_bars_of_a_row_are_each_in_the_picture(view_page: Page) -> None:
    build = EventBuilder({"task": []}, agents={"task": "Ana"})
    with build.task("task"):
        for number in range(150):
            with build.turn(number + 1):
                build.llm("Done.", seconds=0.05)
            build.wait(0.05)
    _, bars = show(view_page, TraceFold.from_events(build.finish()))
    thin = [bar for bar in bars if bar["shape"] == "llm" and bar["isThin"]]
    assert len(thin) == 150
    inside = [(bar["x"] + bar["w"] / 2, bar["y"] + down) for bar in thin for down in (0.5, bar["h"] - 1)]
    for color in view_page.evaluate(_COLORS, inside):
        assert tuple(color[:3]) == _HUES["llm"]
    between = [(bar["x"] + bar["w"] + 1.5, bar["y"] + bar["h"] / 2) for bar in thin]
    around = [(bar["x"] + bar["w"] / 2, bar["y"] + down) for bar in thin for down in (-1, bar["h"] + 0.5)]
    for color in view_page.evaluate(_COLORS, between + around):
        assert tuple(color[:3]) != _HUES["llm"]


def is_close_before(other: dict[str, Any], bar: dict[str, Any]) -> bool:
    """Whether another bar, and not the frame around it, covers the point before a bar."""
    if other is bar or other["shape"] == "task":
        return False
    is_beside = other["y"] < bar["y"] + bar["h"] and other["y"] + other["h"] > bar["y"]
    return bool(is_beside and other["x"] <= bar["x"] + 2 and other["x"] + other["w"] > bar["x"] - 4)


def test_a_tooltip_never_covers_what_it_explains_by_pointer_or_keys(view_page: Page) -> None:
    _, bars = show(view_page, make_run(1))
    canvas = view_page.locator(".et-canvas").bounding_box()
    tip = view_page.locator(".et-tooltip")
    stage = {bar["span"]: bar for bar in bars if bar["shape"] in {*_HUES, "work", "delegation"} and bar["w"] > WIDE_PX}
    for bar in stage.values():
        view_page.mouse.move(canvas["x"] + bar["x"] + bar["w"] / 2, canvas["y"] + bar["y"] + bar["h"] / 2)
        wait_for_picture(view_page)  # until then it is still that of the last bar
        tip.wait_for()
        wait_for(lambda bar=bar: not overlap(tip.bounding_box(), moved(bar, canvas)), 30, lambda bar=bar: str(bar))
    view_page.mouse.move(5, 5)
    tip.wait_for(state="detached")
    view_page.locator(".et-gutter").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        view_page.keyboard.press(key)
    tip.wait_for()
    wait_for_picture(view_page)
    first_call = min((bar for bar in bars if bar["shape"] == "llm"), key=lambda bar: (bar["y"], bar["x"]))
    wait_for_text(tip, "turn 1")
    wait_for(lambda: not overlap(tip.bounding_box(), moved(first_call, canvas)), 30)
    photograph("tooltip-keys", view_page.locator(".ensemble-timeline"))


def test_of_a_thousand_tasks_only_the_rows_in_sight_are_in_the_page_and_those_that_are_done_fold(
    view_page: Page,
) -> None:
    build = EventBuilder({f"task {number}": [] for number in range(1000)})
    for number in build.beside(range(1000)):
        with build.task(f"task {number}"):
            build.wait(1 + number % 7)
            if number == 600:
                build.fail(ValueError("no"))
    show(view_page, TraceFold.from_events(build.finish()))
    rows = view_page.locator(".et-row")
    wait_for(lambda: 5 < rows.count() < 40, 30)
    wait_for_text(rows.first, "999 done, 1 failed")
    expect(rows.first).to_have_attribute("data-status", "error")
    rows.first.locator(".et-fold").click()
    expect(view_page.locator(".et-row .et-title")).to_have_text(["999 done, 1 failed", "task 600"])
    photograph("thousand-folded", view_page.locator(".ensemble-timeline"))


def moved(bar: dict[str, Any], canvas: Any) -> dict[str, float]:
    return {"x": canvas["x"] + bar["x"], "y": canvas["y"] + bar["y"], "width": bar["w"], "height": bar["h"]}


def overlap(one: Any, other: Any) -> bool:
    """Whether two rectangles have more than a border in common."""
    across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
    return across > 0.5 and down > 0.5
